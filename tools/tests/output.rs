//! Output of ranks, on its way to the user.
mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use common::{Job, ends, run, script};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn every_line_of_many_ranks_arrives_whole_and_in_its_ranks_order() {
    const RANKS: u32 = 16;
    const LINES: u32 = 10_000;
    let ended =
        script(RANKS, &format!("seq -f \"$OMPI_COMM_WORLD_RANK %.0f behind this number stands a text\" {LINES}"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut next = BTreeMap::new();
    for line in ended.stdout.lines() {
        let (rank, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        let (number, text) = rest.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        assert_eq!(text, "behind this number stands a text", "{line:?}");
        let expected = next.entry(rank.parse::<u32>().unwrap()).or_insert(1u32);
        assert_eq!(number.parse::<u32>().unwrap(), *expected, "{line:?}");
        *expected += 1;
    }
    assert_eq!(next, (0..RANKS).map(|rank| (rank, LINES + 1)).collect());
}

#[test]
fn both_streams_into_one_file_keep_their_lines() {
    let mut command = Command::new("sh");
    let text = "a line that is long enough to be torn apart when two writers meet in the middle of one of their writes";
    command
        .args(["-c", "exec \"$0\" run -n 4 sh -c \"seq -f '%.0f $1' 5000 >&2 & seq -f '%.0f $1' 5000; wait\" 2>&1"])
        .args([env!("CARGO_BIN_EXE_instanton"), text])
        .stdin(Stdio::null());
    let ended = Job::spawn(command).finish();
    assert_eq!(ended.stdout.lines().count(), 4 * 2 * 5000);
    assert!(ended.stdout.lines().all(|line| line.ends_with(text) && line.matches("a line").count() == 1));
}

#[test]
fn streams_are_kept_apart_and_tagged_on_request() {
    let ended = run(["-n", "2", "--tag-output", "sh", "-c", "echo out; echo err >&2; printf rest"]);
    let mut out: Vec<_> = ended.stdout.split_inclusive("out\n").collect();
    out.sort_unstable();
    assert!(ended.stdout.contains("[0]<stdout>: out\n") && ended.stdout.contains("[1]<stdout>: out\n"), "{ended:?}");
    assert!(ended.stderr.contains("[0]<stderr>: err\n") && ended.stderr.contains("[1]<stderr>: err\n"), "{ended:?}");
    assert!(ended.stdout.contains("[0]<stdout>: rest\n") && ended.stdout.contains("[1]<stdout>: rest\n"), "{ended:?}");
}

#[test]
fn lines_have_the_time_in_front_or_are_elements_of_xml() {
    let ended = run(["-n", "1", "--timestamp-output", "--tag-output", "echo", "words"]);
    let (time, rest) = ended.stdout.split_once(' ').unwrap();
    assert!(time.len() == 20 && time.ends_with('Z') && rest == "[0]<stdout>: words\n", "{ended:?}");
    let ended = run(["-n", "1", "--xml", "printf", "a < b\nrest"]);
    let (first, rest) = ended.stdout.split_once('\n').unwrap();
    assert!(
        first.starts_with("<stdout nspace=\"instanton-") && first.ends_with("@1\" rank=\"0\">a &lt; b</stdout>"),
        "{ended:?}"
    );
    assert!(rest.ends_with(">rest</stdout>\n"), "{ended:?}");
}

#[test]
fn a_last_line_without_an_end_is_kept_as_it_is() {
    assert_eq!(script(1, "printf 'a\\nb'").stdout, "a\nb");
    assert_eq!(script(3, "printf x").stdout, "xxx");
}

#[test]
fn a_rank_with_a_terminal_loses_nothing_when_it_is_killed() {
    // Python buffers what it writes into a pipe, and writes line by line to a terminal.
    let script = "import os, sys; print('greeting', sys.stdout.isatty()); os.kill(os.getpid(), 9)";
    let Ok(_) = Command::new("python3").arg("--version").output() else {
        return println!("SKIPPED a_rank_with_a_terminal_loses_nothing_when_it_is_killed: there is no python3");
    };
    for _ in 0..5 {
        let ended = run(["-n", "1", "--pty", "python3", "-c", script]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(137), "greeting True\n"), "{ended:?}");
    }
    let ended = run([
        "-n",
        "2",
        "--pty",
        "--merge-stderr-to-stdout",
        "sh",
        "-c",
        "printf 'a\\tb\\n' >&2; head -c 300000 /dev/zero",
    ]);
    assert_eq!((ended.code, ended.stdout.len(), ended.stderr.as_str()), (Some(0), 2 * 300_004, ""));
}

#[test]
fn a_full_output_is_a_failure() {
    let ended = Job::in_shell("\"$0\" run -n 1 echo words > /dev/full; echo $?").finish();
    assert_eq!(ended.stdout, "1\n");
    assert!(ended.stderr.contains("cannot write the output of the ranks"), "{ended:?}");
}

#[test]
fn lines_of_our_own_that_nobody_takes_change_nothing() {
    let ended = Job::in_shell("\"$0\" run -n 1 sh -c 'exit 7' 2> /dev/full; echo $?").finish();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("7\n", ""));
}

#[test]
fn output_that_nobody_reads_is_a_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    let script = "trap '' PIPE; echo words; exit 0";
    let output = command.args(["run", "-n", "1", "sh", "-c", script]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody reads the output"), "{output:?}");
}

/// Runs a command whose output and errors go into a pipe that is full and that nobody reads, until it has ended.
fn unread(arguments: &[&str], also: impl FnOnce(&Child)) -> Option<i32> {
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    command.args(arguments).stdin(Stdio::null()).stdout(writer.try_clone().unwrap());
    let flags = OFlag::from_bits_retain(fcntl(&writer, FcntlArg::F_GETFL).unwrap());
    fcntl(&writer, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    let mut child = command.stderr(writer).spawn().unwrap();
    also(&child);
    assert!(ends(Pid::from_raw(child.id() as i32)), "it hangs");
    child.wait().unwrap().code()
}

const CHATTERS: [&str; 5] = ["-n", "2", "sh", "-c", "yes & exec yes >&2"];

#[test]
fn a_time_limit_ends_a_job_whose_output_nobody_reads() {
    let words = |first: &[&'static str], rest: &[&'static str]| [first, rest].concat();
    assert_eq!(unread(&words(&["run", "--timeout", "1"], &CHATTERS), |_| ()), Some(124));
    // Nobody is left when the time is over.
    assert_eq!(
        unread(&["run", "--timeout", "2", "-n", "2", "sh", "-c", "echo words >&2; echo words"], |_| ()),
        Some(124)
    );
}

#[test]
fn a_signal_ends_a_job_whose_output_nobody_reads() {
    let started = std::env::temp_dir().join(format!("instanton-unread-{}", std::process::id()));
    let script = format!("touch {}; yes & exec yes >&2", started.display());
    let terminate = |child: &Child| {
        while !started.exists() {
            std::thread::yield_now();
        }
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    };
    assert_eq!(unread(&["run", "-n", "1", "sh", "-c", &script], terminate), Some(143));
    std::fs::remove_file(&started).unwrap();
}

#[test]
fn bytes_are_bytes() {
    let ended = run(["-n", "1", "sh", "-c", "head -c 3000000 /dev/zero"]);
    assert_eq!(ended.stdout.len(), 3_000_000);
}

#[test]
fn a_reader_who_leaves_ends_the_writers() {
    let ended = Job::in_shell("(\"$0\" run -n 2 yes; echo $? >&2) | head -n 1").finish();
    assert_eq!(ended.stdout, "y\n");
    assert!(ended.stderr.contains("SIGPIPE") && ended.stderr.ends_with("141\n"), "{ended:?}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    // The second goes on writing and dies of it, which must not pass for the reason.
    for program in ["echo words", "yes"] {
        let ended = Job::in_shell(&format!("exec \"$0\" run -n 2 {program} > /dev/full")).finish();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("cannot write the output of the ranks"), "{ended:?}");
    }
}

#[test]
fn what_a_rank_leaves_behind_may_finish_its_output() {
    let ended = script(
        1,
        "(read line < /proc/self/stat; kill -0 $$; while kill -0 $$ 2>/dev/null; do :; done; echo late) & echo soon",
    );
    assert_eq!(ended.stdout, "soon\nlate\n", "{ended:?}");
    assert_eq!(ended.code, Some(0));
}
