//! Survival of a job: what becomes of it when one of its processes fails.
//!
//! A job ends with its first failure, unless it was asked to survive. A process that is **restarted** comes back as the
//! same rank with its reincarnation counted up: at once the first time, then after a [delay] that doubles. One that has
//! been restarted often enough, or that may not be, is **lost**: a recoverable job goes on without it, and any other
//! ends. A process that has died [before Init](MOST_EARLY_DEATHS) several times in a row ends its job in any case:
//! nothing that is started anew would help it.
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use instanton::data::{Info, InfoList, Status, keys};

use crate::choice::choose;

/// Restarts of each process where a job is to be restarted and nobody says how often.
const RESTARTS: u32 = 10;
/// A process that has ended so many times in a row without having called Init ends its job.
pub const MOST_EARLY_DEATHS: u32 = 3;
/// Delay of the second restart, and the longest of all.
const DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// Names in the list of PRRTE's options.
const RUNTIME_OPTIONS: [&str; 9] = [
    "continuous",
    "recoverable",
    "max-restarts",
    "autorestart",
    "report-child-jobs-separately",
    "stop-on-exec",
    "stop-in-init",
    "stop-in-app",
    "output-proctable",
];

/// Rules of a job for the failures of its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survival {
    /// True if the others go on without a process that is lost.
    pub is_recoverable: bool,
    /// True if failed processes are to be started anew, for as long as that helps.
    pub is_continuous: bool,
    /// Number of times that each process is started anew.
    pub restarts: u32,
}

impl Survival {
    /// The rules that a job has been given, for the first one by options and for others by attributes.
    fn new(is_recoverable: bool, is_continuous: bool, restarts: Option<u32>) -> Self {
        let restarts = restarts.unwrap_or(if is_continuous { RESTARTS } else { 0 });
        Self { is_recoverable, is_continuous, restarts }
    }

    /// Reads what is said of a job that is spawned.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a number of restarts that is none.
    pub fn read(infos: &[Info]) -> Result<Self, Status> {
        let restarts = match infos.find(keys::MAX_RESTARTS) {
            Some(info) => Some(info.value.as_u32().ok_or(Status::ERR_BAD_PARAM)?),
            None => None,
        };
        Ok(Self::new(infos.is_set(keys::JOB_RECOVERABLE), infos.is_set(keys::JOB_CONTINUOUS), restarts))
    }

    /// Returns whether some failures of processes do not end the job.
    pub fn survives(self) -> bool {
        self.is_recoverable || self.restarts > 0
    }

    /// Returns what the processes of the job can look up of it.
    pub fn infos(self) -> Vec<Info> {
        vec![
            Info::new(keys::JOB_RECOVERABLE, self.is_recoverable),
            Info::new(keys::JOB_CONTINUOUS, self.is_continuous),
            Info::new(keys::MAX_RESTARTS, self.restarts),
        ]
    }
}

/// The time to wait before a process is started anew that was so already this many times.
pub fn delay(restarts: u32) -> Duration {
    match restarts.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => DELAY.saturating_mul(1 << doublings.min(16)).min(LONGEST_DELAY),
    }
}

/// Options of the first job.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Failures")]
pub struct SurvivalOptions {
    /// Restart failed ranks, each at most 10 times unless --max-restarts says otherwise
    #[arg(long)]
    continuous: bool,
    /// Go on without ranks that have failed and are not restarted
    #[arg(long)]
    enable_recovery: bool,
    /// Restart each rank that fails, at most N times
    #[arg(long, value_name = "N")]
    max_restarts: Option<u32>,
    /// Report failures of jobs that ranks have started, but not in the exit status
    #[arg(long)]
    report_child_jobs_separately: bool,
    /// The same in the words of PRRTE, separated by commas: continuous, recoverable, max-restarts=N, autorestart,
    /// report-child-jobs-separately, stop-on-exec, stop-in-init, stop-in-app, output-proctable=WHERE
    #[arg(long, value_name = "LIST", value_parser = RuntimeOptions::read)]
    runtime_options: Option<RuntimeOptions>,
}

/// The options that PRRTE has in one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RuntimeOptions {
    continuous: bool,
    recoverable: bool,
    autorestart: bool,
    separately: bool,
    max_restarts: Option<u32>,
    stops: Vec<&'static str>,
    proctable: Option<PathBuf>,
}

impl RuntimeOptions {
    fn read(list: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for word in list.split(',') {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let flag = || match value.map(str::to_ascii_lowercase).as_deref() {
                None | Some("1" | "t" | "true" | "y" | "yes") => Ok(true),
                Some("0" | "f" | "false" | "n" | "no") => Ok(false),
                Some(_) => Err(format!("`{word}` says neither yes nor no")),
            };
            match choose("option", name, &RUNTIME_OPTIONS)? {
                "continuous" => options.continuous = flag()?,
                "recoverable" => options.recoverable = flag()?,
                "autorestart" => options.autorestart = flag()?,
                "report-child-jobs-separately" => options.separately = flag()?,
                "stop-on-exec" if flag()? => options.stops.push(keys::DEBUG_STOP_ON_EXEC),
                "stop-in-init" if flag()? => options.stops.push(keys::DEBUG_STOP_IN_INIT),
                "stop-in-app" if flag()? => options.stops.push(keys::DEBUG_STOP_IN_APP),
                "stop-on-exec" | "stop-in-init" | "stop-in-app" => {}
                "output-proctable" => options.proctable = Some(value.unwrap_or("-").into()),
                // The number of restarts.
                _ => {
                    let number = value.and_then(|value| value.parse().ok());
                    options.max_restarts = Some(number.ok_or_else(|| format!("`{word}` is no number of restarts"))?);
                }
            }
        }
        Ok(options)
    }
}

impl SurvivalOptions {
    /// The rules for the first job.
    pub fn survival(&self) -> Survival {
        let listed = self.runtime_options.clone().unwrap_or_default();
        let is_continuous = self.continuous || listed.continuous || listed.autorestart;
        let restarts = self.max_restarts.or(listed.max_restarts);
        Survival::new(self.enable_recovery || listed.recoverable, is_continuous, restarts)
    }

    /// The places at which all ranks stop for a debugger, by their attributes.
    pub fn stops(&self) -> &[&'static str] {
        self.runtime_options.as_ref().map_or(&[], |listed| &listed.stops)
    }

    /// The place for the process table, if it is wanted.
    pub fn proctable(&self) -> Option<&Path> {
        self.runtime_options.as_ref()?.proctable.as_deref()
    }

    /// Returns whether a failure of another job than the first leaves the exit status as it is.
    pub fn reports_separately(&self) -> bool {
        self.report_child_jobs_separately || self.runtime_options.as_ref().is_some_and(|listed| listed.separately)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_two_launchers_say_the_same() {
        let of = |options: SurvivalOptions| options.survival();
        let listed =
            |list| SurvivalOptions { runtime_options: Some(RuntimeOptions::read(list).unwrap()), ..Default::default() };
        let survival = |is_recoverable, is_continuous, restarts| Survival { is_recoverable, is_continuous, restarts };
        assert_eq!(of(SurvivalOptions::default()), survival(false, false, 0));
        assert_eq!(of(listed("Continuous,recoverable,max-restarts=2")), survival(true, true, 2));
        assert_eq!(of(listed("autorestart")), survival(false, true, RESTARTS));
        assert_eq!(of(listed("recoverable=no,continuous=false")), Survival::default());
        let options = SurvivalOptions { enable_recovery: true, max_restarts: Some(3), ..Default::default() };
        assert_eq!(of(options), survival(true, false, 3));
        for bad in ["", "moon", "max-restarts", "max-restarts=-1", "continuous=perhaps"] {
            assert!(RuntimeOptions::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn attributes_of_a_spawn_say_it_too() {
        let read = |infos: &[Info]| Survival::read(infos);
        let restarts = |value: u32| Info::new(keys::MAX_RESTARTS, value);
        assert_eq!(read(&[]), Ok(Survival::default()));
        assert!(read(&[restarts(2)]).unwrap().survives());
        assert_eq!(read(&[Info::new(keys::JOB_CONTINUOUS, true)]).unwrap().restarts, RESTARTS);
        assert_eq!(read(&[Info::new(keys::MAX_RESTARTS, "often")]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn delays_double_and_have_a_limit() {
        let millis: Vec<u128> = [0, 1, 2, 3, 7, 8, 40].map(|restarts| delay(restarts).as_millis()).to_vec();
        assert_eq!(millis, [0, 100, 200, 400, 6400, 10000, 10000]);
    }
}
