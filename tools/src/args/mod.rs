//! The command line: options before a program are ours, everything behind it is the program's, and a lone `:` begins
//! the next application of the same job.
//!
//! Each group of options has a file of its own. [`words`] comes first: it turns the spellings of other launchers into
//! ours, takes out the options that mean [nothing here](foreign), and reads files of applications. Options of the whole
//! job may stand before any of its applications.
mod app;
mod files;
mod foreign;
mod general;
mod help;
mod hosts;
mod output;
mod persistent;
mod placement;
mod start;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use instanton::launch::{AppSpec, MOST_RANKS};

pub use general::GeneralArgs;
pub use hosts::{HostArgs, Hosts};
pub use output::OutputArgs;
pub use persistent::{Down, Kill, Target, Up, UpOptions, as_said};
pub use placement::PlacementArgs;
pub use start::StartArgs;

use crate::debugger::options::DebuggerOptions;
use crate::debugger::stops::Stops;
use crate::doctor::Doctor;
use crate::gds::Gds;
use crate::inspect::Inspect;
use crate::job::ProcessSet;
use crate::nodes::NodesOptions;
use crate::nodes::server::NodeOptions;
use crate::see::events::EventsOptions;
use crate::see::info::InfoOptions;
use crate::see::ps::Ps;
use crate::see::query::Ask;
use crate::see::top::Top;
use crate::signals::SignalOptions;
use crate::survival::SurvivalOptions;
use app::AppArgs;
use words::Words;

/// Start PMIx and MPI jobs on this machine, see what they do, and find out why they hang
#[derive(Debug, Parser)]
#[command(name = "instanton", version, long_version = crate::build::version(), subcommand_required = true, propagate_version = true)]
pub struct Cli {
    /// The command to carry out.
    #[command(subcommand)]
    pub command: Command,
    /// Words of a run as the launcher reads them again: every spelling ours, every file of applications read.
    #[arg(skip)]
    pub words: Vec<OsString>,
    /// Lines for the user about what was typed.
    #[arg(skip)]
    pub notes: Vec<String>,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a job on this machine and wait for its end
    ///
    /// Options come before the program; everything after it is passed to the program. A colon of its own begins another
    /// application of the same job. Long options may have a single dash, as with mpirun.
    #[command(after_long_help = help::EXAMPLES)]
    Run(Box<Run>),
    /// Start a launcher that stays: jobs in it start at once and find what others publish
    ///
    /// It runs until `instanton down`, SIGINT or SIGTERM, and prints a line once it is ready. `instanton run --in NAME`
    /// starts a job in it. There is no queue: a job that does not fit into the free slots is refused.
    Up(Box<Up>),
    /// Show jobs and ranks, and who waits for whom
    ///
    /// It asks every server of this user that lets tools in: those of `instanton run` and `up`, and of any other host.
    /// For root it asks those of all users. A value that a server does not tell is shown as a dash.
    #[command(after_long_help = help::SEEN)]
    Ps(Ps),
    /// Watch jobs, who waits, requests and memory on a screen
    ///
    /// Without a terminal it prints a table for each sample, or with --json a line.
    #[command(after_long_help = help::WATCHED)]
    Top(Top),
    /// Ask servers for any key, and print a value of any type
    ///
    /// It asks the servers of all nodes of a run. An answer that they agree on is shown once, and one that differs is
    /// shown for each node.
    #[command(after_long_help = help::ASKED)]
    Query(Ask),
    /// Print events as they pass
    ///
    /// A server of this project shows every event that passes it, whoever the event is for, and the beginnings and ends
    /// of jobs and processes. Other servers pass on only what is meant for every tool.
    ///
    /// A line has the time, the server, its node, the code, the source, whom the event is about, and more attributes.
    /// The servers of all nodes of a run are heard. An event that several of them see is shown once, with the node on
    /// which it was raised.
    #[command(after_long_help = help::HEARD)]
    Events(EventsOptions),
    /// Show the build, its paths and limits, and what it supports
    Info(InfoOptions),
    /// End jobs of an `instanton up`, or kill a simulated node
    Kill(Kill),
    /// End an `instanton up`, with all of its jobs
    Down(Down),
    /// Find what keeps jobs from running here, and say what to do
    ///
    /// It says which PMIx library each side loads, which servers can be reached, and whether the kernel, the limits and
    /// the temporary directory are as jobs need them. Of a process it says whose rank it is and what it waits for, and
    /// of a program whether it can be started.
    Doctor(Doctor),
    /// Show what lies in the shared memory of a job, read in place
    ///
    /// It shows a map of the segments, and values as a rank would read them. Of a damaged segment it says what is
    /// wrong.
    Inspect(Inspect),
    /// Manage the plug-in that puts this project's store into stock PMIx servers
    ///
    /// A server with the plug-in writes what it knows of a job into shared memory, where programs that load this
    /// project's libpmix.so.2 read it. All other programs are served as before. Jobs that run keep what they have
    /// loaded.
    #[command(subcommand)]
    Gds(Gds),
    /// The other half of a running `instanton run`; it is of no use by hand.
    #[command(hide = true)]
    Launch(Box<Launch>),
    /// The server of a simulated node; it is of no use by hand.
    #[command(hide = true)]
    Node(Box<NodeOptions>),
    /// Manual pages and completions; `make dist` installs them.
    #[command(hide = true)]
    Pages {
        /// Folder that gets `man`, and a folder for each shell.
        share: PathBuf,
    },
}

/// `instanton run`.
#[derive(Clone, Debug, Args)]
#[command(args_override_self = true)]
pub struct Run {
    #[command(flatten)]
    first: AppArgs,
    #[command(flatten)]
    pub hosts: HostArgs,
    #[command(flatten)]
    pub placement: PlacementArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub general: GeneralArgs,
    #[command(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    pub survival: SurvivalOptions,
    #[command(flatten)]
    pub debugger: DebuggerOptions,
    #[command(flatten)]
    pub signals: SignalOptions,
    #[command(flatten)]
    pub nodes: NodesOptions,
    /// Run the job in an `instanton up`, given by its name or its process ID
    #[arg(long = "in", value_name = "NAME|PID", help_heading = "Run")]
    pub inside: Option<String>,
    #[arg(skip)]
    others: Vec<AppArgs>,
}

/// The hidden command that the reaper starts the launcher with.
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub struct Launch {
    /// Descriptor of the socket to the guardian.
    #[arg(long)]
    pub guardian: i32,
    /// The job's session directory.
    #[arg(long)]
    pub session: PathBuf,
    /// Options of the persistent mode; with a name, it is that.
    #[command(flatten)]
    pub up: UpOptions,
    /// Options of the user.
    #[command(flatten)]
    pub run: Run,
}

/// A further application of a job, behind a colon.
#[derive(Debug, Parser)]
#[command(name = "instanton run ... :", disable_version_flag = true, args_override_self = true)]
struct Further {
    #[command(flatten)]
    app: AppArgs,
}

impl Cli {
    /// Reads a command line, the command's own name first.
    ///
    /// # Errors
    /// Complaints of clap, and the texts of `--help` and `--version`.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let refused = |text: String| Self::command().error(ErrorKind::ValueValidation, text);
        let Words { first, others, notes } = Words::read(arguments).map_err(refused)?;
        let mut cli = Self::try_parse_from(&first)?;
        let mut apps = Vec::new();
        for (index, (place, words)) in others.iter().enumerate() {
            let read = Further::try_parse_from([OsString::from(":")].iter().chain(words));
            let placed = |error: clap::Error| match place {
                Some(place) => refused(format!("{place}: {}", without_usage(&error))),
                None if error.kind() == ErrorKind::MissingRequiredArgument => {
                    refused(format!("application {} names no program: it begins behind a colon", index + 2))
                }
                None => error,
            };
            apps.push(read.map_err(placed)?.app);
        }
        cli.notes = notes;
        let run = match &mut cli.command {
            Command::Run(run) => &mut **run,
            Command::Launch(launch) => &mut launch.run,
            Command::Up(_) => {
                cli.words = first.into_iter().skip(2).collect();
                return Ok(cli);
            }
            Command::Gds(_)
            | Command::Doctor(_)
            | Command::Inspect(_)
            | Command::Node(_)
            | Command::Pages { .. }
            | Command::Ps(_)
            | Command::Query(_)
            | Command::Info(_)
            | Command::Top(_)
            | Command::Events(_)
            | Command::Kill(_)
            | Command::Down(_) => return Ok(cli),
        };
        run.others = apps;
        run.output.check().map_err(refused)?;
        run.placement.policy().map_err(refused)?;
        ranks(&run.apps(1).map_err(refused)?).map_err(refused)?;
        cli.notes.extend(std::iter::once(&run.first).chain(&run.others).flat_map(AppArgs::notes));
        let behind = others.into_iter().flat_map(|(_, words)| [OsString::from(":")].into_iter().chain(words));
        cli.words = first.into_iter().skip(2).chain(behind).collect();
        Ok(cli)
    }
}

impl Run {
    /// The applications in their order; `unnumbered` is the number of ranks of one that is given none.
    ///
    /// # Errors
    /// A line about a setting that makes no sense.
    pub fn apps(&self, unnumbered: u32) -> Result<Vec<AppSpec>, String> {
        std::iter::once(&self.first).chain(&self.others).map(|app| app.spec(unnumbered)).collect()
    }

    /// The process sets of the applications.
    pub fn psets(&self, unnumbered: u32) -> Vec<ProcessSet> {
        let all = std::iter::once(&self.first).chain(&self.others);
        ProcessSet::of_apps([], all.map(|app| (app.ranks.unwrap_or(unnumbered), &app.psets)))
    }

    /// Name or process of what the run is to be in; none if it is a run of its own.
    pub fn place(&self) -> Option<String> {
        persistent::wanted(self.inside.as_ref())
    }

    /// The places at which ranks stop for a debugger, where there are so many.
    ///
    /// # Errors
    /// A line that names a rank that there is not.
    pub fn stops(&self, size: u32) -> Result<Stops, String> {
        self.debugger.stops(self.survival.stops(), size)
    }

    /// The place for the process table, if it is wanted.
    pub fn proctable(&self) -> Option<&Path> {
        self.debugger.output_proctable.as_deref().or(self.survival.proctable())
    }

    /// Returns whether some application is given a number of ranks.
    pub fn is_numbered(&self) -> bool {
        std::iter::once(&self.first).chain(&self.others).any(|app| app.ranks.is_some())
    }

    /// Returns whether it has one application, and that is not given a number of ranks.
    pub fn is_unnumbered(&self) -> bool {
        self.others.is_empty() && self.first.ranks.is_none()
    }
}

/// The number of ranks of all applications.
///
/// # Errors
/// A line about more than one machine can number.
pub fn ranks(apps: &[AppSpec]) -> Result<u32, String> {
    let ranks = apps.iter().map(|app| u64::from(app.ranks)).sum::<u64>();
    let number = u32::try_from(ranks).ok().filter(|ranks| *ranks <= MOST_RANKS);
    number.ok_or_else(|| format!("{ranks} ranks are more than the {MOST_RANKS} that one machine can number"))
}

/// A complaint of clap in one line, and where to read more: in the help of this command.
pub fn one_line(error: &clap::Error, command: &str) -> String {
    let text = without_usage(error);
    // Other launchers have their options, or the program, at once.
    let is_theirs = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)
        && command == Cli::command().get_name();
    let hint = if is_theirs && !text.contains("; tip: ") { "; `instanton run` starts programs" } else { "" };
    format!("{text}{hint}; see `{command} --help`")
}

/// The command that a command line names, with its subcommands, as one types it for its help.
pub fn named(arguments: impl IntoIterator<Item = OsString>) -> String {
    let mut command = &Cli::command();
    let mut words = vec![command.get_name().to_owned()];
    for word in arguments.into_iter().skip(1) {
        match command.find_subcommand(&word) {
            Some(found) if !found.is_hide_set() => command = found,
            _ => break,
        }
        words.push(command.get_name().to_owned());
    }
    words.join(" ")
}

fn without_usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default();
    let is_worth = |line: &&str| !line.is_empty() && !line.starts_with("tip: to pass ");
    let lines = text.lines().map(str::trim).filter(is_worth);
    let line = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    // Of the standard library, about numbers.
    let line = line.replace("invalid digit found in string", "not a whole number");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    pub(super) fn run(line: &str) -> Result<Run, clap::Error> {
        match Cli::read(line.split(' ').map(OsString::from))?.command {
            Command::Run(run) => Ok(*run),
            _ => panic!("{line} is a run"),
        }
    }

    fn apps(run: &Run) -> Vec<AppSpec> {
        run.apps(1).unwrap()
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let run = run("instanton run -n 4 -x A=b=c -x B --wdir /tmp --tag-output prog -n 7 --tag x").unwrap();
        assert!(run.output.tag_output);
        assert_eq!(
            apps(&run),
            [AppSpec {
                ranks: 4,
                environment: vec![("A".into(), Some("b=c".into()))],
                wdir: Some("/tmp".into()),
                program: "prog".into(),
                arguments: ["-n", "7", "--tag", "x"].map(OsString::from).to_vec(),
                ..AppSpec::default()
            }]
        );
    }

    #[test]
    fn memory_of_a_job_is_an_amount_with_or_without_a_unit() {
        let memory = |line: &str| run(line).unwrap().general.job_memory;
        assert_eq!(memory("instanton run --job-memory 128M a"), Some(128 << 20));
        assert_eq!(memory("instanton run --job-memory 4096 a"), Some(4096));
        assert_eq!(memory("instanton run a"), None);
    }

    #[test]
    fn each_application_has_its_process_sets() {
        let run = run("instanton run -n 2 --pset a --pset b x : y : -n 1 --pset a z --pset c").unwrap();
        let sets: Vec<_> =
            run.psets(1).into_iter().map(|set| (set.name.to_string(), set.ranks().collect::<Vec<_>>())).collect();
        assert_eq!(sets, [("a".to_owned(), vec![0, 1, 3]), ("b".to_owned(), vec![0, 1])]);
    }

    #[test]
    fn a_lone_colon_begins_the_next_application() {
        let apps = apps(&run("instanton run -n 2 a : -n 3 -x V=1 b c:d :e : f").unwrap());
        assert_eq!(
            apps.iter().map(|app| (app.ranks, app.program.to_str().unwrap())).collect::<Vec<_>>(),
            [(2, "a"), (3, "b"), (1, "f")]
        );
        assert_eq!(apps[1].arguments, ["c:d", ":e"]);
        assert_eq!(apps[0].environment, []);
    }

    #[test]
    fn options_of_the_job_may_stand_before_any_application() {
        let run = run("instanton run -n 2 a -x : -n 3 --timeout 3 -tag-output b").unwrap();
        assert_eq!((run.general.timeout, run.output.tag_output), (Some(Duration::from_secs(3)), true));
        assert_eq!(apps(&run).iter().map(|app| app.ranks).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(apps(&run)[0].arguments, ["-x"]);
    }

    #[test]
    fn a_double_dash_ends_the_options() {
        assert_eq!(apps(&run("instanton run -n 2 -- -odd -n").unwrap())[0].program, "-odd");
    }

    #[test]
    fn spellings_of_other_launchers_are_read() {
        for line in [
            "-np 3 a",
            "-c 3 a",
            "--n 3 a",
            "-n 3 a",
            "--np=3 a",
            "-np=3 a",
            "-n3 a",
            "--ntasks 3 a",
            "-np 2 -np 3 a",
            "-allow-run-as-root -np 3 a",
            "--oversubscribe -n 3 a",
            "-q -v -n 3 a",
            "--noprefix -n 3 a",
            "--prtemca plm ssh -n 3 a",
            "-prefix /opt/x -n 3 a",
            "--launch-agent=x -n 3 a",
        ] {
            let line = format!("instanton run {line}");
            let run = run(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!((apps(&run)[0].ranks, &apps(&run)[0].program), (3, &"a".into()), "{line}");
        }
        for line in ["-wd /x a", "-wdir /x a", "--wd=/x a", "--chdir /x a"] {
            assert_eq!(apps(&run(&format!("instanton run {line}")).unwrap())[0].wdir, Some("/x".into()), "{line}");
        }
    }

    #[test]
    fn options_of_hydra_are_read() {
        let line = "instanton run -ppn 2 -f hosts -hosts localhost -l -genv A 1 -envall -n 2 -env B 2 a : -env A 3 b";
        let run = run(line).unwrap();
        assert!(run.output.tag_output && run.hosts.are_named() && run.placement.per_node() == Some(2));
        let set = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.into(), Some(value.into()))).collect::<Vec<(OsString, _)>>()
        };
        assert_eq!(apps(&run)[0].environment, set(&[("A", "1"), ("B", "2")]));
        assert_eq!(apps(&run)[1].environment, set(&[("A", "1"), ("A", "3")]));
    }

    #[test]
    fn settings_of_the_environment_are_made_in_an_order() {
        let line =
            "instanton run -mca pml ob1 -x P=/b -x Q --prepend-envar P[:] /a -append-env P[:] /c --unset-env R a";
        let expected = [("R", None), ("P", Some("/b")), ("OMPI_MCA_pml", Some("ob1")), ("P", Some("/a:/b"))];
        let expected = expected.into_iter().chain([("P", Some("/a:/b:/c"))]);
        let expected: Vec<_> = expected.map(|(name, value)| (name.into(), value.map(OsString::from))).collect();
        assert_eq!(apps(&run(line).unwrap())[0].environment, expected);
    }

    #[test]
    fn what_is_not_set_or_means_nothing_is_said() {
        let notes = |line: &str| Cli::read(line.split(' ').map(OsString::from)).unwrap().notes.join("\n");
        assert!(notes("instanton run -x NOT_SET_ANYWHERE a : -x NOT_SET* b").contains("NOT_SET_ANYWHERE"));
        assert!(notes("instanton run -x NOT_SET* a").contains("NOT_SET*"));
        assert_eq!(notes("instanton run -x PATH -x NEW=1 --allow-run-as-root a"), "");
        let note = notes("instanton run --pmixmca a b a");
        assert!(note.contains("--pmixmca") && note.contains("nothing here"), "{note}");
    }

    #[test]
    fn the_launcher_reads_the_same_without_the_notes() {
        let first = Cli::read(
            "instanton run -np 2 --prtemca a b -x NONE_SUCH a -np : -timestamp-output b".split(' ').map(OsString::from),
        );
        let first = first.unwrap();
        let words: Vec<_> = ["instanton", "run"].map(OsString::from).into_iter().chain(first.words).collect();
        assert_eq!(words.join(" ".as_ref()), "instanton run --timestamp-output --np 2 -x NONE_SUCH a -np : b");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "instanton",
            "instanton run",
            "instanton run -n 2",
            "instanton run -n 0 a",
            "instanton run -x =1 a",
            "instanton run -np a",
            "instanton run -n 65537 a",
            "instanton run -n 65536 a : b",
            "instanton run --bogus a",
            "instanton run --bind-to moon a",
            "instanton run --map-by moon a",
            "instanton run --map-by ppr:2 a",
            "instanton run --rank-by moon a",
            "instanton run --topology core a",
            "instanton run --display moon a",
            "instanton run a :",
            "instanton run : a",
            "instanton run --timeout 0 a",
            "instanton run --timeout -1 a",
            "instanton run --timeout inf a",
            "instanton run --timeout soon a",
            "instanton run --job-memory 0 a",
            "instanton run --job-memory 1MB a",
            "instanton run --pset a,b a",
            "instanton run --preload-binary a",
            "instanton run -s a",
            "instanton run --nolocal a",
            "instanton run --app /no/such",
            "instanton run -configfile /no/such",
            "instanton run -genv A",
            "instanton run --tune /no/such a",
            "instanton run -am",
            "instanton run -envnone a",
            "instanton run --cpu-bind=cores a",
            "instanton ps -l",
            "instanton up --pmi 1",
            "instanton up --library own",
            "instanton up --set-cwd-to-session-dir",
            "instanton up --spawn-timeout 3",
            "instanton up -v",
            "instanton run --mca pml",
            "instanton run --prepend-envar P /a a",
            "instanton run --output tags a",
            "instanton run --output dir= a",
            "instanton run --stdin 1,2 a",
            "instanton run --forward-signals SIGNONE a",
        ] {
            let error = run(line).expect_err(line);
            assert!(error.use_stderr(), "{line}");
            assert_eq!(error.exit_code(), 2, "{line}");
            assert_eq!(one_line(&error, "instanton run").lines().count(), 1, "{line}");
        }
    }

    #[test]
    fn a_wrong_word_brings_the_right_one() {
        for (line, word) in [
            ("--timeot 3 a", "--timeout"),
            ("-hostfil x a", "--hostfile"),
            ("--bind-to croe a", "core"),
            ("--output tagg a", "tag"),
            ("-s a", "./prog"),
            ("-n -1 a", "1 to 65536"),
            ("--timeout -5 a", "more than nothing"),
            ("--max-restarts x a", "not a whole number"),
            ("--map-by ppr:2 a", "ppr:2:package"),
            ("--output raw a", ":raw"),
            ("--runtime-options restarts=2 a", "max-restarts"),
            ("a : -n 2", "application 2"),
        ] {
            let said = one_line(&run(&format!("instanton run {line}")).unwrap_err(), "instanton run");
            assert!(said.contains(word), "{said}");
        }
        for line in ["instanton -n 2 ./a", "instanton ./a"] {
            let said = one_line(&run(line).unwrap_err(), "instanton");
            assert!(said.contains("`instanton run` starts programs"), "{said}");
        }
    }

    #[test]
    fn a_time_limit_may_have_a_fraction() {
        assert_eq!(run("instanton run --timeout 1.5 a").unwrap().general.timeout, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn applications_may_stand_in_a_file() {
        let path = std::env::temp_dir().join(format!("instanton-app-{}", std::process::id()));
        let read = |text: &str, more: &str| {
            std::fs::write(&path, text).unwrap();
            run(&format!("instanton run --timeout 9 --app {}{more}", path.display()))
        };
        let both = read("# two\n-np 2 -x A=1 a 'b c'\n\n  -n 3 \"d\" e\\ f \n", "").unwrap();
        let words = |app: &AppSpec| (app.ranks, app.program.clone(), app.arguments.clone());
        assert_eq!(
            apps(&both).iter().map(words).collect::<Vec<_>>(),
            [(2, "a".into(), vec!["b c".into()]), (3, "d".into(), vec!["e f".into()])]
        );
        for (text, more, place) in [
            ("-n 1 a\n-n x b\n", "", ":2: "),
            ("-n 1 'a\n", "", ":1: "),
            ("# none\n", "", "no application"),
            ("a\n", " b", "--app"),
        ] {
            let said = one_line(&read(text, more).unwrap_err(), "instanton run");
            assert!(said.contains(place), "{said}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
