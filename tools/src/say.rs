//! Our own lines to the user.
use std::io::{self, Write};

use instanton::printable;

/// Tells the user something in one line. Names and messages of ranks may be in it, their control characters escaped.
pub fn say(line: &str) {
    show(&format!("instanton: {line}"));
}

/// Shows the user a line of something longer. Where nobody can be told, as on a full disk, the job goes on.
pub fn show(line: &str) {
    let _ = io::stderr().write_all(format!("{}\n", printable(line)).as_bytes());
}
