//! `instanton run` whom the system refuses something: it goes on by another way, or says in one line what was refused
//! and why, and leaves nothing.
#[path = "../../tests/processes/refusals.rs"]
#[allow(dead_code, reason = "the program that is refused something sees to that itself")]
mod refusals;

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, Job, example};
use nix::errno::Errno;
use nix::unistd::geteuid;
use refusals::can_refuse;

/// A user that nobody is: no process but those of one job has its rights. `of` tells the tests apart.
fn stranger(of: u32) -> u32 {
    100_000 + std::process::id() * 8 + of
}

/// `instanton run -n 2 PROGRAM` under faults.
fn command(faults: &[String], program: &[&str]) -> Command {
    let mut command = Command::new(example("refused"));
    command.args(faults).args(["--", env!("CARGO_BIN_EXE_instanton"), "run", "-n", "2"]).args(program);
    command.stdin(Stdio::null());
    command
}

fn run(faults: &[String], program: &[&str]) -> Ended {
    Job::spawn(command(faults, program)).finish()
}

/// Runs it as another user, who may do nothing that others may not.
fn run_by(uid: u32, faults: &[String], program: &[&str]) -> Ended {
    let mut command = command(faults, program);
    command.uid(uid).gid(uid);
    Job::spawn_in(command, |directory| std::os::unix::fs::chown(directory, Some(uid), Some(uid)).unwrap()).finish()
}

/// Returns whether jobs can be run by other users here; says so where not.
fn has_others(test: &str) -> bool {
    let others = || {
        let mut command = Command::new(example("refused"));
        let found = command.args(["--", env!("CARGO_BIN_EXE_instanton"), "--version"]).uid(stranger(7)).output();
        found.is_ok_and(|found| found.status.success())
    };
    let has = geteuid().is_root() && others();
    if !has {
        println!("SKIPPED {test}: it takes root, and a directory of programs that everybody may execute");
    }
    has
}

/// Says in one line of its own that the system has refused something, and why.
fn assert_named(what: &str, ended: &Ended, words: &[&str]) {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_named = lines.len() == 1 && lines[0].starts_with("instanton: ");
    assert!(is_named && ended.code.is_some_and(|code| code != 0), "{what}: {ended:?}");
    words.iter().for_each(|word| assert!(lines[0].contains(word), "{what}: no {word:?} in {ended:?}"));
}

fn assert_well(what: &str, ended: &Ended) {
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{what}: {ended:?}");
}

#[test]
fn a_call_that_is_refused_is_done_without_or_named_with_the_kernels_reason() {
    if !can_refuse() {
        return;
    }
    /// Words of the line that names the call, or none where all goes on without it.
    type Words = Option<&'static str>;
    let calls: [(&str, Words); 8] = [
        ("memfd_create", Some("memfd_create for")),
        ("fallocate", Some("fallocate for")),
        ("pidfd_open", None),
        ("futex_waitv", None),
        ("flock", None),
        ("epoll_create", Some("cannot poll")),
        ("clone", Some("cannot start a thread")),
        ("fork", Some("cannot start the")),
    ];
    let rank = example("rank");
    for (call, words) in calls {
        for errno in [Errno::EPERM, Errno::ENOSYS, Errno::ENOMEM, Errno::EAGAIN] {
            let fault = format!("{call}={}", errno as i32);
            let ended = run(std::slice::from_ref(&fault), &[rank.to_str().unwrap(), "say"]);
            // The C library has one reason for threads that lack memory.
            let errno = if call == "clone" && errno == Errno::ENOMEM { Errno::EAGAIN } else { errno };
            match words {
                None => assert_well(&fault, &ended),
                Some(words) => assert_named(&fault, &ended, &[words, &format!("(os error {})", errno as i32)]),
            }
        }
    }
}

#[test]
fn without_descriptors_a_line_says_what_lacks() {
    for count in (4..60).step_by(2) {
        let ended = run(&[format!("descriptors={count}")], &["true"]);
        match ended.stderr.contains("os error") {
            _ if ended.code == Some(0) => assert_well("descriptors", &ended),
            true => assert_named("descriptors", &ended, &["(os error 24)"]),
            false => assert_named(
                "descriptors",
                &ended,
                &["descriptors", &format!("no more than {count} are allowed (ulimit -Hn)")],
            ),
        }
    }
}

#[test]
fn without_processes_a_line_says_what_cannot_be_started() {
    if !has_others("without_processes_a_line_says_what_cannot_be_started") {
        return;
    }
    let run = |count: u32| run_by(stranger(0), &[format!("processes={count}")], &["true"]);
    for count in 1..24 {
        let ended = run(count);
        match ended.code {
            Some(0) => assert_well("processes", &ended),
            _ => assert_named(&format!("{count} processes"), &ended, &["start", "(os error 11)"]),
        }
    }
    assert_well("enough processes", &run(100));
}

#[test]
fn without_address_space_a_line_says_what_lacks() {
    // Besides the program itself, without which the kernel starts nothing.
    let program = fs::metadata(env!("CARGO_BIN_EXE_instanton")).unwrap().len();
    for megabytes in [12, 16, 24, 40, 64, 200] {
        let ended = run(&[format!("memory={}", program + (megabytes << 20))], &["true"]);
        // An allocation of Rust that fails ends its process: that is no limit that this command keeps to.
        let is_allocation = ended.stderr.contains("memory allocation of") || ended.stderr.contains("alternative stack");
        assert!((is_allocation || !ended.stderr.contains("panicked")) && ended.code.is_some(), "{ended:?}");
        match ended.code {
            Some(0) => assert_well("address space", &ended),
            _ if is_allocation => {}
            _ => assert_named("address space", &ended, &["(os error 1"]),
        }
    }
}

/// A group of processes of our own below the one that we are in, with a limit of memory.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Result<Group, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let find = |controller: &str| groups.lines().find_map(|line| line.split_once(controller).map(|(_, path)| path));
        let (place, file) = match find(":memory:") {
            Some(path) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
            None => (format!("/sys/fs/cgroup{}", find("0::").unwrap_or("/")), "memory.max"),
        };
        let group = Path::new(&place).join(format!("instanton-test-{}", std::process::id()));
        fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let group = Group(group);
        let limited = fs::write(group.0.join(file), limit.to_string());
        limited.map_err(|error| format!("{}/{file}: {error}", group.0.display()))?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody is left in it.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn where_a_groups_memory_is_used_up_a_line_says_who_was_killed() {
    let group = match Group::new(48 << 20) {
        Ok(group) => group,
        Err(why) => return println!("SKIPPED where_a_groups_memory_is_used_up: no group can be made: {why}"),
    };
    let fault = format!("cgroup={}", group.0.join("cgroup.procs").display());
    assert_well("a small job", &run(std::slice::from_ref(&fault), &["true"]));
    let eats = "[ $PMIX_RANK = 1 ] && exec dd if=/dev/zero of=/dev/null bs=200M count=1; exec sleep 1000";
    let ended = run(&[fault], &["sh", "-c", eats]);
    assert_named("a rank that eats", &ended, &["killed by signal 9"]);
}

#[test]
fn without_room_in_tmpdir_a_line_says_what_cannot_be_made() {
    let place = std::env::temp_dir().join(format!("instanton-small-{}", std::process::id()));
    fs::create_dir(&place).unwrap();
    let script = r#"mount -t tmpfs -o size=1m,nr_inodes=$1 none "$2" && echo mounted && shift 2 && "$@"
        status=$?; ls -A "$TMPDIR"; exit $status"#;
    for files in 1..10 {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", &files.to_string()]).arg(&place);
        command.args([env!("CARGO_BIN_EXE_instanton"), "run", "-n", "2", "true"]).env("TMPDIR", &place);
        let Some((ended, rest)) = in_namespace(command) else { break };
        assert_eq!(rest, "", "nothing is left: {ended:?}");
        match ended.code {
            Some(0) => assert_well("files", &ended),
            _ => assert_named(&format!("{files} files"), &ended, &["cannot make", "(os error 28)"]),
        }
    }
    fs::remove_dir(place).unwrap();
}

#[test]
fn a_file_that_takes_no_more_output_is_named_and_its_rank_goes_on() {
    let place = std::env::temp_dir().join(format!("instanton-full-{}", std::process::id()));
    fs::create_dir(&place).unwrap();
    let script = r#"mount -t tmpfs -o size=64k none "$1" && echo mounted && cd "$1" && shift && "$@""#;
    let writes = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero; echo end >&2";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(&place).arg(env!("CARGO_BIN_EXE_instanton"));
    command.args(["run", "-n", "2", "--output", "file=o:nocopy", "sh", "-c", writes]);
    if let Some((ended, rest)) = in_namespace(command) {
        assert_eq!((ended.code, rest.as_str()), (Some(1), ""), "{ended:?}");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let is_named = |line: &str| line.starts_with("instanton: cannot write /") && line.contains(".out: ");
        assert!(matches!(lines[..], [line] if is_named(line) && line.contains("(os error 28)")), "{ended:?}");
    }
    fs::remove_dir(place).unwrap();
}

/// Runs a script that says `mounted` first. Returns how it ended, and what it has said besides; nothing where a file
/// system cannot be mounted.
fn in_namespace(mut command: Command) -> Option<(Ended, String)> {
    let output = command.stdin(Stdio::null()).output();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = output.as_ref().map_or_else(|error| error.to_string(), |output| said(&output.stdout));
    let Some(rest) = stdout.strip_prefix("mounted\n") else {
        println!("SKIPPED without_room_in_tmpdir: a file system of its own takes root and unshare: {output:?}");
        return None;
    };
    let output = output.ok()?;
    let ended =
        Ended { code: output.status.code(), signal: None, stdout: stdout.clone(), stderr: said(&output.stderr) };
    Some((ended, rest.to_owned()))
}

#[test]
fn a_directory_of_files_that_vanishes_under_a_job_does_it_no_harm() {
    let mut job = Job::start(["-n", "2", "sh", "-c", "echo ready; read line; exit 0"], Stdio::piped());
    assert_eq!([job.line(), job.line()], ["ready", "ready"]);
    job.litter().iter().for_each(|left| fs::remove_dir_all(left).unwrap());
    let ended = job.finish();
    assert_well("its own directory", &ended);
    // The place of all such directories, too.
    let script = "rm -rf $TMPDIR; [ $PMIX_RANK = 0 ] && exit 3; exec sleep 1000";
    let mut job = Job::start(["-n", "2", "sh", "-c", script], Stdio::null());
    assert_named("the place", &job.wait(), &["rank 0", "code 3"]);
    assert!(!job.directory().exists());
}

#[test]
fn directories_without_rights_go_with_their_job_however_that_ends() {
    const TEST: &str = "directories_without_rights_go_with_their_job_however_that_ends";
    // Root needs no rights.
    if geteuid().is_root() && !has_others(TEST) {
        return;
    }
    let own = geteuid().as_raw();
    let uid = if own == 0 { stranger(1) } else { own };
    let shut = "mkdir -p $PMIX_SERVER_TMPDIR/1/$PMIX_RANK/a/b/c && cd / && \
                chmod 000 $PMIX_SERVER_TMPDIR/1/$PMIX_RANK/a/b $PMIX_SERVER_TMPDIR/1/$PMIX_RANK/a";
    for (then, code) in [("exit 0", 0), ("exit 4", 4), ("kill -9 $PPID; sleep 1000", 137)] {
        let ended = run_by(uid, &[], &["sh", "-c", &format!("{shut}; {then}")]);
        assert_eq!(ended.code, Some(code), "{then}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), usize::from(code != 0), "{then}: {ended:?}");
    }
}

#[test]
fn a_tmpdir_that_may_not_be_written_is_named() {
    if !has_others("a_tmpdir_that_may_not_be_written_is_named") {
        return;
    }
    let mut command = command(&[], &["true"]);
    command.uid(stranger(2)).gid(stranger(2));
    let shut = |directory: &Path| fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert_named("TMPDIR", &Job::spawn_in(command, shut).finish(), &["cannot make", "(os error 13)"]);
}
