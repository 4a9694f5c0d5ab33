//! `instanton up`, and runs inside it: what they print, how they exit, what they share, and that nothing of them stays.
mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Ended, Job, ends, example, numbers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Nothing here takes so long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// An `instanton up` in a temporary directory of its own.
struct Up(Job);

impl Up {
    /// With these options; it is there.
    fn with(options: &[&str]) -> Self {
        Self::within(Path::new("."), options)
    }

    /// The same, started in this directory.
    fn within(directory: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        command.current_dir(directory).arg("up").args(options).stdin(Stdio::null());
        let mut up = Job::spawn(command);
        let line = up.line();
        assert!(line.contains(" is up (process ") && line.contains(&up.pid().to_string()), "{line}");
        Self(up)
    }

    fn new() -> Self {
        Self::with(&["--slots", "8"])
    }

    /// The command with these words, for this one.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        command.args(words).env("TMPDIR", self.0.directory()).stdin(Stdio::null());
        command
    }

    fn says(&self, words: &[&str]) -> Ended {
        ended_of(&mut self.command(words))
    }

    /// `instanton run --in up` with these words, to its end.
    fn run(&self, words: &[&str]) -> Ended {
        self.says(&[&["run", "--in", "up"], words].concat())
    }

    /// The same, which goes on; its first lines of output, so many.
    fn start(&self, words: &[&str], lines: usize) -> (Child, Vec<String>) {
        let mut command = self.command(&[&["run", "--in", "up"], words].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.as_mut().unwrap();
        let read = |_| {
            let (mut line, mut byte) = (Vec::new(), [0]);
            while std::io::Read::read(out, &mut byte).unwrap() == 1 && byte[0] != b'\n' {
                line.push(byte[0]);
            }
            String::from_utf8(line).unwrap()
        };
        let lines = (0..lines).map(read).collect();
        (child, lines)
    }

    /// The process that holds its server.
    fn launcher(&self) -> Pid {
        numbers(self.run(&["sh", "-c", "echo $PPID"]).stdout.trim())[0]
    }

    fn down(self) -> Ended {
        let down = self.says(&["down"]);
        assert_eq!((down.code, down.stderr.as_str()), (Some(0), ""), "{down:?}");
        let ended = self.0.finish();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    }
}

fn ended(output: Output) -> Ended {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    Ended { code: output.status.code(), signal: None, stdout, stderr }
}

fn ended_of(command: &mut Command) -> Ended {
    ended(command.output().unwrap())
}

fn finish(child: Child) -> Ended {
    assert!(ends(Pid::from_raw(child.id() as i32)), "a run inside hangs");
    ended(child.wait_with_output().unwrap())
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// A run inside whose ranks say their process and wait.
const WAITS: [&str; 5] = ["-n", "2", "sh", "-c", "echo $$; exec sleep 1000"];

/// Descriptors and threads of a process, and entries of the session directory.
fn holds(launcher: Pid, up: &Up) -> [usize; 3] {
    let count = |path: &Path| fs::read_dir(path).unwrap().count();
    let session = up.0.litter().remove(0);
    [count(format!("/proc/{launcher}/fd").as_ref()), count(format!("/proc/{launcher}/task").as_ref()), count(&session)]
}

/// Memory of a process's own, in KiB.
fn memory_of(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn a_run_inside_is_to_its_user_as_one_of_its_own() {
    let up = Up::new();
    let here = up.0.directory().join("here");
    fs::create_dir(&here).unwrap();
    let script = "read line; echo \"$line $WORD $(pwd)\"; echo oops >&2; exit 3";
    let words = ["run", "--in", "up", "--output", "tag,dir=out", "-x", "WORD=b", "sh", "-c", script];
    let mut child = up.command(&words);
    child.current_dir(&here).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\n").unwrap();
    let ended = finish(child);
    assert_eq!((ended.code, ended.stdout), (Some(3), format!("[0]<stdout>: a b {}\n", here.display())));
    assert!(ended.stderr.starts_with("[0]<stderr>: oops\ninstanton: rank 0 of job 2 on node "), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(here.join("out/1/rank.0/stderr")).unwrap(), "oops\n");
    fs::remove_dir_all(here).unwrap();

    let two = up.run(&["-n", "2", "sh", "-c", "echo $PMIX_RANK", ":", "-n", "1", "sh", "-c", "echo c$PMIX_RANK"]);
    let mut lines: Vec<&str> = two.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!((two.code, lines), (Some(0), vec!["0", "1", "c2"]));
    assert_eq!(up.run(&["no-such-program"]).code, Some(127));
    assert_eq!(up.run(&["--timeout", "0.1", "sleep", "1000"]).code, Some(124));
    let rank = example("rank");
    assert_eq!(up.run(&["-n", "3", rank.to_str().unwrap(), "abort", "1", "9"]).code, Some(9));
    let said = up.run(&["-n", "2", rank.to_str().unwrap(), "say"]);
    assert_eq!((said.code, said.stdout.matches(" of Uint32(2), ").count()), (Some(0), 2), "{said:?}");
    up.down();
}

#[test]
fn a_directory_that_is_gone_matters_to_those_who_run_in_it() {
    let gone = std::env::temp_dir().join(format!("instanton-gone-{}", std::process::id()));
    fs::create_dir(&gone).unwrap();
    let up = Up::within(&gone, &["--slots", "2"]);
    fs::remove_dir(&gone).unwrap();
    assert_eq!(up.run(&["--wdir", "/", "pwd"]).stdout, "/\n");
    assert!(up.run(&["pwd"]).stdout.ends_with("/tools\n"));
    fs::create_dir(&gone).unwrap();
    let within = |words: &str| {
        let script = format!("cd $1; rmdir $1; \"$0\" run --in up {words} pwd; echo $?; mkdir $1");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_instanton"), gone.to_str().unwrap()]);
        ended_of(command.env("TMPDIR", up.0.directory()).stdin(Stdio::null()))
    };
    assert_eq!(within("--wdir /").stdout, "/\n0\n");
    for (words, code) in [("", 2), ("--wdir d", 2), ("--wdir / --output dir=d", 1)] {
        assert_eq!(within(words).stdout, format!("{code}\n"), "{words}");
    }
    fs::remove_dir(gone).unwrap();
    up.down();
}

#[test]
fn jobs_that_ranks_start_belong_to_the_caller() {
    let up = Up::new();
    let services = example("services");
    let services = services.to_str().unwrap();
    let ended = up.run(&["-n", "2", services, "spawn", "echo", "hello"]);
    assert_eq!((ended.code, ended.stdout.matches("hello\n").count()), (Some(0), 2), "{ended:?}");
    // Nobody waits for it, and the run does not end before it.
    let ended = up.run(&["-n", "2", services, "leave", "sh", "-c", "echo more; exit 4"]);
    assert!(ended.code == Some(4) && ended.stdout.contains("more\n"), "{ended:?}");
    up.down();
}

#[test]
fn what_does_not_fit_or_needs_a_launcher_of_its_own_is_refused() {
    let up = Up::with(&["--slots", "2"]);
    let (holder, _) = up.start(&WAITS[2..], 1);
    for (words, code, word) in [
        (&["-n", "2", "true"][..], 1, "1 of 2 slots are free"),
        (&["--nodes", "2", "true"], 2, "--nodes"),
        (&["-H", "localhost:4", "true"], 2, "--host"),
        (&["--job-memory", "1M", "true"], 2, "--job-memory"),
        (&["--rankfile", "x", "true"], 2, "--rankfile"),
        (&["--metrics", "x", "true"], 2, "--metrics"),
        (&["--stdin", "1", "true"], 2, "--stdin 1"),
    ] {
        let ended = up.run(words);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(code), 1), "{ended:?}");
        assert!(ended.stderr.contains(word), "{ended:?}");
    }
    assert_eq!(up.run(&["true"]).code, Some(0));
    assert_eq!(up.run(&["--oversubscribe", "-n", "4", "true"]).code, Some(0));
    let (named, _) = up.start(&["--oversubscribe", "--pset", "mine", "sh", "-c", "echo ready; exec sleep 1000"], 1);
    let taken = up.run(&["--oversubscribe", "--pset", "mine", "true"]);
    assert!(taken.code == Some(1) && taken.stderr.contains("--pset mine: another job has"), "{taken:?}");
    drop(named);
    let nowhere = up.says(&["run", "--in", "elsewhere", "true"]);
    assert!(nowhere.code == Some(1) && nowhere.stderr.contains("elsewhere: "), "{nowhere:?}");
    let again = up.says(&["up"]);
    assert!(again.code == Some(1) && again.stderr.contains("is up already"), "{again:?}");
    // Without an option, a run is one of its own; the environment names a place for all.
    assert_eq!(up.says(&["run", "-n", "4", "true"]).code, Some(0));
    let ended = up.command(&["run", "-n", "4", "true"]).env("INSTANTON_IN", up.0.pid().to_string()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    drop(holder);
    up.down();
}

#[test]
fn of_several_that_come_up_under_one_name_one_does() {
    let place = std::env::temp_dir().join(format!("instanton-same-{}", std::process::id()));
    fs::create_dir(&place).unwrap();
    let start = |_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        command.args(["up", "--name", "same", "--slots", "1"]).env("TMPDIR", &place).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<Child> = (0..6).map(start).collect();
    // The one that is up says so, and each of the others ends.
    let has_come = |child: &mut Child| std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0; 99]).unwrap() > 0;
    let (mut up, mut refused) = (Vec::new(), Vec::new());
    for mut child in all {
        if has_come(&mut child) { up.push(child) } else { refused.push(child) }
    }
    assert_eq!((up.len(), refused.len()), (1, 5));
    for child in refused {
        let ended = finish(child);
        assert!(ended.code == Some(1) && ended.stderr.contains("is up already"), "{ended:?}");
    }
    for child in up {
        send(&child, Signal::SIGTERM);
        assert_eq!(finish(child).code, Some(0));
    }
    // Not even the file by which they take turns is left.
    fs::remove_dir(place).unwrap();
}

#[test]
fn a_run_inside_that_hangs_is_explained_to_its_user() {
    let up = Up::new();
    let (other, _) = up.start(&WAITS, 2);
    let ended = up.run(&["--timeout", "1", "--get-stack-traces", "-n", "2", "sleep", "1000"]);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(lines[0].starts_with("instanton: 1 s are over: ranks: 2 never attached"), "{ended:?}");
    assert!(lines[1].starts_with("RANKS ") && lines[2].starts_with("0-1 "), "of its own job: {ended:?}");
    assert!(lines.iter().any(|line| line.starts_with("rank 1 (pid ")), "{ended:?}");
    let script = "trap '' QUIT INT; echo ready; while :; do sleep 1000; done";
    for (signal, why) in [(Signal::SIGQUIT, "SIGQUIT has come"), (Signal::SIGINT, "(SIGINT) has not ended all")] {
        let (mut child, _) = up.start(&["sh", "-c", script], 1);
        send(&child, signal);
        let mut err = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut err, &mut line).unwrap();
        assert!(line.ends_with(&format!("{why}: ranks: 1 never attached\n")), "{line}");
        send(&child, Signal::SIGKILL);
        finish(child);
    }
    drop(other);
    assert_eq!(up.down().stderr, "");
}

#[test]
fn a_signal_to_each_process_leaves_the_jobs_inside_their_time() {
    let up = Up::new();
    let script = "trap 'ended=1' TERM; echo $$ $PPID; until [ \"$ended\" ]; do :; done; echo ended; exit 5";
    let (child, lines) = up.start(&["sh", "-c", script], 1);
    let line = numbers(&lines[0]);
    let parent = |pid: Pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        Pid::from_raw(stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(1).unwrap().parse().unwrap())
    };
    let reaper = parent(line[1]);
    // The rank gets its own from the launcher.
    for pid in [line[1], reaper, parent(reaper), up.0.pid()] {
        kill(pid, Signal::SIGTERM).unwrap();
    }
    let ended = finish(child);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), "ended\n"), "{ended:?}");
    assert!(ended.stderr.contains("`instanton up` was ended, and the job with it"), "{ended:?}");
    assert_eq!(up.0.finish().code, Some(0));
}

#[test]
fn jobs_find_what_others_have_published_for_them() {
    let up = Up::new();
    let rank = example("rank");
    let rank = rank.to_str().unwrap();
    let (mut offers, _) = up.start(&[rank, "offer", "port", "session"], 1);
    let (mut keeps, _) = up.start(&[rank, "offer", "own", "namespace"], 1);
    assert_eq!(up.run(&[rank, "find", "port"]).stdout, "17\n");
    assert_eq!(up.run(&[rank, "find", "own"]).stdout, "PMIX_ERR_NOT_FOUND\n");
    for child in [&mut offers, &mut keeps] {
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
    }
    assert_eq!([finish(offers).code, finish(keeps).code], [Some(0), Some(0)]);
    assert_eq!(up.run(&[rank, "find", "port"]).stdout, "PMIX_ERR_NOT_FOUND\n", "its application is over");
    up.down();
}

#[test]
fn signals_of_a_user_reach_one_job_alone() {
    let up = Up::new();
    let script = "trap 'echo got it; exit 5' USR1; trap 'echo no' INT; echo ready; while :; do sleep 1000 & wait; done";
    let (one, _) = up.start(&["sh", "-c", script], 1);
    let (two, _) = up.start(&["sh", "-c", script], 1);
    let (three, pids) = up.start(&WAITS, 2);
    send(&one, Signal::SIGUSR1);
    let ended = finish(one);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "got it\n"), "{ended:?}");
    send(&three, Signal::SIGINT);
    assert_eq!(finish(three).code, Some(130));
    assert!(pids.iter().all(|pid| ends(numbers(pid)[0])));
    // The second of them kills.
    send(&two, Signal::SIGTERM);
    send(&two, Signal::SIGINT);
    let ended = finish(two);
    assert!([Some(143), Some(130)].contains(&ended.code), "{ended:?}");
    assert_eq!(up.run(&["true"]).code, Some(0));
    up.down();
}

#[test]
fn a_caller_that_is_killed_takes_its_job_with_it_and_nobody_elses() {
    let up = Up::new();
    let (one, mut pids) = up.start(&WAITS, 2);
    let (other, others) = up.start(&WAITS, 2);
    let daemon = "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000";
    let (left, daemons) = up.start(&["sh", "-c", daemon], 1);
    pids.extend(daemons);
    for child in [one, left] {
        send(&child, Signal::SIGKILL);
        assert_eq!(finish(child).code, None);
    }
    assert!(pids.iter().all(|pid| ends(numbers(pid)[0])));
    assert!(others.iter().all(|pid| kill(numbers(pid)[0], None).is_ok()));
    let ended = up.down();
    assert_eq!(ended.stderr, "");
    let ended = finish(other);
    assert!(ended.code == Some(1) && ended.stderr.contains("`instanton up` was ended"), "{ended:?}");
    assert!(others.iter().all(|pid| ends(numbers(pid)[0])));
}

#[test]
fn what_a_job_leaves_behind_ends_with_it() {
    let up = Up::new();
    let (other, _) = up.start(&WAITS, 2);
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -s pid ]; do :; done; cat pid; rm pid";
    for code in [0, 6] {
        let directory = up.0.directory().to_str().unwrap();
        let ended = up.run(&["--wdir", directory, "sh", "-c", &format!("{script}; exit {code}")]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ends(numbers(ended.stdout.trim())[0]));
    }
    drop(other);
    up.down();
}

#[test]
fn nothing_outlives_an_up_that_is_killed() {
    for kills_launcher in [true, false] {
        let mut up = Up::new();
        let launcher = up.launcher();
        let (child, pids) = up.start(&WAITS, 2);
        kill(if kills_launcher { launcher } else { up.0.pid() }, Signal::SIGKILL).unwrap();
        let ended = finish(child);
        assert!(ended.code == Some(1) && ended.stderr.contains("is gone; the job was killed"), "{ended:?}");
        up.0.wait();
        assert!(pids.iter().map(|pid| numbers(pid)[0]).chain([launcher]).all(ends));
        up.0.assert_no_litter();
    }
}

#[test]
fn jobs_are_shown_and_ended_by_number() {
    let up = Up::with(&["--slots", "8", "--name", "mine"]);
    let session = up.0.litter().remove(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let door = session.join("door.mine");
    assert_eq!((mode(&session), mode(&door)), (0o700, 0o600));
    assert!(fs::metadata(door).unwrap().file_type().is_socket());
    let empty = up.says(&["ps", "--in", "mine"]);
    let line = format!("instanton: mine (process {}) has no job\n", up.0.pid());
    assert_eq!((empty.code, empty.stdout.lines().count(), empty.stderr), (Some(0), 1, line));
    let inside = |words: &[&str]| up.says(&[&["run", "--in", "mine"], words].concat());
    assert_eq!(inside(&["true"]).code, Some(0));
    let mut command = up.command(&["run", "--in", "mine", "-n", "2", "sleep", "1000"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + DEADLINE;
    let row = loop {
        let ended = up.says(&["ps", "--in", "mine"]);
        assert!(ended.code == Some(0) && Instant::now() < until, "{ended:?}");
        if let Some(row) = ended.stdout.lines().nth(1) {
            break row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        }
    };
    assert_eq!([&row[0], &row[1], &row[2], &row[3]], ["mine", "3", "2", "running"], "{row:?}");
    assert!(row[4].ends_with('Z') && row[5].ends_with("@3") && row[6..] == ["sleep", "1000"], "{row:?}");
    let wrong = up.says(&["kill", "1"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("no job 1"), "{wrong:?}");
    assert_eq!(up.says(&["kill", "3"]).code, Some(0));
    let ended = finish(child);
    assert!(ended.code == Some(143) && ended.stderr.contains("job control"), "{ended:?}");
    up.down();
}

#[test]
fn a_variable_that_names_what_is_gone_is_named_itself() {
    for words in ["run true", "ps", "down"] {
        let ended = Job::in_shell(&format!("INSTANTON_IN=no-such exec \"$0\" {words}")).finish();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.starts_with("instanton: INSTANTON_IN=no-such: no"), "{ended:?}");
    }
}

#[test]
fn who_ends_a_run_as_what_is_up_is_told_how_runs_end() {
    for words in ["kill 1", "down"] {
        let ended = Job::in_shell(&format!("exec \"$0\" {words}")).finish();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.starts_with("instanton: nothing is up;"), "{ended:?}");
        assert!(ended.stderr.contains("; a run ends by a signal"), "{ended:?}");
    }
}

#[test]
fn a_node_is_killed_by_its_number() {
    let mut job = Job::start(["--nodes", "3", "-n", "3", "sh", "-c", "echo $$; exec sleep 1000"], Stdio::null());
    let pids: Vec<Pid> = (0..3).map(|_| numbers(&job.line())[0]).collect();
    let kill_node = |node: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        ended(command.args(["kill", "--node", node]).env("TMPDIR", job.directory()).output().unwrap())
    };
    for (node, word) in [("0", "node 0 is"), ("3", "no node 3")] {
        let refused = kill_node(node);
        assert!(refused.code == Some(1) && refused.stderr.contains(word), "{refused:?}");
    }
    assert_eq!(kill_node("2").code, Some(0));
    let ended = job.finish();
    assert!(ended.code == Some(137) && ended.stderr.contains("-n2 is down"), "{ended:?}");
    assert!(pids.into_iter().all(ends));
}

/// An `instanton up --background` with these options and its directory; the command has come back.
fn in_background(options: &[&str]) -> (Job, Ended) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    command.args(["up", "--background"]).args(options).stdin(Stdio::null());
    let mut job = Job::spawn(command);
    let ended = job.wait();
    (job, ended)
}

#[test]
fn what_is_up_in_the_background_outlives_its_command() {
    let (job, ended) = in_background(&["--slots", "2", "--name", "back"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let pid = ended.stdout.split(['(', ')']).nth(1).and_then(|words| words.strip_prefix("process "));
    let pid = Pid::from_raw(pid.and_then(|pid| pid.parse().ok()).expect("the line names its process"));
    assert_ne!(pid, job.pid());
    let says = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        ended_of(command.args(words).env("TMPDIR", job.directory()).stdin(Stdio::null()))
    };
    // All of it has its streams elsewhere.
    let ended = says(&["run", "--in", "back", "sh", "-c", "readlink /proc/$PPID/fd/[012] | sort -u; echo out"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "/dev/null\nout\n"), "{ended:?}");
    let again = says(&["up", "--background", "--name", "back"]);
    assert!(again.code == Some(1) && again.stderr.contains("is up already"), "{again:?}");
    assert_eq!(says(&["down", "--in", "back"]).code, Some(0));
    assert!(ends(pid));
    job.assert_no_litter();
}

#[test]
fn what_does_not_come_up_in_the_background_is_told() {
    let (job, ended) = in_background(&["--report-pid", "/proc/none/pid"]);
    assert!(ended.code.is_some_and(|code| code != 0) && ended.stderr.lines().count() == 1, "{ended:?}");
    job.assert_no_litter();
}

#[test]
fn no_job_is_started_on_a_node_that_is_down() {
    let up = Up::with(&["--nodes", "3", "--slots", "8"]);
    let nodes = |words: &[&str]| {
        let place = ["sh", "-c", "echo ${PMIX_HOSTNAME##*-}"];
        let ended = up.run(&[words, &place].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let mut lines: Vec<String> = ended.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(nodes(&["-n", "3"]), "n0 n1 n2");
    assert_eq!(up.says(&["kill", "--node", "1"]).code, Some(0));
    let until = Instant::now() + DEADLINE;
    while !up.says(&["kill", "--node", "1"]).stderr.contains("is down already") {
        assert!(Instant::now() < until, "the node stays");
    }
    assert_eq!(nodes(&["-n", "3"]), "n0 n0 n2");
    assert_eq!(nodes(&["-n", "3", "--map-by", "node"]), "n0 n0 n2");
    assert_eq!(nodes(&["-N", "2"]), "n0 n0 n2 n2");
    let services = example("services");
    let ended = up.run(&[services.to_str().unwrap(), "spawn", "sh", "-c", "echo on ${PMIX_HOSTNAME##*-}"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("on n2\n"), "{ended:?}");
    let rank = example("rank");
    let said = up.run(&["-n", "4", rank.to_str().unwrap(), "say"]);
    assert_eq!((said.code, said.stdout.matches(" of Uint32(4), ").count()), (Some(0), 4), "{said:?}");
    up.down();
}

#[test]
fn hundreds_of_short_jobs_leave_nothing() {
    let up = Up::new();
    let launcher = up.launcher();
    let rank = example("rank");
    let short: [&[&str]; 3] = [&["true"], &["-n", "2", "echo", "x"], &["-n", "2", rank.to_str().unwrap(), "say"]];
    let round = || short.iter().for_each(|words| assert_eq!(up.run(words).code, Some(0)));
    // It has all that it needs after some of them.
    (0..10).for_each(|_| round());
    let (before, memory) = (holds(launcher, &up), memory_of(launcher));
    (0..90).for_each(|_| round());
    let grown = memory_of(launcher).saturating_sub(memory);
    assert!(grown < 270 * 8, "{grown} KiB have been added to {memory} by 270 jobs");
    let until = Instant::now() + DEADLINE;
    // A caller is told of the end before the last of its descriptors is closed.
    while holds(launcher, &up).iter().zip(before).any(|(now, before)| *now > before) {
        assert!(Instant::now() < until, "{before:?} have become {:?}", holds(launcher, &up));
        std::thread::yield_now();
    }
    up.down();
}

#[test]
fn a_time_limit_ends_a_run_inside_whose_output_nobody_reads() {
    let up = Up::new();
    let (child, _) = up.start(&["--timeout", "1", "-n", "1", "sh", "-c", "yes & exec yes >&2"], 0);
    assert!(ends(Pid::from_raw(child.id() as i32)), "it hangs");
    assert_eq!(finish(child).code, Some(124));
    up.down();
}
