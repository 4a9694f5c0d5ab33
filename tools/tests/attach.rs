//! Tools that attach to a running job by the process that its user knows.
mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
fn all_monitors_are_taken_back_though_the_launcher_has_none() {
    let (job, _) = waiting();
    let tool = attach(&job);
    let cancel = |name: Value| {
        let cancel = Info { value: name, ..Info::new(keys::MONITOR_CANCEL, "") };
        tool.primary().process_monitor(&cancel, Status::SUCCESS, &[]).wait().map(drop).map_err(|error| error.status())
    };
    assert_eq!(cancel(Value::String(None)), Ok(()));
    assert_eq!(cancel(Value::string("none")), Err(Status::ERR_NOT_FOUND));
    tool.finalize(&[]).unwrap();
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn what_a_tool_has_published_for_as_long_as_it_lives_goes_with_it() {
    let (job, _) = waiting();
    let lasting = |how| Info::new(keys::PERSISTENCE, Value::Persist(how));
    let port = |number: u32| Info::new(format!("port.{number}"), "17");
    let ports = [
        vec![port(0), lasting(persistence::PERSIST_PROC)],
        vec![port(1), lasting(persistence::PERSIST_APP)],
        // As for an application.
        vec![port(2)],
    ];
    let (first, second) = (attach(&job), attach(&job));
    for port in &ports {
        first.primary().publish(port).wait().unwrap();
        assert_eq!(second.primary().publish(port).wait().unwrap_err().status(), Status::ERR_DUPLICATE_KEY);
    }
    let kept = [port(3), lasting(persistence::PERSIST_SESSION)];
    first.primary().publish(&kept).wait().unwrap();
    drop(first);
    // The run hears of its end in its turn.
    let deadline = Instant::now() + Duration::from_secs(120);
    for port in &ports {
        while let Err(error) = second.primary().publish(port).wait() {
            assert!(error.status() == Status::ERR_DUPLICATE_KEY && Instant::now() < deadline, "{error}");
        }
    }
    assert_eq!(second.primary().publish(&kept).wait().unwrap_err().status(), Status::ERR_DUPLICATE_KEY);
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

/// Entries of a directory, with rights.
fn inside(directory: &Path) -> Vec<(PathBuf, u32)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.path(), entry.metadata().unwrap().permissions().mode() & 0o7777)).collect()
}

#[test]
fn tools_that_look_for_files_find_those_of_a_run_and_nobody_else_does() {
    let (job, launcher) = waiting();
    let [session] = &job.litter()[..] else { panic!("{:?}", job.litter()) };
    let folder = inside(session).into_iter().find(|(path, _)| path.to_string_lossy().contains("/instanton-contact-"));
    let (folder, rights) = folder.expect("files for stock tools");
    assert_eq!(rights, 0o700);
    let mut files = inside(&folder);
    files.sort();
    assert!(files.iter().all(|(_, rights)| *rights == 0o600) && files.len() == 2, "{files:?}");
    assert!(files[0].0.to_string_lossy().ends_with(&format!(".tool.{}", job.pid())), "{files:?}");
    let text = fs::read_to_string(&files[0].0).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("@0.0;tcp4://127.0.0.1:") && lines[2] == job.pid().to_string(), "{text}");
    // They go with the session, whoever removes that.
    kill(launcher, Signal::SIGKILL).unwrap();
    assert_eq!(job.finish().code, Some(137));
}

#[test]
fn a_tool_goes_to_the_run_in_the_directory_that_it_names() {
    let jobs = [waiting(), waiting()].map(|(job, _)| job);
    for job in &jobs {
        let session = job.litter().remove(0);
        let directory = session.parent().unwrap().to_str().unwrap();
        let tool = Tool::init(&[Info::new(keys::SERVER_TMPDIR, directory)]).unwrap();
        let expected = attach(job);
        assert_eq!(tool.servers(), expected.servers());
        [tool, expected].into_iter().for_each(|tool| tool.finalize(&[]).unwrap());
    }
    for job in jobs {
        job.send(Signal::SIGTERM);
        assert_eq!(job.finish().code, Some(143));
    }
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
