//! One look-up: its keys, and how many of them must be there.
use std::collections::HashSet;
use std::time::Duration;

use super::access::{Asker, check, range_in};
use crate::data::{DataRange, Info, InfoList, Key, Proc, Status, Text, keys};

/// Keys that a process looks up.
#[derive(Debug)]
pub struct Lookup {
    pub asker: Asker,
    /// Range that is searched first.
    pub range: DataRange,
    /// Each key once, however often it is named. None for a text that no key can be.
    pub keys: Vec<Option<Key>>,
    /// Number of keys that must be there before it is answered.
    pub enough: usize,
}

/// Wish to wait for data that is not there, for ever or for so long.
#[derive(Clone, Copy, Debug)]
pub struct Patience(pub Option<Duration>);

impl Lookup {
    /// Reads the attributes of a look-up, and whether it is to wait.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for attributes of other types.
    pub fn read(asker: &Proc, keys: &[Text], info: &[Info]) -> Result<(Self, Option<Patience>), Status> {
        check(info)?;
        let wait = number(info, keys::WAIT)?;
        let timeout = number(info, keys::TIMEOUT)?.filter(|seconds| *seconds > 0);
        let mut named = HashSet::new();
        let keys = keys.iter().filter(|key| named.insert(key.as_bytes()));
        let keys: Vec<Option<Key>> = keys.map(|key| Key::new(key.as_bytes()).ok()).collect();
        let enough = match wait {
            None => 1,
            Some(0) => keys.len(),
            Some(count) => count.min(keys.len()),
        };
        let range = range_in(info)?.unwrap_or(DataRange::SESSION);
        let lookup = Lookup { asker: Asker::read(asker, info), range, keys, enough };
        let patience = Patience(timeout.map(|seconds| Duration::from_secs(seconds as u64)));
        Ok((lookup, wait.map(|_| patience)))
    }
}

/// Returns a number that is not negative.
fn number(info: &[Info], key: &str) -> Result<Option<usize>, Status> {
    let Some(given) = info.find(key) else { return Ok(None) };
    // Present without a number, as `PMIX_WAIT` may be: it is wished for.
    let number = if given.is_true() && given.value.as_i64().is_none() { Some(0) } else { given.value.as_i64() };
    number.and_then(|number| usize::try_from(number).ok()).ok_or(Status::ERR_BAD_PARAM).map(Some)
}
