//! Requests of ranks to `instanton run` besides being started: the `services` program of the examples.
mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Ended, Job, ends, numbers, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getuid;

/// Cargo builds the examples beside the command whenever it runs all tests.
fn services() -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_instanton")).with_file_name("examples").join("services");
    assert!(path.exists(), "{} is missing: cargo build --examples makes it", path.display());
    path.to_str().unwrap().to_owned()
}

fn two(words: &[&str]) -> Ended {
    run(["-n", "2", &services()].into_iter().chain(words.iter().copied()))
}

fn assert_prints(words: &[&str], expected: &[&str]) {
    let ended = two(words);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn published_data_is_found_and_taken_back() {
    assert_prints(
        &["publish"],
        &["again: PMIX_ERR_DUPLICATE_KEY", "found [(1, Some(\"17\"))], then PMIX_ERR_NOT_FOUND, then PMIX_ERR_TIMEOUT"],
    );
}

#[test]
fn a_spawned_job_knows_its_parent_and_its_parent_its_end() {
    let child = |rank| {
        format!(
            "rank {rank} of job 2, child of rank 0 of Uint32(2), Bool(true), on node Uint16({}), given \"here\"",
            rank + 2
        )
    };
    assert_prints(&["spawn", &services(), "child"], &["job 2 ended: PMIX_SUCCESS", &child(0), &child(1)]);
}

#[test]
fn a_run_lasts_as_long_as_the_jobs_it_has_started() {
    let waits = "until [ ! -e /proc/$0 ]; do :; done; echo late";
    // The parent's own process is the shell's, which the children outlive.
    let script = format!("exec {} leave sh -c '{waits}' $$", services());
    let ended = run(["-n", "1", "sh", "-c", &script]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "late\nlate\n"), "{ended:?}");
}

#[test]
fn a_failure_of_a_spawned_job_is_the_runs() {
    let ended = two(&["spawn", "sh", "-c", "[ $PMIX_RANK = 1 ] && exit 3; exec sleep 1000"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("rank 1 of job 2 on node"), "{ended:?}");
}

#[test]
fn what_cannot_be_started_is_told_and_harms_nobody() {
    assert_prints(&["spawn", "/no/such"], &["not started: PMIX_ERR_JOB_EXE_NOT_FOUND"]);
    assert_prints(&["spawn", "/etc/passwd"], &["not started: PMIX_ERR_JOB_APP_NOT_EXECUTABLE"]);
}

#[test]
fn the_end_of_what_never_began_is_told_to_nobody() {
    use std::os::unix::fs::OpenOptionsExt;
    // It may be executed, and cannot be.
    let program = std::env::temp_dir().join(format!("instanton-not-started-{}", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&program).unwrap();
    std::io::Write::write_all(&mut file, b"#!/no/such/interpreter\n").unwrap();
    drop(file);
    let expected = "PMIX_ERR_JOB_FAILED_TO_LAUNCH, then PMIX_SUCCESS of the next: true";
    let ended = two(&["fail", program.to_str().unwrap()]);
    std::fs::remove_file(program).unwrap();
    assert_eq!((ended.code, ended.stdout.trim_end()), (Some(0), expected), "{ended:?}");
}

#[test]
fn who_is_killed_on_request_has_not_failed() {
    assert_prints(&["kill"], &["PMIX_ERR_JOB_KILLED_BY_CMD"]);
}

#[test]
fn a_job_that_is_killed_on_request_as_a_whole_shows_it_in_its_status() {
    let ended = two(&["end"]);
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.stderr.contains("the job was ended by job control"), "{ended:?}");
}

#[test]
fn a_token_of_one_rank_is_known_to_be_its_own() {
    assert_prints(&["token"], &["PMIX_SUCCESS: of rank Some(0); forged: PMIX_ERR_INVALID_CRED"]);
}

/// In a machine of its own, as far as files and processes go, on which munge runs.
#[test]
fn a_credential_of_munge_says_whose_it_is_once_where_munge_runs() {
    let script = "mount -t tmpfs none /run && mkdir -p /run/munge && command -v munged > /dev/null || exit 99
        cd /run && head -c 128 /dev/urandom > key && chmod 600 key || exit 99
        munged --force --key-file=/run/key --pid-file=/run/pid --log-file=/run/log --seed-file=/run/seed || exit 99
        echo ready; TMPDIR=/run exec \"$0\" run -n 2 \"$1\" munge";
    let mut command = Command::new("unshare");
    command.args(["-m", "-p", "-f", "--mount-proc", "sh", "-c", script, env!("CARGO_BIN_EXE_instanton"), &services()]);
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) if output.stdout.starts_with(b"ready\n") => output,
        other => return println!("SKIPPED a_credential_of_munge: it takes root, unshare and munged: {other:?}"),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, format!("ready\nMUNGE:: of user Some({}), then PMIX_ERR_INVALID_CRED\n", getuid()), "{output:?}");
}

#[test]
fn applications_are_in_process_sets_that_collectives_and_groups_take_for_their_members() {
    let program = services();
    let words = ["-n", "2", "--pset", "a", &program, "sets", ":", "--pset", "b", "--pset", "a", &program, "sets", ":"];
    let ended = run(words.into_iter().chain([program.as_str(), "sets"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    // The groups of them count as well.
    let said = [(0, r#"["a"]"#), (1, r#"["a"]"#), (2, r#"["a", "b"]"#), (3, "[]")];
    let said = said.map(|(rank, sets)| format!("rank {rank} is in {sets}, 4 in all"));
    assert_eq!(lines, said);
}

#[test]
fn allocations_and_the_session_are_what_this_machine_has() {
    assert_prints(
        &["resources"],
        &[
            "all slots: PMIX_ERR_OUT_OF_RESOURCE",
            "another session: PMIX_ERR_NOT_FOUND",
            "more time: PMIX_ERR_NOT_SUPPORTED",
            "nobody's: PMIX_ERR_NOT_FOUND",
            "session: PMIX_SUCCESS",
        ],
    );
}

#[test]
fn the_use_of_the_machine_is_told() {
    let of_rank = "PMIX_SUCCESS pmix.proc.res: pmix.procid pmix.proc.rss";
    assert_prints(&["usage"], &[of_rank, of_rank, "node: true", "often: PMIX_ERR_NOT_SUPPORTED"]);
}

#[test]
fn a_checkpoint_is_asked_for_by_an_event() {
    assert_prints(&["checkpoint"], &["checkpoint Some(\"c1\")"]);
}

#[test]
fn a_request_to_end_can_be_cancelled_by_who_has_made_it() {
    assert_prints(&["cancel"], &["again: PMIX_ERR_NOT_FOUND, then PMIX_SUCCESS"]);
}

#[test]
fn signals_reach_the_processes_of_a_job() {
    assert_prints(&["signal"], &["PMIX_SUCCESS"]);
}

#[test]
fn queries_are_answered() {
    assert_prints(
        &["query"],
        &[
            "a wish that nobody knows: PMIX_ERR_NOT_SUPPORTED",
            "own job true runs services query",
            "pmix.job.size: PMIX_SUCCESS [PMIX_UINT32]",
            "pmix.ppid: PMIX_SUCCESS [PMIX_PID]",
            "pmix.qry.aslots: PMIX_SUCCESS [PMIX_UINT32]",
            "pmix.qry.debug: PMIX_SUCCESS [PMIX_STRING]",
            "pmix.qry.jst of pmix.jobid: PMIX_ERR_NOT_FOUND",
            "pmix.qry.jst of pmix.jobid: PMIX_SUCCESS",
            "pmix.qry.jst of pmix.session.id: PMIX_ERR_NOT_FOUND",
            "pmix.qry.jst: PMIX_SUCCESS [PMIX_STATUS]",
            "pmix.qry.lptable of pmix.hname: PMIX_ERR_NOT_FOUND",
            "pmix.qry.lptable of pmix.jobid: PMIX_ERR_NOT_FOUND",
            "pmix.qry.mem of pmix.jobid: PMIX_ERR_NOT_FOUND",
            "pmix.qry.mem: PMIX_SUCCESS [PMIX_DATA_ARRAY]",
            "pmix.qry.ns of pmix.session.id: PMIX_ERR_NOT_FOUND",
            "pmix.qry.ns: PMIX_SUCCESS [PMIX_STRING]",
            "pmix.qry.nsinfo of pmix.jobid: PMIX_ERR_NOT_FOUND",
            "pmix.qry.nsinfo: PMIX_SUCCESS [PMIX_DATA_ARRAY]",
            "pmix.qry.psetnum: PMIX_SUCCESS [PMIX_SIZE]",
            "pmix.qry.ptable of pmix.jobid: PMIX_ERR_NOT_FOUND",
            "pmix.qry.spawn: PMIX_SUCCESS [PMIX_STRING]",
            "pmix.rm.name: PMIX_SUCCESS [PMIX_STRING]",
            "rank 0 state 6 exit code 0 pid true",
            "rank 1 state 6 exit code 0 pid true",
            "the host supports PMIx_Allocation_request,PMIx_Get_credential,PMIx_Group_construct,PMIx_Job_control,\
             PMIx_Log,PMIx_Lookup,PMIx_Process_monitor,PMIx_Publish,PMIx_Query_info,PMIx_Session_control,PMIx_Spawn,\
             PMIx_Unpublish,PMIx_Validate_credential",
        ],
    );
}

#[test]
fn logs_go_to_our_output() {
    let ended = two(&["log", "words"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), "words\n"), "{ended:?}");
    let mut lines: Vec<_> = ended.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["email: PMIX_ERR_NOT_SUPPORTED", "no text: PMIX_ERR_BAD_PARAM", "words"]);
}

/// A run whose rank has started a job of two processes that would live for ever; the ids of these, and of the launcher.
fn with_children() -> (Job, Vec<nix::unistd::Pid>) {
    let program = services();
    let command = ["-n", "1", &program, "leave", "sh", "-c", "echo $$ $PPID; exec sleep 1000"];
    let mut job = Job::start(command, Stdio::null());
    let lines = [job.line(), job.line()];
    (job, lines.iter().flat_map(|line| numbers(line)).collect())
}

#[test]
fn nothing_of_a_spawned_job_survives_a_killed_launcher() {
    let (job, pids) = with_children();
    kill(pids[1], Signal::SIGKILL).unwrap();
    assert_eq!(job.finish().code, Some(137));
    assert!(ends(pids[0]) && ends(pids[2]));
}

#[test]
fn nothing_of_a_spawned_job_survives_a_killed_guardian() {
    let (mut job, pids) = with_children();
    job.send(Signal::SIGKILL);
    assert_eq!(job.wait().signal, Some(9));
    assert!(pids.into_iter().all(ends));
    job.assert_no_litter();
}
