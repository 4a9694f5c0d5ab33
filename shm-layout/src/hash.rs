//! The frozen hash of keys and names. It is part of the layout: [`VECTORS`] may never change within a layout version.

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;

const fn mix(state: u64, word: u64) -> u64 {
    let state = (state ^ word).wrapping_mul(MULTIPLIER);
    state ^ (state >> 32)
}

/// The hash of some bytes; never 0, which marks an empty slot.
#[inline]
pub const fn hash(bytes: &[u8]) -> u64 {
    hash_and_tail(bytes).0
}

/// The hash, and the last word of the bytes as it lies in a segment.
#[inline(always)]
pub(crate) const fn hash_and_tail(bytes: &[u8]) -> (u64, u64) {
    let mut state = SEED ^ bytes.len() as u64;
    let mut rest = bytes;
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        state = mix(state, u64::from_le_bytes(*word));
        rest = tail;
    }
    let tail = tail_word(bytes, rest);
    state = mix(mix(state, tail), 0);
    (if state == 0 { 1 } else { state }, tail)
}

/// The rest of `bytes` behind its whole words, as a word with zeroes behind it.
#[inline(always)]
pub(crate) const fn tail_word(bytes: &[u8], rest: &[u8]) -> u64 {
    let Some(end) = rest.len().checked_sub(1) else { return 0 };
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last) >> (56 - 8 * end);
    }
    // Halves that may share bytes.
    if let (Some(first), Some(last)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        return u32::from_le_bytes(*first) as u64 | (u32::from_le_bytes(*last) as u64) << (8 * end - 24);
    }
    let middle = rest.len() / 2;
    rest[0] as u64 | (rest[middle] as u64) << (8 * middle) | (rest[end] as u64) << (8 * end)
}

/// Compares two names or keys: of so few bytes, words compared on the spot take half as long as a call.
#[inline(always)]
pub fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(one_end), Some(other_end)) = (one.last_chunk::<8>(), other.last_chunk::<8>()) else {
        return one == other;
    };
    // The last eight bytes, whatever the rest has of them already.
    let mut words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    one_end == other_end && words.all(|(one, other)| one == other)
}

/// The hashes of some keys, which never change.
pub const VECTORS: &[(&str, u64)] = &[
    ("a", 0xf91e_1eb6_065b_9527),
    ("pmix.job.size", 0x8d97_3abe_d07f_24e1),
    ("pmix.hname", 0xb5bf_468f_0b2d_01eb),
    ("exactly8", 0x2dbf_f0a5_1d68_0f21),
    ("a key of more than sixteen bytes", 0x38c0_2419_bc2d_e48c),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_what_differs_in_no_byte() {
        let text = b"a name of as many as 31 bytes..";
        for len in 0..=text.len() {
            let (one, copy) = (&text[..len], text[..len].to_vec());
            assert!(same(one, &copy), "{len}");
            assert!(len == 0 || !same(one, &one[1..]) && !same(&one[1..], one), "{len}");
            for at in 0..len {
                let mut other = copy.clone();
                other[at] ^= 0x80;
                assert!(!same(one, &other), "{at} of {len}");
            }
        }
    }

    #[test]
    fn a_tail_is_its_bytes_and_zeroes() {
        let text = b"a name of as many as 31 bytes..";
        for len in 0..=text.len() {
            let (bytes, mut word) = (&text[..len], [0; 8]);
            let rest = &bytes[len / 8 * 8..];
            word[..rest.len()].copy_from_slice(rest);
            assert_eq!(tail_word(bytes, rest), u64::from_le_bytes(word), "{len}");
        }
    }

    #[test]
    fn the_hash_is_frozen() {
        for (key, value) in VECTORS {
            assert_eq!(hash(key.as_bytes()), *value, "{key}: {:#018x}", hash(key.as_bytes()));
        }
    }
}
