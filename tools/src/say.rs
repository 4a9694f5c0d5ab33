//! Our own lines to the user.
use instanton::printable;

/// Tells the user something in one line. Names and messages of ranks may be in it, their control characters escaped.
pub fn say(line: &str) {
    eprintln!("instanton: {}", printable(line));
}
