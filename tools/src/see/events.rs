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

use super::places::{From, Server};
use super::source::{Failure, Source};
use super::{json, table, times, tree};
use crate::out::{self, refuse};
use crate::outcome::{FAILURE, SENSELESS};
use crate::say::say;

/// `instanton events`.
#[derive(Clone, Debug, Args)]
pub struct EventsOptions {
    /// Show only events of this code, by name or number; may be given more than once
    #[arg(long = "code", value_name = "CODE")]
    codes: Vec<String>,
    /// End after N events
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// End after this many seconds
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
    node: Option<String>,
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
    let mut heard: Vec<Heard> = Vec::new();
    let mut has_failed = false;
    for server in servers {
        match Heard::attach(server.clone(), heard.len(), &tell) {
            Ok(one) => heard.push(one),
            Err(Failure::NotOurs) if !is_named => {}
            Err(failure) => {
                has_failed = true;
                say(&format!("{}: {}", server.words(), failure.words()));
            }
        }
    }
    // Each handler has one of its own.
    drop(tell);
    if heard.is_empty() && has_failed {
        return Ok(FAILURE);
    }
    if heard.is_empty() {
        return refuse("no server lets tools in; see `instanton ps`", FAILURE);
    }
    say(&format!("hears events of {}; ctrl-C ends it", names(&heard)));
    let mut left = options.count;
    while left != Some(0) {
        let next = match limit {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => told.recv_timeout(limit.saturating_duration_since(Instant::now())),
        };
        let Ok((place, notice)) = next else { break };
        let is_wanted = codes.is_empty() || codes.contains(&notice.status);
        if is_wanted && !is_told_by_another(&heard, place, &notice) {
            if !print(options.json, &heard[place], &notice)? {
                break;
            }
            left = left.map(|left| left - 1);
        }
        // With the last source goes the last handler; what has been heard before is still told.
        if notice.status == Status::ERR_LOST_CONNECTION {
            heard[place].source.take_if(|source| !source.client().is_connected());
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

/// A server whose events are heard.
struct Heard {
    server: Server,
    /// The way to it, until it is lost.
    source: Option<Source>,
    /// The name of its node, if it tells it.
    node: Option<String>,
}

impl Heard {
    /// Attaches to a server, and has its events sent on with this place in the list of those that are heard.
    fn attach(server: Server, place: usize, tell: &Sender<(usize, Notice)>) -> Result<Self, Failure> {
        let source = Source::attach(server.clone())?;
        let node = source.node()?;
        listen(&source, place, tell)?;
        Ok(Self { server, source: Some(source), node })
    }

    fn name(&self) -> Option<&str> {
        self.server.name.as_deref()
    }
}

/// The servers that are heard, each run once with its nodes.
fn names(heard: &[Heard]) -> String {
    let is_first = |place: &usize| !heard[..*place].iter().any(|first| first.server.is_of_run(&heard[*place].server));
    let name = |place: usize| {
        let first = &heard[place];
        let others = heard[place + 1..].iter().filter(|other| other.server.is_of_run(&first.server));
        let nodes: Vec<&str> = others.map(|other| other.node.as_deref().unwrap_or("-")).collect();
        match (&nodes[..], &first.node) {
            ([_, ..], Some(node)) => format!("{} on {node}, {}", first.server.words(), nodes.join(", ")),
            _ => first.server.words(),
        }
    };
    (0..heard.len()).filter(is_first).map(name).collect::<Vec<_>>().join("; ")
}

/// Returns whether the server of another node that is heard tells of this event, too: the one where it was raised, or,
/// of a job's beginning and end, the first of the run.
fn is_told_by_another(heard: &[Heard], place: usize, notice: &Notice) -> bool {
    let one = &heard[place];
    if let Some(proxy) = notice.info.find(keys::EVENT_PROXY).and_then(|info| info.value.as_proc()) {
        let proxy = proxy.to_string();
        return one.name() != Some(&proxy) && heard.iter().any(|other| other.name() == Some(&proxy));
    }
    let is_of_job = [Status::EVENT_JOB_START, Status::EVENT_JOB_END].contains(&notice.status);
    let is_its_own = one.name() == Some(&notice.source.to_string());
    is_of_job && is_its_own && heard[..place].iter().any(|first| first.server.is_of_run(&one.server))
}

/// Has a server's events sent on, whoever they are for where the server shows them.
fn listen(source: &Source, place: usize, tell: &Sender<(usize, Notice)>) -> Result<(), Failure> {
    let tell = tell.clone();
    let handler = Arc::new(move |notice: Notice, chain: instanton::client::Chain| {
        let _ = tell.send((place, notice));
        chain.complete(Status::SUCCESS, Vec::new());
    });
    let (done, is_done) = mpsc::channel();
    let watch = [Info::new(WATCH, true)];
    let registered =
        source.client().register_event_handler(&[], &watch, handler).then(move |result| _ = done.send(result));
    let silent = |error: &dyn std::fmt::Display| Failure::Silent(error.to_string());
    registered.map_err(|error| silent(&error))?;
    let result = is_done.recv_timeout(super::patience::PATIENCE).map_err(|_| silent(&"no answer"))?;
    result.map(drop).map_err(|error| silent(&error))
}

/// Prints an event; false where nobody reads any more.
fn print(in_json: bool, heard: &Heard, notice: &Notice) -> Result<bool> {
    let (time, server) = (times::now(), heard.server.label());
    let affected = notice.info.find(keys::EVENT_AFFECTED_PROC).map(|info| &info.value);
    let line = match in_json {
        true => {
            let proc = |proc| json::value(&Value::Proc(proc))["value"].clone();
            let event = Event {
                time,
                server,
                node: heard.node.clone(),
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
            let node = heard.node.as_deref().unwrap_or("-");
            let text =
                format!("{time} {server} {node} {} from {}{about} {}", notice.status, notice.source, rest.join(" "));
            table::plain(text.trim_end()) + "\n"
        }
    };
    out::is_read(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Proc, Rank};

    #[test]
    fn what_several_nodes_tell_is_told_by_one() {
        let heard: Vec<Heard> = ["a@0:0", "a@0:1", "b@0:0"]
            .iter()
            .map(|name| Heard { server: Server::at(&format!("{name};instanton:x")), source: None, node: None })
            .collect();
        let proc = |name: &str, rank| Proc::new(Nspace::new(name).unwrap(), Rank(rank));
        let notice = |status, source, info| Notice { handler: 0, status, source, info, results: Vec::new() };
        let told = |notice: &Notice| -> Vec<usize> {
            (0..heard.len()).filter(|place| !is_told_by_another(&heard, *place, notice)).collect()
        };
        // The server of its node has no need to name itself.
        let passed = |by: Proc| notice(Status(-5000), proc("job", 3), vec![Info::new(keys::EVENT_PROXY, by)]);
        assert_eq!(told(&passed(proc("a@0", 1))), [1]);
        assert_eq!(told(&passed(proc("elsewhere", 0))), [0, 1, 2]);
        let of_job = |server| notice(Status::EVENT_JOB_START, server, Vec::new());
        assert!(!told(&of_job(proc("a@0", 1))).contains(&1) && told(&of_job(proc("b@0", 0))).contains(&2));
        assert!(told(&notice(Status::EVENT_PROC_TERMINATED, proc("a@0", 1), Vec::new())).contains(&1));
    }

    #[test]
    fn codes_are_read_by_name_or_number() {
        let aborted = Ok(Status::ERR_PROC_ABORTED);
        assert_eq!(code("PMIX_ERR_PROC_ABORTED"), aborted);
        assert_eq!(code("err_proc_aborted"), aborted);
        assert_eq!(code("-7"), aborted);
        assert!(code("nonsense").is_err());
    }
}
