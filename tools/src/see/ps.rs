//! `instanton ps`: jobs, ranks, and who waits for whom.
use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use clap::Args;
use instanton::data::{Activity, WaitReport, Waiting};
use serde::Serialize;

use super::jobs::{self, Job, ServerJobs};
use super::places::{From, Server};
use super::source::{Failure, Source};
use super::{json, missing, table, times, waiting};
use crate::out;
use crate::outcome::FAILURE;
use crate::say::say;

/// Status of a command whose question no server can answer.
pub const NOT_TOLD: u8 = 3;

/// `instanton ps`.
#[derive(Clone, Debug, Args)]
pub struct Ps {
    #[command(flatten)]
    from: From,
    /// Show every rank with its node and its process
    #[arg(short, long, conflicts_with = "waiting")]
    ranks: bool,
    /// Show which rank waits in which call for whom, and since when
    #[arg(short, long)]
    waiting: bool,
    /// Print JSON, as docs/SCHEMAS.md describes it
    #[arg(long)]
    json: bool,
}

/// A server's report, as JSON has it.
#[derive(Serialize)]
struct ServerWaits {
    server: Server,
    error: Option<String>,
    /// True if the server tells who waits.
    is_told: bool,
    /// True if there is more than a report brings.
    is_cut: bool,
    /// Ranks on other nodes, of which it does not tell.
    ranks_elsewhere: u64,
    rows: Vec<WaitRow>,
}

/// Ranks of one job at the same, as JSON has them.
#[derive(Serialize)]
pub struct WaitRow {
    namespace: String,
    ranks: String,
    activity: &'static str,
    call: Option<String>,
    subject: Option<String>,
    milliseconds: Option<u64>,
    awaits: Vec<Awaited>,
    elsewhere: bool,
}

/// Ranks that are waited for.
#[derive(Serialize)]
struct Awaited {
    namespace: String,
    ranks: String,
}

/// Shows jobs. Returns the status to exit with: a failure where no server lets tools in.
pub fn run(options: &Ps) -> Result<u8> {
    let servers = match options.from.servers() {
        Ok(servers) => servers,
        Err(line) => return out::refuse(&line, FAILURE),
    };
    if options.waiting { show_waiting(options, servers) } else { show_jobs(options, servers) }
}

/// Looks into each server; those of other users are left out unless they are named.
fn each<T>(
    options: &Ps,
    servers: Vec<Server>,
    look: impl Fn(&Source) -> Result<T, Failure>,
) -> Vec<(Server, Result<T, String>)> {
    let is_named = options.from.named().is_some();
    let mut seen = Vec::new();
    for server in servers {
        let result = Source::attach(server.clone()).and_then(|source| look(&source));
        match result {
            Ok(told) => seen.push((server, Ok(told))),
            Err(Failure::NotOurs) if !is_named => {}
            Err(failure) => seen.push((server, Err(failure.words()))),
        }
    }
    seen
}

fn show_jobs(options: &Ps, servers: Vec<Server>) -> Result<u8> {
    let seen = each(options, servers, |source| jobs::of(source, options.ranks));
    let mut told: Vec<ServerJobs> = Vec::new();
    let servers = seen.into_iter().map(|(server, told)| match told {
        Ok(jobs) => ServerJobs { server, error: None, jobs },
        Err(error) => ServerJobs { server, error: Some(error), jobs: Vec::new() },
    });
    for server in servers {
        // Each server of a run tells of all its jobs.
        let knows = |known: &ServerJobs| known.error.is_none() && known.server.is_of_run(&server.server);
        if server.error.is_some() || !told.iter().any(knows) {
            told.push(server);
        }
    }
    let code = code(told.iter().map(|server| server.error.is_none()));
    if options.json {
        #[derive(Serialize)]
        struct Shown {
            servers: Vec<ServerJobs>,
        }
        json::print("ps", &Shown { servers: told })?;
        return Ok(code);
    }
    if told.is_empty() {
        return out::refuse(NOTHING, code);
    }
    told.iter().for_each(|server| complain(&server.server, server.error.as_deref()));
    if code == 0 {
        out::write(&if options.ranks { ranks_table(&told) } else { jobs_table(&told) })?;
        // It has no row, and is there.
        let is_idle = |server: &&ServerJobs| server.error.is_none() && server.jobs.is_empty();
        let idle = told.iter().filter(is_idle).filter(|server| server.server.up.is_some());
        idle.for_each(|server| say(&format!("{} has no job", server.server.words())));
    }
    Ok(code)
}

/// A line for where there is no server.
pub const NOTHING: &str = "no server lets tools in; `instanton run` and `instanton up` start one";

/// Says why a server tells nothing, where it does not.
pub fn complain(server: &Server, error: Option<&str>) {
    if let Some(error) = error {
        say(&format!("{}: {error}", server.words()));
    }
}

/// The status to exit with: a failure where no server has told anything.
fn code(told: impl Iterator<Item = bool>) -> u8 {
    let told: Vec<bool> = told.collect();
    if told.contains(&true) { 0 } else { FAILURE }
}

/// A cell that is empty where nothing was told.
fn cell(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".into(), |text| text.to_string())
}

/// A line below a table for servers that have not told all of it.
fn legend(told: &[ServerJobs], is_whole: impl Fn(&Job) -> bool) -> String {
    let lacking = |server: &&ServerJobs| !server.jobs.iter().all(&is_whole);
    told.iter().filter(lacking).map(|server| format!("- not told by {}\n", server.server.words())).collect()
}

fn jobs_table(told: &[ServerJobs]) -> String {
    const HEADER: [&str; 7] = ["IN", "JOB", "RANKS", "STATE", "SINCE", "NAMESPACE", "COMMAND"];
    let row = |server: &ServerJobs, job: &Job| {
        vec![
            server.server.label(),
            cell(job.number),
            cell(job.ranks),
            cell(job.state.as_ref()),
            cell(job.since.map(times::utc)),
            job.namespace.clone(),
            cell(job.command.as_ref()),
        ]
    };
    let rows = told.iter().flat_map(|server| server.jobs.iter().map(move |job| row(server, job)));
    let text = table::table(&HEADER, rows, table::width());
    text + &legend(told, |job| job.since.is_some() && job.command.is_some())
}

fn ranks_table(told: &[ServerJobs]) -> String {
    const HEADER: [&str; 7] = ["IN", "NAMESPACE", "RANK", "NODE", "PID", "STATE", "PROGRAM"];
    let mut rows = Vec::new();
    for server in told {
        for job in &server.jobs {
            let ranks = job.procs.iter().flatten().map(|process| {
                let state = match process.exit_code {
                    Some(code) => format!("{} ({code})", process.state),
                    None => process.state.to_owned(),
                };
                vec![
                    server.server.label(),
                    job.namespace.clone(),
                    process.rank.to_string(),
                    cell(process.node.as_ref()),
                    cell(process.pid),
                    state,
                    cell(process.program.as_ref()),
                ]
            });
            rows.extend(ranks);
        }
    }
    table::table(&HEADER, rows, table::width()) + &legend(told, |job| job.procs.is_some())
}

/// Waiting processes of one server.
struct Waits {
    report: Option<WaitReport>,
    /// Processes of ranks, by namespace.
    pids: BTreeMap<(String, u32), i32>,
    /// Number of the ranks of its jobs.
    all: u64,
}

impl Waits {
    /// Ranks of its jobs that its report lacks: those of other nodes.
    fn elsewhere(&self) -> u64 {
        let Some(report) = self.report.as_ref().filter(|report| !report.is_cut) else { return 0 };
        let ranks = |row: &Waiting| row.ranks.iter().map(|rank| (row.nspace.to_string(), rank)).collect::<Vec<_>>();
        let told: BTreeSet<(String, u32)> = report.rows.iter().flat_map(ranks).collect();
        self.all.saturating_sub(told.len() as u64)
    }

    /// Adds what the server of another node of the same run tells.
    fn add(&mut self, other: Self) {
        if let Some(report) = other.report {
            self.report.get_or_insert_default().add(report);
        }
        self.pids.extend(other.pids);
        self.all = self.all.max(other.all);
    }
}

/// Answers of servers, with those of a run's nodes as one.
type Told = Vec<(Server, Result<Waits, String>)>;

fn by_run(seen: Told) -> Told {
    let mut runs: Told = Vec::new();
    for (server, told) in seen {
        let known =
            runs.iter_mut().filter(|(known, _)| known.is_of_run(&server)).find_map(|(_, told)| told.as_mut().ok());
        match (known, told) {
            (Some(known), Ok(told)) => known.add(told),
            (_, told) => runs.push((server, told)),
        }
    }
    runs
}

fn show_waiting(options: &Ps, servers: Vec<Server>) -> Result<u8> {
    let look = |source: &Source| -> Result<Waits, Failure> {
        let report = jobs::waiting(source)?;
        let mut pids = BTreeMap::new();
        // Those who wait are named by their ranks alone.
        let idle = report.iter().flat_map(|report| &report.rows).filter(|row| row.activity != Activity::Waits);
        let namespaces: BTreeSet<String> = idle.map(|row| row.nspace.to_string()).collect();
        for namespace in namespaces.iter().filter(|_| !options.json) {
            let processes = jobs::processes(source, namespace)?.unwrap_or_default();
            let known = processes.iter().filter_map(|process| Some(((namespace.clone(), process.rank), process.pid?)));
            pids.extend(known);
        }
        let all = jobs::of(source, false)?.iter().filter_map(|job| job.ranks).map(u64::from).sum();
        Ok(Waits { report, pids, all })
    };
    let mut seen = each(options, servers, look);
    let reports = seen.iter_mut().filter_map(|(_, told)| told.as_mut().ok()?.report.as_mut());
    missing::name_missing(&mut reports.collect::<Vec<_>>());
    let is_told = |seen: &Result<Waits, String>| matches!(seen, Ok(Waits { report: Some(_), .. }));
    let code = match code(seen.iter().map(|(_, told)| told.is_ok())) {
        0 if !seen.iter().any(|(_, told)| is_told(told)) => NOT_TOLD,
        code => code,
    };
    if options.json {
        #[derive(Serialize)]
        struct Shown {
            servers: Vec<ServerWaits>,
        }
        json::print("waiting", &Shown { servers: seen.into_iter().map(waits).collect() })?;
        return Ok(code);
    }
    if seen.is_empty() {
        return out::refuse(NOTHING, code);
    }
    let seen = by_run(seen);
    let is_one = seen.len() == 1;
    let mut text = String::new();
    for (server, told) in seen {
        let elsewhere = told.as_ref().map_or(0, Waits::elsewhere);
        if !is_one {
            text += &format!("{}:\n", server.words());
        }
        match told {
            Err(error) => complain(&server, Some(&error)),
            Ok(Waits { report: None, .. }) => text += &format!("not told by {}\n", server.words()),
            Ok(Waits { report: Some(report), .. }) if report.rows.is_empty() && elsewhere == 0 => {
                text += "no rank is registered\n";
            }
            Ok(Waits { report: Some(report), pids, .. }) => {
                let pid = |nspace: &instanton::data::Nspace, rank| pids.get(&(nspace.to_string(), rank)).copied();
                text += &waiting::table(&report, table::width(), pid);
                if elsewhere > 0 {
                    text += &format!("and {elsewhere} ranks on other nodes, not told by {}\n", server.words());
                }
            }
        }
    }
    out::write(&text)?;
    Ok(code)
}

fn waits((server, told): (Server, Result<Waits, String>)) -> ServerWaits {
    let elsewhere = told.as_ref().map_or(0, Waits::elsewhere);
    let (report, error) = match told {
        Ok(Waits { report, .. }) => (report, None),
        Err(error) => (None, Some(error)),
    };
    let is_told = report.is_some();
    let WaitReport { rows, is_cut } = report.unwrap_or_default();
    ServerWaits {
        server,
        error,
        is_told,
        is_cut,
        ranks_elsewhere: elsewhere,
        rows: rows.iter().map(wait_row).collect(),
    }
}

/// A row of a report, as JSON has it.
pub fn wait_row(row: &Waiting) -> WaitRow {
    let waits = row.activity == Activity::Waits;
    let awaited = |(nspace, ranks): &(instanton::data::Nspace, instanton::data::RankSet)| Awaited {
        namespace: nspace.to_string(),
        ranks: ranks.to_string(),
    };
    WaitRow {
        namespace: row.nspace.to_string(),
        ranks: row.ranks.to_string(),
        activity: row.activity.name(),
        call: waits.then(|| row.call.clone()),
        subject: Some(row.subject.clone()).filter(|subject| !subject.is_empty()),
        milliseconds: waits.then(|| u64::try_from(row.since.as_millis()).unwrap_or(u64::MAX)),
        awaits: row.awaited.iter().map(awaited).collect(),
        elsewhere: row.is_elsewhere,
    }
}
