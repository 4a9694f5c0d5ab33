//! The public encodings `v41` and `v3`: how values become the bytes that stock libraries read and write, those from 4.1
//! on and those of 3.2.
//!
//! Two actors: a [`Writer`] appends to a [`Sink`], a [`Reader`] goes through bytes of anybody. Neither knows sockets,
//! commands or C. The form of a structure on the wire is written once, in `records`, and serves both.
//!
//! A *pack* is a count and so many elements of one type. In each encoding it comes in two [`Form`]s: plain, where the
//! reader has to know the type, and described, where the type stands in front. Inside, nothing but a value, an array
//! and a published value says its type. In `v41` all integers wider than a byte are of varying length (`flex`). In `v3`
//! they have the width of their type, the highest byte first, and in front of those whose width depends on the machine
//! stands the type that has it. No peer of 3.2 was at hand: that encoding is held against bytes written by hand.
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

/// Form of packs: with a description of their contents, or without; and their encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Count and elements: what every release build of the stock library writes.
    #[default]
    Plain,
    /// Every pack has its type in front.
    Described,
    /// [`Plain`](Self::Plain), in `v3`.
    PlainFixed,
    /// [`Described`](Self::Described), in `v3`.
    DescribedFixed,
}

impl Form {
    /// Returns whether every pack has its type in front.
    pub fn is_described(self) -> bool {
        matches!(self, Form::Described | Form::DescribedFixed)
    }

    /// Returns whether integers have the width of their type.
    pub fn is_fixed(self) -> bool {
        matches!(self, Form::PlainFixed | Form::DescribedFixed)
    }

    /// Returns the form of this encoding in which packs are described, or not.
    #[must_use]
    pub fn described(self, is_described: bool) -> Self {
        match (self.is_fixed(), is_described) {
            (false, false) => Form::Plain,
            (false, true) => Form::Described,
            (true, false) => Form::PlainFixed,
            (true, true) => Form::DescribedFixed,
        }
    }

    /// Returns whether its readers know a type.
    pub fn has(self, ty: DataType) -> bool {
        let last = if self.is_fixed() { DataType::ENVAR } else { DataType::STOR_ACCESS_TYPE };
        ty.0 <= last.0
    }
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
    /// A text that is too long for a name.
    #[error("a text that is no {0}")]
    Name(&'static str),
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
    /// There is no memory for what is packed, or no room for what is unpacked.
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
            WireError::Malformed(_) | WireError::Name(_) => Status::ERR_UNPACK_FAILURE,
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

/// Returns the type in front of elements of a type, where one stands there.
fn tag(is_fixed: bool, ty: DataType) -> Option<DataType> {
    match ty {
        DataType::PID => Some(PID),
        // Without a sign, too: release 3.2 has one form for both.
        DataType::INT | DataType::UINT if is_fixed => Some(DataType::INT32),
        DataType::SIZE if is_fixed => Some(DataType::UINT64),
        _ => None,
    }
}
/// Count that stands for any number of addresses.
const POINTERS: u8 = 1;
/// Beginning of a packed map expression of the binary form, its NUL included.
const BLOB: &[u8] = b"blob:\0";
