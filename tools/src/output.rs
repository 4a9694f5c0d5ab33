//! What the ranks print, forwarded to our own output: every byte, and every line in one piece.
//!
//! One thread forwards all standard outputs and one all standard errors, so that a reader who looks at one of the two
//! only does not stall the other. Each holds a rank's unfinished line back until its newline comes, the rank closes the
//! stream or the line passes [`LONGEST_LINE`]. Only where nobody could break into a line, or where a person sits in
//! front of it, does an unfinished line (a prompt) appear by itself. When our own output breaks, the ranks' ends of the
//! pipes are closed, and they are told by SIGPIPE as they would be without us.
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A line longer than this is passed on in pieces.
pub const LONGEST_LINE: usize = 16 << 20;
/// A prompt is shown when nothing more has come for so many milliseconds.
const PROMPT: u8 = 50;
/// What is read at once; a pipe holds no more by default.
const CHUNK: usize = 64 << 10;

/// A rank's end of a stream.
pub struct Source {
    pipe: File,
    tag: Vec<u8>,
    unfinished: Vec<u8>,
    /// The beginning of the current line has been shown, as a prompt.
    prompted: bool,
}

impl Source {
    /// Forwards `pipe`, each line with `tag` in front.
    pub fn new(pipe: OwnedFd, tag: String) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&pipe, FcntlArg::F_GETFL)?);
        fcntl(&pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self { pipe: pipe.into(), tag: tag.into_bytes(), unfinished: Vec::new(), prompted: false })
    }

    /// Takes in what was read; gives out the lines that it completes.
    fn complete(&mut self, bytes: &[u8], lines: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.unfinished.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.unfinished.len() > LONGEST_LINE {
                self.give_out(lines);
            }
        }
    }

    /// Gives out what there is of the current line.
    fn give_out(&mut self, lines: &mut Vec<u8>) {
        if !self.unfinished.is_empty() {
            if !std::mem::take(&mut self.prompted) {
                lines.extend_from_slice(&self.tag);
            }
            lines.append(&mut self.unfinished);
        }
    }
}

/// Our own output, as the ranks' lines reach it.
pub struct Sink {
    file: File,
    /// Shared by two sinks that lead to one file, whose lines would otherwise meet there.
    turn: Arc<Mutex<()>>,
    shows_prompts: bool,
}

impl Sink {
    /// Our standard output and standard error.
    pub fn standard() -> io::Result<[Self; 2]> {
        let turns = [Arc::default(), Arc::default()];
        let out = Self::new(io::stdout().as_fd(), &turns[0])?;
        let err = Self::new(io::stderr().as_fd(), &turns[1])?;
        let same = {
            let (a, b) = (out.file.metadata()?, err.file.metadata()?);
            (a.dev(), a.ino()) == (b.dev(), b.ino())
        };
        let err = if same { Self { turn: Arc::clone(&out.turn), ..err } } else { err };
        Ok([out, err])
    }

    fn new(descriptor: impl AsFd, turn: &Arc<Mutex<()>>) -> io::Result<Self> {
        let file = File::from(descriptor.as_fd().try_clone_to_owned()?);
        let shows_prompts = file.is_terminal();
        Ok(Self { file, turn: Arc::clone(turn), shows_prompts })
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                // Somebody has made the terminal or pipe that we share non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut ready = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
                    match poll(&mut ready, PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Forwards until every source has ended, or, once `finish` has lost its other end, until what they hold is read:
/// then no rank is left that could write more.
///
/// # Errors
/// When our own output cannot be written. The writers learn of it when the sources are closed.
pub fn forward(sources: &mut Vec<Source>, mut sink: Sink, finish: PipeReader) -> io::Result<()> {
    let patient = !sink.shows_prompts && sources.len() > 1;
    let mut chunk = vec![0; CHUNK];
    let mut lines = Vec::new();
    while !sources.is_empty() {
        let waits = match patient || sources.iter().all(|source| source.unfinished.is_empty()) {
            true => PollTimeout::NONE,
            false => PollTimeout::from(PROMPT),
        };
        let ready = wait(&finish, sources, waits)?;
        let Some((&finishing, ready)) = ready.split_first() else {
            for source in sources.iter_mut() {
                let is_prompt = !source.unfinished.is_empty();
                source.give_out(&mut lines);
                source.prompted |= is_prompt;
            }
            sink.write(&lines)?;
            lines.clear();
            continue;
        };
        let mut ready = ready.iter();
        sources.retain_mut(|source| {
            if !ready.next().unwrap_or(&false) && !finishing {
                return true;
            }
            match source.pipe.read(&mut chunk) {
                Ok(count @ 1..) => source.complete(&chunk[..count], &mut lines),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !finishing => {}
                // It has ended, or cannot be read, which is as good.
                _ => {
                    source.give_out(&mut lines);
                    return false;
                }
            }
            true
        });
        sink.write(&lines)?;
        lines.clear();
    }
    Ok(())
}

/// Which descriptors have something to say, `finish` first; none at all when the time is over.
fn wait(finish: &PipeReader, sources: &[Source], limit: PollTimeout) -> io::Result<Vec<bool>> {
    let descriptors = iter::once(finish.as_fd()).chain(sources.iter().map(|source| source.pipe.as_fd()));
    let mut polled: Vec<_> = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN)).collect();
    loop {
        match poll(&mut polled, limit) {
            Ok(0) => return Ok(Vec::new()),
            Ok(_) => return Ok(polled.iter().map(|it| it.any().unwrap_or(true)).collect()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Forwards what `script` writes into the pipes, one a source, and returns what came out.
    fn forwarded(pipes: usize, tags: bool, script: impl FnOnce(Vec<io::PipeWriter>) + Send + 'static) -> Vec<u8> {
        let (mut reader, writer) = io::pipe().unwrap();
        let (ends, mut sources): (Vec<_>, Vec<_>) = (0..pipes)
            .map(|rank| {
                let (reader, writer) = io::pipe().unwrap();
                let tag = if tags { format!("[{rank}]") } else { String::new() };
                (writer, Source::new(reader.into(), tag).unwrap())
            })
            .unzip();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (finish, _held) = io::pipe().unwrap();
        let writing = thread::spawn(move || script(ends));
        let forwarding = thread::spawn(move || forward(&mut sources, sink, finish));
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        writing.join().unwrap();
        forwarding.join().unwrap().unwrap();
        out
    }

    #[test]
    fn a_line_waits_for_its_end_whatever_its_pieces() {
        let out = forwarded(2, false, |mut ends| {
            ends[0].write_all(b"one ").unwrap();
            ends[1].write_all(b"other\nand ").unwrap();
            ends[0].write_all(b"line\n").unwrap();
            ends[1].write_all(b"more").unwrap();
        });
        let text = String::from_utf8(out).unwrap();
        for whole in ["one line\n", "other\n", "and more"] {
            assert!(text.contains(whole), "{text:?}");
        }
        assert_eq!(text.len(), "one line\nother\nand more".len());
    }

    #[test]
    fn every_line_has_its_tag_once() {
        let out = forwarded(1, true, |mut ends| ends[0].write_all(b"a\n\nb").unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), "[0]a\n[0]\n[0]b");
    }

    #[test]
    fn a_prompt_is_shown_and_its_line_goes_on() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (source, mut end) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (finish, _held) = io::pipe().unwrap();
        let mut sources = vec![Source::new(source.into(), "[0]".into()).unwrap()];
        let forwarding = thread::spawn(move || forward(&mut sources, sink, finish));
        end.write_all(b"name? ").unwrap();
        let mut prompt = [0; 9];
        reader.read_exact(&mut prompt).unwrap();
        assert_eq!(&prompt, b"[0]name? ");
        end.write_all(b"thanks\nbye\n").unwrap();
        drop(end);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "thanks\n[0]bye\n");
        forwarding.join().unwrap().unwrap();
    }

    #[test]
    fn a_line_without_end_takes_no_more_than_its_share_of_memory() {
        let out = forwarded(2, true, |mut ends| {
            let block = vec![b'x'; 1 << 20];
            (0..20).for_each(|_| ends[0].write_all(&block).unwrap());
        });
        assert_eq!(out.len(), (20 << 20) + 2 * "[0]".len());
    }

    #[test]
    fn finishing_reads_what_is_there_although_somebody_holds_the_pipe() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (source, mut held) = io::pipe().unwrap();
        held.write_all(b"last words").unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (finish, finished) = io::pipe().unwrap();
        drop(finished);
        forward(&mut vec![Source::new(source.into(), String::new()).unwrap()], sink, finish).unwrap();
        let mut out = String::new();
        reader.read_to_string(&mut out).unwrap();
        assert_eq!(out, "last words");
    }

    #[test]
    fn a_reader_who_leaves_closes_the_pipes() {
        let (reader, writer) = io::pipe().unwrap();
        let (source, mut end) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop((reader, writer));
        end.write_all(b"to nobody\n").unwrap();
        let (finish, _held) = io::pipe().unwrap();
        let error = forward(&mut vec![Source::new(source.into(), String::new()).unwrap()], sink, finish).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(end.write(b"more\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
