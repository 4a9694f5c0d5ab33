//! A value that a process posts for others.
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

use rkyv::{Archive, Deserialize, Serialize};

use super::{Key, Scope, Value};

/// One entry of a commit: a key with its value, and the scope in which others see it. It goes through messages, the
/// store and the exchange between nodes as it is.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Posted {
    /// The scope: LOCAL, REMOTE or GLOBAL.
    pub scope: Scope,
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Value,
}

impl Posted {
    /// An entry of a commit.
    pub fn new(scope: Scope, key: Key, value: impl Into<Value>) -> Self {
        Self { scope, key, value: value.into() }
    }
}
