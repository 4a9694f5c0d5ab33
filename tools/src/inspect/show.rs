//! The report on shared memory, for people and for programs.
use anyhow::Result;
use instanton::data::{Key, names};
use instanton::store::Origin;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::find::Holder;
use super::segments::{CELLS, Job, Segment};
use super::values::Row;
use crate::doctor::process;
use crate::out;
use crate::see;

/// Most letters of a value among others.
const LONGEST: usize = 160;

/// Prints jobs with their segments, and the values that were asked for: each by its beginning if it `is_short`.
pub fn text(jobs: &[(Job, Vec<Row>)], is_short: bool) -> Result<()> {
    let width = see::width();
    let mut text = String::new();
    for (job, rows) in jobs {
        let nspace = &job.nspace;
        text += &match &job.holder {
            Holder::Process(pid) => format!("namespace {nspace}, held by process {pid} ({})\n", process::command(*pid)),
            Holder::Name(path, true) => format!("namespace {nspace}, at {}, whose writer lives\n", path.display()),
            Holder::Name(path, false) => format!("namespace {nspace}, at {}, whose writer is gone\n", path.display()),
        };
        if let Some(reader) = &job.reader {
            let posted = if job.posted.is_empty() { "no rank".to_owned() } else { format!("ranks {}", job.posted) };
            text += &format!(
                "generation {}, epoch {}, {} processes; {posted} posted\n",
                job.generation,
                job.epoch,
                reader.job_size()
            );
        }
        text +=
            &see::table::table(&["SEGMENT", "BYTES", "USED", "MAP", "HOLDS"], job.segments.iter().map(segment), width);
        if !rows.is_empty() {
            text += "\n";
            text += &see::table::table(
                &["OF", "KEY", "TYPE", "SCOPE", "FROM", "VALUE"],
                rows.iter().map(|row| value(row, is_short)),
                width,
            );
        }
        text += "\n";
    }
    text.pop();
    out::write(&text)
}

fn name(segment: &Segment) -> String {
    let number = segment.number.map_or(String::new(), |number| format!(" {number}"));
    format!("{}{number}", segment.kind.name())
}

fn segment(segment: &Segment) -> Vec<String> {
    // By eighths: empty, a little, half, full.
    let shown = |part: &u8| [b'.', b'-', b'-', b'-', b'=', b'=', b'=', b'=', b'#'][usize::from(*part).min(8)] as char;
    let bar =
        segment.bar.as_ref().map_or(String::new(), |bar| format!("[{}]", bar.iter().map(shown).collect::<String>()));
    let holds = segment.fault.as_ref().map_or(segment.holds.clone(), |fault| format!("DAMAGED: {fault}"));
    let used = segment.used.map_or("-".into(), |used| used.to_string());
    vec![name(segment), segment.bytes.to_string(), used, bar, holds]
}

fn value(row: &Row, is_short: bool) -> Vec<String> {
    let of = row.rank.map_or("job".into(), |rank| rank.to_string());
    let key = row.key.as_ref().map_or("-".into(), text_of);
    let scope = row.scope.map_or("-".into(), |scope| names::SCOPE.text(scope).to_owned());
    let from = row.origin.map_or("-", from).to_owned();
    match &row.value {
        Ok(value) => vec![of, key, value.data_type().to_string(), scope, from, shortened(value.to_string(), is_short)],
        Err(fault) => vec![of, key, "-".into(), scope, from, format!("DAMAGED: {fault}")],
    }
}

fn shortened(text: String, is_short: bool) -> String {
    match text.char_indices().nth(LONGEST).filter(|_| is_short) {
        Some((at, _)) => format!("{}... ({} bytes; --key shows all)", &text[..at], text.len()),
        None => text,
    }
}

fn text_of(key: &Key) -> String {
    String::from_utf8_lossy(key.as_bytes()).into_owned()
}

fn from(origin: Origin) -> &'static str {
    match origin {
        Origin::Info => "host",
        Origin::Modex => "rank",
    }
}

/// A segment for programs.
#[derive(Serialize)]
struct Part<'a> {
    kind: &'static str,
    number: Option<u64>,
    bytes: u64,
    used: Option<u64>,
    cells: Option<Vec<u8>>,
    holds: &'a str,
    fault: Option<&'a str>,
}

/// Prints the same for programs.
pub fn json(jobs: &[(Job, Vec<Row>)]) -> Result<()> {
    let jobs: Vec<Json> = jobs.iter().map(job).collect();
    let report = json!({ "schema": "instanton.inspect", "version": 1, "cells": CELLS, "jobs": jobs });
    out::write(&(serde_json::to_string_pretty(&report)? + "\n"))
}

fn job((job, rows): &(Job, Vec<Row>)) -> Json {
    let part = |segment: &Segment| {
        serde_json::to_value(Part {
            kind: segment.kind.name(),
            number: segment.number,
            bytes: segment.bytes,
            used: segment.used,
            cells: segment.bar.map(|bar| bar.to_vec()),
            holds: &segment.holds,
            fault: segment.fault.as_deref(),
        })
        .unwrap_or_default()
    };
    let row = |row: &Row| {
        json!({
            "rank": row.rank,
            "key": row.key.as_ref().map(text_of),
            "scope": row.scope.map(|scope| names::SCOPE.text(scope).to_owned()),
            "from": row.origin.map(from),
            "type": row.value.as_ref().ok().map(|value| value.data_type().to_string()),
            "value": row.value.as_ref().ok().map(ToString::to_string),
            "fault": row.value.as_ref().err(),
        })
    };
    let (pid, path, lives) = match &job.holder {
        Holder::Process(pid) => (Some(pid), None, true),
        Holder::Name(path, lives) => (None, Some(path.display().to_string()), *lives),
    };
    let posted: Vec<String> = job.posted.ranges().iter().map(|of| format!("{}-{}", of.start(), of.end())).collect();
    json!({
        "namespace": job.nspace,
        "pid": pid,
        "path": path,
        "lives": lives,
        "generation": job.generation,
        "epoch": job.epoch,
        "processes": job.reader.as_ref().map(|reader| reader.job_size()),
        "posted": posted,
        "segments": job.segments.iter().map(part).collect::<Vec<_>>(),
        "values": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
