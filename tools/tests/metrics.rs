//! Counters of a run, scraped from a socket and read from a file.
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Job, example};
use nix::sys::signal::Signal;

/// No value stays away for so long unless something is broken.
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks a socket as a scraper does; the head and the body of its answer.
fn scrape(path: &Path, question: &str) -> (String, String) {
    let mut socket = UnixStream::connect(path).unwrap();
    socket.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

const QUESTION: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Samples of the text form, by name and labels. Each has its help and its type before it, as scrapers want it.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let mut described = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "HELP", name, ..] => _ = described.insert(name, false),
            ["#", "TYPE", name, "gauge" | "counter"] => *described.get_mut(name).expect("help comes first") = true,
            [_, ..] => {
                let (sample, value) = line.rsplit_once(' ').unwrap();
                let name = sample.split('{').next().unwrap();
                assert_eq!(described.get(name), Some(&true), "{line}");
                samples.insert(sample.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
            }
            _ => panic!("{line:?}"),
        }
    }
    samples
}

fn place(name: &str) -> PathBuf {
    let unique = u32::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
    std::env::temp_dir().join(format!("instanton-metrics-{name}-{unique:08x}"))
}

/// Four ranks of which three wait in a fence.
fn hanging(to: &str) -> Job {
    let script = format!(r#"exec "$0" run --metrics {to} -n 4 {} fence 2>&1"#, example("hang").to_str().unwrap());
    let mut job = Job::in_shell(&script);
    for _ in 0..4 {
        assert_eq!(job.line(), "ready");
    }
    job
}

/// The value of the one sample of a name with a label.
fn value(samples: &BTreeMap<String, u64>, name: &str, label: &str) -> Option<u64> {
    let is_meant = |sample: &&String| sample.split('{').next() == Some(name) && sample.contains(label);
    samples.iter().find(|(sample, _)| is_meant(sample)).map(|(_, value)| *value)
}

#[test]
fn a_socket_is_scraped_and_goes_with_the_run() {
    let path = place("socket");
    let job = hanging(&format!("unix:{}", path.display()));
    let until = Instant::now() + DEADLINE;
    let seen = loop {
        let (head, body) = scrape(&path, QUESTION);
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        let seen = samples(&body);
        if value(&seen, "instanton_waiting_processes", "call=\"fence\"") == Some(3) {
            break seen;
        }
        assert!(Instant::now() < until, "{body}");
    };
    assert_eq!(value(&seen, "instanton_up", ""), Some(1));
    assert_eq!(value(&seen, "instanton_processes", "state=\"running\""), Some(1));
    assert_eq!(value(&seen, "instanton_requests_total", "kind=\"a fence\""), Some(3));
    assert_eq!(value(&seen, "instanton_job_attached", "@1"), Some(4));
    let shared = |name: &str| value(&seen, name, "@1").unwrap();
    assert!(shared("instanton_job_shared_bytes") > 4096 && shared("instanton_job_generation") == 1);
    assert!(shared("instanton_job_shared_bytes") < shared("instanton_job_shared_limit_bytes"));
    assert!(value(&seen, "instanton_resident_bytes", "").unwrap() > 1 << 20);
    assert!(value(&seen, "instanton_build", "version=\"0").is_some());
    // Each is documented.
    let documents = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/DIAGNOSIS.md")).unwrap();
    for name in seen.keys().map(|sample| sample.split('{').next().unwrap()) {
        assert!(documents.contains(&format!("`{name}`")), "{name} is documented nowhere");
    }
    let (head, _) = scrape(&path, "POST / HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    // One that asks nothing keeps nobody waiting for long.
    let silent = UnixStream::connect(&path).unwrap();
    assert!(scrape(&path, QUESTION).1.contains("instanton_up 1"));
    drop(silent);
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
    assert!(!path.exists());
}

#[test]
fn every_node_has_counters_of_its_own() {
    let path = place("nodes");
    let to = format!("unix:{}", path.display());
    let mut job = Job::start(
        ["--metrics", &to, "--nodes", "2", "-n", "3", example("hang").to_str().unwrap(), "fence"],
        std::process::Stdio::null(),
    );
    for _ in 0..3 {
        assert_eq!(job.line(), "ready");
    }
    let seen = samples(&scrape(&path, QUESTION).1);
    for (node, attached) in [("node=\"0\"", 2), ("node=\"1\"", 1)] {
        assert_eq!(value(&seen, "instanton_answered", node), Some(1), "{seen:?}");
        assert_eq!(value(&seen, "instanton_job_attached", node), Some(attached), "{seen:?}");
    }
    assert_eq!(value(&seen, "instanton_up", ""), Some(1));
    job.send(Signal::SIGTERM);
    job.finish();
}

#[test]
fn a_file_is_whole_at_any_time_and_has_the_last_values() {
    let path = place("file");
    let job = hanging(path.to_str().unwrap());
    assert_eq!(value(&samples(&fs::read_to_string(&path).unwrap()), "instanton_up", ""), Some(1));
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
    let last = samples(&fs::read_to_string(&path).unwrap());
    assert!(value(&last, "instanton_descriptors", "").is_some());
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_place_that_cannot_be_used_is_named_and_nothing_is_started() {
    let path = place("taken");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    for (to, words) in [
        (format!("unix:{}", path.display()), "somebody listens at"),
        ("unix:/no/such/folder/socket".to_owned(), "no socket can be made at /no/such/folder/socket"),
        ("/no/such/folder/file".to_owned(), "/no/such/folder/file cannot be written"),
    ] {
        let ended = common::run(["--metrics", &to, "-n", "1", "echo", "started"]);
        assert_eq!((ended.code, &ended.stdout[..]), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
    drop(listener);
    // One that is left over is replaced.
    let to = format!("unix:{}", path.display());
    assert_eq!(common::run(["--metrics", &to, "-n", "1", "true"]).code, Some(0));
    assert!(!path.exists());
}
