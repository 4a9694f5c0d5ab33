//! Bytes that have come in on a connection and are not whole messages yet.
use std::io;

use crate::account::{Account, Charge, Kind};
use crate::sys::later;

/// Bytes taken from a socket at a time.
pub const CHUNK: usize = 64 << 10;
/// Bytes of a message that a connection may take in without a charge.
const UNCHARGED: usize = CHUNK;
/// Short reads of one turn, where an end is looked for.
const SHORT_READS: usize = 4;

/// Result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// All there was.
    Drained,
    /// A turn's worth; there may be more.
    More,
    /// The other end is closed.
    Closed,
}

/// Part of a message that has come.
#[derive(Debug)]
pub enum Taken<'a> {
    /// Not all of it yet.
    Part,
    /// More than the account has left. The bytes of it that come are discarded.
    Refused,
    /// All of it, without its header.
    Whole(&'a [u8]),
}

/// Bytes that have come in.
#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// Number of bytes that have become messages.
    taken: usize,
    /// Charge for a long message that has not come in whole, and the number of bytes that it ends with.
    long: Option<(Charge, usize)>,
    /// Number of bytes of a refused message that are still to be discarded.
    refused: usize,
    /// Bytes at the socket that are still its process's, once that has ended.
    rest: Option<usize>,
}

impl Drop for Input {
    fn drop(&mut self) {
        later::drop_sized(self.bytes.capacity(), std::mem::take(&mut self.bytes));
    }
}

impl Input {
    /// Reads what has come, a chunk at most, and no more than makes `most` bytes that wait. A long message is read up to
    /// its end alone, so that its memory is its own and need not grow.
    ///
    /// A short read has emptied the socket, and the poll tells of what comes after it; `to_end` says that it has told
    /// already, and that there may be an end to be found.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn fill(
        &mut self,
        scratch: &mut [u8; CHUNK],
        most: usize,
        to_end: bool,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Fill> {
        match std::mem::take(&mut self.taken) {
            all if all == self.bytes.len() => {
                self.bytes.clear();
                self.bytes.shrink_to(CHUNK);
            }
            some => drop(self.bytes.drain(..some)),
        }
        for _ in 0..SHORT_READS {
            if self.bytes.len() >= most {
                return Ok(Fill::Drained);
            }
            let missing = self.long.as_ref().and_then(|(_, end)| end.checked_sub(self.bytes.len()));
            let missing = missing.filter(|missing| *missing > 0).unwrap_or(CHUNK);
            let wanted = missing.min(self.rest.unwrap_or(CHUNK)).min(CHUNK);
            match read(&mut scratch[..wanted]) {
                Ok(0) => return Ok(Fill::Closed),
                Ok(n) => {
                    self.rest = self.rest.map(|rest| rest - n);
                    let discarded = self.refused.min(n);
                    self.refused -= discarded;
                    self.bytes.extend_from_slice(&scratch[discarded..n]);
                    if self.rest == Some(0) {
                        return Ok(Fill::Closed);
                    }
                    if n == wanted {
                        return Ok(Fill::More);
                    }
                    if !to_end {
                        return Ok(Fill::Drained);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Fill::Drained),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Fill::More)
    }

    /// The bytes that wait to become messages.
    #[inline]
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Takes the message that begins here, of a header and a body of so many bytes.
    #[inline]
    pub fn take(&mut self, account: &Account, header: usize, body: usize) -> Taken<'_> {
        if self.bytes.len() - self.taken < header + body {
            let is_charged = body <= UNCHARGED || self.long.is_some() || self.expect(account, header, body);
            return if is_charged { Taken::Part } else { self.refuse(header + body) };
        }
        self.long = None;
        let start = self.taken + header;
        self.taken = start + body;
        Taken::Whole(&self.bytes[start..self.taken])
    }

    /// Takes the body of the message out that was taken last, to be read elsewhere: bytes that end with it, and their
    /// charge. None where the account has no room for what is read from them, which takes as much; the message is gone
    /// then.
    pub fn detach(&mut self, account: &Account) -> Option<(Vec<u8>, Charge)> {
        let rest = self.bytes.split_off(self.taken);
        self.taken = 0;
        let bytes = std::mem::replace(&mut self.bytes, rest);
        // It has just been given back.
        let mut charge = account.force(Kind::Input, bytes.len());
        charge.resize(Kind::Input, 2 * bytes.len()).then_some((bytes, charge))
    }

    /// Charges a long message that has begun, and makes room for it. Returns whether there is room.
    fn expect(&mut self, account: &Account, header: usize, body: usize) -> bool {
        drop(self.bytes.drain(..std::mem::take(&mut self.taken)));
        let end = header + body;
        let Some(charge) = account.charge(Kind::Input, body) else { return false };
        self.long = Some((charge, end));
        self.bytes.try_reserve_exact(end - self.bytes.len()).is_ok()
    }

    #[cold]
    fn refuse(&mut self, message: usize) -> Taken<'static> {
        self.long = None;
        self.refused = message - (self.bytes.len() - self.taken);
        self.taken = self.bytes.len();
        Taken::Refused
    }

    /// Returns whether a long message is under way.
    pub fn is_mid_long(&self) -> bool {
        self.long.is_some()
    }

    /// Its process has ended: so many bytes at the socket are its own still, and no more. Returns whether there are any.
    /// The number that is told first counts.
    pub fn ends_after(&mut self, readable: impl FnOnce() -> usize) -> bool {
        *self.rest.get_or_insert_with(readable) > 0
    }

    /// Discards whatever comes from now on.
    pub fn refuse_all(&mut self) {
        *self = Input::default();
        self.refused = usize::MAX;
    }

    /// Returns whether the peer broke off in the middle of a message.
    pub fn is_mid_message(&self) -> bool {
        self.taken < self.bytes.len() || self.refused > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: usize = 8;

    /// Takes messages of these lengths, sent one behind the other, and returns how many bytes each turn has read.
    fn turns(input: &mut Input, account: &Account, bodies: &[usize]) -> Vec<usize> {
        let sent: Vec<u8> = bodies.iter().flat_map(|body| vec![*body as u8; HEADER + body]).collect();
        let (mut scratch, mut rest, mut turns) = (Box::new([0; CHUNK]), &sent[..], Vec::new());
        for body in bodies {
            loop {
                match input.take(account, HEADER, *body) {
                    Taken::Whole(bytes) => break assert_eq!(bytes, vec![*body as u8; *body]),
                    Taken::Refused => break,
                    Taken::Part => {}
                }
                let before = rest.len();
                input.fill(&mut scratch, usize::MAX, false, |into| io::Read::read(&mut rest, into)).unwrap();
                turns.push(before - rest.len());
            }
        }
        turns
    }

    #[test]
    fn a_turn_reads_a_chunk_and_no_more_than_the_end_of_a_long_message() {
        let (mut input, account) = (Input::default(), Account::unlimited());
        assert_eq!(turns(&mut input, &account, &[100, 200, 300]), [600 + 3 * HEADER], "short ones come together");
        assert_eq!(turns(&mut input, &account, &[10, 150 << 10, 20]), [CHUNK, CHUNK, (22 << 10) + 10 + 2 * HEADER, 28]);
        assert!(!input.is_mid_long() && !input.is_mid_message());
    }

    #[test]
    fn who_goes_on_sending_a_little_has_an_end_of_its_turn() {
        let (mut input, mut scratch, mut reads) = (Input::default(), Box::new([0; CHUNK]), 0);
        let read = |_: &mut [u8]| {
            reads += 1;
            Ok(1)
        };
        assert_eq!(input.fill(&mut scratch, usize::MAX, true, read).unwrap(), Fill::More);
        assert_eq!(reads, SHORT_READS);
    }

    #[test]
    fn a_long_message_is_read_into_memory_of_its_size() {
        let (mut input, account) = (Input::default(), Account::unlimited());
        let _ = turns(&mut input, &account, &[10, 5 << 20]);
        let (bytes, _charge) = input.detach(&account).unwrap();
        assert_eq!((bytes.len(), bytes.capacity()), (HEADER + (5 << 20), HEADER + (5 << 20)));
        assert_eq!(turns(&mut input, &account, &[1 << 20, 7]).last(), Some(&(7 + HEADER)));
    }

    #[test]
    fn a_long_message_without_room_is_discarded_and_nothing_behind_it() {
        let (mut input, account) = (Input::default(), Account::of_job("a job", 1 << 20));
        let _ = turns(&mut input, &account, &[10, 2 << 20, 30, 100 << 10, 40]);
        assert!(!input.is_mid_message());
    }
}
