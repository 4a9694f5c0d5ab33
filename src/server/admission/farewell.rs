//! Goodbye of a process: the host hears of its Finalize first, and then the process goes.
use super::Admission;
use crate::data::{Proc, Status};
use crate::message::door::PeerId;
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::peers::{Caller, Role};
use crate::server::ctx::ticket::Ticket;
use crate::server::ctx::timers::Deadline;
use crate::server::jobs::{Jobs, Phase};
use crate::trace;

impl Admission {
    /// Takes in that a process is done.
    pub fn finalize(&mut self, cx: &mut Ctx, jobs: &mut Jobs, caller: Caller, proc: &Proc, role: Role) {
        let Caller { peer, number } = caller;
        let Some(client) = jobs.client_mut(proc).filter(|_| role == Role::Rank) else {
            return cx.reply_status(peer, number, Ok(()));
        };
        client.phase = Phase::Finalized;
        jobs.leave_page(proc);
        let limit = cx.set_deadline(cx.config.host_farewell_deadline, Deadline::Farewell(peer, number));
        if let Some(entry) = cx.peers.get_mut(&peer) {
            (entry.limit, entry.leaving) = (Some(limit), Some(number));
        }
        cx.ask_host(|host, done| host.client_finalized(proc, done), (), move |result| Ticket::Farewell(caller, result));
    }

    /// Acts on the host's answer to a goodbye.
    pub fn farewell_answered(&mut self, cx: &mut Ctx, caller: Caller, result: Result<(), Status>) {
        let result = match result {
            Err(Status::ERR_NOT_SUPPORTED) => Ok(()),
            other => other,
        };
        self.farewell(cx, caller.peer, caller.number, result);
    }

    /// Lets a process go that has said goodbye.
    pub fn farewell(&mut self, cx: &mut Ctx, peer: PeerId, number: u64, result: Result<(), Status>) {
        // Without a limit there is nobody waiting any more.
        let Some(limit) = cx.peers.get_mut(&peer).and_then(|entry| entry.limit.take()) else { return };
        cx.timers.cancel(limit);
        cx.reply_status(peer, number, result);
        // A tool does not stay any longer, whatever becomes of its process.
        if let Some(entry) = cx.peers.get(&peer) {
            let proc = entry.proc.clone();
            cx.effect(Effect::ToolLeft(proc));
        }
    }

    /// Lets a process go to whose goodbye the host does not answer.
    pub fn farewell_expired(&mut self, cx: &mut Ctx, peer: PeerId, number: u64) {
        if let Some(entry) = cx.peers.get(&peer) {
            trace!("the host does not answer the Finalize of {}, which goes without its word", entry.proc);
        }
        self.farewell(cx, peer, number, Ok(()));
    }
}
