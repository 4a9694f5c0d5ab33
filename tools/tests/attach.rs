//! Tools that attach to a running job by the process that its user knows.
mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Job, numbers};
use instanton::data::constants::persistence;
use instanton::data::{Info, Nspace, Proc, Query, Rank, Status, Text, Value, keys};
use instanton::internal::control::rendezvous;
use instanton::tool::Tool;
use nix::sys::signal::{Signal, kill};

/// A job of two ranks that wait for its end; its launcher.
fn waiting() -> (Job, nix::unistd::Pid) {
    let mut job = Job::start(["-n", "2", "sh", "-c", "echo $PPID; exec sleep 1000"], Stdio::null());
    let launchers = [(); 2].map(|()| numbers(&job.line())[0]);
    (job, launchers[0])
}

fn attach(job: &Job) -> Tool {
    Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap()
}

fn is_listed(job: &Job) -> bool {
    rendezvous::servers().unwrap().iter().any(|server| server.pid == job.pid().as_raw())
}

#[test]
fn a_tool_looks_into_a_job_and_leaves_it_as_it_was() {
    let (job, _) = waiting();
    let tool = attach(&job);
    let client = tool.primary();
    let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES).unwrap()], qualifiers: Vec::new() };
    let (status, answers) = client.query(&[query]).wait().unwrap();
    let name = answers[0].value.as_text().expect("names").clone();
    assert!(status == Status::SUCCESS && name.to_string_lossy().ends_with("@1"), "{name:?}");
    let whole = Proc::new(Nspace::new(name.as_bytes()).unwrap(), Rank::WILDCARD);
    assert_eq!(client.get(&whole, keys::JOB_SIZE, &[]).unwrap(), Value::Uint32(2));
    // It is no rank, and ends nothing but what it has started.
    client.abort(7, None, &[]).wait().unwrap();
    client.job_control(&[whole], &[]).wait().expect("nothing is asked for");
    tool.finalize(&[]).unwrap();
    let again = attach(&job);
    job.send(Signal::SIGTERM);
    let ended = job.finish();
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert!(!again.is_connected());
    again.finalize(&[]).unwrap();
}

#[test]
fn what_a_tool_has_published_for_as_long_as_it_lives_goes_with_it() {
    let (job, _) = waiting();
    let port = [Info::new("port", "17"), Info::new(keys::PERSISTENCE, Value::Persist(persistence::PERSIST_PROC))];
    let (first, second) = (attach(&job), attach(&job));
    first.primary().publish(&port).wait().unwrap();
    assert_eq!(second.primary().publish(&port).wait().unwrap_err().status(), Status::ERR_DUPLICATE_KEY);
    drop(first);
    // The run hears of its end in its turn.
    let deadline = Instant::now() + Duration::from_secs(120);
    while let Err(error) = second.primary().publish(&port).wait() {
        assert!(error.status() == Status::ERR_DUPLICATE_KEY && Instant::now() < deadline, "{error}");
    }
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn nothing_is_left_to_find_when_either_half_is_killed() {
    let (job, launcher) = waiting();
    let tool = attach(&job);
    assert!(is_listed(&job));
    kill(launcher, Signal::SIGKILL).unwrap();
    let pid = job.pid().as_raw();
    assert_eq!(job.finish().code, Some(137));
    assert!(rendezvous::servers().unwrap().iter().all(|server| server.pid != pid));
    assert_eq!(tool.primary().fence(&[], &[]).wait().unwrap_err().status(), Status::ERR_LOST_CONNECTION);
}
