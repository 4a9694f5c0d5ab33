//! Archives: what crosses a socket, and the values in shared memory that are more than plain bytes.
//!
//! Bytes from a peer are validated before they are looked at, to a limited depth of nesting.
use std::num::NonZeroUsize;

use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{BoxedError, Strategy};
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::validation::Validator;
use rkyv::validation::archive::ArchiveValidator;
use rkyv::validation::shared::SharedValidator;
use rkyv::{Archive, Deserialize, Serialize};

/// Deepest nesting of arrays that is accepted.
pub const MAX_DEPTH: usize = 32;

/// Bytes that are no archive of what they should be, or a value that cannot be archived.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ArchiveError(BoxedError);

/// What can be encoded and decoded.
pub trait Wire:
    Sized
    + Archive<
        Archived: for<'a> CheckBytes<HighValidator<'a, BoxedError>> + Deserialize<Self, HighDeserializer<BoxedError>>,
    > + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, BoxedError>>
{
}

impl<T> Wire for T where
    T: Archive<
            Archived: for<'a> CheckBytes<HighValidator<'a, BoxedError>> + Deserialize<T, HighDeserializer<BoxedError>>,
        > + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, BoxedError>>
{
}

/// The archive of `value`.
///
/// # Errors
/// When it cannot be represented.
pub fn encode<T: Wire>(value: &T) -> Result<AlignedVec, ArchiveError> {
    rkyv::to_bytes::<BoxedError>(value).map_err(ArchiveError)
}

/// The value archived in `bytes`, which may lie at any address.
///
/// # Errors
/// When the bytes are no valid archive of a `T`, or nest deeper than [`MAX_DEPTH`].
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, ArchiveError> {
    let mut aligned = AlignedVec::<16>::with_capacity(bytes.len());
    aligned.extend_from_slice(bytes);
    let depth = NonZeroUsize::new(MAX_DEPTH * 4);
    let mut validator = Validator::new(ArchiveValidator::with_max_depth(&aligned, depth), SharedValidator::new());
    let archived =
        rkyv::api::access_with_context::<T::Archived, _, BoxedError>(&aligned, &mut validator).map_err(ArchiveError)?;
    archived.deserialize(Strategy::wrap(&mut rkyv::de::Pool::new())).map_err(ArchiveError)
}
