use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

/// A `pmix_status_t`: zero, an error (negative), or an event code (any integer).
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub i32);

include!(concat!(env!("OUT_DIR"), "/status.rs"));

impl Status {
    /// `Ok(())` for `SUCCESS`, the status itself as an error otherwise.
    pub fn ok(self) -> Result<(), Status> {
        if self == Status::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// The name in the public headers, with its prefix: `"PMIX_ERR_NOT_FOUND"`.
    pub fn name(self) -> Option<&'static str> {
        STATUS_NAMES.iter().find(|(v, _)| *v == self.0).map(|(_, n)| *n)
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
