//! Queries that only the launcher can answer: of processes, what has become of them and what memory they take; of jobs,
//! how they are; of the machine, what is free. The server adds what it knows itself (namespaces, process sets, job
//! information).
use std::time::Instant;

use instanton::data::constants::proc_state::PROC_STATE_UNTERMINATED;
use instanton::data::{
    DataArray, DataType, Info, InfoList, Key, Proc, ProcInfo, Query, Rank, Status, Text, Value, keys,
};
use instanton::server::{Completion, Infos, MEANT};
use nix::unistd::Pid;

use crate::allocation::Allocations;
use crate::debugger::{daemons, stops};
use crate::job::SESSION;
use crate::jobs::{Jobs, LiveJob};
use crate::nodes::NODE;
use crate::see::job_row::{self, JOBS, JobRow};
use crate::{spawn, usage};

/// Most bytes of a command line that is shown.
const LONGEST_COMMAND: usize = 4096;

/// Query of a rank, and the way back.
#[derive(Debug)]
pub struct Request {
    /// The rank that asks.
    pub asker: Proc,
    /// The queries.
    pub queries: Vec<Query>,
    /// Answered with a value for each key that is known here.
    pub done: Completion<Infos>,
}

impl Request {
    /// Answers it.
    pub fn answer(self, jobs: &Jobs, allocations: &Allocations, limit: Option<Instant>) {
        // The server knows none of them either, or would not have asked.
        if self.queries.iter().flat_map(|query| &query.qualifiers).any(is_unserved) {
            return self.done.complete(Err(Status::ERR_NOT_SUPPORTED));
        }
        let infos = self.queries.iter().filter(|query| is_of_session(query)).flat_map(|query| {
            let live = query.about(&self.asker).and_then(|about| jobs.get(jobs.number(&about.nspace)?));
            let rank = query.about(&self.asker).map(|about| about.rank);
            let known = move |key: &_| {
                let key = Key::new(key).ok()?;
                let value = match key.as_str()? {
                    keys::QUERY_NAMESPACE_INFO if query.qualifiers.is_empty() => {
                        namespaces(jobs.all().filter(|live| live.job.size() > 0))
                    }
                    keys::QUERY_NAMESPACE_INFO => namespaces([live?]),
                    JOBS => job_row::into_value(jobs.all().filter(|live| live.job.size() > 0).map(row)),
                    keys::QUERY_AVAILABLE_SLOTS => free_slots(jobs, allocations),
                    keys::QUERY_MEMORY_USAGE => {
                        let pids = pids_of_several(jobs, query).or_else(|| Some(pids(live?, rank?)));
                        usage::memory(&pids?, query)?
                    }
                    keys::PROC_PID => Value::Pid(pids(live?, rank?).first()?.1.as_raw()),
                    keys::QUERY_LOCAL_PROC_TABLE => local_table(live?, &query.qualifiers)?,
                    key => known(key, live, limit)?,
                };
                Some(Info { key, flags: 0, value })
            };
            query.keys.iter().filter_map(known).collect::<Vec<_>>()
        });
        let infos = infos.collect();
        // The server knows the rest, or says that nobody does.
        self.done.complete(Ok((Status::ERR_PARTIAL_SUCCESS, infos)));
    }
}

/// Returns whether a query is about the session of the run, or names none: nothing is known here of another.
fn is_of_session(query: &Query) -> bool {
    let named = query.qualifiers.find(keys::SESSION_ID).map(|info| info.value.as_u32());
    named.is_none_or(|number| matches!(number, Some(SESSION | u32::MAX)))
}

/// Returns whether a qualifier is required that changes nothing here.
fn is_unserved(qualifier: &Info) -> bool {
    const SERVED: [&str; 11] = [
        keys::PROCID,
        keys::NSPACE,
        keys::JOBID,
        keys::RANK,
        keys::USERID,
        keys::GRPID,
        keys::TIMEOUT,
        keys::QUERY_REFRESH_CACHE,
        keys::QUERY_LOCAL_ONLY,
        keys::QUERY_REPORT_AVG,
        keys::QUERY_REPORT_MINMAX,
    ];
    // Those of job information and of sets are the server's to look at.
    const OF_SERVER: [&str; 10] = [
        keys::SESSION_INFO,
        keys::JOB_INFO,
        keys::APP_INFO,
        keys::NODE_INFO,
        keys::SESSION_ID,
        keys::APPNUM,
        keys::NODEID,
        keys::HOSTNAME,
        keys::PSET_NAME,
        keys::GROUP_ID,
    ];
    qualifier.is_required() && !SERVED.iter().chain(&OF_SERVER).any(|key| qualifier.key == *key)
}

/// Returns the processes of a job that run, or the one of that rank.
fn pids(live: &LiveJob, rank: Rank) -> Vec<(Proc, Pid)> {
    let wanted = |info: &ProcInfo| info.pid > 0 && (!rank.is_process() || info.proc.rank == rank);
    let running = live.table().filter(|info| info.state < PROC_STATE_UNTERMINATED).filter(wanted);
    running.map(|info| (info.proc.clone(), Pid::from_raw(info.pid))).collect()
}

/// Returns those of the processes that a query means by the name of a group or a set; nothing where it names none.
fn pids_of_several(jobs: &Jobs, query: &Query) -> Option<Vec<(Proc, Pid)>> {
    let meant = query.qualifiers.find(MEANT)?.value.as_procs()?;
    let of = |proc: Proc| Some(pids(jobs.get(jobs.number(&proc.nspace)?)?, proc.rank));
    Some(meant.into_iter().filter_map(of).flatten().collect())
}

/// Slots of the session that no rank of a job holds, and no allocation.
fn free_slots(jobs: &Jobs, allocations: &Allocations) -> Value {
    let free = u64::from(jobs.free_slots()).saturating_sub(allocations.slots());
    Value::Uint32(u32::try_from(free).unwrap_or(u32::MAX))
}

/// A job as it is shown.
fn row(live: &LiveJob) -> JobRow {
    let mut command = live.job.command_line();
    command.truncate(LONGEST_COMMAND);
    JobRow {
        number: live.job.number,
        nspace: live.job.nspace.to_string(),
        ranks: live.job.size(),
        state: live.words().to_owned(),
        since: live.since,
        command: String::from_utf8_lossy(&command).into_owned(),
    }
}

/// The name and the command line of each job.
fn namespaces<'a>(jobs: impl IntoIterator<Item = &'a LiveJob>) -> Value {
    let job = |live: &LiveJob| {
        let command = Info::new(keys::CMD_LINE, Value::String(Text::new(live.job.command_line()).ok()));
        let name = Info::new(keys::NSPACE, Value::string(live.job.nspace.to_string()));
        Info::new(keys::JOB_INFO_ARRAY, DataArray::of_info(vec![name, command]))
    };
    Value::DataArray(DataArray::of_info(jobs.into_iter().map(job).collect()))
}

/// Returns the processes of a job on the node that is named. Hosts of several nodes name that of the server which is
/// asked.
fn local_table(live: &LiveJob, qualifiers: &[Info]) -> Option<Value> {
    let named = qualifiers.find(keys::HOSTNAME).and_then(|info| info.value.as_str());
    let number = |key| qualifiers.find(key).map(|info| info.value.as_u32());
    let node = match (named, number(keys::NODEID)) {
        (Some(name), _) => live.job.nodes.iter().position(|node| node == name)? as u32,
        (None, Some(place)) => *live.job.used_nodes().get(place? as usize)?,
        (None, None) => number(NODE).flatten().unwrap_or(0),
    };
    array(live.table().filter(|info| live.job.node_of(info.proc.rank.0) == node))
}

fn array(table: impl Iterator<Item = ProcInfo>) -> Option<Value> {
    let table = table.map(|info| Value::ProcInfo(Box::new(info))).collect();
    DataArray::new(DataType::PROC_INFO, table).ok().map(Value::DataArray)
}

fn known(key: &str, live: Option<&LiveJob>, limit: Option<Instant>) -> Option<Value> {
    match key {
        keys::QUERY_PROC_TABLE => array(live?.table()),
        keys::QUERY_JOB_STATUS => Some(live?.status().into()),
        keys::QUERY_SPAWN_SUPPORT => Some(Value::string(spawn::supported().join(","))),
        keys::QUERY_STORAGE_LIST => Some(Value::string(usage::storage().join(","))),
        keys::QUERY_DEBUG_SUPPORT => Some(Value::string([&stops::KEYS[..], &daemons::KEYS].concat().join(","))),
        keys::TIME_REMAINING => {
            let left = limit?.saturating_duration_since(Instant::now()).as_secs();
            Some(Value::Uint32(u32::try_from(left).unwrap_or(u32::MAX)))
        }
        _ => None,
    }
}
