//! Requests of a process as native clients send them, and the keys in them.
use super::words::Words;
use crate::data::{Info, Key, Posted, Proc, Scope, Value, keys};
use crate::message::Request;

/// Prefix of the keys of attributes that processes of a node put for each other.
const OF_NODE: &[u8] = b"pmi.node.";

pub fn key(words: &Words<'_>) -> Option<Key> {
    Key::new(words.get("key").filter(|key| !key.is_empty())?).ok()
}

/// The key under which an attribute of the node lies.
pub fn attribute(words: &Words<'_>) -> Option<Key> {
    Key::new([OF_NODE, words.get("key").filter(|key| !key.is_empty())?].concat()).ok()
}

/// The request for a key that is there now.
pub fn get(proc: Proc, key: Key) -> Request {
    Request::Get { proc, key: Some(key), info: vec![Info::new(keys::OPTIONAL, true)] }
}

pub fn put(scope: Scope, key: Key, value: &[u8]) -> Request {
    Request::Commit { entries: vec![Posted { scope, key, value: Value::string(value) }] }
}

pub fn fence(procs: Vec<Proc>) -> Request {
    Request::Fence { procs, info: vec![Info::new(keys::COLLECT_DATA, true)] }
}
