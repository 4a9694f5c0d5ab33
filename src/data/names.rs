//! What the Standard's `*_string` functions say of its numbers.
//!
//! Texts are C strings, because the C interface hands them out and C programs keep the pointers.
//!
//! ```
//! use instanton::data::{constants::scope, names};
//! assert_eq!(names::SCOPE.of(scope::GLOBAL), c"SHARE ACROSS ALL NODES");
//! assert_eq!(names::SCOPE.of(99u8), c"UNKNOWN SCOPE");
//! assert_eq!(names::LOCALITY.flags(0x4002u16), "CORE|NODE");
//! ```
use std::ffi::{CStr, c_char};

use super::constants::info_directives as info;
use super::texts;

include!(concat!(env!("OUT_DIR"), "/names.rs"));

/// The texts of one kind of number.
#[derive(Debug)]
pub struct Names {
    other: u16,
    known: &'static [(u64, u16)],
    /// Of small numbers.
    small: [u16; SMALL],
}

const SMALL: usize = 128;

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

    /// The same for C.
    #[inline]
    pub fn pointer(&self, number: impl Into<u64>) -> *const c_char {
        texts::pointer(self.at(number.into()))
    }

    /// The same as Rust text.
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
pub fn iof_channel(channels: u16) -> &'static CStr {
    const COMBINATIONS: [&CStr; 16] = [
        c"NONE",
        c"STDIN ",
        c"STDOUT ",
        c"STDIN STDOUT ",
        c"STDERR ",
        c"STDIN STDERR ",
        c"STDOUT STDERR ",
        c"STDIN STDOUT STDERR ",
        c"STDDIAG ",
        c"STDIN STDDIAG ",
        c"STDOUT STDDIAG ",
        c"STDIN STDOUT STDDIAG ",
        c"STDERR STDDIAG ",
        c"STDIN STDERR STDDIAG ",
        c"STDOUT STDERR STDDIAG ",
        c"STDIN STDOUT STDERR STDDIAG ",
    ];
    COMBINATIONS[usize::from(channels & 15)]
}

/// The directives of an attribute, as `PMIx_Info_directives_string` gives them. A qualifier is nothing else.
pub fn info_directives(flags: u32) -> String {
    let mut text = String::new();
    each_info_directive(flags, |piece| text += piece);
    text
}

/// The same piece by piece.
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
