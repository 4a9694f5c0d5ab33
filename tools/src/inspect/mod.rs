//! `instanton inspect`: what lies in the shared memory of a job, read where it lies.
//!
//! A server holds a descriptor of each segment; the [search](mod@find) goes through those that this user may look at. A
//! [segment](segments) is read twice: as a copy, from which its map is drawn, and by the store's own reader, which
//! checks every byte as it does in a rank. A segment that is damaged, or made by somebody who only gives it such a name,
//! is told with its fault, and the others are shown. Processes are not stopped, nothing of theirs is written, and one
//! that ends meanwhile leaves what was opened before.
mod find;
mod segments;
mod show;
mod values;

use anyhow::Result;
use clap::Args;

use crate::out;
use crate::outcome::{FAILURE, SENSELESS};
use crate::say::say;
use segments::Job;
use values::{Asked, Ranks, Row};

/// `instanton inspect`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = HELP)]
pub struct Inspect {
    /// A namespace, the process ID of a launcher, a server or a rank, or with a slash the path of named segments; by
    /// default every job that you may look at
    #[arg(value_name = "NAMESPACE|PID|PATH")]
    target: Option<String>,
    /// Show this key alone, of the job and of each rank
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Show the values of these ranks: a list such as 0,2-5, `all`, or `job` for those of the job itself
    #[arg(long, value_name = "RANKS")]
    rank: Option<String>,
    /// Check every checksum, also those that no look-up verifies
    #[arg(long)]
    verify: bool,
    /// Print JSON, as docs/DIAGNOSIS.md describes it
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Segments are read through the descriptors that a server holds, which /proc shows to its own user and to root.
Those of an embedded store that has a name are files, which outlive a writer that was killed.
A key may have its name of the Standard (PMIX_JOB_SIZE) or its text (pmix.job.size).

Exit status:
  0   something was shown, and nothing was damaged
  1   there is no such job, or a segment is damaged or cannot be read
  2   the command line makes no sense";

/// Shows jobs. Returns the status to exit with.
pub fn run(options: &Inspect) -> Result<u8> {
    let asked = match asked(options) {
        Ok(asked) => asked,
        Err(line) => return out::refuse(&line, SENSELESS),
    };
    let found = match find::jobs(options.target.as_deref()) {
        Ok(found) => found,
        Err(line) => return out::refuse(&line, FAILURE),
    };
    let jobs: Vec<(Job, Vec<Row>)> = found
        .into_iter()
        .map(|found| {
            let job = Job::read(found, options.verify);
            let rows = values::rows(&job, &asked);
            (job, rows)
        })
        .collect();
    match options.json {
        true => show::json(&jobs)?,
        false => {
            show::text(&jobs, asked.key.is_none())?;
            let is_asked = options.key.is_some() || options.rank.is_some();
            if is_asked && jobs.iter().all(|(_, rows)| rows.is_empty()) {
                say("no such value is there; a key may have its name of the Standard, or its text");
            }
        }
    }
    let is_damaged = |(job, rows): &(Job, Vec<Row>)| job.is_damaged() || rows.iter().any(Row::is_fault);
    Ok(if jobs.iter().any(is_damaged) { FAILURE } else { 0 })
}

/// The values that are asked for.
fn asked(options: &Inspect) -> Result<Asked, String> {
    let key = options.key.as_deref().map(values::key).transpose()?;
    let ranks = match options.rank.as_deref() {
        None => Ranks::Unsaid,
        Some("job") => Ranks::Job,
        Some("all") => Ranks::All,
        Some(ranks) => Ranks::These(ranks.parse().map_err(|_| format!("--rank {ranks}: 0,2-5, all or job is meant"))?),
    };
    Ok(Asked { key, ranks })
}
