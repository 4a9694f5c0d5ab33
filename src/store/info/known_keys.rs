//! Keys whose values follow from where processes run, and to whom keys belong.
use instanton_layout::hash::{hash, same};
use instanton_layout::info::Places;

use crate::data::keys;

/// A value that is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Derived {
    Rank,
    LocalRank,
    NodeRank,
    AppRank,
    GlobalRank,
    NodeNumber,
    AppNumber,
    HostName,
    /// The number of the job's processes on a node.
    LocalSize,
    LocalPeers,
    LocalLeader,
    AppSize,
    AppLeader,
    NodeList,
    NodeMap,
    ProcMap,
}

impl Derived {
    /// The places that have it.
    #[inline]
    pub(in crate::store) const fn places(self) -> Places {
        match self {
            Self::Rank | Self::LocalRank | Self::NodeRank | Self::AppRank | Self::GlobalRank => Places::PROCESSES,
            Self::NodeNumber => Places::PROCESSES.and(Places::NODES),
            Self::AppNumber => Places::PROCESSES.and(Places::APPS),
            Self::HostName | Self::LocalSize | Self::LocalPeers | Self::LocalLeader => Places::NODES,
            Self::AppSize | Self::AppLeader => Places::APPS,
            Self::NodeList | Self::NodeMap | Self::ProcMap => Places::JOB,
        }
    }
}

/// The level that a key belongs to: there it is looked for first, when a process is asked for it and has none of its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Class {
    /// A process alone: where none is named, only the value that the host gave of the job counts.
    Process,
    Job,
    Session,
    Node,
    /// The node of a process: where neither is named, as with [`Class::Process`].
    Placed,
    App,
}

/// The class of a key, if it is known.
pub(in crate::store) fn class_of(key: &[u8]) -> Option<Class> {
    known(hash(key), key).map(|known| known.class)
}

/// A key that is known before it is looked up.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Known {
    pub(in crate::store) key: &'static str,
    pub(in crate::store) derived: Option<Derived>,
    pub(in crate::store) class: Class,
}

const fn of(key: &'static str, class: Class, derived: Option<Derived>) -> Known {
    Known { key, derived, class }
}

const KNOWN: [Known; 27] = [
    of(keys::RANK, Class::Process, Some(Derived::Rank)),
    of(keys::LOCAL_RANK, Class::Process, Some(Derived::LocalRank)),
    of(keys::NODE_RANK, Class::Process, Some(Derived::NodeRank)),
    of(keys::APP_RANK, Class::Process, Some(Derived::AppRank)),
    of(keys::GLOBAL_RANK, Class::Process, Some(Derived::GlobalRank)),
    of(keys::NODEID, Class::Placed, Some(Derived::NodeNumber)),
    of(keys::APPNUM, Class::Process, Some(Derived::AppNumber)),
    of(keys::HOSTNAME, Class::Node, Some(Derived::HostName)),
    of(keys::LOCAL_SIZE, Class::Node, Some(Derived::LocalSize)),
    of(keys::NODE_SIZE, Class::Node, Some(Derived::LocalSize)),
    of(keys::LOCAL_PEERS, Class::Node, Some(Derived::LocalPeers)),
    of(keys::LOCALLDR, Class::Node, Some(Derived::LocalLeader)),
    of(keys::APP_SIZE, Class::App, Some(Derived::AppSize)),
    of(keys::APPLDR, Class::App, Some(Derived::AppLeader)),
    of(keys::NODE_LIST, Class::Job, Some(Derived::NodeList)),
    of(keys::NODE_MAP, Class::Job, Some(Derived::NodeMap)),
    of(keys::PROC_MAP, Class::Job, Some(Derived::ProcMap)),
    of(keys::HOSTNAME_ALIASES, Class::Node, None),
    of(keys::LOCAL_PROCS, Class::Node, None),
    of(keys::LOCAL_CPUSETS, Class::Node, None),
    of(keys::AVAIL_PHYS_MEMORY, Class::Node, None),
    of(keys::HWLOC_XML_V1, Class::Node, None),
    of(keys::HWLOC_XML_V2, Class::Node, None),
    of(keys::APP_ARGV, Class::App, None),
    of(keys::WDIR, Class::App, None),
    of(keys::UNIV_SIZE, Class::Session, None),
    of(keys::ALLOCATED_NODELIST, Class::Session, None),
];

const SLOTS: usize = 64;

/// Places in [`KNOWN`], each one more than it, by hash; made when this is compiled.
const TABLE: [u8; SLOTS] = {
    let mut table = [0; SLOTS];
    let mut at = 0;
    while at < KNOWN.len() {
        let mut slot = slot_of(hash(KNOWN[at].key.as_bytes()));
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        at += 1;
        table[slot] = at as u8;
    }
    table
};

const fn slot_of(hash: u64) -> usize {
    (hash >> 32) as usize % SLOTS
}

/// The entry of a known key.
#[inline]
pub(in crate::store) fn known(hash: u64, key: &[u8]) -> Option<&'static Known> {
    let mut slot = slot_of(hash);
    while let Some(at) = TABLE[slot].checked_sub(1) {
        let known = &KNOWN[usize::from(at)];
        if same(known.key.as_bytes(), key) {
            return Some(known);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

/// Computed keys of a process, of a node, of an application, of the job.
pub(in crate::store) const OF_PROCESS: [&str; 8] = [
    keys::RANK,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::APP_RANK,
    keys::GLOBAL_RANK,
    keys::NODEID,
    keys::APPNUM,
    keys::HOSTNAME,
];
/// See [`OF_PROCESS`].
pub(in crate::store) const OF_NODE: [&str; 6] =
    [keys::NODEID, keys::HOSTNAME, keys::LOCAL_SIZE, keys::NODE_SIZE, keys::LOCAL_PEERS, keys::LOCALLDR];
/// See [`OF_PROCESS`].
pub(in crate::store) const OF_APP: [&str; 3] = [keys::APPNUM, keys::APP_SIZE, keys::APPLDR];
/// See [`OF_PROCESS`].
pub(in crate::store) const OF_JOB: [&str; 3] = [keys::NODE_LIST, keys::NODE_MAP, keys::PROC_MAP];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_key_is_found_and_no_other() {
        for entry in &KNOWN {
            let found = known(hash(entry.key.as_bytes()), entry.key.as_bytes());
            assert_eq!(found.map(|found| (found.key, found.derived)), Some((entry.key, entry.derived)));
        }
        for (_, key, _) in keys::all().filter(|(_, key, _)| KNOWN.iter().all(|known| known.key != *key)) {
            assert!(known(hash(key.as_bytes()), key.as_bytes()).is_none(), "{key}");
        }
    }
}
