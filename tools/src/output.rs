//! Output of the ranks, forwarded to our own: every byte, and every line in one piece.
//!
//! One thread forwards all standard outputs and one all standard errors, so that a reader of one of the two
//! only does not stall the other. Each holds a rank's unfinished line back until its newline comes, the rank closes the
//! stream or the line passes [`LONGEST_LINE`](source::LONGEST_LINE). Only where nobody could break into a line, or where a person sits in
//! front of it, does an unfinished line (a prompt) appear by itself. When our own output breaks, the ranks' ends of the
//! pipes are closed, and they are told by SIGPIPE as they would be without us.
//!
//! A thread is told through its [`OutputSender`] of ranks that are started later, of texts that are to appear between
//! the lines, and of the end. Logs of ranks have [turns](texts) there.
mod source;
mod texts;
mod written;

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::iter;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use instanton::data::Proc;
use instanton::internal::sys::process::thread_time;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use source::{CHUNK, empty, give_out_longest};
pub use source::{LineStyle, Source};
pub use texts::Pieces;
use texts::{Text, Texts};
pub use written::Written;

/// A prompt is shown when nothing more has come for so long.
const PROMPT: Duration = Duration::from_millis(50);

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
        Self::both(io::stdout(), io::stderr())
    }

    /// A standard output and a standard error.
    pub fn both(out: impl AsFd, err: impl AsFd) -> io::Result<[Self; 2]> {
        let turns = [Arc::default(), Arc::default()];
        let out = Self::new(out, &turns[0])?;
        let err = Self::new(err, &turns[1])?;
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

/// Message to a forwarding thread.
enum Message {
    Source(Source),
    Text(Vec<u8>),
    /// A log of a process.
    Log(Proc, Text),
    /// Nobody is left who could write.
    End,
}

/// Messages; none when nothing is forwarded any more: later ones are dropped, and a pipe closes.
type Queue = Option<Vec<Message>>;

/// The way to a forwarding thread.
#[derive(Clone)]
pub struct OutputSender {
    queue: Arc<Mutex<Queue>>,
    wake: Arc<PipeWriter>,
}

/// A forwarding thread's end of it.
pub struct OutputReceiver {
    queue: Arc<Mutex<Queue>>,
    woken: PipeReader,
}

/// A way to tell a thread that forwards.
pub fn feed() -> io::Result<(OutputSender, OutputReceiver)> {
    let (woken, wake) = io::pipe()?;
    set_nonblocking(&woken)?;
    set_nonblocking(&wake)?;
    let queue = Arc::new(Mutex::new(Some(Vec::new())));
    Ok((OutputSender { queue: Arc::clone(&queue), wake: Arc::new(wake) }, OutputReceiver { queue, woken }))
}

impl OutputSender {
    /// Forwards one more stream.
    pub fn add(&self, source: Source) {
        let _ = self.tell(Message::Source(source));
    }

    /// Writes a text between the lines of the ranks.
    ///
    /// # Errors
    /// When nothing is written any more.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        self.try_to_tell(Message::Text(text.to_vec()))
    }

    /// Writes what a process logs when it is its turn. The request is answered then.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn log(&self, by: &Proc, pieces: impl Pieces + 'static, request: Written) -> io::Result<()> {
        self.try_to_tell(Message::Log(by.clone(), Text { pieces: Box::new(pieces), request }))
    }

    /// Has what is there read to its end, and no further: somebody else may hold the pipes for ever.
    pub fn end(&self) {
        let _ = self.tell(Message::End);
    }

    fn try_to_tell(&self, more: Message) -> io::Result<()> {
        if self.tell(more) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Returns whether it is forwarded.
    fn tell(&self, more: Message) -> bool {
        let Some(messages) = &mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner) else { return false };
        messages.push(more);
        // A pipe that is full wakes as well.
        let _ = (&*self.wake).write(&[0]);
        true
    }
}

impl OutputReceiver {
    fn take(&mut self) -> Vec<Message> {
        // A message after this wakes anew.
        while self.woken.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for OutputReceiver {
    fn drop(&mut self) {
        let rest = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(rest);
    }
}

/// Forwards until it is told of the end; then what the sources still hold. `lost` is told of each file that takes no
/// more of its rank's output; the rank goes on.
///
/// # Errors
/// When our own output cannot be written. The writers learn of it when the sources are closed, and what feeds more.
pub fn forward(
    sources: &mut Vec<Source>,
    mut sink: Sink,
    fed: &mut OutputReceiver,
    mut lost: impl FnMut(String),
) -> io::Result<()> {
    let (mut finishing, mut are_many) = (false, false);
    let mut chunk = vec![0; CHUNK];
    let mut lines = Vec::new();
    let mut texts = Texts::default();
    let mut last_came = Instant::now();
    while !sources.is_empty() || !finishing || !texts.is_empty() {
        are_many |= sources.len() > 1;
        let patient = !sink.shows_prompts && are_many;
        let is_prompt = !patient && sources.iter().any(|source| !source.unfinished.is_empty());
        let (now, prompt) = (Instant::now(), is_prompt.then(|| last_came + PROMPT));
        let waits = match prompt.into_iter().chain(texts.next(now)).min() {
            _ if finishing => PollTimeout::ZERO,
            None => PollTimeout::NONE,
            Some(next) => until(next, now),
        };
        let ready = wait(&fed.woken, sources, waits)?;
        let now = Instant::now();
        if !ready.is_empty() {
            last_came = now;
        } else if prompt.is_some_and(|prompt| prompt <= now) && !finishing {
            sources.iter_mut().for_each(|source| source.give_out_unfinished(&mut lines));
        }
        let (is_told, mut ready) = (ready.first().is_some_and(|is_told| *is_told), ready.iter().skip(1));
        let more = if is_told { fed.take() } else { Vec::new() };
        finishing |= more.iter().any(|more| matches!(more, Message::End));
        sources.retain_mut(|source| {
            if !ready.next().unwrap_or(&false) && !finishing {
                return true;
            }
            let read = source.pipe.read(&mut chunk);
            if matches!(read, Ok(1..)) {
                source.look();
            }
            match read {
                Ok(count @ 1..) if source.hand_over(&chunk[..count], &mut lost) => {
                    source.complete(&chunk[..count], &mut lines);
                }
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !finishing => {}
                // It has ended, or cannot be read, which is as good.
                _ => {
                    source.hand_over(&[], &mut lost);
                    source.finish(&mut lines);
                    return false;
                }
            }
            true
        });
        give_out_longest(sources, &mut lines);
        for more in more {
            match more {
                Message::Source(source) => sources.push(source),
                Message::Text(text) => lines.extend(text),
                Message::Log(by, text) => texts.add(by, text),
                Message::End => {}
            }
        }
        sink.write(&lines)?;
        empty(&mut lines);
        if texts.next(now).is_some_and(|next| next <= now || finishing) {
            let before = thread_time();
            let written = texts.turn(&mut lines);
            sink.write(&lines)?;
            empty(&mut lines);
            drop(written);
            texts.rest(thread_time().saturating_sub(before), Instant::now());
        }
    }
    Ok(())
}

/// Time until then, in whole milliseconds, none of which ends before.
fn until(then: Instant, now: Instant) -> PollTimeout {
    let milliseconds = then.saturating_duration_since(now).as_micros().div_ceil(1000);
    PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
}

/// Makes reading and writing fail where they would wait.
pub fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    fcntl(&descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Returns which descriptors are readable, `woken` first; none at all when the time is over.
fn wait(woken: &PipeReader, sources: &[Source], limit: PollTimeout) -> io::Result<Vec<bool>> {
    let descriptors = iter::once(woken.as_fd()).chain(sources.iter().map(|source| source.pipe.as_fd()));
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
    use instanton::data::{Nspace, Proc, Rank};
    use instanton::internal::message::lines::LineFormat;
    use instanton::server::Completion;
    use std::sync::mpsc;
    use std::thread;

    fn style(tag: &str) -> LineStyle {
        let source = Proc::new(Nspace::new("run@1").unwrap(), Rank(0));
        LineStyle { source, stream: "stdout", tag: tag.into(), format: LineFormat::default(), is_raw: false }
    }

    /// Text in one piece.
    struct Whole(Vec<u8>);

    impl Pieces for Whole {
        fn show_next(&mut self, shown: &mut Vec<u8>) -> bool {
            shown.append(&mut self.0);
            false
        }
    }

    /// Forwards what `script` writes into the pipes, one a source, and returns what came out.
    fn forwarded(pipes: usize, tags: bool, script: impl FnOnce(Vec<io::PipeWriter>) + Send + 'static) -> Vec<u8> {
        let (mut reader, writer) = io::pipe().unwrap();
        let (ends, mut sources): (Vec<_>, Vec<_>) = (0..pipes)
            .map(|rank| {
                let (reader, writer) = io::pipe().unwrap();
                let tag = if tags { format!("[{rank}]") } else { String::new() };
                (writer, Source::new(reader.into(), style(&tag)).unwrap())
            })
            .unzip();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (feed, fed) = feed().unwrap();
        let writing = thread::spawn(move || {
            script(ends);
            feed.end();
        });
        let forwarding = thread::spawn(move || forward(&mut sources, sink, &mut { fed }, drop));
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
        assert_eq!(String::from_utf8(out).unwrap(), "[0]a\n[0]\n[0]b\n");
    }

    #[test]
    fn a_prompt_is_shown_and_its_line_goes_on() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (source, mut end) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (feed, fed) = feed().unwrap();
        let mut sources = vec![Source::new(source.into(), style("[0]")).unwrap()];
        let forwarding = thread::spawn(move || forward(&mut sources, sink, &mut { fed }, drop));
        end.write_all(b"name? ").unwrap();
        let mut prompt = [0; 9];
        reader.read_exact(&mut prompt).unwrap();
        assert_eq!(&prompt, b"[0]name? ");
        end.write_all(b"thanks\nbye\n").unwrap();
        drop(end);
        feed.end();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "thanks\n[0]bye\n");
        forwarding.join().unwrap().unwrap();
    }

    #[test]
    fn a_file_that_is_full_is_told_of_once_and_its_rank_goes_on() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (pipe, mut end) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let source = Source::new(pipe.into(), style("")).unwrap().filed(Some(("of.rank".into(), full)), false);
        let (feed, fed) = feed().unwrap();
        let (tell, told) = mpsc::channel();
        let lost = move |line| tell.send(line).unwrap();
        let forwarding = thread::spawn(move || forward(&mut vec![source], sink, &mut { fed }, lost));
        end.write_all(b"one\n").unwrap();
        assert_eq!(told.recv().unwrap(), "cannot write of.rank: No space left on device (os error 28)");
        end.write_all(b"two\n").unwrap();
        drop(end);
        feed.end();
        let mut out = String::new();
        reader.read_to_string(&mut out).unwrap();
        forwarding.join().unwrap().unwrap();
        assert_eq!((out.as_str(), told.recv()), ("one\ntwo\n", Err(mpsc::RecvError)));
    }

    #[test]
    fn a_line_without_end_takes_no_more_than_its_share_of_memory() {
        let out = forwarded(2, true, |mut ends| {
            let block = vec![b'x'; 1 << 20];
            (0..20).for_each(|_| ends[0].write_all(&block).unwrap());
        });
        assert_eq!(out.len(), (20 << 20) + 2 * "[0]".len() + 1);
    }

    #[test]
    fn finishing_reads_what_is_there_although_somebody_holds_the_pipe() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (source, mut held) = io::pipe().unwrap();
        held.write_all(b"last words").unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (feed, fed) = feed().unwrap();
        feed.end();
        forward(&mut vec![Source::new(source.into(), style("")).unwrap()], sink, &mut { fed }, drop).unwrap();
        let mut out = String::new();
        reader.read_to_string(&mut out).unwrap();
        assert_eq!(out, "last words");
    }

    #[test]
    fn a_source_may_come_later_and_a_text_between_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (feed, fed) = feed().unwrap();
        let forwarding = thread::spawn(move || forward(&mut Vec::new(), sink, &mut { fed }, drop));
        feed.write(b"logged\n").unwrap();
        let (source, mut end) = io::pipe().unwrap();
        feed.add(Source::new(source.into(), style("[2.0]")).unwrap());
        end.write_all(b"late\n").unwrap();
        feed.end();
        let mut out = String::new();
        reader.read_to_string(&mut out).unwrap();
        assert_eq!(out, "logged\n[2.0]late\n");
        forwarding.join().unwrap().unwrap();
        assert_eq!(feed.write(b"too late").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn beginnings_of_lines_are_held_as_long_as_there_is_room_for_all_of_them() {
        let source = |bytes: usize| {
            let (pipe, _) = io::pipe().unwrap();
            let mut source = Source::new(pipe.into(), style("")).unwrap();
            source.complete(&vec![b'x'; bytes], &mut Vec::new());
            source
        };
        let mut sources: Vec<Source> = [1 << 20, 15 << 20, 12 << 20].map(source).into();
        let mut lines = Vec::new();
        give_out_longest(&mut sources, &mut lines);
        assert!(lines.is_empty());
        sources.push(source(5 << 20));
        give_out_longest(&mut sources, &mut lines);
        assert_eq!(lines.len(), 15 << 20);
        assert_eq!(sources[1].unfinished.capacity(), CHUNK, "nothing is kept for a next time");
        sources[1].finish(&mut lines);
        assert_eq!(lines.len(), 15 << 20, "its beginning is shown, and not shown again");
    }

    #[test]
    fn a_request_is_answered_when_its_text_is_written_however_long_that_is() {
        let (mut reader, writer) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop(writer);
        let (feed, fed) = feed().unwrap();
        let (told, answers) = mpsc::channel();
        let request = Written::new(Completion::new(move |result| told.send(result).unwrap()));
        let text = vec![b'x'; 20 << 20];
        feed.log(&style("").source, Whole(text.clone()), request).unwrap();
        feed.end();
        let forwarding = thread::spawn(move || forward(&mut Vec::new(), sink, &mut { fed }, drop));
        reader.read_exact(&mut [0]).unwrap();
        assert_eq!(answers.try_recv(), Err(mpsc::TryRecvError::Empty), "a pipe does not hold the rest");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!((rest.len() + 1, answers.recv()), (text.len(), Ok(Ok(()))));
        forwarding.join().unwrap().unwrap();
    }

    #[test]
    fn who_comes_after_a_reader_has_left_is_told_as_well() {
        let _ends = crate::COPIES.read();
        let (reader, writer) = io::pipe().unwrap();
        let (first, mut end) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop((reader, writer));
        end.write_all(b"to nobody\n").unwrap();
        let (feed, fed) = feed().unwrap();
        forward(&mut vec![Source::new(first.into(), style("")).unwrap()], sink, &mut { fed }, drop).unwrap_err();
        let (late, mut end) = io::pipe().unwrap();
        feed.add(Source::new(late.into(), style("")).unwrap());
        assert_eq!(end.write(b"more\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(feed.write(b"text").is_err());
    }

    #[test]
    fn who_has_come_when_a_reader_leaves_is_told_after_us() {
        let _ends = crate::COPIES.read();
        let (reader, writer) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop((reader, writer));
        let (feed, mut fed) = feed().unwrap();
        let [(first, mut end), (late, mut other)] = [io::pipe().unwrap(), io::pipe().unwrap()];
        end.write_all(b"to nobody\n").unwrap();
        let mut sources = vec![Source::new(first.into(), style("")).unwrap()];
        forward(&mut sources, sink, &mut fed, drop).unwrap_err();
        feed.add(Source::new(late.into(), style("")).unwrap());
        other.write_all(b"more\n").unwrap();
        drop(fed);
        assert_eq!(other.write(b"more\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_who_leaves_closes_the_pipes() {
        let _ends = crate::COPIES.read();
        let (reader, writer) = io::pipe().unwrap();
        let (source, mut end) = io::pipe().unwrap();
        let sink = Sink::new(writer.as_fd(), &Arc::default()).unwrap();
        drop((reader, writer));
        end.write_all(b"to nobody\n").unwrap();
        let (_feed, fed) = feed().unwrap();
        let error =
            forward(&mut vec![Source::new(source.into(), style("")).unwrap()], sink, &mut { fed }, drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(end.write(b"more\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
