//! Polls: the processes of this node that a server on another node asks who leads in place of the dead.
//!
//! They [vote](super::vote) here, and this server answers for all of them together.
use std::collections::BTreeMap;

use super::floor::Floor;
use super::message::Message;
use super::vote::Subject;
use crate::data::{Nspace, Proc};
use crate::message::Decision;

/// A poll under way.
#[derive(Debug)]
struct Poll {
    dead: Proc,
    polled: Vec<Proc>,
    candidate: Option<Proc>,
}

/// The polls that are under way, by group.
#[derive(Debug, Default)]
pub struct Polls(BTreeMap<Nspace, Poll>);

impl Polls {
    /// A server on another node asks these processes. Returns their vote.
    pub fn call(&mut self, floor: &mut Floor<'_>, id: &Nspace, dead: &Proc, asked: &[Proc]) -> Option<u64> {
        let polled: Vec<Proc> = floor.jobs.each(asked).into_iter().filter(|proc| floor.jobs.runs_here(proc)).collect();
        if polled.is_empty() {
            return None;
        }
        let subject = Subject::Poll(id.clone());
        floor.votes.close(&subject);
        let voters = floor.voters(&polled, Message::LeaderFailed.event());
        let vote = floor.votes.open(subject, voters);
        self.0.insert(id.clone(), Poll { dead: dead.clone(), polled, candidate: None });
        self.go_on(floor, id);
        vote
    }

    /// A process here has voted about the death of a leader elsewhere.
    pub fn voted(&mut self, floor: &mut Floor<'_>, id: &Nspace, proc: &Proc, decision: &Decision) {
        let Some(poll) = self.0.get_mut(id) else { return };
        if decision.lead {
            poll.candidate.get_or_insert(proc.clone());
        }
        if decision.abort {
            let dead = poll.dead.clone();
            floor.tell(id, proc, vec![dead], &Message::Aborted, (None, None));
        }
        self.go_on(floor, id);
    }

    /// Answers when nobody has still to decide.
    pub fn go_on(&mut self, floor: &mut Floor<'_>, id: &Nspace) {
        if floor.votes.is_open(&Subject::Poll(id.clone())) {
            return;
        }
        let Some(Poll { dead, polled, candidate }) = self.0.remove(id) else { return };
        let Some(source) = polled.first().cloned() else { return };
        floor.tell(id, &source, vec![dead], &Message::Polled(polled, candidate), (None, None));
    }

    /// A namespace is deregistered, and nobody asks for it any more.
    pub fn job_over(&mut self, floor: &mut Floor<'_>, nspace: &Nspace) {
        self.0.retain(|id, poll| {
            let stays = poll.dead.nspace != *nspace;
            if !stays {
                floor.votes.close(&Subject::Poll(id.clone()));
            }
            stays
        });
    }
}
