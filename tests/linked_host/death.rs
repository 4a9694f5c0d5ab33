//! Processes that die: nobody waits for them, nothing of theirs stays.
use std::io::{BufRead, BufReader, Lines};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use instanton::data::{Info, Nspace, Proc, Rank, Scope, Status, Value, keys};
use instanton::internal::control::address;
use instanton::internal::message::{GroupCall, Request};
use instanton::server::Server;

use crate::host::Cluster;
use crate::peer::{self, Peer};

const OK: Status = Status::SUCCESS;
const DIED: Status = Status::ERR_PARTIAL_SUCCESS;

/// A rank in a process of its own. It says a line after each step.
pub struct Victim {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    pub fn start(server: &Server, proc: &Proc, does: &str) -> Victim {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(Self::ARGUMENTS).env("TEST_RANK_DOES", does);
        Self::run(command, server, proc)
    }

    /// Two programs as one rank, one after the other. Between them it says so, and waits for the end of its input.
    fn start_by_script(server: &Server, proc: &Proc, does: &[&str; 2]) -> Victim {
        let mut command = Command::new("sh");
        let script = r#"TEST_RANK_DOES=$FIRST "$@"; echo ended; read -r _; TEST_RANK_DOES=$SECOND exec "$@""#;
        command.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap()).args(Self::ARGUMENTS);
        command.env("FIRST", does[0]).env("SECOND", does[1]).stdin(Stdio::piped());
        Self::run(command, server, proc)
    }

    const ARGUMENTS: [&str; 4] = ["--exact", "--ignored", "--nocapture", "death::a_rank"];

    fn run(mut command: Command, server: &Server, proc: &Proc) -> Victim {
        command.env(address::VARIABLE, peer::address(server, proc).to_string()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut rank = Victim { child, lines };
        rank.wait_for("in");
        rank
    }

    fn wait_for(&mut self, what: &str) {
        let said = self.lines.by_ref().map_while(Result::ok).any(|line| line.ends_with(what));
        assert!(said, "the rank ends before it says {what:?}");
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) {
        self.child.wait().unwrap();
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Part of a rank in a process of its own.
#[test]
#[ignore = "the other tests start it"]
#[allow(clippy::zombie_processes, reason = "the helper is to outlive the rank")]
fn a_rank() {
    let (Ok(address), Ok(does)) = (std::env::var(address::VARIABLE), std::env::var("TEST_RANK_DOES")) else { return };
    let mut peer = Peer::at(&address.parse().unwrap()).unwrap();
    println!("in");
    let me = peer.proc.clone();
    for step in does.split(';') {
        let (step, argument) = step.split_once('=').unwrap_or((step, ""));
        let directive = |key: &str| Request::JobControl {
            targets: if key.starts_with("job") { vec![] } else { vec![me.clone()] },
            directives: vec![Info::new(keys::REGISTER_CLEANUP_DIR, argument), Info::new(keys::CLEANUP_RECURSIVE, true)],
        };
        match step {
            "stay" => loop {
                std::thread::park();
            },
            // A helper that outlives the rank holds the rank's socket as its standard input.
            "helper" => {
                let socket: OwnedFd = peer.stream.as_fd().try_clone_to_owned().unwrap();
                #[allow(clippy::zombie_processes, reason = "it is to outlive this process")]
                let helper = Command::new("sleep").arg("1000").stdin(socket).stdout(Stdio::null()).spawn().unwrap();
                println!("{} helper", helper.id());
            }
            "fence" => _ = peer.start_fence(&[], &[]),
            "commit" => assert_eq!(peer.commit(Scope::GLOBAL, "k", me.rank.0), OK),
            // All of the job make a group of the name "g".
            "construct" => {
                let size = peer.get(&Proc::new(me.nspace.clone(), Rank::WILDCARD), keys::JOB_SIZE, &[]).unwrap();
                let procs = (0..size.as_u64().unwrap()).map(|rank| Proc::new(me.nspace.clone(), Rank(rank as u32)));
                let call = GroupCall::Construct { procs: procs.collect(), info: vec![] };
                peer.send(Request::Group { group: Nspace::new("g").unwrap(), call, seen: None });
            }
            // Invites all of the job.
            "invite" => {
                let procs = vec![Proc::new(me.nspace.clone(), Rank::WILDCARD)];
                let call = GroupCall::Invite { procs, info: vec![] };
                peer.send(Request::Group { group: Nspace::new("g").unwrap(), call, seen: None });
            }
            "cleanup" | "job-cleanup" => assert_eq!(peer.status(directive(step)), OK),
            "finalize" => assert_eq!(peer.status(Request::Finalize), OK),
            "work" => {
                for turn in 0u32.. {
                    peer.commit(Scope::GLOBAL, "k", vec![turn as u8; 1 << (turn % 15)]);
                    println!("committed");
                    peer.status(Request::Fence { procs: vec![me.clone()], info: vec![] });
                    println!("fenced");
                    let got = peer.get(&me, "k", &[]).unwrap();
                    assert_eq!(got, Value::from(vec![turn as u8; 1 << (turn % 15)]));
                    println!("got");
                }
            }
            other => panic!("{other}"),
        }
        println!("{step}");
    }
}

/// Runs an ignored test in a process of its own, and gives back its trace.
pub fn alone(test: &str) -> String {
    alone_with(test, &[])
}

/// As [`alone`], with some more variables.
pub fn alone_with(test: &str, variables: &[(&str, &str)]) -> String {
    let trace = std::env::temp_dir().join(format!("instanton-trace-{}-{}", test.replace(':', "-"), std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", test]).env("INSTANTON_TRACE", &trace);
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(&trace).unwrap_or_default();
    let _ = std::fs::remove_file(&trace);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{text}");
    text
}

#[test]
fn a_fence_ends_when_a_participant_is_killed_and_the_trace_says_who() {
    let trace = alone("death::killed_in_a_fence");
    let line = trace.lines().find(|line| line.contains("ends with PMIX_ERR_PARTIAL_SUCCESS")).expect(&trace);
    assert!(line.contains("job:2 is gone") && line.contains("missing: [job:2]"), "{line}");
}

#[test]
#[ignore = "run in a process of its own"]
fn killed_in_a_fence() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let mut peers = [job.peer(0), job.peer(1)];
    let rank = Victim::start(&cluster.server(0), &job.proc(2), "stay");
    let numbers = [peers[0].start_fence(&[], &[]), peers[1].start_fence(&[], &[])];
    assert!(!peers[0].has_answer(numbers[0]));
    let waits = peers[0].start_get(&job.proc(2), "k", &[Info::new(keys::TIMEOUT, 0i32)]);
    let since = Instant::now();
    rank.kill();
    for (peer, number) in peers.iter_mut().zip(numbers) {
        assert_eq!(peer.done(number), DIED);
    }
    assert_eq!(peers[0].got(waits), Err(Status::ERR_NOT_FOUND));
    assert!(since.elapsed() < Duration::from_secs(20));
    assert_eq!(peers[0].status(Request::Fence { procs: vec![], info: vec![] }), DIED, "nor does it wait later");
    let pair = [job.proc(0), job.proc(1)];
    assert_eq!(peer::fence_all(&mut peers, &pair, &[]), [OK, OK], "those who live may meet");
    assert_eq!(cluster.world.count("lost job:2 PMIX_ERR_PROC_TERM_WO_SYNC"), 1);
    assert_eq!(cluster.world.count("finalized"), 0);
}

#[test]
fn a_helper_that_holds_the_socket_keeps_nobody_waiting() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let mut peer = job.peer(0);
    let mut rank = Victim::start(&cluster.server(0), &job.proc(1), "helper;stay");
    let line = rank.lines.by_ref().map_while(Result::ok).find(|line| line.ends_with(" helper")).unwrap();
    let helper: i32 = line.split_once(' ').unwrap().0.parse().unwrap();
    let number = peer.start_fence(&[], &[]);
    rank.kill();
    assert_eq!(peer.done(number), DIED);
    // It holds it still.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(helper), nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn a_closed_connection_is_no_death() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let (mut one, two) = (job.peer(0), job.peer(1));
    let number = one.start_fence(&[], &[]);
    drop(two);
    assert!(!one.has_answer(number));
    let mut two = job.peer(1);
    assert_eq!(two.status(Request::Fence { procs: vec![], info: vec![] }), OK);
    assert_eq!(one.done(number), OK);
    assert_eq!(cluster.world.count("lost"), 0);
}

#[test]
fn who_dies_after_it_has_come_has_done_its_part() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let mut rank = Victim::start(&cluster.server(0), &job.proc(1), "fence;stay");
    rank.wait_for("fence");
    let mut peer = job.peer(0);
    // Its messages come before its end: once this look-up is answered, the server has seen both.
    assert_eq!(peer.get(&job.proc(1), "k", &[Info::new(keys::IMMEDIATE, true)]), Err(Status::ERR_NOT_FOUND));
    rank.kill();
    assert_eq!(peer.status(Request::Fence { procs: vec![], info: vec![] }), OK);
}

#[test]
fn the_end_after_finalize_is_no_news() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let mut rank = Victim::start(&cluster.server(0), &job.proc(0), "finalize");
    rank.wait_for("finalize");
    rank.child.wait().unwrap();
    cluster.server(0).deregister_client(&job.proc(0)).wait().unwrap();
    assert_eq!((cluster.world.count("finalized"), cluster.world.count("lost")), (1, 0));
}

#[test]
fn who_has_finalized_and_ended_is_waited_for_only_where_a_script_may_start_another_program() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let mut peer = job.peer(0);
    let number = peer.start_fence(&[], &[]);
    let steps = ["finalize", "fence;stay"];
    let mut script = Victim::start_by_script(&cluster.server(0), &job.proc(1), &steps);
    script.wait_for("finalize");
    script.wait_for("ended");
    assert!(!peer.has_answer(number));
    script.child.stdin.take();
    assert_eq!(peer.done(number), OK);
    script.kill();

    let job = cluster.job("other", &[0, 0]);
    let mut peer = job.peer(0);
    let number = peer.start_fence(&[], &[]);
    let mut rank = Victim::start(&cluster.server(0), &job.proc(1), "finalize");
    rank.wait_for("finalize");
    assert_eq!(peer.done(number), DIED);
    rank.child.wait().unwrap();
    assert_eq!(cluster.world.count("lost other"), 0);
    // The host may start it anew.
    let number = peer.start_fence(&[], &[]);
    assert!(!peer.has_answer(number));
    let again = Victim::start(&cluster.server(0), &job.proc(1), "fence;stay");
    assert_eq!(peer.done(number), OK);
    again.kill();
}

#[test]
fn the_hosts_word_is_enough() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let mut peer = job.peer(0);
    let number = peer.start_fence(&[], &[]);
    assert!(!peer.has_answer(number));
    cluster.server(0).client_died(&job.proc(2));
    assert_eq!(peer.done(number), DIED);
    let job = cluster.job("other", &[0, 0]);
    let mut peer = job.peer(0);
    let number = peer.start_fence(&[], &[]);
    assert!(!peer.has_answer(number));
    cluster.server(0).deregister_client(&job.proc(1)).wait().unwrap();
    assert_eq!(peer.done(number), DIED);
}

#[test]
fn nobody_waits_for_who_has_finalized_and_is_gone() {
    for deregistered in [false, true] {
        let cluster = Cluster::new(2);
        let job = cluster.job("job", &[0, 0, 1]);
        let mut peer = job.peer(0);
        let mut other = job.peer(1);
        assert_eq!(other.commit(Scope::GLOBAL, "k", 1u32), OK);
        assert_eq!(other.finalize(), OK);
        let server = cluster.server(0);
        match deregistered {
            true => server.deregister_client(&job.proc(1)).wait().unwrap(),
            false => server.client_died(&job.proc(1)),
        }
        // Participants that come later do not wait either.
        assert_eq!(peer.status(Request::Fence { procs: vec![job.proc(0), job.proc(1)], info: vec![] }), DIED);
        let for_ever = [Info::new(keys::TIMEOUT, 0i32)];
        assert_eq!(peer.get(&job.proc(1), "never", &for_ever), Err(Status::ERR_NOT_FOUND));
        // Its posted data outlives it, here and for other nodes.
        for mut reader in [peer, job.peer(2)] {
            assert_eq!(reader.get(&job.proc(1), "k", &[]), Ok(Value::Uint32(1)), "rank {}", reader.rank());
        }
        assert_eq!(cluster.world.count("lost"), 0);
    }
}

/// A directory with something in it.
fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("instanton-test-{name}-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("sub")).unwrap();
    std::fs::write(directory.join("sub/file"), "x").unwrap();
    directory
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn what_a_killed_process_registered_is_cleaned_up() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let (own, of_job) = (scratch("own"), scratch("job"));
    let steps = format!("cleanup={};job-cleanup={};stay", own.display(), of_job.display());
    let server = cluster.server(0);
    let mut ranks: Vec<Victim> = (0..2).map(|rank| Victim::start(&server, &job.proc(rank), &steps)).collect();
    ranks.iter_mut().for_each(|rank| rank.wait_for("job-cleanup"));
    ranks.remove(0).kill();
    // Work that the first one's end has begun is over when this returns.
    server.deregister_client(&job.proc(0)).wait().unwrap();
    assert!(exists(&own), "the other one has registered it too");
    assert!(exists(&of_job), "the job is not over");
    ranks.remove(0).kill();
    server.deregister_client(&job.proc(1)).wait().unwrap();
    assert!(!exists(&own) && !exists(&of_job));
}

#[test]
fn nothing_is_left_of_processes_killed_anywhere() {
    alone("death::killed_anywhere");
}

/// Returns the kinds of descriptors that this process has open.
pub fn descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let links = entries.filter_map(|path| std::fs::read_link(path).ok()).map(|link| link.display().to_string());
    // Numbers of sockets and pipes change from turn to turn.
    let mut kinds: Vec<String> = links.map(|link| link.split(':').next().unwrap().to_owned()).collect();
    kinds.sort();
    kinds
}

#[test]
#[ignore = "run in a process of its own"]
fn killed_anywhere() {
    // The trace's own file is open from the first line on.
    instanton::trace!("begins");
    let cluster = Cluster::new(1);
    let mut before = Vec::new();
    let mut seed = std::process::id();
    println!("seed {seed}");
    for turn in 0..40 {
        let name = format!("job{turn}");
        let job = cluster.job(&name, &[0]);
        let mut rank = Victim::start(&cluster.server(0), &job.proc(0), "work");
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for _ in 0..seed >> 26 {
            rank.lines.next().unwrap().unwrap();
        }
        rank.kill();
        job.deregister();
        // The first turn may open what stays open.
        match turn {
            0 => before = descriptors(),
            _ => assert_eq!(descriptors(), before, "turn {turn}"),
        }
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let left: Vec<&str> = maps.lines().filter(|line| line.contains("memfd:instanton")).collect();
    // The last mappings may wait for the next replacement to be unmapped.
    assert!(left.len() <= 4, "{left:#?}");
}
