//! Jobs that a process may know of.
use std::collections::BTreeSet;

use super::{Job, Jobs};
use crate::data::{Nspace, Proc};
use crate::server::ctx::Ctx;

impl Jobs {
    /// Returns the jobs that a process may know of: those of its own user; all for root, the server's user and its
    /// program.
    pub fn visible_to(&self, cx: &Ctx, asker: &Proc) -> BTreeSet<&Nspace> {
        let (user, sees_all) = (self.user_of(cx, asker), self.sees_all(cx, asker));
        self.seen_by(|owner| sees_all || Some(owner) == user)
    }

    /// Returns whether a process may know of everything: one of root, of the server's user, or its program.
    pub fn sees_all(&self, cx: &Ctx, asker: &Proc) -> bool {
        self.user_of(cx, asker).is_some_and(|user| user == 0 || user == cx.identity.uid)
    }

    fn user_of(&self, cx: &Ctx, asker: &Proc) -> Option<u32> {
        match self.client(asker) {
            Some(client) => Some(client.uid),
            None => (*asker == cx.identity.proc).then_some(cx.identity.uid),
        }
    }

    /// Returns the jobs of users that may be seen. Namespaces that the server has registered for tools are none of them.
    pub fn seen_by(&self, may_see: impl Fn(u32) -> bool) -> BTreeSet<&Nspace> {
        let is_seen = |job: &Job| !job.of_tools && job.clients.values().all(|client| may_see(client.uid));
        self.all().filter(|(_, job)| is_seen(job)).map(|(nspace, _)| nspace).collect()
    }
}
