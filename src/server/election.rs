//! Who leads a group that is being made, when its leader has died.
//!
//! The server of the leader that has died asks everybody who is to be in the group. Handlers of its own node decide as about any
//! other event; those of another node answer to their own server, which says for all of them together whether one of them leads.
//! Who says so first leads, and everybody hears who it is. With an invitation, the new leader's server waits for its guests
//! from then on.
//!
//! | event | from | to |
//! |---|---|---|
//! | `GROUP_LEADER_FAILED` | the dead leader's server | everybody |
//! | `GROUP_LEADER_SELECTED`, with [`POLLED`] | every other server | the dead leader, and so its server |
//! | `GROUP_LEADER_SELECTED` | the dead leader's server | everybody |
use std::collections::{BTreeMap, BTreeSet};

use super::construct::is_construct;
use super::groups::procs;
use super::router::Router;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::Decision;
use crate::message::door::PeerId;

/// Attribute of a server's answer to an election (array of PROC): for whom it speaks.
const POLLED: &str = "instanton.group.polled";

/// An election under way, on the node of the leader that has died.
#[derive(Debug)]
pub(super) struct Election {
    dead: Proc,
    /// Who is to lead.
    candidate: Option<Proc>,
    /// Who on other nodes has not been heard.
    unheard: BTreeSet<Proc>,
}

impl Election {
    /// Somebody wants to lead.
    pub(super) fn stands(&mut self, proc: Proc) {
        self.candidate.get_or_insert(proc);
    }

    /// The end of an election, once nobody on this node has still to decide: whom it was about, and
    /// who leads from now on, if anybody.
    pub(super) fn end(election: &mut Option<Self>, decided: bool) -> Option<(Proc, Option<Proc>)> {
        let is_over = |election: &mut Self| decided && (election.candidate.is_some() || election.unheard.is_empty());
        election.take_if(is_over).map(|election| (election.dead, election.candidate))
    }

    /// Another server has answered for these; for everybody without a list.
    fn hear(&mut self, answer: Option<&Answer>) {
        match answer {
            Some(Answer { polled, candidate }) => {
                polled.iter().for_each(|proc| _ = self.unheard.remove(proc));
                candidate.iter().for_each(|proc| self.stands(proc.clone()));
            }
            None => self.unheard.clear(),
        }
    }
}

/// What another server answers.
pub(super) struct Answer {
    polled: Vec<Proc>,
    candidate: Option<Proc>,
}

/// The processes of this node that a server on another node asks.
#[derive(Debug)]
struct Poll {
    dead: Proc,
    polled: Vec<Proc>,
    /// How many events each connection still has to decide about.
    deciding: BTreeMap<PeerId, usize>,
    candidate: Option<Proc>,
}

/// Those that are under way, by group.
#[derive(Debug, Default)]
pub(super) struct Polls(BTreeMap<Nspace, Poll>);

impl Router {
    /// Tells everybody that their leader is dead; whom of this node to wait for, and the election among all of them.
    pub(super) fn call_election(&mut self, id: &Nspace, dead: &Proc, others: Vec<Proc>) -> (Vec<PeerId>, Election) {
        let unheard = others.iter().filter(|proc| !self.jobs.runs_here(proc)).cloned().collect();
        let affected = vec![Info::new(keys::EVENT_AFFECTED_PROC, dead.clone())];
        let told = self.tell_group(Status::GROUP_LEADER_FAILED, dead, others, id, affected);
        (told, Election { dead: dead.clone(), candidate: None, unheard })
    }

    /// A server on another node asks who of these leads.
    pub(super) fn election_called(&mut self, id: &Nspace, dead: &Proc, asked: &[Proc]) {
        let polled: Vec<Proc> = self.jobs.each(asked).into_iter().filter(|proc| self.jobs.runs_here(proc)).collect();
        if polled.is_empty() {
            return;
        }
        let peers = polled.iter().filter_map(|proc| self.jobs.client(proc)?.peer);
        let told = peers.filter(|peer| self.cx.subscriptions.wants(*peer, Status::GROUP_LEADER_FAILED));
        let deciding = told.map(|peer| (peer, 1)).collect();
        self.groups.polls.0.insert(id.clone(), Poll { dead: dead.clone(), polled, deciding, candidate: None });
        self.end_poll(id);
    }

    /// A process here has decided about the death of a leader elsewhere.
    pub(super) fn poll_decided(&mut self, peer: PeerId, id: &Nspace, decision: &Decision) {
        let Some(proc) = self.cx.peers.get(&peer).map(|entry| entry.proc.clone()) else { return };
        let Some(poll) = self.groups.polls.0.get_mut(id) else { return };
        if poll.deciding.remove(&peer).is_none() {
            return;
        }
        if decision.lead {
            poll.candidate.get_or_insert(proc.clone());
        }
        if decision.abort {
            let dead = poll.dead.clone();
            self.tell_group(Status::GROUP_CONSTRUCT_ABORT, &proc, vec![dead], id, Vec::new());
        }
        self.end_poll(id);
    }

    /// A connection is gone, and nobody decides there any more.
    pub(super) fn poll_undecided(&mut self, peer: PeerId) {
        let polls = self.groups.polls.0.iter_mut();
        let touched: Vec<Nspace> =
            polls.filter_map(|(id, poll)| poll.deciding.remove(&peer).map(|_| id.clone())).collect();
        touched.iter().for_each(|id| self.end_poll(id));
    }

    /// A namespace is deregistered, and nobody asks for it any more.
    pub(super) fn polls_of_job_end(&mut self, nspace: &Nspace) {
        self.groups.polls.0.retain(|_, poll| poll.dead.nspace != *nspace);
    }

    /// Answers when nobody has still to decide.
    fn end_poll(&mut self, id: &Nspace) {
        let Some(poll) = self.groups.polls.0.get(id).filter(|poll| poll.deciding.is_empty()) else { return };
        let mut info = vec![
            Info::new(POLLED, procs(poll.polled.clone())),
            Info::new(keys::GROUP_LEADER, poll.candidate.is_some()),
        ];
        info.extend(poll.candidate.clone().map(|proc| Info::new(keys::EVENT_AFFECTED_PROC, proc)));
        let Some(source) = poll.polled.first().cloned() else { return };
        let dead = poll.dead.clone();
        self.groups.polls.0.remove(id);
        self.tell_group(Status::GROUP_LEADER_SELECTED, &source, vec![dead], id, info);
    }

    /// Another server says who leads, or who of its processes would.
    pub(super) fn leader_selected(&mut self, id: &Nspace, info: &[Info]) {
        let affected = info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_proc());
        let candidate = affected.filter(|_| info.is_set(keys::GROUP_LEADER)).cloned();
        if let Some(polled) = info.find(POLLED).and_then(|info| info.value.as_procs()) {
            return self.election_heard(id, Some(&Answer { polled, candidate }));
        }
        let Some(leader) = &candidate else { return };
        self.guests_follow(id, leader);
        self.change_trackers(
            |tracker| tracker.failed.is_none() && is_construct(tracker, id),
            |_, tracker| tracker.of_group.iter_mut().for_each(|group| group.leader = Some(leader.clone())),
        );
        self.lead_guests(id, leader, info);
    }

    /// Other servers have answered; or they cannot be asked.
    pub(super) fn election_heard(&mut self, id: &Nspace, answer: Option<&Answer>) {
        self.change_trackers(
            |tracker| tracker.of_group.as_ref().is_some_and(|group| group.is_of(id) && group.electing.is_some()),
            |router, tracker| {
                let election = tracker.of_group.as_mut().and_then(|group| group.electing.as_mut());
                election.into_iter().for_each(|election| election.hear(answer));
                router.elected(tracker);
            },
        );
        if let Some(election) = self.groups.invitations.electing(id) {
            election.hear(answer);
            self.settle_invitation(id);
        }
    }
}
