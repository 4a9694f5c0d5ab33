//! Reports of a run to scripts: a line in a place of their choice.
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::files;

/// Returns whether a place is one of the two streams.
pub fn is_stream(place: &Path) -> bool {
    matches!(place.as_os_str().as_encoded_bytes(), b"-" | b"+")
}

/// A place as somebody in that directory names it.
pub fn within(place: &Path, directory: &Path) -> PathBuf {
    if is_stream(place) { place.to_owned() } else { directory.join(place) }
}

/// Writes a line to standard output (`-`), to standard error (`+`), or into a file, which is then nothing else.
///
/// # Errors
/// When it cannot be written.
pub fn write(place: &Path, line: &str) -> Result<()> {
    let written = match place.as_os_str().as_encoded_bytes() {
        b"-" => writeln!(io::stdout(), "{line}"),
        b"+" => writeln!(io::stderr(), "{line}"),
        _ => files::create(place, false).and_then(|mut file| writeln!(file, "{line}")),
    };
    written.with_context(|| place.display().to_string())
}
