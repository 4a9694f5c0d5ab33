//! Messages on their way out of a connection, and what of them its peer does not take yet.
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::sync::{Arc, Weak};

use mio::event::Source;
use mio::{Interest, Registry, Token};

use super::input::CHUNK;
use crate::account::{Account, Charge, Kind};
use crate::sys::later;

/// Most bytes that wait for a peer that does not read before it is cut off. One message more than this fits always.
pub const MAX_QUEUED: usize = 64 << 20;
/// Most bytes of a queue that are sent at once, and not in turns.
pub const SENT_AT_ONCE: usize = CHUNK;
/// Most bytes that are sent in one turn.
pub const SENT_PER_TURN: usize = 4 * CHUNK;
/// Messages that one call sends at most.
const TOGETHER: usize = 32;
/// Messages that a connection may leave unread without a charge, and their bytes.
const UNCHARGED: (usize, usize) = (TOGETHER, CHUNK);

/// Reason why a message cannot be queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The peer does not read.
    #[error("{0} bytes wait to be read")]
    Unread(usize),
    /// The account of the process has not enough left.
    #[error("{0} bytes more to be read are over the limit of its job")]
    OverLimit(usize),
}

/// Result of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Nothing is queued any more.
    Empty,
    /// The peer may take more: others go first.
    More,
    /// The rest waits until the peer reads.
    Waits,
    /// The rest waits for a message that is still to be made.
    Kept,
}

/// Has the poll tell of room at a peer's socket for as long as bytes wait for it.
///
/// # Errors
/// The kernel's.
pub fn watch_for_room(
    flushed: Flush,
    is_watched: &mut bool,
    registry: &Registry,
    (socket, token): (&mut impl Source, Token),
) -> io::Result<()> {
    let waits = flushed == Flush::Waits;
    if waits != *is_watched {
        let interest = if waits { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        registry.reregister(socket, token, interest)?;
        *is_watched = waits;
    }
    Ok(())
}

/// Things that belong to a message beside its bytes.
pub trait Companion: Send + 'static {
    /// Returns whether the message begins with a call of its own, which takes it.
    fn goes_alone(&self) -> bool {
        false
    }
}

impl Companion for () {}

/// Message that is queued.
struct Queued<B, T> {
    /// None while they are still to come.
    bytes: Option<B>,
    /// Mark of the place of a message whose bytes were still to come.
    mark: Option<Arc<()>>,
    /// Number of its bytes, or of those that are expected.
    len: usize,
    sent: usize,
    /// Anything else that belongs to the message.
    with: T,
    /// None for one of a few short messages, and for bytes that are charged already.
    charge: Option<Charge>,
}

/// Place of a message whose bytes are still to come.
#[derive(Clone, Debug)]
pub struct Kept(Weak<()>);

impl Kept {
    /// Returns whether the message is still to be sent.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Messages that are queued.
pub struct Output<B: Send + 'static, T: Companion> {
    queue: VecDeque<Queued<B, T>>,
    /// Number of their bytes.
    queued: usize,
}

impl<B: Send + 'static, T: Companion> Drop for Output<B, T> {
    fn drop(&mut self) {
        let bytes: Vec<B> = self.queue.drain(..).filter_map(|message| message.bytes).collect();
        later::drop_sized(self.queued, bytes);
    }
}

impl<B: Deref<Target = [u8]> + Send + 'static, T: Companion> Output<B, T> {
    pub fn new() -> Self {
        Output { queue: VecDeque::new(), queued: 0 }
    }

    /// Returns an error if the peer has left too much unread already.
    ///
    /// # Errors
    /// [`Full::Unread`].
    pub fn check(&self) -> Result<(), Full> {
        if self.queued > MAX_QUEUED { Err(Full::Unread(self.queued)) } else { Ok(()) }
    }

    /// Queues bytes, charged to this account; to none where they are charged already.
    ///
    /// # Errors
    /// [`Full::OverLimit`]: nothing is queued then.
    pub fn push(&mut self, bytes: B, with: T, account: Option<&Account>) -> Result<(), Full> {
        // A few short messages are mostly gone at once.
        let is_charged = self.queue.len() >= UNCHARGED.0 || self.queued + bytes.len() > UNCHARGED.1;
        let charge = match account.filter(|_| is_charged) {
            Some(account) => {
                Some(account.charge(Kind::Output, bytes.len()).ok_or_else(|| Full::OverLimit(bytes.len()))?)
            }
            None => None,
        };
        self.add(Queued { len: bytes.len(), bytes: Some(bytes), mark: None, sent: 0, with, charge });
        Ok(())
    }

    fn add(&mut self, message: Queued<B, T>) {
        self.queued += message.len;
        self.queue.push_back(message);
    }

    /// Keeps a place for a message of about so many bytes, which are charged to this account from now on. A message
    /// that is queued behind it waits until it is [filled](Self::fill).
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn keep(&mut self, len: usize, with: T, account: &Account) -> Result<Kept, Full> {
        let charge = Some(account.charge(Kind::Output, len).ok_or(Full::OverLimit(len))?);
        let mark = Arc::new(());
        let kept = Kept(Arc::downgrade(&mark));
        self.add(Queued { bytes: None, mark: Some(mark), len, sent: 0, with, charge });
        Ok(kept)
    }

    /// Fills a place with the bytes of its message; one that is gone stays so.
    ///
    /// # Errors
    /// [`Full::OverLimit`] where there are more of them than the account has room for: the place is still kept then.
    pub fn fill(&mut self, kept: &Kept, bytes: B) -> Result<(), Full> {
        let is_it = |message: &&mut Queued<B, T>| message.mark.as_ref().map(Arc::as_ptr) == Some(kept.0.as_ptr());
        let (len, message) = (bytes.len(), self.queue.iter_mut().find(is_it));
        let Some(message) = message else {
            later::drop_sized(len, bytes);
            return Ok(());
        };
        if message.charge.as_mut().is_some_and(|charge| !charge.resize(Kind::Output, len)) {
            later::drop_sized(len, bytes);
            return Err(Full::OverLimit(len));
        }
        self.queued = self.queued - message.len + len;
        (message.bytes, message.len) = (Some(bytes), len);
        Ok(())
    }

    /// Number of bytes that are queued, those of the oldest message that were sent included.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Companion of the oldest message.
    pub fn first(&self) -> Option<&T> {
        self.queue.front().map(|front| &front.with)
    }

    /// Sends what the peer takes, of `most` bytes. `send` is given pieces, and what belongs to their message where that
    /// goes alone and these are its first; `sent` is told of messages that are on their way.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn flush(
        &mut self,
        most: usize,
        mut send: impl FnMut(&[IoSlice<'_>], Option<&mut T>) -> io::Result<usize>,
        mut sent: impl FnMut(T),
    ) -> io::Result<Flush> {
        let mut left = most;
        while let Some(front) = self.queue.front_mut() {
            let Some(bytes) = &front.bytes else { return Ok(Flush::Kept) };
            if left == 0 {
                return Ok(Flush::More);
            }
            let taken = match front.sent == 0 && front.with.goes_alone() {
                true => send(&[IoSlice::new(&bytes[..bytes.len().min(left)])], Some(&mut front.with)),
                false => {
                    let (pieces, count) = self.pieces(left);
                    send(&pieces[..count], None)
                }
            };
            match taken {
                Ok(n) => {
                    left -= n;
                    self.forget(n, &mut sent);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Flush::Waits),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Flush::Empty)
    }

    /// Returns so many bytes of the first messages, and the number of pieces that these are in.
    fn pieces(&self, most: usize) -> ([IoSlice<'_>; TOGETHER], usize) {
        let (mut pieces, mut count, mut left) = ([IoSlice::new(&[]); TOGETHER], 0, most);
        for message in self.queue.iter().take(TOGETHER) {
            let Some(bytes) = &message.bytes else { break };
            if left == 0 || count > 0 && message.with.goes_alone() {
                break;
            }
            let rest = &bytes[message.sent..];
            pieces[count] = IoSlice::new(&rest[..rest.len().min(left)]);
            left -= pieces[count].len();
            count += 1;
        }
        (pieces, count)
    }

    /// So many bytes are on their way.
    fn forget(&mut self, mut bytes: usize, sent: &mut impl FnMut(T)) {
        while let Some(front) = self.queue.front_mut().filter(|front| front.bytes.is_some()) {
            let more = bytes.min(front.len - front.sent);
            front.sent += more;
            bytes -= more;
            if front.sent < front.len {
                return;
            }
            if let Some(Queued { bytes, len, with, .. }) = self.queue.pop_front() {
                self.queued -= len;
                later::drop_sized(len, bytes);
                sent(with);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Plain = Output<Vec<u8>, u8>;

    impl Companion for u8 {
        fn goes_alone(&self) -> bool {
            *self > 100
        }
    }

    /// Sends all pieces.
    fn take(taken: &mut Vec<u8>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        pieces.iter().for_each(|piece| taken.extend(&**piece));
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    #[test]
    fn what_waits_is_charged_and_bounded_and_given_back_when_it_is_sent() {
        let account = Account::of_job("job", 1 << 30);
        let mut output = Plain::new();
        (0..UNCHARGED.0).for_each(|_| output.push(vec![0; 10], 1, Some(&account)).unwrap());
        assert_eq!(account.used(), 0, "they are gone at once");
        output.push(vec![0; 10], 2, Some(&account)).unwrap();
        output.push(vec![0; MAX_QUEUED], 3, None).unwrap();
        assert_eq!(account.used(), 10, "the last one is charged to somebody else");
        assert!(matches!(output.check(), Err(Full::Unread(_))));
        let mut sent = Vec::new();
        let flushed =
            output.flush(usize::MAX, |pieces, _| Ok(pieces[0].len().min(1 << 20)), |number| sent.push(number)).unwrap();
        assert_eq!((flushed, sent.len(), account.used()), (Flush::Empty, UNCHARGED.0 + 2, 0));
        assert!(sent.is_sorted());
        assert!(output.check().is_ok());
    }

    #[test]
    fn what_the_account_has_no_room_for_is_not_queued() {
        let account = Account::of_job("job", UNCHARGED.1 as u64);
        let mut output = Plain::new();
        assert!(matches!(output.push(vec![0; UNCHARGED.1 + 1], 1, Some(&account)), Err(Full::OverLimit(_))));
        let nothing = output.flush(usize::MAX, |_, _| panic!("nothing is queued"), |_| ());
        assert_eq!((nothing.unwrap(), account.used()), (Flush::Empty, 0));
    }

    #[test]
    fn what_is_still_to_be_made_keeps_its_place_and_is_charged_from_the_beginning() {
        let account = Account::of_job("job", 1 << 20);
        let mut output = Plain::new();
        output.push(vec![1; 10], 1, Some(&account)).unwrap();
        let (first, second) = (output.keep(1000, 2, &account).unwrap(), output.keep(2000, 3, &account).unwrap());
        output.push(vec![4; 10], 4, Some(&account)).unwrap();
        assert!(matches!(output.keep(1 << 20, 5, &account), Err(Full::OverLimit(_))));
        assert_eq!((account.used(), output.len()), (3000, 3020));
        let mut taken: Vec<u8> = Vec::new();
        let flush = |output: &mut Plain, taken: &mut Vec<u8>| {
            output.flush(usize::MAX, |pieces, _| take(taken, pieces), |_| ()).unwrap()
        };
        assert_eq!((flush(&mut output, &mut taken), taken.len()), (Flush::Kept, 10));
        output.fill(&second, vec![3; 1500]).unwrap();
        assert!(matches!(output.fill(&first, vec![2; 2 << 20]), Err(Full::OverLimit(_))), "more than was expected");
        assert_eq!((flush(&mut output, &mut taken), account.used(), first.is_there()), (Flush::Kept, 2500, true));
        output.fill(&first, vec![2; 500]).unwrap();
        assert_eq!((flush(&mut output, &mut taken), account.used(), output.len()), (Flush::Empty, 0, 0));
        taken.dedup();
        assert_eq!((taken, first.is_there()), (vec![1, 2, 3, 4], false));
        output.fill(&first, vec![2; 500]).unwrap();
        assert_eq!(output.len(), 0, "nobody waits for it");
    }

    #[test]
    fn what_belongs_to_a_message_goes_with_its_first_bytes() {
        let mut output = Plain::new();
        (101..103).for_each(|number| output.push(vec![number; 3], number, None).unwrap());
        let mut seen = Vec::new();
        let send = |pieces: &[IoSlice<'_>], with: Option<&mut u8>| {
            seen.push((pieces[0].len(), with.copied()));
            if seen.len() == 2 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(2.min(pieces[0].len())) }
        };
        output.flush(usize::MAX, send, |_| ()).unwrap();
        assert_eq!(seen, [(3, Some(101)), (1, None), (1, None), (3, Some(102)), (1, None)]);
    }

    #[test]
    fn messages_go_together_up_to_one_that_goes_alone_or_is_still_to_be_made() {
        let (account, mut output) = (Account::unlimited(), Plain::new());
        let push = |output: &mut Plain, number| output.push(vec![number; 3], number, None).unwrap();
        [1, 2, 103, 4, 5].into_iter().for_each(|number| push(&mut output, number));
        output.push(Vec::new(), 6, None).unwrap();
        let kept = output.keep(3, 7, &account).unwrap();
        push(&mut output, 8);
        let (mut taken, mut calls, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        let mut flush = |output: &mut Plain| {
            let send = |pieces: &[IoSlice<'_>], with: Option<&mut u8>| {
                calls.push((pieces.len(), with.copied()));
                // The second call takes a part.
                let last = pieces.len() - usize::from(calls.len() == 3);
                take(&mut taken, &pieces[..last])
            };
            output.flush(usize::MAX, send, |number| sent.push(number)).unwrap()
        };
        assert_eq!(flush(&mut output), Flush::Kept);
        output.fill(&kept, vec![7; 3]).unwrap();
        assert_eq!(flush(&mut output), Flush::Empty);
        assert_eq!(calls, [(2, None), (1, Some(103)), (3, None), (2, None)]);
        assert_eq!(sent, [1, 2, 103, 4, 5, 6, 7, 8]);
        taken.dedup();
        assert_eq!(taken, [1, 2, 103, 4, 5, 7, 8]);
    }

    #[test]
    fn no_more_is_sent_at_a_time_than_others_should_wait_for() {
        let mut output = Plain::new();
        (1..3).for_each(|number| output.push(vec![number; 5], number, None).unwrap());
        let mut taken: Vec<u8> = Vec::new();
        for (flushed, first, len) in [(Flush::More, Some(&1), 10), (Flush::More, Some(&2), 5), (Flush::Empty, None, 0)]
        {
            assert_eq!(output.flush(4, |pieces, _| take(&mut taken, pieces), |_| ()).unwrap(), flushed);
            assert_eq!((output.first(), output.len()), (first, len));
        }
        assert_eq!(taken, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    }
}
