//! `instanton run --nodes K`: what crosses simulated nodes, and what happens when one dies.
mod common;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::{Ended, Job, ends, example, numbers, run};
use instanton::client::{Chain, Handler, Notice};
use instanton::data::{App, Info, InfoList, Nspace, Proc, Query, Rank, Scope, Status, Text, Value, keys};
use instanton::tool::Tool;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Nobody who is to hear of something waits for so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn on(nodes: u32, ranks: u32, words: &[&str]) -> Ended {
    let (nodes, ranks) = (nodes.to_string(), ranks.to_string());
    run(["--nodes", &nodes, "-n", &ranks].into_iter().chain(words.iter().copied()))
}

fn rank(words: &[&str], nodes: u32, ranks: u32) -> Ended {
    let program = example("rank");
    on(nodes, ranks, &[&[program.to_str().unwrap()], words].concat())
}

fn services(words: &[&str]) -> Ended {
    let program = example("services");
    on(2, 2, &[&[program.to_str().unwrap()], words].concat())
}

fn assert_prints(ended: &Ended, expected: &[&str]) {
    let mut lines: Vec<&str> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!((ended.code, lines), (Some(0), expected.to_vec()), "{ended:?}");
}

/// The processes of the nodes of a run, but for the first, which is the launcher's.
fn nodes_of(launcher: Pid) -> Vec<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).unwrap();
    let name = |pid: &Pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let mut nodes = numbers(children.trim_end());
    nodes.retain(|pid| name(pid) == "inst-node\n");
    nodes
}

#[test]
fn a_node_has_a_name_a_directory_and_a_block_of_the_ranks() {
    let script = "echo $PMIX_RANK $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE ${PMIX_HOSTNAME##*-} \
                  $([ $TMPDIR = $PMIX_SERVER_TMPDIR ] && [ -d $TMPDIR/1/$PMIX_RANK ] && echo own)";
    let ended = on(2, 5, &["sh", "-c", script]);
    assert_prints(&ended, &["0 0/3 n0 own", "1 1/3 n0 own", "2 2/3 n0 own", "3 0/2 n1 own", "4 1/2 n1 own"]);
    assert_eq!(on(64, 2, &["true"]).code, Some(0));
    assert_eq!(on(65, 2, &["true"]).code, Some(2));
}

#[test]
fn ranks_of_different_nodes_meet_in_fences_and_groups_and_come_again() {
    let ended =
        run(["--nodes", "3", "--max-restarts", "5", "-n", "3", example("rank").to_str().unwrap(), "reborn", "2"]);
    assert_prints(
        &ended,
        &[0, 1, 2].map(|rank| format!("rank {rank} met rank 1 in its life 2")).each_ref().map(String::as_str),
    );
    assert_eq!(ended.stderr.lines().count(), 2, "{ended:?}");
}

#[test]
fn data_is_published_and_jobs_are_started_across_nodes() {
    assert_prints(
        &services(&["publish"]),
        &["again: PMIX_ERR_DUPLICATE_KEY", "found [(1, Some(\"17\"))], then PMIX_ERR_NOT_FOUND, then PMIX_ERR_TIMEOUT"],
    );
    let program = example("services");
    let ended = services(&["spawn", program.to_str().unwrap(), "child"]);
    assert!(ended.stdout.contains("job 2 ended: PMIX_SUCCESS\n"), "{ended:?}");
    assert_eq!(ended.stdout.matches("child of rank 0 of Uint32(2), Bool(true)").count(), 2, "{ended:?}");
    let ended = services(&["pull", "echo", "hello"]);
    assert_prints(&ended, &["0 printed \"hello\\n\" and \"\"", "1 printed \"hello\\n\" and \"\"", "hello", "hello"]);
}

#[test]
fn ends_cross_nodes() {
    assert_prints(&rank(&["abort-one", "2"], 3, 3), &["rank 0 goes on", "rank 1 goes on"]);
    assert_eq!(rank(&["abort", "3", "7"], 4, 4).code, Some(7));
    let ended = on(4, 4, &["sh", "-c", "[ $PMIX_RANK = 2 ] && exit 5; exec sleep 1000"]);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains("-n2 (pid"), "{ended:?}");
}

#[test]
fn nobody_waits_for_the_only_participant_of_a_node_once_it_is_gone() {
    let program = example("rank");
    let words = ["--nodes", "2", "-N", "3", "-n", "4", "--enable-recovery", program.to_str().unwrap(), "alone"];
    for (what, told) in [
        ("fence", "PMIX_ERR_PARTIAL_SUCCESS"),
        ("finalize", "PMIX_ERR_PARTIAL_SUCCESS"),
        ("connect", "PMIX_ERR_PARTIAL_SUCCESS"),
        ("construct", "PMIX_ERR_PROC_TERM_WO_SYNC"),
        ("optional", "PMIX_ERR_PARTIAL_SUCCESS with 3"),
        ("notify", "PMIX_ERR_PARTIAL_SUCCESS with 3, of 3"),
        ("destruct", "PMIX_ERR_PROC_TERM_WO_SYNC, then PMIX_SUCCESS"),
        ("destruct-notify", "PMIX_SUCCESS"),
    ] {
        let ended = run(words.iter().copied().chain([what]));
        let lines: Vec<&str> = ended.stdout.lines().collect();
        assert_eq!(lines, [told; 3], "{what}: {ended:?}");
    }
}

#[test]
fn the_leader_of_a_construct_alone_decides_about_the_only_member_of_a_node_and_is_waited_for() {
    let program = example("rank");
    for (how, told) in [("made", "PMIX_ERR_PARTIAL_SUCCESS"), ("given-up", "PMIX_GROUP_CONSTRUCT_ABORT")] {
        let ended = run(["--nodes", "3", "-n", "3", "--enable-recovery", program.to_str().unwrap(), "led", how]);
        let mut lines: Vec<&str> = ended.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [format!("rank 0 was not: {told}"), format!("rank 1 was asked: {told}")], "{ended:?}");
    }
}

#[test]
fn what_nobody_serves_is_refused_where_it_is_required() {
    let calls = ["connect", "disconnect", "fence", "group", "pull"];
    let told = calls.map(|call| [(); 3].map(|()| format!("{call}: PMIX_ERR_NOT_SUPPORTED"))).concat();
    for nodes in 1..3 {
        assert_prints(&rank(&["require"], nodes, 3), &told.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn nobody_waits_for_a_member_that_leaves_its_group() {
    let program = example("rank");
    let words = ["--nodes", "2", "-N", "3", "-n", "4", program.to_str().unwrap(), "quit"];
    for (what, told) in [("fence", "PMIX_GROUP_LEFT"), ("tolerant", "PMIX_SUCCESS"), ("destruct", "PMIX_SUCCESS")] {
        let ended = run(words.iter().copied().chain([what]));
        assert_prints(&ended, &[told; 2]);
    }
}

#[test]
fn a_node_that_is_killed_ends_its_ranks_and_the_job() {
    let mut job = Job::start(["--nodes", "3", "-n", "3", "sh", "-c", "echo $$ $PPID; exec sleep 1000"], Stdio::null());
    let lines: Vec<Vec<Pid>> = (0..3).map(|_| numbers(&job.line())).collect();
    let nodes = nodes_of(lines[0][1]);
    assert_eq!(nodes.len(), 2);
    kill(nodes[1], Signal::SIGKILL).unwrap();
    let ended = job.finish();
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.stderr.contains("-n2 is down: its server was killed by signal 9"), "{ended:?}");
    assert!(lines.iter().map(|line| line[0]).chain(nodes).all(ends));
}

#[test]
fn what_ranks_of_a_dead_node_wanted_removed_is_removed() {
    let file = std::env::temp_dir().join(format!("instanton-nodes-{}", std::process::id()));
    let program = example("rank");
    let words = ["--nodes", "2", "-n", "2", program.to_str().unwrap(), "litter", file.to_str().unwrap()];
    let mut job = Job::start(words, Stdio::null());
    let lines = [job.line(), job.line()].map(|line| numbers(&line));
    let litter = [0, 1].map(|rank| std::path::PathBuf::from(format!("{}.{rank}", file.display())));
    assert!(litter.iter().all(|file| file.exists()));
    kill(nodes_of(lines[0][1])[0], Signal::SIGKILL).unwrap();
    assert_eq!(job.finish().code, Some(137));
    assert!(litter.iter().all(|file| !file.exists()));
}

#[test]
fn others_hear_of_a_node_that_goes_down_and_go_on() {
    let program = example("rank");
    let words = ["--nodes", "3", "--enable-recovery", "-n", "3", program.to_str().unwrap(), "outlive"];
    let mut job = Job::start(words, Stdio::null());
    let lines: Vec<Vec<Pid>> = (0..3).map(|_| numbers(&job.line())).collect();
    kill(nodes_of(lines[0][1])[0], Signal::SIGKILL).unwrap();
    let ended = job.finish();
    let told: BTreeSet<&str> = ended.stdout.lines().collect();
    assert_eq!((ended.code, told.len(), ended.stdout.lines().count()), (Some(0), 1, 2), "{ended:?}");
    assert!(told.iter().all(|line| line.starts_with("down: ") && line.ends_with("-n1")), "{ended:?}");
    assert!(ended.stderr.contains("the others go on"), "{ended:?}");
}

#[test]
fn tools_of_a_node_that_goes_down_are_gone() {
    let program = example("rank");
    let words = ["--nodes", "2", "--enable-recovery", "-n", "2", program.to_str().unwrap(), "outlive"];
    let mut job = Job::start(words, Stdio::null());
    let lines: Vec<Vec<Pid>> = (0..2).map(|_| numbers(&job.line())).collect();
    let node = nodes_of(lines[0][1])[0];
    let attach = |server: Pid| Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(server.as_raw()))]).unwrap();
    let (stays, goes) = (attach(job.pid()), attach(node));
    let (heard, gone) = channel();
    let handler: Handler = Arc::new(move |notice: Notice, chain: Chain| {
        let affected = notice.info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_proc().cloned());
        let _ = heard.send(affected);
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    let codes = [Status::ERR_INVALID_TERMINATION];
    stays.primary().register_event_handler(&codes, &[], handler).wait().unwrap();
    let both = [&stays, &goes].map(|tool| tool.primary().proc().clone());
    let (met, meets) = channel();
    goes.primary().connect_to(&both, &[]).then(move |result| met.send(result.is_ok()).unwrap()).unwrap();
    stays.primary().connect_to(&both, &[]).wait().unwrap();
    assert!(meets.recv().unwrap());
    kill(node, Signal::SIGKILL).unwrap();
    assert_eq!(gone.recv_timeout(PATIENCE).unwrap(), Some(both[1].clone()));
    let _ = goes.finalize(&[]);
    // The other rank hears of it as well, and the run may be over before the goodbye.
    let _ = stays.finalize(&[]);
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn tools_attach_to_each_node_and_see_the_same() {
    let mut job = Job::start(["--nodes", "3", "-n", "3", "sh", "-c", "echo $PPID; exec sleep 1000"], Stdio::null());
    let launchers = [(); 3].map(|()| numbers(&job.line())[0]);
    let servers: Vec<Pid> = std::iter::once(job.pid()).chain(nodes_of(launchers[0])).collect();
    let attach = |pid: &Pid| Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(pid.as_raw()))]).unwrap();
    let tools: Vec<Tool> = servers.iter().map(attach).collect();
    let names: BTreeSet<String> = tools.iter().map(|tool| tool.primary().proc().to_string()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    // Stock tools find the first alone, and need not be told which of several.
    let mut below = job.litter();
    let mut contacts = 0;
    while let Some(path) = below.pop() {
        contacts += usize::from(path.file_name().unwrap().to_string_lossy().starts_with("instanton-contact-"));
        let inside = std::fs::read_dir(&path).into_iter().flatten();
        below.extend(inside.map(|entry| entry.unwrap().path()));
    }
    assert_eq!(contacts, 1);
    for (node, tool) in tools.iter().enumerate() {
        let client = tool.primary();
        let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES).unwrap()], qualifiers: Vec::new() };
        let (_, answers) = client.query(&[query]).wait().unwrap();
        let all = Nspace::new(answers[0].value.as_text().unwrap().as_bytes()).unwrap();
        assert_eq!(client.get(&Proc::new(all.clone(), Rank::WILDCARD), keys::JOB_SIZE, &[]).unwrap(), 3u32.into());
        let place = client.get(&Proc::new(all, Rank(2)), keys::HOSTNAME, &[]).unwrap();
        assert!(place.as_str().unwrap().ends_with("-n2"), "{place:?}");
        client.publish(&[Info::new(format!("port.{node}"), 17u32)]).wait().unwrap();
        let functions = vec![Info::new(keys::HOST_FUNCTIONS, true)];
        let query = Query { keys: vec![Text::new(keys::QUERY_ATTRIBUTE_SUPPORT).unwrap()], qualifiers: functions };
        let (_, answers) = client.query(&[query]).wait().unwrap();
        let supported = answers[0].value.as_str().unwrap();
        assert!(supported.split(',').any(|function| function == "PMIx_Spawn"), "node {node}: {supported}");
        let monitor = Info::new(keys::MONITOR_NODE_RESOURCE_USAGE, true);
        let (_, usage) = client.process_monitor(&monitor, Status::SUCCESS, &[]).wait().unwrap();
        let name = usage[0].value.as_array().unwrap().infos().find(|info| info.key == keys::HOSTNAME).unwrap();
        assert!(name.value.as_str().unwrap().ends_with(&format!("-n{node}")), "{name:?}");
    }
    for node in 0..3 {
        let (_, found) = tools[(node + 1) % 3].primary().lookup(&[format!("port.{node}")], &[]).wait().unwrap();
        assert_eq!(found[0].proc, *tools[node].primary().proc());
    }
    let argv = ["echo", "started by a tool"].map(|word| Text::new(word).unwrap()).to_vec();
    let app = App { cmd: None, argv, env: vec![], cwd: None, maxprocs: 1, info: vec![] };
    tools[2].primary().spawn(&[], &[app]).wait().unwrap();
    assert_eq!(job.line(), "started by a tool");
    tools.into_iter().for_each(|tool| tool.finalize(&[]).unwrap());
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn a_job_is_started_on_the_hosts_that_its_request_names() {
    let mut job = Job::start(["--nodes", "2", "sh", "-c", "echo $PMIX_HOSTNAME; exec sleep 1000"], Stdio::null());
    let first = job.line();
    let machine = first.strip_suffix("-n0").unwrap();
    let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap();
    let file = job.directory().join("hosts");
    let argv = ["sh", "-c", "echo ${PMIX_HOSTNAME##*-}"].map(|word| Text::new(word).unwrap()).to_vec();
    let app = App { cmd: None, argv, env: vec![], cwd: None, maxprocs: 2, info: vec![] };
    let spawn = |info: Info| tool.primary().spawn(&[info], std::slice::from_ref(&app)).wait();
    let full = |node: u32| format!("{machine}-n{node}");
    for (hosts, places) in [
        (full(0).as_str(), ["n0", "n0"]),
        (&full(1), ["n1", "n1"]),
        ("n1", ["n1", "n1"]),
        ("n1:1,n0:1", ["n0", "n1"]),
        (machine, ["n0", "n1"]),
        ("localhost", ["n0", "n1"]),
    ] {
        let line = |host: &str| format!("{} slots=1\n", host.split(':').next().unwrap());
        std::fs::write(&file, hosts.split(',').map(line).collect::<String>()).unwrap();
        for info in [Info::new(keys::HOST, hosts), Info::new(keys::HOSTFILE, file.to_str().unwrap())] {
            spawn(info).unwrap_or_else(|error| panic!("{hosts}: {error:?}"));
            let mut found = [job.line(), job.line()];
            found.sort();
            assert_eq!(found, places, "{hosts}");
        }
    }
    let error = spawn(Info::new(keys::HOST, full(2))).unwrap_err();
    assert_eq!(error.status(), Status::ERR_JOB_FAILED_TO_MAP);
    std::fs::remove_file(file).unwrap();
    tool.finalize(&[]).unwrap();
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn all_nodes_hear_of_a_time_limit_that_has_passed_on_one() {
    let told = ["connect", "construct", "fence"]
        .map(|what| [(); 2].map(|()| format!("{what}: PMIX_ERR_TIMEOUT, then PMIX_SUCCESS")));
    assert_prints(&rank(&["late"], 2, 2), &told.concat().iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn nobody_is_connected_with_processes_that_there_never_were() {
    for nodes in [1, 3] {
        assert_prints(&rank(&["miss"], nodes, 3), &["PMIX_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND"; 6]);
    }
}

/// Three ranks on so many nodes that do this, and the process of that node's server.
fn visited(what: &str, nodes: &str, node: usize) -> (Job, Pid) {
    let program = example("rank");
    let script = "echo $PPID; exec $0 $1";
    let words = ["--nodes", nodes, "-n", "3", "sh", "-c", script, program.to_str().unwrap(), what];
    let mut job = Job::start(words, Stdio::null());
    let launcher = [(); 3].map(|()| numbers(&job.line())[0])[0];
    let server = if node == 0 { job.pid() } else { nodes_of(launcher)[node - 1] };
    (job, server)
}

#[test]
fn ranks_of_several_nodes_meet_a_tool_of_one() {
    for node in [0, 1] {
        let (job, server) = visited("greet", "3", node);
        let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(server.as_raw()))]).unwrap();
        let client = tool.primary();
        client.put(Scope::GLOBAL, "gift", Value::from(17u32)).unwrap();
        client.commit().unwrap();
        client.publish(&[Info::new("visitor", true)]).wait().unwrap();
        let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES).unwrap()], qualifiers: Vec::new() };
        let (_, answers) = client.query(&[query]).wait().unwrap();
        let all = Nspace::new(answers[0].value.as_text().unwrap().as_bytes()).unwrap();
        let both = [Proc::new(all, Rank::WILDCARD), client.proc().clone()];
        client.connect_to(&both, &[]).wait().unwrap();
        client.disconnect_from(&both, &[]).wait().unwrap();
        (0..2).for_each(|_| client.fence(&both, &[]).wait().unwrap());
        let group = Nspace::new("g").unwrap();
        client.group_construct(&group, &both, &[]).wait().unwrap();
        client.fence(&[Proc::new(group, Rank::WILDCARD)], &[]).wait().unwrap();
        tool.finalize(&[]).unwrap();
        assert_prints(&job.finish(), &["greeted, with Uint32(17)"; 3]);
    }
}

#[test]
fn whoever_waits_for_a_tool_that_is_killed_hears_of_it_on_every_node() {
    let lost = ["connect later: PMIX_ERR_PARTIAL_SUCCESS"].into_iter();
    let lost = lost.chain(["connect: PMIX_ERR_PARTIAL_SUCCESS"; 3]);
    let lost = lost.chain(["construct: PMIX_ERR_PROC_TERM_WO_SYNC"; 3]);
    let lost = lost.chain(["fence of the group: PMIX_ERR_PARTIAL_SUCCESS"; 3]);
    let lost = lost.chain(["fence: PMIX_ERR_PARTIAL_SUCCESS"; 2]);
    let lost: Vec<&str> = lost.chain(["later: PMIX_ERR_PARTIAL_SUCCESS"]).collect();
    for (nodes, node) in [("1", 0), ("3", 0), ("3", 1), ("3", 2)] {
        let (mut job, server) = visited("forsaken", nodes, node);
        let watcher = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(server.as_raw()))]).unwrap();
        let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES).unwrap()], qualifiers: Vec::new() };
        let (_, answers) = watcher.primary().query(&[query]).wait().unwrap();
        let mut tool = Command::new(example("stream_tool"));
        let tool = tool.args([&server.to_string(), "visit", answers[0].value.as_str().unwrap()]);
        let mut tool = tool.spawn().unwrap();
        for _ in 0..3 {
            assert_eq!(job.line(), "waits");
        }
        tool.kill().unwrap();
        tool.wait().unwrap();
        watcher.finalize(&[]).unwrap();
        assert_prints(&job.finish(), &lost);
    }
}

#[test]
fn a_rank_whose_node_is_down_is_not_started_anew_and_that_is_why() {
    let script = "echo $PPID; exec sleep 1000";
    let mut job = Job::start(["--nodes", "2", "--continuous", "-n", "2", "sh", "-c", script], Stdio::null());
    let launchers = [(); 2].map(|()| numbers(&job.line())[0]);
    kill(nodes_of(launchers[0])[0], Signal::SIGKILL).unwrap();
    let ended = job.finish();
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.stderr.contains(" is not started anew: its node is down\n"), "{ended:?}");
    assert!(!ended.stderr.contains("restarts did not help"), "{ended:?}");
}

#[test]
fn no_node_outlives_the_launcher_or_the_process_that_the_user_knows() {
    for kills_launcher in [true, false] {
        let script = "echo $$ $PPID; exec sleep 1000";
        let mut job = Job::start(["--nodes", "4", "-n", "4", "sh", "-c", script], Stdio::null());
        let lines: Vec<Vec<Pid>> = (0..4).map(|_| numbers(&job.line())).collect();
        let launcher = lines[0][1];
        let nodes = nodes_of(launcher);
        assert_eq!(nodes.len(), 3);
        kill(if kills_launcher { launcher } else { job.pid() }, Signal::SIGKILL).unwrap();
        job.wait();
        assert!(lines.iter().map(|line| line[0]).chain(nodes).chain([launcher]).all(ends));
        job.assert_no_litter();
    }
}
