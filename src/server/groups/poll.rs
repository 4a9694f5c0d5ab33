//! Polls: the processes of this node that a server on another node asks who leads in place of the dead, or whether a
//! group is to be made without a dead member.
//!
//! They [vote](super::vote) here, and this server answers for all of them together.
use std::collections::BTreeMap;

use super::floor::Floor;
use super::message::Message;
use super::vote::Subject;
use crate::data::{Nspace, Proc, Status};
use crate::message::Decision;

/// A poll under way.
#[derive(Debug)]
struct Poll {
    polled: Vec<Proc>,
    candidate: Option<Proc>,
}

/// The polls that are under way, by group and the dead.
#[derive(Debug, Default)]
pub struct Polls(BTreeMap<(Nspace, Proc), Poll>);

impl Polls {
    /// A server on another node asks these processes by an event of this code. Returns their vote.
    pub fn call(
        &mut self,
        floor: &mut Floor<'_>,
        id: &Nspace,
        dead: &Proc,
        (asked, event): (&[Proc], Status),
    ) -> Option<u64> {
        let polled: Vec<Proc> = floor.jobs.each(asked).into_iter().filter(|proc| floor.jobs.runs_here(proc)).collect();
        if polled.is_empty() {
            return None;
        }
        let subject = Subject::Poll(id.clone(), dead.clone());
        floor.votes.close(&subject);
        let voters = floor.voters(&polled, event);
        let vote = floor.votes.open(subject, voters);
        self.0.insert((id.clone(), dead.clone()), Poll { polled, candidate: None });
        self.go_on(floor, id, dead);
        vote
    }

    /// A process here has voted about the death of a leader or a member elsewhere.
    pub fn voted(&mut self, floor: &mut Floor<'_>, (id, dead): (&Nspace, &Proc), proc: &Proc, decision: &Decision) {
        let Some(poll) = self.0.get_mut(&(id.clone(), dead.clone())) else { return };
        if decision.lead {
            poll.candidate.get_or_insert(proc.clone());
        }
        if decision.abort {
            floor.tell(id, proc, vec![dead.clone()], &Message::Aborted, (None, None));
        }
        self.go_on(floor, id, dead);
    }

    /// Answers when nobody has still to decide.
    pub fn go_on(&mut self, floor: &mut Floor<'_>, id: &Nspace, dead: &Proc) {
        if floor.votes.is_open(&Subject::Poll(id.clone(), dead.clone())) {
            return;
        }
        let Some(Poll { polled, candidate }) = self.0.remove(&(id.clone(), dead.clone())) else { return };
        let Some(source) = polled.first().cloned() else { return };
        floor.tell(id, &source, vec![dead.clone()], &Message::Polled(polled, candidate), (None, None));
    }

    /// A namespace is deregistered, and nobody asks for it any more.
    pub fn job_over(&mut self, floor: &mut Floor<'_>, nspace: &Nspace) {
        self.0.retain(|(id, dead), _| {
            let stays = dead.nspace != *nspace;
            if !stays {
                floor.votes.close(&Subject::Poll(id.clone(), dead.clone()));
            }
            stays
        });
    }
}
