//! Attribute keys by name (`keys::JOB_SIZE` is `"pmix.job.size"`), the table of them all, and look-ups in it.
//!
//! ```
//! use instanton::data::keys;
//! assert_eq!(keys::name_of("pmix.job.size"), Some(c"PMIX_JOB_SIZE"));
//! assert_eq!(keys::key_of("PMIX_JOB_SIZE"), Some(c"pmix.job.size"));
//! assert_eq!(keys::canonical("pmix.qry.supqual"), keys::QUERY_SUPPORTED_QUALIFIERS);
//! ```
use std::ffi::CStr;

use instanton_layout::hash::hash;

use super::{DataType, texts};

include!(concat!(env!("OUT_DIR"), "/attributes.rs"));

/// Every attribute: name, key, and the number of the type of its value (0 where it varies).
pub fn all() -> impl ExactSizeIterator<Item = (&'static str, &'static str, u16)> {
    ATTRIBUTES.iter().map(|(name, key, ty)| (texts::text(*name), texts::text(*key), *ty))
}

/// The name of the attribute with this key, in either spelling (`PMIx_Get_attribute_name`).
///
/// Of two names that share a key it is the one that is not deprecated, or the one that keeps the key where later
/// headers tell the two apart.
pub fn name_of(key: impl AsRef<[u8]>) -> Option<&'static CStr> {
    row_of(key.as_ref()).map(|(name, ..)| texts::c_text(*name))
}

/// As [`name_of`], of a key in letters of any case, as programs may have it from a person.
pub fn name_in_any_case(key: impl AsRef<[u8]>) -> Option<&'static CStr> {
    let key = key.as_ref();
    let row = || ATTRIBUTES.iter().find(|(_, known, _)| like(*known, key));
    name_of(key).or_else(|| row().map(|(name, ..)| texts::c_text(*name)))
}

/// Returns whether a text of the tables is this one, in letters of any case.
fn like(known: u16, text: &[u8]) -> bool {
    texts::c_text(known).to_bytes().eq_ignore_ascii_case(text)
}

/// The key of the attribute with this name, in letters of any case (`PMIx_Get_attribute_string`).
pub fn key_of(name: impl AsRef<[u8]>) -> Option<&'static CStr> {
    let name = name.as_ref();
    let first = BY_NAME.partition_point(|row| texts::order(ATTRIBUTES[usize::from(*row)].0, name).is_lt());
    let exact = BY_NAME.get(first).map(|row| &ATTRIBUTES[usize::from(*row)]);
    let row = exact.filter(|(known, ..)| texts::order(*known, name).is_eq());
    row.or_else(|| ATTRIBUTES.iter().find(|(known, ..)| like(*known, name))).map(|(_, key, _)| texts::c_text(*key))
}

/// The type that the value of the attribute with this key has, where it always has the same.
pub fn type_of(key: impl AsRef<[u8]>) -> Option<DataType> {
    row_of(key.as_ref()).map(|(.., number)| DataType(*number)).filter(|ty| *ty != DataType::UNDEF)
}

/// The attribute with this key that has the best name.
fn row_of(key: &[u8]) -> Option<&'static (u16, u16, u16)> {
    let number = |key| number_of(key, hash(key));
    let number = number(key).or_else(|| number(canonical(std::str::from_utf8(key).ok()?).as_bytes()))?;
    Some(&ATTRIBUTES[usize::from(FIRST[usize::from(number)])])
}

/// Number of keys that attributes have: their numbers ([`number`]) are below.
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

/// Returns whether a key is one of the Standard's, known or not (`PMIx_Check_reserved_key`).
#[inline]
pub fn is_reserved(key: impl AsRef<[u8]>) -> bool {
    key.as_ref().starts_with(b"pmix")
}

/// Our spelling of a key: some programs are built with headers, or written after a text, that spell a few otherwise.
/// Every other key is its own.
pub fn canonical(key: &str) -> &str {
    SPELLINGS.iter().find(|(other, _)| *other == key).map_or(key, |(_, ours)| ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_number_and_nothing_else_has_any() {
        let number = |key: &str| number_of(key.as_bytes(), hash(key.as_bytes()));
        let mut seen = std::collections::HashSet::new();
        for (_, key, _) in all() {
            let found = number(key).unwrap_or_else(|| panic!("{key} has no number"));
            assert_eq!(numbered(found), Some(key));
            seen.insert(found);
            assert_eq!(
                number(&key[..key.len() - 1]).and_then(numbered),
                all().map(|(_, known, _)| known).find(|known| *known == &key[..key.len() - 1])
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
