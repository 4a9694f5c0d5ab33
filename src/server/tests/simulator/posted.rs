//! Data that ranks post: some keys, and of each one version after the other, so that an old value is told from a new one.
use crate::data::{Scope, Value};

/// Keys that ranks post, each with one scope.
pub const KEYS: [(&str, Scope); 3] = [("global", Scope::GLOBAL), ("local", Scope::LOCAL), ("remote", Scope::REMOTE)];

/// Version of each key's value.
pub type Versions = [u64; KEYS.len()];

/// Bytes of a large value: more than a commit may have that is stored at once, so that threads compose it, and replaced
/// ones soon scatter what is there, so that it moves.
const LARGE: usize = 150_000;

/// Returns the value that a key has in some version; some take more room than others.
pub fn value_of(version: u64) -> Value {
    match version % 8 {
        5 => Value::from([version.to_le_bytes().to_vec(), vec![9; LARGE]].concat()),
        0 | 4 => Value::from([version.to_le_bytes().to_vec(), vec![7; 700]].concat()),
        _ => Value::from(version),
    }
}

/// Returns the version of a value.
pub fn version_of(value: &Value) -> Option<u64> {
    match value.as_bytes() {
        Some(bytes) => bytes.first_chunk().map(|first| u64::from_le_bytes(*first)),
        None => value.as_u64(),
    }
}
