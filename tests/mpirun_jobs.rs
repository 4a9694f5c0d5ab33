//! Unmodified MPI programs under Debian's `mpirun` of Open MPI 4.1.4, which has this library for its `libpmix.so.2`, as
//! have the ranks: a complete host, whose server module has nearly every slot filled.

mod launch;

use std::path::PathBuf;

use launch::{Launch, Outcome, have, mpirun, peer};

const SIZES: [u32; 3] = [1, 2, 4];

/// Runs a program with each number of ranks, and shows what came of it.
fn each(test: &str, program: &str, expect: impl Fn(u32, Outcome)) {
    let program = peer(program);
    if have(test, &[program.clone(), mpirun()]) {
        for ranks in SIZES {
            expect(ranks, Launch::mpirun(ranks, &program).run().expect(0));
        }
    }
}

#[test]
fn hello_sees_every_rank() {
    each("hello_sees_every_rank", "ompi4/hello", |ranks, outcome| {
        for rank in 0..ranks {
            let line = format!("hello from rank {rank} of {ranks} on ");
            assert_eq!(outcome.lines_with(&line), 1, "{line:?} in {outcome:#?}");
        }
        let library = format!("PMIx library: {}", launch::dist().join("lib/libpmix.so.2").display());
        assert_eq!(outcome.lines_with(&library), 1, "{library:?} in {outcome:#?}");
    });
}

#[test]
fn ring_goes_round() {
    each("ring_goes_round", "ompi4/ring", |ranks, outcome| {
        assert_eq!(outcome.stdout, format!("ring of {ranks}: token {}, right\n", 10 * ranks));
    });
}

#[test]
fn alltoall_delivers() {
    each("alltoall_delivers", "ompi4/alltoall", |ranks, outcome| {
        assert_eq!(outcome.stdout, format!("alltoall of {ranks}: 0 wrong elements, right\n"));
    });
}

#[test]
fn direct_modex_delivers() {
    each("direct_modex_delivers", "pmix/dmodex", |ranks, outcome| {
        assert_eq!(outcome.stdout, format!("direct modex of {ranks}: right\n"));
    });
}

#[test]
fn spawned_processes_join() {
    each("spawned_processes_join", "ompi4/spawn", |ranks, outcome| {
        assert_eq!(outcome.stdout, format!("spawn of 2 by {ranks}: right\n"));
    });
}

#[test]
fn published_ports_connect() {
    let names = peer("ompi4/names");
    if have("published_ports_connect", &[names.clone(), mpirun()]) {
        for ranks in [2, 4] {
            let outcome = Launch::mpirun(ranks, &names).run().expect(0);
            assert_eq!(outcome.stdout, format!("names of {ranks}: right\n"));
        }
    }
}

/// Three ranks, of which the last one misbehaves, end with this status.
fn expect_misbehaviour(test: &str, how: [&str; 2], status: i32) {
    let misbehave: PathBuf = peer("ompi4/misbehave");
    if have(test, &[misbehave.clone(), mpirun()]) {
        Launch::mpirun(3, misbehave).args(how).run().expect(status);
    }
}

#[test]
fn abort_gives_its_status() {
    expect_misbehaviour("abort_gives_its_status", ["abort", "7"], 7);
}

#[test]
fn death_by_signal_ends_the_job() {
    expect_misbehaviour("death_by_signal_ends_the_job", ["signal", "9"], 128 + 9);
}

#[test]
fn leaving_without_finalize_ends_the_job() {
    expect_misbehaviour("leaving_without_finalize_ends_the_job", ["leave", "3"], 3);
}

/// A program has the same answers on both libraries, with anybody's headers.
fn expect_same_answers(test: &str, program: &str, arguments: &[&str], at_least: usize) {
    let (stock, own) = (peer(&format!("pmix/{program}")), peer(&format!("own/{program}")));
    if have(test, &[stock.clone(), own.clone(), mpirun()]) {
        let run = |program: &PathBuf| Launch::mpirun(3, program).args(arguments);
        let expected = run(&stock).stock_library().run().expect(0);
        assert!(expected.sorted().len() > at_least, "{expected:#?}");
        let newer = peer(&format!("newer/{program}"));
        let with_newer = have(test, std::slice::from_ref(&newer));
        for ours in [stock, own].into_iter().chain(with_newer.then_some(newer)) {
            assert_eq!(run(&ours).run().expect(0).sorted(), expected.sorted(), "{}", ours.display());
        }
    }
}

#[test]
fn it_answers_as_the_stock_library_does() {
    expect_same_answers("it_answers_as_the_stock_library_does", "survey", &[], 100);
}

#[test]
fn calls_end_as_on_the_stock_library() {
    expect_same_answers("calls_end_as_on_the_stock_library", "calls", &[], 200);
}

#[test]
fn events_are_heard_as_on_the_stock_library() {
    expect_same_answers("events_are_heard_as_on_the_stock_library", "calls", &["events"], 8);
}

#[test]
fn spawned_jobs_meet_as_on_the_stock_library() {
    expect_same_answers("spawned_jobs_meet_as_on_the_stock_library", "calls", &["spawn"], 20);
}
