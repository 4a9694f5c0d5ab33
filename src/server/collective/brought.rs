//! Data of other nodes as a host brings it: a row of blobs, or a group's rows, in which members share by the way what
//! they have given for the group.
//!
//! Data that a member has given travels with the scope INTERNAL, and is found with the group's context id: so it is renamed
//! when the answer is there, which knows the id. A group that has failed on another node shares nothing.
use super::exchange::{self, Said};
use crate::data::{Key, Posted, Proc, Scope, Status, Value, keys};
use crate::message::key_in_context;
use crate::store::exchange::{Others, RankData, Sender};

/// Key under which the order travels in which a member has named the others of its group, where it is another one than that
/// of their names.
pub const NAMED_ORDER: &str = "instanton.grp.named";

/// Data that a host has brought.
#[derive(Debug)]
pub enum Brought {
    /// A row of blobs.
    Row(Vec<u8>),
    /// Rows of blobs of a group's nodes, one or an array in each value; and the group's context id.
    OfGroup(Vec<Value>, Option<u64>),
}

/// Data that can be taken in.
#[derive(Debug)]
pub struct Decoded {
    /// Data of each process, with the identity of the server that sent it.
    pub ranks: Vec<(u64, RankData)>,
    /// Words of the nodes beside it.
    pub said: Said,
}

impl Brought {
    /// Returns the number of its bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Brought::Row(row) => row.len(),
            Brought::OfGroup(values, _) => values.iter().map(Value::size).fold(0, usize::saturating_add),
        }
    }

    /// Decodes it; any thread may do that.
    ///
    /// # Errors
    /// `ERR_UNPACK_FAILURE`; `ERR_BAD_PARAM` for a given key that leaves no room for the context id.
    pub fn decode(&self, own: &Sender) -> Result<Decoded, Status> {
        match self {
            Brought::Row(row) => {
                let Others { ranks, failure } = exchange::others(own, row)?;
                Ok(Decoded { said: Said { failure, is_empty: ranks.is_empty(), ..Said::default() }, ranks })
            }
            Brought::OfGroup(values, context) => {
                let mut others = Others::default();
                for value in values {
                    match value.as_array() {
                        Some(array) => {
                            for row in array.items().iter().filter_map(|item| item.as_bytes()) {
                                others.add(exchange::others(own, row)?);
                            }
                        }
                        None => {
                            others.add(exchange::others(own, value.as_bytes().ok_or(Status::ERR_UNPACK_FAILURE)?)?);
                        }
                    }
                }
                let Others { mut ranks, failure } = others;
                let come: Vec<Proc> = ranks.iter().map(|(_, of)| of.proc.clone()).collect();
                let (is_empty, mut orders, mut named) = (ranks.is_empty(), Vec::new(), Vec::new());
                if failure.is_some() {
                    ranks.clear();
                }
                for (_, of) in &mut ranks {
                    let (given, posted): (Vec<_>, Vec<_>) =
                        std::mem::take(&mut of.entries).into_iter().partition(|entry| entry.scope == Scope::INTERNAL);
                    let mut rest = Vec::new();
                    for Posted { key, value, .. } in given {
                        let order = || Some((of.proc.clone(), value.as_procs()?));
                        match key.as_str() {
                            Some(keys::GROUP_FINAL_MEMBERSHIP_ORDER) => orders.extend(order()),
                            Some(NAMED_ORDER) => named.extend(order()),
                            _ => rest.push((key, value)),
                        }
                    }
                    of.entries = [posted, in_context(rest.into_iter(), *context, Scope::GLOBAL)?].concat();
                }
                Ok(Decoded { ranks, said: Said { failure, is_empty, come, orders, named } })
            }
        }
    }
}

/// Makes entries for what a member has given: to be found with the group's context id, and the newest without.
///
/// # Errors
/// `ERR_BAD_PARAM` for a key that leaves no room for the context id.
pub fn in_context(
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
