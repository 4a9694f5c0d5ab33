//! Our own lines to the user.
//!
//! A launcher, and a run inside another, has them written by a thread of their own, the *speaker*: where nobody reads what
//! is printed, a line waits there, and everything else goes on, time limits and signals above all.
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use instanton::printable;
use instanton_layout::sync::{AtomicU32, Ordering};

use crate::threads::start_thread;

/// Time that a line has to be written, before what comes after it in the program goes on.
const TURN: Duration = Duration::from_millis(100);

/// A line, and the sender whose end says that it is written.
type Line = (String, Sender<()>);

/// Number of lines that are not written yet. Nobody waits a turn behind one that nobody reads.
static UNWRITTEN: AtomicU32 = AtomicU32::new(0);

/// The speaker, and the process that it is a thread of.
static SPEAKER: OnceLock<(u32, Sender<Line>)> = OnceLock::new();

/// Has lines of this process written by a thread from now on.
///
/// # Errors
/// When no thread can be started.
pub fn begin() -> anyhow::Result<()> {
    let (lines, to_write) = mpsc::channel::<Line>();
    start_thread("speaker", move || {
        for (line, _written) in to_write {
            write(&line);
            UNWRITTEN.fetch_sub(1, Ordering::Relaxed);
        }
    })?;
    let _ = SPEAKER.set((std::process::id(), lines));
    Ok(())
}

/// Waits until every line is written, or for so long.
pub fn end(limit: Option<Duration>) {
    hand_over(String::new(), |_| limit);
}

/// Tells the user something in one line. Names and messages of ranks may be in it, their control characters escaped.
pub fn say(line: &str) {
    show(&format!("instanton: {line}"));
}

/// Shows the user a line of something longer. Where nobody can be told, as on a full disk, the job goes on.
pub fn show(line: &str) {
    hand_over(format!("{}\n", printable(line)), |unwritten| Some(if unwritten == 0 { TURN } else { Duration::ZERO }));
}

/// Has a text written, and waits for that as long as `limit` says, given the number of lines before it.
fn hand_over(text: String, limit: impl FnOnce(u32) -> Option<Duration>) {
    let Some((_, lines)) = SPEAKER.get().filter(|(process, _)| *process == std::process::id()) else {
        return write(&text);
    };
    let (written, turn) = mpsc::channel();
    let limit = limit(UNWRITTEN.fetch_add(1, Ordering::Relaxed));
    // The speaker is there as long as the process.
    let _ = lines.send((text, written));
    // The end of the channel is what is waited for.
    let _ = match limit {
        Some(limit) => turn.recv_timeout(limit),
        None => turn.recv().map_err(Into::into),
    };
}

fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
