//! Failures that `instanton run` survives, and how far those go that it does not.
mod common;

use std::process::Stdio;

use common::{Ended, Job, ends, example, numbers, run};
use nix::sys::signal::{Signal, kill};

fn example_path(name: &str) -> String {
    example(name).to_str().unwrap().to_owned()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn said(ended: &Ended, words: &str) -> usize {
    ended.stderr.lines().filter(|line| line.contains(words)).count()
}

#[test]
fn a_rank_that_is_started_anew_meets_the_others_again() {
    let ended = run(["-n", "3", "--max-restarts", "5", &example_path("rank"), "reborn", "2"]);
    let lines: Vec<String> = (0..3).map(|rank| format!("rank {rank} met rank 1 in its life 2")).collect();
    assert_eq!((ended.code, sorted(&ended.stdout)), (Some(0), lines.iter().map(String::as_str).collect()), "{ended:?}");
    assert_eq!(said(&ended, "exited with code 9; it is started anew"), 2, "{ended:?}");
}

#[test]
fn a_rank_that_dies_too_often_ends_its_job() {
    let ended = run(["-n", "3", "--runtime-options", "max-restarts=1", &example_path("rank"), "reborn", "2"]);
    assert_eq!(ended.code, Some(9), "{ended:?}");
    assert_eq!((said(&ended, "started anew (1 of 1)"), said(&ended, "1 restarts did not help")), (1, 1), "{ended:?}");
}

#[test]
fn a_rank_that_dies_before_init_three_times_ends_even_a_continuous_job() {
    let ended =
        run(["-n", "2", "--continuous", "sh", "-c", "[ $PMIX_RANK = 0 ] && exec sleep 1000; echo life; exit 4"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), "life\nlife\nlife\n"), "{ended:?}");
    assert_eq!(said(&ended, "it has ended 3 times in a row before Init"), 1, "{ended:?}");
}

#[test]
fn a_recoverable_job_goes_on_without_a_rank() {
    let script = "[ $PMIX_RANK = 1 ] && exit 3; until [ -e $PMIX_SERVER_TMPDIR/go ]; do :; done; echo well";
    for option in ["--enable-recovery", "--runtime-options=recoverable"] {
        let mut job = Job::start(
            [option, "-n", "1", "sh", "-c", "cat; touch $PMIX_SERVER_TMPDIR/go", ":", "-n", "2", "sh", "-c", script],
            Stdio::piped(),
        );
        job.write("");
        let ended = job.finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "well\n"), "{ended:?}");
        assert_eq!(said(&ended, "exited with code 3; the others go on"), 1, "{ended:?}");
    }
}

#[test]
fn an_abort_of_one_process_ends_that_alone() {
    let ended = run(["-n", "3", &example_path("rank"), "abort-one", "2"]);
    assert_eq!((ended.code, sorted(&ended.stdout)), (Some(0), vec!["rank 0 goes on", "rank 1 goes on"]), "{ended:?}");
    assert!(ended.stderr.contains("called abort with status 7: one is enough; the others go on"), "{ended:?}");
    assert!(ended.stderr.starts_with("instanton: rank 0 on node "), "{ended:?}");
}

#[test]
fn a_rank_that_aborts_itself_gives_the_run_its_status() {
    let ended = run(["-n", "3", &example_path("rank"), "abort-self", "2"]);
    assert_eq!((ended.code, sorted(&ended.stdout)), (Some(7), vec!["rank 0 goes on", "rank 1 goes on"]), "{ended:?}");
    assert!(ended.stderr.starts_with("instanton: rank 2 on node "), "{ended:?}");
    assert_eq!(said(&ended, "called abort with status 7: one is enough; the others go on"), 1, "{ended:?}");
}

#[test]
fn a_spawned_job_that_fails_harms_nobody_else() {
    let words = ["spawn", "sh", "-c", "[ $PMIX_RANK = 1 ] && exit 3; exec sleep 1000"];
    let services = example_path("services");
    let with = |options: &[&str]| run(options.iter().copied().chain(["-n", "2", services.as_str()]).chain(words));
    for (options, code) in [(&[][..], 3), (&["--report-child-jobs-separately"], 0)] {
        let ended = with(options);
        let told = "job 2 ended: PMIX_ERR_JOB_NON_ZERO_TERM\n";
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), told), "{ended:?}");
        assert_eq!(said(&ended, "rank 1 of job 2 on node"), 1, "{ended:?}");
    }
}

#[test]
fn an_interrupt_starts_nobody_anew() {
    let mut job = Job::start(["-n", "2", "--continuous", "sh", "-c", "echo ready; exec sleep 1000"], Stdio::null());
    assert_eq!([job.line(), job.line()], ["ready", "ready"]);
    job.send(Signal::SIGINT);
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(130), ""), "{ended:?}");
}

#[test]
fn nothing_of_a_continuous_job_outlives_a_killed_launcher() {
    let script = "echo $$ $PPID; [ $PMIX_RANK = 0 ] && exec sleep 1000; exit 1";
    let mut job = Job::start(["-n", "2", "--continuous", "sh", "-c", script], Stdio::null());
    let lines = [job.line(), job.line()].map(|line| numbers(&line));
    kill(lines[0][1], Signal::SIGKILL).unwrap();
    job.wait();
    assert!(lines.iter().all(|line| ends(line[0])));
    job.assert_no_litter();
}
