//! Randomness from the kernel.
use std::io;

/// Bytes that nobody can guess.
///
/// # Errors
/// When the kernel has none to give.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut out = [0u8; N];
    // SAFETY: the pointer and the length are those of `out`; calls up to 256 bytes are never cut short.
    let got = unsafe { libc::getrandom(out.as_mut_ptr().cast(), N, 0) };
    match usize::try_from(got) {
        Ok(n) if n == N => Ok(out),
        _ => Err(io::Error::last_os_error()),
    }
}
