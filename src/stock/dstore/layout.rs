//! Layout of the store's files: what lies where, as the stock library reads it on x86-64.
//!
//! | file | content |
//! |---|---|
//! | `smlockseg-NAMESPACE` | sizes, a word for each place, and two mutexes for each place |
//! | `initial-pmix_shared-segment-0` | the number of namespaces, and for each how many files it has |
//! | `smseg-NAMESPACE-N` | for each rank, and first for the job, where its records begin and how many count |
//! | `smdataseg-NAMESPACE-N` | records |
//!
//! A record is its size with flags, a sum of its key's characters, the key with a NUL behind it, and a packed value. A
//! jump is a record with an empty key whose value is the place at which the records go on, or 0 where there is none.

/// Bytes of each file with records, and of each with places: what a process maps.
pub const SEGMENT: u64 = 4 << 20;
/// Bytes of the first file.
pub const INITIAL: usize = 4096;
/// Longest name of a namespace, with its NUL.
const NAME: usize = 256;
/// Offset in the first file of its only namespace.
pub const NAMESPACE_AT: u64 = 16;

/// Bytes of what is said of a rank.
const META: usize = 24;
/// Bytes in front of what is said of ranks in a file.
const META_HEAD: usize = 8;
/// Offset of the number of records within what is said of a rank.
const COUNT_IN_META: u64 = 16;
/// Ranks of which a file says something.
pub const META_PER_SEGMENT: u64 = (SEGMENT as usize - META_HEAD) as u64 / META as u64;

/// First offset of a record in its file.
pub const FIRST_RECORD: u64 = 8;
/// Bytes of a record in front of its key.
const RECORD_HEAD: usize = 16;
/// Offset within a record of the byte with its flags.
pub const FLAGS_IN_RECORD: u64 = 7;
/// Flag of a jump.
pub const JUMP: u8 = 0x80;
/// Flag of what readers pass over, whatever it is.
pub const PASSED: u8 = 0x40;
/// Bytes of a jump.
pub const JUMP_LEN: usize = RECORD_HEAD + 1 + 8;
/// Offset within a jump of the place that it leads to.
pub const TARGET_IN_JUMP: u64 = RECORD_HEAD as u64 + 1;
/// Bytes behind the records of a block: a jump that is passed over, and one that ends all.
pub const TAIL: usize = 2 * JUMP_LEN;

/// Bytes of the lock file's head.
const LOCK_HEAD: usize = 32;
/// Bytes from one mutex to the next: `pthread_mutex_t` has 40, and shares no cache line.
const LOCK_STRIDE: usize = 64;
/// Offset of the kind within a mutex of glibc.
const KIND_IN_MUTEX: usize = 16;
/// Kind of a mutex that processes share.
const SHARED: i32 = 128;
/// Bytes of a page.
const PAGE: usize = 4096;

/// Index of what is said of a rank, or of the job.
pub fn slot(rank: Option<u32>) -> u64 {
    rank.map_or(0, |rank| u64::from(rank) + 1)
}

/// Number of the file that says something of a slot, and where.
pub fn meta(slot: u64) -> (usize, u64) {
    let (file, index) = (slot / META_PER_SEGMENT, slot % META_PER_SEGMENT);
    (file as usize, META_HEAD as u64 + index * META as u64)
}

/// Where the number of a slot's records is, behind the place of [`meta`].
pub fn count_at(meta: u64) -> u64 {
    meta + COUNT_IN_META
}

/// Description of a slot.
pub fn meta_bytes(slot: u64, first: u64, count: u64) -> [u8; META] {
    // The job's own number is that of all ranks.
    let rank = slot.checked_sub(1).unwrap_or(u64::from(u32::MAX - 1));
    let mut bytes = [0; META];
    for (at, number) in [rank, first, count].into_iter().enumerate() {
        bytes[8 * at..][..8].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// Length of a record.
pub fn record_len(key: &[u8], value: usize) -> usize {
    RECORD_HEAD + key.len() + 1 + value
}

/// Writes a record.
pub fn record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    head(out, record_len(key, value.len()), 0, key);
    out.extend_from_slice(value);
}

/// Writes a jump to a place.
pub fn jump(out: &mut Vec<u8>, flags: u8, target: u64) {
    head(out, JUMP_LEN, JUMP | flags, b"");
    out.extend_from_slice(&target.to_le_bytes());
}

/// Writes what is behind the records of a block.
pub fn tail(out: &mut Vec<u8>) {
    jump(out, PASSED, 0);
    jump(out, 0, 0);
}

fn head(out: &mut Vec<u8>, len: usize, flags: u8, key: &[u8]) {
    out.extend_from_slice(&(len as u64 | u64::from(flags) << 56).to_le_bytes());
    // Characters are signed here.
    let sum = key.iter().fold(0u64, |sum, byte| sum.wrapping_add(*byte as i8 as u64));
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(key);
    out.push(0);
}

/// Description of a namespace in the first file.
pub fn namespace(name: &[u8], metas: usize, datas: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; NAME + 16];
    bytes[..NAME - 1].get_mut(..name.len())?.copy_from_slice(name);
    for number in [metas, datas] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    Some(bytes)
}

/// The lock file for so many processes.
pub fn locks(places: u32) -> Vec<u8> {
    let places_len = places as usize;
    let first = ((LOCK_HEAD + 4 * places_len) / LOCK_STRIDE + 1) * LOCK_STRIDE;
    let len = ((first + 2 * places_len * LOCK_STRIDE) / PAGE + 1) * PAGE;
    let mut bytes = vec![0; len];
    bytes[..8].copy_from_slice(&(len as u64).to_le_bytes());
    bytes[8..12].copy_from_slice(&places.to_le_bytes());
    bytes[16..24].copy_from_slice(&(LOCK_STRIDE as u64).to_le_bytes());
    bytes[24..32].copy_from_slice(&(first as u64).to_le_bytes());
    for mutex in bytes[first..].chunks_exact_mut(LOCK_STRIDE).take(2 * places_len) {
        mutex[KIND_IN_MUTEX..][..4].copy_from_slice(&SHARED.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    fn a_mutex_is_as_this_machines_library_makes_it() {
        let places = 5;
        let locks = locks(places);
        let first = u64::from_le_bytes(locks[24..32].try_into().unwrap()) as usize;

        assert!(locks.len().is_multiple_of(PAGE) && first + 10 * LOCK_STRIDE <= locks.len());
        assert_eq!(u64::from_le_bytes(locks[..8].try_into().unwrap()) as usize, locks.len());
        let shared = crate::sys::shared_mutex();
        for number in 0..10 {
            assert_eq!(locks[first + number * LOCK_STRIDE..][..40], shared);
        }
        assert!(locks[first + 10 * LOCK_STRIDE..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn records_and_jumps_have_the_lengths_that_they_say() {
        let mut bytes = Vec::new();
        record(&mut bytes, b"key", b"value");
        assert_eq!(bytes.len(), record_len(b"key", 5));
        assert_eq!(bytes[..8], 25u64.to_le_bytes());
        let before = bytes.len();
        tail(&mut bytes);
        assert_eq!(bytes.len() - before, TAIL);
        assert_eq!(bytes[before + 7], JUMP | PASSED);
        assert_eq!(bytes[before + JUMP_LEN + 7], JUMP);
    }

    #[test]
    fn every_rank_has_a_place_of_its_own() {
        assert_eq!((meta(slot(None)), meta(slot(Some(0)))), ((0, 8), (0, 32)));
        assert_eq!(meta(META_PER_SEGMENT), (1, 8));
        let (_, last) = meta(META_PER_SEGMENT - 1);
        assert!(last + META as u64 <= SEGMENT);
        assert_eq!(meta_bytes(0, 8, 1)[..8], 0xffff_fffe_u64.to_le_bytes());
        assert_eq!(namespace(b"job", 1, 2).unwrap().len(), 288);
        assert!(namespace(&[b'a'; NAME], 1, 1).is_none());
    }
}
