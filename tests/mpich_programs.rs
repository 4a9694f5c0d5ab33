//! Unmodified programs that speak PMI, started by the `instanton` command in `dist/bin`.
//!
//! The MPI programs of `tests/peers` are compiled with MPICH 4 of Debian, MPICH 5 and Intel MPI of PyPI, which
//! `scripts/mpich` fetches; `pmi2` is a client of PMI-2 without MPI, on Slurm's library. A rank that does not find its
//! launcher runs as a job of one, and succeeds, so every test looks at the size of the job.

mod launch;

use std::fs;
use std::path::PathBuf;

use launch::{Launch, Outcome, dist, have, peer, python, skipped, target};
use nix::sys::signal::Signal;

/// One of the libraries, by the folder in which its build of the programs lies.
struct Kin(&'static str);

const KIN: [Kin; 3] = [Kin("mpich4"), Kin("mpich5"), Kin("impi")];

impl Kin {
    fn program(&self, name: &str) -> PathBuf {
        peer(&format!("{}/{name}", self.0))
    }

    fn launch(&self, ranks: u32, name: &str) -> Launch {
        // Traffic between nodes keeps to this machine, and to sockets.
        Launch::ranks(ranks, self.program(name))
            .env("MPIR_CVAR_CH4_NETMOD", "ofi")
            .env("FI_PROVIDER", "tcp")
            .env("FI_TCP_IFACE", "lo")
            .env("UCX_NET_DEVICES", "lo")
            .env("I_MPI_OFI_PROVIDER", "tcp")
    }

    /// A launch that ends before its ranks have finalized: MPICH 5 leaves a file then, under its own launcher too.
    fn broken_off(&self, how: [&str; 2]) -> Launch {
        let launch = self.launch(3, "misbehave").args(how);
        if self.0 == "mpich5" { launch.leaves("mpich_shm_") } else { launch }
    }

    /// Returns whether it is there. If not, says why.
    fn is_there(&self, test: &str) -> bool {
        has(test, self.0, &[self.program("hello")])
    }
}

/// Returns whether a library that `scripts/mpich` fetches is there, and some files. If not, says why.
fn has(test: &str, library: &str, needed: &[PathBuf]) -> bool {
    let test = format!("{test} ({library})");
    match fs::read_to_string(target().join("mpich").join(format!("{library}.missing"))) {
        Ok(reason) => {
            skipped(&test, reason.trim());
            false
        }
        Err(_) => have(&test, needed),
    }
}

/// The libraries that are there.
fn each(test: &str) -> impl Iterator<Item = &'static Kin> {
    KIN.iter().filter(move |kin| kin.is_there(test))
}

/// Every rank of the communicator has said hello, once, and to which application it belongs.
fn expect_hello(outcome: &Outcome, applications: &[u32]) {
    for (rank, application) in applications.iter().enumerate() {
        let start = format!("hello from rank {rank} of {} on ", applications.len());
        let end = format!(", application {application}");
        let said = outcome.stdout.lines().filter(|line| line.starts_with(&start) && line.ends_with(&end));
        assert_eq!(said.count(), 1, "{start:?} in {outcome:#?}");
    }
}

#[test]
fn ranks_of_all_applications_share_a_communicator() {
    for kin in each("ranks_of_all_applications_share_a_communicator") {
        let second = [":".into(), "-n".into(), "1".into(), kin.program("hello")];
        expect_hello(&kin.launch(3, "hello").args(second).run().expect(0), &[0, 0, 0, 1]);
        expect_hello(&kin.launch(1, "hello").run().expect(0), &[0]);
    }
}

#[test]
fn a_ring_goes_round_over_two_nodes() {
    for kin in each("a_ring_goes_round_over_two_nodes") {
        // Messages of Intel's library between nodes take seconds where processors are shared.
        let ranks = if kin.0 == "impi" { 2 } else { 4 };
        let outcome = kin.launch(ranks, "ring").option(&["--nodes", "2"]).run().expect(0);
        assert_eq!(outcome.stdout, format!("ring of {ranks}: token {}, right\n", 10 * ranks), "{}", kin.0);
    }
}

/// Three ranks, of which the last one misbehaves: the launcher says so, gives this status, and nothing is left.
#[test]
fn who_fails_ends_the_job_with_its_status() {
    for kin in each("who_fails_ends_the_job_with_its_status") {
        for (how, number, status) in [("abort", "7", 7), ("signal", "9", 128 + 9), ("leave", "3", 3), ("early", "3", 3)]
        {
            let outcome = kin.broken_off([how, number]).run().expect(status);
            let told = |line: &&str| line.starts_with("instanton: rank 2 ");
            assert_eq!(outcome.stderr.lines().filter(told).count(), 1, "{how} of {}: {outcome:#?}", kin.0);
        }
    }
}

#[test]
fn nothing_survives_a_launcher_that_is_ended_or_killed() {
    for kin in each("nothing_survives_a_launcher_that_is_ended_or_killed") {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let mut running = kin.broken_off(["hang", "0"]).start();
            running.wait_for("ready: ", 3);
            running.signal_launcher(signal);
            running.finish().expect(128 + signal as i32);
        }
    }
}

/// MPICH 4 of Debian is built for UCX, and starts no processes and opens no ports with it, under whatever launcher.
#[test]
fn jobs_are_spawned_and_ports_published() {
    for kin in each("jobs_are_spawned_and_ports_published").filter(|kin| kin.0 != "mpich4") {
        // Between jobs Intel's library does not speak through shared memory alone.
        let launch = |name| kin.launch(2, name).env("I_MPI_FABRICS", "shm:ofi");
        assert_eq!(launch("spawn").run().expect(0).stdout, "spawn of 2 by 2: right\n", "{}", kin.0);
        assert_eq!(launch("names").run().expect(0).stdout, "names of 2: right\n", "{}", kin.0);
    }
}

/// A script shows no library: the user says what it speaks, and its rank's descriptor goes on to the program.
#[test]
fn a_script_speaks_as_the_user_says_and_rank_0_reads_the_input() {
    let test = "a_script_speaks_as_the_user_says_and_rank_0_reads_the_input";
    for kin in each(test).filter(|kin| kin.0 == "mpich5") {
        let (hello, command) = (kin.program("hello"), dist().join("bin/instanton"));
        let script = format!("read -r line; echo \"$PMI_RANK read <$line>\"; exec '{}'", hello.display());
        let run =
            format!("echo moon | '{}' run --pmi 1 -n 2 sh -c '{}'", command.display(), script.replace('\'', r"'\''"));
        let outcome = Launch::alone("/bin/sh").args(["-c", &run]).env("MPIR_CVAR_CH4_NETMOD", "ofi").run().expect(0);
        expect_hello(&outcome, &[0, 0]);
        assert_eq!([outcome.lines_with("0 read <moon>"), outcome.lines_with("1 read <>")], [1, 1], "{outcome:#?}");
    }
}

/// A rank sees its own descriptor and variables of PMI, and nothing of other ways to a server.
#[test]
fn a_rank_has_its_own_descriptor_alone() {
    if !have("a_rank_has_its_own_descriptor_alone", &[]) {
        return;
    }
    let script = "for fd in /proc/self/fd/*; do case $(readlink $fd) in socket:*) echo socket ${fd##*/} of $PMI_FD;; esac; done; \
                  env | grep -E '^(PMIX|OMPI|PRTE|INSTANTON)' | sed 's/^/strange /'";
    let outcome = Launch::ranks(3, "/bin/sh").args(["-c", script]).option(&["--pmi", "1"]).run().expect(0);
    assert_eq!(outcome.lines_with("strange "), 0, "{outcome:#?}");
    let sockets: Vec<_> = outcome.stdout.lines().filter(|line| line.starts_with("socket ")).collect();
    let is_own = |line: &&str| {
        line.strip_prefix("socket ").and_then(|line| line.split_once(" of ")).is_some_and(|(a, b)| a == b)
    };
    assert!(sockets.len() == 3 && sockets.iter().all(is_own), "{outcome:#?}");
}

/// Lines of a process, spoken by hand, twice from beginning to end.
#[test]
fn a_rank_that_has_finalized_may_begin_once_more() {
    if !have("a_rank_that_has_finalized_may_begin_once_more", &[]) {
        return;
    }
    let script = "say() { echo \"$*\" >&\"$PMI_FD\"; read -r answer <&\"$PMI_FD\"; echo \"$answer\"; }
                  for round in 1 2; do
                    say cmd=init pmi_version=1 pmi_subversion=1
                    say cmd=put key=of-$PMI_RANK-in-$round value=$round
                    say cmd=barrier_in
                    say cmd=get key=of-$((1 - PMI_RANK))-in-$round
                    say cmd=finalize
                  done";
    let outcome = Launch::ranks(2, "/bin/bash").args(["-c", script]).option(&["--pmi", "1"]).run().expect(0);
    for (line, times) in [("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", 4), ("cmd=finalize_ack rc=0", 4)]
    {
        assert_eq!(outcome.lines_with(line), times, "{outcome:#?}");
    }
    for round in ["1", "2"] {
        assert_eq!(outcome.lines_with(&format!("cmd=get_result rc=0 value={round}")), 2, "{outcome:#?}");
    }
}

#[test]
fn intel_mpi_speaks_pmix_where_the_user_says_so() {
    let kin = &KIN[2];
    if kin.is_there("intel_mpi_speaks_pmix_where_the_user_says_so") {
        let outcome = kin.launch(2, "hello").option(&["--pmi", "pmix"]).run().expect(0);
        expect_hello(&outcome, &[0, 0]);
        assert_eq!(outcome.lines_with("PMIx library: "), 1, "{outcome:#?}");
    }
}

/// One wheel of MPI for Python serves them all; Python shows no library.
#[test]
fn mpi4py_runs_on_each_of_them() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/collectives.py");
    for kin in each("mpi4py_runs_on_each_of_them").filter(|kin| kin.0 != "mpich4") {
        if have("mpi4py_runs_on_each_of_them", &[python()]) {
            let folder = target().join("mpich").join(kin.0).join("lib");
            let launch = || {
                let launch = Launch::ranks(2, python()).args([script]).env("LD_LIBRARY_PATH", &folder);
                launch.env("MPI4PY_MPIABI", "mpich").env("I_MPI_FABRICS", "shm").env("MPIR_CVAR_CH4_NETMOD", "ofi")
            };
            let outcome = launch().option(&["--pmi", "1"]).run().expect(0);
            assert!(outcome.stdout.starts_with("collectives of 2: right, "), "{outcome:#?}");
        }
    }
}

/// A client of PMI-2, over two nodes and within one.
#[test]
fn a_client_of_pmi_2_is_served() {
    let program = peer("pmi2/pmi2");
    if !has("a_client_of_pmi_2_is_served", "pmi2", std::slice::from_ref(&program)) {
        return;
    }
    let outcome = Launch::ranks(4, &program).env("PMI2_ONE_NODE", "1").run().expect(0);
    let mapping = "mapping: (vector,(0,1,4))";
    let said = (0..4).map(|rank| format!("rank {rank} of 4, application 0"));
    assert_eq!(outcome.sorted(), [vec![mapping.to_owned()], said.clone().collect()].concat(), "{outcome:#?}");
    let outcome = Launch::ranks(4, &program).args(["spawn"]).option(&["--nodes", "2"]).run().expect(0);
    let children = [r#"child 0 of 2, application 0, "one two""#, r#"child 1 of 2, application 1, "other""#];
    let all = children.map(str::to_owned).into_iter().chain(["mapping: (vector,(0,2,2))".to_owned()]).chain(said);
    assert_eq!(outcome.sorted(), all.collect::<Vec<_>>(), "{outcome:#?}");
    let outcome = Launch::ranks(3, &program).args(["abort"]).run().expect(1);
    // It ends at once, and its message may come too late.
    assert!(outcome.stderr.contains("rank 2 "), "{outcome:#?}");
}
