//! Texts of the Standard's `*_string` functions for its numbers.
//!
//! Texts are C strings, because the C interface hands them out and C programs keep the pointers.
//!
//! ```
//! use instanton::data::{Scope, names};
//! assert_eq!(names::SCOPE.of(Scope::GLOBAL), c"SHARE ACROSS ALL NODES");
//! assert_eq!(names::SCOPE.of(Scope(99)), c"UNKNOWN SCOPE");
//! assert_eq!(names::LOCALITY.flags(0x4002u16), "CORE|NODE");
//! ```
use std::ffi::{CStr, c_char};

use super::constants::info_directives as info;
use super::{Channels, texts};

include!(concat!(env!("OUT_DIR"), "/names.rs"));

/// The texts of one kind of number.
#[derive(Debug)]
pub struct Names {
    other: u16,
    known: &'static [(u64, u16)],
    /// Of all numbers of one byte, and of the small ones of more.
    small: [u16; SMALL],
}

const SMALL: usize = 256;

impl Names {
    const fn new(other: u16, known: &'static [(u64, u16)]) -> Self {
        let mut small = [other; SMALL];
        let mut row = known.len();
        while row > 0 {
            row -= 1;
            let (number, at) = known[row];
            if number < SMALL as u64 {
                small[number as usize] = at;
            }
        }
        Self { other, known, small }
    }

    #[inline]
    fn at(&self, number: u64) -> u16 {
        match usize::try_from(number).ok().and_then(|number| self.small.get(number)) {
            Some(at) => *at,
            None => self.known.iter().find(|(known, _)| *known == number).map_or(self.other, |(_, at)| *at),
        }
    }

    /// The text of a number, or the one for numbers that have none of their own.
    pub fn of(&self, number: impl Into<u64>) -> &'static CStr {
        texts::c_text(self.at(number.into()))
    }

    /// Returns the text of a number for C.
    #[inline]
    pub fn pointer(&self, number: impl Into<u64>) -> *const c_char {
        texts::pointer(self.at(number.into()))
    }

    /// Returns the text of a number as Rust text.
    pub fn text(&self, number: impl Into<u64>) -> &'static str {
        self.of(number).to_str().unwrap_or("?")
    }

    /// The texts of all bits that are set in a number, joined; bits that have no text as one number at the end.
    pub fn flags(&self, number: impl Into<u64>) -> String {
        let mut rest = number.into();
        if rest == 0 {
            return self.text(0u64).to_string();
        }
        let mut all = self.set(rest).collect::<Vec<_>>().join("|");
        rest = self.bits().fold(rest, |rest, (bit, _)| rest & !bit);
        if rest != 0 {
            all += &format!("{}{rest:#x}", if all.is_empty() { "" } else { "|" });
        }
        all
    }

    /// The texts of all bits that are set in a number and have one.
    pub fn set(&self, number: impl Into<u64>) -> impl Iterator<Item = &'static str> {
        let number = number.into();
        self.bits().filter(move |(bit, _)| number & bit != 0).map(|(_, at)| texts::text(*at))
    }

    fn bits(&self) -> impl Iterator<Item = &'static (u64, u16)> + use<> {
        self.known.iter().filter(|(bit, _)| bit.is_power_of_two())
    }
}

/// The channels of `PMIx_IOF_channel_string`, each followed by a space as programs know it.
pub fn iof_channel(channels: Channels) -> &'static CStr {
    CStr::from_bytes_until_nul(iof_channels(channels)).unwrap_or_default()
}

/// Returns the channels' text for C.
#[inline]
pub fn iof_channel_pointer(channels: Channels) -> *const c_char {
    iof_channels(channels).as_ptr().cast()
}

/// Every set of channels has a text of the same room, so that its place follows from its number.
#[inline]
fn iof_channels(channels: Channels) -> &'static [u8; 32] {
    static TEXTS: [[u8; 32]; 16] = {
        let channels: [&[u8]; 4] = [b"STDIN ", b"STDOUT ", b"STDERR ", b"STDDIAG "];
        let mut texts = [[0; 32]; 16];
        texts[0].first_chunk_mut::<4>().unwrap().copy_from_slice(b"NONE");
        let mut set = 1;
        while set < texts.len() {
            let (mut end, mut channel) = (0, 0);
            while channel < channels.len() {
                let mut byte = 0;
                while set & 1 << channel != 0 && byte < channels[channel].len() {
                    texts[set][end] = channels[channel][byte];
                    (end, byte) = (end + 1, byte + 1);
                }
                channel += 1;
            }
            set += 1;
        }
        texts
    };
    &TEXTS[usize::from(channels.0 & 15)]
}

/// The directives of an attribute, as `PMIx_Info_directives_string` gives them. A qualifier is nothing else.
pub fn info_directives(flags: u32) -> String {
    let mut text = String::new();
    each_info_directive(flags, |piece| text += piece);
    text
}

/// Gives the directives of an attribute piece by piece.
pub fn each_info_directive(flags: u32, mut f: impl FnMut(&'static str)) {
    if flags & info::INFO_QUALIFIER != 0 {
        return f("QUALIFIER");
    }
    f(if flags & info::INFO_REQD != 0 { "REQUIRED" } else { "OPTIONAL" });
    for (bit, text) in [
        (info::INFO_REQD_PROCESSED, ":PROCESSED"),
        (info::INFO_ARRAY_END, ":END"),
        (info::INFO_PERSISTENT, ":PERSISTENT"),
    ] {
        if flags & bit != 0 {
            f(text);
        }
    }
}
