//! The `instanton` command.
//!
//! `instanton run` is three processes: a [guardian] in front of the user, a [reaper] behind it, and behind that the
//! [launcher](launch), which holds the PMIx server and the ranks. Whoever is left ends everything when others die.
#![forbid(unsafe_code)]

mod args;
mod children;
mod control;
mod environment;
mod event;
mod family;
mod files;
mod guardian;
mod host;
mod input;
mod job;
mod jobs;
mod launch;
mod link;
mod log;
mod outcome;
mod output;
mod pulls;
mod query;
mod random;
mod reaper;
mod record;
mod say;
mod session;
mod signals;
mod spawn;
mod stale;
mod strangers;
mod streams;
mod terminal;
mod threads;

use std::process::ExitCode;

/// A process that is just being started has a copy of every descriptor for a moment. A test that starts one holds this
/// alone, and those together that expect an end to be seen as soon as they close theirs.
#[cfg(test)]
static COPIES: std::sync::RwLock<()> = std::sync::RwLock::new(());

fn main() -> ExitCode {
    let cli = match args::Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(told) => told.exit(),
    };
    let code = match cli.command {
        args::Command::Run(_) => guardian::run(std::env::args_os().skip(2).collect()),
        args::Command::Launch(launch) => launch::run(launch),
    };
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
