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

/// How many keys attributes have: their numbers ([`number`]) are below.
pub const COUNT: usize = KEYS.len();

/// The number of an attribute's key; `hash` is the key's in shared memory. Keys that are no attribute's have none.
///
/// Takes the same time for every key: the hash is perfect (`tables/build.rs`).
#[inline]
pub fn number_of(key: &[u8], hash: u64) -> Option<u16> {
    let displacement = u64::from(DISPLACEMENTS[(hash >> 56) as usize]);
    let place = hash.wrapping_add(displacement.wrapping_mul(hash >> 32 | 1)) % PLACES;
    let number = NUMBERS[place as usize];
    let (known_hash, known) = KEYS.get(usize::from(number))?;
    (*known_hash == hash && known.as_bytes() == key).then_some(number)
}

/// The key with a number.
pub fn numbered(number: u16) -> Option<&'static str> {
    KEYS.get(usize::from(number)).map(|(_, key)| *key)
}

/// Our spelling of a key: some programs are built with headers, or written after a text, that spell a few otherwise.
/// Every other key is its own.
pub fn canonical(key: &str) -> &str {
    SPELLINGS.iter().find(|(other, _)| *other == key).map_or(key, |(_, ours)| ours)
}

#[cfg(test)]
mod tests {
    use instanton_layout::hash::hash;

    use super::*;

    #[test]
    fn every_key_has_one_number_and_nothing_else_has_any() {
        let number = |key: &str| number_of(key.as_bytes(), hash(key.as_bytes()));
        let mut seen = std::collections::HashSet::new();
        for (_, key, _) in ALL {
            let found = number(key).unwrap_or_else(|| panic!("{key} has no number"));
            assert_eq!(numbered(found), Some(*key));
            seen.insert(found);
            assert_eq!(
                number(&key[..key.len() - 1]).and_then(numbered),
                ALL.iter().find_map(|(_, known, _)| { (*known == &key[..key.len() - 1]).then_some(*known) })
            );
            assert_eq!(number(&format!("{key}x")).filter(|other| *other == found), None);
        }
        assert_eq!(seen.len(), COUNT);
        assert_eq!(number(HOSTNAME), Some(number::HOSTNAME));
        assert_eq!(number(LOCAL_RANK), Some(number::LOCAL_RANK));
        // The right hash alone is not enough.
        assert_eq!(number_of(b"not.this", hash(HOSTNAME.as_bytes())), None);
        assert_eq!(number(""), None);
    }
}
