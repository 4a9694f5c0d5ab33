//! Jobs of real processes: the test's own program, started again in a role.
//!
//! The program that uses this has a test named `process` that calls [`role`]; started by hand it does nothing.
#![allow(dead_code, reason = "every test uses its own part of it")]
use std::ffi::OsString;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use instanton::data::{Info, Nspace, Proc, Rank, keys};
use instanton::server::{Host, NoHost, Server, ServerConfig};

const ROLE: &str = "INSTANTON_TEST_ROLE";
/// Longer than any process here runs, unless things are to happen more often; one that hangs is ended by its own hand.
const PATIENCE: Duration = Duration::from_secs(600);

/// A number that the caller of the test has set.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// So many times, or more where the caller of the test wants that.
pub fn rounds(few: u64) -> u64 {
    few * number("INSTANTON_TEST_ROUNDS").unwrap_or(1)
}

/// A server with a host that knows this node only.
pub fn server() -> Server {
    server_with(Arc::new(NoHost))
}

pub fn server_with(host: Arc<dyn Host>) -> Server {
    Server::start(ServerConfig::default(), host).unwrap()
}

/// A registered job on one node.
pub struct Job<'a> {
    pub server: &'a Server,
    pub nspace: Nspace,
    pub size: u32,
}

impl<'a> Job<'a> {
    pub fn register(server: &'a Server, name: &str, size: u32) -> Self {
        let ranks = (0..size).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
        let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
        let info = [
            Info::new(keys::JOB_SIZE, size),
            Info::new(keys::UNIV_SIZE, size),
            Info::new(keys::NODE_MAP, host.as_str()),
            Info::new(keys::PROC_MAP, ranks.as_str()),
        ];
        Self::register_as(server, name, size, &info)
    }

    /// Registers a job with what its host says of it; the first `size` ranks run here.
    pub fn register_as(server: &'a Server, name: &str, size: u32, info: &[Info]) -> Self {
        let nspace = Nspace::new(name).unwrap();
        server.register_nspace(&nspace, size as usize, info).wait().unwrap();
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let job = Job { server, nspace, size };
        (0..size).for_each(|rank| server.register_client(&job.proc(rank), uid, gid).wait().unwrap());
        job
    }

    pub fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// Starts a rank in a role, with or without shared memory.
    pub fn start(&self, rank: u32, role: &str, shared: bool) -> Child {
        self.start_with(rank, role, &[("INSTANTON_SHM", if shared { "on" } else { "off" })])
    }

    /// Starts a rank in a role, with some more variables.
    pub fn start_with(&self, rank: u32, role: &str, variables: &[(&str, &str)]) -> Child {
        let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        self.server.setup_fork(&self.proc(rank), &mut env).unwrap();
        start(role, env, variables)
    }

    /// Runs all ranks in a role; they must succeed.
    pub fn run(&self, role: &str, shared: bool) {
        all_well((0..self.size).map(|rank| self.start(rank, role, shared)).collect());
    }
}

/// Waits until this process's parent waits for its end, or lets go of its input.
pub fn until_dismissed() {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

/// Starts a process that no launcher has prepared.
pub fn start_alone(role: &str, variables: &[(&str, &str)]) -> Child {
    let prepared = |name: &OsString| name.to_string_lossy().starts_with("PMIX_");
    start(role, std::env::vars_os().filter(|(name, _)| !prepared(name)).collect(), variables)
}

fn start(role: &str, env: Vec<(OsString, OsString)>, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Variables of the test itself are not a launcher's to remove.
    let of_test = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("INSTANTON_TEST_"));
    // With one thread, as on a machine with one core, the harness begins the first line that the process ends.
    command
        .args(["--exact", "process", "--nocapture", "--test-threads=2"])
        .env_clear()
        .envs(env)
        .envs(of_test)
        .env(ROLE, role);
    command.envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for processes, each of which must succeed.
pub fn all_well(processes: Vec<Child>) {
    let ends: Vec<Output> = thread::scope(|scope| {
        let waiting: Vec<_> =
            processes.into_iter().map(|child| scope.spawn(|| child.wait_with_output().unwrap())).collect();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let failed: Vec<_> = ends.iter().enumerate().filter(|(_, end)| !end.status.success()).collect();
    for (rank, end) in &failed {
        let (out, err) = (String::from_utf8_lossy(&end.stdout), String::from_utf8_lossy(&end.stderr));
        eprintln!("process {rank} ended with {}:\n{out}{err}", end.status);
    }
    assert!(failed.is_empty(), "{} processes failed", failed.len());
}

/// The role this process was started in, if it was.
pub fn role() -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    thread::spawn(|| {
        thread::park_timeout(PATIENCE * rounds(1) as u32);
        eprintln!("this process hangs");
        std::process::abort();
    });
    Some(role)
}
