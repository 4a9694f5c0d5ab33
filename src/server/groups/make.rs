//! The moment a group comes to be: data is shared, places are given, members are told.
use std::collections::BTreeSet;

use super::floor::Floor;
use super::group::Group;
use super::message::{self, Message};
use super::part::Part;
use super::sharing::Sharing;
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::{Reply, group_results};
use crate::server::collective::brought::Brought;
use crate::server::collective::exchange::Said;
use crate::server::ctx::proc_set::ProcSet;

/// Takes the data of other nodes out of what the host brings.
pub fn take_brought(infos: &mut Vec<Info>) -> Brought {
    let of_members = infos.extract_if(.., |info| info.key == keys::GROUP_ENDPT_DATA);
    let values = of_members.map(|info| info.value).collect();
    Brought::OfGroup(values, message::context_in(infos))
}

/// Makes a group of the processes that were to be in it and have arrived, on other nodes those of whom they have `said`
/// so.
pub fn group(floor: &mut Floor<'_>, part: &Part, excused: &BTreeSet<Proc>, infos: &[Info], said: &Said) -> Reply {
    let come: Option<BTreeSet<&Proc>> = (!said.come.is_empty()).then(|| collect_small(&said.come));
    let order = wanted_order(floor, part, said);
    let wanted = named_order(floor, part, said);
    let named = named_in(infos).map(ProcSet::from_iter);
    let is_in = |proc: &Proc| match floor.jobs.runs_here(proc) {
        true => !excused.contains(proc),
        false => {
            come.as_ref().is_none_or(|come| come.contains(proc)) && named.as_ref().is_none_or(|named| named.has(proc))
        }
    };
    let places: Vec<Proc> = wanted.iter().filter(|proc| is_in(proc)).cloned().collect();
    let status = if places.len() < wanted.len() { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
    found(floor, part, message::context_in(infos), in_order(places, &order), status)
}

/// Makes a group of the members that the host names.
pub fn assembled(floor: &mut Floor<'_>, part: &Part, status: Status, infos: &[Info], said: &Said) -> Reply {
    let order = wanted_order(floor, part, said);
    let places = floor.jobs.each(&named_in(infos).unwrap_or_default());
    let status = if status == Status::ERR_PARTIAL_SUCCESS { status } else { Status::SUCCESS };
    found(floor, part, message::context_in(infos), in_order(places, &order), status)
}

/// Adds a group to those there are. Members that have died meanwhile are reported at once.
pub fn enroll(floor: &mut Floor<'_>, id: &Nspace, mut group: Group) {
    let (members, notify) = (group.members(), group.notify);
    let account = group.first_here(floor.jobs).and_then(|proc| floor.cx.accounts.of_job(&proc.nspace));
    if let Some(account) = account {
        group.charge_to(account);
    }
    for dead in floor.registry.enroll(floor.jobs, id.clone(), group) {
        if notify {
            let others = members.iter().filter(|member| **member != dead).cloned().collect();
            floor.tell(id, &dead, others, &Message::MemberFailed, (None, None));
        }
    }
}

fn found(floor: &mut Floor<'_>, part: &Part, context: Option<u64>, places: Vec<Proc>, status: Status) -> Reply {
    let results = group_results(&part.group, context, &places);
    enroll(floor, &part.group, Group::new(places, context, part.notify));
    Reply::Infos(status, results)
}

/// Returns members in the order that is wanted; those whom that leaves out come behind, in their own order.
fn in_order(places: Vec<Proc>, order: &[Proc]) -> Vec<Proc> {
    let mut left: BTreeSet<Proc> = collect_small(places.iter().cloned());
    let mut ordered: Vec<Proc> = order.iter().filter(|proc| left.remove(proc)).cloned().collect();
    ordered.extend(places.into_iter().filter(|proc| left.contains(proc)));
    ordered
}

/// Begins to store what members here have given for a group.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` without a context id that is required.
pub fn share(part: &Part, infos: &[Info]) -> Result<Sharing, Status> {
    if lacks_context(part, infos) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    Ok(Sharing::begin(part, message::context_in(infos)))
}

/// Returns whether a group lacks the context id that its members require.
pub fn lacks_context(part: &Part, infos: &[Info]) -> bool {
    part.needs_context && message::context_in(infos).is_none()
}

/// Returns the order that the members are to have: where several want one, that of the first of them by name counts, on
/// every node.
fn wanted_order(floor: &Floor<'_>, part: &Part, said: &Said) -> Vec<Proc> {
    let mut orders = part.final_orders.clone();
    orders.extend(said.orders.iter().cloned());
    orders.pop_first().map(|(_, order)| floor.jobs.each(&order)).unwrap_or_default()
}

/// Returns those who are to be members, as the first of all by name has named them: alike on every node.
fn named_order(floor: &Floor<'_>, part: &Part, said: &Said) -> Vec<Proc> {
    let mut wanted = floor.jobs.each(&part.order);
    let Some(first) = said.come.iter().min().filter(|come| part.first.as_ref().is_none_or(|own| *come < own)) else {
        return wanted;
    };
    wanted.sort_unstable();
    let told = said.named.iter().find(|(by, _)| by == first).map(|(_, order)| &order[..]);
    in_order(wanted, told.unwrap_or_default())
}

/// The members that the host names.
fn named_in(infos: &[Info]) -> Option<Vec<Proc>> {
    infos.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs())
}
