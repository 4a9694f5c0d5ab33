//! Processes that may stop to make progress without ending: heartbeats and files as signs of life
//! (`PMIx_Process_monitor`).
//!
//! A process asks that it be monitored. From then on there is a period, and a sign of life in it or not: a heartbeat
//! that the process has sent, or a change of a file that it writes ([`file`]). When as many periods in a row as it may
//! miss have brought none, the event that it has named is raised in its name. The alarm of a heartbeat is raised again
//! only after the process was alive meanwhile; that of a file ends the monitor. A monitor ends with its connection and
//! when it is taken back: a process that finalizes or dies stops no more. Monitors of other kinds are the host's. All are
//! where the server is not to monitor anybody (`PMIX_SERVER_ENABLE_MONITORING`), or lives in the process of its only
//! client: what stops that process would stop its monitors.
use std::collections::BTreeMap;

use super::ctx::Ctx;
use super::ctx::effect::Effect;
use super::ctx::event::{AfterRaise, Origin};
use super::ctx::peers::Caller;
use super::ctx::ticket::{FileState, Ticket};
use super::ctx::timers::Deadline;
use super::jobs::Jobs;
use crate::account::Kind;
use crate::data::{Info, Status, Value, keys};
use crate::message::Reply;
use crate::message::door::PeerId;
use crate::trace;

mod file;
mod monitor;

use monitor::{Monitor, Sign};

pub use monitor::MonitorRequest;

/// Most monitors of one peer.
const MAX_MONITORS: usize = 64;

/// Name of a monitor among all: its peer, and its number.
pub type MonitorId = (PeerId, u64);

/// The monitors there are.
#[derive(Debug, Default)]
pub struct Monitors {
    all: BTreeMap<MonitorId, Monitor>,
    last: u64,
}

impl Monitors {
    /// A client wants to be monitored, or no longer, or gives a sign of life.
    pub fn request(&mut self, cx: &mut Ctx, jobs: &Jobs, caller: Caller, request: MonitorRequest) {
        if cx.config.one_client || !cx.config.monitoring {
            return ask_host(cx, jobs, caller, request, |reply| reply);
        }
        if request.monitor.key == keys::SEND_HEARTBEAT {
            self.beat(caller.peer);
            return cx.answer(caller, granted());
        }
        if request.monitor.key == keys::MONITOR_CANCEL {
            return self.cancel(cx, jobs, caller, request);
        }
        // A server's own program is monitored by nobody but its host.
        let read = if cx.is_program(caller.peer) { Ok(None) } else { Monitor::read(&request) };
        match read {
            Ok(Some(_)) if self.of(caller.peer).count() >= MAX_MONITORS => {
                cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
            }
            Ok(Some(mut monitor)) => {
                match cx.charge(caller.peer, Kind::Monitor, monitor.bytes()) {
                    Ok(charge) => monitor.held = Some(charge),
                    Err(status) => return cx.answer_status(caller, Err(status)),
                }
                self.last += 1;
                let id = (caller.peer, self.last);
                self.all.insert(id, monitor);
                self.begin_period(cx, id);
                cx.answer(caller, granted());
            }
            Ok(None) => ask_host(cx, jobs, caller, request, |reply| reply),
            Err(status) => cx.answer_status(caller, Err(status)),
        }
    }

    fn of(&mut self, peer: PeerId) -> impl Iterator<Item = (&MonitorId, &mut Monitor)> {
        self.all.range_mut((peer, 0)..=(peer, u64::MAX))
    }

    /// A heartbeat has come.
    fn beat(&mut self, peer: PeerId) {
        for (_, monitor) in self.of(peer) {
            if let Sign::Heartbeat { has_come } = &mut monitor.sign {
                *has_come = true;
            }
        }
    }

    /// Takes monitors back: those of a name, or all of them. A monitor that is not found here may be the host's.
    fn cancel(&mut self, cx: &mut Ctx, jobs: &Jobs, caller: Caller, request: MonitorRequest) {
        let name = request.monitor.value.as_bytes();
        let cancelled = self.end(cx, caller.peer, name);
        match name {
            Some(_) if cancelled => cx.answer(caller, granted()),
            Some(_) => ask_host(cx, jobs, caller, request, |reply| reply),
            None => ask_host(cx, jobs, caller, request, |reply| match reply {
                // It has none, and those of the server have ended.
                Reply::Done(Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND) => granted(),
                reply => reply,
            }),
        }
    }

    /// A peer is monitored no more.
    pub fn peer_over(&mut self, cx: &mut Ctx, peer: PeerId) {
        self.end(cx, peer, None);
    }

    /// Ends the monitors of a peer that have this name, or all. Returns whether there were any.
    fn end(&mut self, cx: &mut Ctx, peer: PeerId, name: Option<&[u8]>) -> bool {
        let is_meant = |monitor: &Monitor| name.is_none() || name == monitor.name.as_ref().and_then(Value::as_bytes);
        let meant: Vec<_> = self.of(peer).filter(|(_, monitor)| is_meant(monitor)).map(|(id, _)| *id).collect();
        meant.iter().filter_map(|id| self.all.remove(id)).for_each(|monitor| cx.timers.cancel(monitor.deadline));
        !meant.is_empty()
    }

    fn begin_period(&mut self, cx: &mut Ctx, id: MonitorId) {
        if let Some(monitor) = self.all.get_mut(&id) {
            monitor.deadline = Some(cx.set_deadline(monitor.period, Deadline::Monitor(id.0, id.1)));
        }
    }

    /// A period of a monitor is over.
    pub fn period_over(&mut self, cx: &mut Ctx, jobs: &Jobs, id: MonitorId) {
        let Some(monitor) = self.all.get_mut(&id) else { return };
        match &mut monitor.sign {
            Sign::Heartbeat { has_come } => {
                let sign = std::mem::take(has_come);
                if monitor.patience.ends_with(sign) {
                    raise_alarm(cx, id, monitor);
                }
            }
            Sign::File(file) if !file.is_looked_at => {
                file.is_looked_at = true;
                self.look_at_file(cx, jobs, id);
            }
            Sign::File(_) => {}
        }
        self.begin_period(cx, id);
    }

    /// Has a thread look at a file, which may wait for it.
    fn look_at_file(&mut self, cx: &mut Ctx, jobs: &Jobs, id: MonitorId) {
        let Some(Monitor { sign: Sign::File(file), .. }) = self.all.get(&id) else { return };
        let client = cx.peers.get(&id.0).and_then(|peer| jobs.client(&peer.proc));
        let Some((uid, gid)) = client.map(|client| (client.uid, client.gid)) else { return };
        let path = file.path.clone();
        let look = move || Ticket::FileSeen(id.0, id.1, file::look(&path, uid, gid));
        if let Err(e) = cx.offload("instanton-look", look) {
            trace!("nobody can look at a file: {e}");
            self.file_seen(cx, id, None);
        }
    }

    /// A thread has looked at a file, and seen it or not.
    pub fn file_seen(&mut self, cx: &mut Ctx, id: MonitorId, seen: Option<FileState>) {
        let Some(monitor) = self.all.get_mut(&id) else { return };
        let Sign::File(file) = &mut monitor.sign else { return };
        file.is_looked_at = false;
        let Some(now) = seen else { return };
        let sign = file.has_changed(now);
        if monitor.patience.ends_with(sign) {
            raise_alarm(cx, id, monitor);
            cx.timers.cancel(monitor.deadline);
            self.all.remove(&id);
        }
    }
}

fn granted() -> Reply {
    Reply::Infos(Status::SUCCESS, Vec::new())
}

/// Raises the event that a process has named for when it stops.
fn raise_alarm(cx: &mut Ctx, id: MonitorId, monitor: &Monitor) {
    let Some(proc) = cx.peers.get(&id.0).map(|peer| peer.proc.clone()) else { return };
    let event = monitor.alarm(&proc);
    trace!("{proc} shows no sign of life: {}", event.status);
    cx.effect(Effect::Raise { event, origin: Origin::Library, then: AfterRaise::Nothing });
}

/// Passes a request on to the host; `reply` makes the reply of what it answers.
fn ask_host(cx: &mut Ctx, jobs: &Jobs, caller: Caller, request: MonitorRequest, reply: fn(Reply) -> Reply) {
    let MonitorRequest { proc, monitor, error, directives } = request;
    let directives: Vec<Info> = jobs.signed(cx, &proc, directives);
    cx.ask_host(
        |host, done| host.monitor(&proc, &monitor, error, &directives, done),
        (Status::SUCCESS, Vec::new()),
        move |result| {
            let answer = result.map_or_else(Reply::Done, |(status, infos)| Reply::Infos(status, infos));
            Ticket::Reply(caller, reply(answer))
        },
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::data::Rank;
    use crate::server::ServerConfig;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::NoHost;

    const PERIOD: Duration = Duration::from_secs(2);

    /// A job with one process, which is connected.
    fn bench() -> (TestCtx, Jobs, Monitors, PeerId) {
        let mut jobs = Jobs::default();
        jobs.add(&proc("job", 0).nspace, 1, &[Rank(0)]);
        let mut test = testing::ctx(NoHost);
        let peer = test.connect(&proc("job", 0));
        (test, jobs, Monitors::default(), peer)
    }

    fn request(
        (test, jobs, monitors, peer): (&mut TestCtx, &Jobs, &mut Monitors, PeerId),
        monitor: Info,
        directives: Vec<Info>,
    ) -> Option<Reply> {
        let caller = test.request(peer);
        let request = MonitorRequest { proc: proc("job", 0), monitor, error: Status::SUCCESS, directives };
        monitors.request(&mut test.cx, jobs, caller, request);
        match test.ticket() {
            Some(Ticket::Reply(_, reply)) => Some(reply),
            _ => test.replies().pop().map(|(_, reply)| reply),
        }
    }

    fn heartbeat(name: &str) -> (Info, Vec<Info>) {
        let time = Info::new(keys::MONITOR_HEARTBEAT_TIME, PERIOD.as_secs() as u32);
        (Info::new(keys::MONITOR_HEARTBEAT, true), vec![time, Info::new(keys::MONITOR_ID, name)])
    }

    /// Lets a period pass; returns the alarms.
    fn period(test: &mut TestCtx, jobs: &Jobs, monitors: &mut Monitors) -> Vec<Status> {
        for deadline in test.advance(PERIOD) {
            let Deadline::Monitor(peer, number) = deadline else { panic!("{deadline:?}") };
            monitors.period_over(&mut test.cx, jobs, (peer, number));
        }
        alarms(test)
    }

    fn alarms(test: &mut TestCtx) -> Vec<Status> {
        let alarm = |effect| match effect {
            Effect::Raise { event, origin: Origin::Library, .. } => event.status,
            effect => panic!("{effect:?}"),
        };
        test.effects().into_iter().map(alarm).collect()
    }

    #[test]
    fn a_process_that_sends_no_heartbeat_raises_the_alarm_once() {
        let (mut test, jobs, mut monitors, peer) = bench();
        let (monitor, directives) = heartbeat("a");
        assert_eq!(request((&mut test, &jobs, &mut monitors, peer), monitor, directives), Some(granted()));
        let beat = Info::new(keys::SEND_HEARTBEAT, true);
        request((&mut test, &jobs, &mut monitors, peer), beat, Vec::new());
        assert_eq!(period(&mut test, &jobs, &mut monitors), []);
        assert_eq!(period(&mut test, &jobs, &mut monitors), [Status::MONITOR_HEARTBEAT_ALERT]);
        assert_eq!(period(&mut test, &jobs, &mut monitors), []);
        monitors.peer_over(&mut test.cx, peer);
        assert_eq!(test.cx.timers.next(), None);
    }

    #[test]
    fn a_directive_that_is_required_and_unknown_is_refused() {
        let (mut test, jobs, mut monitors, peer) = bench();
        for (wish, expected) in [(keys::MONITOR_ID, granted()), ("site.wish", Reply::Done(Status::ERR_NOT_SUPPORTED))] {
            let (monitor, mut directives) = heartbeat("a");
            directives.push(Info::new(wish, "a").required());
            assert_eq!(request((&mut test, &jobs, &mut monitors, peer), monitor, directives), Some(expected));
        }
    }

    #[test]
    fn a_server_that_is_to_monitor_nobody_leaves_it_to_its_host() {
        let (_, jobs, mut monitors, _) = bench();
        let config = ServerConfig { monitoring: false, ..ServerConfig::default() };
        let mut test = testing::ctx_of(config, Arc::new(NoHost));
        let peer = test.connect(&proc("job", 0));
        let (monitor, directives) = heartbeat("a");
        let refused = Some(Reply::Done(Status::ERR_NOT_SUPPORTED));
        assert_eq!(request((&mut test, &jobs, &mut monitors, peer), monitor, directives), refused);
        assert!(monitors.all.is_empty());
    }

    #[test]
    fn one_thread_at_a_time_looks_at_a_file_and_its_alarm_ends_the_monitor() {
        let (mut test, jobs, mut monitors, peer) = bench();
        let file = Info::new(keys::MONITOR_FILE, "/nowhere/at/all");
        let time = Info::new(keys::MONITOR_FILE_CHECK_TIME, PERIOD.as_secs() as u32);
        let directives = vec![time, Info::new(keys::MONITOR_FILE_SIZE, true)];
        assert_eq!(request((&mut test, &jobs, &mut monitors, peer), file, directives), Some(granted()));
        assert_eq!(period(&mut test, &jobs, &mut monitors), []);
        assert_eq!(period(&mut test, &jobs, &mut monitors), []);
        test.run_offloaded();
        let Some(Ticket::FileSeen(of, number, _)) = test.ticket() else { panic!("somebody has looked") };
        assert!(of == peer && test.ticket().is_none());
        // A file that is not there says nothing; one that grows is a sign of life, and one that stays as it is none.
        for (seen, expected) in [(None, vec![]), (Some([1, 0, 0]), vec![])] {
            monitors.file_seen(&mut test.cx, (of, number), seen);
            assert_eq!(alarms(&mut test), expected);
        }
        monitors.file_seen(&mut test.cx, (of, number), Some([1, 5, 5]));
        assert_eq!(alarms(&mut test), [Status::MONITOR_FILE_ALERT]);
        assert_eq!(test.cx.timers.next(), None);
    }

    #[test]
    fn a_file_is_looked_at_again_where_there_was_no_thread() {
        let (mut test, jobs, mut monitors, peer) = bench();
        let file = Info::new(keys::MONITOR_FILE, "/nowhere/at/all");
        let time = Info::new(keys::MONITOR_FILE_CHECK_TIME, PERIOD.as_secs() as u32);
        request((&mut test, &jobs, &mut monitors, peer), file, vec![time, Info::new(keys::MONITOR_FILE_SIZE, true)]);
        test.lack_threads(true);
        period(&mut test, &jobs, &mut monitors);
        test.lack_threads(false);
        period(&mut test, &jobs, &mut monitors);
        test.run_offloaded();
        assert!(matches!(test.ticket(), Some(Ticket::FileSeen(_, _, None))));
    }

    #[test]
    fn a_monitor_is_charged_for_as_long_as_there_is_one() {
        let (mut test, jobs, mut monitors, peer) = bench();
        let account = test.limit_memory(peer, 3000);
        let ask = |test: &mut TestCtx, monitors: &mut Monitors| {
            let (monitor, directives) = heartbeat(&"a".repeat(900));
            request((test, &jobs, monitors, peer), monitor, directives)
        };
        assert_eq!(ask(&mut test, &mut monitors), Some(granted()));
        assert!(account.used() > 1000);
        assert_eq!(ask(&mut test, &mut monitors), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
        monitors.peer_over(&mut test.cx, peer);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn taken_back_is_what_has_the_name_and_the_rest_may_be_the_hosts() {
        let (mut test, jobs, mut monitors, peer) = bench();
        for name in ["a", "b", "c"] {
            let (monitor, directives) = heartbeat(name);
            request((&mut test, &jobs, &mut monitors, peer), monitor, directives);
        }
        let mut cancel = |name: Value, left| {
            let cancel = Info::new(keys::MONITOR_CANCEL, name);
            let reply = request((&mut test, &jobs, &mut monitors, peer), cancel, Vec::new());
            assert_eq!(monitors.all.len(), left);
            reply
        };
        assert_eq!(cancel(Value::string("b"), 2), Some(granted()));
        assert_eq!(cancel(Value::string("b"), 2), Some(Reply::Done(Status::ERR_NOT_SUPPORTED)), "the host has none");
        assert_eq!(cancel(Value::String(None), 0), Some(granted()));
    }
}
