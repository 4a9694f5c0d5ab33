//! The trace: one line an event, for the person who wonders why.
//!
//! Silent unless `INSTANTON_TRACE` says where the lines go: `stderr`, or the path of a file that lines are added
//! to. A line reads `instanton <part> <pid>: <text>`, where the part is the module that speaks: `client`,
//! `server`, `store`, ... Refusals, fallbacks and whatever is waited for in vain are told here, and nowhere else:
//! a library does not print.
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;

use crate::printable;

/// The environment variable.
pub const VARIABLE: &str = "INSTANTON_TRACE";

enum Sink {
    Stderr,
    File(File),
}

static SINK: OnceLock<Option<Sink>> = OnceLock::new();

/// Writes one line to the trace; the arguments are those of `format!`, and are not evaluated when the trace is off.
#[macro_export]
macro_rules! trace {
    ($($argument:tt)*) => {
        if $crate::trace::enabled() {
            $crate::trace::line(::core::module_path!(), ::core::format_args!($($argument)*));
        }
    };
}

/// Returns whether anybody listens. One load once the environment has been read.
pub fn enabled() -> bool {
    SINK.get_or_init(open).is_some()
}

/// Writes a line; [`trace!`](crate::trace!) expands to a call of this.
pub fn line(module: &str, text: fmt::Arguments<'_>) {
    let part = module.split("::").nth(1).unwrap_or(module);
    // A peer's bytes may be in the text: they begin no line of their own, and command no terminal.
    let text = text.to_string();
    let text = printable(&text);
    let line = format!("instanton {part} {}: {text}\n", std::process::id());
    // One write a line, so that lines of several processes do not mix. A trace that cannot be written is given up.
    let _ = match SINK.get_or_init(open) {
        Some(Sink::Stderr) => std::io::stderr().write_all(line.as_bytes()),
        Some(Sink::File(file)) => (&*file).write_all(line.as_bytes()),
        None => Ok(()),
    };
}

fn open() -> Option<Sink> {
    let target = std::env::var_os(VARIABLE).filter(|target| !target.is_empty())?;
    if target == "stderr" {
        return Some(Sink::Stderr);
    }
    // Rust opens close-on-exec; nobody but the user reads what his job does.
    OpenOptions::new().append(true).create(true).mode(0o600).open(target).ok().map(Sink::File)
}
