//! C memory that is shown to a function of the program and freed together.
use instanton::data::Status;
use libc::{c_char, c_void};

use crate::alloc;
use crate::convert::{Mirror, made_array};
use crate::owned::{Owned, release_array};

/// Objects that have been made, each with its way to be freed.
#[derive(Default)]
pub struct Arena(Vec<Piece>);

struct Piece {
    place: *mut c_void,
    n: usize,
    free: unsafe fn(*mut c_void, usize),
}

// SAFETY: libc memory may be freed by any thread, and the arena owns what it made.
unsafe impl Send for Arena {}

impl Drop for Arena {
    fn drop(&mut self) {
        for piece in &self.0 {
            // SAFETY: made below with its own way of being freed.
            unsafe { (piece.free)(piece.place, piece.n) };
        }
    }
}

impl Arena {
    /// An array, and how many elements it has; NULL for none.
    pub fn array<T: Mirror<R> + Owned, R>(&mut self, from: &[R]) -> Result<(*mut T, usize), Status> {
        unsafe fn free<T: Owned>(place: *mut c_void, n: usize) {
            // SAFETY: made by `made_array` with that many elements.
            unsafe { release_array(place.cast::<T>(), n) }
        }
        let place = made_array::<T, R>(from)?;
        self.0.push(Piece { place: place.cast(), n: from.len(), free: free::<T> });
        Ok((place, from.len()))
    }

    /// One structure.
    pub fn one<T: Mirror<R> + Owned, R>(&mut self, from: &R) -> Result<*mut T, Status> {
        self.array(std::slice::from_ref(from)).map(|(place, _)| place)
    }

    /// Plain bytes; NULL for none.
    fn bytes(&mut self, from: &[u8]) -> Result<*mut c_char, Status> {
        unsafe fn free(place: *mut c_void, _: usize) {
            // SAFETY: libc memory.
            unsafe { alloc::release(place) }
        }
        let place = alloc::bytes(from)?;
        self.0.push(Piece { place: place.cast(), n: 0, free });
        Ok(place)
    }

    /// A C string with these bytes, which have no NUL.
    pub fn text(&mut self, from: &[u8]) -> Result<*mut c_char, Status> {
        self.bytes(&[from, &[0]].concat())
    }

    /// A NULL-terminated array of strings.
    pub fn argv<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<*mut *mut c_char, Status> {
        unsafe fn free(place: *mut c_void, _: usize) {
            // SAFETY: made by `new_argv`.
            unsafe { alloc::release_argv(place.cast()) }
        }
        let place = alloc::new_argv(texts)?;
        self.0.push(Piece { place: place.cast(), n: 0, free });
        Ok(place)
    }
}
