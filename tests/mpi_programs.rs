//! Unmodified MPI and PMIx programs on the library in `dist/lib`, started by the `instanton` command in `dist/bin`.
//!
//! The programs are those of `tests/peers`. Two Open MPIs take part: 4.1.4 from Debian and 5.0.11 from PyPI. The exit
//! status alone proves little (a rank that does not find its launcher runs as a job of one, and succeeds), so every
//! test looks at the size of the communicator.

mod launch;

use std::fs;
use std::path::PathBuf;

use launch::{Launch, Outcome, dist, have, peer, python};
use nix::sys::signal::Signal;

const SIZES: [u32; 4] = [1, 2, 4, 16];

/// One of the two, by the folder in which its build of the programs lies.
struct OpenMpi(&'static str);

impl OpenMpi {
    fn program(&self, name: &str) -> PathBuf {
        peer(&format!("{}/{name}", self.0))
    }

    fn try_with(&self, test: &str, case: fn(&OpenMpi)) {
        if have(&format!("{test} ({})", self.0), &[self.program("hello")]) {
            case(self);
        }
    }
}

/// Makes a test of each case for either.
macro_rules! with_each_open_mpi {
    ($($case:ident),* $(,)?) => {
        mod open_mpi_4 {
            $(#[test] fn $case() { super::OpenMpi("ompi4").try_with(stringify!($case), super::$case) })*
        }
        mod open_mpi_5 {
            $(#[test] fn $case() { super::OpenMpi("ompi5").try_with(stringify!($case), super::$case) })*
        }
    };
}

with_each_open_mpi!(
    hello_sees_every_rank,
    ring_goes_round,
    alltoall_delivers,
    applications_share_a_communicator,
    works_without_shared_memory,
    abort_gives_its_status,
    death_by_signal_ends_the_job,
    leaving_without_finalize_ends_the_job,
    exit_before_init_ends_the_job,
    timeout_ends_the_job,
    termination_ends_the_job,
    nothing_survives_a_killed_launcher,
);

/// Every rank of the communicator has said hello, once.
fn expect_hello(outcome: &Outcome, ranks: u32) {
    for rank in 0..ranks {
        let line = format!("hello from rank {rank} of {ranks} on ");
        assert_eq!(outcome.lines_with(&line), 1, "{line:?} in {outcome:#?}");
    }
}

fn hello_sees_every_rank(mpi: &OpenMpi) {
    for ranks in SIZES {
        let outcome = Launch::ranks(ranks, mpi.program("hello")).run().expect(0);
        expect_hello(&outcome, ranks);
        let library = format!("PMIx library: {}", dist().join("lib/libpmix.so.2").display());
        assert_eq!(outcome.lines_with(&library), 1, "{library:?} in {outcome:#?}");
    }
}

fn ring_goes_round(mpi: &OpenMpi) {
    for ranks in SIZES {
        let outcome = Launch::ranks(ranks, mpi.program("ring")).run().expect(0);
        assert_eq!(outcome.stdout, format!("ring of {ranks}: token {}, right\n", 10 * ranks));
    }
}

fn alltoall_delivers(mpi: &OpenMpi) {
    for ranks in SIZES {
        let outcome = Launch::ranks(ranks, mpi.program("alltoall")).run().expect(0);
        assert_eq!(outcome.stdout, format!("alltoall of {ranks}: 0 wrong elements, right\n"));
    }
}

fn applications_share_a_communicator(mpi: &OpenMpi) {
    let second = [":".into(), "-n".into(), "3".into(), mpi.program("hello")];
    let outcome = Launch::ranks(2, mpi.program("hello")).args(second).run().expect(0);
    expect_hello(&outcome, 5);
    for (rank, application) in [0, 0, 1, 1, 1].into_iter().enumerate() {
        let start = format!("hello from rank {rank} of 5 on ");
        let end = format!(", application {application}");
        assert!(outcome.stdout.lines().any(|line| line.starts_with(&start) && line.ends_with(&end)), "{outcome:#?}");
    }
}

fn works_without_shared_memory(mpi: &OpenMpi) {
    let outcome = Launch::ranks(4, mpi.program("hello")).env("INSTANTON_SHM", "off").run().expect(0);
    expect_hello(&outcome, 4);
    let outcome = Launch::ranks(4, mpi.program("alltoall")).env("INSTANTON_SHM", "off").run().expect(0);
    assert_eq!(outcome.stdout, "alltoall of 4: 0 wrong elements, right\n");
}

/// Three ranks, of which the last one misbehaves: the launcher must say so and give this status.
fn expect_misbehaviour(mpi: &OpenMpi, how: [&str; 2], status: i32) {
    let launch = Launch::ranks(3, mpi.program("misbehave")).args(how);
    // Open MPI tries shared memory with a file that it takes away at once: its ranks may be killed in between.
    let outcome = launch.leaves("open_mpi.").run().expect(status);
    let told = outcome.stderr.lines().filter(|line| line.contains("instanton") && line.contains("rank 2")).count();
    assert_eq!(told, 1, "one line tells that rank 2 was it: {outcome:#?}");
}

fn abort_gives_its_status(mpi: &OpenMpi) {
    expect_misbehaviour(mpi, ["abort", "7"], 7);
}

fn death_by_signal_ends_the_job(mpi: &OpenMpi) {
    expect_misbehaviour(mpi, ["signal", "9"], 128 + 9);
    expect_misbehaviour(mpi, ["signal", "10"], 128 + 10);
}

fn leaving_without_finalize_ends_the_job(mpi: &OpenMpi) {
    expect_misbehaviour(mpi, ["leave", "3"], 3);
}

fn exit_before_init_ends_the_job(mpi: &OpenMpi) {
    expect_misbehaviour(mpi, ["early", "3"], 3);
}

fn timeout_ends_the_job(mpi: &OpenMpi) {
    Launch::ranks(2, mpi.program("misbehave")).args(["hang", "0"]).option(&["--timeout", "3"]).run().expect(124);
}

fn termination_ends_the_job(mpi: &OpenMpi) {
    let mut running = Launch::ranks(3, mpi.program("misbehave")).args(["hang", "0"]).start();
    running.wait_for("ready: ", 3);
    running.signal_launcher(Signal::SIGTERM);
    running.finish().expect(128 + 15);
}

fn nothing_survives_a_killed_launcher(mpi: &OpenMpi) {
    let mut running = Launch::ranks(3, mpi.program("misbehave")).args(["hang", "0"]).start();
    running.wait_for("ready: ", 3);
    running.signal_launcher(Signal::SIGKILL);
    running.finish().expect(128 + 9);
}

#[test]
fn mpi4py_does_collectives() {
    if !have("mpi4py_does_collectives", &[python()]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/collectives.py");
    for ranks in [1, 4] {
        let outcome = Launch::ranks(ranks, python()).args([script]).run().expect(0);
        assert_eq!(outcome.stdout, format!("collectives of {ranks}: right, Open MPI 5.0.11\n"));
    }
}

#[test]
fn stock_mpirun_works_inside_a_rank() {
    let hello = peer("ompi4/hello");
    if !have("stock_mpirun_works_inside_a_rank", &[hello.clone(), launch::mpirun()]) {
        return;
    }
    // It is a server of its own, on its own library.
    let outcome = Launch::ranks(1, "/usr/bin/env")
        .args(["-u", "LD_LIBRARY_PATH", "/usr/bin/mpirun.openmpi", "--oversubscribe", "-n", "2"])
        .args([hello])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .run()
        .expect(0);
    expect_hello(&outcome, 2);
}

#[test]
fn a_program_gets_our_library_unless_it_has_brought_one() {
    let [plain, brings] = ["ompi4/hello", "ompi5/hello"].map(peer);
    let needed = [plain.clone(), brings.clone(), launch::mpirun()];
    if !have("a_program_gets_our_library_unless_it_has_brought_one", &needed) {
        return;
    }
    let without_path = |program: &PathBuf| Launch::ranks(2, program).env("LD_LIBRARY_PATH", "");
    let is_ours = |launch: Launch| {
        let outcome = launch.run().expect(0);
        expect_hello(&outcome, 2);
        assert_eq!(outcome.lines_with("PMIx library: "), 1, "{outcome:#?}");
        outcome.lines_with(&format!("PMIx library: {}", dist().join("lib/libpmix.so.2").display())) == 1
    };
    assert!(is_ours(without_path(&plain)));
    assert!(!is_ours(without_path(&brings)), "the library of its RUNPATH");
    assert!(is_ours(without_path(&brings).option(&["--library", "instanton"])));
    assert!(!is_ours(without_path(&plain).option(&["--library", "own"])));
    assert!(!is_ours(without_path(&plain).env("INSTANTON_RANK_LIBRARY", "own")));
    let told = without_path(&plain).option(&["-v"]).run().expect(0);
    let lines: Vec<_> = told.stderr.lines().filter(|line| line.contains("libpmix.so.2")).collect();
    assert!(matches!(lines[..], [line] if line.contains("ompi4/hello gets")), "{told:#?}");
    // A stock launcher keeps its own, and so do its ranks.
    let nested = Launch::ranks(1, launch::mpirun()).args(["--oversubscribe", "-n", "2"]).args([&plain]);
    let nested = nested.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    assert!(!is_ours(nested.env("LD_LIBRARY_PATH", "")));
}

#[test]
fn direct_modex_delivers() {
    if have("direct_modex_delivers", &[peer("pmix/dmodex")]) {
        for ranks in [1, 4] {
            let outcome = Launch::ranks(ranks, peer("pmix/dmodex")).run().expect(0);
            assert_eq!(outcome.stdout, format!("direct modex of {ranks}: right\n"));
        }
    }
}

/// Spawn, as `tests/mpirun_jobs.rs` does it under `mpirun`.
#[test]
fn spawned_processes_join() {
    if have("spawned_processes_join", &[peer("ompi4/spawn")]) {
        // Several on a node, too: they share files, and ranks of another node must not.
        for (ranks, children) in [(1, 2), (2, 6), (4, 2)] {
            for nodes in ["1", "2", "4"] {
                let launch = Launch::ranks(ranks, peer("ompi4/spawn")).args([children.to_string()]);
                let outcome = launch.option(&["--nodes", nodes]).run().expect(0);
                let right = format!("spawn of {children} by {ranks}: right\n");
                assert_eq!(outcome.stdout, right, "{nodes} nodes");
            }
        }
    }
}

#[test]
fn published_ports_connect() {
    if have("published_ports_connect", &[peer("ompi4/names")]) {
        for ranks in [2, 4] {
            for nodes in ["1", "4"] {
                let launch = Launch::ranks(ranks, peer("ompi4/names")).option(&["--nodes", nodes]);
                assert_eq!(launch.run().expect(0).stdout, format!("names of {ranks}: right\n"), "{nodes} nodes");
            }
        }
    }
}

#[test]
fn a_get_makes_no_system_call() {
    let quiet_gets = peer("pmix/quiet_gets");
    if !have("a_get_makes_no_system_call", &[quiet_gets.clone(), "/usr/bin/strace".into()]) {
        return;
    }
    let traces = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("quiet_gets");
    fs::create_dir_all(&traces).expect("a folder for the traces");
    let traced = format!("exec strace -f -o '{0}'/$PMIX_RANK '{1}' 10000", traces.display(), quiet_gets.display());
    Launch::ranks(2, "/bin/sh").args(["-c", &traced]).run().expect(0);
    for rank in ["0", "1"] {
        let trace = fs::read_to_string(traces.join(rank)).expect("a trace of each rank");
        // Of the thread that Gets: the control thread may still be on its way to sleep after the fence.
        let thread = trace.lines().find(|line| line.contains("gets begin")).expect("the first mark");
        let thread = thread.split_once(' ').expect("strace -f begins with the thread").0.to_owned() + " ";
        // "<... write resumed>" is a call begun before: another thread was traced in the middle of it.
        let calls = trace.lines().filter(|line| line.starts_with(&thread) && !line.contains(" <... "));
        let calls: Vec<_> = calls.skip_while(|line| !line.contains("gets begin")).skip(1).collect();
        let end = calls.iter().position(|line| line.contains("gets end")).expect("the second mark");
        assert_eq!(calls[..end], [""; 0], "system calls of 10,000 Gets of rank {rank}");
    }
}

#[test]
fn a_missing_program_is_127() {
    if have("a_missing_program_is_127", &[]) {
        let outcome = Launch::ranks(2, "/no/such/program").run().expect(127);
        assert!(outcome.stderr.contains("/no/such/program"), "{outcome:#?}");
    }
}
