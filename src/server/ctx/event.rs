//! Events on their way: what is raised, by whom, and what follows when it has been passed on.
use std::fmt;

use super::done::Done;
use super::ids::Caller;
use crate::data::{DataRange, Info, Nspace, Proc, Status};
use crate::message::door::PeerId;

/// Attribute of an event (PROC): the server that has raised it by its own knowledge. No client can set it.
const SAID_BY: &str = "instanton.event.said.by";

/// An event, as clients and hosts see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub status: Status,
    /// The process in whose name it is raised.
    pub source: Proc,
    pub range: DataRange,
    pub info: Vec<Info>,
    /// Number of the vote of those who hear of it here, where they are to decide something.
    pub vote: Option<u64>,
}

impl Event {
    /// Says that this server has raised it, to servers that its host relays it to.
    pub fn sign(&mut self, server: Proc) {
        self.info.push(Info::new(SAID_BY, server));
    }

    /// Takes the name of the server out that has raised it. Returns whether there was one.
    pub fn take_signature(&mut self) -> bool {
        let given = self.info.len();
        self.info.retain(|info| info.key != SAID_BY);
        self.info.len() < given
    }
}

/// Origin of an event: the party that raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client, which tells its own handlers itself.
    Peer(PeerId),
    /// The embedding program, in its own name or passing one on.
    Program,
    /// This server, for one of its processes.
    Library,
}

/// Continuation of a raise: who learns whether the event has reached everybody it is for.
pub enum AfterRaise {
    /// Nobody; a failure goes to the trace.
    Nothing,
    /// A client, as the answer to its request.
    Reply(Caller),
    /// The embedding program.
    Done(Done<()>),
    /// The groups: a failure comes back to them as an [`Effect::Unreached`](super::effect::Effect::Unreached).
    Group {
        group: Nspace,
        /// Number of the invitation that was open under that name.
        number: Option<u64>,
        /// Code of the event.
        status: Status,
    },
}

impl fmt::Debug for AfterRaise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AfterRaise::Nothing => f.write_str("Nothing"),
            AfterRaise::Reply(caller) => f.debug_tuple("Reply").field(caller).finish(),
            AfterRaise::Done(_) => f.write_str("Done"),
            AfterRaise::Group { group, number, status } => {
                f.debug_struct("Group").field("group", group).field("number", number).field("status", status).finish()
            }
        }
    }
}
