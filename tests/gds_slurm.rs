//! The plug-in of `dist/lib/instanton` in an unmodified Slurm, beside the stock library's own: each `slurmstepd`, which
//! runs as root, is a stock server with it. Stock ranks notice nothing; ranks on the library of `dist/lib` read their
//! node's segments, whoever they belong to. Without root or Slurm the tests say by name that they are skipped.

mod launch;
mod slurm;

use std::path::{Path, PathBuf};

use launch::{dist, have, peer};
use slurm::{Cluster, Library, NODES, in_time, plugin, six_bringing, six_by_srun};

/// Jobs in a row.
const SHORT_JOBS: usize = 8;
/// Ranks of a job on all nodes, two on each.
const RANKS: u32 = 2 * NODES;

fn plugged(test: &str, programs: &[PathBuf]) -> Option<Cluster> {
    let needed: Vec<_> = programs.iter().cloned().chain([plugin()]).collect();
    Cluster::take(test, Library::Plugged, &needed)
}

/// A program on the library of `dist/lib`, on all nodes, in a job of an ordinary user; through a shell that says
/// `words` before. Both are copied to where that user finds them.
fn of_nobody(cluster: &Cluster, options: &[&str], words: &str, program: &Path, arguments: &[&str]) -> Vec<String> {
    let library = cluster.install(&dist().join("lib/libpmix.so.2"));
    let folder = library.parent().expect("a folder").display();
    let shell = format!("export LD_LIBRARY_PATH={folder}; {words}exec \"$0\" \"$@\"");
    let program = cluster.install(program).display().to_string();
    let tasks = ["--ntasks-per-node=2", "--chdir=/tmp"];
    let srun = slurm::srun_of_nobody().into_iter().chain(tasks).chain(options.iter().copied());
    let words = srun.chain(["/bin/sh", "-c", &shell, &program]).chain(arguments.iter().copied());
    words.map(str::to_owned).collect()
}

#[test]
fn all_ranks_are_told_what_they_are_without_it() {
    let (test, survey) = ("all_ranks_are_told_what_they_are_without_it", peer("pmix/survey"));
    let Some(cluster) = Cluster::take(test, Library::Stock, std::slice::from_ref(&survey)) else { return };
    let expected = cluster.run(six_by_srun(&survey)).expect(0);
    assert!(expected.sorted().len() > 300, "{expected:#?}");
    drop(cluster);
    let Some(cluster) = plugged(test, std::slice::from_ref(&survey)) else { return };
    for command in [six_by_srun(&survey), six_bringing(&dist().join("lib"), &survey)] {
        let outcome = cluster.run(&command).expect(0);
        assert_eq!(in_time(&outcome), in_time(&expected), "{command:?}");
    }
}

#[test]
fn nodes_with_it_and_without_take_part_in_one_job() {
    let test = "nodes_with_it_and_without_take_part_in_one_job";
    let programs = ["survey", "dmodex", "collected"].map(|program| peer(&format!("pmix/{program}")));
    let [survey, dmodex, collected] = &programs;
    let Some(cluster) = Cluster::take(test, Library::Stock, &programs) else { return };
    let expected = cluster.run(six_by_srun(survey)).expect(0);
    drop(cluster);
    let needed = [&programs[..], &[plugin()]].concat();
    let Some(cluster) = Cluster::take(test, Library::PluggedOnTwo, &needed) else { return };
    let lib = dist().join("lib");
    for command in [six_by_srun(survey), six_bringing(&lib, survey)] {
        let outcome = cluster.run(&command).expect(0);
        assert_eq!(in_time(&outcome), in_time(&expected), "{command:?}");
    }
    for command in [six_by_srun(dmodex), six_bringing(&lib, dmodex)] {
        let outcome = cluster.run(&command).expect(0);
        assert_eq!(outcome.stdout, "direct modex of 6: right\n", "{command:?}");
    }
    // Two ranks on each node: those beside segments find what the others have posted, whatever the others have.
    let outcome = cluster.run(of_nobody(&cluster, &[], "", collected, &[]));
    assert_eq!(outcome.stdout.matches("of 8 collected: right").count(), 4, "{outcome:#?}");
    cluster.expect_clean();
}

#[test]
fn a_get_of_any_users_rank_makes_no_system_call() {
    let (test, program) = ("a_get_of_any_users_rank_makes_no_system_call", peer("pmix/quiet_gets"));
    if !have(test, &["/usr/bin/strace".into()]) {
        return;
    }
    let Some(cluster) = plugged(test, std::slice::from_ref(&program)) else { return };
    let (inside, here) = cluster.folder("gets");
    let strace = format!("exec strace -f -o {}/$PMIX_RANK \"$0\" 10000; ", inside.display());
    cluster.run(of_nobody(&cluster, &[], &strace, &program, &[])).expect(0);
    for rank in 0..RANKS {
        assert_eq!(launch::traced_gets(&here, rank), (Vec::new(), true), "rank {rank}");
    }
    cluster.expect_clean();
}

#[test]
fn what_other_nodes_post_is_at_hand_after_a_fence() {
    let (test, program) = ("what_other_nodes_post_is_at_hand_after_a_fence", peer("pmix/collected"));
    let Some(cluster) = plugged(test, std::slice::from_ref(&program)) else { return };
    let outcome = cluster.run(of_nobody(&cluster, &[], "", &program, &[])).expect(0);
    assert_eq!(outcome.stdout.matches("of 8 collected: right").count(), 8, "{outcome:#?}");
    cluster.expect_clean();
}

#[test]
fn data_come_without_a_fence_job_after_job() {
    let (test, program) = ("data_come_without_a_fence_job_after_job", peer("pmix/dmodex"));
    let Some(cluster) = plugged(test, std::slice::from_ref(&program)) else { return };
    for job in 0..SHORT_JOBS {
        let outcome = cluster.run(of_nobody(&cluster, &[], "", &program, &[])).expect(0);
        assert_eq!(outcome.stdout, "direct modex of 8: right\n", "job {job}");
    }
    cluster.expect_clean();
}

#[test]
fn mpi_programs_run() {
    for (program, said) in
        [("ring", "ring of 8: token 80, right\n"), ("alltoall", "alltoall of 8: 0 wrong elements, right\n")]
    {
        let program = peer(&format!("ompi4/{program}"));
        let Some(cluster) = plugged("mpi_programs_run", std::slice::from_ref(&program)) else { return };
        let outcome = cluster.run(of_nobody(&cluster, &[], "", &program, &[])).expect(0);
        assert_eq!(outcome.stdout, said);
        cluster.expect_clean();
    }
}

#[test]
fn a_killed_rank_ends_its_step() {
    let program = peer("ompi4/misbehave");
    let Some(cluster) = plugged("a_killed_rank_ends_its_step", std::slice::from_ref(&program)) else { return };
    let command = of_nobody(&cluster, &["--kill-on-bad-exit=1"], "", &program, &["signal", "9"]);
    let outcome = cluster.run(command);
    // The greatest of all ranks' statuses: of those too that Slurm ended.
    assert!(matches!(outcome.status, Some(137 | 141 | 143)), "{outcome:#?}");
    cluster.expect_clean();
}

/// Runs a job until all ranks have said that they are up, then `kills`, waits for the ends of all ranks, and `cleans`.
fn killed(cluster: &Cluster, kills: &str, cleans: &str) {
    let (inside, _) = cluster.folder("up");
    let up = format!("exec 9>{}/ranks; echo up >&9; ", inside.display());
    let command = of_nobody(cluster, &["--job-name=killed"], &up, &peer("pmix/get_bench"), &["3000000"]);
    // Ranks keep the pipe open: it ends when they have.
    let until = format!(
        "mkfifo -m 666 {0}/ranks; \"$@\" & exec 3<{0}/ranks; for rank in $(seq {RANKS}); do read -r _ <&3; done
         {kills}; cat <&3; scancel --name=killed; wait $!; {cleans}",
        inside.display()
    );
    let shell = ["bash", "-c", &until, "killed"].map(str::to_owned);
    let outcome = cluster.run(shell.into_iter().chain(command));
    assert_eq!(outcome.lines_with("Finalize"), 0, "{outcome:#?}");
}

#[test]
fn a_killed_step_leaves_nothing() {
    let Some(cluster) = plugged("a_killed_step_leaves_nothing", &[peer("pmix/get_bench")]) else { return };
    killed(&cluster, "scancel --name=killed", ":");
    cluster.expect_clean();
}

/// Ranks whose server is killed find out, and end; `srun` may wait for their step for ever, and is told. Slurm and its
/// library leave their files then.
#[test]
fn killed_servers_leave_no_rank_that_waits() {
    let Some(cluster) = plugged("killed_servers_leave_no_rank_that_waits", &[peer("pmix/get_bench")]) else { return };
    let servers = "for name in /proc/[0-9]*/comm; do
                     if [ \"$(cat $name)\" = slurmstepd ]; then name=${name%/comm}; kill -9 ${name#/proc/}; fi
                   done 2>&-";
    killed(&cluster, servers, "rm -rf /tmp/node?/* /run/slurm/spool/node?/*[._]?*.0*");
    cluster.expect_clean();
}
