//! Integers of varying length: seven bits a byte, the lowest first, the top bit says that another byte follows. The
//! ninth byte has eight bits. The sign of a signed number is its lowest bit.

/// Most bytes of an integer.
pub const MAX: usize = 9;

/// Writes an unsigned number at the beginning of some room; how many bytes it has.
#[inline]
pub fn put(room: &mut [u8; MAX], mut number: u64) -> usize {
    let mut len = 0;
    while number >= 0x80 && len < MAX - 1 {
        room[len] = number as u8 | 0x80;
        number >>= 7;
        len += 1;
    }
    room[len] = number as u8;
    len + 1
}

/// A number at the beginning of some bytes, and how many it has; none where the bytes end before the number does.
#[inline]
pub fn get(from: &[u8]) -> Option<(u64, usize)> {
    // Most are small.
    if let [byte @ ..0x80, ..] = from {
        return Some((u64::from(*byte), 1));
    }
    let mut number = 0;
    for (index, byte) in from.iter().take(MAX).enumerate() {
        if index + 1 == MAX {
            return Some((number | u64::from(*byte) << (7 * index), MAX));
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

/// A signed number as an unsigned one.
#[inline]
pub fn fold(number: i64) -> u64 {
    let magnitude = if number < 0 { !number } else { number };
    (magnitude as u64) << 1 | u64::from(number < 0)
}

/// The signed number that [`fold`] has made one of.
#[inline]
pub fn unfold(number: u64) -> i64 {
    let magnitude = (number >> 1) as i64;
    if number & 1 == 1 { !magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(number: u64) -> Vec<u8> {
        let mut room = [0; MAX];
        let len = put(&mut room, number);
        room[..len].to_vec()
    }

    proptest! {
        #[test]
        fn numbers_come_back(number in prop_oneof![any::<u64>(), (0..64u32).prop_map(|bit| 1 << bit), 0..300u64]) {
            let bytes = made(number);
            prop_assert_eq!(get(&bytes), Some((number, bytes.len())));
            prop_assert_eq!(get(&bytes[..bytes.len() - 1]), None);
            prop_assert_eq!(fold(unfold(number)), number);
        }
    }

    #[test]
    fn they_are_as_short_as_others_write_them() {
        assert_eq!(made(127), [0x7f]);
        assert_eq!(made(16384), [0x80, 0x80, 1]);
        assert_eq!(made(u64::MAX), [0xff; 9]);
        assert_eq!(made(1 << 56), [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]);
        assert_eq!([0, -1, 1, i64::MIN].map(fold), [0, 1, 2, u64::MAX]);
    }
}
