//! Four nodes whose ranks are processes that do anything, in an order drawn from a seed; they are killed, stopped and
//! continued wherever they are, and nodes are lost. Nobody hangs, what a meeting promises is there, and nothing is left.
//!
//! `INSTANTON_TEST_SEED` repeats a run as far as processes repeat themselves, `INSTANTON_TEST_ROUNDS` makes it longer.
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use instanton::client::{Client, Error};
use instanton::data::{DataRange, Info, Nspace, Proc, Rank, Scope, Status, Value, keys};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::death::{alone_with, descriptors};
use crate::host::{Cluster, Lacks};
use crate::peer::PATIENCE;

const NODES: usize = 4;
/// Ranks of a job; at most 64, as many as a word has bits.
const RANKS: usize = 8;
/// Steps of a rank.
const STEPS: u64 = 24;
/// Jobs, one after the other.
const JOBS: u64 = 12;
/// Silence after which those who are stopped go on: perhaps all others wait for them.
const SILENCE: Duration = Duration::from_millis(30);
/// An event of the test's own.
const EVENT: Status = Status(-3333);

struct Random(u64);

impl Random {
    /// Spreads a seed: near ones are to give other numbers.
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// A rank as it goes through its steps.
struct Walker {
    client: Client,
    /// Draws what all ranks draw alike.
    common: Random,
    own: Random,
}

/// Result of a call that ends when others die, but neither by its limit nor without a server.
fn ended<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!matches!(error, Error::LostConnection) && error.status() != Status::ERR_TIMEOUT, "{error}");
            None
        }
    }
}

impl Walker {
    fn proc(&self, rank: usize) -> Proc {
        Proc::new(self.client.proc().nspace.clone(), Rank(rank as u32))
    }

    fn limit() -> Info {
        Info::new(keys::TIMEOUT, (PATIENCE.as_secs() / 2) as i32)
    }

    /// Posts a value in which every word is the step.
    fn post(&mut self, key: &str, step: u64) {
        let words = match self.own.below(8) {
            0 => self.own.below(8_000),
            _ => self.own.below(100),
        };
        let bytes: Vec<u8> = (0..=words).flat_map(|_| step.to_le_bytes()).collect();
        self.client.put(Scope::GLOBAL, key, Value::ByteObject(bytes)).unwrap();
        self.client.commit().unwrap();
    }

    /// Returns the step of a value that somebody has posted.
    fn read(value: &Value) -> u64 {
        let words: Vec<&[u8]> = value.as_bytes().unwrap().chunks(8).collect();
        assert!(words.iter().all(|word| *word == words[0]), "a mixture of two values");
        u64::from_le_bytes(words[0].try_into().unwrap())
    }

    /// Meets the members; what each has posted before is there.
    fn fence(&mut self, step: u64, procs: &[Proc], collects: bool) {
        // A key that was fetched once is not fetched again: the other way needs a new key each time.
        let key = if collects { "collected".into() } else { format!("fetched{step}") };
        self.post(&key, step);
        let info = [Walker::limit(), Info::new(keys::COLLECT_DATA, collects)];
        if ended(self.client.fence(procs, &info).wait()).is_none() {
            return;
        }
        for proc in procs {
            // The node of one that is to be asked may be lost by now.
            match self.client.get(proc, &key, &[Walker::limit()]) {
                Err(error) if collects => panic!("{proc} has met, and its data is not there: {error}"),
                result => _ = ended(result).inspect(|value| assert!(Walker::read(value) >= step, "{proc}: too old")),
            }
        }
    }

    /// Waits for what another one posts in this step.
    fn get(&mut self, step: u64, procs: &[Proc]) {
        let key = format!("step{step}");
        self.post(&key, step);
        let of = &procs[self.own.below(procs.len() as u64) as usize];
        let value = ended(self.client.get(of, &key, &[Walker::limit()]));
        assert!(value.is_none_or(|value| Walker::read(&value) == step));
    }

    fn group(&mut self, step: u64, procs: &[Proc]) {
        let name = Nspace::new(format!("{}-{step}", self.client.proc().nspace)).unwrap();
        let info = [Walker::limit(), Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, step.is_multiple_of(2))];
        if ended(self.client.group_construct(&name, procs, &info).wait()).is_some() {
            ended(self.client.group_destruct(&name, &[Walker::limit()]).wait());
        }
    }

    /// Publishes something, and looks for what others may have published.
    fn publish(&mut self, step: u64) {
        let name = |rank: u64, step: u64| format!("{rank}-{step}");
        let me = u64::from(self.client.proc().rank.0);
        self.client.publish(&[Info::new(name(me, step).as_str(), step)]).wait().unwrap();
        for _ in 0..4 {
            let (rank, step) = (self.own.below(RANKS as u64), self.own.below(step + 1));
            let found = ended(self.client.lookup(&[name(rank, step)], &[]).wait());
            assert!(found.is_none_or(|(_, data)| data[0].value == Value::Uint64(step)));
        }
        if self.own.below(2) == 0 {
            self.client.unpublish(&[name(me, step)], &[]).wait().unwrap();
        }
    }

    fn notify(&mut self) {
        let range = [DataRange::GLOBAL, DataRange::NAMESPACE, DataRange::LOCAL][self.own.below(3) as usize];
        let me = self.client.proc().clone();
        // One that is kept would be charged for a while.
        let info = [Info::new("text", "anything"), Info::new(keys::EVENT_DO_NOT_CACHE, true)];
        self.client.notify_event(EVENT, &me, range, &info).wait().unwrap();
    }

    /// Takes a step: all ranks draw the same one, and the same members.
    fn step(&mut self, step: u64) {
        let (kind, members) = (self.common.below(9), self.common.below(1 << RANKS));
        let all = self.common.below(2) == 0;
        let procs: Vec<Proc> =
            (0..RANKS).filter(|rank| all || members >> rank & 1 == 1).map(|r| self.proc(r)).collect();
        if !procs.contains(self.client.proc()) {
            return;
        }
        match kind {
            0..=2 => self.fence(step, &procs, true),
            3 => self.fence(step, &procs, false),
            4 | 5 => self.get(step, &procs),
            6 => self.group(step, &procs),
            7 => self.publish(step),
            _ => self.notify(),
        }
    }
}

/// Part of a rank in a process of its own. It says a line after each step.
#[test]
#[ignore = "the other tests start it"]
fn a_rank() {
    let (Some(seed), Ok(directory)) = (number("TEST_CHAOS"), std::env::var("TEST_DIRECTORY")) else { return };
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let cleanup = [Info::new(keys::REGISTER_CLEANUP_DIR, &*directory), Info::new(keys::CLEANUP_RECURSIVE, true)];
    client.job_control(std::slice::from_ref(&me), &cleanup).wait().unwrap();
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(Path::new(&directory).join("file"), "x").unwrap();
    let heard: instanton::client::Handler = Arc::new(|_, chain| chain.complete(Status::SUCCESS, Vec::new()));
    client.register_event_handler(&[EVENT], &[], heard).wait().unwrap();
    let (common, own) = (Random::new(seed), Random::new(seed ^ u64::from(me.rank.0 + 1) << 32));
    let mut walker = Walker { client, common, own };
    for step in 0..STEPS {
        walker.step(step);
        println!("step");
        std::io::stdout().flush().unwrap();
    }
    walker.client.finalize(&[]).unwrap();
}

/// A rank as its host sees it.
struct Started {
    child: Child,
    /// True if it may end in any way.
    is_doomed: bool,
    /// Its server is gone, perhaps before it has made its directory.
    has_no_server: bool,
    is_stopped: bool,
    has_ended: bool,
}

impl Started {
    fn signal(&self, signal: Signal) {
        // It is waited for when its output has ended: until then the number is its own.
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn go_on(&mut self) {
        if std::mem::take(&mut self.is_stopped) {
            self.signal(Signal::SIGCONT);
        }
    }
}

/// The directory that a rank makes, and has registered before for removal.
fn directory(of: &Proc) -> PathBuf {
    std::env::temp_dir().join(format!("{}-{}", of.nspace, of.rank.0))
}

/// A rank has said something, or its output has ended.
type News = (usize, Option<String>);

/// A job, and what happens to it.
struct Course<'a> {
    cluster: &'a Cluster,
    nspace: Nspace,
    placement: Vec<usize>,
    ranks: Vec<Started>,
    random: Random,
    news: Receiver<News>,
    /// Lines until a node is lost.
    until_loss: u64,
}

impl<'a> Course<'a> {
    fn start(cluster: &'a Cluster, turn: u64, seed: u64) -> Course<'a> {
        let mut random = Random::new(seed ^ turn << 40);
        let placement: Vec<usize> = (0..RANKS).map(|_| random.below(NODES as u64) as usize).collect();
        let name = format!("chaos{turn}");
        let job = cluster.job(&name, &placement);
        let (tell, news) = mpsc::channel();
        let ranks = (0..RANKS).map(|rank| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let server = job.server_of(rank as u32);
            server.setup_fork(&job.proc(rank as u32), &mut command).unwrap();
            let directory = directory(&job.proc(rank as u32));
            command.args(["--exact", "--ignored", "--nocapture", "chaos::a_rank"]);
            command.env("TEST_CHAOS", (seed ^ turn).to_string()).env("TEST_DIRECTORY", directory);
            command.env("INSTANTON_SHM", if random.below(4) == 0 { "off" } else { "on" });
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let tell = tell.clone();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            std::thread::spawn(move || {
                // A line that a kill has cut off is one as well.
                lines.map_while(Result::ok).for_each(|line| _ = tell.send((rank, Some(line))));
                let _ = tell.send((rank, None));
            });
            Started { child, is_doomed: false, has_no_server: false, is_stopped: false, has_ended: false }
        });
        let ranks = ranks.collect();
        let until_loss = match random.below(3) {
            0 => random.below(RANKS as u64 * STEPS / 2),
            _ => u64::MAX,
        };
        Course { cluster, nspace: job.nspace, placement, ranks, random, news, until_loss }
    }

    fn proc(&self, rank: usize) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank as u32))
    }

    /// Something happens to somebody, or nothing.
    fn disturb(&mut self) {
        let victim = self.random.below(RANKS as u64) as usize;
        let rank = &mut self.ranks[victim];
        match self.random.below(24) {
            _ if rank.has_ended => {}
            0 => {
                rank.is_doomed = true;
                rank.signal(Signal::SIGKILL);
            }
            1..=5 => {
                rank.signal(Signal::SIGSTOP);
                rank.is_stopped = true;
            }
            6..=12 => rank.go_on(),
            _ => {}
        }
        if self.until_loss == 0 {
            self.lose_a_node();
        }
        self.until_loss = self.until_loss.wrapping_sub(1);
    }

    /// Some of the node's ranks are killed with it; the others find that their server is gone.
    fn lose_a_node(&mut self) {
        let node = self.random.below(NODES as u64) as usize;
        for rank in (0..RANKS).filter(|rank| self.placement[*rank] == node) {
            let dies = self.random.below(2) == 0;
            self.ranks[rank].is_doomed = true;
            self.ranks[rank].has_no_server = true;
            if dies && !self.ranks[rank].has_ended {
                self.ranks[rank].signal(Signal::SIGKILL);
            }
        }
        self.cluster.lose(node);
    }

    /// The output of a rank has ended, and so has the rank.
    fn over(&mut self, rank: usize) {
        let proc = self.proc(rank);
        let started = &mut self.ranks[rank];
        started.has_ended = true;
        started.go_on();
        let status = started.child.wait().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut started.child.stderr.take().unwrap(), &mut said).unwrap();
        assert!(started.is_doomed || status.success(), "{proc}: {status}: {said}");
        if !status.success() {
            self.cluster.server(self.placement[rank]).client_died(&proc);
            self.cluster.world.lose(&proc);
        }
    }

    fn run(&mut self) {
        let mut last = Instant::now();
        while self.ranks.iter().any(|rank| !rank.has_ended) {
            match self.news.recv_timeout(SILENCE) {
                Ok((rank, None)) => self.over(rank),
                Ok((_, Some(line))) if line == "step" => self.disturb(),
                Ok(_) => continue,
                Err(RecvTimeoutError::Timeout) => {
                    self.ranks.iter_mut().filter(|rank| !rank.has_ended).for_each(Started::go_on);
                    assert!(last.elapsed() < PATIENCE, "{} hangs", self.nspace);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("those who have not ended tell of it"),
            }
            last = Instant::now();
        }
        for node in 0..NODES {
            self.cluster.server(node).deregister_nspace(&self.nspace).wait().unwrap();
        }
        for rank in (0..RANKS).filter(|rank| self.ranks[*rank].has_no_server) {
            let _ = std::fs::remove_dir_all(directory(&self.proc(rank)));
        }
        self.cluster.world.forget(&self.nspace);
    }
}

/// Resources of the system that this process has, with all servers in it.
#[derive(Debug, PartialEq)]
struct Held {
    descriptors: Vec<String>,
    threads: Vec<String>,
    /// Mappings of shared memory.
    segments: usize,
    files: Vec<String>,
}

fn names(directory: impl AsRef<Path>, of: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = entries.filter_map(|path| of(&path)).collect();
    names.sort();
    names
}

impl Held {
    fn now() -> Held {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Held {
            descriptors: descriptors(),
            threads: names("/proc/self/task", |task| std::fs::read_to_string(task.join("comm")).ok()),
            segments: maps.matches("memfd:instanton").count(),
            files: names(std::env::temp_dir(), |path| Some(path.display().to_string())),
        }
    }
}

/// Waits until something holds; the kernel and the threads of hosts take their time to tell of ends.
fn until(mut holds: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + PATIENCE;
    while let Err(why) = holds() {
        assert!(Instant::now() < end, "{why}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_left_and_nobody_hangs_when_ranks_and_nodes_die_and_stop_anywhere() {
    let any = u64::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
    let seed = number("INSTANTON_TEST_SEED").unwrap_or(any).to_string();
    println!("INSTANTON_TEST_SEED={seed}");
    let directory = std::env::temp_dir().join(format!("instanton-chaos-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    alone_with("chaos::jobs", &[("INSTANTON_TEST_SEED", &seed), ("TMPDIR", directory.to_str().unwrap())]);
    std::fs::remove_dir(&directory).expect("it is empty");
}

#[test]
#[ignore = "run in a process of its own"]
fn jobs() {
    let Some(seed) = number("INSTANTON_TEST_SEED") else { return };
    // The trace's own file is open from the first line on.
    instanton::trace!("begins");
    let cluster = Cluster::with(NODES, Lacks { patience: true, ..Lacks::default() }, |config| config);
    let mut before = None;
    for turn in 0..=JOBS * number("INSTANTON_TEST_ROUNDS").unwrap_or(1) {
        let mut course = Course::start(&cluster, turn, seed);
        course.run();
        until(|| {
            (0..NODES).try_for_each(|node| cluster.server(node).check_empty().map_err(|e| format!("n{node}: {e}")))
        });
        assert_eq!(cluster.world.unanswered(), 0, "requests to the hosts");
        // The first one may open what stays open.
        let before = before.get_or_insert_with(Held::now);
        until(|| {
            let now = Held::now();
            let is_as_before = now == *before;
            is_as_before.then_some(()).ok_or_else(|| format!("after job {turn}: {now:#?}, before: {before:#?}"))
        });
    }
}
