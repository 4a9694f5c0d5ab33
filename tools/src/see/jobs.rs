//! Jobs of servers, and their ranks: what the launcher says of them where it is ours, and else what standard queries
//! answer. A value that a server does not tell is left empty.
use std::collections::BTreeMap;

use instanton::data::constants::proc_state::*;
use instanton::data::{
    DataArray, Info, InfoList, Nspace, ProcInfo, Rank, Status, Text, Value, WAITING, WaitReport, keys, names,
};
use serde::Serialize;

use super::job_row::{self, JOBS, arrays};
use super::places::Server;
use super::source::{Failure, Source};

/// A server and its jobs.
#[derive(Clone, Debug, Serialize)]
pub struct ServerJobs {
    /// The server.
    pub server: Server,
    /// Reason why it tells nothing.
    pub error: Option<String>,
    /// Its jobs.
    pub jobs: Vec<Job>,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Its namespace.
    pub namespace: String,
    /// Its number, as `instanton kill` takes it.
    pub number: Option<u32>,
    /// Number of its ranks.
    pub ranks: Option<u32>,
    /// Its activity, in a word.
    pub state: Option<String>,
    /// Start of it, in seconds since 1970.
    pub since: Option<u64>,
    /// Its programs and their arguments.
    pub command: Option<String>,
    /// Its ranks, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procs: Option<Vec<Process>>,
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its rank.
    pub rank: u32,
    /// Name of its node.
    pub node: Option<String>,
    /// Its process, where it has one.
    pub pid: Option<i32>,
    /// Its state, in a word.
    pub state: &'static str,
    /// Its exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// Its program.
    pub program: Option<String>,
}

/// Reads the jobs of a server.
///
/// # Errors
/// When it does not answer.
pub fn of(source: &Source, with_ranks: bool) -> Result<Vec<Job>, Failure> {
    let mut jobs = read(source, &source.ask(&KEYS, &[])?)?;
    if with_ranks {
        for job in &mut jobs {
            job.procs = processes(source, &job.namespace)?;
        }
    }
    Ok(jobs)
}

/// The keys that [`read`] reads.
pub const KEYS: [&str; 2] = [JOBS, keys::QUERY_NAMESPACES];

/// Reads jobs in the answers of a server; where it is no launcher of ours, it is asked for more.
///
/// # Errors
/// When it does not answer.
pub fn read(source: &Source, answers: &[Info]) -> Result<Vec<Job>, Failure> {
    let told = answers.find(JOBS).map(|info| job_row::from_value(&info.value)).unwrap_or_default();
    let names = answers.find(keys::QUERY_NAMESPACES).and_then(|info| info.value.as_text().cloned());
    let names = names.map(|names| names.to_string_lossy().into_owned()).unwrap_or_default();
    let mut jobs: Vec<Job> = told
        .into_iter()
        .map(|row| Job {
            namespace: row.nspace,
            number: Some(row.number),
            ranks: Some(row.ranks),
            state: Some(row.state),
            since: Some(row.since),
            command: Some(row.command),
            procs: None,
        })
        .collect();
    let is_launcher = answers.find(JOBS).is_some_and(|info| info.value != Value::Undef);
    if !is_launcher {
        // This tool is a job of its own to some servers.
        let own = source.client().proc().nspace.to_string();
        let names = names.split(',').filter(|name| !name.is_empty() && *name != own);
        jobs = names.map(|name| Job { namespace: name.into(), ..Job::default() }).collect();
        complete(source, &mut jobs)?;
    }
    Ok(jobs)
}

/// Adds what standard queries tell of jobs.
fn complete(source: &Source, jobs: &mut [Job]) -> Result<(), Failure> {
    let commands: BTreeMap<String, String> = source
        .value(keys::QUERY_NAMESPACE_INFO, &[])?
        .map(|value| arrays(&value))
        .unwrap_or_default()
        .iter()
        .filter_map(|row| Some((said(row, keys::NSPACE)?, said(row, keys::CMD_LINE)?)))
        .collect();
    for job in jobs {
        let Some(about) = about(&job.namespace, None) else { continue };
        let answers = source.ask(&[keys::JOB_SIZE, keys::QUERY_JOB_STATUS], &about)?;
        job.ranks = answers.find(keys::JOB_SIZE).and_then(|info| info.value.as_u32());
        let status = answers.find(keys::QUERY_JOB_STATUS).map(|info| &info.value);
        job.state = match status {
            Some(Value::Status(Status::SUCCESS)) => Some("running".into()),
            Some(Value::Status(status)) => Some(status.to_string()),
            Some(Value::String(Some(text))) => Some(text.to_string_lossy().into_owned()),
            Some(Value::JobState(state)) => Some(names::JOB_STATE.text(*state).to_ascii_lowercase()),
            _ => None,
        };
        job.command = commands.get(&job.namespace).cloned();
    }
    Ok(())
}

/// The ranks of a job: of all nodes where the host tells them, else of the server's node; none where it tells neither.
///
/// # Errors
/// When the server does not answer.
pub fn processes(source: &Source, namespace: &str) -> Result<Option<Vec<Process>>, Failure> {
    let Some(about) = about(namespace, None) else { return Ok(None) };
    for key in [keys::QUERY_PROC_TABLE, keys::QUERY_LOCAL_PROC_TABLE] {
        if let Some(Value::DataArray(table)) = source.value(key, &about)? {
            return Ok(Some(rows(&table)));
        }
    }
    Ok(None)
}

fn rows(table: &DataArray) -> Vec<Process> {
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.to_string_lossy().into_owned());
    let row = |about: &ProcInfo| {
        // A state at or beyond that of a failure, or a plain end.
        let has_ended = about.state >= PROC_STATE_TERMINATED;
        Process {
            rank: about.proc.rank.0,
            node: text(&about.hostname),
            pid: Some(about.pid).filter(|pid| *pid > 0),
            state: state(about.state),
            exit_code: has_ended.then_some(about.exit_code),
            program: text(&about.executable),
        }
    };
    let mut rows: Vec<Process> = table
        .items()
        .iter()
        .filter_map(|item| if let Value::ProcInfo(about) = item { Some(row(about)) } else { None })
        .collect();
    rows.sort_by_key(|row| row.rank);
    rows
}

/// A word for a state of a process.
fn state(state: u8) -> &'static str {
    match state {
        PROC_STATE_PREPPED => "expected",
        PROC_STATE_LAUNCH_UNDERWAY => "starting",
        PROC_STATE_RESTART => "restarting",
        PROC_STATE_TERMINATE => "ending",
        PROC_STATE_RUNNING => "running",
        PROC_STATE_CONNECTED => "attached",
        PROC_STATE_TERMINATED => "ended",
        PROC_STATE_ABORTED | PROC_STATE_CALLED_ABORT => "aborted",
        PROC_STATE_KILLED_BY_CMD => "killed",
        PROC_STATE_ABORTED_BY_SIG => "signalled",
        PROC_STATE_TERM_NON_ZERO => "failed",
        PROC_STATE_TERM_WO_SYNC => "lost",
        PROC_STATE_FAILED_TO_START | PROC_STATE_FAILED_TO_LAUNCH => "not started",
        other => names::PROC_STATE.text(other),
    }
}

/// The report of who waits for whom; none where a server tells none.
///
/// # Errors
/// When it does not answer.
pub fn waiting(source: &Source) -> Result<Option<WaitReport>, Failure> {
    let value = source.value(WAITING, &[])?;
    Ok(value.as_ref().and_then(WaitReport::from_value).map(|mut report| {
        report.sort();
        report
    }))
}

/// The qualifiers that name a job or a process; none for what is no name.
pub fn about(namespace: &str, rank: Option<Rank>) -> Option<Vec<Info>> {
    let nspace = Nspace::new(namespace).ok()?;
    let mut about = vec![Info::new(keys::NSPACE, Value::string(nspace.as_bytes()))];
    about.extend(rank.map(|rank| Info::new(keys::RANK, rank)));
    Some(about)
}

/// A text among attributes.
fn said(infos: &[Info], key: &str) -> Option<String> {
    infos.find(key)?.value.as_text().map(|text| text.to_string_lossy().into_owned())
}
