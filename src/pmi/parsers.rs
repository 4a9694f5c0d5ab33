//! Parsers of the door, as functions of bytes alone, for tests that damage them.
use super::connection::{next_frame, next_line};
use super::conversation::{Conversation, Step};
use super::seat;
use super::version::Version;
use super::words::LONGEST;
use crate::account::Account;
use crate::data::{Nspace, Proc, Rank, Status};
use crate::message::Reply;
use crate::transport::input::{CHUNK, Input};

/// Bytes that come at a time: messages come in pieces.
const PIECE: usize = 100;

/// All that a process of PMI-1 or PMI-2 says, whose first byte is the version; every request fails.
pub fn is_pmi(bytes: &[u8]) -> bool {
    let (version, mut rest) = match bytes.split_first() {
        Some((b'1', rest)) => (Version::One(1), rest),
        Some((b'2', rest)) => (Version::Two, rest),
        Some((b's', line)) => return seat::read(line).is_some(),
        _ => return false,
    };
    let proc = Proc::new(Nspace::new("job").expect("a legal name"), Rank(0));
    let (mut input, account, mut scratch) = (Input::default(), Account::unlimited(), Box::new([0; CHUNK]));
    let mut conversation = Conversation::new(proc, version, None, None, account.clone());
    let mut has_said = false;
    while !rest.is_empty() {
        let piece;
        (piece, rest) = rest.split_at(rest.len().min(PIECE));
        let filled = input.fill(&mut scratch, usize::MAX, false, |into| {
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        });
        if filled.is_err() {
            return false;
        }
        loop {
            let said = match version {
                Version::One(_) => {
                    next_line(&mut input, &account, LONGEST).map(|line| line.map(|line| conversation.line(line)))
                }
                Version::Two => next_frame(&mut input, &account).map(|body| body.map(|body| conversation.frame(body))),
            };
            match said {
                Ok(None) => break,
                Ok(Some(Ok(Some(Step::Ask(number, _))))) => {
                    let mut next = conversation.replied(number, Reply::Done(Status::ERR_NOT_FOUND));
                    while let Some(Step::Ask(number, _)) = next {
                        next = conversation.replied(number, Reply::Done(Status::ERR_NOT_FOUND));
                    }
                    has_said = true;
                }
                Ok(Some(Ok(_))) => has_said = true,
                Ok(Some(Err(_))) | Err(_) => return false,
            }
        }
    }
    has_said
}
