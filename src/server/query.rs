//! Queries: what the host answers, and what the server knows itself.
//!
//! Process sets and groups are the server's own, and so are the list of what is supported and the version of the interface.
//! Everything else is asked of the host; what that leaves open, the server answers as far as it knows: the namespaces, their
//! processes on this node, and what was registered with them. What is not known comes back without a type, and the status says so;
//! a failure comes alone, as programs free nothing then.
use super::core::Core;
use super::jobs::Phase;
use crate::data::constants::proc_state::{
    PROC_STATE_ABORTED, PROC_STATE_CONNECTED, PROC_STATE_PREPPED, PROC_STATE_TERMINATED,
};
use crate::data::{
    DataArray, DataType, Info, InfoList, Key, Nspace, Proc, ProcInfo, Query, Rank, Status, Text, Value, keys,
};
use crate::message::directives::Directives;
use crate::message::door::PeerId;
use crate::message::{Infos, Reply};
use crate::support;

/// What is asked of process sets and groups.
const SETS: [&str; 6] = [
    keys::QUERY_NUM_PSETS,
    keys::QUERY_PSET_NAMES,
    keys::QUERY_PSET_MEMBERSHIP,
    keys::QUERY_NUM_GROUPS,
    keys::QUERY_GROUP_NAMES,
    keys::QUERY_GROUP_MEMBERSHIP,
];

fn is_about_sets(key: &Text) -> bool {
    SETS.iter().any(|known| known.as_bytes() == key.as_bytes())
}

impl Core {
    /// A client asks something.
    pub(super) fn query(&mut self, peer: PeerId, number: u64, proc: Proc, mut queries: Vec<Query>) {
        let mut answers = Vec::new();
        for query in &mut queries {
            let named = |key| query.qualifiers.find(key).and_then(|info| info.value.as_text());
            let (set, group) = (named(keys::PSET_NAME), named(keys::GROUP_ID));
            let answer = |key: &Text| {
                let key = key.as_str().unwrap_or_default();
                let value = self.process_sets.answer(key, set, &self.groups);
                Info::new(key, value.or_else(|| self.groups.answer(key, group)).unwrap_or(Value::Undef))
            };
            answers.extend(query.keys.iter().filter(|key| is_about_sets(key)).map(answer));
            answers.extend(query.keys.iter().filter_map(support::abi_version));
            if query.keys.iter().any(support::is_asked_by) {
                answers.extend(support::answers(&query.qualifiers, &self.host_support));
            }
            query
                .keys
                .retain(|key| !is_about_sets(key) && !support::is_asked_by(key) && support::abi_version(key).is_none());
        }
        queries.retain(|query| !query.keys.is_empty());
        if queries.is_empty() {
            return self.reply(peer, number, reply(status_of(&answers), answers));
        }
        for query in &mut queries {
            query.qualifiers = self.signed(&proc, std::mem::take(&mut query.qualifiers));
        }
        let (asker, asked) = (proc.clone(), queries.clone());
        self.ask_host(
            |host, done| host.query(&proc, &queries, done),
            (Status::SUCCESS, Vec::new()),
            move |core, result| {
                let (status, infos) = match core.host_or_own(&asker, &asked, result) {
                    Ok(answer) if answers.is_empty() => answer,
                    Ok((_, infos)) => {
                        let all = [answers, infos].concat();
                        (status_of(&all), all)
                    }
                    Err(status) if answers.is_empty() => (status, answers),
                    Err(_) if status_of(&answers) == Status::ERR_NOT_FOUND => (Status::ERR_NOT_FOUND, answers),
                    Err(_) => (Status::ERR_PARTIAL_SUCCESS, answers),
                };
                core.reply(peer, number, reply(status, infos));
            },
        );
    }

    /// The host's answer, with what is known here where the host says that it does not know all of it.
    fn host_or_own(&self, proc: &Proc, queries: &[Query], result: Result<Infos, Status>) -> Result<Infos, Status> {
        let (mut hosts, nothing) = match result {
            Ok((Status::ERR_PARTIAL_SUCCESS, infos)) => (infos, Status::ERR_NOT_FOUND),
            Err(status @ (Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND)) => (Vec::new(), status),
            other => return other,
        };
        hosts.retain(|info| info.value != Value::Undef);
        let mut infos = Vec::new();
        for query in queries {
            let about = query.about(proc);
            for key in query.keys.iter().filter_map(|key| Key::new(key.as_bytes()).ok()) {
                // Asked for twice, say of two jobs, the host's answers come in the order of the queries.
                let answer = hosts.iter().position(|info| info.key == key).map(|at| hosts.remove(at));
                infos.push(answer.unwrap_or_else(|| {
                    let own = about.as_ref().and_then(|about| self.known(proc, &key, about));
                    Info { key, flags: 0, value: own.unwrap_or(Value::Undef) }
                }));
            }
        }
        // What the host adds unasked.
        infos.append(&mut hosts);
        match status_of(&infos) {
            Status::ERR_NOT_FOUND => Err(nothing),
            status => Ok((status, infos)),
        }
    }

    fn known(&self, asker: &Proc, key: &Key, about: &Proc) -> Option<Value> {
        match key.as_str()? {
            keys::QUERY_NAMESPACES => {
                let mut names = self.jobs.names();
                names.retain(|name| self.jobs.get(name).is_some_and(|job| !job.of_tools));
                names.sort_unstable();
                let names: Vec<&[u8]> = names.iter().map(Nspace::as_bytes).collect();
                Some(Value::string(names.join(&b',')))
            }
            keys::SERVER_URI => self.common.uri.as_ref().map(|uri| Value::string(uri.to_string())),
            keys::QUERY_LOCAL_PROC_TABLE => self.local_procs(&about.nspace),
            _ => self.jobs.stored(&about.nspace)?.get(asker.rank, about.rank, key, &Directives::NONE).ok(),
        }
    }

    /// The processes of a namespace on this node.
    fn local_procs(&self, nspace: &Nspace) -> Option<Value> {
        let state = |phase: Phase, ended: bool| match phase {
            Phase::Lost => PROC_STATE_ABORTED,
            Phase::Finalized if ended => PROC_STATE_TERMINATED,
            Phase::Expected | Phase::Asking => PROC_STATE_PREPPED,
            Phase::Joined | Phase::Finalized => PROC_STATE_CONNECTED,
        };
        let of = |(rank, client): (&Rank, &super::jobs::Client)| {
            Value::ProcInfo(Box::new(ProcInfo {
                proc: Proc::new(nspace.clone(), *rank),
                hostname: Some(self.config.hostname.clone()),
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

/// The answers, or a failure alone.
fn reply(status: Status, infos: Vec<Info>) -> Reply {
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED | Status::ERR_PARTIAL_SUCCESS | Status::QUERY_PARTIAL_SUCCESS => {
            Reply::Infos(status, infos)
        }
        failure => Reply::Done(failure),
    }
}

/// Whether all of it, some or none was found.
fn status_of(infos: &[Info]) -> Status {
    match infos.iter().filter(|info| info.value != Value::Undef).count() {
        0 => Status::ERR_NOT_FOUND,
        found if found < infos.len() => Status::ERR_PARTIAL_SUCCESS,
        _ => Status::SUCCESS,
    }
}
