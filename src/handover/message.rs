//! Requests of readers and answers of listeners: a few bytes of fixed length each.
//!
//! ```text
//! request   0   4  magic "INSH"           answer   0   1  outcome: 0 given, 1 refused, 2 no room, 3 later
//!           4   2  version                         1   1  number of descriptors that come with it
//!           6   2  wish: 1 segments, 2 page        2   6  zero
//!           8  16  token
//!          24  16  segments that the reader has
//! ```
use crate::store::Have;

/// Bytes of a token.
pub const TOKEN: usize = 16;
/// Proof that its owner was told the address.
pub type Token = [u8; TOKEN];

/// Bytes of a request.
pub const REQUEST: usize = 24 + Have::BYTES;
/// Bytes of an answer.
pub const ANSWER: usize = 8;
const MAGIC: [u8; 4] = *b"INSH";
const VERSION: u16 = 1;

/// The thing that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Segments that the reader has not.
    Segments,
    /// A page for guards.
    Page,
}

/// A request of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub wish: Wish,
    pub token: Token,
    pub have: Have,
}

impl Request {
    pub fn to_bytes(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = if self.wish == Wish::Segments { 1 } else { 2 };
        bytes[8..24].copy_from_slice(&self.token);
        bytes[24..].copy_from_slice(&self.have.to_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; REQUEST]) -> Option<Self> {
        let (head, rest) = bytes.split_at(8);
        let (token, have) = rest.split_first_chunk::<TOKEN>()?;
        let [m0, m1, m2, m3, v0, v1, wish, 0] = *head else { return None };
        let wish = match wish {
            1 => Wish::Segments,
            2 => Wish::Page,
            _ => return None,
        };
        let known = [m0, m1, m2, m3] == MAGIC && u16::from_le_bytes([v0, v1]) == VERSION;
        known.then_some(Self { wish, token: *token, have: Have::from_bytes(have)? })
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Given,
    Refused,
    NoRoom,
    /// The descriptors cannot be passed just now: ask again.
    Later,
}

/// An answer, without the descriptors.
pub fn answer(outcome: Outcome, descriptors: usize) -> [u8; ANSWER] {
    [outcome as u8, descriptors as u8, 0, 0, 0, 0, 0, 0]
}

/// The outcome and the number of descriptors of an answer.
pub fn outcome(bytes: [u8; ANSWER]) -> Option<(Outcome, usize)> {
    let outcome = match bytes[0] {
        0 => Outcome::Given,
        1 => Outcome::Refused,
        2 => Outcome::NoRoom,
        3 => Outcome::Later,
        _ => return None,
    };
    Some((outcome, bytes[1].into()))
}

/// The text by which readers find a listener: its abstract name, and the token.
pub fn address(name: &str, token: &Token) -> String {
    format!("{SCHEME}{name}:{}", hex(token))
}

/// The name and token in an address.
pub fn parse(address: &str) -> Option<(&str, Token)> {
    let (name, token) = address.strip_prefix(SCHEME)?.split_once(':')?;
    let mut bytes = [0; TOKEN];
    if token.len() != 2 * TOKEN || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) || name.is_empty() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(token.get(at..at + 2)?, 16).ok()?;
    }
    Some((name, bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const SCHEME: &str = "instanton-store:1:";
/// The version of addresses in it.
pub const ADDRESSES: u32 = 1;

/// The version of an address, ours or another one.
pub fn version(address: &str) -> Option<u32> {
    address.strip_prefix("instanton-store:")?.split_once(':')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_and_others_do_not() {
        let have = Have { job: true, info: 3, modex: 9 };
        for wish in [Wish::Segments, Wish::Page] {
            let request = Request { wish, token: [7; TOKEN], have };
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        let good = Request { wish: Wish::Page, token: [7; TOKEN], have }.to_bytes();
        for at in (0..8).chain(24..28) {
            let mut bad = good;
            bad[at] ^= 0x40;
            assert_eq!(Request::from_bytes(&bad), None, "byte {at}");
        }
        assert_eq!(outcome(answer(Outcome::NoRoom, 64)), Some((Outcome::NoRoom, 64)));
        assert_eq!(outcome([4; ANSWER]), None);
    }

    #[test]
    fn addresses_come_apart_and_others_do_not() {
        let address = address("a name", &[0x5a; TOKEN]);
        assert_eq!(parse(&address), Some(("a name", [0x5a; TOKEN])));
        for cut in 0..address.len() {
            assert_eq!(parse(&address[..cut]), None, "cut at {cut}");
        }
        assert_eq!(parse(&format!("{address}0")), None);
        assert_eq!(parse(&address.replace('5', "+")), None);
    }
}
