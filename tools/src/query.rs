//! Queries that only the launcher can answer: of processes, what has become of them; of jobs, how they are. The server
//! adds what it knows itself (namespaces, process sets, job information).
use std::time::Instant;

use instanton::data::{DataArray, DataType, Info, Key, Proc, Query, Status, Text, Value, keys};
use instanton::server::{Completion, Infos};

use crate::jobs::{Jobs, LiveJob};
use crate::spawn;

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
    pub fn answer(self, jobs: &Jobs, limit: Option<Instant>) {
        let infos = self.queries.iter().flat_map(|query| {
            let live = query.about(&self.asker).and_then(|about| jobs.get(jobs.number(&about.nspace)?));
            let known = move |key: &_| {
                let key = Key::new(key).ok()?;
                let value = match key.as_str()? {
                    keys::QUERY_NAMESPACE_INFO if query.qualifiers.is_empty() => namespaces(jobs.all()),
                    keys::QUERY_NAMESPACE_INFO => namespaces([live?]),
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

/// The name and the command line of each job.
fn namespaces<'a>(jobs: impl IntoIterator<Item = &'a LiveJob>) -> Value {
    let job = |live: &LiveJob| {
        let command = Info::new(keys::CMD_LINE, Value::String(Text::new(live.job.command_line()).ok()));
        let name = Info::new(keys::NSPACE, Value::string(live.job.nspace.to_string()));
        Info::new(keys::JOB_INFO_ARRAY, DataArray::of_info(vec![name, command]))
    };
    Value::DataArray(DataArray::of_info(jobs.into_iter().map(job).collect()))
}

fn known(key: &str, live: Option<&LiveJob>, limit: Option<Instant>) -> Option<Value> {
    match key {
        keys::QUERY_PROC_TABLE | keys::QUERY_LOCAL_PROC_TABLE => {
            let table = live?.table().map(|info| Value::ProcInfo(Box::new(info))).collect();
            DataArray::new(DataType::PROC_INFO, table).ok().map(Value::DataArray)
        }
        keys::QUERY_JOB_STATUS => Some(live?.status().into()),
        keys::QUERY_SPAWN_SUPPORT => Some(Value::string(spawn::served().join(","))),
        keys::QUERY_DEBUG_SUPPORT => Some(Value::string(spawn::STOPS.join(","))),
        keys::TIME_REMAINING => {
            let left = limit?.saturating_duration_since(Instant::now()).as_secs();
            Some(Value::Uint32(u32::try_from(left).unwrap_or(u32::MAX)))
        }
        _ => None,
    }
}
