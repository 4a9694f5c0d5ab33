//! `instanton inspect`: what lies in a job's shared memory, and segments that are damaged on purpose.
mod common;

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use common::{Job, example};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use serde_json::Value;

fn inspect(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    command.arg("inspect").args(arguments).env_remove("COLUMNS").stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn report(arguments: &[&str]) -> Value {
    let output = inspect(&[arguments, &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!((&report["schema"], &report["version"]), (&"instanton.inspect".into(), &1.into()));
    report["jobs"].clone()
}

/// Text of the environment of a process.
fn variable(pid: &str, name: &str) -> String {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let name = format!("{name}=");
    let found = environment.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(name.as_bytes()));
    String::from_utf8(found.unwrap().to_vec()).unwrap()
}

#[test]
fn segments_and_values_of_a_job_that_runs() {
    let rank = example("rank");
    let script = format!(r#"exec "$0" run -n 3 {} put my.key value"#, rank.to_str().unwrap());
    let mut job = Job::in_shell(&script);
    let pids = [job.line(), job.line(), job.line()];
    let nspace = variable(&pids[0], "PMIX_NAMESPACE");
    // By namespace, by a rank, which holds no descriptor any more, and by the process that the user knows.
    for target in [&nspace, &pids[0], &job.pid().to_string()] {
        let jobs = report(&[target]);
        let [found] = &jobs.as_array().unwrap()[..] else { panic!("{jobs}") };
        assert_eq!((found["namespace"].as_str(), found["processes"].as_u64()), (Some(&nspace[..]), Some(3)));
        assert_eq!(found["posted"], serde_json::json!(["0-2"]));
        let kinds: Vec<&str> =
            found["segments"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["job", "info", "modex", "hidden"], "{found}");
        assert!(found["segments"].as_array().unwrap().iter().all(|segment| segment["fault"].is_null()), "{found}");
        let size = found["values"].as_array().unwrap().iter().find(|row| row["key"] == "pmix.job.size");
        assert_eq!(size.unwrap()["value"], "3");
    }
    for asked in [["--key", "no.such.key"], ["--rank", "99"]] {
        let none = inspect(&[&[&nspace[..]], &asked[..]].concat());
        assert!(none.status.success() && text(&none).contains("no such value is there"), "{}", text(&none));
    }
    let values = |arguments: &[&str]| -> Vec<(Value, Value, Value)> {
        let jobs = report(&[&[&nspace[..]], arguments].concat());
        let rows = jobs[0]["values"].as_array().unwrap().clone();
        rows.into_iter().map(|row| (row["rank"].clone(), row["value"].clone(), row["from"].clone())).collect()
    };
    let expected = |rank: u32| (rank.into(), format!("\"value {rank}\"").into(), "rank".into());
    assert_eq!(values(&["--key", "my.key"]), [0, 1, 2].map(expected));
    assert_eq!(values(&["--key", "my.key", "--rank", "1-2"]), [1, 2].map(expected));
    assert_eq!(values(&["--key", "PMIX_JOB_SIZE", "--rank", "job"]), [(Value::Null, "3".into(), "host".into())]);
    assert!(values(&["--rank", "2"]).contains(&expected(2)));
    // Data for other nodes alone is found by no look-up.
    assert_eq!(values(&["--key", "elsewhere"]), []);
    let shown = inspect(&[&nspace, "--verify", "--key", "my.key"]);
    let shown = (shown.status.code(), text(&shown));
    assert_eq!(shown.0, Some(0), "{}", shown.1);
    assert!(
        shown.1.contains("ranks 0-2 posted") && shown.1.contains("##") && shown.1.contains("\"value 2\""),
        "{}",
        shown.1
    );
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

/// Memory with a segment's name and these bytes; it cannot be resized if it is sealed.
fn memory(name: &str, bytes: &[u8], is_sealed: bool) -> OwnedFd {
    let memory =
        memfd_create(&*CString::new(name).unwrap(), MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC).unwrap();
    let mut file = File::from(memory);
    file.write_all(bytes).unwrap();
    if is_sealed {
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW)).unwrap();
    }
    file.into()
}

/// Words with a valid header, and something else behind it.
fn headed(kind: u32, number: u64, rest: u64, words: usize) -> Vec<u8> {
    let (magic, version) = (instanton_layout::header::MAGIC, instanton_layout::header::VERSION);
    let mut header = vec![magic, u64::from(version) | u64::from(kind) << 32, words as u64 * 8, 7, number, 4, 0];
    header.push(u64::from(instanton_layout::crc::of(&header)));
    header.resize(words, rest);
    header.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_damaged_or_foreign_segment_is_an_error_that_names_it() {
    let name = |kind: &str, job: &str| format!("instanton-{kind}:{job}-{}", std::process::id());
    // Nothing of ours; not sealed; a header alone; words that lead anywhere; segments that are enormous to hear them.
    let cases = [
        ("garbage", vec![memory(&name("job", "garbage"), &[0x5a; 4096], true)], "not a segment of ours"),
        ("unsealed", vec![memory(&name("job", "unsealed"), &headed(1, 0, 0, 512), false)], "not sealed"),
        ("empty", vec![memory(&name("job", "empty"), &[], true)], "0 bytes"),
        (
            "wild",
            vec![
                memory(&name("job", "wild"), &headed(1, 0, 0x0000_0001_ffff_fff8, 512), true),
                memory(&name("info", "wild"), &headed(2, 1, u64::MAX, 512), true),
                memory(&name("modex", "wild"), &headed(3, 1, u64::MAX, 512), true),
            ],
            "info",
        ),
        (
            "other",
            vec![
                memory(&name("job", "other"), &headed(1, 0, 0, 512), true),
                memory(&name("modex", "other"), &headed(9, 1, 0, 512), true),
            ],
            "segment kind 9 is unknown",
        ),
    ];
    for (job, _held, fault) in &cases {
        let nspace = format!("{job}-{}", std::process::id());
        for more in [&["--rank", "all"][..], &["--key", "a"], &["--verify"]] {
            let output = inspect(&[&[&nspace[..]], more].concat());
            assert_eq!(output.status.code(), Some(1), "{}", text(&output));
            assert!(text(&output).contains("DAMAGED: ") && text(&output).contains(fault), "{}", text(&output));
        }
    }
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    for (arguments, code, line) in [
        (
            &["no.such.namespace@1"][..],
            1,
            "no process that you may look at holds memory of namespace no.such.namespace@1",
        ),
        (&["2147483647"], 1, "there is no process 2147483647"),
        (&["x", "--rank", "three"], 2, "--rank three: 0,2-5, all or job is meant"),
        (&["x", "--key", ""], 2, "--key"),
    ] {
        let output = inspect(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(line) && text(&output).lines().count() == 1, "{}", text(&output));
    }
}

#[test]
fn named_segments_are_read_by_their_path_also_when_their_writer_is_gone() {
    use instanton::data::{Key, Nspace, Posted, Rank, Scope};
    use instanton::store::named::{Claim, Readers};
    use instanton::store::{JobInfo, JobWriter, Limits};
    let folder = std::env::temp_dir().join(format!("instanton-inspect-{}", std::process::id()));
    let (path, left) = (folder.join("alive"), folder.join("left"));
    std::fs::create_dir_all(&left).unwrap();
    let nspace = Nspace::new("embedded@1").unwrap();
    let info = JobInfo::from_infos(&nspace, 2, &[], "here").unwrap();
    let claim = Claim::new(&path, Readers::User).unwrap();
    let mut writer =
        JobWriter::create_named(&nspace, info, &Limits::default(), claim).map_err(|(error, _)| error).unwrap();
    writer.update(Rank(1), &[Posted::new(Scope::GLOBAL, Key::new("my.key").unwrap(), "of rank 1")]).unwrap();
    // The same files, without a writer.
    for name in ["job", "info.1", "modex.1"] {
        std::fs::copy(path.join(name), left.join(name)).unwrap();
    }
    for (path, lives) in [(&path, true), (&left, false)] {
        let jobs = report(&[path.to_str().unwrap(), "--key", "my.key"]);
        let found = &jobs[0];
        assert_eq!((&found["namespace"], &found["lives"]), (&"embedded@1".into(), &lives.into()), "{found}");
        assert_eq!((&found["pid"], &found["path"]), (&Value::Null, &path.to_str().unwrap().into()));
        assert_eq!(found["values"][0]["value"], "\"of rank 1\"", "{found}");
    }
    let shown = inspect(&[left.to_str().unwrap()]);
    assert!(shown.status.success() && text(&shown).contains("whose writer is gone"), "{}", text(&shown));

    // A file that is cut is damage, and not the end of the command.
    File::options().write(true).open(left.join("modex.1")).unwrap().set_len(128).unwrap();
    let shown = inspect(&[left.to_str().unwrap()]);
    assert!(shown.status.code() == Some(1) && text(&shown).contains("DAMAGED"), "{}", text(&shown));
    assert_eq!(inspect(&[folder.to_str().unwrap()]).status.code(), Some(1));
    drop(writer);
    std::fs::remove_dir_all(folder).unwrap();
}
