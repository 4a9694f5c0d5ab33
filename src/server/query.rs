//! Queries: what the host answers, and what the server knows where the host does not.
use super::core::Core;
use crate::data::{Proc, Query, Status};
use crate::message::Reply;
use crate::message::door::PeerId;

impl Core {
    /// A client asks something.
    pub(super) fn query(&mut self, peer: PeerId, number: u64, proc: Proc, queries: Vec<Query>) {
        self.pass_on(
            peer,
            number,
            |host, done| host.query(&proc, &queries, done),
            (Status::SUCCESS, Vec::new()),
            |(status, infos)| Reply::Infos(status, infos),
        );
    }
}
