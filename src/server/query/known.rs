//! Answers to queries that the server knows itself.
use crate::attribute_support::{self, HostSupport, LEVELS};
use crate::data::constants::proc_state::{
    PROC_STATE_ABORTED, PROC_STATE_CONNECTED, PROC_STATE_PREPPED, PROC_STATE_TERMINATED,
};
use crate::data::{
    DataArray, DataType, Info, InfoList, Key, LOAD, Nspace, Proc, ProcInfo, Query, Rank, Text, Value, WAITING, keys,
};
use crate::server::ctx::Ctx;
use crate::server::jobs::{Client, Jobs, Phase};
use crate::server::load;
use crate::server::query::offered;
use crate::store::{Directives, InfoLevel};

/// Keys of process sets and groups.
const SETS: [&str; 6] = [
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_PSET_MEMBERSHIP,
    keys::QUERY_NUM_GROUPS,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_GROUP_MEMBERSHIP,
];

/// Returns whether a key is one of process sets and groups.
pub fn is_about_sets(key: &Text) -> bool {
    SETS.iter().any(|known| known.as_bytes() == key.as_bytes())
}

/// Returns the number of answers to a query that are looks at all processes, or at the system.
pub fn reports(query: &Query) -> usize {
    let reports = [WAITING, LOAD, keys::QUERY_AVAIL_SERVERS, keys::QUERY_ATTRIBUTE_SUPPORT];
    reports.iter().filter(|report| query.keys.iter().any(|key| key.as_bytes() == report.as_bytes())).count()
}

/// Qualifiers that are looked at here, or that a host of the Standard's looks at.
const QUALIFIERS: [&str; 23] = [
    keys::PROCID,
    keys::NSPACE,
    keys::JOBID,
    keys::RANK,
    keys::USERID,
    keys::GRPID,
    keys::TIMEOUT,
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
    keys::QUERY_REFRESH_CACHE,
    keys::QUERY_LOCAL_ONLY,
    keys::QUERY_REPORT_AVG,
    keys::QUERY_REPORT_MINMAX,
    keys::QUERY_SUPPORTED_QUALIFIERS,
    keys::ALLOC_ID,
];

/// Returns whether a key is that of a qualifier which is known here.
pub fn is_qualifier(key: &str) -> bool {
    QUALIFIERS.contains(&key) || LEVELS.contains(&key)
}

/// Returns whether a qualifier is required that is unknown here: only the host may know what to make of it.
pub fn is_foreign(qualifier: &Info) -> bool {
    qualifier.is_unserved(&QUALIFIERS) && qualifier.is_unserved(&LEVELS)
}

/// The server's own knowledge, as far as queries are about it.
pub struct Known<'a> {
    pub jobs: &'a Jobs,
    pub hostname: &'a Text,
    /// The address of the server for tools.
    pub uri: Option<String>,
    /// Attributes that the host supports.
    pub host_support: &'a HostSupport,
    /// Value of a key of process sets and groups in a query.
    pub sets: &'a dyn Fn(&str, &Query) -> Option<Value>,
    /// Report of the processes that a process may know of, as far as a query is about them.
    pub waiting: &'a dyn Fn(&Ctx, &Proc, &Query) -> Value,
}

impl Known<'_> {
    /// Returns the answer to a key that is the server's own to answer; nothing where the host is asked.
    pub fn own(&self, cx: &Ctx, asker: &Proc, key: &Text, query: &Query) -> Option<Vec<Info>> {
        if query.qualifiers.is_set(keys::QUERY_SUPPORTED_QUALIFIERS) {
            return Some(vec![Info::new(key.as_str()?, offered::qualifiers(key.as_str()?, self.host_support))]);
        }
        if key.as_bytes() == keys::QUERY_SUPPORTED_KEYS.as_bytes() {
            return Some(vec![Info::new(keys::QUERY_SUPPORTED_KEYS, offered::keys(self.host_support))]);
        }
        if key.as_bytes() == WAITING.as_bytes() {
            return Some(vec![Info::new(WAITING, (self.waiting)(cx, asker, query))]);
        }
        if key.as_bytes() == LOAD.as_bytes() {
            let about = query.qualifiers.find(keys::NSPACE).and_then(|info| info.value.as_bytes());
            return Some(vec![Info::new(LOAD, load::report(cx, self.jobs, asker, about).into_value())]);
        }
        if is_about_sets(key) {
            let value = (self.sets)(key.as_str()?, query);
            // The host may have sets that it has not told of.
            let value = match query.qualifiers.is_set(keys::QUERY_LOCAL_ONLY) {
                true => value.unwrap_or(Value::Undef),
                false => value.filter(|value| !says_none(value))?,
            };
            return Some(vec![Info::new(key.as_str()?, value)]);
        }
        if attribute_support::is_asked_by(key) {
            return Some(attribute_support::answers(&query.qualifiers, self.host_support));
        }
        if let Some(servers) = attribute_support::available_servers(key) {
            return Some(if servers.is_empty() {
                vec![Info::new(keys::QUERY_AVAIL_SERVERS, Value::Undef)]
            } else {
                servers
            });
        }
        attribute_support::abi_version(key).map(|version| vec![version])
    }

    /// Returns the answer to a key that the host has left open, as far as it is known here.
    pub fn instead_of_host(&self, key: &Key, query: &Query, subject: Option<&Subject>) -> Option<Value> {
        let of_job = subject.and_then(|subject| self.of_job(key, subject));
        of_job.or_else(|| (self.sets)(key.as_str()?, query))
    }

    fn of_job(&self, key: &Key, Subject { asker, proc, or, directives }: &Subject) -> Option<Value> {
        match key.as_str()? {
            keys::QUERY_NAMESPACES => {
                let mut names = self.jobs.names();
                names.retain(|name| self.jobs.get(name).is_some_and(|job| !job.of_tools));
                names.retain(|name| self.is_in_session(name, directives.session));
                if names.is_empty() && directives.session.is_some() {
                    return None;
                }
                names.sort_unstable();
                let names: Vec<&[u8]> = names.iter().map(Nspace::as_bytes).collect();
                Some(Value::string(names.join(&b',')))
            }
            keys::SERVER_URI => self.uri.as_deref().map(Value::string),
            keys::QUERY_LOCAL_PROC_TABLE => {
                let is_meant =
                    self.is_in_session(&proc.nspace, directives.session) && self.is_here(&proc.nspace, directives);
                is_meant.then(|| self.local_procs(&proc.nspace))?
            }
            _ => {
                let mut directives = directives.clone();
                directives.settle(key.as_bytes());
                let store = self.jobs.store(&proc.nspace)?;
                let mut of_either = [Some(proc.rank), *or].into_iter().flatten();
                of_either.find_map(|rank| store.get(*asker, rank, key, &directives).ok())
            }
        }
    }

    /// Returns whether a job is one of the session that is named; every job is where none is, or all are.
    fn is_in_session(&self, nspace: &Nspace, named: Option<u32>) -> bool {
        let Some(named) = named.filter(|named| *named != u32::MAX) else { return true };
        let session = self.of_job_itself(nspace, keys::SESSION_ID, &Directives::NONE);
        session.is_some_and(|session| session.as_u32() == Some(named))
    }

    /// Returns whether the node that is named, by whatever name the job has for it, is this one; it is where none is.
    fn is_here(&self, nspace: &Nspace, directives: &Directives) -> bool {
        if directives.host.is_none() && directives.node.is_none() || directives.host.as_ref() == Some(self.hostname) {
            return true;
        }
        let named = Directives { level: InfoLevel::Node, ..directives.clone() };
        let number = |of: &Directives| self.of_job_itself(nspace, keys::NODEID, of);
        number(&named).is_some_and(|named| number(&Directives::at(InfoLevel::Node)) == Some(named))
    }

    fn of_job_itself(&self, nspace: &Nspace, key: &str, directives: &Directives) -> Option<Value> {
        let key = Key::new(key).expect("a legal key");
        self.jobs.store(nspace)?.get(Rank::UNDEF, Rank::WILDCARD, &key, directives).ok()
    }

    /// Returns the table of a namespace's processes on this node.
    fn local_procs(&self, nspace: &Nspace) -> Option<Value> {
        let state = |phase: Phase, ended: bool| match phase {
            Phase::Lost => PROC_STATE_ABORTED,
            Phase::Finalized if ended => PROC_STATE_TERMINATED,
            Phase::Expected | Phase::Asking => PROC_STATE_PREPPED,
            Phase::Joined | Phase::Finalized => PROC_STATE_CONNECTED,
        };
        let of = |(rank, client): (&Rank, &Client)| {
            Value::ProcInfo(Box::new(ProcInfo {
                proc: Proc::new(nspace.clone(), *rank),
                hostname: Some(self.hostname.clone()),
                executable: None,
                pid: client.pid,
                exit_code: 0,
                state: state(client.phase, client.ended),
            }))
        };
        let table = self.jobs.get(nspace)?.clients.iter().map(of).collect();
        DataArray::new(DataType::PROC_INFO, table).ok().map(Value::DataArray)
    }
}

/// Subject of a query: the process that it is about.
pub struct Subject {
    /// Rank of the asker, if it is of that job.
    asker: Rank,
    proc: Proc,
    /// The asker's rank again, where a key that the job does not have is about the asker: no process is named.
    or: Option<Rank>,
    /// Application, node or session that is meant.
    directives: Directives,
}

impl Subject {
    /// Reads the qualifiers of a query. Nothing where they make no sense, or one is required that nobody here knows.
    pub fn read(asker: &Proc, query: &Query) -> Option<Self> {
        const OTHERS: [&str; 7] =
            [keys::PROCID, keys::NSPACE, keys::JOBID, keys::RANK, keys::USERID, keys::GRPID, keys::QUERY_REFRESH_CACHE];
        let proc = query.about(asker)?;
        let mut directives = Directives::NONE;
        for info in query.qualifiers.iter().filter(|info| !OTHERS.iter().any(|key| info.key == *key)) {
            directives.take(info.key.as_bytes(), info.flags, &info.value).ok()?;
        }
        let asker = if asker.nspace == proc.nspace { asker.rank } else { Rank::UNDEF };
        let is_named = [keys::PROCID, keys::RANK].iter().any(|key| query.qualifiers.find(key).is_some());
        Some(Subject { asker, proc, or: Some(asker).filter(|asker| !is_named && *asker != Rank::UNDEF), directives })
    }
}

/// Returns whether a value says that there are no sets or groups.
fn says_none(value: &Value) -> bool {
    match value {
        Value::Size(n) => *n == 0,
        Value::String(Some(names)) => names.as_bytes().is_empty(),
        Value::DataArray(names) => names.is_empty(),
        _ => false,
    }
}
