//! Placement of ranks, on machines that are not there and on this one.
mod common;

use common::{Ended, Job, run};

/// Runs nothing: the placement on a machine that is not there.
fn placed(topology: &str, options: &[&str]) -> Ended {
    run([&["--topology", topology, "--do-not-launch"], options, &["no-such-program"]].concat())
}

#[test]
fn a_placement_is_shown_before_anything_is_started() {
    let options = ["-np", "2", "--map-by", "numa", "--bind-to", "core", "--display", "alloc,map,bind"];
    let ended = placed("numa:2 core:2 pu:2", &options);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!((ended.code, lines.len(), ended.stderr.as_str()), (Some(0), 5, ""), "{ended:?}");
    assert!(lines[0].contains("4 slots; 1 package, 2 numas, 4 cores, 8 hwthreads [../../../..]"), "{ended:?}");
    assert!(lines[2].starts_with("rank 1 (no-such-program): node ") && lines[2].ends_with(", numa 1"), "{ended:?}");
    assert!(lines[4].ends_with(": bound to core 2 [../../BB/..]"), "{ended:?}");
}

#[test]
fn ranks_are_counted_where_the_placement_says_how_many() {
    let ranks = |options: &[&str]| {
        let ended = placed("package:2 core:4", &[options, &["--report-bindings"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stderr.lines().count()
    };
    assert_eq!(ranks(&["--map-by", "ppr:3:package"]), 6);
    assert_eq!(ranks(&["-npersocket", "1"]), 2);
    assert_eq!(ranks(&["-N", "5"]), 5);
    assert_eq!(ranks(&["-pernode"]), 1);
    assert_eq!(ranks(&["--hostfile", "/dev/null", "-H", "localhost:4"]), 4);
    assert_eq!(ranks(&[]), 1);
}

#[test]
fn ranks_are_bound_as_mpirun_binds_them() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/bindings");
    let done = std::process::Command::new(script).arg(env!("CARGO_BIN_EXE_instanton")).output().expect("run a script");
    let said = String::from_utf8_lossy(&done.stdout);
    match done.status.code() {
        Some(77) => println!("SKIPPED ranks_are_bound_as_mpirun_binds_them: {said}"),
        code => assert_eq!(code, Some(0), "{said}{}", String::from_utf8_lossy(&done.stderr)),
    }
}

#[test]
fn what_cannot_be_placed_is_one_line_and_nothing_is_started() {
    for (options, words) in [
        (&["-n", "5", "--bind-to", "core"][..], "--bind-to core:overload"),
        (&["-n", "5", "--map-by", ":nooversubscribe"], "5 ranks are more than the 4 slots"),
        (&["-n", "3", "--map-by", "ppr:1:numa"], "ppr:1:numa makes room for 2 ranks"),
        (&["-n", "2", "-N", "1"], "need more machines"),
        (&["--map-by", "l3cache"], "no l3cache to map by"),
        (&["--map-by", "croe"], "Did you mean core?"),
        (&["--rankfile", "/no/such"], "/no/such"),
        (&["--bind-to", "core:shared"], "overload-allowed"),
    ] {
        let ended = placed("numa:2 core:2", options);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(2), "", 1), "{ended:?}");
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    }
}

#[test]
fn a_rank_file_is_named_with_its_line() {
    let script = "printf 'rank 0=localhost slot=1\\nrank 1=moon slot=0\\n' > $TMPDIR/ranks
         \"$0\" run --topology core:2 --do-not-launch -rf $TMPDIR/ranks true; echo $?; rm $TMPDIR/ranks";
    let ended = Job::in_shell(script).finish();
    assert_eq!(ended.stdout, "2\n");
    assert!(ended.stderr.contains("/ranks:2: moon is another machine"), "{ended:?}");
}

#[test]
fn ranks_are_bound_to_what_is_said_and_told_so() {
    let Some(place) = instanton::internal::sys::hwloc::place(true).filter(|place| place.cores.len() > 1) else {
        return println!("SKIPPED ranks_are_bound_to_what_is_said_and_told_so: there is one core, or no libhwloc");
    };
    let script = "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status";
    let ended = run(["-n", "2", "--tag-output", "--map-by", "core", "--bind-to", "core", "sh", "-c", script]);
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    for (rank, (line, core)) in lines.iter().zip(&place.cores).enumerate() {
        let units = core.cpuset.strip_prefix("hwloc:").unwrap();
        assert_eq!(*line, format!("[{rank}]<stdout>: {units}"), "{ended:?}");
    }
    assert_eq!((ended.code, lines.len()), (Some(0), 2), "{ended:?}");
    let many = (place.cores.len() + 1).to_string();
    assert_eq!(run(["-n", &many, "--bind-to", "core", "true"]).code, Some(2));
    assert_eq!(run(["-n", &many, "--bind-to", "core:overload", "true"]).code, Some(0));
    assert_eq!(run(["-n", &many, "true"]).code, Some(0), "sharing is silent");
}

#[test]
fn slots_make_no_more_ranks_than_one_machine_can_number() {
    for options in [&["-H", "localhost:4000000000"][..], &["-H", "localhost:65537"], &["--nodes", "2", "-N", "40000"]] {
        let ended = run(options.iter().copied().chain(["true"]));
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{ended:?}");
        assert!(ended.stderr.contains("ranks are more than the 65536 that one machine can number"), "{ended:?}");
    }
}

#[test]
fn simulated_nodes_are_places_too() {
    let nodes = |options: &[&str]| {
        let ended = placed("package:2 core:2", &[&["--nodes", "3", "--display", "map"], options].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let node = |line: &str| line.split("-n").last().and_then(|node| node.split(',').next()).map(str::to_owned);
        ended.stdout.lines().filter_map(node).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(nodes(&["-n", "4"]), "0 0 1 2");
    assert_eq!(nodes(&["-n", "4", "--map-by", "node"]), "0 1 2 0");
    assert_eq!(nodes(&["-n", "6", "--map-by", "package:span", "--bind-to", "core"]), "0 0 1 1 2 2");
    assert_eq!(nodes(&["-n", "3", "--rank-by", "node", "-H", "n0:2,n2:2"]), "0 2 0");
    assert_eq!(nodes(&["-N", "2", "-n", "3"]), "0 0 1");
    assert_eq!(nodes(&["--map-by", "ppr:1:package"]), "0 0 1 1 2 2");
    let shown = placed("core:2", &["--nodes", "3", "-H", "n0,n1:3", "--display", "alloc"]).stdout;
    let slots: Vec<&str> = shown.lines().filter_map(|line| line.split([':', ';']).nth(1)).collect();
    assert_eq!(slots, [" 1 slots", " 3 slots", " 0 slots"], "{shown}");
    let refused = placed("core:2", &["--nodes", "2", "-n", "5", "--nooversubscribe"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("the 4 slots"), "{refused:?}");
}

#[test]
fn ranks_of_a_job_need_not_lie_in_blocks() {
    let script =
        "echo $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE ${PMIX_HOSTNAME##*-}";
    let ended = run(["--nodes", "2", "--map-by", "node", "-n", "5", "sh", "-c", script]);
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 0/3 n0", "1 0/2 n1", "2 1/3 n0", "3 1/2 n1", "4 2/3 n0"], "{ended:?}");
}
