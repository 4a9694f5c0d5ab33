//! The plug-in of `dist/lib/instanton` in `prterun` of later Debian suites, which is the server and keeps its own
//! library. Nothing of such a suite is installed: its launcher, its libraries and the ranks run by its own loader, from
//! the folder that `scripts/suite` has unpacked.

mod launch;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use instanton::internal::stock::SERVED;
use launch::kills::{Kill, RANKS};
use launch::{Launch, UP, dist, have, lines_of_prterun, peer, skipped, target, traced_gets};
use nix::sys::signal::Signal;

/// Suites with a release of the stock library that is served.
const SUITES: [&str; 2] = ["trixie", "testing"];

/// Library of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Library {
    Stock,
    Ours,
}
use Library::{Ours, Stock};

/// An unpacked suite.
struct Suite {
    name: &'static str,
    root: PathBuf,
    /// Its libraries.
    libraries: PathBuf,
}

impl Suite {
    /// The suites that are here, for a test that needs some programs.
    fn all(test: &str, programs: &[&str]) -> Vec<Suite> {
        let mut needed: Vec<_> = programs.iter().map(|program| peer(program)).collect();
        needed.push(dist().join("lib/instanton/pmix_mca_gds_instanton.so"));
        if !have(test, &needed) {
            return Vec::new();
        }
        let one = |suite: &&'static str| {
            let root = target().join("suites").join(suite);
            let libraries = root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
            if !root.join("usr/bin/prterun").exists() {
                let reason = fs::read_to_string(root.with_extension("missing"));
                skipped(test, reason.as_deref().unwrap_or("make setup has not fetched the suite").trim());
                return None;
            }
            // A suite that is still in the making may have moved on.
            let library = fs::read(libraries.join("pmix2/lib/libpmix.so.2")).expect("a suite has its library");
            let has = |release: &str| library.windows(release.len()).any(|text| text == release.as_bytes());
            if !SERVED.iter().any(|release| has(&format!("{release} ("))) {
                skipped(test, &format!("the release of {suite} is not served"));
                return None;
            }
            Some(Suite { name: suite, root, libraries })
        };
        SUITES.iter().filter_map(one).collect()
    }

    /// Returns whether stock ranks of its release are answered from segments as well.
    fn answers_stock_ranks(&self) -> bool {
        self.name == "testing"
    }

    /// The loader of the suite.
    fn loader(&self) -> PathBuf {
        let folders = ["usr/lib64", "usr/lib"].map(|folder| fs::read_dir(self.root.join(folder)));
        let files = folders.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
        let is_loader = |file: &PathBuf| file.to_string_lossy().contains("/ld-linux-");
        files.into_iter().find(is_loader).expect("a C library has its loader")
    }

    /// Where a program of the suite finds libraries.
    fn path(&self) -> String {
        format!("{}:{}", self.libraries.join("pmix2/lib").display(), self.libraries.display())
    }

    /// Ranks of a program under the suite's launcher.
    fn ranks(&self, ranks: u32, library: Library, program: &str) -> Launch {
        let ours = match library {
            Ours => format!("{}:", dist().join("lib").display()),
            Stock => String::new(),
        };
        let launcher = Launch::alone(self.loader()).args(["--library-path", &self.path(), "--argv0", "prterun"]);
        // In turn, where there are several nodes: otherwise some releases fill the first.
        let launcher = launcher.args([self.root.join("usr/bin/prterun")]).args(["--map-by", "node:OVERSUBSCRIBE"]);
        let rank = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/rank");
        let launch = launcher.args(["-n", &ranks.to_string()]).args([rank]).stock_library();
        let launch = launch.env("PRTE_ALLOW_RUN_AS_ROOT", "1").env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let launch = launch.env("INSTANTON_TEST_LOADER", self.loader()).env("INSTANTON_TEST_PROGRAM", peer(program));
        let launch = launch.env("INSTANTON_TEST_LIBRARIES", ours + &self.path());
        launch.env("PMIX_MCA_mca_base_component_path", self.libraries.join("pmix2/lib/pmix"))
    }

    /// The same with the plug-in.
    fn plugged(&self, ranks: u32, library: Library, program: &str) -> Launch {
        let both = [dist().join("lib/instanton"), self.libraries.join("pmix2/lib/pmix")];
        let both = std::env::join_paths(both).expect("a colon in no name");
        self.ranks(ranks, library, program).env("PMIX_MCA_mca_base_component_path", both)
    }

    /// A launch, on two nodes beside that of the launcher, two ranks on each; some of them lack the plug-in.
    fn on_nodes(&self, launch: Launch, lacking: &[&'static str]) -> Launch {
        let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launch/nodes");
        let plugin = dist().join("lib/instanton");
        let both = std::env::join_paths([&plugin, &self.libraries.join("pmix2/lib/pmix")]).expect("a colon in no name");
        let by_ssh = ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent"].map(OsString::from);
        let by_ssh = by_ssh.into_iter().chain([nodes.clone().into(), "--host".into(), "one:2,two:2".into()]);
        // Behind the loader's own arguments and the launcher.
        let launch = launch.insert(5, by_ssh).through(nodes);
        let launch = launch.env("INSTANTON_TEST_DAEMON", self.root.join("usr/bin/prted"));
        let launch = launch.env("INSTANTON_TEST_DAEMON_LIBRARIES", self.path());
        let launch = launch.env("INSTANTON_TEST_COMPONENTS", both);
        lacking.iter().fold(launch, |launch, node| launch.env(node, &plugin))
    }
}

/// Variables that say of a node that it lacks something.
const ONE: &str = "INSTANTON_TEST_ONE_LACKS";
const TWO: &str = "INSTANTON_TEST_TWO_LACKS";

/// Line of a stock rank about values that have been posted anew: without the plug-in the first ones, for ever.
fn is_posted_anew(line: &str) -> bool {
    line.contains(": get s.text of ") || line.contains(": get c.new of ")
}

#[test]
fn all_ranks_are_told_what_they_are_without_it() {
    let programs: [(&str, &[&str], u32); 5] = [
        ("pmix/survey", &[], 2),
        ("pmix/survey", &[], 4),
        ("pmix/calls", &[], 3),
        ("pmix/calls", &["events"], 3),
        ("pmix/calls", &["spawn"], 2),
    ];
    for suite in Suite::all("all_ranks_are_told_what_they_are_without_it", &programs.map(|(program, ..)| program)) {
        for (program, arguments, n) in programs {
            for library in [Stock, Ours] {
                let run = |launch: Launch| launch.args(arguments).run().expect(0);
                let without = run(suite.ranks(n, library, program));
                let with = run(suite.plugged(n, library, program));
                assert!(lines_of_prterun(&with).len() > 5, "{with:#?}");
                let (mut with, mut without) = (lines_of_prterun(&with), lines_of_prterun(&without));
                if suite.answers_stock_ranks() && library == Stock {
                    [&mut with, &mut without].into_iter().for_each(|lines| lines.retain(|line| !is_posted_anew(line)));
                }
                assert_eq!(with, without, "{program} on {library:?}");
            }
        }
    }
}

/// The plug-in cannot be the only module: then the server has none, and says so.
#[test]
fn a_launcher_without_the_module_hash_ends_at_once() {
    for suite in Suite::all("a_launcher_without_the_module_hash_ends_at_once", &["pmix/survey"]) {
        // Such a prterun leaves its directory, with the plug-in and without.
        let alone = suite.plugged(2, Stock, "pmix/survey").env("PMIX_MCA_gds", "instanton").abandons_its_folder().run();
        assert!(alone.stderr.contains("PMIX_MCA_gds leaves out hash"), "{}: {alone:#?}", suite.name);
        assert!(!matches!(alone.status, None | Some(0 | 128..=192)), "{}: {alone:#?}", suite.name);
    }
}

#[test]
fn a_stock_rank_that_cannot_map_the_segments_is_told_by_its_own_library() {
    let test = "a_stock_rank_that_cannot_map_the_segments_is_told_by_its_own_library";
    for suite in Suite::all(test, &["pmix/survey"]).iter().filter(|suite| suite.answers_stock_ranks()) {
        let nobody = "export INSTANTON_NODE_STORE='instanton-store:1:instanton-store-nobody:\
                      00112233445566778899aabbccddeeff;'$PMIX_SERVER_URI41";
        let with = suite.plugged(2, Stock, "pmix/survey").env("INSTANTON_TEST_WORDS", nobody).run().expect(0);
        let without = suite.ranks(2, Stock, "pmix/survey").run().expect(0);
        assert!(lines_of_prterun(&with).len() > 5, "{with:#?}");
        assert_eq!(lines_of_prterun(&with), lines_of_prterun(&without));
    }
}

#[test]
fn what_other_nodes_post_is_at_hand_after_a_fence() {
    let test = "what_other_nodes_post_is_at_hand_after_a_fence";
    if !nix::unistd::geteuid().is_root() {
        return skipped(test, "not root");
    }
    for suite in Suite::all(test, &["pmix/collected"]) {
        for library in [Stock, Ours] {
            if library == Stock && !suite.answers_stock_ranks() {
                continue;
            }
            let launch = suite.on_nodes(suite.plugged(4, library, "pmix/collected"), &[]);
            let outcome = launch.run().expect(0);
            assert_eq!(outcome.stdout.matches("of 4 collected: right").count(), 4, "{library:?}: {outcome:#?}");
        }
    }
}

#[test]
fn nodes_with_it_and_without_take_part_in_one_job() {
    let test = "nodes_with_it_and_without_take_part_in_one_job";
    if !nix::unistd::geteuid().is_root() {
        return skipped(test, "not root");
    }
    for suite in Suite::all(test, &["pmix/survey", "pmix/collected", "pmix/dmodex"]) {
        for library in [Stock, Ours] {
            let plugged = |program| suite.on_nodes(suite.plugged(4, library, program), &[TWO]);
            let without = suite.on_nodes(suite.ranks(4, library, "pmix/survey"), &[ONE, TWO]).run().expect(0);
            let with = plugged("pmix/survey").run().expect(0);
            let [mut with, mut without] = [&with, &without].map(lines_of_prterun);
            assert!(with.len() > 5, "{with:#?}");
            // Stock servers before 7.0 keep the first of another node's values.
            [&mut with, &mut without].into_iter().for_each(|lines| lines.retain(|line| !is_posted_anew(line)));
            assert_eq!(with, without, "{library:?}");
            let outcome = plugged("pmix/dmodex").run().expect(0);
            assert_eq!(outcome.stdout, "direct modex of 4: right\n", "{library:?}");
        }
        // By the two ranks on the node that has segments; the others would have to ask.
        let outcome = suite.on_nodes(suite.plugged(4, Ours, "pmix/collected"), &[TWO]).run().expect(0);
        assert_eq!(outcome.stdout.matches("of 4 collected: right").count(), 2, "{outcome:#?}");
    }
}

#[test]
fn data_come_without_a_fence() {
    for suite in Suite::all("data_come_without_a_fence", &["pmix/dmodex"]) {
        for library in [Stock, Ours] {
            let outcome = suite.plugged(4, library, "pmix/dmodex").run().expect(0);
            assert_eq!(outcome.stdout, "direct modex of 4: right\n", "{library:?}");
        }
    }
}

#[test]
fn mpi_programs_run_on_both_libraries() {
    let programs = [
        ("ompi5/ring", 4, "ring of 4: token 40, right\n"),
        ("ompi5/alltoall", 4, "alltoall of 4: 0 wrong elements, right\n"),
        ("ompi5/spawn", 2, "spawn of 2 by 2: right\n"),
    ];
    for suite in Suite::all("mpi_programs_run_on_both_libraries", &programs.map(|(program, ..)| program)) {
        for (program, n, said) in programs {
            for library in [Stock, Ours] {
                let outcome = suite.plugged(n, library, program).run().expect(0);
                assert_eq!(outcome.stdout, said, "{library:?}");
            }
        }
    }
}

#[test]
fn a_get_makes_no_system_call() {
    let strace = Path::new("/usr/bin/strace");
    for suite in Suite::all("a_get_makes_no_system_call", &["pmix/quiet_gets"]) {
        if !have("a_get_makes_no_system_call", &[strace.into()]) {
            return;
        }
        for library in [Ours, Stock] {
            if library == Stock && !suite.answers_stock_ranks() {
                continue;
            }
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suite-gets");
            fs::create_dir_all(&folder).expect("a folder for the traces");
            let words = format!("through=({} -f -o '{}'/$PMIX_RANK)", strace.display(), folder.display());
            let launch = suite.plugged(2, library, "pmix/quiet_gets").env("INSTANTON_TEST_WORDS", words);
            let kind = if library == Stock { &["10000", "plain"][..] } else { &["10000"] };
            launch.args(kind).run().expect(0);
            assert_eq!(traced_gets(&folder, 0), (Vec::new(), true), "{library:?}");
        }
    }
}

#[test]
fn threads_get_what_their_peers_post_anew() {
    for suite in Suite::all("threads_get_what_their_peers_post_anew", &["pmix/reposts"]) {
        // A server of 5.0 says of fences in a second life that they were partial, or never ends them, with the plug-in and
        // without, whatever the library of its ranks.
        let lives = if suite.answers_stock_ranks() { "20" } else { "1" };
        for library in [Stock, Ours] {
            let launch = suite.plugged(3, library, "pmix/reposts").args([lives, "20"]);
            let deletes = suite.answers_stock_ranks() && library == Stock;
            let outcome = launch.args(deletes.then_some("delete")).run().expect(0);
            assert_eq!(outcome.stdout, "reposts of 3: right\n", "{library:?}");
        }
    }
}

#[test]
fn ranks_on_both_libraries_are_told_of_their_job() {
    for suite in Suite::all("ranks_on_both_libraries_are_told_of_their_job", &["pmix/survey"]) {
        let libraries = format!("INSTANTON_TEST_LIBRARIES={}:{}", dist().join("lib").display(), suite.path());
        let words = format!("[ $((PMIX_RANK % 2)) = 0 ] || {libraries}; ");
        for _ in 0..8 {
            let launch = suite.plugged(12, Stock, "pmix/survey").env("INSTANTON_TEST_WORDS", &words);
            let outcome = launch.args(["cycles", "1"]).run().expect(0);
            assert_eq!(outcome.stdout.matches(": 1 cycles: ").count(), 12, "{}: {outcome:#?}", suite.name);
        }
    }
}

#[test]
fn a_killed_rank_ends_its_job() {
    for suite in Suite::all("a_killed_rank_ends_its_job", &["ompi5/misbehave"]) {
        let run = |how: [&str; 2]| suite.plugged(3, Ours, "ompi5/misbehave").args(how).run();
        run(["abort", "7"]).expect(7);
        run(["signal", "9"]).expect(128 + Signal::SIGKILL as i32);
    }
}

#[test]
fn a_killed_server_leaves_no_rank_that_waits() {
    for suite in Suite::all("a_killed_server_leaves_no_rank_that_waits", &["pmix/get_bench"]) {
        let launch = suite.plugged(2, Ours, "pmix/get_bench").args(["3000000"]);
        let launch = launch.env("INSTANTON_TEST_WORDS", UP);
        let outcome = launch.killed_when_up().run().expect(0);
        assert_eq!(outcome.lines_with("Finalize"), 0, "{outcome:#?}");
    }
}

#[test]
fn whoever_is_killed_on_several_nodes_leaves_nothing_and_nobody_waits() {
    let test = "whoever_is_killed_on_several_nodes_leaves_nothing_and_nobody_waits";
    if !nix::unistd::geteuid().is_root() {
        return skipped(test, "not root");
    }
    for suite in Suite::all(test, &["pmix/killer"]) {
        for (number, kill) in Kill::some().enumerate() {
            println!("{}: {kill:?}", suite.name);
            let library = [Ours, Stock][number % 2];
            kill.of(suite.on_nodes(suite.plugged(RANKS, library, "pmix/killer"), &[])).run();
        }
    }
}
