//! Status codes.
use std::ffi::{CStr, c_char};
use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

use super::texts;

/// A `pmix_status_t`: zero, an error (negative), or an event code (any integer).
///
/// ```
/// use instanton::data::Status;
/// assert_eq!(Status::ERR_NOT_FOUND.to_string(), "PMIX_ERR_NOT_FOUND");
/// assert_eq!(Status::from_name("PMIX_ERR_NOT_FOUND"), Some(Status::ERR_NOT_FOUND));
/// ```
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub i32);

include!(concat!(env!("OUT_DIR"), "/status.rs"));

/// The names of zero and what is not far below; the first of all texts where there is none.
static BY_CODE: [u16; NEAR] = {
    let mut names = [NO_NAME; NEAR];
    let mut row = 0;
    while row < STATUS_NAMES.len() {
        let (code, at, alias) = STATUS_NAMES[row];
        if !alias && is_near(code) {
            names[-code as usize] = at;
        }
        row += 1;
    }
    names
};
const NEAR: usize = 512;

/// The codes of all others, with their names: so few that they are looked through.
static FAR: [(i32, u16); count_far()] = {
    let mut far = [(0, NO_NAME); count_far()];
    let (mut row, mut filled) = (0, 0);
    while row < STATUS_NAMES.len() {
        let (code, at, alias) = STATUS_NAMES[row];
        if !alias && !is_near(code) {
            far[filled] = (code, at);
            filled += 1;
        }
        row += 1;
    }
    far
};

const fn is_near(code: i32) -> bool {
    code <= 0 && code > -(NEAR as i32)
}

const fn count_far() -> usize {
    let (mut row, mut count) = (0, 0);
    while row < STATUS_NAMES.len() {
        let (code, _, alias) = STATUS_NAMES[row];
        count += (!alias && !is_near(code)) as usize;
        row += 1;
    }
    count
}

/// The text of a status without a name.
const NO_NAME: u16 = 0;

impl Status {
    /// `Ok(())` for `SUCCESS`, the status itself as an error otherwise.
    pub fn ok(self) -> Result<(), Status> {
        if self == Status::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// The name in the public headers, with its prefix: `"PMIX_ERR_NOT_FOUND"`.
    pub fn name(self) -> Option<&'static str> {
        Some(self.at()).filter(|at| *at != NO_NAME).map(texts::text)
    }

    /// Returns its text in `PMIx_Error_string`: the name, or that there is none.
    pub fn text(self) -> &'static CStr {
        texts::c_text(self.at())
    }

    /// Returns that text for C.
    #[inline]
    pub fn pointer(self) -> *const c_char {
        texts::pointer(self.at())
    }

    /// The code with this name, aliases included (`PMIx_Error_code`). Upper and lower case are the same.
    pub fn from_name(name: impl AsRef<[u8]>) -> Option<Status> {
        let name = name.as_ref();
        let same = |at| texts::c_text(at).to_bytes().eq_ignore_ascii_case(name);
        STATUS_NAMES.iter().find(|(_, at, _)| same(*at)).map(|(code, ..)| Status(*code))
    }

    #[inline]
    fn at(self) -> u16 {
        // One that is positive becomes one too large.
        match BY_CODE.get(self.0.wrapping_neg() as u32 as usize) {
            Some(at) => *at,
            None => self.far(),
        }
    }

    /// Of codes that are far from zero.
    #[cold]
    fn far(self) -> u16 {
        FAR.iter().find(|(code, _)| *code == self.0).map_or(NO_NAME, |(_, at)| *at)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "status {}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.0)
    }
}

impl std::error::Error for Status {}

/// The whole table: number, name, whether it is an alias.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = (i32, &'static CStr, bool)> {
    STATUS_NAMES.iter().map(|(code, at, alias)| (*code, texts::c_text(*at), *alias))
}
