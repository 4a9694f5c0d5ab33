//! `instanton doctor` in set-ups that are broken on purpose: each fault is found, by its id, and comes with what to do.
#[path = "../../tests/processes/refusals.rs"]
#[allow(dead_code, reason = "the program that is refused something sees to that itself")]
mod refusals;

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Job, example};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gethostname};
use refusals::can_refuse;
use serde_json::Value;

/// No state stays away for so long unless something is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// A temporary directory that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let unique = u32::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
        let path = std::env::temp_dir().join(format!("instanton-doctor-test-{unique:08x}"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// `instanton doctor --json` with a temporary directory in which nothing else is.
fn doctor(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    command.args(["doctor", "--json"]).env("TMPDIR", home);
    command
}

/// `instanton doctor --json` that is refused something.
fn refused(home: &Path, faults: &[String]) -> Command {
    let mut command = Command::new(example("refused"));
    command.args(faults).args(["--", env!("CARGO_BIN_EXE_instanton"), "doctor", "--json"]).env("TMPDIR", home);
    command
}

/// Its findings, and its status.
struct Report {
    findings: Vec<Value>,
    code: Option<i32>,
}

impl Report {
    fn of(command: &mut Command) -> Self {
        let output = output(command);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!((&report["schema"], &report["version"]), (&"instanton.doctor".into(), &1.into()));
        let findings = report["findings"].as_array().unwrap().clone();
        Self { findings, code: output.status.code() }
    }

    /// The findings of an id and a level whose text has these words.
    fn with(&self, level: &str, id: &str, words: &str) -> Vec<&Value> {
        let has = |finding: &&Value| {
            finding["level"] == level && finding["id"] == id && finding["text"].as_str().unwrap().contains(words)
        };
        self.findings.iter().filter(has).collect()
    }

    /// Shows that there is such a finding, and that it says what to do.
    fn assert_has(&self, level: &str, id: &str, words: &str) {
        let found = self.with(level, id, words);
        assert!(!found.is_empty(), "no {level} {id} with {words:?}: {:#?}", self.findings);
        if level != "ok" {
            assert!(found.iter().all(|finding| finding["advice"].as_str().unwrap().len() > 10), "{found:?}");
        }
        if level == "problem" {
            assert_eq!(self.code, Some(1));
        }
    }
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_sound_machine_has_what_jobs_need_and_nothing_is_left() {
    let home = Folder::new();
    let report = Report::of(&mut doctor(&home.0));
    for id in ["kernel.memfd", "tmpdir.write", "limits.memory"] {
        report.assert_has("ok", id, "");
    }
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 0);
    // For people: by subject, without colours where no terminal is.
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    let text = output(command.arg("doctor").env("TMPDIR", &home.0).env("COLUMNS", "80").env("LC_ALL", "C"));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.is_ascii() && !text.contains('\x1b') && text.contains("\nlimits\n"), "{text}");
}

#[test]
fn a_temporary_directory_that_is_not_there_or_takes_nothing() {
    let home = Folder::new();
    Report::of(&mut doctor(&home.0.join("none"))).assert_has("problem", "tmpdir.write", "No such file");
    Report::of(&mut doctor(Path::new("/proc"))).assert_has("problem", "tmpdir.write", "/proc");
    let long = home.0.join("l".repeat(90));
    fs::create_dir(&long).unwrap();
    Report::of(&mut doctor(&long)).assert_has("notice", "tmpdir.length", "too long");
}

/// Only a namespace of one's own lets who is not root mount something.
#[test]
fn a_temporary_directory_that_is_full() {
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.arg(env!("CARGO_BIN_EXE_instanton"));
        command
    };
    let home = Folder::new();
    let mount = r#"mount -t tmpfs -o size=64k none "$TMPDIR""#;
    if !output(inside(mount).env("TMPDIR", &home.0)).status.success() {
        eprintln!("SKIPPED: no file system can be mounted here");
        return;
    }
    let report = Report::of(inside(&format!(r#"{mount} && exec "$0" doctor --json"#)).env("TMPDIR", &home.0));
    report.assert_has("problem", "tmpdir.space", "is full");
}

#[test]
fn a_topology_library_that_is_none() {
    let home = Folder::new();
    fs::write(home.0.join("libhwloc.so.15"), "words").unwrap();
    let report = Report::of(doctor(&home.0).env("LD_LIBRARY_PATH", &home.0));
    report.assert_has("notice", "hwloc", "cannot be loaded");
}

#[test]
fn limits_that_are_too_low() {
    let home = Folder::new();
    let report = Report::of(&mut refused(&home.0, &["descriptors=64".into()]));
    report.assert_has("problem", "limits.descriptors", "64");
    let mut command = Command::new("sh");
    let script = r#"ulimit -l 16; ulimit -v 900000; exec "$0" doctor --json"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_instanton")]).env("TMPDIR", &home.0);
    let report = Report::of(&mut command);
    report.assert_has("problem", "limits.address_space", "921600000 bytes");
    report.assert_has("notice", "limits.locked_memory", "16384 bytes");
}

#[test]
fn calls_that_the_kernel_refuses() {
    if !can_refuse() {
        return;
    }
    let home = Folder::new();
    let fault = |call: &str, errno: Errno| format!("{call}={}", errno as i32);
    let report = Report::of(&mut refused(&home.0, &[fault("memfd_create", Errno::EPERM)]));
    report.assert_has("problem", "kernel.memfd", "memfd_create");
    report.assert_has("problem", "kernel.memfd", "a seccomp filter is active");
    let faults = [fault("pidfd_open", Errno::EPERM), fault("futex_waitv", Errno::ENOSYS)];
    let report = Report::of(&mut refused(&home.0, &faults));
    report.assert_has("notice", "kernel.pidfd", "not permitted");
    report.assert_has("notice", "kernel.futex_waitv", "not implemented");
}

#[test]
fn variables_that_lead_nowhere() {
    let home = Folder::new();
    let trace = home.0.join("none/trace");
    let report = Report::of(doctor(&home.0).env("INSTANTON_TRACE", &trace).env("INSTANTON_SHM", "off"));
    report.assert_has("problem", "environment.trace", "none/trace cannot be written");
    report.assert_has("notice", "environment.shm", "INSTANTON_SHM=off");
    // Left over from a job whose server has ended.
    let address = "1;6a;0;0;instanton-no-such-door;;".to_owned() + &"00".repeat(32) + ";";
    let mut command = doctor(&home.0);
    command.env("INSTANTON_SERVER", address).env("PMIX_NAMESPACE", "j").env("PMIX_RANK", "0");
    Report::of(&mut command).assert_has("problem", "environment.server", "instanton-no-such-door");
    command.env("PMIX_RANK", "x");
    Report::of(&mut command).assert_has("problem", "environment.server", "PMIX_RANK");
}

#[test]
fn a_library_of_unknown_origin_and_a_program_that_is_not_there() {
    let home = Folder::new();
    // A library that the loader takes, and that says no release.
    let libc = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = libc.lines().find_map(|line| line.split(' ').next_back().filter(|path| path.contains("/libc.so.6")));
    symlink(libc.expect("a program of glibc"), home.0.join("libpmix.so.2")).unwrap();
    let report = Report::of(doctor(&home.0).env("LD_LIBRARY_PATH", &home.0));
    report.assert_has("notice", "library.path", "of an unknown release");
    // And two that it does not take.
    let lead = |bytes: &[u8]| {
        let folder = home.0.join("lib");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("libpmix.so.2"), bytes).unwrap();
        Report::of(doctor(&home.0).env("LD_LIBRARY_PATH", folder))
    };
    let mut foreign = fs::read("/bin/sh").unwrap();
    foreign[18] ^= 0xff;
    lead(&foreign).assert_has("notice", "library.path", "for another kind of machine");
    lead(b"words").assert_has("problem", "library.path", "which is no library");
    let report = Report::of(doctor(&home.0).args(["--program", "/no/such/program"]));
    report.assert_has("problem", "program.absent", "/no/such/program");
    // One whose loader does not find all of its libraries.
    let code = home.0.join("prog.c");
    fs::write(&code, "int main(void) { return 0; }\n").unwrap();
    let at = |name: &str| home.0.join(name).into_os_string();
    let cc = |words: &[std::ffi::OsString]| assert!(Command::new("cc").args(words).status().unwrap().success());
    cc(&["-shared".into(), "-o".into(), at("libabsent.so"), code.clone().into()]);
    cc(&["-o".into(), at("prog"), code.into(), "-Wl,--no-as-needed".into(), at("libabsent.so")]);
    fs::remove_file(home.0.join("libabsent.so")).unwrap();
    let report = Report::of(doctor(&home.0).arg("--program").arg(at("prog")));
    report.assert_has("problem", "program.incomplete", "libabsent.so");
    let report = Report::of(doctor(&home.0).args(["--program", "sh"]));
    report.assert_has("ok", "program.library", "sh");
}

#[test]
fn a_program_that_cannot_be_started() {
    let home = Folder::new();
    let make = |name: &str, bytes: &[u8], mode: u32| {
        fs::write(home.0.join(name), bytes).unwrap();
        fs::set_permissions(home.0.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    make("plain", b"#!/bin/sh\n", 0o644);
    make("script", b"#!/no/such/interpreter -x\n", 0o755);
    make("windows", b"#!/bin/sh\r\n", 0o755);
    make("nameless", b"#!\n", 0o755);
    make("text", b"words\n", 0o755);
    let mut foreign = fs::read("/bin/sh").unwrap();
    foreign[18] ^= 0xff;
    make("foreign", &foreign, 0o755);
    symlink("gone", home.0.join("link")).unwrap();
    for (name, id, words) in [
        ("", "program.unstartable", "is a directory"),
        ("plain", "program.unstartable", "is not executable for you"),
        ("script", "program.unstartable", "/no/such/interpreter, is not there"),
        ("windows", "program.unstartable", "carriage return"),
        ("nameless", "program.unstartable", "names no interpreter"),
        ("text", "program.unstartable", "neither a program nor a script"),
        ("foreign", "program.unstartable", "no program for this machine"),
        ("link", "program.absent", "is a link to gone, which is not there"),
        ("none", "program.absent", "there is no such file"),
    ] {
        let report = Report::of(doctor(&home.0).arg("--program").arg(home.0.join(name)));
        report.assert_has("problem", id, words);
    }
    Report::of(doctor(&home.0).args(["--program", "none-such-anywhere"])).assert_has(
        "problem",
        "program.absent",
        "there is no such program in PATH",
    );
    make("script", b"#!/bin/sh\n", 0o755);
    let report = Report::of(doctor(&home.0).arg("--program").arg(home.0.join("script")));
    report.assert_has("notice", "program.unlinked", "is a script");
}

#[test]
fn files_of_a_stock_server_that_was_killed() {
    let home = Folder::new();
    let host = gethostname().unwrap().into_string().unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let file = home.0.join(format!("pmix.{host}.tool.17"));
    fs::write(file, format!("dvm@0.0;tcp4://127.0.0.1:{port}\n5.0.11rc1\n17\n0:0\n\n")).unwrap();
    Report::of(&mut doctor(&home.0)).assert_has("notice", "server.stale", "dvm@0.0");
}

/// Starts four ranks of which three wait in a fence; their processes.
fn hanging() -> (Job, Vec<Pid>) {
    let hang = example("hang");
    let script = format!(r#"exec "$0" run -n 4 sh -c 'echo $$; exec {} fence' 2>&1"#, hang.to_str().unwrap());
    let mut job = Job::in_shell(&script);
    let mut pids: Vec<Option<Pid>> = Vec::new();
    for _ in 0..8 {
        pids.push(job.line().parse().ok().map(Pid::from_raw));
    }
    let mut pids: Vec<Pid> = pids.into_iter().flatten().collect();
    let rank = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
        let found = environment.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(b"PMIX_RANK="));
        String::from_utf8(found.unwrap().to_vec()).unwrap().parse::<u32>().unwrap()
    };
    pids.sort_by_key(rank);
    (job, pids)
}

#[test]
fn a_rank_that_waits_one_that_is_stopped_and_a_server_that_hangs() {
    let (job, ranks) = hanging();
    let home = Folder::new();
    let about = |pid: Pid| Report::of(doctor(&home.0).arg(pid.to_string()));
    // A rank may be on its way into its call, and a process may stop a little after the signal.
    let until_it_has = |pid: Pid, level: &str, id: &str, words: &str| {
        let until = Instant::now() + DEADLINE;
        loop {
            let report = about(pid);
            if !report.with(level, id, words).is_empty() {
                return report;
            }
            assert!(Instant::now() < until, "{:#?}", report.findings);
        }
    };
    let report = until_it_has(ranks[0], "notice", "process.waits", "waits in fence for rank 3 since");
    report.assert_has("ok", "process.server", "(inst-launcher)");
    report.assert_has("ok", "process.library", "the Rust crate");
    report.assert_has("ok", "process.attached", "reads its job in shared memory");
    report.assert_has("ok", "server.reached", &format!("process {}", job.pid()));
    kill(ranks[3], Signal::SIGSTOP).unwrap();
    until_it_has(ranks[3], "problem", "process.stopped", "is stopped by a signal").assert_has(
        "problem",
        "process.stopped",
        "",
    );
    kill(ranks[3], Signal::SIGCONT).unwrap();
    let launcher = about(job.pid());
    launcher.assert_has("ok", "process.launcher", "has 4 processes of ranks below it");

    // The server is the process that has started the ranks. Others that hang keep nobody from being asked.
    let server_of = |rank: Pid| {
        let status = fs::read_to_string(format!("/proc/{rank}/status")).unwrap();
        Pid::from_raw(status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap())
    };
    let others = [hanging(), hanging()];
    others.iter().for_each(|(_, ranks)| kill(server_of(ranks[0]), Signal::SIGSTOP).unwrap());
    let report = about(ranks[0]);
    for (other, ranks) in others {
        kill(server_of(ranks[0]), Signal::SIGCONT).unwrap();
        other.send(Signal::SIGTERM);
        other.finish();
    }
    report.assert_has("notice", "process.waits", "waits in fence for rank 3 since");
    let parent = server_of(ranks[0]).as_raw();
    kill(Pid::from_raw(parent), Signal::SIGSTOP).unwrap();
    let begin = Instant::now();
    let report = about(ranks[0]);
    let took = begin.elapsed();
    kill(Pid::from_raw(parent), Signal::SIGCONT).unwrap();
    report.assert_has("problem", "server.silent", &format!("process {}", job.pid()));
    report.assert_has("problem", "server.silent", &format!("process {parent} (inst-launcher) is stopped by a signal"));
    // It ends by its own clock, in 10 s where there is a processor for it.
    assert!(took < DEADLINE, "{took:?}");
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

#[test]
fn a_process_that_is_none() {
    let home = Folder::new();
    let report = Report::of(doctor(&home.0).arg(i32::MAX.to_string()));
    report.assert_has("problem", "process.unseen", "there is no process");
    // One without ranks below it, as this one has them.
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let report = Report::of(doctor(&home.0).arg(other.id().to_string()));
    other.kill().unwrap();
    other.wait().unwrap();
    report.assert_has("notice", "process.library", "has loaded no libpmix.so.2");
}
