//! The one place where the data model becomes bytes and comes back: rkyv archives, bounded at both ends.
//!
//! Archives lie in shared memory and travel between processes, so the bytes are whatever a peer sent. [`decode`] checks
//! them before it touches them: every pointer inside stays inside, no two things overlap (so a few bytes cannot stand
//! for many), and nothing is nested deeper than [`MAX_DEPTH`] (so a crafted archive cannot exhaust the stack). Names
//! and arrays are checked again as they are taken out, see [`Key`](super::Key) and [`DataArray`](super::DataArray).
//! [`encode`] keeps the same limits, so what one end writes the other accepts.
use std::cell::Cell;
use std::num::NonZeroUsize;

use rkyv::api::{access_with_context, deserialize_using, serialize_using};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{BoxedError, Fallible, Source, Strategy};
use rkyv::ser::allocator::ArenaHandle;
use rkyv::ser::{Positional, Serializer, Writer};
use rkyv::util::{AlignedVec, with_arena};
use rkyv::validation::archive::ArchiveValidator;
use rkyv::with::{ArchiveWith, DeserializeWith, SerializeWith};
use rkyv::{Archive, Deserialize, Place, Portable, Serialize};

use super::{Status, Value};

/// Deepest nesting of arrays in one another.
pub const MAX_DEPTH: usize = 32;

/// Deepest nesting of pointers, in which rkyv counts. An array in an attribute in an array is two, and a message around
/// it all, and the text in the innermost attribute, add a few.
pub(crate) const MAX_POINTERS: usize = 2 * MAX_DEPTH + 8;

/// Longest archive. rkyv's own pointers reach 2 GiB, and it panics beyond.
pub const MAX_LEN: usize = 1 << 30;

/// Alignment of archives in memory; a slice that has another one is copied before it is looked at.
pub const ALIGNMENT: usize = 16;

/// Reason why something cannot be archived, or bytes are no archive of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// Longer than [`MAX_LEN`], deeper than [`MAX_DEPTH`], or no value of its type.
    #[error("{0}")]
    Unfit(BoxedError),
    /// The bytes are not what [`encode`] makes of such a thing.
    #[error("{len} bytes that are no archive of it: {cause}")]
    Malformed {
        /// Number of bytes.
        len: usize,
        /// Fault that was found in them.
        cause: BoxedError,
    },
}

impl ArchiveError {
    #[cold]
    pub(crate) fn too_deep() -> Self {
        ArchiveError::Unfit(BoxedError::new(TooDeep))
    }

    /// The status for whoever asked.
    pub fn status(&self) -> Status {
        match self {
            ArchiveError::Unfit(_) => Status::ERR_PACK_FAILURE,
            ArchiveError::Malformed { .. } => Status::ERR_UNPACK_FAILURE,
        }
    }
}

/// Bytes under construction, never more than [`MAX_LEN`].
#[derive(Debug, Default)]
pub struct Bounded(AlignedVec<ALIGNMENT>);

#[derive(Debug, thiserror::Error)]
#[error("an archive of it would be longer than {MAX_LEN} bytes")]
struct TooLong;

#[derive(Debug, thiserror::Error)]
#[error("it is nested too deeply: {MAX_DEPTH} arrays in one another are allowed")]
struct TooDeep;

impl Positional for Bounded {
    fn pos(&self) -> usize {
        self.0.len()
    }
}

impl<E: Source> Writer<E> for Bounded {
    fn write(&mut self, bytes: &[u8]) -> Result<(), E> {
        if bytes.len() > MAX_LEN - self.0.len() {
            return Err(E::new(TooLong));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Serializer that writes archives.
pub type Encoder<'a> = Strategy<Serializer<Bounded, ArenaHandle<'a>, ()>, BoxedError>;
/// Validator that checks archives.
pub type Checker<'a> = Strategy<ArchiveValidator<'a>, BoxedError>;
/// Deserializer that takes things out of archives.
pub type Decoder = Strategy<(), BoxedError>;

/// Type that can be encoded and decoded: every one that derives rkyv's traits.
pub trait Wire:
    Sized
    + Archive<Archived: Portable + for<'a> CheckBytes<Checker<'a>> + Deserialize<Self, Decoder>>
    + for<'a> Serialize<Encoder<'a>>
{
}

impl<T> Wire for T where
    T: Archive<Archived: Portable + for<'a> CheckBytes<Checker<'a>> + Deserialize<T, Decoder>>
        + for<'a> Serialize<Encoder<'a>>
{
}

/// The archive of `thing`.
///
/// # Errors
/// [`ArchiveError::Unfit`] when it is too long or nested too deeply.
pub fn encode<T: Wire>(thing: &T) -> Result<AlignedVec<ALIGNMENT>, ArchiveError> {
    encode_with_room(thing, 0)
}

/// As [`encode`], beginning with `room` bytes of memory, so that an archive that fits is allocated once.
///
/// # Errors
/// As [`encode`].
pub fn encode_with_room<T: Wire>(thing: &T, room: usize) -> Result<AlignedVec<ALIGNMENT>, ArchiveError> {
    encode_behind(thing, 0, room)
}

/// As [`encode_with_room`], behind so many zeroes, a multiple of [`ALIGNMENT`], that are for something else.
///
/// # Errors
/// As [`encode`].
pub fn encode_behind<T: Wire>(thing: &T, front: usize, room: usize) -> Result<AlignedVec<ALIGNMENT>, ArchiveError> {
    let bytes = with_arena(|arena| {
        let mut bytes = AlignedVec::with_capacity(front + room);
        bytes.resize(front, 0);
        let mut serializer = Serializer::new(Bounded(bytes), arena.acquire(), ());
        serialize_using(thing, &mut serializer).map(|_| serializer.into_writer().0)
    })
    .map_err(ArchiveError::Unfit)?;
    // Nothing else can be wrong with what was just made.
    check::<T>(&bytes[front..]).map_err(|_| ArchiveError::too_deep())?;
    Ok(bytes)
}

/// Decodes the archive in `bytes`, which may lie at any address.
///
/// # Errors
/// [`ArchiveError::Malformed`] unless the bytes are an archive of a `T`.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, ArchiveError> {
    let malformed = |cause| ArchiveError::Malformed { len: bytes.len(), cause };
    if bytes.as_ptr().align_offset(ALIGNMENT) == 0 {
        decode_aligned(bytes).map_err(malformed)
    } else {
        let mut aligned = AlignedVec::<ALIGNMENT>::with_capacity(bytes.len());
        aligned.extend_from_slice(bytes);
        decode_aligned(&aligned).map_err(malformed)
    }
}

/// Returns the contents of the archive in `bytes`, to be looked at where it lies; that must be a multiple of
/// [`ALIGNMENT`].
///
/// # Errors
/// As [`decode`].
pub fn view<T: Wire>(bytes: &[u8]) -> Result<&T::Archived, ArchiveError> {
    check::<T>(bytes).map_err(|cause| ArchiveError::Malformed { len: bytes.len(), cause })
}

/// Form in which fields of plain bytes are archived: as any other vector, but taken out in one piece.
///
/// ```
/// # use rkyv::{Archive, Deserialize, Serialize};
/// #[derive(Archive, Serialize, Deserialize)]
/// struct Blob {
///     #[rkyv(with = instanton::data::archive::Bytes)]
///     bytes: Vec<u8>,
/// }
/// ```
#[derive(Debug)]
pub struct Bytes;

impl ArchiveWith<Vec<u8>> for Bytes {
    type Archived = <Vec<u8> as Archive>::Archived;
    type Resolver = <Vec<u8> as Archive>::Resolver;

    fn resolve_with(field: &Vec<u8>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        field.resolve(resolver, out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<Vec<u8>, S> for Bytes
where
    Vec<u8>: Serialize<S>,
{
    fn serialize_with(field: &Vec<u8>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        field.serialize(serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<<Vec<u8> as Archive>::Archived, Vec<u8>, D> for Bytes {
    fn deserialize_with(field: &<Vec<u8> as Archive>::Archived, _: &mut D) -> Result<Vec<u8>, D::Error> {
        Ok(field.as_slice().to_vec())
    }
}

/// Form in which fields that may have more of their own kind in them are archived: as any other, to a limited depth.
#[derive(Debug)]
pub struct Nested;

thread_local! {
    /// Fields in one another that this thread archives just now.
    static LEVELS: Cell<isize> = const { Cell::new(0) };
}

/// Archives as a peer does that keeps no limit.
#[cfg(test)]
pub(super) fn without_limit<T>(archive: impl FnOnce() -> T) -> T {
    let levels = LEVELS.replace(isize::MIN / 2);
    let archived = archive();
    LEVELS.set(levels);
    archived
}

/// One of them.
struct Level;

impl Level {
    fn enter() -> Option<Self> {
        let levels = LEVELS.get();
        (levels < MAX_POINTERS as isize).then(|| {
            LEVELS.set(levels + 1);
            Level
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        LEVELS.set(LEVELS.get() - 1);
    }
}

impl<F: Archive> ArchiveWith<F> for Nested {
    type Archived = F::Archived;
    type Resolver = F::Resolver;

    fn resolve_with(field: &F, resolver: Self::Resolver, out: Place<Self::Archived>) {
        field.resolve(resolver, out);
    }
}

impl<F: Serialize<S>, S: Fallible<Error: Source> + ?Sized> SerializeWith<F, S> for Nested {
    fn serialize_with(field: &F, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        let _level = Level::enter().ok_or_else(|| S::Error::new(TooDeep))?;
        field.serialize(serializer)
    }
}

impl<F: Archive<Archived: Deserialize<F, D>>, D: Fallible + ?Sized> DeserializeWith<F::Archived, F, D> for Nested {
    fn deserialize_with(field: &F::Archived, deserializer: &mut D) -> Result<F, D::Error> {
        field.deserialize(deserializer)
    }
}

/// A value as an archive.
///
/// # Errors
/// As [`encode`].
///
/// ```
/// use instanton::data::{Value, archive};
/// let bytes = archive::to_archive(&Value::from("node7"))?;
/// assert_eq!(archive::from_archive(&bytes)?, Value::from("node7"));
/// assert!(archive::from_archive(&bytes[1..]).is_err());
/// # Ok::<(), archive::ArchiveError>(())
/// ```
pub fn to_archive(value: &Value) -> Result<AlignedVec<ALIGNMENT>, ArchiveError> {
    encode(value)
}

/// A value out of an archive.
///
/// # Errors
/// As [`decode`].
pub fn from_archive(bytes: &[u8]) -> Result<Value, ArchiveError> {
    decode(bytes)
}

fn decode_aligned<T: Wire>(bytes: &[u8]) -> Result<T, BoxedError> {
    deserialize_using(check::<T>(bytes)?, &mut ())
}

fn check<T: Wire>(bytes: &[u8]) -> Result<&T::Archived, BoxedError> {
    let mut validator = ArchiveValidator::with_max_depth(bytes, NonZeroUsize::new(MAX_POINTERS));
    access_with_context::<T::Archived, _, BoxedError>(bytes, &mut validator)
}
