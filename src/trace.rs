//! The trace: one line an event, for the person who wonders why.
//!
//! Silent unless `INSTANTON_TRACE` says where the lines go: `stderr`, or the path of a file that lines are added
//! to; one that cannot be written is told of on the standard error, once. A line reads `instanton <part> <pid> <time>:
//! <text>`, where the part is the module that speaks: `client`, `server`, `store`, ..., and the time is that of the day
//! (UTC). Refusals, fallbacks and whatever is waited for in vain are told here, and nowhere else: a library does not
//! print.
//!
//! Nobody waits for whoever reads the trace: a line that a terminal, a pipe or a socket does not take at once is lost.
//! The next one that is taken comes behind a line that says how many were.
//!
//! With the feature `tracing`, a program may have a subscriber of that crate: it hands the trace over (`hand_over`), and
//! writes its lines by [`write()`]. Then each line is an event of level WARN, whose target is the part, and a server has
//! more to say in events and spans of the levels INFO to TRACE. Without the feature these do not exist: the C library
//! has none of it.
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd;

use crate::printable;
use crate::wall_clock;

/// The environment variable.
pub const VARIABLE: &str = "INSTANTON_TRACE";

/// Text by which a library of ours says the release of its build: whoever has its file finds it there.
const BUILD: &str = concat!("Instanton build ", env!("CARGO_PKG_VERSION"), " traces");

enum Sink {
    Stderr,
    File(File),
}

static SINK: OnceLock<Option<Sink>> = OnceLock::new();

/// Lines on their way to those who read them.
static WAY: Mutex<Way> = Mutex::new(Way { lost: 0, is_torn: false });

/// Writes one line to the trace; the arguments are those of `format!`, and are not evaluated when the trace is off.
#[macro_export]
macro_rules! trace {
    ($($argument:tt)*) => {
        if $crate::trace::enabled() {
            $crate::trace::line(::core::module_path!(), ::core::format_args!($($argument)*));
        }
    };
}

/// An event for a subscriber: a level of the `tracing` crate, fields, and a text. Nothing without the feature.
#[cfg(all(feature = "server", feature = "tracing"))]
macro_rules! event {
    ($level:ident, $($rest:tt)+) => { ::tracing::event!(target: "server", ::tracing::Level::$level, $($rest)+) };
}

/// An event for a subscriber, which this build does not have.
#[cfg(all(feature = "server", not(feature = "tracing")))]
macro_rules! event {
    ($level:ident, $($rest:tt)+) => {};
}
#[cfg(feature = "server")]
pub(crate) use event;

/// A span for a subscriber, as long as the value lives: a level, a name, and fields. Nothing without the feature.
#[cfg(all(feature = "server", feature = "tracing"))]
macro_rules! span {
    ($level:ident, $($rest:tt)+) => { ::tracing::span!(target: "server", ::tracing::Level::$level, $($rest)+).entered() };
}

/// A span for a subscriber, which this build does not have.
#[cfg(all(feature = "server", not(feature = "tracing")))]
macro_rules! span {
    ($level:ident, $($rest:tt)+) => {
        $crate::trace::NoSpan
    };
}
#[cfg(feature = "server")]
pub(crate) use span;

/// The place of a span in a build without the feature.
#[cfg(all(feature = "server", not(feature = "tracing")))]
pub(crate) struct NoSpan;

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
    #[cfg(feature = "tracing")]
    if events::are_wanted() {
        return events::tell(part, &text);
    }
    write(format!("instanton {part} {} {}: {text}\n", std::process::id(), time()).as_bytes());
}

/// Writes lines, the last of them whole, to where the variable says; nothing where that is nowhere.
pub fn write(line: &[u8]) {
    let Some(sink) = SINK.get_or_init(open) else { return };
    let stderr = io::stderr();
    let to = match sink {
        Sink::Stderr => stderr.as_fd(),
        Sink::File(file) => file.as_fd(),
    };
    match WAY.try_lock() {
        Ok(mut way) => way.write(to, line),
        // Another thread writes: perhaps one that there is not any more, because this process was forked meanwhile.
        Err(_) => Way { lost: 0, is_torn: false }.write(to, line),
    }
}

/// The time of the day (UTC), to the microsecond, as lines have it.
pub fn time() -> impl fmt::Display {
    let now = wall_clock::since_1970();
    let second = now.as_secs() % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:06}", now.subsec_micros())
}

#[cfg(feature = "tracing")]
pub use events::hand_over;

/// The trace as events, for a subscriber.
#[cfg(feature = "tracing")]
mod events {
    use instanton_layout::sync::{AtomicU32, Ordering};

    static IS_HANDED_OVER: AtomicU32 = AtomicU32::new(0);

    /// Has this program's subscriber of the `tracing` crate be told every line from now on, instead of writing it.
    pub fn hand_over() {
        IS_HANDED_OVER.store(1, Ordering::Relaxed);
    }

    pub(super) fn are_wanted() -> bool {
        IS_HANDED_OVER.load(Ordering::Relaxed) != 0
    }

    /// Tells a line. The target of an event is a constant of its place in the program.
    pub(super) fn tell(part: &str, text: &str) {
        macro_rules! tell {
            ($($target:literal),*) => {
                match part {
                    $($target => ::tracing::warn!(target: $target, "{text}"),)*
                    _ => ::tracing::warn!(target: "instanton", "{text}"),
                }
            };
        }
        tell!(
            "client",
            "server",
            "store",
            "tool",
            "control",
            "stock",
            "upstream",
            "transport",
            "pmi",
            "handover",
            "sys"
        )
    }
}

/// State between two lines.
struct Way {
    /// Lines that were not taken since the last one that was.
    lost: u64,
    /// True if only a part of the last one was taken.
    is_torn: bool,
}

impl Way {
    /// Writes a line in one go, so that lines of several processes do not mix; or counts it as lost.
    fn write(&mut self, to: BorrowedFd<'_>, line: &[u8]) {
        if self.lost > 0 {
            let end = if self.is_torn { "\n" } else { "" };
            let (lost, pid) = (self.lost, std::process::id());
            let news = format!("{end}instanton trace {pid}: {lost} lines are lost: nobody has read them in time\n");
            match write_at_once(to, news.as_bytes()) {
                Ok(n) if n == news.len() => (self.lost, self.is_torn) = (0, false),
                Ok(_) => self.is_torn = true,
                Err(_) => {}
            }
        }
        if self.lost == 0 {
            match write_at_once(to, line) {
                Ok(n) if n == line.len() => return,
                Ok(_) => self.is_torn = true,
                Err(_) => {}
            }
        }
        self.lost = self.lost.saturating_add(1);
    }
}

/// Writes as much as is taken without a wait. The flag for that is one of the open file, which others have in common with
/// this process: so a terminal or a pipe is opened anew for the line, and closed behind it. Where it is somebody else's,
/// room for a short line is looked for.
fn write_at_once(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let kind = SFlag::from_bits_truncate(fstat(to)?.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFSOCK {
        return Ok(send(to.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?);
    }
    if kind != SFlag::S_IFIFO && kind != SFlag::S_IFCHR {
        return Ok(unistd::write(to, bytes)?);
    }
    let without_wait = libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", to.as_raw_fd());
    if let Ok(mut anew) = OpenOptions::new().write(true).custom_flags(without_wait).open(path) {
        return anew.write(bytes);
    }
    match poll(&mut [PollFd::new(to, PollFlags::POLLOUT)], PollTimeout::ZERO)? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(unistd::write(to, &bytes[..bytes.len().min(libc::PIPE_BUF)])?),
    }
}

/// Returns the file that a value of the variable names; none where lines go to the standard error.
pub fn file_of(value: &OsStr) -> Option<&Path> {
    (value != "stderr").then(|| Path::new(value))
}

fn open() -> Option<Sink> {
    let target = std::env::var_os(VARIABLE).filter(|target| !target.is_empty())?;
    let Some(path) = file_of(&target) else { return Some(Sink::Stderr) };
    // Rust opens close-on-exec; nobody but the user reads what his job does. A pipe that nobody has opened to read would
    // be waited for.
    let without_wait = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(without_wait).open(path);
    match file {
        Ok(file) => Some(Sink::File(file)),
        Err(error) => {
            let (path, pid) = (path.display().to_string(), std::process::id());
            let line =
                format!("instanton trace {pid}: {BUILD} nothing: {} cannot be written: {error}\n", printable(&path));
            // Where that is not taken either, nobody can be told.
            let _ = write_at_once(io::stderr().as_fd(), line.as_bytes());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Writes lines until one is lost; returns how many were taken.
    fn fill(way: &mut Way, to: BorrowedFd<'_>) -> u64 {
        (0..)
            .find(|number| {
                way.write(to, format!("line {number}\n").as_bytes());
                way.lost > 0
            })
            .unwrap()
    }

    /// Shows that nobody waits for this reader, and that it is told what it has missed.
    fn check(mut reader: impl Read, to: BorrowedFd<'_>) {
        let mut way = Way { lost: 0, is_torn: false };
        let taken = fill(&mut way, to);
        (0..9).for_each(|_| way.write(to, b"lost\n"));
        assert_eq!(way.lost, 10);
        let mut read = vec![0; 1 << 20];
        let n = reader.read(&mut read).unwrap();
        way.write(to, b"last\n");
        assert_eq!((way.lost, way.is_torn), (0, false));
        let more = reader.read(&mut read[n..]).unwrap();
        let mut read = String::from_utf8(read[..n + more].to_vec()).unwrap();
        while !read.ends_with("last\n") {
            let mut more = [0; 4096];
            let n = reader.read(&mut more).unwrap();
            read.push_str(std::str::from_utf8(&more[..n]).unwrap());
        }
        let lines: Vec<&str> = read.lines().collect();
        assert!(lines.contains(&format!("line {}", taken - 1).as_str()));
        let news = lines.iter().find(|line| line.contains("10 lines are lost"));
        assert!(news.is_some_and(|line| line.starts_with("instanton trace ")), "{:?}", lines.last());
    }

    #[test]
    fn nobody_waits_for_a_pipe_that_is_not_read_and_what_is_lost_is_said() {
        let (reader, writer) = io::pipe().unwrap();
        check(reader, writer.as_fd());
    }

    #[test]
    fn nobody_waits_for_a_socket_that_is_not_read_and_what_is_lost_is_said() {
        let (reader, writer) = UnixStream::pair().unwrap();
        check(reader, writer.as_fd());
    }

    #[test]
    fn the_ends_of_a_pipe_are_as_they_were() {
        let (mut reader, writer) = io::pipe().unwrap();
        Way { lost: 0, is_torn: false }.write(writer.as_fd(), b"line\n");
        let flags = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETFL).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        drop(writer);
        let mut read = String::new();
        assert_eq!(reader.read_to_string(&mut read).unwrap(), 5);
    }

    #[test]
    fn lines_are_added_to_a_file() {
        let (dir, mut way) = (std::env::temp_dir(), Way { lost: 0, is_torn: false });
        let path = dir.join(format!("instanton-trace-{}", std::process::id()));
        let file = File::options().append(true).create_new(true).open(&path).unwrap();
        way.write(file.as_fd(), b"a\n");
        way.write(file.as_fd(), b"b\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"a\nb\n");
        std::fs::remove_file(&path).unwrap();
    }
}
