//! Sharing: what members of this node have given for a group is stored, so much at a time, before the group is made.
use std::collections::BTreeMap;
use std::sync::Arc;

use super::bringing::size;
use super::floor::Floor;
use super::part::Part;
use crate::collect_small::collect_small;
use crate::data::{Info, Proc, Scope, Status};
use crate::server::collective::brought::in_context;

/// Bytes that are stored in one step, and what one member has given besides.
const SLICE: usize = 64 << 10;

/// Data of members that is still to be stored.
#[derive(Debug)]
pub struct Sharing {
    rest: BTreeMap<Proc, Arc<Vec<Info>>>,
    context: Option<u64>,
}

impl Sharing {
    /// Begins with all of it, to be found with this context id.
    pub fn begin(part: &Part, context: Option<u64>) -> Self {
        let given = part.given.iter().filter(|(_, given)| !given.is_empty());
        Sharing { rest: collect_small(given.map(|(proc, given)| (proc.clone(), given.clone()))), context }
    }

    /// Stores some more. Returns whether that was all.
    ///
    /// # Errors
    /// The status of data that cannot be stored.
    pub fn step(&mut self, floor: &mut Floor<'_>) -> Result<bool, Status> {
        let mut stored = 0;
        while stored <= SLICE
            && let Some((proc, given)) = self.rest.pop_first()
        {
            stored += size(&given);
            let given = Arc::unwrap_or_clone(given).into_iter().map(|info| (info.key, info.value));
            let entries = in_context(given, self.context, Scope::LOCAL)?;
            floor.jobs.commit(floor.cx, proc, entries)?;
        }
        Ok(self.rest.is_empty())
    }
}
