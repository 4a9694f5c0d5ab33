//! Words of a segment: in a mapping ([`RawWords`]), or in a vector ([`VecWords`]) for tests and models.
//!
//! Readers' mappings are read-only, where only a relaxed load of at most 8 bytes is sound. So this trait has relaxed
//! loads, copies that stand for such loads, and a separate fence, and nothing else for readers.
use core::mem::MaybeUninit;

use crate::Malformed;
use crate::sync::{AtomicU64, Ordering};

/// Words that others may change while they are read.
#[allow(clippy::len_without_is_empty, reason = "no segment is empty")]
pub trait Words {
    /// Returns the number of words.
    fn len(&self) -> usize;

    /// A relaxed load.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when there is no such word.
    fn load(&self, at: usize) -> Result<u64, Malformed>;

    /// Relaxed loads of the `N` words from `at`.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when they do not all lie here.
    #[inline(always)]
    fn load_all<const N: usize>(&self, at: usize) -> Result<[u64; N], Malformed> {
        let mut all = [0; N];
        for (nth, word) in all.iter_mut().enumerate() {
            *word = self.load(at.saturating_add(nth))?;
        }
        Ok(all)
    }

    /// A fence between accesses to these words and others.
    fn fence(&self, order: Ordering);

    /// Checks what begins at word `at`; not again, where words never change and it is known that this was found right.
    /// A check is given the words, so that nobody needs them in memory who does not check.
    ///
    /// # Errors
    /// Errors of `check`.
    #[inline(always)]
    fn once(&self, _at: usize, check: impl FnOnce(&Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        check(self)
    }

    /// Copies bytes that begin at word `at`.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when they do not all lie here; nothing is copied then.
    fn copy_to(&self, at: usize, to: &mut [MaybeUninit<u8>]) -> Result<(), Malformed> {
        check(self.len(), at, to.len())?;
        for (i, chunk) in to.chunks_mut(8).enumerate() {
            let word = self.load(at + i)?.to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(word) {
                to.write(from);
            }
        }
        Ok(())
    }
}

/// Words that the caller may change, too.
pub trait WordsMut: Words {
    /// A store.
    ///
    /// # Panics
    /// When there is no such word: only the writer stores, and it knows its own segments.
    fn store(&self, at: usize, value: u64, order: Ordering);
}

/// Fails unless `bytes` bytes from word `at` lie within `len` words.
#[inline]
pub(crate) fn check(len: usize, at: usize, bytes: usize) -> Result<(), Malformed> {
    match at.checked_add(bytes.div_ceil(8)) {
        Some(end) if end <= len => Ok(()),
        _ => Err(Malformed::bounds(at.saturating_add(bytes / 8))),
    }
}

/// The words of a mapping, for as long as `'a`.
#[cfg(not(loom))]
#[derive(Clone, Copy)]
pub struct RawWords<'a> {
    base: core::ptr::NonNull<u64>,
    len: usize,
    mapping: core::marker::PhantomData<&'a AtomicU64>,
}

// SAFETY:
// - all access goes through atomic operations (or the equivalent assembler), which any thread may do at any time
#[cfg(not(loom))]
unsafe impl Send for RawWords<'_> {}
// SAFETY: as for Send.
#[cfg(not(loom))]
unsafe impl Sync for RawWords<'_> {}

#[cfg(not(loom))]
impl<'a> RawWords<'a> {
    /// The words of a mapping.
    ///
    /// # Safety
    /// - `base` is aligned to 8 bytes and `len * 8` bytes from it stay mapped readable for `'a`
    /// - the pages behind it exist: no access to them faults for good
    /// - as long as `'a`, nobody in this process has a Rust reference to bytes of it that change
    pub const unsafe fn new(base: core::ptr::NonNull<u64>, len: usize) -> Self {
        Self { base, len, mapping: core::marker::PhantomData }
    }

    /// The bytes from word `at`, as memory.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when they do not all lie here.
    ///
    /// # Safety
    /// Nobody changes them for `'a`: they are frozen (an info segment), or a guard keeps their block from being reused.
    #[inline]
    pub unsafe fn bytes(&self, at: usize, len: usize) -> Result<&'a [u8], Malformed> {
        check(self.len, at, len)?;
        // SAFETY:
        // - in bounds, checked above, of a mapping that lives for 'a (contract of `new`)
        // - not written for 'a (contract of this function)
        Ok(unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(at).cast(), len) })
    }

    /// A copy of the bytes from word `at`.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when they do not all lie here; no memory is taken then.
    pub fn to_vec(&self, at: usize, len: usize) -> Result<Vec<u8>, Malformed> {
        check(self.len, at, len)?;
        let mut bytes = Vec::with_capacity(len);
        self.copy_to(at, &mut bytes.spare_capacity_mut()[..len])?;
        // SAFETY: `copy_to` has just written the first `len` bytes, which are within the capacity.
        unsafe { bytes.set_len(len) };
        Ok(bytes)
    }

    /// A relaxed load.
    ///
    /// # Safety
    /// There is such a word.
    #[inline(always)]
    unsafe fn load_unchecked(&self, at: usize) -> u64 {
        // SAFETY:
        // - in bounds (contract of this function), aligned and mapped (contract of `new`)
        // - a relaxed load of 8 bytes is sound on a read-only mapping
        let word = unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at)) }.load(Ordering::Relaxed);
        u64::from_le(word)
    }

    /// Returns these words, to be written.
    ///
    /// # Safety
    /// The mapping is writable.
    pub const unsafe fn writable(self) -> RawWordsMut<'a> {
        RawWordsMut(self)
    }

    /// Address of the word `at`; only to compare addresses and to wait on them.
    pub fn address(&self, at: usize) -> usize {
        self.base.as_ptr() as usize + at * 8
    }
}

#[cfg(not(loom))]
impl Words for RawWords<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn load(&self, at: usize) -> Result<u64, Malformed> {
        if at >= self.len {
            return Err(Malformed::bounds(at));
        }
        // SAFETY: in bounds.
        Ok(unsafe { self.load_unchecked(at) })
    }

    #[inline(always)]
    fn load_all<const N: usize>(&self, at: usize) -> Result<[u64; N], Malformed> {
        check(self.len, at, N * 8)?;
        // SAFETY: in bounds, checked above for all of them.
        Ok(core::array::from_fn(|nth| unsafe { self.load_unchecked(at + nth) }))
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        crate::sync::fence(order);
    }

    #[inline]
    fn copy_to(&self, at: usize, to: &mut [MaybeUninit<u8>]) -> Result<(), Malformed> {
        check(self.len, at, to.len())?;
        // SAFETY: in bounds (checked above), aligned, mapped and without references (contract of `new`).
        unsafe { crate::copy::out(self.base.as_ptr().add(at), to) };
        Ok(())
    }
}

/// The words of a mapping that may be written.
#[cfg(not(loom))]
#[derive(Clone, Copy)]
pub struct RawWordsMut<'a>(RawWords<'a>);

#[cfg(not(loom))]
impl<'a> RawWordsMut<'a> {
    /// The words of a writable mapping.
    ///
    /// # Safety
    /// As [`RawWords::new`], and the mapping is writable.
    pub const unsafe fn new(base: core::ptr::NonNull<u64>, len: usize) -> Self {
        // SAFETY: the same contract.
        Self(unsafe { RawWords::new(base, len) })
    }

    /// Returns these words, to be read only.
    pub const fn reader(self) -> RawWords<'a> {
        self.0
    }
}

#[cfg(not(loom))]
impl Words for RawWordsMut<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.0.len
    }

    #[inline]
    fn load(&self, at: usize) -> Result<u64, Malformed> {
        self.0.load(at)
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        self.0.fence(order);
    }
}

#[cfg(not(loom))]
impl WordsMut for RawWordsMut<'_> {
    #[inline]
    fn store(&self, at: usize, value: u64, order: Ordering) {
        assert!(at < self.0.len, "a store to word {at} of {}", self.0.len);
        // SAFETY: in bounds, aligned, mapped and writable (contract of `new`).
        unsafe { AtomicU64::from_ptr(self.0.base.as_ptr().add(at)) }.store(value.to_le(), order);
    }
}

/// Words that nobody else has: of something under construction. Their checksums are not looked at.
pub struct Plain<'a>(pub &'a [u64]);

impl Words for Plain<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize) -> Result<u64, Malformed> {
        self.0.get(at).copied().ok_or_else(|| Malformed::bounds(at))
    }

    fn fence(&self, _: Ordering) {}

    #[inline]
    fn once(&self, _: usize, _: impl FnOnce(&Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Words in several pieces, one behind the other.
pub struct Pieces<'a, const N: usize>(pub [&'a [u64]; N]);

impl<const N: usize> Words for Pieces<'_, N> {
    fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    #[inline]
    fn load(&self, at: usize) -> Result<u64, Malformed> {
        let mut rest = at;
        for piece in &self.0 {
            match piece.get(rest) {
                Some(word) => return Ok(*word),
                None => rest -= piece.len(),
            }
        }
        Err(Malformed::bounds(at))
    }

    fn fence(&self, _: Ordering) {}

    #[inline]
    fn once(&self, _: usize, _: impl FnOnce(&Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Words in a vector. Under loom each of them is modelled.
pub struct VecWords {
    words: Box<[AtomicU64]>,
    /// A loom fence is no scheduling point: a store before it and the fence run as one step, which hides missing
    /// orderings. Touching this word first makes it one. It must be older than the threads, or it orders them itself.
    #[cfg(loom)]
    turn: AtomicU64,
}

impl VecWords {
    /// `len` zeroes.
    pub fn new(len: usize) -> Self {
        Self::of(&vec![0; len])
    }

    /// A copy of `words`.
    pub fn of(words: &[u64]) -> Self {
        Self {
            words: words.iter().map(|word| AtomicU64::new(*word)).collect(),
            #[cfg(loom)]
            turn: AtomicU64::new(0),
        }
    }
}

impl Words for VecWords {
    fn len(&self) -> usize {
        self.words.len()
    }

    fn load(&self, at: usize) -> Result<u64, Malformed> {
        let word = self.words.get(at).ok_or_else(|| Malformed::bounds(at))?;
        Ok(word.load(Ordering::Relaxed))
    }

    fn fence(&self, order: Ordering) {
        #[cfg(loom)]
        self.turn.fetch_add(0, Ordering::Relaxed);
        crate::sync::fence(order);
    }
}

impl WordsMut for VecWords {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.words[at].store(value, order);
    }
}

impl<W: Words + ?Sized> Words for &W {
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline(always)]
    fn load_all<const N: usize>(&self, at: usize) -> Result<[u64; N], Malformed> {
        (**self).load_all(at)
    }

    #[inline(always)]
    fn once(&self, at: usize, check: impl FnOnce(&Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        (**self).once(at, |_| check(self))
    }

    fn load(&self, at: usize) -> Result<u64, Malformed> {
        (**self).load(at)
    }

    fn fence(&self, order: Ordering) {
        (**self).fence(order);
    }

    fn copy_to(&self, at: usize, to: &mut [MaybeUninit<u8>]) -> Result<(), Malformed> {
        (**self).copy_to(at, to)
    }
}

impl<W: WordsMut + ?Sized> WordsMut for &W {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        (**self).store(at, value, order);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_byte_and_no_more() {
        let values = (0..80u64).map(|word| word.wrapping_mul(0x0123_4567_89ab_cdef));
        let bytes: Vec<u8> = values.clone().flat_map(u64::to_le_bytes).collect();
        let source: Vec<u64> = values.map(u64::to_le).collect();
        // SAFETY: a vector that nobody writes, which outlives the words.
        let words = unsafe { RawWords::new(core::ptr::NonNull::from(source.as_slice()).cast(), source.len()) };
        for (at, len) in (0..3).flat_map(|at| (0..600).map(move |len| (at, len))) {
            let mut copy = vec![MaybeUninit::new(0xee); len + 1];
            words.copy_to(at, &mut copy[..len]).unwrap();
            // SAFETY: all of them were written above.
            let copy: Vec<u8> = copy.iter().map(|byte| unsafe { byte.assume_init() }).collect();
            assert_eq!(copy[..len], bytes[at * 8..at * 8 + len], "{len} bytes of word {at}");
            assert_eq!(copy[len], 0xee, "{len} bytes");
        }
        assert!(words.copy_to(79, &mut [MaybeUninit::uninit(); 9]).is_err());
    }
}
