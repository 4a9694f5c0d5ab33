//! Names of process sets, and of groups that this process is not in: the server knows for whom they stand.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::collect_small::collect_small;
use crate::data::{Info, Nspace, Proc, Query, Text, Value, keys};
use crate::message::{Forward, Request, namespaces_named};

use super::call::infos;
use super::{Error, Inner};

/// Processes by the names that stand for them.
pub(super) type Members = BTreeMap<Nspace, Vec<Proc>>;

impl Inner {
    /// Puts members in the place of the groups and sets that attributes name, and calls `then` with that: at once,
    /// where this process knows all of the names.
    pub(super) fn with_members(
        self: &Arc<Self>,
        call: &'static str,
        info: Vec<Info>,
        then: impl FnOnce(Vec<Info>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let names = self.unknown_names(&info);
        if names.is_empty() || !self.link.can_ask() {
            return then(self.own.groups.translate(&info, &Members::new()));
        }
        let request = Request::Forward(Forward::Query { queries: names.iter().map(members_of).collect() });
        let inner = self.clone();
        self.ask_for(call, &request, infos, move |answer| {
            // Where nobody knows any of the names, they are those of jobs.
            let found = answer.map(|(_, infos)| infos).unwrap_or_default();
            let named = names.into_iter().zip(found);
            let members = collect_small(named.filter_map(|(name, info)| Some((name, info.value.as_procs()?))));
            let _ = then(inner.own.groups.translate(&info, &members));
        })
    }

    /// Returns the names in attributes that are neither those of jobs that are known here nor of groups of this
    /// process.
    fn unknown_names(&self, info: &[Info]) -> BTreeSet<Nspace> {
        let is_job = |name: &Nspace| *name == self.proc.nspace || self.jobs.of(name.as_bytes()).is_some();
        let is_known = |name: &Nspace| name.is_empty() || is_job(name) || self.own.groups.has(name);
        collect_small(namespaces_named(info).filter(|name| !is_known(name)))
    }
}

/// The query for the members of a set or group, which concerns the server alone.
fn members_of(name: &Nspace) -> Query {
    let local = Info::new(keys::QUERY_LOCAL_ONLY, true);
    let qualifiers = vec![Info::new(keys::PSET_NAME, Value::string(name)), local];
    Query { keys: vec![Text::new(keys::QUERY_PSET_MEMBERSHIP).expect("no NUL")], qualifiers }
}
