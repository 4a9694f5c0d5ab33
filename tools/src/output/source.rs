//! A rank's end of a stream, and the beginnings of lines that are held back.
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use instanton::data::Proc;
use instanton::internal::message::lines::{LineFormat, Origin};
use nix::unistd::Pid;

use super::set_nonblocking;
use crate::pulls::PulledStream;
use crate::strangers::Strangers;

/// A line longer than this is passed on in pieces.
pub(super) const LONGEST_LINE: usize = 16 << 20;
/// Most bytes of all lines that are not finished; beyond that, the longest are passed on in pieces.
pub(super) const MOST_UNFINISHED: usize = 2 * LONGEST_LINE;
/// Bytes that are read at once; a pipe holds no more by default.
pub(super) const CHUNK: usize = 64 << 10;

/// Form in which the lines of a stream are shown.
pub struct LineStyle {
    /// Owner and name of the stream.
    pub source: Proc,
    pub stream: &'static str,
    /// Tag in front of each line.
    pub tag: String,
    pub format: LineFormat,
    /// True if it is shown as it is written, in pieces.
    pub is_raw: bool,
}

/// A rank's end of a stream.
pub struct Source {
    pub(super) pipe: File,
    pub(super) style: LineStyle,
    pub(super) unfinished: Vec<u8>,
    /// The beginning of the current line has been shown, as a prompt.
    pub(super) prompted: bool,
    /// Tools that may pull it.
    pulled: Option<PulledStream>,
    /// File that it is written to as well, with its name.
    file: Option<(PathBuf, File)>,
    /// Nobody reads it here.
    is_hidden: bool,
    /// Strangers that are looked at as they write, this one's process, and how often it has written.
    strangers: Option<(Arc<Strangers>, Pid)>,
    writes: u64,
}

impl Source {
    /// Forwards `pipe`.
    pub fn new(pipe: OwnedFd, style: LineStyle) -> io::Result<Self> {
        set_nonblocking(&pipe)?;
        Ok(Self {
            pipe: pipe.into(),
            style,
            unfinished: Vec::new(),
            prompted: false,
            pulled: None,
            file: None,
            is_hidden: false,
            strangers: None,
            writes: 0,
        })
    }

    /// Hands it to the tools that pull it, too.
    pub fn pulled(self, pulled: PulledStream) -> Self {
        Self { pulled: Some(pulled), ..self }
    }

    /// Writes it into a file as well, or into that alone.
    pub fn filed(self, file: Option<(PathBuf, File)>, only: bool) -> Self {
        Self { file, is_hidden: only, ..self }
    }

    /// Has its process looked at while that is no more than a stranger.
    pub fn watched(self, strangers: Arc<Strangers>, pid: Pid) -> Self {
        Self { strangers: Some((strangers, pid)), ..self }
    }

    /// Has its process looked at, each time that it has written twice as often as the last time.
    pub(super) fn look(&mut self) {
        self.writes += 1;
        if let Some((strangers, pid)) = &self.strangers
            && self.writes.is_power_of_two()
        {
            strangers.look(*pid);
        }
    }

    /// Shows what was read, nothing at the end, to the tools that pull it, and writes it into its file. Returns whether
    /// it is for our own output as well. A file that takes no more is given up, and `lost` is told of it.
    pub(super) fn hand_over(&mut self, bytes: &[u8], lost: &mut impl FnMut(String)) -> bool {
        if let Some((name, file)) = &mut self.file
            && let Err(error) = file.write_all(bytes)
        {
            lost(format!("cannot write {}: {error}", name.display()));
            self.file = None;
        }
        let is_ours = self.pulled.as_ref().is_none_or(|pulled| pulled.hand_over(bytes));
        is_ours && !self.is_hidden
    }

    /// Takes in what was read; gives out the lines that it completes.
    pub(super) fn complete(&mut self, bytes: &[u8], lines: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.unfinished.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.unfinished.len() > LONGEST_LINE {
                self.give_out(lines);
            }
        }
        if self.style.is_raw {
            self.give_out_unfinished(lines);
        }
    }

    /// Gives out the beginning of a line.
    pub(super) fn give_out_unfinished(&mut self, lines: &mut Vec<u8>) {
        let is_begun = !self.unfinished.is_empty();
        self.give_out(lines);
        self.prompted |= is_begun;
    }

    /// Gives out what there is of the current line.
    fn give_out(&mut self, lines: &mut Vec<u8>) {
        if !self.unfinished.is_empty() {
            let goes_on = std::mem::take(&mut self.prompted);
            let LineStyle { source, stream, tag, format, .. } = &self.style;
            format.show(Origin { source, stream, tag }, &self.unfinished, goes_on, lines);
            empty(&mut self.unfinished);
        }
    }

    /// Gives out the last line. One without an end is given it where another form than its bytes is wanted, so that the
    /// form of the next line begins a line.
    pub(super) fn finish(&mut self, lines: &mut Vec<u8>) {
        let is_open = self.prompted || !self.unfinished.is_empty();
        self.give_out(lines);
        self.prompted = false;
        if is_open && (!self.style.tag.is_empty() || self.style.format != LineFormat::default()) {
            lines.push(b'\n');
        }
    }
}

/// Empties a buffer, which keeps little memory.
pub(super) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(CHUNK);
}

/// Gives out the longest beginnings of lines where all of them together are more than may be held.
pub(super) fn give_out_longest(sources: &mut [Source], lines: &mut Vec<u8>) {
    let mut held: usize = sources.iter().map(|source| source.unfinished.len()).sum();
    while held > MOST_UNFINISHED
        && let Some(longest) = sources.iter_mut().max_by_key(|source| source.unfinished.len())
    {
        held -= longest.unfinished.len();
        longest.give_out_unfinished(lines);
    }
}
