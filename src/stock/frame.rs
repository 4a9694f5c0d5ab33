//! Header of each message: peer index, tag, length, padding; four bytes each.
//!
//! Numbers are big-endian, but for the length of the very first message, which is in the order of the sender.

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Tag of events that the server sends unasked.
pub const EVENT: u32 = 0;
/// Tag of a sign of life.
pub const HEARTBEAT: u32 = 1;
/// Tag of output that the server sends unasked.
pub const OUTPUT: u32 = 2;
/// Lowest tag that pairs an answer with its request.
pub const FIRST_DYNAMIC: u32 = 100;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Pairs an answer with its request.
    pub tag: u32,
    /// Bytes of the body.
    pub len: usize,
}

impl Header {
    /// Reads a header.
    pub fn parse(bytes: &[u8; HEADER]) -> Self {
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Header { tag: number(4), len: number(8) as usize }
    }

    /// The header's bytes. The peer index is that which every client is given.
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[4..8].copy_from_slice(&self.tag.to_be_bytes());
        out[8..12].copy_from_slice(&(self.len as u32).to_be_bytes());
        out
    }
}
