//! Parsers of the door, as functions of bytes alone, for tests that damage them: each returns whether it takes them.
use std::io::Read;

use super::ack;
use super::body::{DESCRIBED, PLAIN};
use super::connection::{Breach, Incoming, next};
use super::conversation::{Conversation, Step};
use super::requests::{self, Asked};
use crate::account::Account;
use crate::data::{Info, Nspace, Pdata, Posted, Proc, Rank, Status, Value};
use crate::message::{Forward, GroupCall, LARGEST, Reply, Request};
use crate::transport::input::{CHUNK, Fill, Input};
use crate::wire::Form;

/// Bytes that come at a time: messages come in pieces.
const PIECE: u64 = 100;
/// Bytes in front of requests whose integers have the width of their type.
const PLAIN_FIXED: u8 = 3;
const DESCRIBED_FIXED: u8 = 4;
/// Bytes that a process may make the server hold.
const LIMIT: u64 = 32 << 20;

/// The first message of a peer.
pub fn is_ack(bytes: &[u8]) -> bool {
    let Some((header, body)) = bytes.split_first_chunk() else { return false };
    ack::length(header).and_then(|len| body.get(..len)).is_some_and(|body| ack::parse(body).is_ok())
}

/// The body of a request, and in front of it the form of its packs.
pub fn is_request(bytes: &[u8]) -> bool {
    let (form, body) = match bytes {
        [PLAIN, body @ ..] => (Form::Plain, body),
        [DESCRIBED, body @ ..] => (Form::Described, body),
        [PLAIN_FIXED, body @ ..] => (Form::PlainFixed, body),
        [DESCRIBED_FIXED, body @ ..] => (Form::DescribedFixed, body),
        _ => return false,
    };
    requests::read(body, form, 1, usize::MAX).is_ok_and(|asked| asked != Asked::NotSupported)
}

/// Reads all that a peer says, from its first message on. Each of its requests is answered.
pub fn is_conversation(bytes: &[u8]) -> bool {
    converse(bytes).is_ok_and(|is_whole| is_whole)
}

/// Returns whether it ends with a message.
fn converse(mut bytes: &[u8]) -> Result<bool, Breach> {
    let account = Account::of_job("job", LIMIT);
    let (mut input, mut scratch) = (Input::default(), [0; CHUNK]);
    let mut server = Answers { client: None, posted: Vec::new() };
    loop {
        let filled = input.fill(&mut scratch, usize::MAX, false, |into| bytes.by_ref().take(PIECE).read(into))?;
        loop {
            let is_first = server.client.is_none();
            let most = if is_first { ack::MAX } else { LARGEST };
            let Some(incoming) = next(&mut input, &account, is_first, most)? else { break };
            server.take(incoming)?;
        }
        if filled == Fill::Closed {
            return Ok(server.client.is_some() && !input.is_mid_message());
        }
    }
}

/// A server that answers at once.
struct Answers {
    client: Option<Conversation>,
    /// Entries that the client has posted.
    posted: Vec<Info>,
}

impl Answers {
    fn take(&mut self, incoming: Incoming<'_>) -> Result<(), Breach> {
        let Some(client) = &mut self.client else {
            if let Incoming::Ack(body) = incoming {
                self.client = Some(Conversation::new(&ack::parse(body)?, None));
            }
            return Ok(());
        };
        let mut step = match incoming {
            Incoming::Message(header, body) => {
                client.asked(header.tag, client.reading().read(header.tag, body, usize::MAX)?)?
            }
            Incoming::Refused(header) => Some(client.refused(header.tag)?),
            Incoming::Ack(_) => return Err(Breach::NotStock),
        };
        while let Some(next) = step.take() {
            step = match next {
                Step::Ask(number, request) => {
                    let reply = reply(request, &mut self.posted);
                    // The data that a client has posted goes to others, whose fault it is not.
                    client.replied(number, reply).expect("what was read can be told")
                }
                Step::Gather(number, _) => client.gathered(number, None)?,
                Step::JobInfo(..) | Step::Send(..) => None,
            };
        }
        Ok(())
    }
}

/// A good answer, with what came with the request where that fits.
fn reply(request: Request, posted: &mut Vec<Info>) -> Reply {
    const OK: Status = Status::SUCCESS;
    match request {
        Request::Commit { entries } => {
            *posted = entries.into_iter().map(|Posted { key, value, .. }| Info { key, flags: 0, value }).collect();
            Reply::Done(OK)
        }
        Request::Get { key: None, .. } => Reply::Infos(OK, posted.clone()),
        Request::Get { proc, key: Some(key), .. } => match posted.iter().find(|info| info.key == key) {
            Some(Info { value, .. }) => Reply::Value(value.clone()),
            None => Reply::Value(Value::Proc(proc)),
        },
        Request::JobControl { directives: infos, .. } => Reply::Infos(OK, infos),
        Request::Group { call: GroupCall::Construct { info, .. } | GroupCall::Destruct { info }, .. } => {
            Reply::Infos(OK, info)
        }
        Request::Forward(forward) => match forward {
            Forward::Lookup { info, .. } => {
                let Ok(nspace) = Nspace::new("other") else { return Reply::Done(OK) };
                let found = |Info { key, value, .. }| Pdata { proc: Proc::new(nspace.clone(), Rank(0)), key, value };
                Reply::Published(OK, info.into_iter().map(found).collect())
            }
            Forward::Spawn { job_info, .. } => match job_info.first().map(|info| Nspace::new(info.key.as_bytes())) {
                Some(Ok(nspace)) => Reply::Spawned(nspace),
                _ => Reply::Done(Status::ERR_NOT_FOUND),
            },
            Forward::Query { queries } => {
                Reply::Infos(OK, queries.into_iter().flat_map(|query| query.qualifiers).collect())
            }
            Forward::Allocate { info, .. } => Reply::Infos(OK, info),
            Forward::GetCredential { directives } => Reply::Credential(vec![1; 9], directives),
            Forward::Monitor { directives, .. } | Forward::ValidateCredential { directives, .. } => {
                Reply::Infos(Status::ERR_PARTIAL_SUCCESS, directives)
            }
            _ => Reply::Done(OK),
        },
        _ => Reply::Done(OK),
    }
}
