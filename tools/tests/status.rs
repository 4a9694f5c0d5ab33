//! The exit status of `instanton run` and the line that explains it.
mod common;

use std::os::unix::fs::PermissionsExt;

use common::{Ended, Job, run, script};

/// There is one line of ours, and it says this.
fn assert_says(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let lines: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("instanton: ")).collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    for word in words {
        assert!(lines[0].contains(word), "{word:?} is not in {:?}", lines[0]);
    }
}

#[test]
fn programs_that_know_nothing_of_pmix_just_run() {
    let ended = run(["-n", "4", "true"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn what_a_line_of_ours_names_commands_no_terminal() {
    let ended = run(["-n", "1", "./\x1b[2Jnone\u{9b}1m\n"]);
    assert_says(&ended, 127, &[r"could not be started: ./\u{1b}[2Jnone\u{9b}1m\n: "]);
}

#[test]
fn the_first_rank_that_fails_ends_the_others() {
    let ended = script(4, "[ $OMPI_COMM_WORLD_RANK = 2 ] && exit 3; exec sleep 1000");
    assert_says(&ended, 3, &["rank 2 on node", "exited with code 3"]);
}

#[test]
fn a_signal_is_128_and_its_number() {
    let ended = script(3, "[ $OMPI_COMM_WORLD_RANK = 1 ] && kill -SEGV $$; exec sleep 1000");
    assert_says(&ended, 128 + 11, &["rank 1 on node", "SIGSEGV"]);
}

#[test]
fn a_real_time_signal_ends_a_job_like_any_other() {
    let ended = script(3, "[ $OMPI_COMM_WORLD_RANK = 1 ] && kill -40 $$; exec sleep 1000");
    assert_says(&ended, 128 + 40, &["rank 1 on node", "signal 40"]);
}

#[test]
fn what_the_failed_rank_has_started_ends_with_it() {
    let ended = script(1, "sleep 1000 & echo $!; exit 3");
    assert_says(&ended, 3, &["rank 0"]);
    let helper = nix::unistd::Pid::from_raw(ended.stdout.trim().parse().unwrap());
    assert!(nix::sys::signal::kill(helper, None).is_err(), "{helper} lives");
}

#[test]
fn who_is_born_while_the_job_ends_is_asked_to_end_too() {
    let script = "there=$PMIX_SERVER_TMPDIR/there
        until_there() { until [ -e $there.$1 ]; do :; done; }
        if [ $OMPI_COMM_WORLD_RANK = 0 ]; then until_there rank; exit 5; fi
        child() { trap 'echo asked; exit' TERM; touch $there.child; while :; do sleep 1000 & wait; done; }
        trap 'child & until_there child; exit' TERM
        touch $there.rank; while :; do :; done";
    let ended = run(["-n", "2", "sh", "-c", script]);
    assert_says(&ended, 5, &["rank 0"]);
    assert_eq!(ended.stdout, "asked\n");
}

#[test]
fn few_descriptors_do_for_few_ranks() {
    let with_64 = |ranks: u32| Job::in_shell(&format!("ulimit -n 64; exec \"$0\" run -n {ranks} true")).finish();
    assert_eq!(with_64(4).code, Some(0));
    assert_says(&with_64(400), 1, &["400 ranks", "64"]);
}

#[test]
fn who_ignores_the_request_to_end_is_killed() {
    let script = "deaf=$PMIX_SERVER_TMPDIR/deaf
        if [ $OMPI_COMM_WORLD_RANK = 0 ]; then until [ -e $deaf ]; do :; done; exit 5; fi
        trap '' TERM; touch $deaf; while :; do sleep 1000; done";
    let ended = run(["-n", "2", "sh", "-c", script]);
    assert_says(&ended, 5, &["rank 0"]);
}

#[test]
fn no_such_program() {
    assert_says(&run(["-n", "2", "no-such-program"]), 127, &["rank 0 on node", "no-such-program"]);
    assert_says(&run(["./no/such"]), 127, &["./no/such"]);
    assert_says(&run(["true", ":", "-n", "2", "no-such-program"]), 127, &["rank 1 on node"]);
}

#[test]
fn no_such_directory() {
    assert_says(&run(["--wdir", "/no/such", "true"]), 1, &["rank 0 on node", "/no/such"]);
    assert_says(&run(["true", ":", "--wdir", "/etc/passwd", "true"]), 1, &["rank 1 on node", "/etc/passwd"]);
}

#[test]
fn a_file_that_cannot_be_executed_is_told_from_one_that_is_not_there() {
    let ended = Job::in_shell(
        "cd $TMPDIR; printf '#!/no/interpreter\\n' > script; chmod +x script; \"$0\" run ./script; echo $?; rm script",
    )
    .finish();
    assert_eq!(ended.stdout, "126\n", "{ended:?}");
    assert!(ended.stderr.contains("/no/interpreter, is not there"), "{ended:?}");
}

#[test]
fn a_name_that_is_not_in_the_path_is_looked_for_in_the_directory_to_run_in() {
    let ended = Job::in_shell(
        "cd $TMPDIR; printf '#!/bin/sh\\necho $1\\n' > hello; chmod +x hello
         \"$0\" run hello here; cd /; \"$0\" run --wdir $OLDPWD hello there; \"$0\" run hello; echo $?; rm $OLDPWD/hello",
    )
    .finish();
    assert_eq!(ended.stdout, "here\nthere\n127\n", "{ended:?}");
    assert!(ended.stderr.contains("there is no such program in PATH, nor in /"), "{ended:?}");
}

#[test]
fn a_directory_that_is_gone_matters_to_those_who_run_in_it() {
    let ended = Job::in_shell(
        "mkdir $TMPDIR/d; cd $TMPDIR/d; rmdir $TMPDIR/d; \"$0\" run --wdir / pwd; \"$0\" run pwd; echo $?",
    )
    .finish();
    assert_eq!(ended.stdout, "/\n1\n", "{ended:?}");
    assert!(ended.stderr.contains("the working directory is gone; change to another"), "{ended:?}");
}

#[test]
fn no_program() {
    assert_says(&run(["/etc/passwd"]), 126, &["/etc/passwd"]);
    assert_says(&run(["/"]), 126, &["is a directory"]);
    let foreign = std::env::temp_dir().join(format!("instanton-foreign-{}", std::process::id()));
    let mut program = std::fs::read("/bin/sh").unwrap();
    // The number of a machine that nobody has.
    program[18..20].copy_from_slice(&[0xad, 0xde]);
    std::fs::write(&foreign, program).unwrap();
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_says(&run([&foreign]), 126, &["no program for this machine"]);
    std::fs::remove_file(foreign).unwrap();
}

#[test]
fn a_timeout_is_124() {
    let ended = run(["-n", "2", "--timeout", "0.2", "sleep", "1000"]);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(ended.stderr.ends_with("instanton: the job ran longer than 0.2 s and was ended\n"), "{ended:?}");
    assert_eq!(run(["--timeout", "1000", "true"]).code, Some(0));
    assert_eq!(run(["--timeout", "1e15", "true"]).code, Some(0));
}

#[test]
fn a_command_line_that_makes_no_sense_is_2() {
    let ended = run(["-n", "2"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("PROGRAM"), "{ended:?}");
    assert_eq!(run(["--help"]).code, Some(0));
}

#[test]
fn the_launcher_does_nothing_without_its_guardian() {
    let directory = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("not-a-session");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("file"), "precious").unwrap();
    // Nothing is there, what it was given is no socket, and its standard streams are the user's.
    for number in ["999", "7", "0"] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 7< /dev/null", env!("CARGO_BIN_EXE_instanton")]);
        command.args(["launch", "--guardian", number, "--session"]).args([directory.as_os_str(), "true".as_ref()]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("the guardian does not answer"), "{output:?}");
        assert!(directory.join("file").exists());
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_limit_of_memory_that_is_none_is_named() {
    let ended = Job::in_shell("INSTANTON_JOB_MEMORY=lots exec \"$0\" run -n 1 true").finish();
    assert_says(&ended, 1, &["INSTANTON_JOB_MEMORY=lots", "128M"]);
    let ended = Job::in_shell("INSTANTON_JOB_MEMORY=64M exec \"$0\" run --job-memory 128M -n 1 true").finish();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

/// Of another user, because root has no such limit.
#[test]
fn a_refused_process_or_thread_is_named_in_one_line() {
    if !nix::unistd::geteuid().is_root() {
        return println!("SKIPPED a_refused_process_or_thread_is_named_in_one_line: only root is another user");
    }
    for limit in 1..=12 {
        let script = format!(
            "chown 54321 $TMPDIR; cp \"$0\" $TMPDIR/command; cd /
             (exec prlimit --nproc={limit} setpriv --reuid 54321 --regid 54321 --clear-groups $TMPDIR/command run -n 2 true)
             code=$?; rm $TMPDIR/command; exit $code"
        );
        let ended = Job::in_shell(&script).finish();
        match ended.code {
            Some(0) => assert_eq!(ended.stderr, ""),
            _ => assert_says(&ended, 1, &["os error 11"]),
        }
        assert!(ended.stderr.lines().count() <= 1, "{limit}: {ended:?}");
    }
}
