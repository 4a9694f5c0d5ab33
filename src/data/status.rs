//! Status codes.
use std::ffi::CStr;
use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

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

/// The names of zero and what is not far below.
static BY_CODE: [Option<&CStr>; 512] = {
    let mut names = [None; 512];
    let mut row = STATUS_NAMES.len();
    while row > 0 {
        row -= 1;
        let (code, name, alias) = STATUS_NAMES[row];
        if !alias && code <= 0 && code > -(names.len() as i32) {
            names[-code as usize] = Some(name);
        }
    }
    names
};

impl Status {
    /// `Ok(())` for `SUCCESS`, the status itself as an error otherwise.
    pub fn ok(self) -> Result<(), Status> {
        if self == Status::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// The name in the public headers, with its prefix: `"PMIX_ERR_NOT_FOUND"`.
    pub fn name(self) -> Option<&'static str> {
        self.c_name()?.to_str().ok()
    }

    /// What `PMIx_Error_string` says: the name, or that there is none.
    pub fn text(self) -> &'static CStr {
        self.c_name().unwrap_or(c"ERROR STRING NOT FOUND")
    }

    /// The code with this name, aliases included (`PMIx_Error_code`). Upper and lower case are the same.
    pub fn from_name(name: impl AsRef<[u8]>) -> Option<Status> {
        let name = name.as_ref();
        STATUS_NAMES.iter().find(|(_, n, _)| n.to_bytes().eq_ignore_ascii_case(name)).map(|(code, ..)| Status(*code))
    }

    fn c_name(self) -> Option<&'static CStr> {
        match usize::try_from(-i64::from(self.0)).ok().and_then(|index| BY_CODE.get(index)) {
            Some(name) => *name,
            None => STATUS_NAMES.iter().find(|(code, _, alias)| *code == self.0 && !alias).map(|(_, name, _)| *name),
        }
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
    STATUS_NAMES.iter().copied()
}
