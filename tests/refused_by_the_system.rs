//! A server and two ranks, processes of their own, whom the kernel refuses something: a call, descriptors, memory or room
//! for files; or whom signals interrupt all the time. They go on by another way, or say in a line what was refused, with
//! the kernel's reason. Nobody hangs, panics or dies, and nothing is left.
mod processes;
#[path = "processes/refusals.rs"]
mod refusals;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use instanton::client::Client;
use instanton::data::{Info, Proc, Rank, Scope, Value, keys};
use instanton::server::{NoHost, Server, ServerConfig, ToolSupport};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;
use processes::{Job, start_alone, until_dismissed};
use refusals::{can_refuse, refuse};

/// Call or resource that the kernel refuses: in a variable of the process, so that it can be told by name.
const FAULT: &str = "FAULT";
/// Limit on each wait here.
const PATIENCE: Duration = Duration::from_secs(120);
/// Exit status of a process that has said what it was refused.
const REFUSED: i32 = 3;

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("node") => ended(node()),
        Some("rank") => ended(rank()),
        Some(other) => panic!("no such role: {other}"),
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Says how it ended, in one line, and ends the process.
fn ended(result: Result<(), String>) {
    let (line, status) = match result {
        Ok(()) => ("well".into(), 0),
        Err(error) => (format!("refused: {error}"), REFUSED),
    };
    say(&line);
    std::process::exit(status);
}

/// Comes to a point of a process's way: from there on the kernel refuses it what it is to be refused.
fn fault_begins(at: &str) {
    let fault = std::env::var(FAULT).unwrap_or_default();
    let Some((what, how)) = fault.split_once('=').and_then(|(what, how)| Some((what.strip_prefix(at)?, how))) else {
        return;
    };
    let how: u64 = how.parse().unwrap();
    let limit = |resource, in_use| setrlimit(resource, in_use + how, getrlimit(resource).unwrap().1).unwrap();
    match what {
        "descriptors" => limit(Resource::RLIMIT_NOFILE, std::fs::read_dir("/proc/self/fd").unwrap().count() as u64),
        "memory" => {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            limit(Resource::RLIMIT_AS, pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096);
        }
        call => refuse(call, Errno::from_raw(how as i32)),
    }
}

/// The points at which it may begin: before anything, and when the server has its job or the rank its connection.
const AT_ONCE: &str = "at once ";
const LATER: &str = "later ";

/// A server with a job of two; says what a rank finds in its environment, and ends when its input does.
fn node() -> Result<(), String> {
    fault_begins(AT_ONCE);
    let config = ServerConfig {
        path_socket: given("PATH_SOCKET").is_some(),
        tools: given("TOOLS").map(|_| ToolSupport::default()),
        ..ServerConfig::default()
    };
    let server = Server::start(config, Arc::new(NoHost)).map_err(|error| error.to_string())?;
    let nspace = instanton::data::Nspace::new("refused").unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let info = [Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::NODE_MAP, &*host), Info::new(keys::PROC_MAP, "0,1")];
    let registered = server.register_nspace(&nspace, 2, &info).wait();
    registered.map_err(|status| format!("registering: {status}"))?;
    let job = Job { server: &server, nspace, size: 2 };
    for rank in 0..2 {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        server.register_client(&job.proc(rank), uid, gid).wait().map_err(|status| format!("registering: {status}"))?;
        let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = Vec::new();
        server.setup_fork(&job.proc(rank), &mut env).map_err(|status| status.to_string())?;
        env.iter().for_each(|(name, value)| say(&format!("{rank} {}={}", name.display(), value.display())));
    }
    fault_begins(LATER);
    say("ready");
    until_dismissed();
    server.deregister_nspace(&job.nspace).wait().unwrap();
    // A thread may still be at a commit of a rank that has given up.
    let until = Instant::now() + PATIENCE;
    while let Err(left) = server.check_empty() {
        assert!(Instant::now() < until, "{left}");
    }
    Ok(())
}

/// A number that a process is given in a variable.
fn given(name: &str) -> Option<u32> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Posts, meets and reads.
fn rank() -> Result<(), String> {
    fault_begins(AT_ONCE);
    if given("INTERRUPTED").is_some() {
        interrupt_this_thread();
    }
    let limit = Info::new(keys::TIMEOUT, given("LIMIT").map_or(60, |limit| limit as i32));
    let client = Client::init(std::slice::from_ref(&limit)).map_err(|error| format!("init: {error}"))?;
    fault_begins(LATER);
    // One that gives up ends at once, and the other hears of it.
    meet(&client, &limit).inspect_err(|error| ended(Err(error.clone())))?;
    client.finalize(&[]).map_err(|error| format!("finalize: {error}"))
}

fn meet(client: &Client, limit: &Info) -> Result<(), String> {
    let me = client.proc();
    let other = Proc::new(me.nspace.clone(), Rank(1 - me.rank.0));
    let collect = [Info::new(keys::COLLECT_DATA, true), limit.clone()];
    for round in 0..given("ROUNDS").unwrap_or(20) as u8 {
        if round == 3 && given("LEAVES") == Some(me.rank.0) {
            return Err("it leaves".into());
        }
        let value = Value::ByteObject(vec![round; [8, 100, 20_000, 300_000][usize::from(round) % 4]]);
        // Two commits in a row: the second one waits for the first one, however that is done.
        for key in ["before", "key"] {
            client.put(Scope::GLOBAL, key, value.clone()).map_err(|error| format!("put: {error}"))?;
            client.commit().map_err(|error| format!("commit: {error}"))?;
        }
        client.fence(&[], &collect).wait().map_err(|error| format!("fence: {error}"))?;
        let got = client.get(&other, "key", &collect[1..]).map_err(|error| format!("get: {error}"))?;
        // The other one's fence tells it that its commit has failed, and this one's is over all the same.
        let bytes = got.as_bytes().unwrap();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture in round {round}");
        if got != value {
            return Err(format!("old data: the other has posted nothing in round {round}"));
        }
        client.fence(&[], &collect[1..]).wait().map_err(|error| format!("fence: {error}"))?;
    }
    Ok(())
}

/// Has a signal interrupt this thread's calls, a thousand times a second for as long as the process lives.
fn interrupt_this_thread() {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing, which may be done anywhere.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.unwrap();
    // SAFETY: the call has no conditions.
    let thread = unsafe { libc::pthread_self() };
    thread::spawn(move || {
        say("interrupted");
        loop {
            // SAFETY: the thread lives as long as this process, which it ends itself.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            thread::park_timeout(Duration::from_millis(1));
        }
    });
}

/// The side that is under a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whom {
    Server,
    Ranks,
}

/// A process, and what it says from now on.
struct Watched {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Watched {
    fn new(mut child: Child) -> Watched {
        let (tell, said) = mpsc::channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let pass_on = |stream: Box<dyn Read + Send>, tell: mpsc::Sender<String>| {
            thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| _ = tell.send(line));
            });
        };
        pass_on(Box::new(out), tell.clone());
        pass_on(Box::new(err), tell);
        Watched { child, said }
    }

    /// Returns the lines until this one, or all of them.
    fn until(&self, last: Option<&str>) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) if Some(&*line) == last => return lines,
                Ok(line) => lines.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return lines,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs; so far: {lines:#?}"),
            }
        }
    }

    /// Lets go of its input, and waits for its end.
    fn over(mut self) -> (ExitStatus, Vec<String>) {
        drop(self.child.stdin.take());
        let lines = self.until(None);
        (self.child.wait().unwrap(), lines)
    }
}

/// Runs a server and its ranks with something that the kernel refuses some of them. Returns whether all has gone well, and
/// all that was said.
fn run(whom: Whom, fault: &str) -> (bool, String) {
    run_with(whom, fault, &[], |_| ())
}

/// As [`run`], with some more variables; something is done beside, with the ids of those under the fault.
fn run_with(whom: Whom, fault: &str, more: &[(&str, &str)], beside: impl Fn(&[u32])) -> (bool, String) {
    let fault_of = |of| (FAULT, if of == whom { fault } else { "" });
    // A backtrace of an allocation that fails takes memory, and what fails in that waits for the first for ever.
    let common = [("INSTANTON_TRACE", "stderr"), ("RUST_BACKTRACE", "0")];
    let node = Watched::new(start_alone("node", &[&[fault_of(Whom::Server)], &common[..], more].concat()));
    let mut said = node.until(Some("ready"));
    let variables: Vec<(u32, String, String)> = said.iter().filter_map(|line| variable(line)).collect();
    let ranks = (0..2).filter(|_| !variables.is_empty()).map(|rank| {
        let own = variables.iter().filter(|(of, ..)| *of == rank).map(|(_, name, value)| (&**name, &**value));
        let variables: Vec<(&str, &str)> =
            own.chain([fault_of(Whom::Ranks)]).chain(common).chain(more.iter().copied()).collect();
        Watched::new(start_alone("rank", &variables))
    });
    let ranks: Vec<Watched> = ranks.collect();
    let ids: Vec<u32> = match whom {
        Whom::Server => vec![node.child.id()],
        Whom::Ranks => ranks.iter().map(|rank| rank.child.id()).collect(),
    };
    beside(&ids);
    let mut well = !ranks.is_empty();
    for process in ranks.into_iter().chain([node]) {
        let (status, lines) = process.over();
        // An allocation of Rust that fails ends the process: it is no limit of memory that this library keeps to.
        let lacks_memory = fault.contains("memory=") && status.signal() == Some(libc::SIGABRT);
        let ends_well = [Some(0), Some(REFUSED)].contains(&status.code()) || lacks_memory;
        said.extend(lines);
        well &= status.success();
        assert!(ends_well, "{fault} for {whom:?}: {status}: {said:#?}");
    }
    said.retain(|line| variable(line).is_none() && !line.is_empty() && !line.starts_with("running "));
    let said = said.join("\n");
    assert!(!said.contains("panicked") || said.contains("alternative stack"), "{fault} for {whom:?}: {said}");
    (well, said)
}

/// A variable of a rank, as a node says it.
fn variable(line: &str) -> Option<(u32, String, String)> {
    let (rank, rest) = line.split_once(' ')?;
    let (name, value) = rest.split_once('=')?;
    Some((rank.parse().ok()?, name.into(), value.into()))
}

/// Runs cases some at a time: they wait more than they compute.
fn for_each<T: Sync>(cases: &[T], run: impl Fn(&T) + Sync) {
    let next = Mutex::new(cases.iter());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let case = next.lock().unwrap().next();
                    let Some(case) = case else { break };
                    run(case);
                }
            });
        }
    });
}

#[test]
fn a_call_that_is_refused_is_done_without_or_named_with_the_kernels_reason() {
    if !can_refuse() {
        return;
    }
    /// Words of the line that names the call, or none where all goes on without it.
    type Line = Option<&'static str>;
    const OTHERWISE: Line = None;
    // A server from its start on, a server that has its job, and ranks from their start on.
    let calls: [(&str, [Line; 3]); 6] = [
        ("memfd_create", [Some("memfd_create for"), Some("memfd_create for"), OTHERWISE]),
        ("fallocate", [Some("fallocate for"), Some("fallocate for"), OTHERWISE]),
        ("pidfd_open", [OTHERWISE; 3]),
        ("futex_waitv", [OTHERWISE; 3]),
        ("epoll_create", [Some("cannot poll"), OTHERWISE, OTHERWISE]),
        ("clone", [Some("cannot start a thread"), OTHERWISE, Some("no thread")]),
    ];
    let whom = [(AT_ONCE, Whom::Server), (LATER, Whom::Server), (AT_ONCE, Whom::Ranks)];
    let mut cases = Vec::new();
    for (call, lines) in calls {
        for ((at, whom), line) in whom.into_iter().zip(lines) {
            let errnos = [Errno::EPERM, Errno::ENOSYS, Errno::ENOMEM, Errno::EAGAIN];
            cases.extend(errnos.map(|errno| (format!("{at}{call}={}", errno as i32), whom, line, errno)));
        }
    }
    for_each(&cases, |(fault, whom, line, errno)| {
        let (well, said) = run(*whom, fault);
        // The C library has one reason for threads that lack memory.
        let errno = if fault.contains("clone") && *errno == Errno::ENOMEM { Errno::EAGAIN } else { *errno };
        let reason = format!("(os error {})", errno as i32);
        let names = |line: &str| said.lines().any(|said| said.contains(line) && said.contains(&reason));
        match line {
            None => assert!(well, "{fault} for {whom:?}: {said}"),
            Some(line) => assert!(!well && names(line), "{fault} for {whom:?}: {said}"),
        }
    });
}

#[test]
fn without_descriptors_all_goes_on_or_the_server_says_what_it_lacks() {
    let faults = |at: &str, counts: Vec<u32>| -> Vec<String> {
        counts.into_iter().map(|count| format!("{at}descriptors={count}")).collect()
    };
    let counts = (0..18).step_by(2).collect();
    let server = [faults(AT_ONCE, counts), faults(LATER, (0..6).collect())].concat();
    for_each(&server, |fault| {
        // A rank that cannot come in keeps the other waiting: for this long.
        let (well, said) = run_with(Whom::Server, fault, &[("LIMIT", "5")], |_| ());
        assert!(well || said.contains("(os error 24)"), "{fault}: {said}");
    });
    // They get no segments then, and ask.
    for_each(&faults(LATER, vec![0, 1, 2]), |fault| {
        let (well, said) = run(Whom::Ranks, fault);
        assert!(well, "{fault}: {said}");
    });
}

#[test]
fn a_process_that_ends_is_missed_without_pidfds_too() {
    if !can_refuse() {
        return;
    }
    let (well, said) = run_with(Whom::Server, "at once pidfd_open=38", &[("LEAVES", "1")], |_| ());
    let hears = |line: &str| line.starts_with("refused: fence: PMIX_ERR_") && !line.contains("TIMEOUT");
    assert!(!well && said.lines().any(hears), "{said}");
    assert!(said.contains("cannot be watched for: Function not implemented (os error 38)"), "{said}");
}

/// Sends signals for as long as processes usually take here, without a rhythm that is anybody's.
fn signal_all(ids: &[u32], signals: &[Signal]) {
    for signal in signals.iter().cycle().take(1000) {
        // It is not waited for before this is over: the number is its own.
        ids.iter().for_each(|id| kill(Pid::from_raw(*id as i32), *signal).unwrap());
        thread::park_timeout(Duration::from_micros(500));
    }
}

#[test]
fn calls_that_signals_interrupt_a_thousand_times_a_second_are_begun_again() {
    let stopped = [Signal::SIGSTOP, Signal::SIGCONT];
    for whom in [Whom::Server, Whom::Ranks] {
        let (well, said) = run_with(whom, "", &[("ROUNDS", "100")], |ids| signal_all(ids, &stopped));
        assert!(well, "{whom:?}: {said}");
    }
    let (well, said) = run_with(Whom::Ranks, "", &[("ROUNDS", "100"), ("INTERRUPTED", "1")], |_| ());
    assert!(well && said.contains("interrupted"), "{said}");
}

#[test]
fn without_memory_all_goes_on_or_a_line_names_what_lacks_and_the_others_hear_of_it() {
    let amounts = (20..25).map(|power| 1u64 << power);
    let faults = amounts.flat_map(|amount| [AT_ONCE, LATER].map(|at| format!("{at}memory={amount}")));
    let cases: Vec<(String, Whom)> =
        faults.flat_map(|fault| [Whom::Server, Whom::Ranks].map(|whom| (fault.clone(), whom))).collect();
    for_each(&cases, |(fault, whom)| {
        let (well, said) = run_with(*whom, fault, &[("LIMIT", "10")], |_| ());
        // The allocator's word, or the C library's, comes with the end of the process.
        let of_the_end = ["memory allocation of", "register TLS destructor: out of memory"];
        let reasons = [&["(os error 11)", "(os error 12)", "old data"][..], &of_the_end].concat();
        assert!(well || reasons.iter().any(|reason| said.contains(reason)), "{fault} for {whom:?}: {said}");
    });
}

#[test]
fn a_full_directory_for_files_is_named_or_done_without() {
    let directory = std::env::temp_dir().join(format!("instanton-full-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    // One page, which the first file of all takes.
    let script = r#"mount -t tmpfs -o size=4k none "$TMPDIR" && echo x > "$TMPDIR/x" && echo mounted && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", "with_a_full_directory"]).env("TMPDIR", &directory);
    let output = command.output();
    std::fs::remove_dir(&directory).unwrap();
    let said = output.as_ref().map_or(String::new(), |output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    });
    if !said.contains("mounted") {
        println!("SKIPPED: a file system of its own for TMPDIR takes root and unshare: {said}");
        return;
    }
    assert!(output.unwrap().status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run with a directory of its own"]
fn with_a_full_directory() {
    for files in ["PATH_SOCKET", "TOOLS"] {
        let (well, said) = run_with(Whom::Server, "", &[(files, "1")], |_| ());
        assert!(well || said.contains("(os error 28)"), "{said}");
    }
    assert_eq!(std::fs::read_dir(std::env::temp_dir()).unwrap().count(), 1, "nothing of them is left");
}
