//! The copy of bytes out of shared memory, whose words a writer may change meanwhile.
//!
//! [`by_words`] runs everywhere. On x86-64 [`by_vectors`] and [`by_strings`] do the same faster, in assembler. The
//! bytes that a copy yields while the words change is a mixture of old and new bytes: the reader loads the version of
//! the block before and after it, and throws the copy away when the two differ ([`block`](crate::block)). That takes
//! two orders: no load of the copy comes before the first load of the version, and none after the second.
//!
//! # Rust's view
//!
//! Memory that another process writes can be read soundly by relaxed atomic loads, of at most 8 bytes where the mapping
//! is read-only. A copy in assembler stands for such loads, and for nothing else: each byte of it is that byte of one
//! relaxed load of the word in which it lies, these loads happen in some order, and each byte is stored once or twice
//! to a place that the caller lent exclusively. Every mixture that the processor yields is a result of such loads,
//! since each byte was in memory at some time between the beginning of the copy and its end; `by_words` is the same
//! with one load a word, in ascending order. So there is no data race, and the fences in
//! [`SeqlockRead`](crate::block::SeqlockRead) order the assembler's loads as they order atomic ones:
//!
//! * The compiler leaves the loads between the two fences: the assembler is not `pure`, so that it is run exactly once
//!   and where it stands, and neither `nomem` nor `readonly`, so that no access to memory moves across it.
//! * The processor leaves them there, because an acquire fence on x86-64 is no instruction, and loads
//!   keep their order anyway.
//!
//! # Promises of the processor
//!
//! Segments are ordinary write-back memory.
//!
//! * Intel, Software Developer's Manual, volume 3, "Memory Ordering in P6 and More Recent Processor Families" (8.2.2 in
//!   the numbering until 2021; later editions have more chapters in front): reads keep their order among each other.
//!   All exceptions in that list are of writes, those of string operations among them. "Fast-String Operation and
//!   Out-of-Order Stores" (8.2.4, the model in 8.2.4.1): the *stores* of one string operation may come in any order,
//!   but not those of two, nor any other store before or after them. An instruction of several accesses (`rep movsb`,
//!   or `movdqu` across a boundary) has them in no promised order (8.2.3.1), and needs none here: each of them is a
//!   read that precedes the second load of the version, and follows the first.
//! * AMD, Architecture Programmer's Manual, volume 2 (revision 3.45), 7.2: loads do not pass earlier loads. The one
//!   exception is of the loads of one string operation among themselves. 7.4.2, table 7-4, rule *a*: no load of
//!   write-back memory passes an earlier load of any kind. A `movdqu` across a boundary is no single access (7.3.2),
//!   but each of its accesses is an earlier load.
//!
//! So neither `rep movsb` nor `movdqu` needs an LFENCE behind it. The stores of `rep movsb` go to memory
//! of this thread's own; whoever is handed the copy later sees them before the store that hands it over
//! (Intel 8.2.4.1, AMD 7.2).
//!
//! # Tests that hold it
//!
//! Loom runs the protocol over [`VecWords`](crate::words::VecWords), whose copies are loads one by one. The tests here
//! hold all ways of copying to the same bytes for random lengths and places, and let each of them copy a block that a
//! thread writes all the time: no copy with unchanged version is a mixture, and a reader or a writer with one step left
//! out is found out. Every test runs `by_words` on x86-64 too, as does every copy there of less than 16 bytes.
use core::mem::MaybeUninit;

use crate::sync::{AtomicU64, Ordering};

/// Copies the bytes from the word at `from` to all of `to`, in the fastest way there is here.
///
/// # Safety
/// - `from` is aligned to 8 bytes, and `to.len()` bytes from it, rounded up to whole words, are mapped readable
/// - nobody in this process has a Rust reference to those of them that change
#[inline(always)]
pub(crate) unsafe fn out(from: *const u64, to: &mut [MaybeUninit<u8>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        /// From here on one string instruction is faster than a loop.
        const STRING_COPY: usize = 256;
        if to.len() >= VECTOR {
            // SAFETY: the same contract; the length was looked at.
            return unsafe { if to.len() >= STRING_COPY { by_strings(from, to) } else { by_vectors(from, to) } };
        }
    }
    // SAFETY: the same contract.
    unsafe { by_words(from, to) }
}

/// Copies word by word.
///
/// # Safety
/// As [`out`].
#[inline(always)]
unsafe fn by_words(from: *const u64, to: &mut [MaybeUninit<u8>]) {
    let load = |at: usize| {
        // SAFETY:
        // - aligned and mapped (contract of this function), for `at` within the length rounded up
        // - a relaxed load of 8 bytes is sound on a read-only mapping
        u64::from_le(unsafe { AtomicU64::from_ptr(from.add(at).cast_mut()) }.load(Ordering::Relaxed))
    };
    let (whole, rest) = to.as_chunks_mut::<8>();
    for (at, chunk) in whole.iter_mut().enumerate() {
        *chunk = load(at).to_le_bytes().map(MaybeUninit::new);
    }
    if rest.is_empty() {
        return;
    }
    let (words, count) = (whole.len(), rest.len());
    let last = load(words);
    match to.last_chunk_mut::<8>() {
        // All of the last eight bytes once more: one store is faster than up to seven.
        Some(end) => {
            let word = load(words - 1) >> (8 * count) | last << (64 - 8 * count);
            *end = word.to_le_bytes().map(MaybeUninit::new);
        }
        None => {
            for (to, from) in to.iter_mut().zip(last.to_le_bytes()) {
                to.write(from);
            }
        }
    }
}

/// The bytes of a vector register.
#[cfg(target_arch = "x86_64")]
const VECTOR: usize = 16;

/// Copies by loads of 16 bytes. The last one ends where the copy ends, whatever the one before has of it already.
///
/// # Safety
/// As [`out`], and `to` has at least [`VECTOR`] bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_vectors(from: *const u64, to: &mut [MaybeUninit<u8>]) {
    let last = to.len() - VECTOR;
    // SAFETY:
    // - 16 bytes at each place below `last`, and 16 at `last`, lie within both (contract, and the slice's own)
    // - it does what relaxed loads of the words from `from` and stores to `to` can do (module)
    unsafe {
        core::arch::asm!(
            "2:",
            "cmp {at}, {last}",
            "jae 3f",
            "movdqu {piece}, [{from} + {at}]",
            "movdqu [{to} + {at}], {piece}",
            "add {at}, 16",
            "jmp 2b",
            "3:",
            "movdqu {piece}, [{from} + {last}]",
            "movdqu [{to} + {last}], {piece}",
            at = inout(reg) 0usize => _,
            last = in(reg) last,
            from = in(reg) from,
            to = in(reg) to.as_mut_ptr(),
            piece = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Copies by one string instruction.
///
/// # Safety
/// As [`out`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_strings(from: *const u64, to: &mut [MaybeUninit<u8>]) {
    // SAFETY:
    // - both have so many bytes (contract, and the slice's own)
    // - the direction flag is clear on entry, as the ABI demands
    // - it does what relaxed loads of the words from `from` and stores to `to` can do (module)
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") to.len() => _,
            inout("rsi") from => _,
            inout("rdi") to.as_mut_ptr() => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests;
