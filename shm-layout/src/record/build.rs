//! Records under construction, in the writer's private memory.
use super::{Base, ENTRY, HEAD, Owner, base, flags};
use crate::hash::{hash, tail_word};
use crate::pair;

/// A value to be put into a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Up to 8 bytes.
    Scalar(u64),
    /// A NULL string.
    Null,
    /// Plain bytes.
    Bytes(&'a [u8]),
    /// An archive.
    Archive(&'a [u8]),
}

/// A key and a value to be put into a record.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Scope it was put with, 0 for job information.
    pub scope: u8,
    /// Number of the data type.
    pub data_type: u16,
    /// The value.
    pub payload: Payload<'a>,
}

/// The place for the words of keys, for a record that is being built.
pub trait Keys {
    /// The word of a key, which is put there if it is not there yet.
    fn place(&mut self, record: &mut Vec<u64>, key: &[u8]) -> usize;
}

/// Keys in the record itself.
pub struct OwnKeys;

impl Keys for OwnKeys {
    fn place(&mut self, record: &mut Vec<u64>, key: &[u8]) -> usize {
        append(record, key)
    }
}

/// Appends bytes from a word boundary and returns the word.
pub fn append(words: &mut Vec<u64>, bytes: &[u8]) -> usize {
    let at = words.len();
    let (chunks, rest) = bytes.as_chunks::<8>();
    words.extend(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)));
    if !rest.is_empty() {
        words.push(tail_word(bytes, rest));
    }
    at
}

/// Words of the largest record: its length in bytes has 32 bits.
pub const LARGEST: usize = u32::MAX as usize / 8;

fn slots(entries: usize) -> usize {
    (entries + entries / 3 + 1).next_power_of_two()
}

/// Words of a record with these entries, or a few more. A record of more than [`LARGEST`] must not be built.
pub fn size<'a>(items: impl Iterator<Item = Item<'a>>) -> usize {
    let (mut entries, mut words) = (0, HEAD + base::WORDS);
    for item in items {
        let value = match item.payload {
            Payload::Scalar(_) | Payload::Null => 0,
            Payload::Bytes(bytes) => bytes.len().div_ceil(8),
            Payload::Archive(bytes) => bytes.len().div_ceil(8) + 1,
        };
        entries += 1;
        words += item.key.len().div_ceil(8) + value;
    }
    words + slots(entries) * ENTRY
}

/// A record with these entries, whose keys differ. Its version and checksum are set by [`seal`].
///
/// Keys come before values: a look-up and its small values share a page.
pub fn build<'a>(
    kind: Owner,
    owner: u32,
    items: impl Iterator<Item = Item<'a>> + Clone,
    keys: &mut impl Keys,
) -> Vec<u64> {
    build_with(kind, owner, items, keys, None)
}

/// A record as of [`build`] of what a rank has posted since `base`.
pub fn build_on<'a>(owner: u32, items: impl Iterator<Item = Item<'a>> + Clone, base: Option<&Base>) -> Vec<u64> {
    build_with(Owner::Modex, owner, items, &mut OwnKeys, base)
}

/// Lets a record that was built on a base continue in another one.
pub(crate) fn set_base(record: &mut [u64], base: &Base) {
    let from = record.len() - base::WORDS;
    record[from..].copy_from_slice(&base.encode());
}

pub(crate) fn build_with<'a>(
    kind: Owner,
    owner: u32,
    items: impl Iterator<Item = Item<'a>> + Clone,
    keys: &mut impl Keys,
    base: Option<&Base>,
) -> Vec<u64> {
    let count = items.clone().count();
    let slots = slots(count);
    let mut words = vec![0; HEAD + slots * ENTRY];
    words[2] = pair(owner, count as u32);
    words[3] = pair(slots.ilog2(), kind as u32 | if base.is_some() { base::CONTINUES } else { 0 });
    let places: Vec<usize> = items
        .clone()
        .map(|item| {
            let hash = hash(item.key);
            let mut slot = hash as usize & (slots - 1);
            while words[HEAD + slot * ENTRY] != 0 {
                slot = (slot + 1) & (slots - 1);
            }
            let at = HEAD + slot * ENTRY;
            words[at] = hash;
            let key = keys.place(&mut words, item.key);
            words[at + 1] = pair(key as u32, item.key.len() as u32 | u32::from(item.data_type) << 16);
            at
        })
        .collect();
    for (item, at) in items.zip(places) {
        let (flag, value) = match item.payload {
            Payload::Scalar(scalar) => (flags::INLINE, scalar),
            Payload::Null => (flags::INLINE | flags::NULL, 0),
            Payload::Bytes(bytes) => (0, pair(append(&mut words, bytes) as u32, bytes.len() as u32)),
            Payload::Archive(bytes) => {
                if words.len() % 2 == 1 {
                    words.push(0);
                }
                (flags::ARCHIVE, pair(append(&mut words, bytes) as u32, bytes.len() as u32))
            }
        };
        words[at + 2] = u64::from(item.scope) | u64::from(flag) << 8;
        words[at + 3] = value;
    }
    words.extend(base.into_iter().flat_map(Base::encode));
    words
}

/// Gives a record its version and its checksum.
pub fn seal(record: &mut [u64], version: u64) {
    record[0] = version;
    record[1] = pair(record.len() as u32 * 8, 0);
    record[1] = pair(record.len() as u32 * 8, crate::crc::of(record));
}
