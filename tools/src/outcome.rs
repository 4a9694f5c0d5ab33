//! Outcome of a job: its exit status, and the one line that says why.
//!
//! The first thing that goes wrong decides. Later ones may be our own doing (the signals that end the other
//! ranks) or its consequence, and says nothing.
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::signals;

/// The status of a job that ran past `--timeout`, as of timeout(1).
pub const TIMED_OUT: u8 = 124;
/// The status for a program that cannot be executed, and for one that is not there, as of every shell.
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
/// The status for a command line, or a file that it names, that makes no sense.
pub const SENSELESS: u8 = 2;
/// The status for what is our own failure, and for a rank that ended well but left its peers waiting.
pub const FAILURE: u8 = 1;

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl End {
    /// Translates the kernel's status.
    pub fn of(status: ExitStatus) -> Self {
        status.code().map_or_else(|| End::Signal(status.signal().unwrap_or_default()), End::Code)
    }
}

/// Name of a process, for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcName {
    /// The number of its job.
    pub job: u32,
    /// Its rank.
    pub rank: u32,
    /// The node that it ran on.
    pub node: String,
    /// Its process id, once it was started.
    pub pid: Option<i32>,
}

/// The reason why a job did not end well.
#[derive(Debug)]
enum Cause {
    Ended(ProcName, End),
    NoFinalize(ProcName),
    Aborted(ProcName, i32, String),
    NotStarted(ProcName, u8, String),
    TimedOut(Duration),
    StartTimedOut(Duration),
    Killed(i32),
    Outlasted(i32),
    Dismissed(End),
    NotBegun(i32),
    GuardianGone,
    Unread,
    Broken(String),
}

/// The first thing that went wrong, if anything did.
#[derive(Debug, Default)]
pub struct Outcome {
    cause: Option<Cause>,
    sent: Vec<i32>,
    /// True if jobs that have nothing to do with it go on.
    is_partial: bool,
    /// Exit status of what has failed alone first: a job of a rank, a rank that has aborted itself, or a file of one.
    of_one: Option<u8>,
    is_file_lost: bool,
}

impl Outcome {
    /// Returns whether something went wrong, so that everything has to end.
    pub fn is_decided(&self) -> bool {
        self.cause.is_some() && !self.is_partial
    }

    /// Returns whether the user has ended it, or the user's time limit, or the user is gone.
    pub fn is_of_user(&self) -> bool {
        matches!(
            self.cause,
            Some(Cause::TimedOut(_) | Cause::StartTimedOut(_) | Cause::Killed(_) | Cause::GuardianGone)
        )
    }

    /// Jobs that have nothing to do with what went wrong go on.
    pub fn spare_others(&mut self) {
        self.is_partial = true;
    }

    /// An outcome of a job that fails alone.
    pub fn beside(&self) -> Self {
        Self { sent: self.sent.clone(), ..Self::default() }
    }

    /// A job that a rank has started has failed alone, or a rank has aborted itself.
    pub fn failed_alone(&mut self, code: u8) {
        if code != 0 {
            self.of_one.get_or_insert(code);
        }
    }

    /// A file takes no more output of a rank. Returns whether it is the first.
    pub fn is_first_file_lost(&mut self) -> bool {
        self.failed_alone(FAILURE);
        !std::mem::replace(&mut self.is_file_lost, true)
    }

    /// The user sent a signal, which was passed on.
    pub fn was_sent(&mut self, signal: i32) {
        self.sent.push(signal);
    }

    /// The user sent a signal that ends ranks, before any was started.
    pub fn sent_before_start(&mut self, signal: i32) {
        self.decide(Cause::NotBegun(signal));
    }

    /// Returns whether the user has sent the signal that has ended a process.
    pub fn is_answer(&self, end: End) -> bool {
        matches!(end, End::Signal(signal) if self.sent.contains(&signal))
    }

    /// A rank ended. One that has called Init and not Finalize leaves its peers waiting, so that even a good exit is
    /// a failure then.
    pub fn ended(&mut self, who: ProcName, end: End, initialised: bool) {
        match end {
            End::Code(0) if initialised => self.decide(Cause::NoFinalize(who)),
            End::Code(0) => {}
            _ => self.decide(Cause::Ended(who, end)),
        }
    }

    /// A rank asked for the job's end.
    pub fn aborted(&mut self, who: ProcName, status: i32, message: String) {
        self.decide(Cause::Aborted(who, status, message));
    }

    /// A rank's program or directory is not there or cannot be used, or the system would not start it: the status for
    /// that, and an explanation.
    pub fn not_started(&mut self, who: ProcName, (code, why): (u8, String)) {
        self.decide(Cause::NotStarted(who, code, why));
    }

    /// Nobody reads our output any more.
    pub fn unread(&mut self) {
        self.decide(Cause::Unread);
    }

    /// A rank cannot be started anew.
    pub fn not_restarted(&mut self, who: ProcName, error: String) {
        self.decide(Cause::NotStarted(who, FAILURE, error));
    }

    /// The time allowed is over.
    pub fn timed_out(&mut self, limit: Duration) {
        self.decide(Cause::TimedOut(limit));
    }

    /// The time allowed for the start is over.
    pub fn start_timed_out(&mut self, limit: Duration) {
        self.decide(Cause::StartTimedOut(limit));
    }

    /// The user insisted on a signal, and everything is killed.
    pub fn killed(&mut self, signal: i32) {
        self.decide(Cause::Killed(signal));
    }

    /// Some have not ended in spite of a signal that asks for it, and are killed.
    pub fn outlasted(&mut self, signal: i32) {
        self.decide(Cause::Outlasted(signal));
    }

    /// All of the first job has been ended because somebody asked for that; this is the end of its last process. One
    /// that has ended well has done what it was asked for.
    pub fn ended_on_request(&mut self, end: End) {
        if end != End::Code(0) && self.of_one.is_none() {
            self.decide(Cause::Dismissed(end));
        }
    }

    /// The guardian is gone: nobody will read the status.
    pub fn guardian_gone(&mut self) {
        self.decide(Cause::GuardianGone);
    }

    /// The launcher itself cannot go on.
    pub fn broken(&mut self, what: String) {
        self.decide(Cause::Broken(what));
    }

    fn decide(&mut self, cause: Cause) {
        self.is_partial = false;
        self.cause.get_or_insert(cause);
    }

    /// The exit status of the whole job.
    pub fn code(&self) -> u8 {
        match &self.cause {
            None => self.of_one.unwrap_or(0),
            Some(Cause::Ended(_, End::Code(code)) | Cause::Dismissed(End::Code(code))) => low_byte(*code),
            Some(
                Cause::Ended(_, End::Signal(signal))
                | Cause::Dismissed(End::Signal(signal))
                | Cause::Killed(signal)
                | Cause::Outlasted(signal)
                | Cause::NotBegun(signal),
            ) => of_signal(*signal),
            Some(Cause::Aborted(_, status, _)) => low_byte(*status),
            Some(Cause::NotStarted(_, code, _)) => *code,
            Some(Cause::Unread) => of_signal(Signal::SIGPIPE as i32),
            Some(Cause::TimedOut(_) | Cause::StartTimedOut(_)) => TIMED_OUT,
            Some(Cause::NoFinalize(_) | Cause::GuardianGone | Cause::Broken(_)) => FAILURE,
        }
    }

    /// Returns the line for the user; none if all went well.
    pub fn line(&self) -> Option<String> {
        Some(match self.cause.as_ref()? {
            Cause::Ended(who, End::Code(code)) => format!("{who} exited with code {code}; the job was ended"),
            Cause::Ended(who, End::Signal(signal)) if self.sent.contains(signal) => {
                format!("{who} was ended by {}, which the job was sent", signals::name(*signal))
            }
            Cause::Ended(who, End::Signal(signal)) => {
                format!("{who} was killed by {}; the job was ended", signals::name(*signal))
            }
            Cause::NoFinalize(who) => {
                format!("{who} exited with code 0 after Init and without Finalize; the job was ended")
            }
            Cause::Aborted(who, status, message) => format!("{}; the job was ended", abort(who, *status, message)),
            Cause::NotStarted(who, _, error) => format!("{who} could not be started: {error}"),
            Cause::TimedOut(limit) => format!("the job ran longer than {} s and was ended", limit.as_secs_f64()),
            Cause::StartTimedOut(limit) => {
                format!("not all ranks were started within {} s; the job was ended", limit.as_secs_f64())
            }
            Cause::Killed(signal) => format!("{} was sent again; the job was killed", signals::name(*signal)),
            Cause::Outlasted(signal) => format!("{} did not end all; the job was killed", signals::name(*signal)),
            Cause::NotBegun(signal) => {
                format!("{} came while the run waited for a tool's word; no rank was started", signals::name(*signal))
            }
            Cause::Dismissed(_) => "the job was ended by job control".to_owned(),
            Cause::GuardianGone => "the guardian of this job is gone; the job was killed".to_owned(),
            Cause::Unread => {
                let name = signals::name(Signal::SIGPIPE as i32);
                format!("nobody reads the output any more ({name}); the job was ended")
            }
            Cause::Broken(what) => what.clone(),
        })
    }
}

/// Returns the words for an abort.
pub fn abort(who: &ProcName, status: i32, message: &str) -> String {
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{who} called abort with status {status}{colon}{message}")
}

/// Returns the exit status that a shell shows for a process that a signal ended.
pub fn of_signal(signal: i32) -> u8 {
    128 + (signal & 0x7f) as u8
}

/// A status is 8 bits wide; one that is not 0 must not become 0 by that.
pub fn low_byte(status: i32) -> u8 {
    match (status, status as u8) {
        (0, _) => 0,
        (_, 0) => FAILURE,
        (_, byte) => byte,
    }
}

impl std::fmt::Display for ProcName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}", self.rank)?;
        if self.job > 1 {
            write!(f, " of job {}", self.job)?;
        }
        write!(f, " on node {}", self.node)?;
        match self.pid {
            Some(pid) => write!(f, " (pid {pid})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(rank: u32) -> ProcName {
        ProcName { job: 1, rank, node: "n".into(), pid: Some(100 + rank as i32) }
    }

    fn outcome(of: impl FnOnce(&mut Outcome)) -> (u8, String) {
        let mut outcome = Outcome::default();
        of(&mut outcome);
        (outcome.code(), outcome.line().unwrap_or_default())
    }

    #[test]
    fn all_well() {
        assert_eq!(outcome(|it| it.ended(who(0), End::Code(0), false)), (0, String::new()));
    }

    #[test]
    fn the_first_failure_decides() {
        let (code, line) = outcome(|it| {
            it.ended(who(0), End::Code(0), false);
            it.ended(who(2), End::Code(3), true);
            it.ended(who(1), End::Signal(15), true);
            it.aborted(who(1), 9, String::new());
        });
        assert_eq!((code, line.as_str()), (3, "rank 2 on node n (pid 102) exited with code 3; the job was ended"));
    }

    #[test]
    fn an_abort_stands_before_the_deaths_it_causes() {
        let (code, line) = outcome(|it| {
            it.aborted(who(1), 7, "no more".into());
            it.ended(who(1), End::Signal(15), true);
            it.ended(who(0), End::Signal(9), true);
        });
        assert_eq!(code, 7);
        assert_eq!(line, "rank 1 on node n (pid 101) called abort with status 7: no more; the job was ended");
    }

    #[test]
    fn a_status_is_a_byte_and_no_failure_becomes_success() {
        for (status, code) in [(0, 0), (7, 7), (255, 255), (256, 1), (257, 1), (300, 44), (-1, 255)] {
            assert_eq!(outcome(|it| it.aborted(who(0), status, String::new())).0, code, "{status}");
        }
    }

    #[test]
    fn a_signal_is_128_and_its_number() {
        let (code, line) = outcome(|it| it.ended(who(0), End::Signal(11), false));
        assert_eq!((code, line.contains("signal 11 (SIGSEGV); the job was ended")), (139, true), "{line}");
        let (code, line) = outcome(|it| {
            it.was_sent(2);
            it.ended(who(0), End::Signal(2), false);
        });
        assert_eq!((code, line.ends_with("signal 2 (SIGINT), which the job was sent")), (130, true), "{line}");
        assert_eq!(outcome(|it| it.killed(2)).0, 130);
    }

    #[test]
    fn a_rank_of_a_spawned_job_is_told_apart() {
        let (_, line) = outcome(|it| it.ended(ProcName { job: 2, ..who(0) }, End::Code(1), false));
        assert!(line.starts_with("rank 0 of job 2 on node n (pid 100) "), "{line}");
    }

    #[test]
    fn a_good_exit_between_init_and_finalize_is_a_failure() {
        let (code, line) = outcome(|it| it.ended(who(0), End::Code(0), true));
        assert_eq!((code, line.contains("without Finalize")), (1, true), "{line}");
    }

    #[test]
    fn what_cannot_be_started() {
        let (code, line) = outcome(|it| it.not_started(who(0), (NOT_FOUND, "prog: gone".into())));
        assert_eq!((code, line.ends_with("could not be started: prog: gone")), (127, true), "{line}");
    }

    #[test]
    fn output_that_nobody_reads_is_as_a_broken_pipe() {
        let (code, line) = outcome(|it| {
            it.unread();
            it.ended(who(0), End::Signal(13), false);
        });
        assert_eq!((code, line.contains("SIGPIPE")), (141, true), "{line}");
    }

    #[test]
    fn the_end_of_all_that_was_asked_for_shows_how_it_came() {
        let (code, line) = outcome(|it| it.ended_on_request(End::Signal(9)));
        assert_eq!((code, line.as_str()), (137, "the job was ended by job control"));
        assert_eq!(outcome(|it| it.ended_on_request(End::Code(0))), (0, String::new()));
        let aborted = outcome(|it| {
            it.failed_alone(7);
            it.ended_on_request(End::Signal(15));
        });
        assert_eq!(aborted, (7, String::new()), "that was said when it came");
    }

    #[test]
    fn a_timeout_is_124_whatever_the_ranks_then_do() {
        let (code, line) = outcome(|it| {
            it.timed_out(Duration::from_millis(1500));
            it.ended(who(0), End::Signal(15), true);
        });
        assert_eq!((code, line.as_str()), (124, "the job ran longer than 1.5 s and was ended"));
    }
}
