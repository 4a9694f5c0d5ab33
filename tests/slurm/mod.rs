//! A Slurm cluster of four nodes, unmodified and out of Debian's packages, for one test program.
//!
//! `tests/slurm/cluster` builds it inside namespaces of its own. This side holds its standard input: when
//! the test process goes away, however it does, the cluster's first process sees the end of it and goes too,
//! and with it the kernel ends everything that ever ran in there. Nothing of the cluster exists outside, so
//! there is nothing to clean up.
//!
//! Tests take turns, because each of them looks at what is left behind: processes, files, open descriptors of daemons.

#![allow(dead_code, reason = "every test program uses its own part of it")]
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::launch::{self, Outcome, dist};

/// Number of nodes.
pub const NODES: u32 = 4;
/// A job that has not ended by then has failed, as has a cluster that is not ready.
const DEADLINE: Duration = Duration::from_secs(600);
/// Limit on the work that daemons still do for a job after its end.
const AFTERWARDS: Duration = Duration::from_secs(120);
/// Interval between looks at state that announces no change.
const GLANCE: Duration = Duration::from_millis(20);

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/cluster");
const NAMESPACES: [&str; 5] = ["--mount", "--uts", "--ipc", "--net", "--pid"];

/// Origin of the cluster's `libpmix.so.2`: in its daemons, and in its tasks where they bring none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    Ours,
    Stock,
    /// The stock one, with the plug-in of `dist/lib/instanton` beside its own.
    Plugged,
    /// The same on two nodes, `node0` and `node2`; the others have what is Debian's.
    PluggedOnTwo,
}

impl Library {
    fn name(self) -> PathBuf {
        match self {
            Library::Ours => dist().join("lib/libpmix.so.2"),
            Library::Stock => "stock".into(),
            Library::Plugged => plugin(),
            Library::PluggedOnTwo => format!("{}:node0:node2", plugin().display()).into(),
        }
    }
}

/// The plug-in for stock servers.
pub fn plugin() -> PathBuf {
    dist().join("lib/instanton/pmix_mca_gds_instanton.so")
}

/// Six ranks on all nodes, in a step of their own.
pub fn six_by_srun(program: &Path) -> Vec<String> {
    let words = ["srun", "--mpi=pmix", "--nodes=4", "--ntasks=6"];
    words.map(str::to_owned).into_iter().chain([program.to_string_lossy().into_owned()]).collect()
}

/// `srun` on all nodes, by a user who is not root. It is that user's own, and servers talk by way of Slurm's daemons: an
/// `srun` that root has told `--uid`, and servers that connect to each other, now and then open a credential while they
/// are another user, and Slurm ends the job, whatever its library.
pub fn srun_of_nobody() -> Vec<&'static str> {
    let user = "setpriv --reuid=nobody --regid=nogroup --clear-groups";
    let srun = "env SLURM_PMIX_DIRECT_CONN=false srun --mpi=pmix --nodes=4";
    user.split(' ').chain(srun.split(' ')).collect()
}

/// A program whose ranks bring a library of their own.
pub fn six_bringing(library: &Path, program: &Path) -> Vec<String> {
    let brings = format!("LD_LIBRARY_PATH={}", library.display());
    [six_by_srun(Path::new("/usr/bin/env")), vec![brings, program.to_string_lossy().into_owned()]].concat()
}

/// The lines of an output, but for those that depend on the quicker rank: hosts do not say on another node which key is
/// looked for, so a Get that comes there before it was posted is answered that it is not there, if anything else was.
pub fn in_time(outcome: &Outcome) -> Vec<&str> {
    outcome.sorted().into_iter().filter(|line| !line.contains(": late-0: ")).collect()
}

/// A cluster whose turn it is.
pub struct Cluster {
    running: &'static Running,
    before: Traces,
    _turn: MutexGuard<'static, ()>,
}

struct Running {
    /// Its first process.
    first: Pid,
    /// Never written to: what matters is that it is open.
    _input: ChildStdin,
    _unshare: Child,
}

/// Traces that jobs may leave behind.
struct Traces {
    processes: BTreeMap<i32, Process>,
    files: BTreeSet<PathBuf>,
}

/// A process of the cluster: its program, its parent, and the number of its open descriptors.
#[derive(Debug)]
struct Process {
    name: String,
    parent: i32,
    descriptors: usize,
}

impl Traces {
    /// Returns whether all processes are those that stay when no job runs: not the head of a job, not one that a daemon
    /// has just forked (it has its parent's name), nor one that ended while it was looked at (it has none) or waits to
    /// be collected (it has no descriptor).
    fn at_rest(&self) -> bool {
        let forked = |process: &Process| self.processes.get(&process.parent).is_some_and(|it| it.name == process.name);
        self.processes.values().all(|process| {
            process.name != "slurmstepd" && !process.name.is_empty() && !forked(process) && process.descriptors > 0
        })
    }

    /// Returns whether there are no other processes, no more descriptors of one (daemons close some of theirs late),
    /// and no other files.
    fn no_more_than(&self, before: &Traces) -> bool {
        let alike = |pid, now: &Process| {
            let before = before.processes.get(pid);
            before.is_some_and(|before| now.name == before.name && now.descriptors <= before.descriptors)
        };
        self.files.is_subset(&before.files)
            && self.processes.len() == before.processes.len()
            && self.processes.iter().all(|(pid, now)| alike(pid, now))
    }
}

impl Cluster {
    /// The cluster, or a line that tells why this test is skipped. It starts with the first test that wants it.
    pub fn take(test: &str, library: Library, needed: &[PathBuf]) -> Option<Cluster> {
        static TURN: Mutex<()> = Mutex::new(());
        static CLUSTERS: [OnceLock<Result<Running, String>>; 4] = [const { OnceLock::new() }; 4];
        if !launch::have(test, needed) {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match CLUSTERS[library as usize].get_or_init(|| can_run().map(|()| Running::start(library))) {
            Ok(running) => running,
            Err(reason) => {
                launch::skipped(test, reason);
                return None;
            }
        };
        Some(Cluster { running, before: running.at_rest(), _turn: turn })
    }

    /// Runs a command on the cluster's login node.
    pub fn run<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Outcome {
        self.run_with(command, &[])
    }

    /// Runs a program with some more variables.
    pub fn run_with<S: Into<OsString>>(
        &self,
        command: impl IntoIterator<Item = S>,
        environment: &[(&str, &str)],
    ) -> Outcome {
        let limit = DEADLINE.as_secs().to_string();
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--target={}", self.running.first)).args(NAMESPACES).arg("--wd=/tmp");
        inside.args(["timeout", "--kill-after=5", &limit]).args(command.into_iter().map(Into::into));
        launch::plain_environment(&mut inside);
        inside
            .env("SLURM_CONF", "/run/slurm/slurm.conf")
            .env("TMPDIR", "/tmp")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            // The nodes claim more cores than the machine has.
            .env("OMPI_MCA_hwloc_base_binding_policy", "none")
            .envs(environment.iter().copied())
            .stdin(Stdio::null());
        let output = inside.output().expect("enter the cluster");
        let outcome = Outcome {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        assert_ne!(outcome.status, Some(124), "not over at the deadline: {outcome:#?}\n{}", self.running.logs());
        outcome
    }

    /// `srun --mpi=pmix` with these arguments.
    pub fn srun<S: Into<OsString>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        let srun = ["srun", "--mpi=pmix"].into_iter().map(OsString::from);
        self.run(srun.chain(arguments.into_iter().map(Into::into)))
    }

    /// Copies a program to where every user finds it, for the time of this test.
    pub fn install(&self, program: &Path) -> PathBuf {
        let inside = Path::new("/run/slurm").join(program.file_name().expect("a program"));
        fs::copy(program, self.running.path(&inside)).expect("copy a program into the cluster");
        inside
    }

    /// Makes a folder that every user of the cluster may write into. Returns its path in there and here.
    pub fn folder(&self, name: &str) -> (PathBuf, PathBuf) {
        let inside = Path::new("/run/slurm").join(name);
        let here = self.running.path(&inside);
        // One of an earlier test has the same name.
        let _ = fs::remove_dir_all(&here);
        fs::create_dir(&here).expect("a folder in the cluster");
        fs::set_permissions(&here, Permissions::from_mode(0o1777)).expect("a folder of everybody");
        (inside, here)
    }

    /// Waits until there is nothing left of the jobs of this test.
    pub fn expect_clean(self) {
        let deadline = Instant::now() + AFTERWARDS;
        loop {
            let now = self.running.traces();
            if now.no_more_than(&self.before) {
                return;
            }
            if Instant::now() > deadline {
                let files: Vec<_> = now.files.difference(&self.before.files).collect();
                let (before, now, logs) = (&self.before.processes, &now.processes, self.running.logs());
                panic!("left behind: {files:#?}; processes before: {before:?}, now: {now:?}\n{logs}");
            }
            thread::park_timeout(GLANCE);
        }
    }
}

/// Checks that this machine and this user can have a cluster; if not, says why.
fn can_run() -> Result<(), String> {
    for program in ["slurmctld", "slurmd", "munged"] {
        let path = Path::new("/usr/sbin").join(program);
        if !path.exists() {
            return Err(format!("{} is not there; `make setup` installs it", path.display()));
        }
    }
    let tried = Command::new("unshare").args(NAMESPACES).args(["--fork", "--mount-proc", "true"]).output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "no namespaces of its own ({}); it needs root with CAP_SYS_ADMIN",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("unshare: {error}")),
    }
}

impl Running {
    fn start(library: Library) -> Running {
        let mut unshare = Command::new("unshare");
        unshare.args(NAMESPACES).args(["--fork", "--kill-child", "--mount-proc", CLUSTER]);
        unshare
            .arg(NODES.to_string())
            .arg(library.name())
            .arg("/")
            .arg(env!("CARGO_MANIFEST_DIR"))
            .arg(launch::target());
        launch::plain_environment(&mut unshare);
        let mut unshare = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start unshare");
        let input = unshare.stdin.take().expect("a pipe");
        let mut output = BufReader::new(unshare.stdout.take().expect("a pipe"));
        let mut line = String::new();
        // Slurm's own timeouts bound this: a controller or nodes that do not come are errors of `srun`.
        output.read_line(&mut line).expect("read what the cluster says");
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let first = fs::read_to_string(children).expect("its child").trim().parse();
        let running = Running { first: Pid::from_raw(first.expect("one child")), _input: input, _unshare: unshare };
        assert_eq!(line, "ready\n", "the cluster did not start\n{}", running.logs());
        running
    }

    /// A path of the cluster as it can be reached from here.
    fn path(&self, inside: &Path) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.first)).join(inside.strip_prefix("/").expect("an absolute path"))
    }

    fn traces(&self) -> Traces {
        let mut processes = BTreeMap::new();
        for entry in fs::read_dir(self.path(Path::new("/proc"))).expect("the cluster runs").flatten() {
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
                let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
                let (name, parent) = (field("Name:").to_owned(), field("PPid:").parse().unwrap_or_default());
                let descriptors = fs::read_dir(entry.path().join("fd")).map_or(0, Iterator::count);
                processes.insert(pid, Process { name, parent, descriptors });
            }
        }
        let mut files = BTreeSet::new();
        for folder in ["/tmp", "/dev/shm", "/run/slurm/spool"] {
            files.extend(launch::files_in(&self.path(Path::new(folder))));
        }
        // The daemons' own: what they know of credentials, written now and then.
        files.retain(|file| !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cred_state")));
        Traces { processes, files }
    }

    /// Returns the traces when no job runs, also none of a test that has failed.
    fn at_rest(&self) -> Traces {
        let deadline = Instant::now() + AFTERWARDS;
        let mut before = self.traces();
        loop {
            thread::park_timeout(GLANCE);
            let now = self.traces();
            if now.at_rest() && now.no_more_than(&before) || Instant::now() > deadline {
                return now;
            }
            before = now;
        }
    }

    /// The last words of every daemon.
    fn logs(&self) -> String {
        let mut told = String::new();
        for log in launch::files_in(&self.path(Path::new("/run/slurm/log"))) {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            told += &format!("== {}\n{last}\n", log.file_name().unwrap_or_default().display());
        }
        told
    }
}
