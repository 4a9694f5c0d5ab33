use core::ptr::NonNull;

use proptest::prelude::*;

use super::*;
use crate::block::{self, SeqlockRead};
use crate::sync::AtomicBool;
use crate::words::{RawWords, RawWordsMut, WordsMut};

/// A way to copy, and the fewest bytes that it copies.
type Way = (&'static str, unsafe fn(*const u64, &mut [MaybeUninit<u8>]), usize);

/// Every way that this processor has, the portable one always among them.
const WAYS: &[Way] = &[
    ("out", out, 0),
    ("by_words", by_words, 0),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    ("by_vectors", by_vectors, VECTOR),
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    ("by_strings", by_strings, 0),
];

/// A copy of `len` bytes from `from`, made `offset` bytes behind a boundary of 16, and untouched bytes on both sides.
///
/// # Safety
/// As [`out`].
unsafe fn copied((name, way, _): Way, from: *const u64, len: usize, offset: usize) -> Vec<u8> {
    const UNTOUCHED: u8 = 0xee;
    let mut room = vec![0u128; (offset + len) / 16 + 2];
    // SAFETY: the bytes of the vector's own numbers.
    let room = unsafe { core::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<MaybeUninit<u8>>(), room.len() * 16) };
    room.fill(MaybeUninit::new(UNTOUCHED));
    // SAFETY: the same contract.
    unsafe { way(from, &mut room[offset..offset + len]) };
    // SAFETY: each was initialized above.
    let room: Vec<u8> = room.iter().map(|byte| unsafe { byte.assume_init() }).collect();
    let around = room[..offset].iter().chain(&room[offset + len..]);
    assert!(around.copied().all(|byte| byte == UNTOUCHED), "{name} wrote beside {len} bytes at {offset}");
    room[offset..offset + len].to_vec()
}

proptest! {
    #[test]
    fn every_way_copies_every_byte_and_no_more(
        words in prop::collection::vec(any::<u64>(), 1..200),
        place in any::<prop::sample::Index>(),
        length in any::<prop::sample::Index>(),
        offset in 0usize..16,
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let source: Vec<u64> = words.iter().map(|word| word.to_le()).collect();
        let at = place.index(words.len());
        let len = length.index((words.len() - at) * 8 + 1);
        for way in WAYS.iter().filter(|(_, _, fewest)| len >= *fewest) {
            // SAFETY: a vector that nobody writes, and a place and length within.
            let copy = unsafe { copied(*way, source.as_ptr().add(at), len, offset) };
            prop_assert_eq!(&copy, &bytes[at * 8..at * 8 + len], "{}", way.0);
        }
    }
}

/// The step of the protocol that is left out.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// The reader does not load the version again.
    SecondLoad,
    /// The writer does not make the version odd while it writes.
    OddVersion,
}

const BLOCK: usize = 256;

/// Word `at` of the record of a version: no two words are the same.
fn word(version: u64, at: usize) -> u64 {
    (version << 16 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Writes one record after the other to the block, until it is to stop.
fn write_on(words: RawWordsMut<'_>, fault: Fault, stop: &AtomicBool) {
    let mut version = 0;
    while !stop.load(Ordering::Relaxed) {
        version += 2;
        let mut record: [u64; BLOCK] = core::array::from_fn(|at| word(version, at));
        record[0] = version;
        if fault == Fault::OddVersion {
            for at in (1..BLOCK).chain([0]) {
                words.store(at, record[at], Ordering::Release);
            }
        } else {
            block::write(&words, 0, &record);
        }
    }
}

/// Copies parts of a block that is written all the time, until `copies` of them counted, and says whether
/// one of them was a mixture.
fn yields_a_mixture(way: Way, fault: Fault, copies: usize) -> bool {
    let memory: Vec<AtomicU64> = (0..BLOCK).map(|at| AtomicU64::new(if at == 0 { 1 } else { 0 })).collect();
    // SAFETY: atomic words that outlive both threads, which anybody may write.
    let writable = unsafe { RawWordsMut::new(NonNull::from(memory.as_slice()).cast(), BLOCK) };
    let words: RawWords<'_> = writable.reader();
    let stop = AtomicBool::new(false);
    let mut random = 1u64;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % limit
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write_on(writable, fault, &stop));
        let mut counted = 0;
        let mixed = loop {
            let at = 1 + below(BLOCK - 2);
            let most = (BLOCK - at) * 8;
            let len = (1 + below(if counted % 2 == 0 { most } else { most.min(300) })).max(way.2).min(most);
            if len < way.2 {
                continue;
            }
            let Some(read) = SeqlockRead::begin(&words, 0, None).unwrap() else {
                std::thread::yield_now();
                continue;
            };
            // SAFETY: within the block, of which there are no references but atomic ones.
            let copy = unsafe { copied(way, memory.as_ptr().cast::<u64>().add(at), len, below(16)) };
            if fault != Fault::SecondLoad && !read.is_unchanged() {
                continue;
            }
            let expected = (at..).flat_map(|at| word(read.version, at).to_le_bytes());
            if !expected.zip(&copy).all(|(expected, byte)| expected == *byte) {
                break true;
            }
            counted += 1;
            if counted == copies {
                break false;
            }
        };
        stop.store(true, Ordering::Relaxed);
        mixed
    })
}

#[test]
fn no_copy_that_counts_is_a_mixture() {
    for way in WAYS {
        assert!(!yields_a_mixture(*way, Fault::Nothing, 20_000), "{}", way.0);
    }
}

/// Enough copies that one of them and a write meet, on any machine.
const MANY: usize = 100_000_000;

#[test]
fn without_the_second_load_a_mixture_counts() {
    for way in WAYS {
        assert!(yields_a_mixture(*way, Fault::SecondLoad, MANY), "{}", way.0);
    }
}

#[test]
fn without_an_odd_version_a_mixture_counts() {
    for way in WAYS {
        assert!(yields_a_mixture(*way, Fault::OddVersion, MANY), "{}", way.0);
    }
}
