//! Attribute keys by name (`keys::JOB_SIZE` is `"pmix.job.size"`), the table of them all, and look-ups in it.
//!
//! ```
//! use instanton::data::keys;
//! assert_eq!(keys::name_of(b"pmix.job.size"), Some(c"PMIX_JOB_SIZE"));
//! assert_eq!(keys::key_of(b"PMIX_JOB_SIZE"), Some(c"pmix.job.size"));
//! assert_eq!(keys::canonical("pmix.qry.supqual"), keys::QUERY_SUPPORTED_QUALIFIERS);
//! ```
use std::ffi::CStr;

use super::DataType;

include!(concat!(env!("OUT_DIR"), "/attributes.rs"));

/// The name of the attribute with this key, in either spelling (`PMIx_Get_attribute_name`).
///
/// Where two names share a key it is the one that is not deprecated, or the one that keeps the key where later headers
/// tell the two apart.
pub fn name_of(key: &[u8]) -> Option<&'static CStr> {
    let key = std::str::from_utf8(key).map_or(key, |key| canonical(key).as_bytes());
    let first = ATTRIBUTES.partition_point(|(_, known, _)| known.to_bytes() < key);
    // Sorted with aliases last, so that the first of a key is the proper name.
    ATTRIBUTES.get(first).filter(|(_, known, _)| known.to_bytes() == key).map(|(name, ..)| *name)
}

/// The key of the attribute with this name (`PMIx_Get_attribute_string`).
pub fn key_of(name: &[u8]) -> Option<&'static CStr> {
    ATTRIBUTES.iter().find(|(known, ..)| known.to_bytes() == name).map(|(_, key, _)| *key)
}

/// The type that the value of the attribute with this key has, where it always has the same.
pub fn type_of(key: &str) -> Option<DataType> {
    let name = name_of(key.as_bytes())?.to_str().ok()?;
    let (.., number) = ALL.iter().find(|(known, ..)| *known == name)?;
    Some(DataType(*number)).filter(|ty| *ty != DataType::UNDEF)
}

/// Our spelling of a key: some programs are built with headers, or written after a text, that spell a few otherwise.
/// Every other key is its own.
pub fn canonical(key: &str) -> &str {
    SPELLINGS.iter().find(|(other, _)| *other == key).map_or(key, |(_, ours)| ours)
}
