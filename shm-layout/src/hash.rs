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
    let mut state = SEED ^ bytes.len() as u64;
    let mut rest = bytes;
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        state = mix(state, u64::from_le_bytes(*word));
        rest = tail;
    }
    state = mix(mix(state, tail_word(bytes, rest.len())), 0);
    if state == 0 { 1 } else { state }
}

/// The last `count` bytes, fewer than 8, as a word with zeroes behind them.
#[inline]
pub(crate) const fn tail_word(bytes: &[u8], count: usize) -> u64 {
    if count == 0 {
        return 0;
    }
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last) >> (64 - 8 * count);
    }
    let (mut word, mut i) = (0, bytes.len());
    while i > bytes.len() - count {
        i -= 1;
        word = word << 8 | bytes[i] as u64;
    }
    word
}

/// Whether both are the same, for names and keys: of so few bytes, words compared on the spot take half as long as a call.
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

/// What the hash of some keys is and stays.
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
    fn the_hash_is_frozen() {
        for (key, value) in VECTORS {
            assert_eq!(hash(key.as_bytes()), *value, "{key}: {:#018x}", hash(key.as_bytes()));
        }
    }
}
