//! The command line: options before a program are ours, everything behind it is the program's, and a lone `:` begins
//! the next application of the same job.
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use instanton::launch::{AppSpec, MOST_RANKS};

/// PMIx, shared-memory first: start jobs and look into them.
#[derive(Debug, Parser)]
#[command(name = "instanton", version, about, subcommand_required = true)]
pub struct Cli {
    /// The command to carry out.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a job on this machine and wait for its end
    ///
    /// instanton run -n 4 PROGRAM ARGS : -n 2 PROGRAM2 ARGS starts one job of two applications, ranks 0 to 3 and 4 to
    /// 5. Exits with the code of the first rank that failed, 128 and the signal's number if a signal ended it, the
    /// status that a rank aborted with, 124 after --timeout, 127 if there is no such program and 126 if it cannot be
    /// executed.
    Run(Run),
    /// The other half of a running `instanton run`; it is of no use by hand.
    #[command(hide = true)]
    Launch(Launch),
}

/// `instanton run`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// End the job after so many seconds and exit with 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub timeout: Option<Duration>,
    /// Begin every line of output with its rank and stream
    #[arg(long)]
    pub tag_output: bool,
    /// Begin every line of output with the time
    #[arg(long)]
    pub timestamp_output: bool,
    /// Show every line of output as an element of XML
    #[arg(long)]
    pub xml: bool,
    /// Binding of each rank: to all that the command may run on (none), or to one core, in turn (core)
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub bind_to: BindTo,
    /// Also listen on a socket in the session directory, for processes in another network namespace
    #[arg(long)]
    pub path_socket: bool,
    /// Most memory that the processes of one job make the server hold, such as 128M
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub job_memory: Option<u64>,
    #[command(flatten)]
    first: Segment,
    #[arg(skip)]
    others: Vec<Segment>,
}

/// Binding of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BindTo {
    #[default]
    None,
    Core,
}

/// The hidden command that the reaper starts the launcher with.
#[derive(Debug, Args)]
pub struct Launch {
    /// Descriptor of the socket to the guardian.
    #[arg(long)]
    pub guardian: i32,
    /// The job's session directory.
    #[arg(long)]
    pub session: PathBuf,
    /// Options of the user.
    #[command(flatten)]
    pub run: Run,
}

#[derive(Clone, Debug, Args)]
struct Segment {
    /// Ranks of this application
    #[arg(short = 'n', long = "np", value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    ranks: u32,
    /// Set VAR for the ranks of this application; without =VALUE as it is set here
    #[arg(short = 'x', value_name = "VAR[=VALUE]")]
    environment: Vec<OsString>,
    /// Run this application in DIR
    #[arg(long, value_name = "DIR")]
    wdir: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// A further application of a job, behind a colon.
#[derive(Debug, Parser)]
#[command(name = "instanton run ... :", disable_version_flag = true)]
struct Further {
    #[command(flatten)]
    segment: Segment,
}

impl Cli {
    /// Reads a command line, the command's own name first.
    ///
    /// # Errors
    /// Complaints of clap, and the texts of `--help` and `--version`.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut segments = split(arguments);
        let mut cli = Self::try_parse_from(segments.remove(0))?;
        let others = segments
            .into_iter()
            .map(|words| Further::try_parse_from([OsString::from(":")].into_iter().chain(words)).map(|it| it.segment))
            .collect::<Result<Vec<_>, _>>()?;
        let run = match &mut cli.command {
            Command::Run(run) => run,
            Command::Launch(launch) => &mut launch.run,
        };
        run.others = others;
        let ranks = run.apps().iter().map(|app| u64::from(app.ranks)).sum::<u64>();
        if ranks > u64::from(MOST_RANKS) {
            let text = format!("{ranks} ranks are more than the {MOST_RANKS} that one machine can number");
            return Err(Self::command().error(ErrorKind::ValueValidation, text));
        }
        Ok(cli)
    }
}

impl Run {
    /// The applications in their order.
    pub fn apps(&self) -> Vec<AppSpec> {
        std::iter::once(&self.first).chain(&self.others).map(Segment::app).collect()
    }
}

impl Segment {
    fn app(&self) -> AppSpec {
        let (program, arguments) = self.command.split_first().expect("clap requires a program");
        AppSpec {
            ranks: self.ranks,
            environment: self.environment.iter().map(|setting| variable(setting)).collect(),
            wdir: self.wdir.clone(),
            program: program.clone(),
            name: None,
            is_numbered: false,
            arguments: arguments.to_vec(),
        }
    }
}

/// The words between lone colons.
fn split(arguments: impl IntoIterator<Item = OsString>) -> Vec<Vec<OsString>> {
    let mut segments = vec![Vec::new()];
    for word in arguments {
        match word == ":" {
            true => segments.push(Vec::new()),
            false => segments.last_mut().expect("begun with one").push(word),
        }
    }
    segments
}

/// `VAR=VALUE` or `VAR`.
fn variable(setting: &OsStr) -> (OsString, Option<OsString>) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = setting.as_bytes();
    match bytes.iter().position(|&byte| byte == b'=') {
        Some(at) => (OsStr::from_bytes(&bytes[..at]).into(), Some(OsStr::from_bytes(&bytes[at + 1..]).into())),
        None => (setting.into(), None),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if !limit.is_zero() => Ok(limit),
        _ => Err("a time limit is more than nothing".to_owned()),
    }
}

fn memory(text: &str) -> Result<u64, String> {
    instanton::server::parse_memory(text).ok_or_else(|| "not an amount of memory, such as 134217728 or 128M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Run, clap::Error> {
        match Cli::read(line.split(' ').map(OsString::from))?.command {
            Command::Run(run) => Ok(run),
            Command::Launch(_) => panic!("{line} is a run"),
        }
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let run = run("instanton run -n 4 -x A=b=c -x B --wdir /tmp --tag-output prog -n 7 --tag x").unwrap();
        assert!(run.tag_output);
        assert_eq!(
            run.apps(),
            [AppSpec {
                ranks: 4,
                environment: vec![("A".into(), Some("b=c".into())), ("B".into(), None)],
                wdir: Some("/tmp".into()),
                program: "prog".into(),
                name: None,
                is_numbered: false,
                arguments: ["-n", "7", "--tag", "x"].map(OsString::from).to_vec(),
            }]
        );
    }

    #[test]
    fn memory_of_a_job_is_an_amount_with_or_without_a_unit() {
        assert_eq!(run("instanton run --job-memory 128M a").unwrap().job_memory, Some(128 << 20));
        assert_eq!(run("instanton run --job-memory 4096 a").unwrap().job_memory, Some(4096));
        assert_eq!(run("instanton run a").unwrap().job_memory, None);
    }

    #[test]
    fn a_lone_colon_begins_the_next_application() {
        let run = run("instanton run -n 2 a : -n 3 -x V=1 b c:d :e : f").unwrap();
        let apps = run.apps();
        assert_eq!(
            apps.iter().map(|app| (app.ranks, app.program.to_str().unwrap())).collect::<Vec<_>>(),
            [(2, "a"), (3, "b"), (1, "f")]
        );
        assert_eq!(apps[1].arguments, ["c:d", ":e"]);
        assert_eq!(apps[0].environment, []);
    }

    #[test]
    fn a_double_dash_ends_the_options() {
        assert_eq!(run("instanton run -n 2 -- -odd -n").unwrap().apps()[0].program, "-odd");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "instanton",
            "instanton run",
            "instanton run -n 2",
            "instanton run -n 0 a",
            "instanton run -n -1 a",
            "instanton run -n 65537 a",
            "instanton run -n 65536 a : b",
            "instanton run --bogus a",
            "instanton run --bind-to moon a",
            "instanton run a :",
            "instanton run : a",
            "instanton run a : --timeout 3 b",
            "instanton run --timeout 0 a",
            "instanton run --timeout -1 a",
            "instanton run --timeout inf a",
            "instanton run --timeout soon a",
            "instanton run --job-memory 0 a",
            "instanton run --job-memory 1MB a",
        ] {
            let error = run(line).expect_err(line);
            assert!(error.use_stderr(), "{line}");
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn a_time_limit_may_have_a_fraction() {
        assert_eq!(run("instanton run --timeout 1.5 a").unwrap().timeout, Some(Duration::from_millis(1500)));
    }
}
