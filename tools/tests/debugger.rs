//! Debuggers: tools for which the processes of jobs wait, of the run's own or of those that they start.
mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use common::{Job, example, run};
use instanton::client::{Handler, Notice};
use instanton::data::{
    App, DataArray, DataRange, Info, InfoList, Nspace, Proc, ProcInfo, Query, Rank, Status, Text, Value, keys,
};
use instanton::tool::Tool;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// No process that is to say something is silent for so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// So many ranks that say what they know when they are through Init.
fn app(ranks: i32, info: &[Info]) -> App {
    let argv = vec![Text::new(example("rank").to_str().unwrap()).unwrap(), Text::new("say").unwrap()];
    App { cmd: None, argv, env: vec![], cwd: None, maxprocs: ranks, info: info.to_vec() }
}

/// A tool at a job, and the events that concern a debugger.
struct Debugger {
    tool: Tool,
    events: Receiver<Notice>,
}

impl Debugger {
    fn attach(job: &Job) -> Self {
        let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap();
        let (heard, events) = mpsc::channel::<Notice>();
        let handler: Handler = Arc::new(move |notice, chain| {
            let _ = heard.send(notice);
            chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
        });
        let of_launchers = [Status::LAUNCHER_READY, Status::LAUNCH_COMPLETE];
        let codes = [&[Status::READY_FOR_DEBUG, Status::EVENT_JOB_END], &of_launchers[..]].concat();
        tool.primary().register_event_handler(&codes, &[], handler).wait().unwrap();
        Self { tool, events }
    }

    fn next(&self) -> Notice {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    /// The next so many processes that wait at a place, in order.
    fn await_ready(&self, place: &str, count: usize) -> Vec<Proc> {
        let ready = (0..count).map(|_| {
            let notice = self.next();
            assert_eq!(notice.status, Status::READY_FOR_DEBUG);
            assert_eq!(notice.info.find(keys::BREAKPOINT).unwrap().value.as_str(), Some(place));
            notice.info.find(keys::EVENT_AFFECTED_PROC).unwrap().value.as_proc().unwrap().clone()
        });
        let mut ready: Vec<Proc> = ready.collect();
        ready.sort_unstable();
        ready
    }

    fn spawn(&self, info: &[Info], apps: &[App]) -> Proc {
        Proc::new(self.tool.primary().spawn(info, apps).wait().unwrap(), Rank::WILDCARD)
    }

    /// The processes of a job.
    fn table(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        let keys = vec![Text::new(keys::QUERY_PROC_TABLE).unwrap()];
        let query = Query { keys, qualifiers: vec![Info::new(keys::NSPACE, Value::string(nspace))] };
        let (_, answers) = self.tool.primary().query(&[query]).wait().unwrap();
        let Value::DataArray(rows) = &answers[0].value else { panic!("{answers:?}") };
        let row = |value: &Value| match value {
            Value::ProcInfo(info) => (**info).clone(),
            other => panic!("{other:?}"),
        };
        rows.items().iter().map(row).collect()
    }

    fn release(&self, who: &Proc) {
        let released = Value::DataArray(DataArray::of([who.clone()]));
        let release = [Info::new(keys::EVENT_CUSTOM_RANGE, released), Info::new(keys::EVENT_NON_DEFAULT, true)];
        let client = self.tool.primary();
        client.notify_event(Status::DEBUGGER_RELEASE, client.proc(), DataRange::CUSTOM, &release).wait().unwrap();
    }

    fn await_end(&self) {
        let end = self.next();
        assert_eq!(end.status, Status::EVENT_JOB_END);
        assert_eq!(end.info.find(keys::JOB_TERM_STATUS).unwrap().value, Value::Status(Status::SUCCESS));
    }
}

/// A run that lasts until it is written a line, for what a tool starts in it.
fn waiting_run(options: &[&str]) -> Job {
    let arguments = options.iter().copied().chain(["-n", "1", "sh", "-c", "echo ready; read line"]);
    let mut job = Job::start(arguments, Stdio::piped());
    job.line();
    job
}

/// The letter of a process's state: T where it is stopped, and nobody traces it.
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap() + 2..].chars().next()
}

fn is_stopped(info: &ProcInfo) -> bool {
    state(info.pid) == Some('T')
}

/// Words of gdb about the place at which a process is; none where there is no gdb, which is said.
fn ask_gdb(test: &str, pid: i32) -> Option<String> {
    if !Path::new("/usr/bin/gdb").exists() {
        eprintln!("{test}: skipped in part: there is no gdb");
        return None;
    }
    let arguments = ["-nx", "-batch", "-ex", "info symbol $pc", "-p"];
    let told = Command::new("/usr/bin/gdb").args(arguments).arg(pid.to_string()).stdin(Stdio::null()).output().unwrap();
    Some(String::from_utf8_lossy(&told.stdout).into_owned())
}

#[test]
fn ranks_of_the_run_wait_at_their_first_instruction_for_gdb() {
    let program = example("rank");
    let arguments = ["--stop-on-exec", "--output-proctable", "-n", "2", program.to_str().unwrap(), "say"];
    let mut job = Job::start(arguments, Stdio::null());
    job.line();
    let debugger = Debugger::attach(&job);
    let waiting = debugger.await_ready("exec", 2);
    assert_eq!(waiting.iter().map(|proc| proc.rank.0).collect::<Vec<_>>(), [0, 1]);
    let table = debugger.table(&waiting[0].nspace);
    assert_eq!(table.len(), 2);
    for info in &table {
        assert_eq!(info.executable.as_ref().map(|name| name.to_string_lossy()), program.to_str().map(Into::into));
        assert!(is_stopped(info), "{:?}", state(info.pid));
        if let Some(told) = ask_gdb("ranks_of_the_run_wait_at_their_first_instruction_for_gdb", info.pid) {
            assert!(told.contains("_start"), "{told}");
            assert!(is_stopped(info), "after gdb, too");
        }
    }
    debugger.release(&Proc::new(waiting[0].nspace.clone(), Rank::WILDCARD));
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 3), "{ended:?}");
    let _ = debugger.tool.finalize(&[]);
}

#[test]
fn a_run_whose_time_is_over_says_who_waits_for_a_debugger() {
    let ended = run(["--timeout", "0.5", "--stop-on-exec", "-n", "2", "true"]);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(ended.stderr.contains("\ninstanton: ranks 0-1 wait for a debugger, as was asked for\n"), "{ended:?}");
}

#[test]
fn a_launcher_that_is_to_pause_waits_for_a_tool_and_for_no_signal() {
    let script =
        r#"PMIX_LAUNCHER_PAUSE_FOR_TOOL=1 exec "$0" run --report-uri - sh -c 'echo ran$PMIX_LAUNCHER_PAUSE_FOR_TOOL'"#;
    let mut job = Job::in_shell(script);
    // Its address.
    job.line();
    let debugger = Debugger::attach(&job);
    let ready = debugger.next();
    assert_eq!(ready.status, Status::LAUNCHER_READY);
    assert!(ready.info.find(keys::SERVER_URI).is_some(), "{ready:?}");
    let launcher = debugger.tool.primary().server().unwrap().clone();
    debugger.release(&launcher);
    let launched = debugger.next();
    assert_eq!(launched.status, Status::LAUNCH_COMPLETE);
    assert_ne!(launched.info.find(keys::NSPACE).unwrap().value, Value::string(&launcher.nspace));
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "ran\n"), "{ended:?}");
    let _ = debugger.tool.finalize(&[]);
    let mut job = Job::in_shell(script);
    job.line();
    job.send(Signal::SIGTERM);
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(128 + 15), ""), "{ended:?}");
    assert!(ended.stderr.contains("no rank was started"), "{ended:?}");
}

#[test]
fn processes_wait_in_init_until_they_are_released() {
    let mut job = waiting_run(&[]);
    let debugger = Debugger::attach(&job);
    let stop = Info::new(keys::DEBUG_STOP_IN_INIT, true).required();
    let notify = Info::new(keys::NOTIFY_COMPLETION, true);
    let whole = (vec![stop.clone()], [app(1, &[]), app(1, &[])], vec![0, 1]);
    let one_application = (vec![], [app(1, &[]), app(1, &[stop])], vec![1]);
    for (mut info, apps, stopped) in [whole, one_application] {
        info.push(notify.clone());
        let all = debugger.spawn(&info, &apps);
        let ready = debugger.await_ready("pmix-init", stopped.len());
        assert!(ready.iter().all(|proc| proc.nspace == all.nspace));
        assert_eq!(ready.iter().map(|proc| proc.rank.0).collect::<Vec<_>>(), stopped);
        debugger.release(&all);
        debugger.await_end();
    }
    job.write("go\n");
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 4), "{ended:?}");
    let _ = debugger.tool.finalize(&[]);
}

#[test]
fn a_spawned_job_and_the_daemons_beside_it_stop_where_they_are_to() {
    let mut job = waiting_run(&["--nodes", "2"]);
    let debugger = Debugger::attach(&job);
    let chosen = DataArray::of([Rank(1), Rank(3)]);
    let stop = Info::new(keys::DEBUG_STOP_ON_EXEC, Value::DataArray(chosen)).required();
    let notify = Info::new(keys::NOTIFY_COMPLETION, true);
    let target = debugger.spawn(&[stop, Info::new(keys::MAPBY, "node"), notify.clone()], &[app(4, &[])]);
    let waiting = debugger.await_ready("exec", 2);
    assert_eq!(waiting.iter().map(|proc| proc.rank.0).collect::<Vec<_>>(), [1, 3]);
    let table = debugger.table(&target.nspace);
    assert_eq!(table.iter().filter(|info| is_stopped(info)).map(|info| info.proc.rank.0).collect::<Vec<_>>(), [1, 3]);
    let nodes: std::collections::BTreeSet<_> = table.iter().map(|info| info.hostname.clone()).collect();
    assert_eq!(nodes.len(), 2, "{table:?}");
    let daemons = [
        Info::new(keys::DEBUGGER_DAEMONS, true).required(),
        Info::new(keys::DEBUG_TARGET, target.clone()),
        Info::new(keys::DEBUG_DAEMONS_PER_NODE, 1u16),
        Info::new(keys::DEBUG_STOP_ON_EXEC, true),
        notify,
    ];
    let beside = debugger.spawn(&daemons, &[app(1, &[])]);
    debugger.await_ready("exec", 2);
    let on = debugger.table(&beside.nspace);
    assert_eq!(on.iter().map(|info| info.hostname.clone()).collect::<std::collections::BTreeSet<_>>(), nodes);
    assert_eq!(on.len(), 2);
    let nobody = Proc::new(Nspace::new("nobody").unwrap(), Rank::WILDCARD);
    let unknown = [daemons[0].clone(), Info::new(keys::DEBUG_TARGET, nobody)];
    let refused = debugger.tool.primary().spawn(&unknown, &[app(1, &[])]).wait().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_FOUND);
    for job in [&beside, &target] {
        debugger.release(job);
        debugger.await_end();
    }
    job.write("go\n");
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 6), "{ended:?}");
    let _ = debugger.tool.finalize(&[]);
}

#[test]
fn nobody_waits_for_a_debugger_that_is_gone() {
    let mut job = Job::start(
        ["--stop-on-exec=1", "-n", "2", "sh", "-c", "echo $PMIX_RANK; [ $PMIX_RANK = 1 ] || read line"],
        Stdio::piped(),
    );
    assert_eq!(job.line(), "0");
    let debugger = Debugger::attach(&job);
    let waiting = debugger.await_ready("exec", 1);
    let nspace = waiting[0].nspace.to_string();
    let stop = Info::new(keys::DEBUG_STOP_ON_EXEC, true).required();
    debugger.spawn(&[stop], &[app(2, &[])]);
    debugger.await_ready("exec", 2);
    debugger.spawn(&[Info::new(keys::DEBUG_STOP_IN_INIT, "0").required()], &[app(1, &[])]);
    debugger.await_ready("pmix-init", 1);
    let held = debugger.table(&waiting[0].nspace);
    let arguments = [job.pid().to_string(), "stare".to_owned(), nspace];
    let mut other = Command::new(example("stream_tool")).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "stares\n");
    // One that takes its leave goes with its own jobs alone.
    debugger.tool.finalize(&[]).unwrap();
    let lines = [job.line(), job.line(), job.line()];
    let of_rank = |rank| lines.iter().filter(|line| line.starts_with(&format!("rank {rank} of"))).count();
    assert_eq!((of_rank(0), of_rank(1)), (2, 1), "{lines:?}");
    assert!(is_stopped(&held[1]), "{held:?}");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(job.line(), "1");
    job.write("go\n");
    let ended = job.finish();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("the debugger of job 1 is gone"), "{ended:?}");
}

#[test]
fn what_is_stopped_ends_with_the_run_and_by_signals() {
    let start = || {
        let mut job = Job::start(
            ["--stop-on-exec", "--output-proctable", "-n", "2", "sh", "-c", "echo $PMIX_RANK"],
            Stdio::null(),
        );
        let pids = [job.line(), job.line()].map(|line| {
            assert!(line.starts_with("(rank, host, exe, pid) = (") && line.contains("/sh, "), "{line}");
            let pid = line.trim_end_matches(')').rsplit(' ').next().and_then(|pid| pid.parse().ok());
            pid.unwrap_or_else(|| panic!("{line}"))
        });
        (job, pids)
    };
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGCONT, 0)] {
        let (job, pids) = start();
        assert_eq!(pids.map(state), [Some('T'); 2]);
        job.send(signal);
        let ended = job.finish();
        assert_eq!(
            (ended.code, ended.stdout.lines().count()),
            (Some(code), if code == 0 { 2 } else { 0 }),
            "{ended:?}"
        );
    }
    let (job, pids) = start();
    kill(Pid::from_raw(pids[1]), Signal::SIGKILL).unwrap();
    let ended = job.finish();
    assert_eq!(ended.code, Some(137), "{ended:?}");
}

#[test]
fn what_cannot_be_stopped_is_refused_in_a_line() {
    for (arguments, said) in [
        (["--stop-on-exec=2", "-n", "2", "true"], "--stop-on-exec=2: there is no such rank, only 0 to 1"),
        (["--stop-in-init=x", "-n", "2", "true"], "`x` names no ranks"),
    ] {
        let ended = run(arguments);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{ended:?}");
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
    let strace = Path::new("/usr/bin/strace");
    if !strace.exists() {
        return eprintln!("what_cannot_be_stopped_is_refused_in_a_line: skipped in part: there is no strace");
    }
    // A process that is traced already is traced by nobody else.
    let mut command = Command::new(strace);
    command.args(["-f", "-qq", "-e", "trace=none", "-o", "/dev/null", env!("CARGO_BIN_EXE_instanton"), "run"]);
    command.args(["--stop-on-exec", "-n", "1", "true"]).stdin(Stdio::null());
    let ended = Job::spawn(command).finish();
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.stderr.contains("cannot be stopped on exec; that is refused by the system"), "{ended:?}");
}
