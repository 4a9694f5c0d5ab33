//! Watchers: tools that see every event which passes the server, whoever it is for.
//!
//! A tool of root or of the server's user becomes one by registering with [`WATCH`]. It sees events of other audiences
//! too, and hears of beginnings and ends of jobs, and of ends of processes, which are events for nobody else unless
//! somebody has asked for them. It takes part in nothing: no event counts as heard because of it.
use std::collections::BTreeSet;
use std::sync::Arc;

use super::push;
use crate::data::{DataRange, Info, InfoList, Nspace, Proc, Rank, Status, Value, WATCH, keys};
use crate::message::door::{Outgoing, PeerId};
use crate::server::ctx::Ctx;
use crate::server::ctx::event::Event;
use crate::server::jobs::Jobs;

/// The tools that watch.
#[derive(Debug, Default)]
pub struct Watchers(BTreeSet<PeerId>);

impl Watchers {
    /// A peer registers with these attributes.
    pub(super) fn registered(&mut self, cx: &Ctx, jobs: &Jobs, peer: PeerId, info: &[Info]) {
        let proc = cx.peers.get(&peer).map(|entry| &entry.proc);
        if info.is_set(WATCH) && proc.is_some_and(|proc| jobs.sees_all(cx, proc)) {
            self.0.insert(peer);
        }
    }

    /// A peer is gone.
    pub(super) fn over(&mut self, peer: PeerId) {
        self.0.remove(&peer);
    }

    /// Shows an event to those who have not been told of it as others are.
    pub(super) fn show(&self, cx: &mut Ctx, event: &Event, told: &BTreeSet<PeerId>) {
        if self.0.iter().all(|peer| told.contains(peer)) {
            return;
        }
        let mut shown = Event { vote: None, ..event.clone() };
        // A watcher is told by its default handler.
        shown.info.retain(|info| info.key != keys::EVENT_NON_DEFAULT);
        let shown = Arc::new(push(&shown));
        for peer in self.0.difference(told) {
            cx.send(*peer, Outgoing::Shared(shown.clone()));
        }
    }

    /// Tells of a job that begins or ends.
    pub fn job(&self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace, status: Status) {
        if !self.0.is_empty() && jobs.get(nspace).is_some_and(|job| !job.of_tools) {
            let name = Info::new(keys::NSPACE, Value::string(nspace.as_bytes()));
            self.tell(cx, status, Proc::new(nspace.clone(), Rank::WILDCARD), vec![name]);
        }
    }

    /// Tells of the end of a process.
    pub fn process_ended(&self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        if !self.0.is_empty() && jobs.get(&proc.nspace).is_some_and(|job| !job.of_tools) {
            self.tell(cx, Status::EVENT_PROC_TERMINATED, proc.clone(), Vec::new());
        }
    }

    fn tell(&self, cx: &mut Ctx, status: Status, affected: Proc, mut info: Vec<Info>) {
        info.push(Info::new(keys::EVENT_AFFECTED_PROC, affected));
        let event = Event { status, source: cx.own_name(), range: DataRange::LOCAL, info, vote: None };
        self.show(cx, &event, &BTreeSet::new());
    }
}
