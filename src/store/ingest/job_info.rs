//! Job information that is complete, ready to be written to a segment.
use std::collections::BTreeMap;

use instanton_layout::info::{ColumnBuild, PartitionBuild, TextForm};

use super::column_planner::SparseValue;
use super::contradiction::Contradiction;
use super::entries::Entries;
use super::interner::Interner;
use super::nodes::Nodes;
use crate::data::{Nspace, Value};
use crate::sys::scratch::Scratch;

/// A session.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Session {
    pub(in crate::store) number: u32,
    pub(in crate::store) entries: Entries,
}

/// Job information before the processes start, ready to be written ([`crate::store::JobWriter`]).
#[derive(Debug, Clone)]
pub struct JobInfo {
    pub(in crate::store) nspace: Nspace,
    pub(super) has_data: bool,
    pub(in crate::store) size: u32,
    pub(in crate::store) ranks: u32,
    /// Rank of the job's first process in the session.
    pub(in crate::store) offset: u32,
    pub(in crate::store) own_node: u32,
    pub(in crate::store) job: Entries,
    pub(in crate::store) sessions: Vec<Session>,
    pub(in crate::store) apps: BTreeMap<u32, Entries>,
    pub(in crate::store) nodes: Nodes,
    pub(in crate::store) nodes_of: PartitionBuild<Scratch<u64>>,
    pub(in crate::store) apps_of: PartitionBuild<Scratch<u64>>,
    pub(in crate::store) own_ranks: Vec<u32>,
    pub(in crate::store) columns: Vec<ColumnBuild>,
    /// Strings of columns, with their NULs, those of own processes first.
    pub(in crate::store) strings: Vec<Option<Box<[u8]>>>,
    pub(in crate::store) own_strings: usize,
    /// Values without a column, by rank.
    pub(in crate::store) sparse: Vec<SparseValue>,
    pub(in crate::store) sparse_strings: Interner,
    pub(in crate::store) others: Vec<Value>,
    pub(in crate::store) texts: [Option<TextForm>; 3],
    pub(super) contradictions: Vec<Contradiction>,
}

impl JobInfo {
    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether the host gave data at all (it did not set `REGISTER_NODATA`).
    pub fn has_data(&self) -> bool {
        self.has_data
    }

    /// Returns whether a boolean attribute of the job is given and true.
    pub fn is_set(&self, key: &str) -> bool {
        self.get(key).and_then(Value::truth) == Some(true)
    }

    /// Contradictions in what its host has said. It was stored as it was said, and the trace has a line for each.
    ///
    /// ```
    /// use instanton::data::{Info, Nspace, keys};
    /// use instanton::store::{Contradiction, JobInfo};
    /// let maps = [Info::new(keys::NODE_MAP, "alpha"), Info::new(keys::PROC_MAP, "0-7;8-15")];
    /// let info = JobInfo::from_infos(&Nspace::new("job")?, 8, &maps, "alpha")?;
    /// assert_eq!(info.contradictions(), [Contradiction::NamelessNodes { nodes: 2, names: 1 }]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contradictions(&self) -> &[Contradiction] {
        &self.contradictions
    }

    /// An attribute of the job as a whole.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.job.get(key)
    }

    /// Ranks that the job has room for.
    pub(in crate::store) fn ranks(&self) -> u32 {
        self.ranks
    }
}
