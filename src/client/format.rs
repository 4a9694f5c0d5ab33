//! How pulled output is shown, where a pull asks for more than the bytes: each line with its source in front, with the time at which it
//! came here, or as an element of XML.
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::data::constants::iof_channel;
use crate::data::{Info, InfoList, Proc, keys};

/// What is put around lines.
#[derive(Default)]
pub(super) struct Format {
    tags: bool,
    stamps: bool,
    is_xml: bool,
    /// Those whose line has begun and goes on.
    unfinished: Vec<(Proc, u16)>,
}

impl Format {
    pub(super) fn read(directives: &[Info]) -> Self {
        let is_set = |key| directives.is_set(key);
        Format {
            tags: is_set(keys::IOF_TAG_OUTPUT),
            stamps: is_set(keys::IOF_TIMESTAMP_OUTPUT),
            is_xml: is_set(keys::IOF_XML_OUTPUT),
            unfinished: Vec::new(),
        }
    }

    /// What the program is shown of such bytes.
    pub(super) fn shown(&mut self, source: &Proc, channel: u16, bytes: Vec<u8>) -> Vec<u8> {
        if !self.tags && !self.stamps && !self.is_xml {
            return bytes;
        }
        let stream = match channel {
            iof_channel::FWD_STDOUT_CHANNEL => "stdout",
            iof_channel::FWD_STDERR_CHANNEL => "stderr",
            _ => "stddiag",
        };
        let name = source.nspace.to_string();
        let mut front = String::new();
        // Nothing of this can fail: it is written into memory.
        if self.is_xml {
            let _ = write!(
                front,
                "<{stream} nspace=\"{}\" rank=\"{}\"",
                String::from_utf8_lossy(&escaped(name.as_bytes())),
                source.rank
            );
            if self.stamps {
                let _ = write!(front, " timestamp=\"{}\"", now());
            }
            front.push('>');
        } else {
            if self.stamps {
                let _ = write!(front, "{} ", now());
            }
            if self.tags {
                // The job's number in the name, where it has one.
                let job = name.rsplit('@').next().unwrap_or(&name);
                let _ = write!(front, "[{job},{}]<{stream}>: ", source.rank);
            }
        }
        let before = self.unfinished.iter().position(|(of, on)| of == source && *on == channel);
        let mut goes_on = before.map(|at| self.unfinished.swap_remove(at)).is_some();
        let mut shown = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n");
            if self.is_xml {
                shown.extend_from_slice(front.as_bytes());
                shown.extend(escaped(text.unwrap_or(line)));
                shown.extend_from_slice(format!("</{stream}>").as_bytes());
                shown.extend(text.map(|_| b'\n'));
            } else {
                if !goes_on {
                    shown.extend_from_slice(front.as_bytes());
                }
                shown.extend_from_slice(line);
            }
            goes_on = text.is_none();
        }
        if goes_on {
            self.unfinished.push((source.clone(), channel));
        }
        shown
    }
}

/// Text for XML.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(*byte),
        }
    }
    out
}

/// The time, as `2026-11-22T00:10:17Z`.
fn now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn utc(seconds: u64) -> String {
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
    use crate::data::{Nspace, Rank};

    fn shown(keys: &[&str], pieces: &[&str]) -> String {
        let infos: Vec<Info> = keys.iter().map(|key| Info::new(key, true)).collect();
        let mut format = Format::read(&infos);
        let source = Proc::new(Nspace::new("run@3").unwrap(), Rank(1));
        let channel = iof_channel::FWD_STDERR_CHANNEL;
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
    fn xml_is_well_formed() {
        let head = "<stderr nspace=\"run@3\" rank=\"1\">";
        assert_eq!(
            shown(&[keys::IOF_XML_OUTPUT], &["a<b> & \"c\"\nd", "e\n"]),
            format!("{head}a&lt;b&gt; &amp; &quot;c&quot;</stderr>\n{head}d</stderr>{head}e</stderr>\n")
        );
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(utc(1_795_306_217), "2026-11-22T00:10:17Z");
        let stamped = shown(&[keys::IOF_TIMESTAMP_OUTPUT], &["x\n"]);
        assert!(stamped.len() == 23 && stamped.ends_with("Z x\n"), "{stamped}");
    }
}
