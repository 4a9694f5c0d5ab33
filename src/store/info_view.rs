//! Look-ups in one generation of job information.
//!
//! This is where the rules say which record a key is looked for in: K4 to K6 of the Standard's levels, and that size keys and
//! job-level data are found by a process rank, by WILDCARD and by UNDEF alike. What follows from placement (`RANK`, `NODEID`, ...) is
//! answered from the rank's row.
use std::sync::Arc;

use instanton_layout::Malformed;
use instanton_layout::hash::hash;
use instanton_layout::info::{Group, Index, NONE, Row, given};
use instanton_layout::record::{Owner, Query, Record};
use instanton_layout::sync::{AtomicU64, Ordering};
use instanton_layout::words::RawWords;

use super::encode::{RawValue, ReadError};
use super::lookup::{Level, Lookup, NodeSel};
use crate::data::{DataType, Rank, keys};
use crate::sys::memory::Mapping;

/// One generation, mapped.
pub(super) struct InfoView {
    pub(super) generation: u64,
    pub(super) mapping: Arc<Mapping>,
    pub(super) index: Index,
    /// Bits that say whose checksum has been found right: a rank's row and its record, by turns; from `members` on, nodes,
    /// applications and sessions; last the job.
    checked: Box<[AtomicU64]>,
    members: [usize; 4],
}

impl InfoView {
    pub(super) fn new(generation: u64, mapping: Arc<Mapping>) -> Result<Self, Malformed> {
        let index = Index::read(&mapping.words())?;
        let nodes = 2 * index.rows() as usize;
        let apps = nodes + index.count(Group::Nodes) as usize;
        let sessions = apps + index.count(Group::Apps) as usize;
        let job = sessions + index.count(Group::Sessions) as usize;
        // A damaged head could claim more than there is: each of these takes at least 16 bytes of the segment.
        if job >= mapping.len() / 16 {
            return Err(Malformed::Table);
        }
        let checked = (0..=job / 64).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { generation, mapping, index, checked, members: [nodes, apps, sessions, job] })
    }

    /// Bytes of a value, where they lie.
    pub(super) fn frozen(&self, at: usize, len: usize) -> Result<&[u8], Malformed> {
        self.mapping.frozen(self.generation, at, len)
    }

    #[inline(always)]
    fn is_checked(&self, bit: usize) -> bool {
        self.checked[bit / 64].load(Ordering::Relaxed) >> (bit % 64) & 1 != 0
    }

    fn set_checked(&self, bit: usize) {
        self.checked[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
    }

    #[inline(always)]
    fn record(&self, kind: Owner, owner: u32, word: usize, bit: usize) -> Result<Record<RawWords<'_>>, Malformed> {
        let record = Record::in_info(self.mapping.words(), word, kind, owner)?;
        if !self.is_checked(bit) {
            record.check()?;
            self.set_checked(bit);
        }
        Ok(record)
    }

    #[inline(always)]
    pub(super) fn job(&self) -> Result<Record<RawWords<'_>>, Malformed> {
        self.record(Owner::Job, 0, self.index.job_word(), self.members[3])
    }

    #[inline(always)]
    pub(super) fn row(&self, rank: Rank) -> Result<Option<Row>, Malformed> {
        if rank.0 >= self.index.rows() {
            return Ok(None);
        }
        let bit = 2 * rank.0 as usize;
        let seen = self.is_checked(bit);
        let row = self.index.row(&self.mapping.words(), rank.0, seen)?;
        if !seen {
            self.set_checked(bit);
        }
        Ok(row)
    }

    #[inline(always)]
    pub(super) fn process(&self, rank: Rank, row: &Row) -> Result<Option<Record<RawWords<'_>>>, Malformed> {
        match row.record {
            0 => Ok(None),
            word => self.record(Owner::Process, rank.0, word as usize, 2 * rank.0 as usize + 1).map(Some),
        }
    }

    /// The record of a node, application or session.
    #[inline(always)]
    pub(super) fn member(&self, group: Group, index: u32) -> Result<Option<Record<RawWords<'_>>>, Malformed> {
        let owner = match group {
            Group::Nodes => Owner::Node,
            Group::Apps => Owner::App,
            Group::Sessions => Owner::Session,
        };
        if index >= self.index.count(group) {
            return Ok(None);
        }
        let bit = self.members[group as usize] + index as usize;
        // The checksum of the cell is as old as that of the record it leads to.
        match self.index.cell(&self.mapping.words(), group, index, self.is_checked(bit))? {
            Some((word, _)) => self.record(owner, index, word, bit).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn number(&self, group: Group, index: u32) -> Result<Option<u32>, Malformed> {
        Ok(self.index.cell(&self.mapping.words(), group, index, false)?.map(|(_, number)| number))
    }

    fn by_number(&self, group: Group, number: u32) -> Result<u32, Malformed> {
        Ok(self.index.by_number(&self.mapping.words(), group, number)?.unwrap_or(NONE))
    }

    fn by_name(&self, name: &[u8]) -> Result<u32, Malformed> {
        let words = self.mapping.words();
        let hostname = Query::new(keys::HOSTNAME.as_bytes());
        let found = self.index.by_name(&words, name, |index| {
            let Some(record) = self.member(Group::Nodes, index)? else { return Ok(false) };
            let Some(entry) = record.find(&hostname)? else { return Ok(false) };
            let mut candidate = words.to_vec(entry.value_word, entry.value_len)?;
            Ok(candidate.pop() == Some(0) && candidate == name)
        })?;
        Ok(found.unwrap_or(NONE))
    }

    /// The value, if the host gave or implied one.
    pub(super) fn find(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> Result<Option<RawValue<'_>>, Malformed> {
        let row = match lookup.rank.is_process() {
            true => self.row(lookup.rank)?,
            false => None,
        };
        let node = || row.map_or(self.index.own_node(), |row| row.node);
        let app = row.map_or(Place::AppOf(lookup.asker), |row| Place::app(row.app));
        match lookup.level {
            Level::Default => match row {
                Some(row) => self.of_process(lookup, query, &row),
                None if lookup.rank.is_process() => Ok(None),
                None => self.first(query, &[Place::Job, OWN_SESSION, Place::node(node()), app]),
            },
            Level::Job => self.first(query, &[Place::Job]),
            Level::Session(None) => self.first(query, &[OWN_SESSION]),
            Level::Session(Some(id)) => self.in_group(query, Group::Sessions, self.by_number(Group::Sessions, id)?),
            Level::App(None) => self.first(query, &[app]),
            Level::App(Some(number)) => self.in_group(query, Group::Apps, self.by_number(Group::Apps, number)?),
            Level::Node(NodeSel::Own) => self.in_group(query, Group::Nodes, node()),
            Level::Node(NodeSel::Id(id)) => self.in_group(query, Group::Nodes, self.by_number(Group::Nodes, id)?),
            Level::Node(NodeSel::Name(name)) => self.in_group(query, Group::Nodes, self.by_name(name)?),
        }
    }

    /// The application of a rank, or the only one.
    fn app_of(&self, rank: Rank) -> Result<u32, Malformed> {
        let only = if self.index.count(Group::Apps) == 1 { 0 } else { NONE };
        Ok(self.row(rank)?.map_or(only, |row| row.app))
    }

    fn of_process(&self, lookup: &Lookup<'_>, query: &Query<'_>, row: &Row) -> Result<Option<RawValue<'_>>, Malformed> {
        if let Some(record) = self.process(lookup.rank, row)?
            && let Some(entry) = record.find(query)?
        {
            return Ok(Some(RawValue::of_entry(self.mapping.words(), &entry)));
        }
        if !lookup.key.starts_with(b"pmix") {
            return Ok(None);
        }
        if let Some((data_type, scalar)) = self.derived(lookup, query, row)? {
            return Ok(Some(RawValue::of_scalar(self.mapping.words(), data_type, scalar)));
        }
        let (node, app) = (Place::node(row.node), Place::app(row.app));
        match query.hash() {
            hash if NODE_KEYS.contains(&hash) => self.first(query, &[node, Place::Job, OWN_SESSION, app]),
            hash if APP_KEYS.contains(&hash) => self.first(query, &[app, Place::Job, OWN_SESSION, node]),
            _ => self.first(query, &[Place::Job, OWN_SESSION, node, app]),
        }
    }

    /// What the row says, as type and bits.
    fn derived(&self, lookup: &Lookup<'_>, query: &Query<'_>, row: &Row) -> Result<Option<(DataType, u64)>, Malformed> {
        let Some((_, key, what)) = DERIVED.iter().find(|(hash, ..)| *hash == query.hash()) else { return Ok(None) };
        if key.as_bytes() != lookup.key {
            return Ok(None);
        }
        let given = |bit: u32, data_type, value: u32| (row.given & bit != 0).then_some((data_type, u64::from(value)));
        let number = |group, index| Ok(self.number(group, index)?.map(|number| (DataType::UINT32, u64::from(number))));
        match what {
            Derived::Rank => Ok(Some((DataType::PROC_RANK, u64::from(lookup.rank.0)))),
            Derived::LocalRank => Ok(given(given::LOCAL_RANK, DataType::UINT16, u32::from(row.local_rank))),
            Derived::NodeRank => Ok(given(given::NODE_RANK, DataType::UINT16, u32::from(row.node_rank))),
            Derived::AppRank => Ok(given(given::APP_RANK, DataType::PROC_RANK, row.app_rank)),
            Derived::GlobalRank => Ok(given(given::GLOBAL_RANK, DataType::PROC_RANK, row.global_rank)),
            Derived::NodeId => number(Group::Nodes, row.node),
            Derived::AppNumber => number(Group::Apps, row.app),
        }
    }

    /// Gives `f` everything known of a process, or of the job.
    pub(super) fn all(
        &self,
        rank: Rank,
        mut f: impl FnMut(Vec<u8>, RawValue<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let words = self.mapping.words();
        let mut records = Vec::new();
        if let Some(row) = if rank.is_process() { self.row(rank)? } else { None } {
            records.extend(self.process(rank, &row)?);
            for (_, key, _) in DERIVED {
                let lookup = Lookup::new(rank, key);
                let query = Query::new(key.as_bytes());
                let stored = match records.first() {
                    Some(record) => record.find(&query)?.is_some(),
                    None => false,
                };
                if !stored && let Some((data_type, scalar)) = self.derived(&lookup, &query, &row)? {
                    f(key.as_bytes().to_vec(), RawValue::of_scalar(words, data_type, scalar))?;
                }
            }
        } else if !rank.is_process() {
            records.push(self.job()?);
            records.extend(self.member(Group::Sessions, 0)?);
        }
        for record in records {
            for entry in record.iter() {
                let entry = entry?;
                f(words.to_vec(entry.key_word, entry.key_len)?, RawValue::of_entry(words, &entry))?;
            }
        }
        Ok(())
    }

    /// The value in the first of these places that has it.
    fn first(&self, query: &Query<'_>, places: &[Place]) -> Result<Option<RawValue<'_>>, Malformed> {
        for place in places {
            let record = match *place {
                Place::Job => Some(self.job()?),
                Place::AppOf(rank) => self.member(Group::Apps, self.app_of(rank)?)?,
                Place::Member(group, index) => self.member(group, index)?,
            };
            if let Some(record) = record
                && let Some(entry) = record.find(query)?
            {
                return Ok(Some(RawValue::of_entry(self.mapping.words(), &entry)));
            }
        }
        Ok(None)
    }

    fn in_group(&self, query: &Query<'_>, group: Group, index: u32) -> Result<Option<RawValue<'_>>, Malformed> {
        self.first(query, &[Place::Member(group, index)])
    }
}

#[derive(Clone, Copy)]
enum Place {
    Job,
    Member(Group, u32),
    /// The application of a rank, which is only found out when nothing is found before.
    AppOf(Rank),
}

/// The job's own session is the first.
const OWN_SESSION: Place = Place::Member(Group::Sessions, 0);

impl Place {
    fn node(index: u32) -> Self {
        Self::Member(Group::Nodes, index)
    }

    fn app(index: u32) -> Self {
        Self::Member(Group::Apps, index)
    }
}

/// What a row tells.
#[derive(Clone, Copy)]
enum Derived {
    Rank,
    LocalRank,
    NodeRank,
    AppRank,
    GlobalRank,
    NodeId,
    AppNumber,
}

const fn derived(key: &'static str, what: Derived) -> (u64, &'static str, Derived) {
    (hash(key.as_bytes()), key, what)
}

const DERIVED: [(u64, &str, Derived); 7] = [
    derived(keys::RANK, Derived::Rank),
    derived(keys::LOCAL_RANK, Derived::LocalRank),
    derived(keys::NODE_RANK, Derived::NodeRank),
    derived(keys::APP_RANK, Derived::AppRank),
    derived(keys::GLOBAL_RANK, Derived::GlobalRank),
    derived(keys::NODEID, Derived::NodeId),
    derived(keys::APPNUM, Derived::AppNumber),
];

const fn hashes<const N: usize>(keys: [&str; N]) -> [u64; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = hash(keys[i].as_bytes());
        i += 1;
    }
    out
}

/// Keys that belong to nodes: the rank's node is asked before the job.
const NODE_KEYS: [u64; 10] = hashes([
    keys::HOSTNAME,
    keys::HOSTNAME_ALIASES,
    keys::NODE_SIZE,
    keys::LOCAL_SIZE,
    keys::LOCAL_PEERS,
    keys::LOCAL_PROCS,
    keys::LOCAL_CPUSETS,
    keys::LOCALLDR,
    keys::AVAIL_PHYS_MEMORY,
    keys::HWLOC_XML_V2,
]);

/// Keys that belong to applications: the rank's application is asked before the job.
const APP_KEYS: [u64; 4] = hashes([keys::APP_SIZE, keys::APPLDR, keys::APP_ARGV, keys::WDIR]);
