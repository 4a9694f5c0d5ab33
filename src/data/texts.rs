//! Every text of the tables, each with the NUL that C wants, in one place: a table says in 16 bits where its text
//! begins, and the loader has no address of it to put right in every process.
use std::cmp::Ordering;
use std::ffi::{CStr, c_char};

include!(concat!(env!("OUT_DIR"), "/texts.rs"));

/// The text that begins there, for C.
#[inline]
pub fn pointer(at: u16) -> *const c_char {
    TEXTS.as_ptr().wrapping_add(usize::from(at)).cast()
}

/// The text that begins there.
pub fn c_text(at: u16) -> &'static CStr {
    TEXTS.get(usize::from(at)..).and_then(|rest| CStr::from_bytes_until_nul(rest).ok()).unwrap_or_default()
}

/// Returns the text that begins there as Rust text.
pub fn text(at: u16) -> &'static str {
    c_text(at).to_str().unwrap_or_default()
}

/// Returns the order of the text that begins there and another one.
pub fn order(at: u16, other: &[u8]) -> Ordering {
    c_text(at).to_bytes().cmp(other)
}
