//! The group's part of a collective that makes or ends it: what its participants bring.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::election::Election;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::{Reply, group_results};
use crate::server::collective::tracker::OnLoss;

/// Contributions of the participants of a construct or destruct so far.
#[derive(Debug)]
pub struct Part {
    pub group: Nspace,
    pub optional: bool,
    pub notify: bool,
    pub fault_tolerant: bool,
    /// True if a context id is wanted.
    pub context: bool,
    pub needs_context: bool,
    pub leader: Option<Proc>,
    /// The first participant by name.
    pub first: Option<Proc>,
    /// The members as that one has named them.
    pub order: Vec<Proc>,
    /// True if another one has named them in another way.
    differs: bool,
    /// Processes that are to be members besides.
    pub added: Vec<Proc>,
    /// Attributes of each participant.
    pub infos: BTreeMap<Proc, Vec<Info>>,
    /// Data that each gives to be looked up by the others (`PMIX_GROUP_INFO`).
    pub given: BTreeMap<Proc, Arc<Vec<Info>>>,
    /// The order of the members in the end, by who has asked for it (`PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`).
    pub final_orders: BTreeMap<Proc, Vec<Proc>>,
    /// The election of a leader, while one is under way.
    pub electing: Option<Election>,
    /// Processes of other nodes that may give the group up because of a dead member, and have not been heard; by that
    /// member.
    pub asked: BTreeMap<Proc, BTreeSet<Proc>>,
}

impl Part {
    /// Begins the part of a collective that nobody has arrived at.
    pub fn new(group: &Nspace) -> Self {
        Part {
            group: group.clone(),
            optional: false,
            notify: false,
            fault_tolerant: false,
            context: false,
            needs_context: false,
            leader: None,
            first: None,
            order: Vec::new(),
            differs: false,
            added: Vec::new(),
            infos: BTreeMap::new(),
            given: BTreeMap::new(),
            final_orders: BTreeMap::new(),
            electing: None,
            asked: BTreeMap::new(),
        }
    }

    /// Begins the part of a collective that a process of another node may lead.
    pub fn led_by(group: &Nspace, leader: Option<Proc>) -> Self {
        Part { leader, ..Part::new(group) }
    }

    /// Takes in what a participant brings.
    pub fn joined(&mut self, proc: &Proc, procs: &[Proc], info: &[Info]) {
        self.differs |= self.first.is_some() && self.order != procs;
        if self.first.as_ref().is_none_or(|first| proc < first) {
            self.first = Some(proc.clone());
            if self.order != procs {
                self.order = procs.to_vec();
            }
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
        self.given.insert(proc.clone(), Arc::new(given.flat_map(|array| array.infos().cloned()).collect()));
        self.added.extend(added(info).unwrap_or_default());
        let order = info.find(keys::GROUP_FINAL_MEMBERSHIP_ORDER).and_then(|info| info.value.as_procs());
        self.final_orders.extend(order.map(|order| (proc.clone(), order)));
        self.infos.insert(proc.clone(), info.to_vec());
    }

    /// Returns whether an answer tells participants that the group is made of the members that each has named, and
    /// nothing else.
    pub fn is_as_named(&self, reply: &Reply) -> bool {
        !self.differs && *reply == Reply::Infos(Status::SUCCESS, group_results(&self.group, None, &self.order))
    }

    /// Merges parts of which each knows some participants of one group.
    pub fn merged<'a>(group: &Nspace, parts: impl Iterator<Item = &'a Part>) -> Part {
        let mut merged = Part::new(group);
        for part in parts {
            merged.notify |= part.notify;
            merged.needs_context |= part.needs_context;
            merged.given.extend(part.given.clone());
            merged.final_orders.extend(part.final_orders.clone());
        }
        merged
    }

    /// The consequence of a participant's death, as the participants want it.
    pub fn on_loss(&self, constructs: bool) -> OnLoss {
        match () {
            () if self.optional && constructs => OnLoss::Optional,
            // Handlers of those who are told may give the group up.
            () if self.notify && constructs => OnLoss::ExcuseAndHold,
            () if self.optional || self.notify || self.fault_tolerant => OnLoss::Excuse,
            () => OnLoss::Fail,
        }
    }
}

/// Lists the processes that are added to a group.
///
/// # Errors
/// `ERR_BAD_PARAM` where the attribute names no processes.
pub fn added(info: &[Info]) -> Result<Vec<Proc>, Status> {
    let lists = info.iter().filter(|info| info.key == keys::GROUP_ADD_MEMBERS);
    let lists = lists.map(|info| info.value.as_procs().ok_or(Status::ERR_BAD_PARAM));
    Ok(lists.collect::<Result<Vec<_>, _>>()?.concat())
}
