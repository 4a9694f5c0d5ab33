//! One job under `dist/bin/instanton run` or Open MPI's `mpirun`, watched from outside as a person would: what it
//! prints, how it exits, and what it leaves behind.
//!
//! Three threads turn what happens into [`Event`]s: one reads standard output, one standard error, and one reaps. The
//! test process is a subreaper, so whatever outlives the launcher becomes its child: when there is no child left to
//! wait for, no process of the job is. A launch that leaves a process, a file in its temporary directory or one in
//! /dev/shm fails its test. Launches take turns, because children belong to the whole test process.

#![allow(dead_code, reason = "every test uses its own part of it")]
pub mod kills;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;

/// A job that has not ended by then has failed. Generous: the machine may be slow and busy.
const JOB_DEADLINE: Duration = Duration::from_secs(600);
/// Limit on the work that the launcher leaves to others (its guardian), after its end.
const AFTERWARDS: Duration = Duration::from_secs(120);

/// Returns the folder in which `make dist` puts the release.
pub fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dist")
}

/// A program that `make peers` has compiled, say `ompi4/ring`.
pub fn peer(program: &str) -> PathBuf {
    target().join("peers").join(program)
}

/// Debian's launcher of Open MPI.
pub fn mpirun() -> PathBuf {
    "/usr/bin/mpirun.openmpi".into()
}

/// The interpreter that has mpi4py.
pub fn python() -> PathBuf {
    target().join("venv/bin/python")
}

/// Cargo's target directory.
pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("cargo's folder for test files lies in its target directory")
}

/// Returns whether the files that a test needs are there. If not, says so where the test runner's
/// capture does not hide it.
pub fn have(test: &str, needed: &[PathBuf]) -> bool {
    let instanton = dist().join("bin/instanton");
    for path in std::iter::once(&instanton).chain(needed) {
        if !path.exists() {
            skipped(test, &format!("{} is not there; `make test` provides it", path.display()));
            return false;
        }
    }
    true
}

/// Says that a test has not been made, and why.
pub fn skipped(test: &str, reason: &str) {
    // In one piece: other tests write at the same time.
    let _ = io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}

/// Takes away what an outer launcher left, and lets Open MPI keep to loopback and the plain messaging layer: it is
/// quick to start then, and nothing leaves the machine.
pub fn plain_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["PMIX_", "OMPI_", "PRTE_", "SLURM_", "INSTANTON_"].iter().any(|prefix| name_text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
        .env("OMPI_MCA_pml", "ob1")
        .env("OMPI_MCA_btl_tcp_if_include", "lo")
        .env("OMPI_MCA_oob_tcp_if_include", "lo")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

/// The shell's words by which a rank says that it is up.
pub const UP: &str = "echo up > \"$TMPDIR/up\"; ";
const KILLED: &str = r#"
mkfifo "$TMPDIR/up"
exec 3<>"$TMPDIR/up"
"$@" &
read -r _ <&3
read -r _ <&3
kill -9 $!
wait $!
rm -rf "${TMPDIR:?}"/*
"#;

/// Record of a rank under `strace -f -o FOLDER/RANK` while it Got many times: its system calls, and true if it has
/// opened the segments of a node before.
pub fn traced_gets(folder: &Path, rank: u32) -> (Vec<String>, bool) {
    let trace = fs::read_to_string(folder.join(rank.to_string())).expect("a trace of each rank");
    // Of the thread that Gets.
    let thread = trace.lines().find(|line| line.contains("gets begin")).expect("the first mark");
    let thread = thread.split_once(' ').expect("strace -f begins with the thread").0.to_owned() + " ";
    let calls = trace.lines().filter(|line| line.starts_with(&thread) && !line.contains(" <... "));
    let calls: Vec<_> = calls.skip_while(|line| !line.contains("gets begin")).skip(1).collect();
    let end = calls.iter().position(|line| line.contains("gets end")).expect("the second mark");
    let opened = trace.lines().any(|line| line.contains("instanton-store-") && line.ends_with(" = 0"));
    (calls[..end].iter().map(|line| (*line).to_owned()).collect(), opened)
}

/// The lines of an output of `prterun` that mean something. The launcher ends what ranks log with a NUL, wherever that
/// comes among their lines, and takes the size of a node from nowhere.
pub fn lines_of_prterun(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stdout.lines().map(|line| line.trim_start_matches(['\0', ' ']));
    let mut lines: Vec<_> = lines.filter(|line| !line.contains("get pmix.node.size")).collect();
    lines.sort_unstable();
    lines
}

/// A launch in preparation: `instanton run` or `mpirun` with these arguments.
pub struct Launch {
    launcher: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    leaves: Option<&'static str>,
    abandons: bool,
}

impl Launch {
    /// `instanton run -n RANKS PROGRAM`
    pub fn ranks(ranks: u32, program: impl AsRef<OsStr>) -> Launch {
        Launch::by(dist().join("bin/instanton"), &["run"], ranks, program)
    }

    /// `mpirun -n RANKS PROGRAM`, with this library on both sides.
    pub fn mpirun(ranks: u32, program: impl AsRef<OsStr>) -> Launch {
        Launch::by(mpirun(), &["--oversubscribe", "-x", "LD_LIBRARY_PATH"], ranks, program)
    }

    /// A program that nobody launches: it is a launcher itself.
    pub fn alone(program: impl Into<PathBuf>) -> Launch {
        let launcher = program.into();
        Launch { launcher, arguments: Vec::new(), environment: Vec::new(), leaves: None, abandons: false }
    }

    fn by(launcher: PathBuf, options: &[&str], ranks: u32, program: impl AsRef<OsStr>) -> Launch {
        Launch::alone(launcher).args(options).args(["-n", &ranks.to_string()]).args([program])
    }

    /// Adds an option of the launcher.
    pub fn option(mut self, option: &[&str]) -> Launch {
        self.arguments.splice(1..1, option.iter().map(OsString::from));
        self
    }

    /// Further arguments: of the program, or `:` and another application.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Launch {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Adds arguments at a place among those that there are.
    pub fn insert<S: Into<OsString>>(mut self, at: usize, arguments: impl IntoIterator<Item = S>) -> Launch {
        self.arguments.splice(at..at, arguments.into_iter().map(S::into));
        self
    }

    /// A program runs the launcher, which it is given with all arguments.
    pub fn through(mut self, program: impl Into<PathBuf>) -> Launch {
        let launcher = std::mem::replace(&mut self.launcher, program.into()).into_os_string();
        self.insert(0, [launcher])
    }

    pub fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Launch {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    /// Kills the launcher when two ranks have said so, by [`UP`], and takes away what it has left.
    pub fn killed_when_up(self) -> Launch {
        self.through("/bin/bash").insert(0, ["-c", KILLED, "killed"])
    }

    /// Programs find the machine's stock library, and keep it.
    pub fn stock_library(self) -> Launch {
        self.env("LD_LIBRARY_PATH", "").env("INSTANTON_RANK_LIBRARY", "own")
    }

    /// Its library leaves files in /dev/shm whose names begin like that, whatever the launcher.
    pub fn leaves(mut self, start: &'static str) -> Launch {
        self.leaves = Some(start);
        self
    }

    /// The launch leaves files of its own in its temporary directory, as launchers that are killed do; none may be of
    /// this project.
    pub fn abandons_its_folder(mut self) -> Launch {
        self.abandons = true;
        self
    }

    /// Starts it and waits for its end.
    pub fn run(self) -> Outcome {
        self.start().finish()
    }

    pub fn start(self) -> Running {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        nix::sys::prctl::set_child_subreaper(true).expect("become a subreaper");
        take_own_shm();
        let tmpdir = fresh_directory();
        let shm_before = files_in(Path::new("/dev/shm"));

        let mut launcher = self.command(&tmpdir).spawn().expect("start the launcher");
        let (events, incoming) = mpsc::channel();
        let output = launcher.stdout.take().expect("a pipe");
        let errors = launcher.stderr.take().expect("a pipe");
        read_lines(output, events.clone(), Event::Output);
        read_lines(errors, events.clone(), Event::Error);
        reap(events);
        Running {
            launcher,
            incoming,
            deadline: Instant::now() + JOB_DEADLINE,
            seen: Outcome::default(),
            all_gone: false,
            tmpdir,
            shm_before,
            leaves: self.leaves,
            abandons: self.abandons,
            _turn: turn,
        }
    }

    fn command(&self, tmpdir: &Path) -> Command {
        let mut command = Command::new(&self.launcher);
        plain_environment(&mut command);
        command
            .args(&self.arguments)
            .env("LD_LIBRARY_PATH", dist().join("lib"))
            .env("TMPDIR", tmpdir)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

enum Event {
    Output(String),
    Error(String),
    /// A child of this process has ended, with this status as a shell would give it.
    Ended(Pid, i32),
    /// There is no child left.
    AllGone,
}

/// Output and end of a launch so far.
#[derive(Default, Debug)]
pub struct Outcome {
    /// As a shell gives it: the exit code, or 128 and the signal.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The lines of the output in order: ranks print when they get to it.
    pub fn sorted(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Returns the number of output lines that begin like that.
    pub fn lines_with(&self, start: &str) -> usize {
        self.stdout.lines().filter(|line| line.starts_with(start)).count()
    }

    /// The status must be this one.
    pub fn expect(self, status: i32) -> Outcome {
        assert_eq!(self.status, Some(status), "the launcher's status; it printed {self:#?}");
        self
    }
}

/// A launch under way.
pub struct Running {
    launcher: Child,
    incoming: Receiver<Event>,
    deadline: Instant,
    seen: Outcome,
    all_gone: bool,
    tmpdir: PathBuf,
    shm_before: BTreeSet<PathBuf>,
    leaves: Option<&'static str>,
    abandons: bool,
    _turn: MutexGuard<'static, ()>,
}

impl Running {
    /// Waits until so many lines of the output begin like that.
    pub fn wait_for(&mut self, start: &str, times: usize) {
        while self.seen.lines_with(start) < times {
            assert!(self.step(), "the job ended before it said {start:?} {times} times: {:#?}", self.seen);
        }
    }

    pub fn signal_launcher(&self, signal: Signal) {
        kill(self.launcher_pid(), signal).expect("signal the launcher");
    }

    /// Waits until the launcher, all that it started and all that it printed has ended; nothing may be left.
    pub fn finish(mut self) -> Outcome {
        while self.step() {}
        let mut files = files_in(&self.tmpdir);
        files.retain(|path| {
            let path = path.strip_prefix(&self.tmpdir).unwrap_or(path);
            !self.abandons || path.to_string_lossy().contains("instanton")
        });
        assert!(files.is_empty(), "left in TMPDIR: {files:#?}; {:#?}", self.seen);
        let is_excused = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.leaves.is_some_and(|start| name.starts_with(start)) && fs::remove_file(path).is_ok()
        };
        let mut shm: Vec<_> = files_in(Path::new("/dev/shm")).difference(&self.shm_before).cloned().collect();
        shm.retain(|path| !is_excused(path));
        assert!(shm.is_empty(), "left in /dev/shm: {shm:#?}; {:#?}", self.seen);
        std::mem::take(&mut self.seen)
    }

    /// Takes in one event; false when there will be no more.
    fn step(&mut self) -> bool {
        match self.incoming.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Output(line)) => self.seen.stdout.push_str(&line),
            Ok(Event::Error(line)) => self.seen.stderr.push_str(&line),
            Ok(Event::Ended(pid, status)) if pid == self.launcher_pid() => {
                self.seen.status = Some(status);
                self.deadline = Instant::now() + AFTERWARDS;
            }
            Ok(Event::Ended(..)) => {}
            Ok(Event::AllGone) => self.all_gone = true,
            // The readers and the reaper are through.
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {
                let still: Vec<_> = children().into_iter().map(command_line).collect();
                panic!("still running at the deadline: {still:#?}; {:#?}", self.seen);
            }
        }
        true
    }

    fn launcher_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.launcher.id()).expect("process ids are positive"))
    }
}

impl Drop for Running {
    /// After a failure, nothing of this launch may disturb the next: children are killed, and theirs as they come up.
    fn drop(&mut self) {
        while !self.all_gone {
            for child in children() {
                let _ = kill(child, Signal::SIGKILL);
            }
            match self.incoming.recv_timeout(Duration::from_secs(1)) {
                Ok(Event::AllGone) | Err(RecvTimeoutError::Disconnected) => self.all_gone = true,
                _ => {}
            }
        }
        let _ = fs::remove_dir_all(&self.tmpdir);
    }
}

fn read_lines(from: impl Read + Send + 'static, events: Sender<Event>, event: fn(String) -> Event) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let _ = events.send(event(String::from_utf8_lossy(&line).into_owned()));
            line.clear();
        }
    });
}

fn reap(events: Sender<Event>) {
    thread::spawn(move || {
        loop {
            let _ = match wait() {
                Ok(WaitStatus::Exited(pid, code)) => events.send(Event::Ended(pid, code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => events.send(Event::Ended(pid, 128 + signal as i32)),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => break,
            };
        }
        let _ = events.send(Event::AllGone);
    });
}

fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect::<Vec<_>>()
        })
        .collect()
}

fn command_line(pid: Pid) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
}

/// Gives this thread, and what it starts, a /dev/shm of its own where that is allowed: other programs of the machine
/// come and go in the common one.
fn take_own_shm() {
    thread_local! { static TAKEN: Cell<bool> = const { Cell::new(false) } }
    // SAFETY: it concerns what this thread sees of file systems, and no memory.
    if !TAKEN.replace(true) && unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
        let mount = |arguments: &[&str]| Command::new("mount").args(arguments).status().is_ok_and(|end| end.success());
        let _ = mount(&["--make-rprivate", "/"]) && mount(&["-t", "tmpfs", "private", "/dev/shm"]);
    }
}

/// A short path: names of sockets made in it have little room.
fn fresh_directory() -> PathBuf {
    let unique = format!("instanton-test-{}-{:?}", std::process::id(), thread::current().id());
    let directory = std::env::temp_dir().join(unique.replace(['(', ')'], ""));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).expect("make a temporary directory");
    directory
}

/// Every file and folder below a directory.
pub fn files_in(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.append(&mut files_in(&entry.path()));
        }
        found.insert(entry.path());
    }
    found
}
