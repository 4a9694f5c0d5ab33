//! Maps by numbers that this process or its host has given out, ranks among them: no peer can choose them so that they
//! collide, and a multiplication spreads them well enough.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such numbers.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The map takes the lower bits first, and the upper ones are those that are spread.
        self.0.rotate_left(26)
    }
}
