//! Process sets: names that the host gives to some processes. A set never changes; the processes of this node are told when
//! there is a new one and when one is gone, and find out about them by queries.
use std::collections::BTreeMap;

use super::ctx::effect::Effect;
use super::ctx::event::{AfterRaise, Event, Origin};
use super::groups::{Groups, procs};
use super::router::Router;
use crate::data::{DataRange, Info, Nspace, Proc, Rank, Status, Text, Value, keys};

/// The sets there are.
#[derive(Debug, Default)]
pub(super) struct ProcessSets(BTreeMap<Vec<u8>, Vec<Proc>>);

impl ProcessSets {
    /// What a query for one of their keys answers; `set` is the one that the query names. Groups are listed as well.
    pub(super) fn answer(&self, key: &str, set: Option<&Text>, groups: &Groups) -> Option<Value> {
        let of = |set: &Text| self.0.get(set.as_bytes());
        match key {
            keys::QUERY_NUM_PSETS => Some(Value::Size((self.0.len() + groups.names().count()) as u64)),
            keys::QUERY_PSET_NAMES => {
                let names = self.0.keys().map(Vec::as_slice).chain(groups.names().map(Nspace::as_bytes));
                let names: Vec<&[u8]> = names.collect();
                // None is an answer, too, as it is with the number of them.
                Some(Value::string(names.join(&b',')))
            }
            keys::QUERY_PSET_MEMBERSHIP => set.and_then(of).map(|members| procs(members.clone())),
            _ => None,
        }
    }
}

impl Router {
    pub(super) fn define_process_set(&mut self, name: Text, members: Vec<Proc>) -> Result<(), Status> {
        if name.as_bytes().is_empty() || name.as_bytes().contains(&b',') || members.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        if self.process_sets.0.contains_key(name.as_bytes()) {
            return Err(Status::ERR_EXISTS);
        }
        let info = vec![
            Info::new(keys::PSET_NAME, Value::String(Some(name.clone()))),
            Info::new(keys::PSET_MEMBERS, procs(members.clone())),
        ];
        self.process_sets.0.insert(name.as_bytes().to_vec(), members);
        self.tell_all(Status::PROCESS_SET_DEFINE, info);
        Ok(())
    }

    pub(super) fn delete_process_set(&mut self, name: Text) -> Result<(), Status> {
        self.process_sets.0.remove(name.as_bytes()).ok_or(Status::ERR_NOT_FOUND)?;
        self.tell_all(Status::PROCESS_SET_DELETE, vec![Info::new(keys::PSET_NAME, Value::String(Some(name)))]);
        Ok(())
    }

    fn tell_all(&mut self, status: Status, info: Vec<Info>) {
        let source = Proc::new(self.cx.config.nspace.clone(), Rank::UNDEF);
        let event = Event { status, source, range: DataRange::LOCAL, info, vote: None };
        self.cx.effect(Effect::Raise { event, origin: Origin::Library, then: AfterRaise::Nothing });
    }
}
