//! The trace of `instanton run`: silent, by levels, with times, and as JSON.
mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{Ended, Job, example};
use serde_json::Value;

/// A run of two ranks, with variables of the trace.
fn run(variables: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
    command.args(["run", "-n", "2"]).arg(example("rank")).arg("say").stdin(Stdio::null());
    for name in ["INSTANTON_TRACE", "INSTANTON_TRACE_LEVEL", "INSTANTON_TRACE_FORM"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    Job::spawn(command).finish()
}

/// A file for a trace, which goes with its owner.
struct Trace(std::path::PathBuf);

impl Trace {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("instanton-trace-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn nothing_is_traced_that_nobody_asks_for() {
    let ended = run(&[("INSTANTON_TRACE_LEVEL", "trace"), ("INSTANTON_TRACE_FORM", "json")]);
    assert_eq!((ended.code, &ended.stderr[..]), (Some(0), ""));
    let trace = Trace::new("quiet");
    assert_eq!(run(&[("INSTANTON_TRACE", trace.path())]).code, Some(0));
    let lines = fs::read_to_string(&trace.0).unwrap();
    assert!(!lines.contains(" info: ") && !lines.contains(" debug: "), "{lines}");
}

#[test]
fn levels_say_more_and_each_line_has_its_time() {
    let trace = Trace::new("levels");
    let ended = run(&[("INSTANTON_TRACE", trace.path()), ("INSTANTON_TRACE_LEVEL", "server=debug,run=debug")]);
    assert_eq!((ended.code, &ended.stderr[..]), (Some(0), ""));
    let lines = fs::read_to_string(&trace.0).unwrap();
    let has = |words: &[&str]| lines.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["instanton server ", " info: server{of=", "a process is let in", "anew=false"]), "{lines}");
    assert!(has(&[" debug: ", "a collective is complete"]), "{lines}");
    assert!(has(&["instanton run ", " info: birth{of=", "a rank is started", "pid="]), "{lines}");
    // A span says at its end what it took.
    assert!(has(&["request{of=", "kind=", "time.busy="]), "{lines}");
    let is_time = |word: &str| word.len() == 15 && word.split([':', '.']).all(|part| part.parse::<u32>().is_ok());
    assert!(lines.lines().all(|line| line.split(' ').nth(3).is_some_and(is_time)), "{lines}");
}

#[test]
fn as_json_each_line_is_one_document() {
    let trace = Trace::new("json");
    let variables =
        [("INSTANTON_TRACE", trace.path()), ("INSTANTON_TRACE_LEVEL", "server=info"), ("INSTANTON_TRACE_FORM", "json")];
    assert_eq!(run(&variables).code, Some(0));
    let lines = fs::read_to_string(&trace.0).unwrap();
    let documents: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let joined: Vec<&Value> = documents.iter().filter(|it| it["message"] == "a process is let in").collect();
    assert_eq!(joined.len(), 2, "{lines}");
    assert!(joined.iter().all(|it| it["level"] == "INFO" && it["target"] == "server" && it["timestamp"].is_string()));
    assert!(joined.iter().all(|it| it["pid"].is_u64() && it["proc"].as_str().is_some_and(|proc| proc.contains('@'))));
}

#[test]
fn what_cannot_be_written_or_makes_no_sense_is_said() {
    let ended = run(&[("INSTANTON_TRACE", "/no/such/folder/trace")]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("/no/such/folder/trace cannot be written: No such file"), "{}", ended.stderr);
    let ended = run(&[("INSTANTON_TRACE", "/dev/null"), ("INSTANTON_TRACE_LEVEL", "loud")]);
    assert_eq!(ended.stderr.matches("INSTANTON_TRACE_LEVEL=loud is left out").count(), 1, "{}", ended.stderr);
    let ended = run(&[("INSTANTON_TRACE", "/dev/null"), ("INSTANTON_TRACE_FORM", "xml")]);
    assert!(ended.stderr.contains("INSTANTON_TRACE_FORM=xml is left out"), "{}", ended.stderr);
}
