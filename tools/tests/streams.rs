//! Output and input of ranks, for tools that attach to a run and for ranks that have started a job: in the middle of
//! it, too, when one of them stops or is killed.
mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Job, example, run};
use instanton::client::{Client, Output};
use instanton::data::{App, Channels, Info, InfoList, Nspace, Proc, Query, Rank, Status, Text, Value, keys};
use instanton::tool::Tool;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const PATIENCE: Duration = Duration::from_secs(120);
const BOTH: Channels = Channels::STDOUT.union(Channels::STDERR);

fn attach(job: &Job) -> Tool {
    Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap()
}

/// All processes of the first job.
fn first_job(client: &Client) -> Proc {
    let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES).unwrap()], qualifiers: Vec::new() };
    let (_, answers) = client.query(&[query]).wait().unwrap();
    let names = answers[0].value.as_str().unwrap().to_owned();
    let first = names.split(',').find(|name| name.ends_with("@1")).unwrap();
    Proc::new(Nspace::new(first).unwrap(), Rank::WILDCARD)
}

/// Output that a pull hands over.
struct Pulled {
    id: usize,
    pieces: Receiver<Output>,
}

impl Pulled {
    fn begin(client: &Client, of: &Proc, directives: &[Info]) -> Self {
        let (tell, pieces) = channel();
        let handler = Arc::new(move |output: Output| drop(tell.send(output)));
        let id = client.iof_pull(std::slice::from_ref(of), BOTH, directives, handler).wait().unwrap();
        Self { id, pieces }
    }

    /// Both streams of one process, to their ends.
    fn rest(&self) -> [Vec<u8>; 2] {
        let mut all = [Vec::new(), Vec::new()];
        let mut ends = 0;
        while ends < 2 {
            let output = self.pieces.recv_timeout(PATIENCE).expect("more output");
            all[usize::from(output.channel == Channels::STDERR)].extend_from_slice(&output.bytes);
            assert_eq!((output.pull, output.bytes.is_empty()), (self.id, output.info.is_set(keys::IOF_COMPLETE)));
            ends += u32::from(output.bytes.is_empty());
        }
        all
    }

    fn texts(&self) -> [String; 2] {
        self.rest().map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

fn spawn(client: &Client, infos: &[Info], command: &[&str]) -> Proc {
    let argv: Vec<Text> = command.iter().map(|word| Text::new(word).unwrap()).collect();
    let app = App { cmd: argv.first().cloned(), argv, env: vec![], cwd: None, maxprocs: 1, info: vec![] };
    Proc::new(client.spawn(infos, &[app]).wait().unwrap(), Rank::WILDCARD)
}

fn push(client: &Client, to: &Proc, bytes: &[u8]) -> Result<(), Status> {
    let to = std::slice::from_ref(to);
    client.iof_push(to, bytes, &[]).wait().map_err(|error| error.status())
}

/// A job of one rank that says something when it is told to.
fn asked() -> Job {
    let mut job =
        Job::start(["-n", "1", "sh", "-c", "echo ready; read word; echo got $word; echo no >&2"], Stdio::piped());
    assert_eq!(job.line(), "ready");
    job
}

#[test]
fn a_tool_reads_what_ranks_print_from_then_on() {
    let mut job = asked();
    let tool = attach(&job);
    let client = tool.primary();
    let first = first_job(&client);
    let pulled = Pulled::begin(&client, &first, &[]);
    job.write("it\n");
    assert_eq!(pulled.texts(), ["got it\n", "no\n"]);
    // The run may have ended already.
    let _ = tool.finalize(&[]);
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "got it\n", "no\n"));
}

#[test]
fn a_tool_may_have_the_output_for_itself_and_give_it_back() {
    let mut job = asked();
    let tool = attach(&job);
    let client = tool.primary();
    let first = first_job(&client);
    let redirect = [Info::new(keys::IOF_REDIRECT, true)];
    let given_back = Pulled::begin(&client, &first, &redirect);
    client.iof_deregister(given_back.id).wait().unwrap();
    let child = spawn(&client, &[Info::new(keys::FWD_STDIN, true)], &["sh", "-c", "read word; echo $word"]);
    let pulled = Pulled::begin(&client, &child, &redirect);
    push(&client, &child, b"mine\n").unwrap();
    assert_eq!(pulled.texts(), ["mine\n", ""]);
    job.write("it\n");
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "got it\n"), "what is redirected is not ours to show");
    let _ = tool.finalize(&[]);
}

#[test]
fn all_that_is_pushed_comes_back_from_a_job_that_copies() {
    let mut job = asked();
    let tool = attach(&job);
    let client = tool.primary();
    let child = spawn(&client, &[Info::new(keys::FWD_STDIN, true)], &["cat"]);
    let directives = [Info::new(keys::IOF_REDIRECT, true), Info::new(keys::IOF_CACHE_SIZE, 64u32 << 20)];
    let pulled = Pulled::begin(&client, &child, &directives);
    let all: Vec<u8> = (0..8u32 << 20).map(|number| (number % 251) as u8).collect();
    // More than waits for a rank before its pusher is stopped, and none of it is lost.
    for piece in all.chunks(700_000) {
        push(&client, &child, piece).unwrap();
    }
    push(&client, &child, &[]).unwrap();
    let [out, err] = pulled.rest();
    assert!(out == all && err.is_empty(), "{} of {} bytes", out.len(), all.len());
    assert_eq!(push(&client, &child, b"more"), Err(Status::ERR_NOT_FOUND));
    assert_eq!(push(&client, &first_job(&client), b"more"), Err(Status::ERR_NOT_FOUND), "it reads our own input");
    job.write("it\n");
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "got it\n"));
    let _ = tool.finalize(&[]);
}

#[test]
fn a_rank_reads_what_its_job_has_printed_before_it_knew_its_name() {
    let services = example("services");
    let ended = run(["-n", "1", services.to_str().unwrap(), "pull", "sh", "-c", "echo $PMIX_RANK; echo err >&2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    // Both see it: the user, and the rank.
    assert_eq!(lines, ["0", "0 printed \"0\\n\" and \"err\\n\"", "1", "1 printed \"1\\n\" and \"err\\n\""]);
}

#[test]
fn a_spawned_job_prints_as_it_is_asked_to() {
    let mut job = asked();
    let tool = attach(&job);
    let client = tool.primary();
    let set = |key| Info::new(key, true);
    let script = ["sh", "-c", "echo out; echo err >&2; echo out"];
    let ended = |child: &Proc| Pulled::begin(&client, child, &[]).texts();
    let forwarded = [set(keys::FWD_STDOUT), set(keys::FWD_STDERR)];
    let with = |infos: &[Info]| spawn(&client, &[&forwarded, infos].concat(), &script);

    assert_eq!(ended(&with(&[set(keys::IOF_TAG_OUTPUT)])), ["out\nout\n", "err\n"]);
    let merged = with(&[set(keys::IOF_MERGE_STDERR_STDOUT)]);
    let pulled = Pulled::begin(&client, &merged, &[]);
    let mut all = Vec::new();
    while let bytes = pulled.pieces.recv_timeout(PATIENCE).unwrap().bytes
        && !bytes.is_empty()
    {
        all.extend(bytes);
    }
    assert_eq!(all, b"out\nerr\nout\n", "in the order in which it was written");

    let place = std::env::temp_dir().join(format!("instanton-streams-{}", std::process::id()));
    let path = |name: &str| place.join(name).to_str().unwrap().to_owned();
    let only = set(keys::IOF_FILE_ONLY);
    let child = with(&[Info::new(keys::IOF_OUTPUT_TO_DIRECTORY, path("d").as_str()), only.clone()]);
    assert_eq!(ended(&child), ["out\nout\n", "err\n"]);
    let read = |name: String| std::fs::read_to_string(place.join(name)).unwrap();
    assert_eq!(read(format!("d/{}/rank.0/stdout", child.nspace)), "out\nout\n");
    assert_eq!(read(format!("d/{}/rank.0/stderr", child.nspace)), "err\n");
    let child = with(&[Info::new(keys::IOF_OUTPUT_TO_FILE, path("f").as_str()), only.clone().required()]);
    ended(&child);
    assert_eq!(read(format!("f.{}.0.out", child.nspace)), "out\nout\n");
    assert_eq!(read(format!("f.{}.0.err", child.nspace)), "err\n");
    let pattern = [Info::new(keys::IOF_OUTPUT_TO_FILE, path("%n-%r").as_str()), set(keys::IOF_FILE_PATTERN).required()];
    let child = with(&[&pattern[..], &[only]].concat());
    ended(&child);
    assert_eq!(read(format!("{}-0.stdout", child.nspace)), "out\nout\n");
    assert_eq!(read(format!("{}-0.stderr", child.nspace)), "err\n");
    std::fs::remove_dir_all(&place).unwrap();

    job.write("it\n");
    let ended = job.finish();
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[2.0]<stdout>: out", "[2.0]<stdout>: out", "err", "got it", "out", "out"]);
    assert_eq!(ended.stderr, "[2.0]<stderr>: err\nno\n");
    let _ = tool.finalize(&[]);
}

/// A tool in a process of its own, when it has said so.
fn tool(job: &Job, words: &[&str], says: &str) -> Child {
    let mut tool = Command::new(example("stream_tool"));
    tool.arg(job.pid().to_string()).args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(tool.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), says);
    tool
}

#[test]
fn a_killed_tool_ends_the_input_that_it_has_pushed() {
    let mut job = asked();
    let mut pushing = tool(&job, &["push", "sh", "-c", "wc -c > /dev/null; echo through"], "pushes");
    // One whose process reads nothing of it, and waits for the end of its input all the same.
    let mut stuck = tool(&job, &["push", "sh", "-c", "while read line; do :; done; echo through"], "pushes");
    for tool in [&mut pushing, &mut stuck] {
        tool.kill().unwrap();
        tool.wait().unwrap();
        assert_eq!(job.line(), "through");
    }
    job.write("it\n");
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn a_job_does_not_wait_for_the_input_of_a_tool_that_went_before_it_began() {
    let mut job = asked();
    let tool = attach(&job);
    let argv: Vec<Text> = ["sh", "-c", "cat; echo through"].iter().map(|word| Text::new(word).unwrap()).collect();
    let app = App { cmd: argv.first().cloned(), argv, env: vec![], cwd: None, maxprocs: 1, info: vec![] };
    tool.primary().spawn(&[Info::new(keys::FWD_STDIN, true)], &[app]).then(|_| ()).unwrap();
    drop(tool);
    assert_eq!(job.line(), "through");
    job.write("it\n");
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn a_tool_that_does_not_read_stops_neither_ranks_nor_the_run() {
    let script = "echo ready; read word; head -c 100000000 /dev/zero";
    for signal in [None, Some(Signal::SIGSTOP), Some(Signal::SIGKILL)] {
        let mut job = Job::start(["-n", "1", "sh", "-c", script], Stdio::piped());
        assert_eq!(job.line(), "ready");
        let asks = attach(&job);
        let nspace = first_job(&asks.primary()).nspace.to_string();
        asks.finalize(&[]).unwrap();
        let mut stares = tool(&job, &["stare", &nspace], "stares");
        job.write("it\n");
        if let Some(signal) = signal {
            kill(Pid::from_raw(stares.id() as i32), signal).unwrap();
        }
        let ended = job.finish();
        assert_eq!((ended.code, ended.stdout.len()), (Some(0), 100_000_000));
        stares.kill().unwrap();
        stares.wait().unwrap();
    }
}

#[test]
fn a_tool_that_aborts_ends_what_it_names_or_has_started() {
    let mut job = asked();
    let (one, two) = (attach(&job), attach(&job));
    let sleeping = |tool: &Tool| spawn(&tool.primary(), &[Info::new(keys::FWD_STDOUT, true)], &["sleep", "1000"]);
    let jobs = [sleeping(&one), sleeping(&one), sleeping(&two)];
    let pulled = jobs.each_ref().map(|job| Pulled::begin(&two.primary(), job, &[]));
    one.primary().abort(3, Some(b"enough"), std::slice::from_ref(&jobs[0])).wait().unwrap();
    pulled[0].rest();
    one.primary().abort(3, None, &[]).wait().unwrap();
    pulled[1].rest();
    let unknown = Proc::new(Nspace::new("nobody").unwrap(), Rank::WILDCARD);
    assert_eq!(one.primary().abort(3, None, &[unknown]).wait().unwrap_err().status(), Status::ERR_NOT_FOUND);
    // Itself, which goes on, and nobody else.
    one.primary().abort(3, None, std::slice::from_ref(one.proc())).wait().unwrap();
    assert!(pulled[2].pieces.try_recv().is_err());
    two.primary().abort(3, None, &[]).wait().unwrap();
    pulled[2].rest();
    job.write("it\n");
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "got it\n"), "who is ended on request has not failed");
}
