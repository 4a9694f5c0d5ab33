//! One monitor: the sign of life that a process has asked to be watched for, and what happens when it does not come.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::file::WatchedFile;
use crate::account::Charge;
use crate::data::{DataArray, DataRange, Info, InfoList, Proc, Status, Value, keys};
use crate::server::ctx::audience::Audience;
use crate::server::ctx::event::Event;
use crate::server::ctx::ticket::FileState;
use crate::server::ctx::timers::TimerId;

/// Directives of a monitor.
const SERVED: [&str; 13] = [
    keys::MONITOR_ID,
    keys::MONITOR_HEARTBEAT_TIME,
    keys::MONITOR_HEARTBEAT_DROPS,
    keys::MONITOR_FILE_SIZE,
    keys::MONITOR_FILE_ACCESS,
    keys::MONITOR_FILE_MODIFY,
    keys::MONITOR_FILE_CHECK_TIME,
    keys::MONITOR_FILE_DROPS,
    keys::RANGE,
    keys::EVENT_CUSTOM_RANGE,
    keys::USERID,
    keys::GRPID,
    keys::TIMEOUT,
];

/// A process's request to be monitored, or no longer; or a heartbeat.
#[derive(Debug)]
pub struct MonitorRequest {
    pub proc: Proc,
    /// The kind of monitor, and its argument.
    pub monitor: Info,
    /// Code of the event that is the alarm; success for that of the kind.
    pub error: Status,
    pub directives: Vec<Info>,
}

/// Sign of life of a process.
#[derive(Debug)]
pub enum Sign {
    Heartbeat { has_come: bool },
    File(WatchedFile),
}

/// A watch of signs of life: the sign, its period, and the alarm.
#[derive(Debug)]
pub struct Monitor {
    pub sign: Sign,
    pub period: Duration,
    pub patience: Patience,
    /// Deadline of the period.
    pub deadline: Option<TimerId>,
    /// Name by which it can be taken back.
    pub name: Option<Value>,
    alarm: Status,
    range: DataRange,
    /// Processes that the alarm is for, where the range says that they are named.
    custom: Option<Info>,
    /// Charge to its process.
    pub held: Option<Charge>,
}

impl Monitor {
    /// Reads what a process asks for; nothing where that is not the library's.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM`, and `ERR_NOT_SUPPORTED` for a directive that is required and unknown.
    pub fn read(request: &MonitorRequest) -> Result<Option<Self>, Status> {
        let MonitorRequest { proc, monitor, error, directives } = request;
        let number =
            |key| directives.find(key).map_or(Some(0), |info| info.value.as_u32()).ok_or(Status::ERR_BAD_PARAM);
        let (sign, seconds, drops, alert) = if monitor.key == keys::MONITOR_HEARTBEAT {
            let (time, drops) = (number(keys::MONITOR_HEARTBEAT_TIME)?, number(keys::MONITOR_HEARTBEAT_DROPS)?);
            (Sign::Heartbeat { has_come: false }, time, drops, Status::MONITOR_HEARTBEAT_ALERT)
        } else if monitor.key == keys::MONITOR_FILE {
            let path = monitor.value.as_bytes().filter(|path| !path.is_empty()).ok_or(Status::ERR_BAD_PARAM)?;
            let path = PathBuf::from(OsStr::from_bytes(path));
            let counts = [keys::MONITOR_FILE_SIZE, keys::MONITOR_FILE_ACCESS, keys::MONITOR_FILE_MODIFY];
            // The Standard has some of them as texts, without saying which: one that is there is set.
            let is_set = |info: &Info| info.is_true() || matches!(info.value, Value::String(_));
            let counts = counts.map(|key| directives.find(key).is_some_and(is_set));
            if counts == [false; 3] {
                return Err(Status::ERR_BAD_PARAM);
            }
            let file = WatchedFile { path, counts, last: FileState::default(), is_looked_at: false };
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
        if directives.iter().any(|info| info.is_unserved(&SERVED)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        // An alarm for the process alone comes from here all the same, as one for a list of it.
        let (range, custom) = match range {
            DataRange::PROC_LOCAL => {
                let itself = DataArray::of([proc.clone()]);
                (DataRange::CUSTOM, Some(Info::new(keys::EVENT_CUSTOM_RANGE, itself)))
            }
            range => (range, directives.find(keys::EVENT_CUSTOM_RANGE).cloned()),
        };
        if seconds == 0 || Audience::new(range, proc, custom.as_slice()).is_err() {
            return Err(Status::ERR_BAD_PARAM);
        }
        Ok(Some(Monitor {
            sign,
            period: Duration::from_secs(seconds.into()),
            patience: Patience::new(drops),
            deadline: None,
            name: directives.find(keys::MONITOR_ID).map(|info| info.value.clone()),
            alarm: if *error == Status::SUCCESS { alert } else { *error },
            range,
            custom,
            held: None,
        }))
    }

    /// Returns the bytes that it takes, with its timer.
    pub fn bytes(&self) -> usize {
        const TIMER: usize = 128;
        let path = match &self.sign {
            Sign::File(file) => file.path.as_os_str().len(),
            Sign::Heartbeat { .. } => 0,
        };
        let custom = self.custom.as_ref().map(|info| &info.value);
        let values = self.name.iter().chain(custom).map(Value::kept_size).fold(0, usize::saturating_add);
        (size_of::<Self>() + TIMER + path).saturating_add(values)
    }

    /// Returns the event that says that a process shows no sign of life, in its name.
    pub fn alarm(&self, proc: &Proc) -> Event {
        let mut info = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
        info.extend(self.name.as_ref().map(|name| Info::new(keys::MONITOR_ID, name.clone())));
        info.extend(self.custom.clone());
        Event { status: self.alarm, source: proc.clone(), range: self.range, info, vote: None }
    }
}

/// Number of periods in a row that may be without a sign of life.
#[derive(Debug)]
pub struct Patience {
    drops: u32,
    missed: u32,
}

impl Patience {
    fn new(drops: u32) -> Self {
        Patience { drops: drops.max(1), missed: 0 }
    }

    /// Counts a period. Returns whether now is the time for the alarm: once, until there is a sign again.
    pub fn ends_with(&mut self, sign: bool) -> bool {
        self.missed = if sign { 0 } else { self.missed.saturating_add(1) };
        self.missed == self.drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods in which an alarm is raised, where `1` is one with a sign of life.
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

    fn read(key: &str, value: Value, directives: &[Info]) -> Result<Option<Monitor>, Status> {
        let proc = Proc::new(crate::data::Nspace::new("job").unwrap(), crate::data::Rank(0));
        let monitor = Info::new(key, value);
        Monitor::read(&MonitorRequest { proc, monitor, error: Status::SUCCESS, directives: directives.to_vec() })
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
        bad(read(keys::MONITOR_FILE, Value::String(None), &[check.clone(), Info::new(keys::MONITOR_FILE_SIZE, true)]));
        let to_nobody = Info::new(keys::RANGE, Value::DataRange(DataRange::CUSTOM));
        bad(read(keys::MONITOR_HEARTBEAT, true.into(), &[time.clone(), to_nobody]));
        assert!(read("my.monitor", true.into(), &[]).unwrap().is_none(), "the host's");
        let monitor = read(keys::MONITOR_HEARTBEAT, true.into(), &[time]).unwrap().unwrap();
        assert_eq!((monitor.alarm, monitor.range), (Status::MONITOR_HEARTBEAT_ALERT, DataRange::NAMESPACE));
        assert_eq!((monitor.period, monitor.patience.drops), (Duration::from_secs(2), 1));
        for (value, counts) in [(Value::string("/tmp/file"), true), (true.into(), true), (false.into(), false)] {
            let (size, modify) =
                (Info::new(keys::MONITOR_FILE_SIZE, true), Info::new(keys::MONITOR_FILE_MODIFY, value));
            let monitor = read(keys::MONITOR_FILE, of_file(), &[check.clone(), size, modify]).unwrap().unwrap();
            let Sign::File(file) = monitor.sign else { panic!("a file is watched") };
            assert_eq!(file.counts, [true, false, counts]);
        }
    }

    #[test]
    fn an_alarm_for_the_process_alone_is_for_it_and_nobody_else() {
        let directives = [Info::new(keys::MONITOR_HEARTBEAT_TIME, 2u32), Info::new(keys::RANGE, DataRange::PROC_LOCAL)];
        let monitor = read(keys::MONITOR_HEARTBEAT, true.into(), &directives).unwrap().unwrap();
        let proc = |rank| Proc::new(crate::data::Nspace::new("job").unwrap(), crate::data::Rank(rank));
        let audience = Audience::of(&monitor.alarm(&proc(0))).unwrap();
        assert!(audience.has(&proc(0)) && !audience.has(&proc(1)));
    }
}
