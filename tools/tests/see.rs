//! `instanton ps`, `query`, `events` and `info`, at jobs that run: what they print, for people and as JSON, and how they
//! exit. Each is told which server is meant, since others run beside.
mod common;

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use common::{Ended, Job, example};
use instanton::data::{DataRange, Info, Nspace, Status, Value, keys};
use instanton::server::{NoHost, Server, ServerConfig, ToolSupport};
use instanton::tool::Tool;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use serde_json::Value as Json;

/// Nothing here takes so long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The command with these words, without a terminal.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    command.args(words).stdin(Stdio::null()).env_remove("COLUMNS").env_remove("INSTANTON_IN").env("LC_ALL", "C.UTF-8");
    command
}

fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Ended { code: output.status.code(), signal: None, stdout, stderr }
}

/// Output of the command with these words.
fn says(words: &[&str]) -> Ended {
    ended(command(words))
}

/// The document that it prints, which has that name and a version.
fn document(words: &[&str], name: &str) -> Json {
    let ended = says(&[words, &["--json"]].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let document: Json = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&document["schema"], &document["version"]), (&name.into(), &1.into()));
    document
}

/// Four ranks, of which three wait in a fence for the last one; and the process that names their server.
fn hanging() -> (Job, String) {
    let hang = example("hang");
    let mut job = Job::start(["-n", "4", hang.to_str().unwrap(), "fence"], Stdio::null());
    for _ in 0..4 {
        assert_eq!(job.line(), "ready");
    }
    let pid = job.pid().to_string();
    (job, pid)
}

/// Asks until the answer holds: ranks may be on their way into a call.
fn until<T>(what: impl Fn() -> Result<T, String>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        match what() {
            Ok(found) => return found,
            Err(last) => assert!(Instant::now() < end, "{last}"),
        }
    }
}

#[test]
fn a_hanging_job_is_seen_and_explained() {
    let (job, pid) = hanging();
    let seen = says(&["ps", "--in", &pid]);
    let rows: Vec<Vec<&str>> = seen.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((seen.code, rows.len()), (Some(0), 2), "{seen:?}");
    assert_eq!(rows[1][..4], [&pid, "1", "4", "running"], "{seen:?}");

    let jobs = document(&["ps", "--ranks", "--in", &pid], "instanton.ps");
    let job_seen = &jobs["servers"][0]["jobs"][0];
    let procs = job_seen["procs"].as_array().unwrap();
    assert_eq!((&job_seen["number"], procs.len()), (&1.into(), 4), "{jobs}");
    assert!(procs.iter().all(|proc| proc["pid"].as_i64() > Some(0) && proc["exit_code"].is_null()), "{jobs}");

    until(|| {
        let seen = says(&["ps", "--waiting", "--in", &pid]);
        let rows: Vec<String> =
            seen.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let is_right =
            rows.len() == 3 && rows[1].starts_with("0-2 fence rank 3 ") && rows[2].starts_with("3 - running (pid ");
        if is_right { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    let report = document(&["ps", "--waiting", "--in", &pid], "instanton.waiting");
    let row = &report["servers"][0]["rows"][0];
    assert_eq!(
        (&row["ranks"], &row["call"], &row["awaits"][0]["ranks"]),
        (&"0-2".into(), &"fence".into(), &"3".into())
    );
    assert!(row["milliseconds"].is_u64(), "{report}");

    let query = |key: &str| document(&["query", key, "--for", "1", "--in", &pid], "instanton.query");
    let size = query("JOB_SIZE");
    let answer = &size["servers"][0]["answers"][0];
    assert_eq!(
        (&answer["name"], &answer["type"], &answer["value"]),
        (&"PMIX_JOB_SIZE".into(), &"PMIX_UINT32".into(), &4.into())
    );
    let of_only_job = document(&["query", "JOB_SIZE", "--in", &pid], "instanton.query");
    assert_eq!(of_only_job["servers"][0]["answers"], size["servers"][0]["answers"]);
    let table = query("PROC_TABLE");
    assert_eq!(table["servers"][0]["answers"][0]["value"]["items"].as_array().unwrap().len(), 4, "{table}");
    let load = says(&["query", "instanton.load", "--in", &pid]);
    assert!(load.code == Some(0) && load.stdout.contains("    instanton.attached: 4\n"), "{load:?}");
    let unknown = says(&["query", "no.such.key", "--in", &pid]);
    assert!(unknown.code == Some(3) && unknown.stdout.starts_with("no.such.key: not told by "), "{unknown:?}");
    let no_job = says(&["query", "JOB_SIZE", "--for", "7", "--in", &pid]);
    assert!(no_job.code == Some(1) && no_job.stderr.contains("there is no job 7"), "{no_job:?}");
    job.send(Signal::SIGTERM);
    job.finish();
}

#[test]
fn a_run_of_several_nodes_is_seen_as_a_whole_from_its_first_server() {
    let (job, pid, other) = hanging_on_two_nodes();
    let jobs = document(&["ps", "--in", &pid], "instanton.ps");
    assert_eq!(jobs["servers"].as_array().map(Vec::len), Some(1), "{jobs}");
    // Ranks of both nodes, of which one tells of its own alone.
    until(|| {
        let seen = says(&["ps", "--waiting", "--in", &pid]);
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let has = |words: &str| seen.stdout.lines().any(|line| squeezed(line).starts_with(words));
        let are_named = has("0-1 fence rank 3 ") && has("2 fence rank 3 ") && has("3 - running (pid ");
        match are_named && !seen.stdout.contains("not told") {
            true => Ok(()),
            false => Err(format!("{seen:?}")),
        }
    });
    let look = says(&["top", "--in", &pid]);
    let row: Vec<&str> = look.stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((look.stdout.lines().count(), &row[..4]), (2, &[&pid[..], "1", "4", "4/4"][..]), "{look:?}");
    let told = document(&["top", "--in", &pid], "instanton.top");
    let local = |server: &Json| server["load"]["jobs"][0]["local"].as_u64();
    let nodes = told["servers"].as_array().unwrap();
    assert_eq!(nodes.iter().map(local).collect::<Vec<_>>(), [Some(2), Some(2)], "{told}");
    let waiting = document(&["ps", "--waiting", "--in", &pid], "instanton.waiting");
    for (node, elsewhere) in [(0, true), (1, false)] {
        for row in [&waiting["servers"][node]["rows"][0], &nodes[node]["waiting"][0]] {
            assert_eq!((&row["awaits"][0]["ranks"], &row["elsewhere"]), (&"3".into(), &elsewhere.into()), "{row}");
        }
    }
    let other = other.to_string();
    assert_eq!(nodes[1]["server"]["pid"].to_string(), other, "{told}");
    let alone = says(&["ps", "--waiting", "--in", &other]);
    let last = format!("and 2 ranks on other nodes, not told by the server of process {other}");
    assert_eq!((alone.code, alone.stdout.lines().last()), (Some(0), Some(last.as_str())), "{alone:?}");
    job.send(Signal::SIGTERM);
    job.finish();
}

/// Four ranks on two nodes, of which three wait for the last one; the process that names their run, and the process of
/// the second node's server.
fn hanging_on_two_nodes() -> (Job, String, i32) {
    let hang = example("hang");
    let mut job = Job::start(["--nodes", "2", "-n", "4", hang.to_str().unwrap(), "fence"], Stdio::null());
    for _ in 0..4 {
        assert_eq!(job.line(), "ready");
    }
    let pid = job.pid().to_string();
    let servers = document(&["query", "SERVER_URI", "--in", &pid], "instanton.query");
    let second = servers["servers"][1]["server"]["pid"].as_i64().unwrap() as i32;
    (job, pid, second)
}

#[test]
fn a_query_tells_once_what_all_nodes_agree_on_and_by_node_what_they_do_not() {
    let (job, pid, second) = hanging_on_two_nodes();
    let ask = |words: &[&str]| says(&[&["query"], words, &["--for", "1"]].concat());
    let seen = ask(&["JOB_SIZE", "LOCAL_PEERS", "--in", &pid]);
    let lines: Vec<&str> = seen.stdout.lines().collect();
    assert!(seen.code == Some(0) && lines.len() == 3 && lines[0] == "PMIX_JOB_SIZE: 4", "{seen:?}");
    let names: Vec<&str> = ["0: 0,1", "1: 2,3"]
        .iter()
        .zip(&lines[1..])
        .map(|(end, line)| {
            let shown = line.strip_prefix("PMIX_LOCAL_PEERS on ").filter(|shown| shown.ends_with(end));
            shown.unwrap_or_else(|| panic!("{seen:?}")).split_once(':').unwrap().0
        })
        .collect();
    let name = names[1];
    for node in ["1", name] {
        let seen = ask(&["LOCAL_PEERS", "--node", node, "--in", &pid]);
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), "PMIX_LOCAL_PEERS: 2,3\n"), "{seen:?}");
    }
    // So is it with what the launcher knows.
    let seen = ask(&["LOCAL_PROC_TABLE", "--node", "1", "--in", &pid]);
    let rows = seen.stdout.lines().filter(|line| line.contains(&format!(" on {name}, "))).count();
    assert_eq!((seen.code, seen.stdout.lines().count(), rows), (Some(0), 3, 2), "{seen:?}");
    let seen = ask(&["LOCAL_PEERS", "--in", &second.to_string()]);
    assert_eq!(seen.stdout, "PMIX_LOCAL_PEERS: 2,3\n", "{seen:?}");
    let unknown = ask(&["JOB_SIZE", "--node", "7", "--in", &pid]);
    let said = format!("--node 7: there is no such node; there is {}", names.join(", "));
    assert!(unknown.code == Some(1) && unknown.stderr.contains(&said), "{unknown:?}");
    let told = document(&["query", "LOCAL_PEERS", "--for", "1", "--in", &pid], "instanton.query");
    let told = told["servers"].as_array().unwrap();
    let of = |place: usize| (told[place]["node"].as_str().unwrap(), &told[place]["answers"][0]["value"]);
    assert_eq!((told.len(), of(0).1, of(1)), (2, &"0,1".into(), (name, &"2,3".into())), "{told:#?}");
    job.send(Signal::SIGTERM);
    job.finish();
}

/// An `instanton events` that hears its server.
fn hears(words: &[&str]) -> Child {
    let mut command = command(&[&["events"], words].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut line, mut byte) = (Vec::new(), [0]);
    let errors = child.stderr.as_mut().unwrap();
    while errors.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let line = String::from_utf8(line).unwrap();
    assert!(line.starts_with("instanton: hears events of the server of process "), "{line}");
    child
}

#[test]
fn events_are_shown_as_they_pass_until_the_server_ends() {
    let (job, pid) = hanging();
    let everything = hears(&["--json", "--in", &pid]);
    let one = hears(&["--code", "EVENT_PROC_TERMINATED", "--count", "1", "--in", &pid]);
    job.send(Signal::SIGTERM);
    let output = one.wait_with_output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(0), 1), "{line}");
    let node = nix::unistd::gethostname().unwrap().into_string().unwrap();
    assert!(
        line.contains(&format!(" {pid} {node} PMIX_EVENT_PROC_TERMINATED from ")) && line.contains(" about "),
        "{line}"
    );

    let output = everything.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let events: Vec<Json> = output.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let of = |name: &str| events.iter().filter(|event| event["status"]["name"] == name).count();
    assert_eq!(of("PMIX_EVENT_PROC_TERMINATED"), 4, "{events:#?}");
    let ended = events.iter().find(|event| event["affected"]["rank"] == 2).expect("the end of rank 2");
    assert_eq!((&ended["schema"], &ended["server"]), (&"instanton.event".into(), &pid.as_str().into()));
    job.finish();
}

#[test]
fn events_of_all_nodes_are_shown_once_with_their_node() {
    let (job, pid, second) = hanging_on_two_nodes();
    let heard = hears(&["--json", "--in", &pid]);
    let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(second))]).unwrap();
    let client = tool.primary();
    client.notify_event(Status(-5000), client.proc(), DataRange::GLOBAL, &[]).wait().unwrap();
    tool.finalize(&[]).unwrap();
    job.send(Signal::SIGTERM);
    job.finish();
    let output = heard.wait_with_output().unwrap();
    let events: Vec<Json> = output.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let of = |code: Status| -> Vec<&str> {
        let those = events.iter().filter(|event| event["status"]["code"] == code.0);
        let names = those.map(|event| event["node"].as_str().unwrap());
        let mut nodes: Vec<&str> = names.map(|name| name.rsplit_once('-').unwrap().1).collect();
        nodes.sort_unstable();
        nodes
    };
    assert_eq!(of(Status(-5000)), ["n1"], "{events:#?}");
    assert_eq!(of(Status::EVENT_PROC_TERMINATED), ["n0", "n0", "n1", "n1"], "{events:#?}");
}

/// An `instanton top` on a terminal of 80 columns and 24 lines.
struct OnTerminal {
    child: Child,
    /// Held, so that its settings can be looked at when the command has ended.
    terminal: OwnedFd,
    keys: File,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl OnTerminal {
    fn start(words: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = command(words);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let keys = File::from(master);
        let mut reader = keys.try_clone().unwrap();
        let (tell, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                if tell.send(chunk[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, terminal: slave, keys, output, seen: String::new() }
    }

    /// Waits until it has written this.
    fn expect(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let more = self.output.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen += &String::from_utf8_lossy(&more);
        }
    }

    fn type_key(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).unwrap();
    }

    /// Its status, once it has left the screen as it was.
    fn finish(mut self) -> Option<i32> {
        self.expect("\u{1b}[?1049l");
        let status = self.child.wait().unwrap();
        let settings = tcgetattr(&self.terminal).unwrap();
        assert!(settings.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{settings:?}");
        status.code()
    }
}

#[test]
fn top_gives_the_terminal_back_whatever_ends_it() {
    let (job, pid) = hanging();
    let words = ["top", "--interval", "0.2", "--in", &pid];
    let mut typed = OnTerminal::start(&words);
    typed.expect("instanton top");
    typed.expect("fence");
    typed.type_key("r");
    typed.expect("PROGRAM");
    typed.type_key("\u{3}");
    assert_eq!(typed.finish(), Some(0));

    let mut killed = OnTerminal::start(&words);
    killed.expect("fence");
    kill(Pid::from_raw(killed.child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(killed.finish(), Some(128 + Signal::SIGTERM as i32));

    let mut left = OnTerminal::start(&words);
    left.expect("fence");
    // Without a terminal it is a table, or a line of JSON.
    let plain = says(&["top", "--in", &pid]);
    let row: Vec<&str> = plain.stdout.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..6], [&pid, "1", "4", "4/4", "3", "running"], "{plain:?}");
    let sample = document(&["top", "--in", &pid], "instanton.top");
    let load = &sample["servers"][0]["load"]["jobs"][0];
    assert!(load["held"]["bytes"].as_u64() > Some(0) && load["shared"]["generation"] == 1, "{sample}");
    job.send(Signal::SIGTERM);
    job.finish();
    assert_eq!(left.finish(), Some(0));
}

#[test]
fn names_are_shown_as_the_locale_and_the_width_allow() {
    let mut job =
        Job::start(["-n", "1", "sh", "-c", "echo ready; exec sleep 1000", "gr\u{f6}\u{df}e\u{1b}[2J"], Stdio::null());
    assert_eq!(job.line(), "ready");
    let pid = job.pid().to_string();
    let seen = |locale: &str, columns: Option<&str>| {
        let mut command = command(&["ps", "--in", &pid]);
        command.env("LC_ALL", locale).envs(columns.map(|columns| ("COLUMNS", columns)));
        ended(command).stdout
    };
    assert!(seen("C.UTF-8", None).contains("größe\\u{1b}[2J"), "{}", seen("C.UTF-8", None));
    let plain = seen("C", None);
    assert!(plain.is_ascii() && plain.contains("gr\\u{f6}\\u{df}e"), "{plain}");
    assert!(seen("C", Some("60")).lines().all(|line| line.len() <= 60), "{}", seen("C", Some("60")));
    job.send(Signal::SIGTERM);
    job.finish();
}

#[test]
fn a_host_that_tells_little_is_shown_with_what_it_tells() {
    let config = ServerConfig { tools: Some(ToolSupport::default()), ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(NoHost)).unwrap();
    let nspace = Nspace::new("large@1").unwrap();
    server.register_nspace(&nspace, 0, &[Info::new(keys::JOB_SIZE, 10_000u32)]).wait().unwrap();
    let pid = std::process::id().to_string();
    let seen = says(&["ps", "--in", &pid]);
    let lines: Vec<&str> = seen.stdout.lines().collect();
    let row: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(row, [&pid, "-", "10000", "-", "-", "large@1", "-"], "{seen:?}");
    assert_eq!(lines[2], format!("- not told by the server of process {pid}"));
    // An address leads there, too.
    let uri = server.uri().unwrap().to_string();
    let jobs = document(&["ps", "--in", &uri], "instanton.ps");
    assert_eq!(jobs["servers"][0]["jobs"][0]["namespace"], "large@1", "{jobs}");
}

#[test]
fn what_is_not_there_or_makes_no_sense_is_one_line_and_a_status() {
    for (words, code, said) in [
        (&["ps", "--in", "no-such-server"][..], 1, "no-such-server: no server of that name"),
        (&["query", "JOB_SIZE", "--in", "no-such-server"], 1, "no-such-server: no server of that name"),
        (&["events", "--in", "no-such-server"], 1, "no-such-server: no server of that name"),
        (&["top", "--in", "no-such-server"], 1, "no-such-server: no server of that name"),
        (&["query"], 2, "required"),
        (&["events", "--code", "nonsense"], 2, "nonsense: no code"),
        (&["query", "X", "--with", "NODEID=x"], 2, "NODEID=x: NODEID takes no such value"),
    ] {
        let ended = says(words);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(code), "", 1), "{ended:?}");
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
    // Each complaint names the help of its command.
    for (words, command) in [
        (&["ps", "--no-such"][..], "instanton ps"),
        (&["gds", "status", "--no-such"], "instanton gds status"),
        (&["kill", "x"], "instanton kill"),
        (&["run", "--map-by", "no-such", "true"], "instanton run"),
        (&["run", "--no-such", "true"], "instanton run"),
        (&["no-such"], "instanton"),
    ] {
        let ended = says(words);
        let last = format!("; see `{command} --help`\n");
        assert!(ended.code == Some(2) && ended.stderr.ends_with(&last), "{ended:?}");
    }
    let nothing = says(&[]);
    assert!(nothing.code == Some(2) && nothing.stderr.contains("\n  doctor "), "{nothing:?}");
}

#[test]
fn a_reader_that_has_gone_ends_everything_quietly() {
    let (job, pid) = hanging();
    for words in [
        &["ps", "--ranks", "--in", &pid][..],
        &["ps", "--waiting", "--json", "--in", &pid],
        &["top", "--json", "--count", "1000", "--in", &pid],
        &["query", "--keys"],
        &["inspect", &pid],
        &["info"],
        &["gds", "status"],
        &["doctor", "--json"],
        &["run", "--help"],
    ] {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let mut command = command(words);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        // The findings of `doctor` are its status, and there may be no place for the plug-in.
        let is_said = ["doctor", "gds"].contains(&words[0]);
        assert!(output.status.code() == Some(0) || is_said && output.status.code() == Some(1), "{words:?} {output:?}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!errors.contains("panicked") && !errors.contains("cannot write"), "{words:?} {errors}");
    }
    job.send(Signal::SIGTERM);
    job.finish();
}

#[test]
fn the_build_and_the_keys_are_told_without_a_server() {
    let info = document(&["info"], "instanton.info");
    assert_eq!(info["release"], env!("CARGO_PKG_VERSION"));
    let levels = info["attributes"].as_array().unwrap();
    assert_eq!(levels.len(), 4, "{info}");
    let known = document(&["query", "--keys"], "instanton.query-keys");
    let known: Vec<&str> = known["keys"].as_array().unwrap().iter().filter_map(|key| key["key"].as_str()).collect();
    assert!(known.contains(&keys::QUERY_NAMESPACES) && known.contains(&"instanton.load"), "{known:?}");
    let mut pages = Command::new(env!("CARGO_BIN_EXE_instanton"));
    let folder = std::env::temp_dir().join(format!("instanton-pages-{}", std::process::id()));
    assert!(pages.arg("pages").arg(&folder).status().unwrap().success());
    for command in ["ps", "query", "info", "events", "top"] {
        assert!(folder.join(format!("man/man1/instanton-{command}.1")).exists(), "{command}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
