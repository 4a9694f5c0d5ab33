//! Lines of output in forms where more than their bytes is wanted: with their source in front, with the time, or as
//! elements of XML.
use std::fmt::Write;

use crate::data::{Info, InfoList, Proc, keys};
use crate::printable;

/// Form that lines are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFormat {
    /// The time comes first.
    pub stamps: bool,
    /// Each line is an element.
    pub is_xml: bool,
}

/// Origin of a line.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Process that has printed it.
    pub source: &'a Proc,
    /// `stdout`, or what else the stream is called.
    pub stream: &'a str,
    /// Tag in front of it; XML says all of that by itself.
    pub tag: &'a str,
}

impl LineFormat {
    /// Reads directives, by the newer and the older names of the attributes.
    pub fn read(directives: &[Info]) -> Self {
        let is_set = |key| directives.is_set(key);
        LineFormat {
            stamps: is_set(keys::IOF_TIMESTAMP_OUTPUT) || is_set(keys::TIMESTAMP_OUTPUT),
            is_xml: is_set(keys::IOF_XML_OUTPUT),
        }
    }

    /// Adds a line to what is shown. It may be the beginning of one, without its end; `goes_on` where the beginning was
    /// shown.
    pub fn show(self, origin: Origin<'_>, line: &[u8], goes_on: bool, shown: &mut Vec<u8>) {
        let Origin { source, stream, tag } = origin;
        let mut front = String::new();
        // Nothing of this can fail: it is written into memory.
        if self.is_xml {
            let name = escaped(printable(&source.nspace.to_string_lossy()).as_bytes());
            let _ = write!(front, "<{stream} nspace=\"{}\" rank=\"{}\"", String::from_utf8_lossy(&name), source.rank);
            if self.stamps {
                let _ = write!(front, " timestamp=\"{}\"", now());
            }
            front.push('>');
            let text = line.strip_suffix(b"\n");
            shown.extend_from_slice(front.as_bytes());
            shown.extend(escaped(text.unwrap_or(line)));
            shown.extend_from_slice(format!("</{stream}>").as_bytes());
            shown.extend(text.map(|_| b'\n'));
            return;
        }
        if !goes_on {
            if self.stamps {
                let _ = write!(front, "{} ", now());
            }
            shown.extend_from_slice(front.as_bytes());
            shown.extend_from_slice(tag.as_bytes());
        }
        shown.extend_from_slice(line);
    }
}

/// Text for XML. Bytes that are no UTF-8, and control characters, are references in three digits, as those of Open MPI
/// are. A character that XML forbids even as a reference is U+FFFD, so that a parser goes on.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\t' | '\n' | '\r' | '\x7f' => refer(u32::from(character), &mut out),
                '\0'..' ' | '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
                _ => out.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| refer(u32::from(*byte), &mut out));
    }
    out.into_bytes()
}

/// Adds a reference to a character.
fn refer(number: u32, out: &mut String) {
    // It cannot fail: it is written into memory.
    let _ = write!(out, "&#{number:03};");
}

/// The time, as `2026-11-22T00:10:17Z`.
fn now() -> String {
    utc(crate::wall_clock::since_1970().as_secs())
}

/// A time in seconds since 1970, as `2026-11-22T00:10:17Z`.
pub fn utc(seconds: u64) -> String {
    let (mut day, second) = (seconds / 86400, seconds % 86400);
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_have_is_written_otherwise() {
        let text = |line: &[u8]| String::from_utf8(escaped(line)).unwrap();
        assert_eq!(text(b"<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        assert_eq!(text("gr\u{fc}n \u{1f600}".as_bytes()), "gr\u{fc}n \u{1f600}");
        assert_eq!(text(b"a\tb\r\x7f"), "a&#009;b&#013;&#127;");
        assert_eq!(text(b"gr\xfcn \xe2\x82"), "gr&#252;n &#226;&#130;");
        assert_eq!(text(b"\x1b[1m\0"), "\u{fffd}[1m\u{fffd}");
        assert_eq!(text("\u{ffff}".as_bytes()), "\u{fffd}");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(utc(1_795_306_217), "2026-11-22T00:10:17Z");
    }
}
