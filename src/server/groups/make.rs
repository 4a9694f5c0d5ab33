//! The moment a group comes to be: data is shared, places are given, members are told.
use std::collections::BTreeSet;

use super::floor::Floor;
use super::message::{self, Message};
use super::part::Part;
use super::registry::Group;
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Key, Nspace, Proc, Scope, Status, Value, keys};
use crate::message::{Posted, Reply, key_in_context};
use crate::server::collective::exchange;
use crate::server::ctx::Ctx;
use crate::server::ctx::proc_set::ProcSet;
use crate::server::jobs::Jobs;
use crate::store::exchange::{self as encoding, Others, RankData};
use crate::trace;

/// Collects what members of this node have posted, and given for the group: the latter with the scope INTERNAL.
///
/// # Errors
/// The status of data that cannot be read, or `ERR_PACK_FAILURE`.
pub fn data(cx: &Ctx, jobs: &Jobs, members: &[Proc], part: &Part) -> Result<Vec<u8>, Status> {
    let mut ranks = Vec::new();
    for proc in members {
        let posted = jobs.store(&proc.nspace).map(|store| store.outbound(proc.rank)).transpose();
        let mut of = match posted.map_err(|e| e.status())? {
            Some(posted) => exchange::carried(&proc.nspace, posted),
            None => RankData { proc: proc.clone(), commits: 0, entries: Vec::new() },
        };
        let given = part.given.get(proc).into_iter().flatten().cloned();
        of.entries.extend(given.map(|Info { key, value, .. }| Posted { scope: Scope::INTERNAL, key, value }));
        ranks.push(of);
    }
    encoding::write(&exchange::sender(cx), ranks, None).map_err(|e| {
        trace!("what members of a group have posted cannot be sent: {e}");
        Status::ERR_PACK_FAILURE
    })
}

/// Decodes the blobs of other nodes that the host brings: one after the other in an attribute, or in an array.
///
/// # Errors
/// `ERR_UNPACK_FAILURE`.
pub fn blobs_in(cx: &Ctx, infos: &[Info]) -> Result<Others, Status> {
    let mut others = Others::default();
    for data in infos.iter().filter(|info| info.key == keys::GROUP_ENDPT_DATA) {
        match &data.value {
            Value::DataArray(array) => {
                for bytes in array.items().iter().filter_map(|item| item.as_bytes()) {
                    others.add(exchange::others(cx, bytes)?);
                }
            }
            value => others.add(exchange::others(cx, value.as_bytes().ok_or(Status::ERR_UNPACK_FAILURE)?)?),
        }
    }
    Ok(others)
}

/// Makes a group of the processes that were to be in it and have arrived.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` without a context id that is required, and the status of data that cannot be stored.
pub fn group(
    floor: &mut Floor<'_>,
    part: &Part,
    excused: &BTreeSet<Proc>,
    infos: &[Info],
    others: Vec<(u64, RankData)>,
) -> Result<Reply, Status> {
    let come: Option<BTreeSet<Proc>> =
        (!others.is_empty()).then(|| collect_small(others.iter().map(|(_, of)| of.proc.clone())));
    let context = share(floor, part, infos, others)?;
    let wanted = floor.jobs.each(&part.order);
    let named = named_in(infos).map(ProcSet::from_iter);
    let is_in = |proc: &Proc| match floor.jobs.runs_here(proc) {
        true => !excused.contains(proc),
        false => {
            come.as_ref().is_none_or(|come| come.contains(proc)) && named.as_ref().is_none_or(|named| named.has(proc))
        }
    };
    let places: Vec<Proc> = wanted.iter().filter(|proc| is_in(proc)).cloned().collect();
    let status = if places.len() < wanted.len() { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
    Ok(found(floor, part, context, places, status))
}

/// Makes a group of the members that the host names.
///
/// # Errors
/// As [`group`].
pub fn assembled(
    floor: &mut Floor<'_>,
    part: &Part,
    status: Status,
    infos: &[Info],
    others: Vec<(u64, RankData)>,
) -> Result<Reply, Status> {
    let context = share(floor, part, infos, others)?;
    let places = floor.jobs.each(&named_in(infos).unwrap_or_default());
    let status = if status == Status::ERR_PARTIAL_SUCCESS { status } else { Status::SUCCESS };
    Ok(found(floor, part, context, places, status))
}

/// Adds a group to those there are. Members that have died meanwhile are reported at once.
pub fn enroll(floor: &mut Floor<'_>, id: &Nspace, group: Group) {
    let (members, notify) = (group.members(), group.notify);
    for dead in floor.registry.enroll(floor.jobs, id.clone(), group) {
        if notify {
            let others = members.iter().filter(|member| **member != dead).cloned().collect();
            floor.tell(id, &dead, others, &Message::MemberFailed, (None, None));
        }
    }
}

/// The answer to members of a group that has been made.
pub fn results(id: &Nspace, context: Option<u64>, members: &[Proc]) -> Vec<Info> {
    let context = context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)));
    let membership = Info::new(keys::GROUP_MEMBERSHIP, message::procs(members.to_vec()));
    context.into_iter().chain([membership, message::id_of(id)]).collect()
}

fn found(floor: &mut Floor<'_>, part: &Part, context: Option<u64>, places: Vec<Proc>, status: Status) -> Reply {
    let results = results(&part.group, context, &places);
    enroll(floor, &part.group, Group::new(places, context, part.notify));
    Reply::Infos(status, results)
}

/// Stores what members have posted and given, and returns the context id under which the latter is found.
fn share(
    floor: &mut Floor<'_>,
    part: &Part,
    infos: &[Info],
    mut others: Vec<(u64, RankData)>,
) -> Result<Option<u64>, Status> {
    let context = message::context_in(infos);
    if part.needs_context && context.is_none() {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    for (_, of) in &mut others {
        let (given, posted): (Vec<_>, Vec<_>) =
            std::mem::take(&mut of.entries).into_iter().partition(|entry| entry.scope == Scope::INTERNAL);
        let given = given.into_iter().map(|entry| (entry.key, entry.value));
        of.entries = [posted, in_context(given, context, Scope::GLOBAL)?].concat();
    }
    exchange::take_in(floor.cx, floor.jobs, others)?;
    for (proc, given) in part.given.iter().filter(|(_, given)| !given.is_empty()) {
        let given = given.iter().map(|info| (info.key.clone(), info.value.clone()));
        let entries = in_context(given, context, Scope::LOCAL)?;
        floor.jobs.commit(floor.cx, proc.clone(), entries)?;
    }
    Ok(context)
}

/// Entries for what a member has given: to be found with the group's context id, and the newest without.
fn in_context(
    given: impl Iterator<Item = (Key, Value)>,
    context: Option<u64>,
    scope: Scope,
) -> Result<Vec<Posted>, Status> {
    let mut entries = Vec::new();
    for (key, value) in given {
        if let Some(context) = context {
            let key = key_in_context(context, key.as_bytes()).ok_or(Status::ERR_BAD_PARAM)?;
            entries.push(Posted { scope, key, value: value.clone() });
        }
        entries.push(Posted { scope, key, value });
    }
    Ok(entries)
}

/// The members that the host names.
fn named_in(infos: &[Info]) -> Option<Vec<Proc>> {
    infos.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs())
}
