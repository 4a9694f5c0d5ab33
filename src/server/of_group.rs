//! What those who come to make or end a group bring along, gathered while they come.
use std::collections::{BTreeMap, BTreeSet};

use super::bootstrap::added;
use super::election::Election;
use super::groups;
use super::members::Operation;
use crate::data::{Info, InfoList, Nspace, Proc, keys};
use crate::message::door::PeerId;

/// What a meeting is besides when it is for a group, or when a group was named in it.
#[derive(Debug)]
pub(super) struct OfGroup {
    pub(super) id: Nspace,
    pub(super) optional: bool,
    pub(super) notify: bool,
    pub(super) fault_tolerant: bool,
    /// Whether a context id is wanted, and whether that is all or nothing.
    pub(super) context: bool,
    pub(super) needs_context: bool,
    pub(super) leader: Option<Proc>,
    /// The members as the first of them has named them.
    pub(super) order: Vec<Proc>,
    /// Who is to be a member besides.
    pub(super) added: Vec<Proc>,
    /// With what each has come.
    pub(super) infos: BTreeMap<Proc, Vec<Info>>,
    /// What each gives to be looked up by the others (`PMIX_GROUP_INFO`).
    pub(super) given: BTreeMap<Proc, Vec<Info>>,
    /// Who will not come, and need not.
    pub(super) absent: BTreeSet<Proc>,
    /// How many events each connection still has to decide about.
    pub(super) deciding: BTreeMap<PeerId, usize>,
    /// A leader is looked for.
    pub(super) electing: Option<Election>,
}

impl OfGroup {
    /// None for a meeting that has nothing to do with groups.
    pub(super) fn new(operation: &Operation, info: &[Info]) -> Option<Self> {
        let id = match operation {
            Operation::Construct(id) | Operation::Destruct(id) => id.clone(),
            Operation::Fence => groups::group_of(info)?,
            Operation::Connect | Operation::Disconnect => return None,
        };
        Some(OfGroup {
            id,
            optional: false,
            notify: false,
            fault_tolerant: false,
            context: false,
            needs_context: false,
            leader: None,
            order: Vec::new(),
            added: Vec::new(),
            infos: BTreeMap::new(),
            given: BTreeMap::new(),
            absent: BTreeSet::new(),
            deciding: BTreeMap::new(),
            electing: None,
        })
    }

    pub(super) fn is_of(&self, id: &Nspace) -> bool {
        self.id == *id
    }

    /// A member comes.
    pub(super) fn joined(&mut self, proc: &Proc, procs: &[Proc], info: &[Info]) {
        self.absent.remove(proc);
        if self.order.is_empty() {
            self.order = procs.to_vec();
        }
        self.optional |= info.is_set(keys::GROUP_OPTIONAL);
        self.notify |= info.is_set(keys::GROUP_NOTIFY_TERMINATION);
        self.fault_tolerant |= info.is_set(keys::GROUP_FT_COLLECTIVE);
        let context = info.find(keys::GROUP_ASSIGN_CONTEXT_ID).filter(|info| info.is_true());
        self.context |= context.is_some();
        self.needs_context |= context.is_some_and(Info::is_required);
        if info.is_set(keys::GROUP_LEADER) {
            self.leader.get_or_insert_with(|| proc.clone());
        }
        let given = info.iter().filter(|info| info.key == keys::GROUP_INFO).filter_map(|info| info.value.as_array());
        self.given.insert(proc.clone(), given.flat_map(|array| array.infos().cloned()).collect());
        self.added.extend(added(info).unwrap_or_default());
        self.infos.insert(proc.clone(), info.to_vec());
    }

    /// One group of which each of these knows a part.
    pub(super) fn merged<'a>(id: &Nspace, parts: impl Iterator<Item = &'a OfGroup>) -> Option<OfGroup> {
        let mut merged = OfGroup::new(&Operation::Construct(id.clone()), &[])?;
        for part in parts {
            merged.notify |= part.notify;
            merged.needs_context |= part.needs_context;
            merged.given.extend(part.given.clone());
        }
        Some(merged)
    }

    /// How many need not come, and whether all is decided.
    pub(super) fn progress(&self) -> (usize, bool) {
        (self.absent.len(), self.deciding.is_empty() && self.electing.is_none())
    }

    /// Goes on without a member, where that may be; says whether that is news.
    pub(super) fn excuse(&mut self, proc: &Proc, in_any_case: bool) -> Option<bool> {
        let may = in_any_case || self.optional || self.notify || self.fault_tolerant;
        may.then(|| self.absent.insert(proc.clone()))
    }

    pub(super) fn await_decisions(&mut self, told: impl IntoIterator<Item = PeerId>) {
        told.into_iter().for_each(|peer| *self.deciding.entry(peer).or_default() += 1);
    }

    pub(super) fn decided(&mut self, peer: PeerId) {
        if let Some(open) = self.deciding.get_mut(&peer) {
            *open -= 1;
            self.deciding.retain(|_, open| *open > 0);
        }
    }
}
