//! The memory that a launcher takes while processes ask it to hold as much as they can.
mod common;

use std::fs;
use std::process::Stdio;

use common::{Job, numbers};
use instanton::Pending;
use instanton::client::Error;
use instanton::data::constants::persistence;
use instanton::data::{DataRange, Info, Query, Status, Text, Value, keys};
use instanton::tool::Tool;

/// The most memory that a process has had, in bytes.
fn peak(pid: nix::unistd::Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

fn refused<T: Send + 'static>(call: Pending<T, Error>) -> bool {
    matches!(call.wait(), Err(error) if error.status() == Status::ERR_OUT_OF_RESOURCE)
}

#[test]
fn with_128_mib_a_job_a_launcher_stays_under_256() {
    let script = "echo $PPID; exec sleep 1000";
    let mut job = Job::start(["--job-memory", "128M", "-n", "1", "sh", "-c", script], Stdio::null());
    let launcher = numbers(&job.line())[0];
    let tools =
        [(); 2].map(|()| Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap());
    let large = vec![b'x'; 8 << 20];
    let text = || Value::string(&large);
    let mut was_refused = 0;
    for (at, tool) in tools.iter().enumerate() {
        let client = tool.primary();
        for turn in 0..6 {
            was_refused += u32::from(refused(client.publish(&[Info::new(format!("{at}-{turn}"), text())])));
        }
        // Answers of one key that is named very often, and of some that are large.
        let keys = vec![format!("{at}-0"); 300];
        let _ = client.lookup(&keys, &[]).wait();
        let all: Vec<String> = (0..6).map(|turn| format!("{at}-{turn}")).collect();
        let _ = client.lookup(&all, &[]).wait();
        let keys = vec![Text::new(keys::QUERY_NAMESPACES).unwrap(); 100_000];
        let _ = client.query(&[Query { keys, qualifiers: Vec::new() }]).wait();
        for _ in 0..40 {
            let info = [Info::new("large", Value::string(&large[..900 << 10]))];
            let _ = client.notify_event(Status(-5000), client.proc(), DataRange::LOCAL, &info).wait();
        }
    }
    assert!(was_refused > 0, "there is a limit to what they publish");
    let peak = peak(launcher);
    assert!(peak < 256 << 20, "{} MiB", peak >> 20);
    drop(tools);
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.finish();
}

#[test]
fn tools_leave_no_more_data_for_the_session_than_tools_may_however_many_they_are() {
    let mut job = Job::start(["--job-memory", "128M", "-n", "1", "sh", "-c", "echo; exec sleep 1000"], Stdio::null());
    job.line();
    let large = vec![b'x'; 7 << 20];
    let lasting = Info::new(keys::PERSISTENCE, Value::Persist(persistence::PERSIST_SESSION));
    let publish = |number: u32| {
        let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap();
        let data = Info::new(format!("k{number}"), Value::string(&large));
        tool.primary().publish(&[data, lasting.clone()]).wait().map_err(|error| error.status())
    };
    let results: Vec<_> = (0..12).map(publish).collect();
    let published = results.iter().filter(|result| result.is_ok()).count();
    // They have 24 MiB of the 32 that a job may publish, and each half of what is left.
    assert!((1..=3).contains(&published), "{results:?}");
    assert!(results.iter().all(|result| [Ok(()), Err(Status::ERR_OUT_OF_RESOURCE)].contains(result)), "{results:?}");
    job.send(nix::sys::signal::Signal::SIGTERM);
    job.finish();
}
