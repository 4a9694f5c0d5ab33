//! `instanton doctor`: what keeps jobs from running here, and what to do about it.
//!
//! Actors: each subject is looked at by a thread of its own, which sends its [findings](finding); servers are tried by
//! further ones ([doors]). This thread collects until the time is over, says of each subject that is missing then that
//! it hangs, and ends the process with whatever is left in it. Nothing is changed: no server is asked for more than to
//! be let in and who waits, no file stays.
mod binfmt;
mod doors;
mod environment;
mod finding;
mod hosts;
mod libraries;
pub mod process;
mod program;
mod rank;
mod system;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::out;
use crate::threads::start_thread;
use finding::{Finding, Level};

/// Time for all subjects together.
const PATIENCE: Duration = Duration::from_secs(8);

/// `instanton doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = HELP)]
pub struct Doctor {
    /// Process to look at: which library it has loaded, whose rank it is, and what it waits for
    pid: Option<i32>,
    /// Program to look at: whether it can be started, and which PMIx library its loader finds
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print JSON, as docs/DIAGNOSIS.md describes it
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
It changes nothing, and ends within 10 s even where a server hangs.

Environment:
  NO_COLOR   no colours
  COLUMNS    width of the report

Exit status:
  0   no problem was found; there may be notices
  1   a problem was found, or the report cannot be written
  2   the command line makes no sense";

/// A subject, with the function that looks at it.
type Subject = (&'static str, Box<dyn FnOnce() -> Vec<Finding> + Send>);

/// Looks at everything, and reports. Returns the status to exit with.
pub fn run(options: Doctor) -> Result<u8> {
    let mut subjects: Vec<Subject> = vec![("libraries", Box::new(libraries::plain))];
    if let Some(program) = options.program {
        subjects.push(("the program", Box::new(move || program::all(&program))));
    }
    if let Some(pid) = options.pid {
        subjects.push(("the process", Box::new(move || rank::all(pid))));
    }
    subjects.push(("servers", Box::new(doors::all)));
    subjects.push(("the environment", Box::new(environment::all)));
    subjects.push(("the temporary directory", Box::new(system::directory)));
    subjects.push(("limits", Box::new(system::limits)));
    subjects.push(("the kernel", Box::new(system::kernel)));
    subjects.push(("other launchers", Box::new(hosts::all)));
    let findings = collect(subjects)?;
    let report = match options.json {
        true => finding::json(&findings)?,
        false => finding::text(&findings, crate::see::width(), finding::shows_colours()),
    };
    out::write(&report)?;
    Ok(u8::from(finding::count(&findings, Level::Problem) > 0))
}

/// The findings of all subjects, in their order.
fn collect(subjects: Vec<Subject>) -> Result<Vec<Finding>> {
    let (told, findings) = mpsc::channel();
    let names: Vec<&'static str> = subjects.iter().map(|(name, _)| *name).collect();
    for (at, (_, look)) in subjects.into_iter().enumerate() {
        let told = told.clone();
        start_thread("doctor", move || _ = told.send((at, look())))?;
    }
    drop(told);
    let until = Instant::now() + PATIENCE;
    let mut found: Vec<Option<Vec<Finding>>> = names.iter().map(|_| None).collect();
    while let Ok((at, findings)) = findings.recv_timeout(until.saturating_duration_since(Instant::now())) {
        found[at] = Some(findings);
    }
    let hangs = |name: &str| {
        let text = format!("the look at {name} has not ended within {PATIENCE:?}");
        let advice = "a file system or a service that it needs hangs: see mounts of a network, and dmesg";
        vec![Finding::problem("this command", "doctor.late", text, advice)]
    };
    Ok(found.into_iter().zip(names).flat_map(|(found, name)| found.unwrap_or_else(|| hangs(name))).collect())
}
