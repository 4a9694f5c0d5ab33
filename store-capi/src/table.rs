//! Functions of no job and no reader: the version, and the reason of the last failure.
use libc::c_char;

use crate::boundary;

/// The version of the header that the library was built with.
pub const VERSION: u32 = 0x0001_0003;

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn instanton_store_version() -> u32 {
    VERSION
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn instanton_store_message() -> *const c_char {
    boundary::message()
}
