//! The plug-in of `dist/lib/instanton` in Debian's `mpirun`, which is the server and keeps its own library: stock ranks
//! notice nothing, ranks on the library of `dist/lib` read the node's segments.

mod launch;

use std::fs;
use std::path::{Path, PathBuf};

use launch::kills::{Kill, RANKS};
use launch::{Launch, Outcome, UP, dist, have, mpirun, peer, skipped, traced_gets};
use nix::sys::signal::Signal;

/// The plug-ins of Debian's library.
fn theirs() -> PathBuf {
    format!("/usr/lib/{}-linux-gnu/pmix2/lib/pmix", std::env::consts::ARCH).into()
}

fn plugin() -> PathBuf {
    dist().join("lib/instanton/pmix_mca_gds_instanton.so")
}

/// The folders in which a server, and each stock rank of it, look for plug-ins.
fn components() -> String {
    format!("{}:{}", dist().join("lib/instanton").display(), theirs().display())
}

fn can_run(test: &str, programs: &[&Path]) -> bool {
    let needed: Vec<PathBuf> = programs.iter().map(|path| path.to_path_buf()).chain([mpirun(), plugin()]).collect();
    have(test, &needed)
}

/// Ranks under `mpirun`, started through a shell that says `words` before.
fn ranks(ranks: u32, words: &str, program: &Path) -> Launch {
    let launch = Launch::alone(mpirun()).args(["--oversubscribe", "-n", &ranks.to_string(), "/bin/sh", "-c"]);
    launch.args([&format!("{words}exec \"$0\" \"$@\"")]).args([program]).stock_library()
}

fn with_plugin(launch: Launch) -> Launch {
    launch.env("PMIX_MCA_mca_base_component_path", components())
}

/// The shell's words that give a program the library of `dist/lib`.
fn on_ours() -> String {
    format!("export LD_LIBRARY_PATH={}; ", dist().join("lib").display())
}

fn expect_same(one: &Outcome, other: &Outcome) {
    assert!(one.sorted().len() > 5, "{one:#?}");
    assert_eq!(one.sorted(), other.sorted());
}

/// Programs that ask everything, with their arguments and numbers of ranks.
const PROGRAMS: [(&str, &[&str], u32); 4] =
    [("survey", &[], 2), ("survey", &[], 4), ("calls", &[], 3), ("calls", &["events"], 3)];

#[test]
fn stock_ranks_are_told_what_they_are_without_it() {
    for (program, arguments, n) in PROGRAMS {
        let program = peer(&format!("pmix/{program}"));
        if can_run("stock_ranks_are_told_what_they_are_without_it", &[&program]) {
            let run = |launch: Launch| launch.args(arguments).run().expect(0);
            expect_same(&run(with_plugin(ranks(n, "", &program))), &run(ranks(n, "", &program)));
        }
    }
}

#[test]
fn ranks_of_ours_are_told_what_stock_ranks_are() {
    for (program, arguments, n) in PROGRAMS {
        let program = peer(&format!("pmix/{program}"));
        if can_run("ranks_of_ours_are_told_what_stock_ranks_are", &[&program]) {
            let run = |launch: Launch| launch.args(arguments).run().expect(0);
            expect_same(&run(with_plugin(ranks(n, &on_ours(), &program))), &run(ranks(n, "", &program)));
        }
    }
}

#[test]
fn data_come_without_a_fence() {
    let program = peer("pmix/dmodex");
    if can_run("data_come_without_a_fence", &[&program]) {
        let outcome = with_plugin(ranks(4, &on_ours(), &program)).run().expect(0);
        assert_eq!(outcome.stdout, "direct modex of 4: right\n");
    }
}

#[test]
fn mpi_programs_run_on_both_libraries() {
    for (program, n, said) in [
        ("ring", 4, "ring of 4: token 40, right\n"),
        ("alltoall", 4, "alltoall of 4: 0 wrong elements, right\n"),
        ("spawn", 2, "spawn of 2 by 2: right\n"),
    ] {
        let program = peer(&format!("ompi4/{program}"));
        if can_run("mpi_programs_run_on_both_libraries", &[&program]) {
            for words in [String::new(), on_ours()] {
                let outcome = with_plugin(ranks(n, &words, &program)).run().expect(0);
                assert_eq!(outcome.stdout, said, "{words}");
            }
        }
    }
}

/// System calls of rank 0 of two while it Gets 10,000 times, and true if it has opened the node's segments before.
fn traced(name: &str, words: &str, plugged: bool) -> (Vec<String>, bool) {
    let program = peer("pmix/quiet_gets");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the traces");
    let strace = format!("{words}{}exec strace -f -o '{}'/$PMIX_RANK \"$0\" 10000; ", on_ours(), folder.display());
    let launch = ranks(2, &strace, &program);
    if plugged { with_plugin(launch) } else { launch }.run().expect(0);
    traced_gets(&folder, 0)
}

#[test]
fn a_get_under_a_stock_server_makes_no_system_call() {
    let strace = Path::new("/usr/bin/strace");
    if can_run("a_get_under_a_stock_server_makes_no_system_call", &[&peer("pmix/quiet_gets"), strace]) {
        assert_eq!(traced("plugged", "", true), (Vec::new(), true));
    }
}

#[test]
fn who_is_told_to_do_without_does_without() {
    let strace = Path::new("/usr/bin/strace");
    if !can_run("who_is_told_to_do_without_does_without", &[&peer("pmix/quiet_gets"), strace]) {
        return;
    }
    // Nothing is looked for where there is no plug-in, and what an outer launcher has left counts for nothing.
    assert_eq!(traced("unplugged", "", false), (Vec::new(), false));
    let left = "export INSTANTON_NODE_STORE='instanton-store:1:instanton-store-0:\
                00112233445566778899aabbccddeeff;1.0;tcp4://127.0.0.1:1'; ";
    assert_eq!(traced("left", left, true), (Vec::new(), false));
    // Users who want another way of information, by either variable.
    for (name, words) in [
        ("values", "export PMIX_MCA_gds=hash; "),
        ("excluded", "export PMIX_MCA_gds=^instanton; "),
        ("offered", "export PMIX_GDS_MODULE=ds21,hash; "),
    ] {
        assert_eq!(traced(name, words, true), (Vec::new(), false), "{name}");
    }
    assert_eq!(traced("wanted", "export PMIX_MCA_gds=hash,instanton; ", true), (Vec::new(), true));
    // In the launcher's own environment: its server then has no such plug-in.
    let program = peer("pmix/survey");
    let values = with_plugin(ranks(2, &on_ours(), &program)).env("PMIX_MCA_gds", "hash").run().expect(0);
    expect_same(&values, &ranks(2, "", &program).run().expect(0));
}

/// `instanton gds install` writes it under another name first. Nobody is told of that, not even where it stays.
#[test]
fn a_plug_in_that_is_just_written_is_passed_over() {
    let program = peer("pmix/survey");
    if can_run("a_plug_in_that_is_just_written_is_passed_over", &[&program]) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("written");
        fs::create_dir_all(&folder).expect("a folder for the plug-in");
        fs::copy(plugin(), folder.join(".pmix_mca_gds_instanton.so.1.lo")).expect("a copy");
        let components = format!("{}:{}", folder.display(), theirs().display());
        let launch = ranks(2, "", &program).env("PMIX_MCA_mca_base_component_path", components);
        let (with, without) = (launch.run().expect(0), ranks(2, "", &program).run().expect(0));
        expect_same(&with, &without);
        assert!(!with.stderr.contains("pmix_mca_gds_instanton"), "{with:#?}");
    }
}

/// The plug-in cannot be the only module: then the server has none, and says so as it does without the plug-in.
#[test]
fn a_launcher_without_the_module_hash_ends_at_once() {
    let program = peer("pmix/survey");
    if can_run("a_launcher_without_the_module_hash_ends_at_once", &[&program]) {
        let alone = with_plugin(ranks(2, "", &program)).env("PMIX_MCA_gds", "instanton").run().expect(1);
        let said = ["PMIX_MCA_gds leaves out hash", "unable to find any usable plugins"];
        assert!(said.iter().all(|words| alone.stderr.contains(words)), "{alone:#?}");
        let both = with_plugin(ranks(2, "", &program)).env("PMIX_MCA_gds", "instanton,hash").run().expect(0);
        expect_same(&both, &ranks(2, "", &program).env("PMIX_MCA_gds", "hash").run().expect(0));
    }
}

/// A rank whose address leads nowhere, or to somebody who has something else, is told everything by the server.
#[test]
fn an_address_that_leads_nowhere_costs_nothing() {
    let program = peer("pmix/survey");
    if can_run("an_address_that_leads_nowhere_costs_nothing", &[&program]) {
        let expected = ranks(2, "", &program).run().expect(0);
        for wrong in [
            // Nobody is there.
            "instanton-store:1:instanton-store-nobody:00112233445566778899aabbccddeeff",
            // No address.
            "nonsense",
            // The right door with a wrong token.
            "${INSTANTON_NODE_STORE%%:????????????????????????????????\\;*}:00112233445566778899aabbccddeeff",
        ] {
            let words = format!("export INSTANTON_NODE_STORE=\"{wrong};$PMIX_SERVER_URI41\"; {}", on_ours());
            expect_same(&with_plugin(ranks(2, &words, &program)).run().expect(0), &expected);
        }
    }
}

/// Abstract sockets end with their network namespace: a rank in another one cannot even reach the server, so this is
/// the rank that may not look at the segments.
#[test]
fn half_the_ranks_may_do_without() {
    let program = peer("pmix/survey");
    if can_run("half_the_ranks_may_do_without", &[&program]) {
        let words = format!("[ $((PMIX_RANK % 2)) = 0 ] || export INSTANTON_SHM=off; {}", on_ours());
        let expected = ranks(4, "", &program).run().expect(0);
        expect_same(&with_plugin(ranks(4, &words, &program)).run().expect(0), &expected);
        // One that comes when others have committed already takes nothing from them: it is the last to be started.
        let words = format!("[ $PMIX_RANK != 3 ] || export INSTANTON_SHM=off; {}", on_ours());
        for _ in 0..10 {
            expect_same(&with_plugin(ranks(4, &words, &program)).run().expect(0), &expected);
        }
    }
}

/// Their server has one way of information for the whole job, that of who came last, and asks it whoever is to be told.
#[test]
fn ranks_on_both_libraries_are_told_of_their_job() {
    let program = peer("pmix/survey");
    if can_run("ranks_on_both_libraries_are_told_of_their_job", &[&program]) {
        let words = format!("[ $((PMIX_RANK % 2)) = 0 ] || {}", on_ours());
        for _ in 0..8 {
            let outcome = with_plugin(ranks(12, &words, &program)).args(["cycles", "1"]).run().expect(0);
            assert_eq!(outcome.stdout.matches(": 1 cycles: ").count(), 12, "{outcome:#?}");
        }
    }
}

#[test]
fn a_killed_server_leaves_no_rank_that_waits() {
    let program = peer("pmix/get_bench");
    if can_run("a_killed_server_leaves_no_rank_that_waits", &[&program]) {
        let launch = with_plugin(ranks(2, &(UP.to_owned() + &on_ours()), &program)).args(["3000000"]);
        let outcome = launch.killed_when_up().run().expect(0);
        assert_eq!(outcome.lines_with("Finalize"), 0, "{outcome:#?}");
    }
}

#[test]
fn a_killed_rank_ends_its_job() {
    let misbehave = peer("ompi4/misbehave");
    if can_run("a_killed_rank_ends_its_job", &[&misbehave]) {
        let run = |how: [&str; 2]| with_plugin(ranks(3, &on_ours(), &misbehave)).args(how).run();
        run(["abort", "7"]).expect(7);
        run(["signal", "9"]).expect(128 + Signal::SIGKILL as i32);
    }
}

#[test]
fn whoever_is_killed_on_several_nodes_leaves_nothing_and_nobody_waits() {
    let (test, killer) = ("whoever_is_killed_on_several_nodes_leaves_nothing_and_nobody_waits", peer("pmix/killer"));
    if !nix::unistd::geteuid().is_root() {
        return skipped(test, "not root");
    }
    if !can_run(test, &[&killer]) {
        return;
    }
    let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/nodes");
    for (number, kill) in Kill::some().enumerate() {
        println!("{kill:?}");
        let words = if number % 2 == 0 { on_ours() } else { String::new() };
        let launch = ranks(RANKS, &words, &killer).env("INSTANTON_TEST_COMPONENTS", components());
        let launch = launch.insert(0, ["--mca", "plm_rsh_agent"]).insert(2, [nodes.clone()]);
        let launch = launch.insert(3, ["--host", "one:2,two:2", "--map-by", "node"]).through(nodes.clone());
        kill.of(with_plugin(launch)).run();
    }
}
