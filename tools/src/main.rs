//! The `instanton` command.
//!
//! `instanton run` is four processes: a [guardian] in front of the user, a [watcher] and a [reaper] behind it, and
//! behind these the [launcher](launch), which holds the PMIx server and the ranks. Any of them that is left ends
//! everything when others die. `instanton up` is the same four without ranks of its own ([persistent]).
#![forbid(unsafe_code)]

mod allocation;
mod args;
mod binding;
mod build;
mod children;
mod choice;
mod control;
mod credentials;
mod debugger;
mod doctor;
mod elf;
mod environment;
mod event;
mod family;
mod files;
mod gds;
mod guardian;
mod host;
mod input;
mod input_copies;
mod inspect;
mod job;
mod jobs;
mod launch;
mod library;
mod link;
mod linked;
mod log;
mod metrics;
mod monitor;
mod mpi;
mod names;
mod nodes;
mod out;
mod outcome;
mod output;
mod pages;
mod persistent;
mod placement;
mod pty;
mod pulls;
mod query;
mod random;
mod reaper;
mod record;
mod release;
mod report;
mod say;
mod see;
mod server;
mod session;
mod signals;
mod spawn;
mod speech;
mod stale;
mod steering;
mod strangers;
mod streams;
mod survival;
mod terminal;
mod threads;
mod ties;
mod tracer;
mod usage;
mod watcher;

use std::process::ExitCode;

use clap::error::ErrorKind;
use instanton::internal::sys::signals::act_by_default;
use nix::sys::signal::Signal;

/// A process that is just being started has a copy of every descriptor for a moment. A test that starts one holds this
/// alone, and those together that expect an end to be seen as soon as they close theirs.
#[cfg(test)]
static COPIES: std::sync::RwLock<()> = std::sync::RwLock::new(());

fn main() -> ExitCode {
    tracer::begin();
    // Our caller may ignore the ends of children. Then none of ours would leave its end for us. No system refuses this.
    let _ = act_by_default(Signal::SIGCHLD);
    let cli = match args::Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(told) if told.use_stderr() && told.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            say::say(&args::one_line(&told, &args::named(std::env::args_os())));
            return ExitCode::from(outcome::SENSELESS);
        }
        Err(told) => told.exit(),
    };
    let code = match cli.command {
        args::Command::Run(run) => {
            cli.notes.iter().for_each(|note| say::say(note));
            match run.place() {
                Some(wanted) => persistent::run::run(cli.words, &run, &wanted),
                None => guardian::run(cli.words, run.general.report_pid.as_deref(), &run.signals, true),
            }
        }
        args::Command::Up(up) => {
            cli.notes.iter().for_each(|note| say::say(note));
            persistent::up::run(cli.words, &up)
        }
        args::Command::Ps(ps) => see::ps::run(&ps),
        args::Command::Query(ask) => see::query::run(&ask),
        args::Command::Events(events) => see::events::run(&events),
        args::Command::Top(top) => see::top::run(&top),
        args::Command::Info(info) => see::info::run(&info, &host::SUPPORTED),
        args::Command::Kill(kill) => persistent::orders::kill(&kill),
        args::Command::Down(down) => persistent::orders::down(&down),
        args::Command::Launch(launch) => launch::run(*launch),
        args::Command::Doctor(options) => doctor::run(options),
        args::Command::Inspect(options) => inspect::run(&options),
        args::Command::Gds(asked) => gds::run(asked),
        args::Command::Node(node) => nodes::server::run(*node),
        args::Command::Pages { share } => pages::run(&share),
    };
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::say(&format!("{error:#}"));
            say::end(None);
            ExitCode::FAILURE
        }
    }
}
