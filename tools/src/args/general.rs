//! Options of a run, or of an `instanton up`, as a whole: its limits, and what it reports of itself.
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::metrics::Destination;

/// Options of a run, or of an `instanton up`, as a whole.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct GeneralArgs {
    /// End the job after this many seconds; the exit status is 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Show the stacks of all ranks with every report on a job that hangs: at --timeout, one second after an interrupt,
    /// and on SIGQUIT
    #[arg(long)]
    pub get_stack_traces: bool,
    /// Write the process ID that signals go to: to stdout (-), to stderr (+) or into a file
    #[arg(long, value_name = "WHERE")]
    pub report_pid: Option<PathBuf>,
    /// Write the address at which tools reach the run: to stdout (-), to stderr (+) or into a file
    #[arg(long, value_name = "WHERE")]
    pub report_uri: Option<PathBuf>,
    /// Also listen on a socket in the session directory, for processes in another network namespace
    #[arg(long)]
    pub path_socket: bool,
    /// Limit on the memory that the processes of a job make the server hold, such as 128M
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub job_memory: Option<u64>,
    /// Give out counters for Prometheus: at a socket (unix:PATH), or in a file that is written anew every 5 s
    #[arg(long, value_name = "unix:PATH|FILE")]
    pub metrics: Option<Destination>,
}

/// Reads a number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if !limit.is_zero() => Ok(limit),
        _ => Err("a time limit is more than nothing".to_owned()),
    }
}

fn memory(text: &str) -> Result<u64, String> {
    instanton::server::parse_memory(text).ok_or_else(|| "not an amount of memory, such as 134217728 or 128M".to_owned())
}
