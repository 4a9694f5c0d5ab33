//! The public encoding `v41`: how values become the bytes that stock libraries from 4.2 on read and write.
//!
//! Two actors: a [`Writer`] appends to a [`Sink`], a [`Reader`] goes through bytes of anybody. Neither knows sockets,
//! commands or C. The form of a structure on the wire is written once, in `records`, and serves both.
//!
//! A *pack* is a count and so many elements of one type. It comes in two [`Form`]s: plain, where the reader has to know
//! the type, and described, where the type stands in front. Inside, nothing but a value, an array and a published value
//! says its type. All integers wider than a byte are of varying length (`flex`).
//!
//! The reader trusts nothing: lengths are held against what is left before anything is taken, arrays nest
//! [`MAX_DEPTH`](crate::data::archive::MAX_DEPTH) deep at most, and after an error the reader stands where it stood.
pub mod flex;
mod reader;
mod records;
#[cfg(test)]
mod tests;
mod writer;
pub mod zlib;

use crate::data::{DataType, Status};

pub use reader::{Reader, Unpacked};
#[cfg(feature = "server")]
pub use records::Wire as Record;
pub use writer::{Sink, Writer};

/// Form of packs: with a description of their contents, or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Count and elements: what every release build of the stock library writes.
    #[default]
    Plain,
    /// Every pack has its type in front.
    Described,
}

/// Reason why something cannot be packed, or bytes cannot be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end before what they promise.
    #[error("{wanted} more bytes are promised where {left} are left")]
    PastEnd {
        /// Bytes that should be there.
        wanted: u64,
        /// Bytes that are.
        left: usize,
    },
    /// The bytes are not what any writer makes.
    #[error("bytes that are no {0}")]
    Malformed(&'static str),
    /// A described pack holds something else.
    #[error("{found} where {wanted} was asked for")]
    Mismatch {
        /// Type that was to be unpacked.
        wanted: DataType,
        /// Type that the pack holds.
        found: DataType,
    },
    /// The encoding has no such type.
    #[error("{0} cannot be packed")]
    UnknownType(DataType),
    /// There is no memory for what is packed.
    #[error("no memory")]
    NoMemory,
    /// The value to be packed is nested too deeply or longer than the encoding can say.
    #[error("cannot be packed: {0}")]
    Unfit(&'static str),
}

impl WireError {
    /// The status for whoever asked.
    pub fn status(&self) -> Status {
        match self {
            WireError::PastEnd { .. } => Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER,
            WireError::Malformed(_) => Status::ERR_UNPACK_FAILURE,
            WireError::Mismatch { .. } => Status::ERR_PACK_MISMATCH,
            WireError::UnknownType(_) => Status::ERR_UNKNOWN_DATA_TYPE,
            WireError::NoMemory => Status::ERR_NOMEM,
            WireError::Unfit(_) => Status::ERR_PACK_FAILURE,
        }
    }
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        error.status()
    }
}

/// Type of the count in front of a described pack.
const COUNT: DataType = DataType::INT32;
/// Type in front of process ids.
const PID: DataType = DataType::UINT32;
/// Count that stands for any number of addresses.
const POINTERS: u8 = 1;
/// Beginning of a packed map expression of the binary form, its NUL included.
const BLOB: &[u8] = b"blob:\0";
