//! Jobs that hang on purpose, and what `instanton run` says of them: on SIGQUIT, at `--timeout`, and after an interrupt
//! that does not end them.
mod common;

use std::time::{Duration, Instant};

use common::{Job, example};
use instanton::data::RankSet;
use nix::sys::signal::Signal;

/// No table stays without its rows for so long unless something is broken.
const DEADLINE: Duration = Duration::from_secs(100);

/// Starts four ranks that hang so, and that signals of the user do not end. They have attached.
fn hanging(options: &str, what: &str) -> Job {
    let hang = example("hang");
    let script = format!(
        "exec \"$0\" run {options} -n 4 sh -c 'trap \"\" QUIT INT; exec {} {what}' 2>&1",
        hang.to_str().expect("a plain path")
    );
    let mut job = Job::in_shell(&script);
    for _ in 0..4 {
        assert_eq!(job.line(), "ready");
    }
    job
}

/// The rows of the next table: until that of the last rank, which comes last.
fn rows(job: &mut Job) -> Vec<String> {
    while !job.line().starts_with("RANKS ") {}
    let mut rows: Vec<String> = Vec::new();
    let has_last = |row: &String| {
        let ranks: Option<RankSet> = row.split(' ').next().and_then(|ranks| ranks.parse().ok());
        ranks.expect("a row of ranks").contains(3)
    };
    while !rows.last().is_some_and(has_last) {
        rows.push(job.line().split_whitespace().collect::<Vec<_>>().join(" "));
    }
    rows
}

/// Asks by SIGQUIT until the rows begin as expected: ranks may be on their way into the call.
fn explained(mut job: Job, expected: &[&str]) {
    let until = Instant::now() + DEADLINE;
    loop {
        job.send(Signal::SIGQUIT);
        let mut rows = rows(&mut job);
        // On each node others may be the first.
        rows.sort();
        let begins = expected.iter().chain(&["3 - running (pid "]);
        if rows.len() == expected.len() + 1 && rows.iter().zip(begins).all(|(row, begin)| row.starts_with(begin)) {
            assert!(rows[0].ends_with(" s"), "since when: {rows:?}");
            break;
        }
        assert!(Instant::now() < until, "{rows:?}");
    }
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn a_fence_that_one_never_joins() {
    explained(hanging("", "fence"), &["0-2 fence rank 3 "]);
}

#[test]
fn a_get_of_a_key_that_is_never_put() {
    explained(hanging("", "get"), &["0-2 get of never.put rank 3 "]);
}

#[test]
fn a_group_and_a_connect_that_one_never_comes_to() {
    explained(hanging("", "group"), &["0-2 group construct of band rank 3 "]);
    explained(hanging("", "connect"), &["0-2 connect rank 3 "]);
}

#[test]
fn a_look_up_of_what_nobody_publishes() {
    explained(hanging("", "look-up"), &["0-2 look-up of never.published who publishes it "]);
}

#[test]
fn each_of_several_nodes_says_whom_it_waits_for() {
    explained(hanging("--nodes 2", "fence"), &["0-1 fence rank 3 ", "2 fence rank 3 "]);
    // Its server knows of no fence where the missing rank is alone.
    let each =
        ["0 group construct of band rank 3 ", "1 group construct of band rank 3 ", "2 group construct of band rank 3 "];
    explained(hanging("--nodes 4", "group"), &each);
}

#[test]
fn the_time_limit_comes_with_a_table_and_stacks() {
    let ended = common::run(["--timeout", "1", "--get-stack-traces", "-n", "2", "sleep", "1000"]);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines[0].starts_with("instanton: 1 s are over: ranks: 2 never attached"), "{ended:?}");
    assert!(lines[1].starts_with("RANKS ") && lines[2].starts_with("0-1 "), "{ended:?}");
    assert!(lines[2].contains("- never attached (pid "), "{ended:?}");
    for rank in ["rank 0 (pid ", "rank 1 (pid "] {
        let at = lines.iter().position(|line| line.starts_with(rank)).unwrap_or_else(|| panic!("{ended:?}"));
        assert!(lines[at].ends_with(", sleep):") && lines[at + 1].starts_with("  "), "{ended:?}");
    }
    assert!(lines.last().is_some_and(|line| line.contains("ran longer than 1 s")), "{ended:?}");
}

#[test]
fn an_interrupt_that_does_not_end_the_job_is_explained() {
    let mut job = hanging("", "fence");
    job.send(Signal::SIGINT);
    assert!(job.line().starts_with("instanton: signal 2 (SIGINT) has not ended all: ranks: "));
    rows(&mut job);
    job.send(Signal::SIGTERM);
    job.finish();
}
