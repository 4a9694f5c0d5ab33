//! One invitation that its leader's server keeps open: who was asked, and what each has answered.
use std::collections::BTreeMap;

use super::election::Election;
use super::message::Answer;
use super::vote::Subject;
use crate::account::Charge;
use crate::data::{Info, Proc};
use crate::server::ctx::peers::Caller;
use crate::server::ctx::timers::TimerId;

/// State of a process that was invited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Asked,
    Accepted,
    Out,
}

/// The way in which a leader goes about its invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// The leader waits for the answer to its request.
    Waits(Caller),
    /// The leader has followed a leader that has died, and has asked for nothing.
    Follows,
    /// The leader counts the answers itself, and says when the group is complete.
    Announces,
}

/// An invitation that its leader's server keeps open.
#[derive(Debug)]
pub struct Invitation {
    pub number: u64,
    pub leader: Proc,
    pub lead: Lead,
    /// Everybody who was to be in the group, in its order, the leader included.
    pub places: Vec<Proc>,
    pub states: BTreeMap<Proc, State>,
    /// Number of those that have not answered.
    pub asked: usize,
    /// Number of processes that were invited instead of others.
    pub substitutes: usize,
    pub info: Vec<Info>,
    /// The election of a leader, while one is under way.
    pub electing: Option<Election>,
    /// Answers that have come meanwhile: the new leader decides about them.
    pub unread: Vec<(Answer, Proc)>,
    /// True if all have answered, and the host is asked for a context id.
    pub complete: bool,
    pub limit: Option<TimerId>,
    /// Charge for its guests to the process that has invited them.
    pub _charge: Option<Charge>,
}

impl Invitation {
    /// The processes that are not out of it, the leader left aside.
    pub fn invited(&self) -> Vec<Proc> {
        let is_in = |proc: &&Proc| **proc != self.leader && self.states.get(proc) != Some(&State::Out);
        self.places.iter().filter(is_in).cloned().collect()
    }

    pub fn subject(&self) -> Subject {
        Subject::Invitation(self.number)
    }

    pub fn set_state(&mut self, proc: &Proc, state: State) {
        let before = self.states.insert(proc.clone(), state);
        self.asked += usize::from(state == State::Asked);
        self.asked -= usize::from(before == Some(State::Asked));
    }

    pub fn is_settled(&self, decided: bool) -> bool {
        let is_counted_here = self.lead != Lead::Announces;
        is_counted_here && self.asked == 0 && decided && self.electing.is_none() && !self.complete
    }
}
