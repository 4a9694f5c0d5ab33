//! Queries: what the host answers, and what the server knows itself.
//!
//! Process sets and groups that it has been told of are the server's own, and so are the list of what is supported, the version of the interface, and the list
//! of servers on this node.
//! Everything else is asked of the host; what that leaves open, the server answers as far as it knows: the namespaces, their
//! processes on this node, and what was registered with them. What is not known comes back without a type, and the status says so;
//! a failure comes alone, as programs free nothing then. Answers come in the order of the queries and of their keys; what the host
//! adds unasked follows what it was asked last.
use std::collections::{HashSet, VecDeque};

use super::jobs::Phase;
use super::router::Router;
use crate::attribute_support;
use crate::data::constants::proc_state::{
    PROC_STATE_ABORTED, PROC_STATE_CONNECTED, PROC_STATE_PREPPED, PROC_STATE_TERMINATED,
};
use crate::data::{
    DataArray, DataType, Info, InfoList, Key, Nspace, Proc, ProcInfo, Query, Rank, Status, Text, Value, keys,
};
use crate::message::door::PeerId;
use crate::message::{Infos, Reply};
use crate::store::Directives;

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

/// The answers to one key of a query, in its place among the others.
type Place = Vec<Info>;

/// A query under way.
struct Asking {
    peer: PeerId,
    number: u64,
    asker: Proc,
    /// The answers in the order of the keys; what the host is asked is empty until it has answered.
    places: Vec<Place>,
    /// What the host is still to be asked: calls of it, and the places of the keys in each.
    calls: VecDeque<(Vec<Query>, Vec<usize>)>,
    /// Whether one call of the host answers it all: then its status counts.
    is_hosts: bool,
    /// Whether anything was answered, and what the host has said last.
    answered: bool,
    hosts: Status,
}

impl Router {
    /// A client asks something.
    pub(super) fn query(&mut self, peer: PeerId, number: u64, proc: Proc, queries: Vec<Query>) {
        let mut places = Vec::new();
        let mut left = Vec::new();
        for mut query in queries {
            let mut of_host = Vec::new();
            for key in std::mem::take(&mut query.keys) {
                let place = self.own_answers(&key, &query);
                if place.is_none() {
                    of_host.push(places.len());
                    query.keys.push(key);
                }
                places.push(place.unwrap_or_default());
            }
            if !of_host.is_empty() {
                query.qualifiers = self.jobs.signed(&self.cx, &proc, query.qualifiers);
                left.push((query, of_host));
            }
        }
        let answered = places.iter().any(|place| !place.is_empty());
        let calls = calls(left);
        let is_hosts = !answered && calls.len() == 1;
        let hosts = Status::ERR_NOT_FOUND;
        self.ask_next(Asking { peer, number, asker: proc, places, calls, is_hosts, answered, hosts });
    }

    /// What is the server's own to answer; nothing where the host is asked.
    fn own_answers(&self, key: &Text, query: &Query) -> Option<Place> {
        if is_about_sets(key) {
            // The host may have sets that it has not told of.
            let value = self.of_sets(key.as_str()?, query).filter(|value| !says_none(value))?;
            return Some(vec![Info::new(key.as_str()?, value)]);
        }
        if attribute_support::is_asked_by(key) {
            return Some(attribute_support::answers(&query.qualifiers, &self.host_support));
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

    /// What is known of process sets and groups.
    fn of_sets(&self, key: &str, query: &Query) -> Option<Value> {
        let named = |key| query.qualifiers.find(key).and_then(|info| info.value.as_text());
        let value = self.process_sets.answer(key, named(keys::PSET_NAME), &self.groups);
        value.or_else(|| self.groups.answer(key, named(keys::GROUP_ID)))
    }

    /// Asks the host what it is still to be asked, or answers.
    fn ask_next(&mut self, mut asking: Asking) {
        let Some((queries, places)) = asking.calls.pop_front() else { return self.answer_query(asking) };
        let (asker, asked) = (asking.asker.clone(), queries.clone());
        self.ask_host(
            |host, done| host.query(&asker, &queries, done),
            (Status::SUCCESS, Vec::new()),
            move |router, result| {
                match router.host_or_own(&asking.asker, &asked, result) {
                    Ok((status, answers, more)) => {
                        asking.answered = true;
                        asking.hosts = status;
                        let last = places.last().copied();
                        places.iter().zip(answers).for_each(|(at, answer)| asking.places[*at].extend(answer));
                        last.into_iter().for_each(|at| asking.places[at].extend_from_slice(&more));
                    }
                    Err(status) => {
                        asking.hosts = status;
                        for (at, key) in places.iter().zip(asked.iter().flat_map(|query| &query.keys)) {
                            let key = Key::new(key.as_bytes()).ok();
                            asking.places[*at].extend(key.map(|key| Info { key, flags: 0, value: Value::Undef }));
                        }
                    }
                }
                router.ask_next(asking);
            },
        );
    }

    fn answer_query(&mut self, asking: Asking) {
        let Asking { peer, number, places, is_hosts, answered, hosts, .. } = asking;
        let infos = places.concat();
        let answer = match answered {
            false => Reply::Done(hosts),
            true => reply(if is_hosts { hosts } else { status_of(&infos) }, infos),
        };
        self.cx.reply(peer, number, answer);
    }

    /// The host's answers, one for each key or none, and what it has said besides; with what is known here where the host says that
    /// it does not know all of it.
    #[allow(clippy::type_complexity)]
    fn host_or_own(
        &self,
        proc: &Proc,
        queries: &[Query],
        result: Result<Infos, Status>,
    ) -> Result<(Status, Vec<Option<Info>>, Vec<Info>), Status> {
        let (status, mut hosts, nothing) = match result {
            Ok((Status::ERR_PARTIAL_SUCCESS, infos)) => (None, infos, Status::ERR_NOT_FOUND),
            // Of sets and groups, enough is known here to say so.
            Err(Status::ERR_NOT_SUPPORTED) if queries.iter().flat_map(|query| &query.keys).all(is_about_sets) => {
                (None, Vec::new(), Status::ERR_NOT_FOUND)
            }
            Err(status @ (Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND)) => (None, Vec::new(), status),
            Ok((status, infos)) => (Some(status), infos, Status::ERR_NOT_FOUND),
            Err(status) => return Err(status),
        };
        let mut answers = Vec::new();
        for query in queries {
            let about = About::read(proc, query);
            for key in &query.keys {
                let Ok(key) = Key::new(key.as_bytes()) else {
                    answers.push(None);
                    continue;
                };
                // Asked for twice, say of two jobs, the host's answers come in the order of the queries.
                let answer = hosts.iter().position(|info| info.key == key).map(|at| hosts.remove(at));
                let own = || {
                    let own = about.as_ref().and_then(|about| self.known(&key, about));
                    let own = own.or_else(|| self.of_sets(key.as_str()?, query));
                    Info { key: key.clone(), flags: 0, value: own.unwrap_or(Value::Undef) }
                };
                answers.push(match (status, answer) {
                    (Some(_), answer) => answer,
                    (None, answer) => Some(answer.filter(|info| info.value != Value::Undef).unwrap_or_else(own)),
                });
            }
        }
        match status {
            Some(status) => Ok((status, answers, hosts)),
            None => {
                let all: Vec<Info> = answers.iter().flatten().chain(&hosts).cloned().collect();
                match status_of(&all) {
                    Status::ERR_NOT_FOUND => Err(nothing),
                    status => Ok((status, answers, hosts)),
                }
            }
        }
    }

    fn known(&self, key: &Key, About { asker, proc, directives }: &About) -> Option<Value> {
        match key.as_str()? {
            keys::QUERY_NAMESPACES => {
                let mut names = self.jobs.names();
                names.retain(|name| self.jobs.get(name).is_some_and(|job| !job.of_tools));
                names.sort_unstable();
                let names: Vec<&[u8]> = names.iter().map(Nspace::as_bytes).collect();
                Some(Value::string(names.join(&b',')))
            }
            keys::SERVER_URI => self.common.uri.as_ref().map(|uri| Value::string(uri.to_string())),
            keys::QUERY_LOCAL_PROC_TABLE => self.local_procs(&proc.nspace),
            _ => {
                let mut directives = directives.clone();
                directives.settle(key.as_bytes());
                self.jobs.stored(&proc.nspace)?.get(*asker, proc.rank, key, &directives).ok()
            }
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
                hostname: Some(self.cx.config.hostname.clone()),
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

/// What a query is about.
struct About {
    /// Who asks, if it is of that job.
    asker: Rank,
    proc: Proc,
    /// Which application, node or session is meant.
    directives: Directives,
}

impl About {
    /// Nothing where its qualifiers make no sense, or one is required that nobody here knows.
    fn read(asker: &Proc, query: &Query) -> Option<Self> {
        const OTHERS: [&str; 5] = [keys::PROCID, keys::RANK, keys::USERID, keys::GRPID, keys::QUERY_REFRESH_CACHE];
        let mut proc = query.about(asker)?;
        let mut directives = Directives::NONE;
        for info in query.qualifiers.iter().filter(|info| !OTHERS.iter().any(|key| info.key == *key)) {
            directives.take(info.key.as_bytes(), info.flags, &info.value).ok()?;
        }
        if let Some(nspace) = directives.nspace.take() {
            proc.nspace = nspace;
        }
        let asker = if asker.nspace == proc.nspace { asker.rank } else { Rank::UNDEF };
        Some(About { asker, proc, directives })
    }
}

/// Whether it says that there are no sets or groups.
fn says_none(value: &Value) -> bool {
    match value {
        Value::Size(n) => *n == 0,
        Value::String(Some(names)) => names.as_bytes().is_empty(),
        Value::DataArray(names) => names.is_empty(),
        _ => false,
    }
}

/// What the host is asked at once: everything, unless the same key is asked for more than once. Of answers by that key, with one
/// left out, nobody could tell which query they are for.
fn calls(queries: Vec<(Query, Vec<usize>)>) -> VecDeque<(Vec<Query>, Vec<usize>)> {
    let mut seen = HashSet::new();
    let is_clear = queries.iter().flat_map(|(query, _)| &query.keys).all(|key| seen.insert(key));
    match is_clear {
        true if queries.is_empty() => VecDeque::new(),
        true => {
            let (queries, places): (Vec<_>, Vec<_>) = queries.into_iter().unzip();
            VecDeque::from([(queries, places.concat())])
        }
        false => queries.into_iter().map(|(query, places)| (vec![query], places)).collect(),
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
