//! `instanton events`: events as they pass servers, a line each.
//!
//! Every server that is meant has a handler for all events, on the connection's own thread; it hands them to the one who
//! prints. A server that ends says so by an event of its own, and when the last one has, nothing comes any more.
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use instanton::client::Notice;
use instanton::data::{Info, InfoList, Status, Value, WATCH, keys};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::places::From;
use super::source::{Failure, Source};
use super::{json, table, times, tree};
use crate::out::{self, refuse};
use crate::outcome::{FAILURE, SENSELESS};
use crate::say::say;

/// `instanton events`.
#[derive(Clone, Debug, Args)]
pub struct EventsOptions {
    /// Show only events of this code, by name or number; may be said more than once
    #[arg(long = "code", value_name = "CODE")]
    codes: Vec<String>,
    /// End after so many events
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    #[command(flatten)]
    from: From,
    /// Print JSON, a line for each event, as docs/SCHEMAS.md describes it
    #[arg(long)]
    json: bool,
}

/// An event, as JSON has it.
#[derive(Serialize)]
struct Event {
    time: String,
    server: String,
    status: Json,
    source: Json,
    affected: Option<Json>,
    info: Vec<Json>,
}

/// Prints events. Returns the status to exit with: a failure where no server can be heard.
pub fn run(options: &EventsOptions) -> Result<u8> {
    let codes = match options.codes.iter().map(|text| code(text)).collect::<Result<Vec<_>, _>>() {
        Ok(codes) => codes,
        Err(line) => return refuse(&line, SENSELESS),
    };
    let limit = match options.timeout.map(Duration::try_from_secs_f64).transpose() {
        Ok(limit) => limit.map(|limit| Instant::now() + limit),
        Err(_) => return refuse("--timeout: no number of seconds", SENSELESS),
    };
    let servers = match options.from.servers() {
        Ok(servers) => servers,
        Err(line) => return refuse(&line, FAILURE),
    };
    let is_named = options.from.named().is_some();
    let (tell, told) = mpsc::channel();
    let mut heard = Vec::new();
    for server in servers {
        match Source::attach(server.clone()).and_then(|source| listen(&source, &tell).map(|()| source)) {
            Ok(source) => heard.push(source),
            Err(Failure::NotOurs) if !is_named => {}
            Err(failure) => say(&format!("{}: {}", server.words(), failure.words())),
        }
    }
    // Each handler has one of its own.
    drop(tell);
    if heard.is_empty() {
        return refuse("no server lets tools in; see `instanton ps`", FAILURE);
    }
    let names: Vec<String> = heard.iter().map(|source| source.server.words()).collect();
    say(&format!("hears events of {}; ctrl-C ends it", names.join(", ")));
    let mut left = options.count;
    while left != Some(0) && !heard.is_empty() {
        let next = match limit {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => told.recv_timeout(limit.saturating_duration_since(Instant::now())),
        };
        let Ok((label, notice)) = next else { break };
        if codes.is_empty() || codes.contains(&notice.status) {
            if !print(options.json, &label, &notice)? {
                break;
            }
            left = left.map(|left| left - 1);
        }
        if notice.status == Status::ERR_LOST_CONNECTION {
            heard.retain(|source| source.client().is_connected());
        }
    }
    Ok(0)
}

/// Reads the code of an event, with or without the prefix of its name.
fn code(text: &str) -> Result<Status, String> {
    let named = Status::from_name(text).or_else(|| Status::from_name(format!("PMIX_{text}")));
    let named = named.or_else(|| text.parse().ok().map(Status));
    named.ok_or_else(|| format!("{text}: no code of an event"))
}

/// Has a server's events sent on, whoever they are for where the server shows them.
fn listen(source: &Source, tell: &Sender<(String, Notice)>) -> Result<(), Failure> {
    let (label, tell) = (source.server.label(), tell.clone());
    let handler = Arc::new(move |notice: Notice, chain: instanton::client::Chain| {
        let _ = tell.send((label.clone(), notice));
        chain.complete(Status::SUCCESS, Vec::new());
    });
    let (done, is_done) = mpsc::channel();
    let watch = [Info::new(WATCH, true)];
    let registered =
        source.client().register_event_handler(&[], &watch, handler).then(move |result| _ = done.send(result));
    let silent = |error: &dyn std::fmt::Display| Failure::Silent(error.to_string());
    registered.map_err(|error| silent(&error))?;
    let result = is_done.recv_timeout(super::source::PATIENCE).map_err(|_| silent(&"no answer"))?;
    result.map(drop).map_err(|error| silent(&error))
}

/// Prints an event; false where nobody reads any more.
fn print(in_json: bool, label: &str, notice: &Notice) -> Result<bool> {
    let time = times::now();
    let affected = notice.info.find(keys::EVENT_AFFECTED_PROC).map(|info| &info.value);
    let line = match in_json {
        true => {
            let proc = |proc| json::value(&Value::Proc(proc))["value"].clone();
            let event = Event {
                time,
                server: label.to_owned(),
                status: json!({ "code": notice.status.0, "name": notice.status.name() }),
                source: proc(notice.source.clone()),
                affected: affected.and_then(Value::as_proc).cloned().map(proc),
                info: notice.info.iter().map(json::info).collect(),
            };
            json::line("event", &event)?
        }
        false => {
            let about = affected.map_or_else(String::new, |affected| format!(" about {affected}"));
            let rest: Vec<String> = notice
                .info
                .iter()
                .filter(|info| info.key != keys::EVENT_AFFECTED_PROC)
                .map(|info| format!("{}={}", tree::shown(&info.key.to_string()), info.value))
                .collect();
            let text = format!("{time} {label} {} from {}{about} {}", notice.status, notice.source, rest.join(" "));
            table::plain(text.trim_end()) + "\n"
        }
    };
    out::is_read(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_by_name_or_number() {
        let aborted = Ok(Status::ERR_PROC_ABORTED);
        assert_eq!(code("PMIX_ERR_PROC_ABORTED"), aborted);
        assert_eq!(code("err_proc_aborted"), aborted);
        assert_eq!(code("-7"), aborted);
        assert!(code("nonsense").is_err());
    }
}
