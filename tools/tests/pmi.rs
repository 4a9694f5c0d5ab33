//! Ranks that speak PMI-1 and PMI-2 by themselves, to the descriptor that the launcher gives them: bash scripts.
mod common;

use common::{Ended, run};

/// Init in PMI-1, the first line of the answer included.
const INIT: &str = r"printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&$PMI_FD; read -r -u $PMI_FD answer; ";
/// Init and an abort in one, without a look at what is answered.
const ALL_AT_ONCE: &str = r"printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=7\n' >&$PMI_FD; ";
/// An abort.
const ABORT: &str = r"printf 'cmd=abort exitcode=7\n' >&$PMI_FD; ";

fn rank(options: &[&str], script: &str) -> Ended {
    run([&["--pmi", "1"], options, &["bash", "-c", script]].concat())
}

/// Checks that a run has ended with the status of the abort, and one line says whose that was.
fn assert_aborted(ended: &Ended, script: &str) {
    assert_eq!(ended.code, Some(7), "{script}: {ended:?}");
    let lines: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("instanton: ")).collect();
    assert!(lines.len() == 1 && lines[0].contains("called abort with status 7"), "{script}: {ended:?}");
}

#[test]
fn an_abort_counts_however_soon_its_rank_is_gone() {
    let ends = ["exit 0", "exit 3", "kill -9 $$"];
    let begins = [format!("{INIT}{ABORT}"), ALL_AT_ONCE.to_owned()];
    for round in 0..200 {
        let script = format!("{}{}", begins[round % 2], ends[round / 2 % 3]);
        assert_aborted(&rank(&["-n", "1"], &script), &script);
    }
}

#[test]
fn an_abort_counts_that_comes_behind_other_requests() {
    let puts = r"for key in a b c; do printf 'cmd=put kvsname=none key=%s value=1\n' $key; done >&$PMI_FD; ";
    let barrier = r"printf 'cmd=barrier_in\n' >&$PMI_FD; ";
    for before in [puts, barrier] {
        let script = format!("[ $PMI_RANK = 1 ] && exec sleep 1000; {INIT}{before}{ABORT}exit 0");
        assert_aborted(&rank(&["-n", "2"], &script), &script);
    }
}

#[test]
fn an_abort_counts_on_every_node() {
    for end in ["exit 0", "kill -9 $$"] {
        for begin in [&format!("{INIT}{ABORT}"), ALL_AT_ONCE] {
            let script = format!("[ $PMI_RANK = 0 ] && exec sleep 1000; {begin}{end}");
            assert_aborted(&rank(&["-n", "2", "--nodes", "2"], &script), &script);
        }
    }
}

#[test]
fn an_abort_counts_though_a_child_holds_the_connection() {
    let script = format!("{ALL_AT_ONCE}sleep 1000 & exit 3");
    assert_aborted(&rank(&["-n", "1"], &script), &script);
}
