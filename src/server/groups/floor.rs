//! State that the parts of the groups' room share: the server's lower layers, the groups there are, and the votes.
use super::message::Message;
use super::registry::Registry;
use super::vote::Votes;
use crate::data::{Nspace, Proc, Status};
use crate::message::door::PeerId;
use crate::server::collective::Collectives;
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::event::{AfterRaise, Origin};
use crate::server::jobs::Jobs;

/// State that is lent to each part.
pub struct Floor<'a> {
    pub cx: &'a mut Ctx,
    pub jobs: &'a mut Jobs,
    pub collectives: &'a mut Collectives,
    pub registry: &'a mut Registry,
    pub votes: &'a mut Votes,
}

impl Floor<'_> {
    /// The connections of these processes that have registered for an event's code.
    pub fn hearers(&self, procs: &[Proc], event: Status) -> Vec<PeerId> {
        let peers = procs.iter().filter_map(|proc| self.jobs.client(proc)?.peer);
        peers.filter(|peer| self.cx.subscriptions.wants(*peer, event)).collect()
    }

    /// Returns those of the [`hearers`](Floor::hearers) that can vote on the event.
    pub fn voters(&self, procs: &[Proc], event: Status) -> Vec<PeerId> {
        let votes = |peer: &PeerId| self.cx.peers.get(peer).is_some_and(|entry| entry.capabilities.votes);
        self.hearers(procs, event).into_iter().filter(votes).collect()
    }

    /// Raises the event of a message for these processes, wherever they run. `invitation` is the number
    /// of the one it belongs to.
    pub fn tell(
        &mut self,
        group: &Nspace,
        source: &Proc,
        to: Vec<Proc>,
        message: &Message,
        (vote, invitation): (Option<u64>, Option<u64>),
    ) {
        if to.is_empty() {
            return;
        }
        let event = message.to_event(group, source, to, vote);
        let then = AfterRaise::Group { group: group.clone(), number: invitation, status: event.status };
        self.cx.effect(Effect::Raise { event, origin: Origin::Library, then });
    }
}
