//! Unmodified programs under an unmodified Slurm 22.05, whose daemons have this library for their `libpmix.so.2`.
//!
//! `srun --mpi=pmix` makes every `slurmstepd` a PMIx server: four of them, which meet in fences and fetch from one
//! another what a rank has posted. `salloc mpirun` starts Open MPI's daemons on the same nodes instead, five servers
//! with its own. Tests that cannot be made here (no root, no packages) say so by name. `INSTANTON_SLURM_JOBS` is how
//! many short jobs one of them runs in a row.

mod launch;
mod slurm;

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use launch::{Outcome, peer};
use slurm::{Cluster, Library, NODES, in_time, six_bringing, six_by_srun};

const SHORT_JOBS: usize = 20;

fn mpi(program: &str) -> PathBuf {
    peer(&format!("ompi4/{program}"))
}

/// Eight ranks on all nodes, for `srun`.
fn eight(program: &Path) -> [String; 3] {
    [format!("--nodes={NODES}"), "--ntasks=8".into(), program.to_string_lossy().into_owned()]
}

/// `mpirun` in an allocation, two ranks on each node, with a daemon of its own on each and room for as many again.
fn by_mpirun(program: PathBuf) -> Vec<String> {
    let salloc = ["salloc", "--quiet", "--nodes=4", "--ntasks-per-node=4"];
    let mpirun = ["mpirun.openmpi", "-npernode", "2"];
    let words = salloc.into_iter().chain(mpirun).map(str::to_owned);
    words.chain([program.to_string_lossy().into_owned()]).collect()
}

/// Every rank has said hello, once, and every node has one.
fn expect_hello(outcome: &Outcome, ranks: u32) {
    for rank in 0..ranks {
        let line = format!("hello from rank {rank} of {ranks} on ");
        assert_eq!(outcome.lines_with(&line), 1, "{line:?} in {outcome:#?}");
    }
    for node in 0..NODES {
        assert!(outcome.stdout.contains(&format!(" on node{node}, ")), "nobody on node{node}: {outcome:#?}");
    }
}

/// `PMIx` calls have the same answers on both libraries, with either's headers.
fn expect_same_answers(test: &str, programs: &[&str], command: impl Fn(&Path) -> Vec<String>) {
    let both = |program: &&str| [peer(&format!("pmix/{program}")), peer(&format!("own/{program}"))];
    let programs: Vec<[PathBuf; 2]> = programs.iter().map(both).collect();
    let needed = programs.concat();
    let Some(cluster) = Cluster::take(test, Library::Stock, &needed) else { return };
    let expected: Vec<Outcome> = programs.iter().map(|[stock, _]| cluster.run(command(stock)).expect(0)).collect();
    assert!(expected.iter().all(|outcome| outcome.sorted().len() > 300), "{expected:#?}");
    // Traces that stock libraries and their launcher leave behind now and then are theirs.
    drop(cluster);
    on_cluster(test, &needed, |cluster| {
        for (program, expected) in programs.iter().zip(&expected) {
            for ours in program {
                let outcome = cluster.run(command(ours)).expect(0);
                assert_eq!(in_time(&outcome), in_time(expected), "{}", ours.display());
            }
        }
    });
}

/// A test on the cluster with this library, after which nothing may be left.
fn on_cluster(test: &str, needed: &[PathBuf], case: impl FnOnce(&Cluster)) {
    if let Some(cluster) = Cluster::take(test, Library::Ours, needed) {
        case(&cluster);
        cluster.expect_clean();
    }
}

fn expect_srun(test: &str, program: PathBuf, line: &str) {
    on_cluster(test, slice::from_ref(&program), |cluster| {
        let outcome = cluster.srun(eight(&program)).expect(0);
        assert_eq!(outcome.stdout, line, "{outcome:#?}");
    });
}

fn expect_mpirun(test: &str, program: PathBuf, line: &str) {
    on_cluster(test, &[program.clone(), launch::mpirun()], |cluster| {
        let outcome = cluster.run(by_mpirun(program)).expect(0);
        assert_eq!(outcome.stdout, line, "{outcome:#?}");
    });
}

#[test]
fn srun_hello() {
    on_cluster("srun_hello", &[mpi("hello")], |cluster| {
        expect_hello(&cluster.srun(eight(&mpi("hello"))).expect(0), 8);
        let cyclic = [vec!["--distribution=cyclic".to_owned()], eight(&mpi("hello")).into()].concat();
        expect_hello(&cluster.srun(cyclic).expect(0), 8);
    });
}

#[test]
fn srun_ring() {
    expect_srun("srun_ring", mpi("ring"), "ring of 8: token 80, right\n");
}

#[test]
fn srun_alltoall() {
    expect_srun("srun_alltoall", mpi("alltoall"), "alltoall of 8: 0 wrong elements, right\n");
}

#[test]
fn srun_direct_modex() {
    expect_srun("srun_direct_modex", peer("pmix/dmodex"), "direct modex of 8: right\n");
}

#[test]
fn srun_abort_gives_its_status() {
    on_cluster("srun_abort_gives_its_status", &[mpi("misbehave")], |cluster| {
        let abort = [eight(&mpi("misbehave")).to_vec(), vec!["abort".into(), "7".into()]].concat();
        cluster.srun(abort).expect(7);
    });
}

#[test]
fn srun_ends_a_job_whose_rank_dies() {
    on_cluster("srun_ends_a_job_whose_rank_dies", &[mpi("misbehave")], |cluster| {
        for how in [["signal", "9"], ["leave", "3"]] {
            let dies = [vec!["--kill-on-bad-exit=1".to_owned()], eight(&mpi("misbehave")).into()].concat();
            let outcome = cluster.srun(dies.into_iter().chain(how.map(str::to_owned)));
            // The greatest of all ranks' statuses: of those too that Slurm ended with SIGTERM or SIGKILL, and of one that
            // was writing to a rank that had ended, which Open MPI lets SIGPIPE do.
            assert!(matches!(outcome.status, Some(3 | 137 | 141 | 143)), "{outcome:#?}");
        }
    });
}

#[test]
fn srun_serves_users_other_than_its_own() {
    on_cluster("srun_serves_users_other_than_its_own", &[mpi("hello")], |cluster| {
        let hello = cluster.install(&mpi("hello"));
        let srun = slurm::srun_of_nobody().into_iter().map(str::to_owned);
        expect_hello(&cluster.run(srun.chain(eight(&hello))).expect(0), 8);
    });
}

#[test]
fn srun_short_jobs_leave_nothing() {
    let jobs = std::env::var("INSTANTON_SLURM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(SHORT_JOBS);
    on_cluster("srun_short_jobs_leave_nothing", &[mpi("ring")], |cluster| {
        for job in 0..jobs {
            let ring = ["--nodes=4", "--ntasks=4"].map(str::to_owned).into_iter();
            let outcome = cluster.srun(ring.chain([mpi("ring").to_string_lossy().into_owned()])).expect(0);
            assert_eq!(outcome.stdout, "ring of 4: token 40, right\n", "job {job}: {outcome:#?}");
        }
    });
}

/// Folder with a copy of the stock library: in the cluster another one has its place.
fn stock_library() -> PathBuf {
    let folder = launch::target().join("tmp/stock-library");
    fs::create_dir_all(&folder).expect("a folder");
    let installed = format!("/usr/lib/{}-linux-gnu/libpmix.so.2", std::env::consts::ARCH);
    fs::copy(installed, folder.join("libpmix.so.2")).expect("a copy of the stock library");
    folder
}

#[test]
fn srun_serves_stock_clients() {
    let survey = peer("pmix/survey");
    on_cluster("srun_serves_stock_clients", slice::from_ref(&survey), |cluster| {
        let native = cluster.run(six_by_srun(&survey)).expect(0);
        let stock = cluster.run(six_bringing(&stock_library(), &survey)).expect(0);
        // A stock client keeps a value that was posted anew as it was.
        let told = |outcome: &Outcome| -> Vec<String> {
            in_time(outcome).into_iter().filter(|line| !line.contains("s.text of")).map(str::to_owned).collect()
        };
        assert!(native.sorted().len() > 300, "{native:#?}");
        assert_eq!(told(&stock), told(&native));
    });
}

#[test]
fn stock_slurm_serves_our_clients() {
    let survey = peer("pmix/survey");
    let needed = slice::from_ref(&survey);
    if let Some(cluster) = Cluster::take("stock_slurm_serves_our_clients", Library::Stock, needed) {
        let stock = cluster.run(six_by_srun(&survey)).expect(0);
        let ours = cluster.run(six_bringing(&launch::dist().join("lib"), &survey)).expect(0);
        assert!(stock.sorted().len() > 300, "{stock:#?}");
        assert_eq!(in_time(&ours), in_time(&stock));
    }
}

/// As many as `INSTANTON_SLURM_JOBS` says.
#[test]
fn stock_slurm_serves_our_clients_job_after_job() {
    let jobs = std::env::var("INSTANTON_SLURM_JOBS").map_or(8, |jobs| jobs.parse().expect("a number of jobs"));
    let survey = peer("pmix/survey");
    let needed = slice::from_ref(&survey);
    if let Some(cluster) = Cluster::take("stock_slurm_serves_our_clients_job_after_job", Library::Stock, needed) {
        let command = || six_bringing(&launch::dist().join("lib"), &survey);
        let first = cluster.run(command()).expect(0);
        assert!(first.sorted().len() > 300, "{first:#?}");
        for job in 1..jobs {
            let next = cluster.run(command()).expect(0);
            assert_eq!(in_time(&next), in_time(&first), "job {job}");
        }
    }
}

#[test]
fn srun_answers_as_with_the_stock_library() {
    expect_same_answers("srun_answers_as_with_the_stock_library", &["survey"], six_by_srun);
}

/// On the stock library the fence of some ranks on several nodes waits for ever.
#[test]
fn srun_ends_every_call() {
    let programs = [peer("pmix/calls"), peer("own/calls")];
    on_cluster("srun_ends_every_call", &programs, |cluster| {
        let [stock, own] = programs.each_ref().map(|program| cluster.run(six_by_srun(program)).expect(0));
        assert!(stock.sorted().len() > 500, "{stock:#?}");
        assert_eq!(in_time(&own), in_time(&stock));
    });
}

#[test]
fn mpirun_answers_as_with_the_stock_library() {
    let programs = ["survey", "calls"];
    expect_same_answers("mpirun_answers_as_with_the_stock_library", &programs, |program| by_mpirun(program.to_owned()));
}

#[test]
fn mpirun_hello() {
    on_cluster("mpirun_hello", &[mpi("hello"), launch::mpirun()], |cluster| {
        expect_hello(&cluster.run(by_mpirun(mpi("hello"))).expect(0), 8);
    });
}

#[test]
fn mpirun_ring() {
    expect_mpirun("mpirun_ring", mpi("ring"), "ring of 8: token 80, right\n");
}

#[test]
fn mpirun_alltoall() {
    expect_mpirun("mpirun_alltoall", mpi("alltoall"), "alltoall of 8: 0 wrong elements, right\n");
}

#[test]
fn mpirun_direct_modex() {
    expect_mpirun("mpirun_direct_modex", peer("pmix/dmodex"), "direct modex of 8: right\n");
}

#[test]
fn mpirun_spawns() {
    expect_mpirun("mpirun_spawns", mpi("spawn"), "spawn of 2 by 8: right\n");
}

#[test]
fn mpirun_publishes_and_connects() {
    expect_mpirun("mpirun_publishes_and_connects", mpi("names"), "names of 8: right\n");
}

#[test]
fn mpirun_abort_gives_its_status() {
    on_cluster("mpirun_abort_gives_its_status", &[mpi("misbehave"), launch::mpirun()], |cluster| {
        let abort = [by_mpirun(mpi("misbehave")), vec!["abort".into(), "7".into()]].concat();
        cluster.run(abort).expect(7);
    });
}
