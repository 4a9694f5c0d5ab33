//! Frames: a fixed header, then an rkyv archive that is checked before it is looked at.
//!
//! ```text
//! 0   4  magic "INST"
//! 4   2  protocol version
//! 6   1  kind
//! 7   1  descriptors that come with the frame (SCM_RIGHTS)
//! 8   8  number: pairs a reply with its request; 0 for a push
//! 16  4  length of what follows
//! 20  4  zero
//! ```
//! Every number is little-endian. A frame that breaks a rule ends its connection; nobody else notices.
use rkyv::util::AlignedVec;

use crate::data::{Info, Value, archive, keys};
use crate::message::{LARGEST, Request};

/// Bytes of a frame's header.
pub const HEADER: usize = 24;
/// The protocol's version. A peer of another version is refused in the handshake, whose frames never change.
pub const VERSION: u16 = 2;
/// Longest body before the peer is known.
pub const MAX_HANDSHAKE: usize = 4096;
/// Longest body afterwards: bounds what one connection can make the other side hold.
pub const MAX_BODY: usize = LARGEST;
pub use crate::sys::socket::MAX_DESCRIPTORS;
/// Bytes in which most bodies fit.
const MOST: usize = 256;

const MAGIC: [u8; 4] = *b"INST";

/// Kind of a frame, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Hello`](super::handshake::Hello), client to server, the first frame.
    Hello = 1,
    /// [`Welcome`](super::handshake::Welcome), its answer.
    Welcome = 2,
    /// [`Request`], client to server.
    Request = 3,
    /// [`Reply`](crate::message::Reply), server to client.
    Reply = 4,
    /// [`Push`](crate::message::Push), server to client.
    Push = 5,
    /// A [`Request::Meet`] without attributes or with `COLLECT_DATA` alone, the most frequent of requests: the body is
    /// `seen`, and 1 if data are collected, 4 bytes each.
    Meet = 6,
    /// [`Attach`](super::handshake::Attach), tool to server, the first frame.
    Attach = 7,
}

/// A frame's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the body.
    pub kind: Kind,
    /// Pairs a reply with its request.
    pub number: u64,
    /// Bytes of the body.
    pub body: usize,
    /// Descriptors that come with it.
    pub descriptors: usize,
}

/// A frame that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Not our protocol.
    #[error("the frame begins with {0:02x?} instead of \"INST\"")]
    Magic([u8; 4]),
    /// Our protocol at another version.
    #[error("protocol version {0}; this side speaks {VERSION}")]
    Version(u16),
    /// An unknown kind, or one that this side does not take now.
    #[error("a frame of kind {0} is not expected here")]
    Kind(u8),
    /// Longer than allowed at this point.
    #[error("a body of {len} bytes; at most {max} are allowed")]
    Length {
        /// Bytes announced.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// More descriptors than allowed.
    #[error("{0} descriptors; at most {MAX_DESCRIPTORS} are allowed")]
    Descriptors(usize),
    /// The body is not what its kind says.
    #[error("a body of {len} bytes does not hold a {kind:?}: {source}")]
    Body {
        /// Kind that it should be.
        kind: Kind,
        /// Its length.
        len: usize,
        /// Fault that was found.
        source: archive::ArchiveError,
    },
}

impl Header {
    /// Reads a header; `max` bounds the body.
    ///
    /// # Errors
    /// Says which field is wrong.
    pub fn parse(bytes: &[u8; HEADER], max: usize) -> Result<Header, FrameError> {
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let kind = match bytes[6] {
            1 => Kind::Hello,
            2 => Kind::Welcome,
            3 => Kind::Request,
            4 => Kind::Reply,
            5 => Kind::Push,
            6 => Kind::Meet,
            7 => Kind::Attach,
            other => return Err(FrameError::Kind(other)),
        };
        let descriptors = usize::from(bytes[7]);
        if descriptors > MAX_DESCRIPTORS {
            return Err(FrameError::Descriptors(descriptors));
        }
        let body = announced(bytes);
        if body > max {
            return Err(FrameError::Length { len: body, max });
        }
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[8..16]);
        Ok(Header { kind, number: u64::from_le_bytes(number), body, descriptors })
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6] = self.kind as u8;
        out[7] = self.descriptors as u8;
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..20].copy_from_slice(&(self.body as u32).to_le_bytes());
        out
    }
}

/// Returns the length of the body that a header announces, whatever else is wrong with it.
pub fn announced(header: &[u8; HEADER]) -> usize {
    u32::from_le_bytes([header[16], header[17], header[18], header[19]]) as usize
}

/// A whole frame, ready to send.
///
/// # Errors
/// When the body would be longer than [`MAX_BODY`], or holds a value nested too deep.
pub fn encode<T: archive::Wire>(
    kind: Kind,
    number: u64,
    descriptors: usize,
    body: &T,
) -> Result<AlignedVec, FrameError> {
    let archived = archive::encode_with_room(body, MOST).map_err(|source| FrameError::Body { kind, len: 0, source })?;
    if archived.len() > MAX_BODY {
        return Err(FrameError::Length { len: archived.len(), max: MAX_BODY });
    }
    let mut out = AlignedVec::with_capacity(HEADER + archived.len());
    out.extend_from_slice(&Header { kind, number, body: archived.len(), descriptors }.bytes());
    out.extend_from_slice(&archived);
    Ok(out)
}

/// Bytes in front of a frame that is [encoded in one piece](encode_long), so that its body lies as an archive has to.
pub const BEFORE: usize = HEADER.next_multiple_of(archive::ALIGNMENT) - HEADER;

/// As [`encode`] without descriptors, for a body of about so many bytes, which are written once: the frame begins behind
/// the first [`BEFORE`] bytes.
///
/// # Errors
/// As [`encode`].
#[cfg(feature = "server")]
pub fn encode_long<T: archive::Wire>(kind: Kind, number: u64, body: &T, len: usize) -> Result<AlignedVec, FrameError> {
    let failed = |source| FrameError::Body { kind, len: 0, source };
    let mut out = archive::encode_behind(body, BEFORE + HEADER, len + MOST).map_err(failed)?;
    let len = out.len() - BEFORE - HEADER;
    if len > MAX_BODY {
        return Err(FrameError::Length { len, max: MAX_BODY });
    }
    let header = Header { kind, number, body: len, descriptors: 0 }.bytes();
    out[BEFORE..BEFORE + HEADER].copy_from_slice(&header);
    Ok(out)
}

/// A whole frame of a [`Request`], ready to send.
///
/// # Errors
/// As [`encode`].
pub fn request(request: &Request) -> Result<Frame, FrameError> {
    match request {
        Request::Meet { seen, info } if info.is_empty() || collects(info) => {
            Ok(Frame::Short(meet(*seen, collects(info))))
        }
        other => encode(Kind::Request, 0, 0, other).map(Frame::Long),
    }
}

/// The frame of a [`Request::Meet`] without attributes, or with `COLLECT_DATA` alone.
#[inline]
pub fn meet(seen: u32, collect: bool) -> [u8; HEADER + 8] {
    let body = (u64::from(seen) | u64::from(collect) << 32).to_le_bytes();
    let header = Header { kind: Kind::Meet, number: 0, body: body.len(), descriptors: 0 };
    let mut out = [0; HEADER + 8];
    out[..HEADER].copy_from_slice(&header.bytes());
    out[HEADER..].copy_from_slice(&body);
    out
}

/// Gives a frame its number, for a sender that makes frames before it knows their order.
#[inline]
pub fn renumber(frame: &mut [u8], number: u64) {
    frame[8..16].copy_from_slice(&number.to_le_bytes());
}

/// A request's frame: the shortest kind takes no memory of its own.
#[derive(Debug)]
pub enum Frame {
    /// Of [`Kind::Meet`].
    Short([u8; HEADER + 8]),
    /// Of any other.
    Long(AlignedVec),
}

impl Frame {
    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Frame::Short(bytes) => bytes,
            Frame::Long(bytes) => bytes,
        }
    }
}

/// Returns whether these attributes say only that data are collected.
fn collects(info: &[Info]) -> bool {
    matches!(info, [only] if only.flags == 0 && only.key == keys::COLLECT_DATA && only.value == Value::Bool(true))
}

/// The [`Request`] in a frame of one of its kinds.
///
/// # Errors
/// When the frame is of another kind, or its body is not valid.
pub fn request_in(kind: Kind, body: &[u8]) -> Result<Request, FrameError> {
    match kind {
        Kind::Request => decode(kind, body),
        Kind::Meet => {
            let (seen, collect) = meet_in(body)?;
            let info = if collect { vec![Info::new(keys::COLLECT_DATA, true)] } else { Vec::new() };
            Ok(Request::Meet { seen, info })
        }
        other => Err(FrameError::Kind(other as u8)),
    }
}

/// Reads a frame of [`Kind::Meet`]: the release count that was seen, and whether data are collected.
///
/// # Errors
/// When its body has another length.
#[inline]
pub fn meet_in(body: &[u8]) -> Result<(u32, bool), FrameError> {
    match body.try_into().map(u64::from_le_bytes) {
        Ok(body) => Ok((body as u32, body >> 32 != 0)),
        Err(_) => Err(FrameError::Length { len: body.len(), max: size_of::<u64>() }),
    }
}

/// The body of a frame of that kind. `body` may lie at any address.
///
/// # Errors
/// When it is not a valid archive of a `T`.
pub fn decode<T: archive::Wire>(kind: Kind, body: &[u8]) -> Result<T, FrameError> {
    archive::decode(body).map_err(|source| FrameError::Body { kind, len: body.len(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was() {
        let header = Header { kind: Kind::Reply, number: 7 << 40, body: 12345, descriptors: 3 };
        assert_eq!(Header::parse(&header.bytes(), MAX_BODY).unwrap(), header);
    }

    #[test]
    fn a_short_request_comes_back_as_it_was_and_has_one_length() {
        let meet = |info| Request::Meet { seen: 0xfedc_ba98, info };
        for (request, kind) in [
            (meet(Vec::new()), Kind::Meet),
            (meet(vec![Info::new(keys::COLLECT_DATA, true)]), Kind::Meet),
            (meet(vec![Info::new(keys::COLLECT_DATA, false)]), Kind::Request),
            (meet(vec![Info::new("k", true)]), Kind::Request),
        ] {
            let mut frame = super::request(&request).unwrap();
            let bytes = frame.bytes();
            renumber(bytes, 7 << 40);
            let header = Header::parse(bytes[..HEADER].try_into().unwrap(), MAX_BODY).unwrap();
            assert_eq!((header.kind, header.number, header.body), (kind, 7 << 40, bytes.len() - HEADER));
            assert_eq!(request_in(kind, &bytes[HEADER..]).unwrap(), request);
        }
        assert!(matches!(request_in(Kind::Meet, &[0; 4]), Err(FrameError::Length { len: 4, .. })));
        assert!(matches!(request_in(Kind::Push, &[0; 4]), Err(FrameError::Kind(5))));
    }

    #[cfg(feature = "server")]
    #[test]
    fn a_long_body_is_encoded_as_any_other() {
        let request = Request::Meet { seen: 7, info: vec![Info::new("k", vec![7u8; 100_000])] };
        let [whole, long] = [encode(Kind::Request, 9, 0, &request), encode_long(Kind::Request, 9, &request, 10)];
        assert_eq!(whole.unwrap()[..], long.unwrap()[BEFORE..]);
    }

    #[test]
    fn each_wrong_field_is_named() {
        let good = Header { kind: Kind::Request, number: 1, body: 100, descriptors: 0 }.bytes();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Header::parse(&bytes, 100)
        };
        assert!(matches!(with(0, b'X'), Err(FrameError::Magic(_))));
        assert!(matches!(with(4, 0), Err(FrameError::Version(0))));
        assert!(matches!(with(6, 9), Err(FrameError::Kind(9))));
        assert!(matches!(with(7, 255), Err(FrameError::Descriptors(255))));
        assert!(matches!(with(16, 101), Err(FrameError::Length { len: 101, max: 100 })));
    }
}
