//! Output of the commands that show something. A reader that has gone, as `head` does, ends it quietly.
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

use crate::say::say;

/// Writes a text to standard output.
///
/// # Errors
/// When it cannot be written, other than for want of a reader.
pub fn write(text: &str) -> Result<()> {
    is_read(text).map(drop)
}

/// Writes a text to standard output. Returns false where nobody reads it any more.
///
/// # Errors
/// As [`write`].
pub fn is_read(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.context("cannot write").map(|()| true),
    }
}

/// Says why nothing is shown. Returns the status to exit with.
///
/// # Errors
/// None: whatever shows something returns such a result.
pub fn refuse(line: &str, code: u8) -> Result<u8> {
    say(line);
    Ok(code)
}
