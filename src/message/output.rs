//! Output of processes on its way to those who pull it: how much may be under way, and what the
//! directives of a pull ask for.
use std::time::Duration;

use crate::data::{Info, InfoList, keys};

/// Output that a peer has been sent and has not taken in yet is no more than this, and one piece. The rest waits at the
/// server, which drops what a pull has no room for: so nobody who stops reading stops anybody else.
pub const WINDOW: usize = 256 << 10;

/// Returns the part of the window that a piece of output takes, however little it brings.
pub fn cost(bytes: usize) -> usize {
    bytes + 64
}

/// Terms of a pull for its output, as far as the server goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Most bytes of one process and channel that wait for who pulls them (`PMIX_IOF_CACHE_SIZE`).
    pub cache: usize,
    /// True if the beginning of the output that waits is dropped where there is no more room, rather than the output
    /// that comes (`PMIX_IOF_DROP_OLDEST`).
    pub drops_oldest: bool,
    /// Number of bytes that are waited for before any are sent (`PMIX_IOF_BUFFERING_SIZE`).
    pub least: usize,
    /// For how long, at most (`PMIX_IOF_BUFFERING_TIME`).
    pub patience: Option<Duration>,
}

impl Terms {
    /// Most bytes that wait of one process and channel unless a pull says otherwise.
    pub const CACHE: usize = 4 << 20;

    /// Reads directives.
    pub fn read(directives: &[Info]) -> Self {
        let number = |key| directives.find(key).and_then(|info| info.value.as_u32());
        let cache = number(keys::IOF_CACHE_SIZE).map_or(Self::CACHE, |size| size as usize);
        let patience = number(keys::IOF_BUFFERING_TIME).filter(|seconds| *seconds > 0);
        let least = match (number(keys::IOF_BUFFERING_SIZE), patience) {
            (Some(least), _) => least as usize,
            // All output that comes in that time is one piece.
            (None, Some(_)) => usize::MAX,
            (None, None) => 0,
        };
        Terms {
            cache,
            drops_oldest: directives.is_set(keys::IOF_DROP_OLDEST),
            // The bytes that are waited for must find room.
            least: least.min(cache),
            patience: patience.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }
}
