//! Processes that may stop to make progress without ending: heartbeats and files as signs of life (`PMIx_Process_monitor`).
//!
//! A process asks that it be monitored. From then on there is a period, and a sign of life in it or not: a heartbeat that the
//! process has sent, or a change of a file that it writes. When as many periods in a row as it may miss have brought none, the
//! event that it has named is raised in its name. The alarm of a heartbeat is raised again only after the process was alive
//! meanwhile; that of a file ends the monitor. A monitor ends with its connection and when it is taken back: who finalizes or
//! dies stops no more.
//!
//! A file system may block for ever: a thread of its own looks at a file, with the rights of the process's user, and a
//! file that it is still looking at says nothing. A file that is not there yet says nothing either. Other monitors are the host's.
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ctx::audience::Audience;
use super::ctx::event::{AfterRaise, Event, Origin};
use super::ctx::peers::PROGRAM;
use super::ctx::timers::Deadline;
use super::ctx::timers::TimerId;
use super::router::Router;
use crate::data::{DataRange, Info, InfoList, Proc, Status, Value, keys};
use crate::message::Reply;
use crate::message::door::PeerId;
use crate::sys::process;
use crate::sys::signals::spawn_without_signals;
use crate::trace;

/// Most monitors of one peer.
const MAX_MONITORS: usize = 64;

/// What tells one monitor from others: whose it is, and which of his.
pub(super) type MonitorId = (PeerId, u64);

/// The monitors there are.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    all: BTreeMap<MonitorId, Monitor>,
    next: u64,
}

impl Monitors {
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

    /// Takes the monitors of that name out, or all that a peer has.
    fn take(&mut self, peer: PeerId, name: Option<&[u8]>) -> Vec<Monitor> {
        let is_meant = |monitor: &Monitor| name.is_none() || name == monitor.name.as_ref().and_then(Value::as_bytes);
        let meant: Vec<_> = self.of(peer).filter(|(_, monitor)| is_meant(monitor)).map(|(id, _)| *id).collect();
        meant.iter().filter_map(|id| self.all.remove(id)).collect()
    }
}

/// What is looked out for, and what happens when it does not come.
#[derive(Debug)]
struct Monitor {
    sign: Sign,
    period: Duration,
    patience: Patience,
    timer: Option<TimerId>,
    /// By which it can be taken back.
    name: Option<Value>,
    alarm: Status,
    range: DataRange,
    /// Whom the alarm is for, where the range says that they are named.
    custom: Option<Info>,
}

/// What a process shows that it is alive by.
#[derive(Debug)]
enum Sign {
    Heartbeat { has_come: bool },
    File(File),
}

/// A file that is to change.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// Which of its [`State`] counts.
    counts: [bool; 3],
    last: State,
    is_looked_at: bool,
}

/// A file's size, and when it was read and written last, in nanoseconds.
type State = [i128; 3];

impl File {
    /// Whether the file shows a sign of life. Before the first look, it is taken for an empty one.
    fn has_changed(&mut self, now: State) -> bool {
        let before = std::mem::replace(&mut self.last, now);
        (0..now.len()).any(|i| self.counts[i] && before[i] != now[i])
    }
}

/// How many periods in a row may be without a sign of life.
#[derive(Debug)]
struct Patience {
    drops: u32,
    missed: u32,
}

impl Patience {
    fn new(drops: u32) -> Self {
        Patience { drops: drops.max(1), missed: 0 }
    }

    /// A period is over. Whether now is the time for the alarm: once, until there is a sign again.
    fn ends_with(&mut self, sign: bool) -> bool {
        self.missed = if sign { 0 } else { self.missed.saturating_add(1) };
        self.missed == self.drops
    }
}

impl Monitor {
    /// What a process asks for, where that is the library's.
    fn read(Wish { proc, what, error, directives }: &Wish) -> Result<Option<Self>, Status> {
        let number =
            |key| directives.find(key).map_or(Some(0), |info| info.value.as_u32()).ok_or(Status::ERR_BAD_PARAM);
        let (sign, seconds, drops, alert) = if what.key == keys::MONITOR_HEARTBEAT {
            let (time, drops) = (number(keys::MONITOR_HEARTBEAT_TIME)?, number(keys::MONITOR_HEARTBEAT_DROPS)?);
            (Sign::Heartbeat { has_come: false }, time, drops, Status::MONITOR_HEARTBEAT_ALERT)
        } else if what.key == keys::MONITOR_FILE {
            let path = what.value.as_bytes().filter(|path| !path.is_empty()).ok_or(Status::ERR_BAD_PARAM)?;
            let path = PathBuf::from(OsStr::from_bytes(path));
            let counts = [keys::MONITOR_FILE_SIZE, keys::MONITOR_FILE_ACCESS, keys::MONITOR_FILE_MODIFY];
            let counts = counts.map(|key| directives.is_set(key));
            if counts == [false; 3] {
                return Err(Status::ERR_BAD_PARAM);
            }
            let file = File { path, counts, last: State::default(), is_looked_at: false };
            let (time, drops) = (number(keys::MONITOR_FILE_CHECK_TIME)?, number(keys::MONITOR_FILE_DROPS)?);
            (Sign::File(file), time, drops, Status::MONITOR_FILE_ALERT)
        } else {
            return Ok(None);
        };
        let range = match directives.find(keys::RANGE).map(|info| &info.value) {
            None => DataRange::NAMESPACE,
            Some(Value::DataRange(range)) => *range,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        };
        if seconds == 0 || Audience::new(range, proc, directives).is_err() {
            return Err(Status::ERR_BAD_PARAM);
        }
        Ok(Some(Monitor {
            sign,
            period: Duration::from_secs(seconds.into()),
            patience: Patience::new(drops),
            timer: None,
            name: directives.find(keys::MONITOR_ID).map(|info| info.value.clone()),
            alarm: if *error == Status::SUCCESS { alert } else { *error },
            range,
            custom: directives.find(keys::EVENT_CUSTOM_RANGE).cloned(),
        }))
    }
}

/// What a process asks.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) proc: Proc,
    pub(super) what: Info,
    pub(super) error: Status,
    pub(super) directives: Vec<Info>,
}

impl Router {
    /// A client wants to be monitored, or no longer, or gives a sign of life.
    pub(super) fn monitor(&mut self, peer: PeerId, number: u64, wish: Wish) {
        let granted = || Reply::Infos(Status::SUCCESS, Vec::new());
        if wish.what.key == keys::SEND_HEARTBEAT {
            self.monitors.beat(peer);
            return self.cx.reply(peer, number, granted());
        }
        if wish.what.key == keys::MONITOR_CANCEL {
            return self.cancel_monitors(peer, number, wish);
        }
        // A server's own program is monitored by nobody but its host.
        let read = if peer == PROGRAM { Ok(None) } else { Monitor::read(&wish) };
        match read {
            Ok(Some(_)) if self.monitors.of(peer).count() >= MAX_MONITORS => {
                self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
            }
            Ok(Some(monitor)) => {
                self.monitors.next += 1;
                let id = (peer, self.monitors.next);
                self.monitors.all.insert(id, monitor);
                self.next_period(id);
                self.cx.reply(peer, number, granted());
            }
            Ok(None) => self.host_monitors(wish, move |router, answer| router.cx.reply(peer, number, answer)),
            Err(status) => self.cx.reply_status(peer, number, Err(status)),
        }
    }

    fn host_monitors(&mut self, wish: Wish, then: impl FnOnce(&mut Router, Reply) + Send + 'static) {
        let Wish { proc, what, error, directives } = wish;
        let directives = self.jobs.signed(&self.cx, &proc, directives);
        self.ask_host(
            |host, done| host.monitor(&proc, &what, error, &directives, done),
            (Status::SUCCESS, Vec::new()),
            move |router, result| {
                let answer = result.map_or_else(Reply::Done, |(status, infos)| Reply::Infos(status, infos));
                then(router, answer);
            },
        );
    }

    /// Takes monitors back: those of a name, or all of them. What is not found here may be the host's.
    fn cancel_monitors(&mut self, peer: PeerId, number: u64, wish: Wish) {
        let name = wish.what.value.as_bytes();
        let cancelled = self.end_monitors(peer, name);
        if name.is_some() && cancelled {
            return self.cx.reply(peer, number, Reply::Infos(Status::SUCCESS, Vec::new()));
        }
        let is_all = name.is_none();
        self.host_monitors(wish, move |router, answer| {
            let answer = match answer {
                Reply::Done(Status::ERR_NOT_SUPPORTED) if is_all => Reply::Infos(Status::SUCCESS, Vec::new()),
                answer => answer,
            };
            router.cx.reply(peer, number, answer);
        });
    }

    /// Ends the monitors of a peer that have this name, or all. Whether there were any.
    pub(super) fn end_monitors(&mut self, peer: PeerId, name: Option<&[u8]>) -> bool {
        let ended = self.monitors.take(peer, name);
        ended.iter().for_each(|monitor| self.cx.timers.cancel(monitor.timer));
        !ended.is_empty()
    }

    fn next_period(&mut self, id: MonitorId) {
        if let Some(monitor) = self.monitors.all.get_mut(&id) {
            monitor.timer = Some(self.cx.set_deadline(monitor.period, Deadline::Monitor(id.0, id.1)));
        }
    }

    /// A period of a monitor is over.
    pub(super) fn period_is_over(&mut self, id: MonitorId) {
        let Some(monitor) = self.monitors.all.get_mut(&id) else { return };
        match &mut monitor.sign {
            Sign::Heartbeat { has_come } => {
                let sign = std::mem::take(has_come);
                if monitor.patience.ends_with(sign) {
                    self.alarm(id);
                }
            }
            Sign::File(file) if !file.is_looked_at => {
                file.is_looked_at = true;
                let path = file.path.clone();
                self.look_at_file(id, path);
            }
            Sign::File(_) => {}
        }
        self.next_period(id);
    }

    /// Has somebody look at a file who may wait for it.
    fn look_at_file(&mut self, id: MonitorId, path: PathBuf) {
        let client = self.cx.peers.get(&id.0).and_then(|peer| self.jobs.client(&peer.proc));
        let Some((uid, gid)) = client.map(|client| (client.uid, client.gid)) else { return };
        let mailbox = self.mailbox.clone();
        let thread = spawn_without_signals("instanton-look", move || {
            let seen = state_for(&path, uid, gid);
            // A server that has ended looks out for nobody.
            let _ = mailbox.post(move |router| router.file_seen(id, seen));
        });
        if let Err(e) = thread {
            trace!("nobody can look at a file: {e}");
            self.file_seen(id, None);
        }
    }

    /// Somebody has looked at a file, and seen it or not.
    fn file_seen(&mut self, id: MonitorId, seen: Option<State>) {
        let Some(monitor) = self.monitors.all.get_mut(&id) else { return };
        let Sign::File(file) = &mut monitor.sign else { return };
        file.is_looked_at = false;
        let Some(now) = seen else { return };
        let sign = file.has_changed(now);
        if monitor.patience.ends_with(sign) {
            self.alarm(id);
            if let Some(monitor) = self.monitors.all.remove(&id) {
                self.cx.timers.cancel(monitor.timer);
            }
        }
    }

    /// Raises the event that a process has named for when it stops, in its name.
    fn alarm(&mut self, id: MonitorId) {
        let (Some(peer), Some(monitor)) = (self.cx.peers.get(&id.0), self.monitors.all.get(&id)) else { return };
        let (proc, alarm, range) = (peer.proc.clone(), monitor.alarm, monitor.range);
        let mut info = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
        info.extend(monitor.name.as_ref().map(|name| Info::new(keys::MONITOR_ID, name.clone())));
        info.extend(monitor.custom.clone());
        trace!("{proc} shows no sign of life: {alarm}");
        self.raise(
            Event { status: alarm, source: proc, range, info, vote: None },
            Origin::Library,
            AfterRaise::Nothing,
        );
    }
}

/// What a user sees of a file. The calling thread keeps his rights, and should end.
fn state_for(path: &Path, uid: u32, gid: u32) -> Option<State> {
    process::become_user_in_this_thread(uid, gid).ok()?;
    let file = path.metadata().ok()?;
    let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Some([file.size().into(), time(file.atime(), file.atime_nsec()), time(file.mtime(), file.mtime_nsec())])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which periods an alarm is raised, where `1` is one with a sign of life.
    fn alarms(drops: u32, periods: &str) -> String {
        let mut patience = Patience::new(drops);
        periods.chars().map(|period| if patience.ends_with(period == '1') { '!' } else { '-' }).collect()
    }

    #[test]
    fn an_alarm_is_raised_once_until_there_is_a_sign_again() {
        assert_eq!(alarms(0, "10001001"), "-!---!--");
        assert_eq!(alarms(1, "10001001"), "-!---!--");
        assert_eq!(alarms(2, "0101001000"), "-----!--!-");
        assert_eq!(alarms(3, "0000"), "--!-");
    }

    #[test]
    fn only_what_counts_of_a_file_is_a_sign() {
        let file = |counts| File { path: PathBuf::new(), counts, last: State::default(), is_looked_at: false };
        let mut size = file([true, false, false]);
        assert!(size.has_changed([3, 1, 1]) && !size.has_changed([3, 2, 2]) && size.has_changed([0, 2, 2]));
        assert!(!file([true, false, false]).has_changed([0, 1, 1]), "an empty file is what it was");
        let mut times = file([false, true, true]);
        assert!(times.has_changed([0, 1, 1]) && !times.has_changed([9, 1, 1]));
        assert!(times.has_changed([9, 2, 1]) && times.has_changed([9, 2, 3]));
    }

    fn read(key: &str, value: Value, directives: &[Info]) -> Result<Option<Monitor>, Status> {
        let proc = Proc::new(crate::data::Nspace::new("job").unwrap(), crate::data::Rank(0));
        let what = Info::new(key, value);
        Monitor::read(&Wish { proc, what, error: Status::SUCCESS, directives: directives.to_vec() })
    }

    #[test]
    fn a_monitor_needs_a_time_and_something_to_look_at() {
        let of_file = || Value::string("/tmp/file");
        let (time, check) =
            (Info::new(keys::MONITOR_HEARTBEAT_TIME, 2u32), Info::new(keys::MONITOR_FILE_CHECK_TIME, 2u32));
        let bad = |result: Result<Option<Monitor>, Status>| assert_eq!(result.unwrap_err(), Status::ERR_BAD_PARAM);
        bad(read(keys::MONITOR_HEARTBEAT, true.into(), &[]));
        bad(read(keys::MONITOR_HEARTBEAT, true.into(), &[Info::new(keys::MONITOR_HEARTBEAT_TIME, "soon")]));
        bad(read(keys::MONITOR_FILE, of_file(), std::slice::from_ref(&check)));
        bad(read(keys::MONITOR_FILE, of_file(), &[Info::new(keys::MONITOR_FILE_SIZE, true)]));
        bad(read(keys::MONITOR_FILE, Value::String(None), &[check, Info::new(keys::MONITOR_FILE_SIZE, true)]));
        let to_itself = Info::new(keys::RANGE, DataRange::PROC_LOCAL);
        bad(read(keys::MONITOR_HEARTBEAT, true.into(), &[time.clone(), to_itself]));
        assert!(read("my.monitor", true.into(), &[]).unwrap().is_none(), "the host's");
        let monitor = read(keys::MONITOR_HEARTBEAT, true.into(), &[time]).unwrap().unwrap();
        assert_eq!((monitor.alarm, monitor.range), (Status::MONITOR_HEARTBEAT_ALERT, DataRange::NAMESPACE));
        assert_eq!((monitor.period, monitor.patience.drops), (Duration::from_secs(2), 1));
    }
}
