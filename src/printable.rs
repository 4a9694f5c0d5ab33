//! Text of others, as it may stand in our own messages: with its control characters escaped.
//!
//! Names, keys, messages and paths that ranks choose end up in the trace and in the lines of `instanton run`. A terminal
//! takes control characters in them for commands: so they are escaped here, and everything that is printed comes by.
use std::borrow::Cow;

/// Returns a text with control characters as Rust writes them: `\n`, `\u{1b}`.
///
/// ```
/// use instanton::printable;
/// assert_eq!(printable("rank 0: \x1b[2Jgone\u{9b}1m\n"), r"rank 0: \u{1b}[2Jgone\u{9b}1m\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c.is_control() {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}
