//! Trials of what the library asks of the kernel, for whoever wants to know before it is needed. They leave nothing.
use std::io;

use super::futex;
use super::headroom;
use super::memory;
use super::process;

/// Makes a segment of one page as a server does, and lets it go.
///
/// # Errors
/// The call that was refused, with the kernel's answer.
pub fn shared_memory() -> io::Result<()> {
    memory::segment(b"instanton-probe", 4096).map(drop).map_err(io::Error::other)
}

/// Asks for a descriptor of this process, by which its end could be seen.
///
/// # Errors
/// The kernel's answer.
pub fn process_descriptor() -> io::Result<()> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    process::watch(own).map(drop)
}

/// Asks to sleep on two words at once, in a way that ends at once.
///
/// # Errors
/// The kernel's answer.
pub fn two_words() -> io::Result<()> {
    futex::try_two_words()
}

/// Returns whether so many bytes of shared memory could be taken below every limit that this process sees.
///
/// # Errors
/// A line that names the limit, and says what is left below it.
pub fn headroom(bytes: u64) -> Result<(), String> {
    headroom::require(bytes).map_err(|error| error.to_string())
}
