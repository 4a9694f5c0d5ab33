//! Output in a form where more than its bytes is asked for: this knows whose lines have begun and go on.
use std::io::Write;

use crate::data::{Channels, Info, InfoList, Proc, keys};
use crate::message::lines::{LineFormat, Origin};
use crate::printable;

/// Attributes that ask for such a form.
#[cfg(feature = "server")]
pub(crate) const DIRECTIVES: [&str; 6] = [
    keys::IOF_TAG_OUTPUT,
    keys::IOF_TAG_DETAILED_OUTPUT,
    keys::IOF_TAG_FULLNAME_OUTPUT,
    keys::IOF_RANK_OUTPUT,
    keys::IOF_TIMESTAMP_OUTPUT,
    keys::IOF_XML_OUTPUT,
];

/// Writes output to this process's own.
pub fn write_out(channel: Channels, bytes: &[u8]) {
    fn all(mut to: impl Write, bytes: &[u8]) -> std::io::Result<()> {
        to.write_all(bytes)?;
        to.flush()
    }
    // A user who has closed it wants nothing of it.
    let _ = match channel {
        Channels::STDOUT => all(std::io::stdout().lock(), bytes),
        _ => all(std::io::stderr().lock(), bytes),
    };
}

/// Name of a line's source.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tags {
    #[default]
    None,
    Rank,
    /// With the job's number.
    Short,
    /// With the job's name.
    Full,
}

/// Form that lines are given.
#[derive(Default)]
pub(crate) struct Format {
    /// Tag in front of each line.
    tags: Tags,
    lines: LineFormat,
    /// Streams whose line has begun and goes on.
    unfinished: Vec<(Proc, Channels)>,
}

impl Format {
    pub(crate) fn read(directives: &[Info]) -> Self {
        // Of where a process runs, and as which one, who pulls its output knows nothing.
        let short = [keys::IOF_TAG_OUTPUT, keys::TAG_OUTPUT, keys::IOF_TAG_DETAILED_OUTPUT];
        let tags = match () {
            () if directives.is_set(keys::IOF_TAG_FULLNAME_OUTPUT) => Tags::Full,
            () if short.iter().any(|key| directives.is_set(key)) => Tags::Short,
            () if directives.is_set(keys::IOF_RANK_OUTPUT) => Tags::Rank,
            () => Tags::None,
        };
        Format { tags, lines: LineFormat::read(directives), unfinished: Vec::new() }
    }

    /// Returns the text that the program is shown for such bytes.
    pub(crate) fn shown(&mut self, source: &Proc, channel: Channels, bytes: Vec<u8>) -> Vec<u8> {
        if self.tags == Tags::None && self.lines == LineFormat::default() {
            return bytes;
        }
        let stream = match channel {
            Channels::STDOUT => "stdout",
            Channels::STDERR => "stderr",
            _ => "stddiag",
        };
        let name = source.nspace.to_string();
        let name = printable(&name);
        // The job's number in the name, where it has one.
        let number = name.rsplit('@').next().unwrap_or(&name);
        let tag = match self.tags {
            Tags::None => String::new(),
            Tags::Rank => format!("[{}]<{stream}>: ", source.rank),
            Tags::Short => format!("[{number},{}]<{stream}>: ", source.rank),
            Tags::Full => format!("[{name},{}]<{stream}>: ", source.rank),
        };
        let origin = Origin { source, stream, tag: &tag };
        let before = self.unfinished.iter().position(|(of, on)| of == source && *on == channel);
        let mut goes_on = before.map(|at| self.unfinished.swap_remove(at)).is_some();
        let mut shown = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.lines.show(origin, line, goes_on, &mut shown);
            goes_on = !line.ends_with(b"\n");
        }
        if goes_on {
            self.unfinished.push((source.clone(), channel));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Rank};

    fn shown(keys: &[&str], pieces: &[&str]) -> String {
        let infos: Vec<Info> = keys.iter().map(|key| Info::new(key, true)).collect();
        let mut format = Format::read(&infos);
        let source = Proc::new(Nspace::new("run@3").unwrap(), Rank(1));
        let channel = Channels::STDERR;
        let all = pieces.iter().flat_map(|piece| format.shown(&source, channel, piece.as_bytes().to_vec()));
        String::from_utf8(all.collect()).unwrap()
    }

    #[test]
    fn every_line_has_its_source_once_whatever_its_pieces() {
        assert_eq!(shown(&[], &["a\nb"]), "a\nb");
        let tag = "[3,1]<stderr>: ";
        assert_eq!(shown(&[keys::IOF_TAG_OUTPUT], &["a\nb", "c\n", "\nd"]), format!("{tag}a\n{tag}bc\n{tag}\n{tag}d"));
    }

    #[test]
    fn the_name_of_a_job_commands_no_terminal() {
        let mut format = Format::read(&[Info::new(keys::IOF_TAG_FULLNAME_OUTPUT, true)]);
        let source = Proc::new(Nspace::new("\x1b[2Jrun").unwrap(), Rank(0));
        let shown = format.shown(&source, Channels::STDOUT, b"x\n".to_vec());
        assert_eq!(String::from_utf8(shown).unwrap(), "[\\u{1b}[2Jrun,0]<stdout>: x\n");
    }

    #[test]
    fn xml_is_well_formed() {
        let head = "<stderr nspace=\"run@3\" rank=\"1\">";
        assert_eq!(
            shown(&[keys::IOF_XML_OUTPUT], &["a<b> & \"c\"\nd", "e\n"]),
            format!("{head}a&lt;b&gt; &amp; &quot;c&quot;</stderr>\n{head}d</stderr>{head}e</stderr>\n")
        );
    }

    #[test]
    fn lines_have_the_time_or_the_full_name_in_front() {
        let stamped = shown(&[keys::IOF_TIMESTAMP_OUTPUT], &["x\n"]);
        assert!(stamped.len() == 23 && stamped.ends_with("Z x\n"), "{stamped}");
        assert_eq!(shown(&[keys::IOF_TAG_FULLNAME_OUTPUT], &["x\n"]), "[run@3,1]<stderr>: x\n");
        assert_eq!(shown(&[keys::IOF_RANK_OUTPUT], &["x\n"]), "[1]<stderr>: x\n");
    }
}
