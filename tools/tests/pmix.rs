//! Ranks that speak PMIx: the `rank` program of the examples.
mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Ended, Job, ends, numbers, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Cargo builds the examples beside the command whenever it runs all tests.
fn rank() -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_instanton")).with_file_name("examples").join("rank");
    assert!(path.exists(), "{} is missing: cargo build --examples makes it", path.display());
    path.to_str().unwrap().to_owned()
}

fn ranks(count: &str, words: &[&str]) -> Ended {
    run(["-n", count, &rank()].into_iter().chain(words.iter().copied()))
}

#[test]
fn ranks_find_each_other() {
    let ended = ranks("4", &["say"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 4);
    for (number, line) in lines.into_iter().enumerate() {
        let expected =
            format!("rank {number} of Uint32(4), local rank Uint16({number}), with String(Some(\"0,1,2,3\"))");
        assert!(line.starts_with(&expected) && line.ends_with(&format!("/1/{number}\"))")), "{line}");
    }
}

#[test]
fn ranks_know_where_they_may_run() {
    let told = |before: &str| {
        let ended = Job::in_shell(&format!("exec {before} \"$0\" run -n 2 {} place", rank())).finish();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        let mut lines: Vec<_> = ended.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let Some(place) = instanton::internal::sys::hwloc::place(false) else {
        // Nothing is said without the library.
        let nothing = [0, 1].map(|rank| format!("{rank} {0} {0} {0}", instanton::data::Status::ERR_NOT_FOUND));
        return assert_eq!(told(""), nothing);
    };
    let (cpuset, places) = (place.cpuset.unwrap(), place.locality.unwrap());
    for (rank, line) in told("").iter().enumerate() {
        assert!(line.starts_with(&format!("{rank} {cpuset} {places} ")), "{line}");
    }
    // The first of them alone.
    let first = cpuset.trim_start_matches("hwloc:").split(['-', ',']).next().unwrap();
    let bound = told(&format!("taskset -c {first}"));
    for (rank, line) in bound.iter().enumerate() {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!((words[1], words[3]), (format!("hwloc:{first}").as_str(), format!("Uint16({rank})").as_str()));
        assert!(words[2].contains("HT") && !words[2].contains(['-', ',']), "{line}");
    }
}

#[test]
fn a_path_socket_leaves_nothing() {
    let ended = run(["-n", "2", "--path-socket", &rank(), "say"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_abort_decides_the_status_and_ends_the_others() {
    let ended = ranks("3", &["abort", "1", "7"]);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(
        ended.stderr.contains("rank 1 on node") && ended.stderr.contains("abort with status 7: no more"),
        "{ended:?}"
    );
}

#[test]
fn an_abort_counts_however_soon_its_rank_is_gone() {
    for round in 0..200 {
        let how = ["kill", "exit"][round % 2];
        let ended = ranks("1", &["abort-and", how]);
        assert_eq!(ended.code, Some(7), "{round}: {how}: {ended:?}");
        assert!(ended.stderr.contains("abort with status 7: no more"), "{round}: {how}: {ended:?}");
    }
}

#[test]
fn leaving_without_finalize_is_a_failure() {
    let ended = ranks("2", &["leave", "0"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("without Finalize"), "{ended:?}");
    assert_eq!(ranks("2", &["leave", "5"]).code, Some(5));
}

/// A job whose ranks wait, with a file each that they have registered for clean-up; their launcher.
fn littering(test: &str) -> (Job, Pid, [PathBuf; 2]) {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("litter-{test}-{}", std::process::id()));
    let mut job = Job::start(["-n", "2", &rank(), "litter", file.to_str().unwrap()], Stdio::null());
    let launchers = [(); 2].map(|()| numbers(&job.line())[1]);
    let files = [0, 1].map(|rank| PathBuf::from(format!("{}.{rank}", file.display())));
    assert!(files.iter().all(|file| file.exists()));
    (job, launchers[0], files)
}

fn assert_gone(files: &[PathBuf]) {
    let left: Vec<_> = files.iter().filter(|file| file.exists()).collect();
    assert!(left.is_empty(), "left over: {left:?}");
}

#[test]
fn registered_files_go_with_the_job() {
    let (job, _, files) = littering("job");
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
    assert_gone(&files);
}

#[test]
fn registered_files_go_when_the_launcher_is_killed() {
    let (job, launcher, files) = littering("launcher");
    kill(launcher, Signal::SIGKILL).unwrap();
    assert_eq!(job.finish().code, Some(137));
    assert_gone(&files);
}

#[test]
fn registered_files_go_when_launcher_and_guardian_are_killed() {
    let (mut job, launcher, files) = littering("both");
    [launcher, job.pid()].iter().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
    // To the end of what the reaper has open as well.
    job.wait();
    job.assert_no_litter();
    assert_gone(&files);
}

#[test]
fn registered_files_go_when_the_guardian_is_killed() {
    let (mut job, launcher, files) = littering("guardian");
    job.send(Signal::SIGKILL);
    assert_eq!(job.wait().signal, Some(9));
    assert!(ends(launcher));
    job.assert_no_litter();
    assert_gone(&files);
}
