//! Queries: what the host answers, and what the server knows itself.
//!
//! Process sets and groups that the server has been told of are its own to answer, and so are the list of what is
//! supported, the version of the interface, and the list of servers on this node. Everything else is asked of the host;
//! what that leaves open, the server answers as far as it knows ([`known`]): the namespaces, their processes on this
//! node, and what was registered with them. A key that is not known comes back without a type, and the status says so;
//! a failure comes alone, as programs free nothing then. Answers come in the order of the queries and of their keys;
//! what the host adds unasked follows what it was asked last.
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use super::ctx::Ctx;
use super::ctx::peers::Caller;
use super::ctx::ticket::Ticket;
use crate::account::{Charge, Kind};
use crate::by_number::ByNumber;
use crate::data::{Info, Key, Proc, Query, Status, Text, Value};
use crate::message::door::PeerId;
use crate::message::{Infos, Reply};
use crate::trace;

pub mod known;
mod offered;

use known::{Known, Subject, is_about_sets, is_foreign};

/// Most keys that one call asks for: they are gone through in one step.
const MAX_KEYS: usize = 8192;
/// Most times that the keys of one call have a qualifier, each counted for each key of its query.
const MAX_QUALIFIED: usize = 8 * MAX_KEYS;
/// Most reports of the server in one call: each is a look at all that there is.
const MAX_REPORTS: usize = 16;
/// Most bytes of the answers to one call.
const MAX_BYTES: usize = 64 << 20;
/// Most bytes of them that are the host's answers to keys that a query repeats: they are copied in one step.
const MAX_COPIED: usize = 4 << 20;

/// The answers to one key of a query, in its place among the others.
type Place = Vec<Info>;

/// One call of the host.
struct Call {
    queries: Vec<Query>,
    /// Places of their keys.
    places: Vec<usize>,
    /// Places of keys that a query repeats, each behind the one that it has its answer from.
    copies: Vec<(usize, usize)>,
}

/// A query under way.
struct Pending {
    caller: Caller,
    asker: Proc,
    /// The answers in the order of the keys; what the host is asked is empty until it has answered.
    places: Vec<Place>,
    /// Calls of the host that are not answered; the first is under way.
    calls: VecDeque<Call>,
    /// True if one call of the host answers it all: then its status counts.
    is_hosts: bool,
    /// Bytes of the answers, and the charge for them.
    bytes: usize,
    held: Charge,
    /// True if anything was answered.
    answered: bool,
    /// Status that the host has answered last.
    last_status: Status,
}

/// Answers of one call of the host, completed by what is known here.
#[derive(Debug, PartialEq)]
struct Answers {
    status: Status,
    /// One for each key, or none.
    of_keys: Vec<Option<Info>>,
    /// Answers that belong to no key.
    more: Vec<Info>,
}

/// Queries that the host is asked about.
#[derive(Default)]
pub struct Queries {
    pending: ByNumber<u64, Pending>,
    by_peer: BTreeMap<PeerId, BTreeSet<u64>>,
    last: u64,
}

impl Queries {
    /// Returns the number of queries that wait for the host.
    pub fn open(&self) -> usize {
        self.pending.len()
    }

    /// A client asks something.
    pub fn ask(&mut self, cx: &mut Ctx, known: &Known, caller: Caller, asker: Proc, queries: Vec<Query>) {
        let mut places: Vec<Place> = Vec::new();
        let mut left = Vec::new();
        let mut bytes = queries.iter().map(size_of_query).sum();
        let Ok(mut held) = cx.charge(caller.peer, Kind::Answer, bytes) else { return refuse(cx, caller, &asker) };
        if !queries.iter().all(Query::is_sound) {
            return cx.answer_status(caller, Err(Status::ERR_BAD_PARAM));
        }
        if queries.iter().map(|query| query.keys.len()).sum::<usize>() > MAX_KEYS {
            trace!("{asker} asks for more than {MAX_KEYS} keys at a time");
            return cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let qualified = queries.iter().map(|query| query.keys.len().saturating_mul(query.qualifiers.len()));
        let reports = queries.iter().map(known::reports).sum::<usize>();
        if qualified.fold(0, usize::saturating_add) > MAX_QUALIFIED || reports > MAX_REPORTS {
            trace!("{asker} asks for {reports} reports at a time, or for keys with too many qualifiers");
            return cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        for mut query in queries {
            let mut of_host = Call { queries: Vec::new(), places: Vec::new(), copies: Vec::new() };
            let is_of_host = query.qualifiers.iter().any(is_foreign);
            // A key that is asked for again has the same answer.
            let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            for key in std::mem::take(&mut query.keys) {
                let first = seen.get(key.as_bytes()).copied();
                let place = match first {
                    Some(at) => Some(places[at].clone()),
                    None if is_of_host => None,
                    None => known.own(cx, &asker, &key, &query),
                };
                bytes += place.as_deref().map_or(0, size_of_infos);
                if bytes > MAX_BYTES || !held.resize(Kind::Answer, bytes) {
                    return refuse(cx, caller, &asker);
                }
                match first {
                    // Its place is empty until the host has answered.
                    Some(at) if places[at].is_empty() => of_host.copies.push((at, places.len())),
                    Some(_) => {}
                    None => {
                        seen.insert(key.as_bytes().to_vec(), places.len());
                        if place.is_none() {
                            of_host.places.push(places.len());
                            query.keys.push(key);
                        }
                    }
                }
                places.push(place.unwrap_or_default());
            }
            if !query.keys.is_empty() {
                query.qualifiers = known.jobs.signed(cx, &asker, query.qualifiers);
                of_host.queries.push(query);
                left.push(of_host);
            }
        }
        let answered = places.iter().any(|place| !place.is_empty());
        let calls = calls(left);
        let is_hosts = !answered && calls.len() == 1;
        let last_status = Status::ERR_NOT_FOUND;
        self.go_on(cx, Pending { caller, asker, places, calls, is_hosts, bytes, held, answered, last_status });
    }

    /// Asks the host what it is still to be asked, or answers.
    fn go_on(&mut self, cx: &mut Ctx, pending: Pending) {
        let Some(Call { queries, .. }) = pending.calls.front() else { return answer(cx, pending) };
        self.last += 1;
        let number = self.last;
        cx.ask_host(
            |host, done| host.query(&pending.asker, queries, done),
            (Status::SUCCESS, Vec::new()),
            move |result| Ticket::Query(number, result),
        );
        self.by_peer.entry(pending.caller.peer).or_default().insert(number);
        self.pending.insert(number, pending);
    }

    fn take(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        let peer = pending.caller.peer;
        if let Some(numbers) = self.by_peer.get_mut(&peer) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
        Some(pending)
    }

    /// The host has answered.
    pub fn answered(&mut self, cx: &mut Ctx, known: &Known, number: u64, result: Result<Infos, Status>) {
        let Some(mut pending) = self.take(number) else { return };
        let Some(Call { queries: asked, places, copies }) = pending.calls.pop_front() else { return };
        let more = match complete(known, &pending.asker, &asked, result) {
            Ok(Answers { status, of_keys, more }) => {
                pending.answered = true;
                pending.last_status = status;
                pending.bytes += of_keys.iter().flatten().map(Info::kept_size).sum::<usize>() + size_of_infos(&more);
                places.iter().zip(of_keys).for_each(|(at, answer)| pending.places[*at].extend(answer));
                more
            }
            Err(status) => {
                pending.last_status = status;
                for (at, key) in places.iter().zip(asked.iter().flat_map(|query| &query.keys)) {
                    let key = Key::new(key.as_bytes()).ok();
                    pending.places[*at].extend(key.map(|key| Info { key, flags: 0, value: Value::Undef }));
                }
                Vec::new()
            }
        };
        let copied: usize = copies.iter().map(|(from, _)| size_of_infos(&pending.places[*from])).sum();
        pending.bytes += copied;
        if copied > MAX_COPIED || pending.bytes > MAX_BYTES || !pending.held.resize(Kind::Answer, pending.bytes) {
            return refuse(cx, pending.caller, &pending.asker);
        }
        copies.iter().for_each(|(from, to)| pending.places[*to] = pending.places[*from].clone());
        let last = places.into_iter().chain(copies.into_iter().map(|(_, to)| to)).max();
        last.into_iter().for_each(|at| pending.places[at].extend_from_slice(&more));
        self.go_on(cx, pending);
    }

    /// A peer that may have asked is gone.
    pub fn peer_over(&mut self, peer: PeerId) {
        for number in self.by_peer.remove(&peer).unwrap_or_default() {
            self.pending.remove(&number);
        }
    }
}

/// Returns the bytes that a query takes here and at its host, which is given a copy: many times what it has in its
/// message where it asks for little.
fn size_of_query(query: &Query) -> usize {
    let of_key = |key: &Text| size_of::<Text>() + size_of::<Place>() + size_of::<Info>() + key.as_bytes().len();
    let keys = query.keys.iter().map(of_key).sum::<usize>();
    2 * (size_of::<Call>() + size_of::<Query>() + keys + size_of_infos(&query.qualifiers))
}

fn size_of_infos(infos: &[Info]) -> usize {
    infos.iter().map(Info::kept_size).sum()
}

fn refuse(cx: &mut Ctx, caller: Caller, asker: &Proc) {
    trace!("the answers to what {asker} asks take more than {MAX_BYTES} bytes, or than it may hold");
    cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
}

fn answer(cx: &mut Ctx, pending: Pending) {
    let Pending { caller, places, is_hosts, answered, last_status, .. } = pending;
    let infos: Vec<Info> = places.into_iter().flatten().collect();
    let answer = match answered {
        false => Reply::Done(last_status),
        true => reply(if is_hosts { last_status } else { status_of(infos.iter()) }, infos),
    };
    cx.answer(caller, answer);
}

/// Completes the host's answers with what is known here, where the host says that it does not know all of it.
fn complete(known: &Known, asker: &Proc, queries: &[Query], result: Result<Infos, Status>) -> Result<Answers, Status> {
    // The host alone could know what is meant.
    if matches!(result, Err(Status::ERR_NOT_FOUND))
        && queries.iter().flat_map(|query| &query.qualifiers).any(is_foreign)
    {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let (status, hosts, nothing) = match result {
        Ok((Status::SUCCESS, infos)) if infos.is_empty() => {
            // It has found nothing.
            if queries.iter().flat_map(|query| &query.qualifiers).any(is_foreign) {
                return Err(Status::ERR_NOT_FOUND);
            }
            (None, infos, Status::ERR_NOT_FOUND)
        }
        Err(status) if queries.iter().flat_map(|query| &query.qualifiers).any(is_foreign) => return Err(status),
        Ok((Status::ERR_PARTIAL_SUCCESS, infos)) => (None, infos, Status::ERR_NOT_FOUND),
        // Of sets and groups, enough is known here to say so.
        Err(Status::ERR_NOT_SUPPORTED) if queries.iter().flat_map(|query| &query.keys).all(is_about_sets) => {
            (None, Vec::new(), Status::ERR_NOT_FOUND)
        }
        Err(status @ (Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_FOUND)) => (None, Vec::new(), status),
        Ok((status, infos)) => (Some(status), infos, Status::ERR_NOT_FOUND),
        Err(status) => return Err(status),
    };
    // Asked for twice, say of two jobs, the host's answers come in the order of the queries.
    let mut places: BTreeMap<Key, VecDeque<usize>> = BTreeMap::new();
    for (at, info) in hosts.iter().enumerate() {
        places.entry(info.key.clone()).or_default().push_back(at);
    }
    // A success that leaves keys out is a partial one. Answers by other keys altogether are the host's own matter.
    let mut asked = queries.iter().flat_map(|query| &query.keys).filter_map(|key| Key::new(key.as_bytes()).ok());
    let is_usual = asked.any(|key| places.contains_key(&key));
    let status = status.filter(|status| *status != Status::SUCCESS || !is_usual);
    let mut hosts: Vec<Option<Info>> = hosts.into_iter().map(Some).collect();
    let mut of_keys = Vec::new();
    for query in queries {
        let subject = Subject::read(asker, query);
        for key in &query.keys {
            let Ok(key) = Key::new(key.as_bytes()) else {
                of_keys.push(None);
                continue;
            };
            let answer = places.get_mut(&key).and_then(VecDeque::pop_front).and_then(|at| hosts[at].take());
            let own = || {
                let value = known.instead_of_host(&key, query, subject.as_ref()).unwrap_or(Value::Undef);
                Info { key: key.clone(), flags: 0, value }
            };
            of_keys.push(match (status, answer) {
                (Some(_), answer) => answer,
                (None, answer) => Some(answer.filter(|info| info.value != Value::Undef).unwrap_or_else(own)),
            });
        }
    }
    let more: Vec<Info> = hosts.into_iter().flatten().collect();
    let status = match status {
        Some(status) => status,
        None => match status_of(of_keys.iter().flatten().chain(&more)) {
            Status::ERR_NOT_FOUND => return Err(nothing),
            status => status,
        },
    };
    Ok(Answers { status, of_keys, more })
}

/// Calls of the host: one for everything, unless the same key is asked for more than once. Of answers by that key, with
/// one left out, nobody could tell which query they are for.
fn calls(calls: Vec<Call>) -> VecDeque<Call> {
    let mut seen = HashSet::new();
    let is_clear =
        calls.iter().flat_map(|call| &call.queries).flat_map(|query| &query.keys).all(|key| seen.insert(key));
    if !is_clear {
        return calls.into();
    }
    let together = calls.into_iter().reduce(|mut all, call| {
        all.queries.extend(call.queries);
        all.places.extend(call.places);
        all.copies.extend(call.copies);
        all
    });
    together.into_iter().collect()
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

/// Returns the status of a list of answers: all of it, some or none was found.
fn status_of<'a>(infos: impl Iterator<Item = &'a Info>) -> Status {
    let (mut all, mut found) = (0, 0);
    for info in infos {
        all += 1;
        found += usize::from(info.value != Value::Undef);
    }
    match found {
        0 => Status::ERR_NOT_FOUND,
        found if found < all => Status::ERR_PARTIAL_SUCCESS,
        _ => Status::SUCCESS,
    }
}

#[cfg(test)]
mod tests;
