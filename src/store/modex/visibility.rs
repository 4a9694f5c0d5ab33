//! Visibility of posted values: on the poster's node, and elsewhere.
//!
//! A key of a rank can have a value for each of two audiences: LOCAL sets the one that the rank's own node sees, REMOTE
//! the one that other nodes see, GLOBAL both. Values for the own node lie in the segments that readers map. Values that
//! only others may see lie in segments that are never handed out. A value that both see is stored once, as GLOBAL.
use std::collections::BTreeMap;

use super::records::{Changes, Records};
use crate::data::{Key, Rank, Scope};
use crate::store::datum::{Datum, Entry};
use crate::store::error::WriteError;

/// The changes of a commit, by audience.
#[derive(Default)]
pub(in crate::store) struct Visibility<'a> {
    here: BTreeMap<&'a Key, (Scope, Datum<'a>)>,
    /// `None`: others see what is seen here.
    elsewhere: BTreeMap<&'a Key, Option<Datum<'a>>>,
}

impl<'a> Visibility<'a> {
    /// The changes of a local rank's commit; `posted` has its records so far.
    ///
    /// # Errors
    /// [`WriteError`]; [`WriteError::TakesLong`] where values of more than `most` bytes are to be copied for another
    /// audience.
    pub(in crate::store) fn of_local(
        rank: Rank,
        entries: &'a [Entry<'a>],
        posted: &dyn Records,
        most: usize,
    ) -> Result<Self, WriteError> {
        let mut copied = 0;
        let mut visible = Visibility::default();
        for Entry { scope, key, value } in entries {
            // The value that both audiences have seen so far, if it is one.
            let shared = match visible.here.get(*key) {
                Some((known, value)) => (*known == Scope::GLOBAL).then(|| value.clone()),
                None if *scope == Scope::GLOBAL => None,
                None => {
                    copied += posted.value_bytes(rank, key)?.map_or(0, |(_, bytes)| bytes);
                    if copied > most {
                        return Err(WriteError::TakesLong { bytes: copied });
                    }
                    let known = posted.get(rank, key)?;
                    known.and_then(|(known, value)| (known == Scope::GLOBAL).then(|| Datum::from(value)))
                }
            };
            match *scope {
                Scope::GLOBAL => {
                    visible.here.insert(key, (Scope::GLOBAL, value.reborrow()));
                    visible.elsewhere.insert(key, None);
                }
                Scope::LOCAL => {
                    visible.here.insert(key, (Scope::LOCAL, value.reborrow()));
                    if shared.is_some() {
                        visible.elsewhere.insert(key, shared);
                    }
                }
                Scope::REMOTE => {
                    if let Some(shared) = shared {
                        visible.here.insert(key, (Scope::LOCAL, shared));
                    }
                    visible.elsewhere.insert(key, Some(value.reborrow()));
                }
                scope => return Err(WriteError::Scope { rank, scope }),
            }
        }
        Ok(visible)
    }

    /// The changes of a remote rank's data: its node has sent the entries that are meant for this one.
    pub(in crate::store) fn of_remote(rank: Rank, entries: &'a [Entry<'a>]) -> Result<Self, WriteError> {
        let mut visible = Visibility::default();
        for Entry { scope, key, value } in entries {
            match *scope {
                Scope::GLOBAL | Scope::REMOTE => visible.here.insert(key, (*scope, value.reborrow())),
                scope => return Err(WriteError::Scope { rank, scope }),
            };
        }
        Ok(visible)
    }

    pub(in crate::store) fn here(&self) -> Changes<'_> {
        self.here.iter().map(|(key, (scope, value))| (*key, Some((*scope, value)))).collect()
    }

    pub(in crate::store) fn elsewhere(&self) -> Changes<'_> {
        self.elsewhere.iter().map(|(key, value)| (*key, value.as_ref().map(|value| (Scope::REMOTE, value)))).collect()
    }
}
