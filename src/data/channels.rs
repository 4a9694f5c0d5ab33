//! Set of standard streams.
use std::ops::{BitAnd, BitOr, BitOrAssign};

use super::constants::iof_channel as bit;
use rkyv::{Archive, Deserialize, Serialize};

/// A `pmix_iof_channel_t`: a set of standard streams of a process, one bit each.
///
/// ```
/// use instanton::data::Channels;
/// let output = Channels::STDOUT | Channels::STDERR;
/// assert!(output.contains(Channels::STDERR) && !output.intersects(Channels::STDIN));
/// ```
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channels(pub u16);

impl Channels {
    /// No stream.
    pub const NONE: Channels = Channels(bit::FWD_NO_CHANNELS);
    /// Standard input.
    pub const STDIN: Channels = Channels(bit::FWD_STDIN_CHANNEL);
    /// Standard output.
    pub const STDOUT: Channels = Channels(bit::FWD_STDOUT_CHANNEL);
    /// Standard error.
    pub const STDERR: Channels = Channels(bit::FWD_STDERR_CHANNEL);
    /// Diagnostic output.
    pub const STDDIAG: Channels = Channels(bit::FWD_STDDIAG_CHANNEL);
    /// Every stream.
    pub const ALL: Channels = Channels(bit::FWD_ALL_CHANNELS);

    /// Returns true for the empty set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true when every stream of `other` is in this set.
    pub const fn contains(self, other: Channels) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true when a stream of `other` is in this set.
    pub const fn intersects(self, other: Channels) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the streams of both sets.
    pub const fn union(self, other: Channels) -> Channels {
        Channels(self.0 | other.0)
    }
}

impl BitOr for Channels {
    type Output = Channels;

    fn bitor(self, other: Channels) -> Channels {
        self.union(other)
    }
}

impl BitOrAssign for Channels {
    fn bitor_assign(&mut self, other: Channels) {
        *self = *self | other;
    }
}

impl BitAnd for Channels {
    type Output = Channels;

    fn bitand(self, other: Channels) -> Channels {
        Channels(self.0 & other.0)
    }
}
