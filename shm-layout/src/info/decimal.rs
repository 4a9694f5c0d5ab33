//! Numbers as decimal digits, all of them at once.

/// Characters of the digits 0.
pub const ZEROES: u64 = u64::from_le_bytes([b'0'; 8]);

/// More than eight digits.
pub const HIGH: u32 = 100_000_000;

/// The decimal digits of a number below [`HIGH`], the first one in the lowest byte: first halves of 4 digits, then of
/// 2, then of 1, all of them at once.
#[inline]
pub fn eight_digits(number: u32) -> u64 {
    let four = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let high = ((four * 10_486) >> 20) & 0x7f_0000_007f;
    let two = high | ((four - 100 * high) << 16);
    let high = ((two * 103) >> 10) & 0x000f_000f_000f_000f;
    high | ((two - 10 * high) << 8)
}
