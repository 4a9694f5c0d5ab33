//! A text that is written piece by piece into memory of libc, and is C's as it lies when it is complete.
use std::fmt;
use std::ptr;

use instanton::data::Status;
use libc::c_char;

use crate::alloc;

/// Text that has been written so far.
pub struct TextBuilder {
    /// NULL or libc memory of `room` bytes, more than `len`, of which so many are written.
    place: *mut u8,
    len: usize,
    room: usize,
    /// True if there was no memory for a piece.
    failed: bool,
}

/// Bytes of the first block: most texts fit.
const FIRST: usize = 120;

impl TextBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { place: ptr::null_mut(), len: 0, room: 0, failed: false }
    }

    /// Appends a piece.
    #[inline]
    pub fn put(&mut self, piece: &[u8]) {
        if self.room - self.len <= piece.len() && !self.grow(piece.len()) {
            return;
        }
        // SAFETY: there is room for the piece and a NUL behind what is written.
        unsafe { ptr::copy_nonoverlapping(piece.as_ptr(), self.place.add(self.len), piece.len()) };
        self.len += piece.len();
    }

    /// Makes room for so many bytes and a NUL: what is put first need not move.
    #[cold]
    pub fn grow(&mut self, more: usize) -> bool {
        let room = self.len.saturating_add(more).saturating_add(1).max(2 * self.room).max(FIRST);
        // SAFETY: the block is NULL or libc memory, and realloc takes any size.
        let place = unsafe { libc::realloc(self.place.cast(), room) }.cast::<u8>();
        if place.is_null() {
            self.failed = true;
            return false;
        }
        (self.place, self.room) = (place, room);
        true
    }

    /// Appends a number.
    pub fn number(&mut self, number: u64) {
        let (mut digits, mut at, mut rest) = ([0; 20], 20, number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.put(&digits[at..]);
            }
        }
    }

    /// Appends a number with leading zeros up to so many digits, at most 20.
    pub fn padded(&mut self, number: u64, width: usize) {
        let digits = number.checked_ilog10().map_or(1, |log| log as usize + 1);
        self.put(&[b'0'; 20][..width.saturating_sub(digits).min(20)]);
        self.number(number);
    }

    /// Appends a number with its sign.
    pub fn signed(&mut self, number: i64) {
        if number < 0 {
            self.put(b"-");
        }
        self.number(number.unsigned_abs());
    }

    /// The whole text, the caller's to free.
    ///
    /// # Errors
    /// `ERR_NOMEM`.
    pub fn finish(mut self) -> Result<*mut c_char, Status> {
        if self.failed || self.place.is_null() && !self.grow(0) {
            return Err(Status::ERR_NOMEM);
        }
        // SAFETY: there is always room for a NUL behind what is written.
        unsafe { self.place.add(self.len).write(0) };
        Ok(std::mem::replace(&mut self.place, ptr::null_mut()).cast())
    }
}

impl Drop for TextBuilder {
    fn drop(&mut self) {
        // SAFETY: NULL or libc memory that nobody else knows.
        unsafe { alloc::release(self.place) };
    }
}

impl fmt::Write for TextBuilder {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.put(piece.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut TextBuilder)) -> String {
        let mut builder = TextBuilder::new();
        write(&mut builder);
        let text = builder.finish().unwrap();
        // SAFETY: a C string that was just made.
        unsafe {
            let copy = String::from_utf8(alloc::c_bytes(text).unwrap().to_vec()).unwrap();
            alloc::release(text);
            copy
        }
    }

    #[test]
    fn pieces_and_numbers_stand_one_after_the_other() {
        assert_eq!(text(|_| {}), "");
        assert_eq!(
            text(|to| [0, 7, 10, u64::MAX].map(|n| to.number(n)).into_iter().collect()),
            "071018446744073709551615"
        );
        assert_eq!(text(|to| [0, -1, i64::MIN].map(|n| to.signed(n)).into_iter().collect()), "0-1-9223372036854775808");
    }

    #[test]
    fn zeros_fill_a_width() {
        assert_eq!(
            text(|to| [0, 70, 999_999, 1_234_567].map(|n| to.padded(n, 6)).into_iter().collect()),
            "0000000000709999991234567"
        );
    }

    #[test]
    fn a_text_of_any_length_fits() {
        for len in [FIRST - 2, FIRST - 1, FIRST, FIRST + 1, 1000] {
            let all = "x".repeat(len);
            assert_eq!(text(|to| to.put(all.as_bytes())), all);
            assert_eq!(text(|to| (0..len).for_each(|_| to.put(b"x"))), all);
        }
    }
}
