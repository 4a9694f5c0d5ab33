//! Output of the commands that show something. A reader that has gone, as `head` does, ends it quietly.
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes a text to standard output.
///
/// # Errors
/// When it cannot be written, other than for want of a reader.
pub fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write"),
    }
}
