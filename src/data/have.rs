//! The segments of a job that a client has mapped: as it says in a message, and as the store is asked for the rest.
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

use rkyv::{Archive, Deserialize, Serialize};

/// The segments that a client has mapped.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// True if it has the job segment.
    pub job: bool,
    /// The generation of its job information, 0 for none.
    pub info: u64,
    /// The number of the newest modex segment it has, 0 for none.
    pub modex: u32,
}

impl Have {
    /// Number of its bytes.
    pub const BYTES: usize = 16;
    /// The first byte, so that a later form can be told from this one.
    const FORM: u8 = 1;

    /// As bytes: how a reader in another process says what it has.
    ///
    /// ```
    /// use instanton::store::Have;
    /// let have = Have { job: true, info: 3, modex: 7 };
    /// assert_eq!(Have::from_bytes(&have.to_bytes()), Some(have));
    /// ```
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (Self::FORM, self.job.into());
        bytes[4..8].copy_from_slice(&self.modex.to_le_bytes());
        bytes[8..].copy_from_slice(&self.info.to_le_bytes());
        bytes
    }

    /// Reads the bytes that [`to_bytes`](Self::to_bytes) has made; `None` for any others.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [Self::FORM, job @ (0 | 1), 0, 0, m0, m1, m2, m3, i0, i1, i2, i3, i4, i5, i6, i7] = *bytes else {
            return None;
        };
        let modex = u32::from_le_bytes([m0, m1, m2, m3]);
        Some(Self { job: job == 1, info: u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]), modex })
    }
}

#[cfg(test)]
mod tests {
    use super::Have;

    #[test]
    fn what_is_no_such_thing_is_not_taken_for_one() {
        let good = Have { job: true, info: u64::MAX - 1, modex: u32::MAX }.to_bytes();
        assert_eq!(Have::from_bytes(&good).map(|have| have.to_bytes()), Some(good));
        for (at, byte) in [(0, 0), (0, 2), (1, 2), (2, 1), (3, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(Have::from_bytes(&bad), None, "{byte} at {at}");
        }
        assert_eq!(Have::from_bytes(&good[..15]), None);
        assert_eq!(Have::from_bytes(&[&good[..], &[0]].concat()), None);
    }
}
