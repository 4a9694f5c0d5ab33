//! The front door of a server: peers come in through it, and answers go out.
//!
//! A door owns sockets and knows how bytes become messages; the server behind it owns all the rest. A door tells the
//! server's side ([`Callers`]) who has come, what it asks and that it is gone; the server hands it [`Outgoing`]
//! messages. Both run on the server's control thread and neither ever blocks.
use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::account::{Account, Charge, Kind};
use crate::data::{Info, Key, Nspace, Proc, Rank, Status, Value};
use crate::message::{DescriptorKind, Push, Reply, Request};
use crate::wire::Form;

/// A connection: which door, and which of its connections. Never used twice by one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId {
    /// Number of the door.
    pub door: u8,
    /// Number of the connection.
    pub connection: u64,
}

/// Claim of a peer to be somebody.
#[derive(Clone, Debug)]
pub enum Claim {
    /// A process of a job that is registered.
    Process {
        /// Name of the process.
        proc: Proc,
        /// The token that it shows, where its protocol has one.
        token: Option<[u8; 32]>,
    },
    /// A tool.
    Tool {
        /// The name it has or wants.
        proc: Option<Proc>,
        /// The server it means.
        server: Option<Nspace>,
    },
}

/// User and group of a peer, as the kernel says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its user.
    pub uid: u32,
    /// Its group; none where the kernel tells the user alone.
    pub gid: Option<u32>,
}

/// Abilities of a peer, as its door knows them. The server asks for these and never which door a peer came by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Layout version of the segments that it maps; none where it maps nothing.
    pub maps_layout: Option<u32>,
    /// True if it watches its job's word of release, so that it need not be sent the end of a fence, or of a call about a
    /// group of all.
    pub waits_at_words: bool,
    /// True if it answers events about groups with a decision.
    pub votes: bool,
    /// True if it takes the information of its job as values when it is let in.
    pub takes_job_info: bool,
    /// True if the answer to a Get of what a process has posted brings all of that, because the peer decides all its Gets
    /// about that process by one answer.
    pub takes_all_posted: bool,
    /// Form of the values in the [files](JobFiles) that it reads; none where it reads none.
    pub reads_files: Option<Form>,
    /// True if it invites to groups, joins and leaves them by raising events, because it knows no requests for that.
    pub groups_by_events: bool,
}

/// A peer that says who it is.
#[derive(Debug)]
pub struct Arrival {
    /// Claim to be somebody.
    pub claim: Claim,
    /// Abilities of the peer.
    pub capabilities: Capabilities,
    /// Attributes that it gives of itself.
    pub info: Vec<Info>,
    /// The kernel's word on its user and group; none where the kernel does not know them.
    pub user: Option<User>,
    /// Its process id, 0 where it is not known: information only.
    pub pid: i32,
    /// Becomes readable when its process ends; none where the kernel does not show the process.
    pub process: Option<OwnedFd>,
}

/// Callback for what is said of a node, an application or a rank; it says whether to go on.
pub type Each<'a> = &'a mut dyn FnMut(Vec<Info>) -> ControlFlow<()>;

/// The information of a job, as it was at one time, for peers that map nothing. Any thread reads it.
pub trait JobInformation: Send + Sync + fmt::Debug {
    /// Name of the job.
    fn nspace(&self) -> &Nspace;
    /// Processes of the job.
    fn ranks(&self) -> u32;
    /// Ranks of this node, in order.
    fn local(&self) -> &[Rank];
    /// Returns what is said of the job and its session, and of this node and the only application besides.
    ///
    /// # Errors
    /// A status when it is damaged.
    fn of_job(&self) -> Result<Vec<Info>, Status>;
    /// Gives what is said of each node; of this one alone where the others are not wanted.
    ///
    /// # Errors
    /// As [`of_job`](Self::of_job).
    fn of_nodes(&self, others: bool, each: Each<'_>) -> Result<(), Status>;
    /// Gives what is said of each application.
    ///
    /// # Errors
    /// As [`of_job`](Self::of_job).
    fn of_apps(&self, each: Each<'_>) -> Result<(), Status>;
    /// Gives what is said of each of these ranks, its number included.
    ///
    /// # Errors
    /// As [`of_job`](Self::of_job).
    fn of_ranks(&self, ranks: &mut dyn Iterator<Item = Rank>, each: Each<'_>) -> Result<(), Status>;
}

/// Facts of a job, by which its files are made.
#[derive(Clone, Copy, Debug)]
pub struct JobFacts<'a> {
    /// Name of the job.
    pub nspace: &'a Nspace,
    /// Processes of the job.
    pub ranks: u32,
    /// Processes of it on this node.
    pub local: u32,
    /// User and group of its processes.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// An entry of a rank that is to be found in files, or that is to be found there no more.
pub type FileEntry<'a> = (&'a Key, Option<&'a Value>);

/// Maker of the files of jobs.
pub trait MakesJobFiles: Send + fmt::Debug {
    /// Makes those of a job, before its processes start, with nothing in them yet; none where they cannot be had.
    fn make(&self, facts: &JobFacts<'_>) -> Option<Box<dyn JobFiles>>;
}

/// Files in which some peers look for the data of their job by themselves. They go with the value.
pub trait JobFiles: Send + fmt::Debug {
    /// Variables that lead a process to them.
    fn variables(&self) -> Vec<(&'static str, Vec<u8>)>;
    /// Writes what the host has said, for the first peer that reads them, at the expense of its job. Returns whether
    /// nothing was there yet.
    ///
    /// # Errors
    /// A status when they cannot be written, or when what is in them has another form.
    fn begin(&mut self, form: Form, job: &dyn JobInformation, account: &Account) -> Result<bool, Status>;
    /// The host has said it anew.
    fn renew(&mut self, job: &dyn JobInformation);
    /// Takes in what a rank has posted that all on this node may see.
    fn posted(&mut self, rank: Rank, entries: &[FileEntry<'_>]);
}

/// Reason why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Its other end was closed.
    Closed,
    /// The door cut it: it broke the protocol, or did not read what it was sent.
    Cut,
}

/// The server's side of a door.
pub trait Callers {
    /// A peer asks to be let in. The answer is [`Outgoing::Accepted`] or [`Outgoing::Refused`], now or later.
    fn arrived(&mut self, peer: PeerId, arrival: Arrival);
    /// Returns whether a process that shows this token may come in, by what is registered: for a door to which its
    /// launcher connects before it speaks.
    #[cfg_attr(not(feature = "pmi"), allow(dead_code, reason = "no other door asks"))]
    fn expects(&self, proc: &Proc, token: &[u8; 32], user: User) -> bool {
        let _ = (proc, token, user);
        true
    }
    /// A peer that was let in asks something, in a message of so many bytes; where that is [long](super::SHORT), in as
    /// many as the request takes here, if those are more.
    fn asked(&mut self, peer: PeerId, number: u64, request: Request, bytes: usize);
    /// A peer that was let in has begun a request that is larger than what its account has left. The door discards it.
    fn refused(&mut self, peer: PeerId, number: u64);
    /// The most frequent request, in fewer steps: [`Request::Meet`] with no attributes, or with `COLLECT_DATA` alone.
    fn meets(&mut self, peer: PeerId, number: u64, seen: u32, collect: bool);
    /// Returns whether a long request of a peer is still worked at. The door hands on nothing more of that peer before
    /// [`Outgoing::GoOn`].
    fn is_busy(&self, peer: PeerId) -> bool {
        let _ = peer;
        false
    }
    /// Returns the information of a job, for a peer whose answer is to bring it.
    fn job_information(&mut self, nspace: &Nspace) -> Option<Arc<dyn JobInformation>> {
        let _ = nspace;
        None
    }
    /// A peer that had arrived is gone; it gets nothing any more.
    fn left(&mut self, peer: PeerId, how: Left);
}

/// An answer that is still to be made, by any thread.
pub struct Making {
    /// Bytes that it has, more or less.
    pub bytes: usize,
    /// True if it is made of what is kept anyway, and holds little before.
    is_light: bool,
    /// Charge for what a light one holds until it is made.
    waits: Option<Charge>,
    make: Box<dyn FnOnce() -> Reply + Send>,
}

impl Making {
    /// Bytes of an answer from which on a thread makes and encodes it.
    pub const LONG: usize = 256 << 10;
    /// Bytes that one is charged with that waits to be made: the question, with its names.
    pub const WAITING: usize = 1 << 10;

    /// An answer of so many bytes that `make` makes, of what it holds.
    pub fn new(bytes: usize, make: impl FnOnce() -> Reply + Send + 'static) -> Self {
        Making { bytes, is_light: false, waits: None, make: Box::new(make) }
    }

    /// An answer of so many bytes that `make` makes of what is kept anyway.
    pub fn light(bytes: usize, make: impl FnOnce() -> Reply + Send + 'static) -> Self {
        Making { is_light: true, ..Making::new(bytes, make) }
    }

    /// Lets a light answer wait for as long as its peer likes, at the cost of this account where that has room.
    #[must_use]
    pub fn let_wait(self, account: &Account) -> Self {
        let waits = if self.is_light { account.charge(Kind::Output, Self::WAITING) } else { None };
        Making { waits, ..self }
    }

    /// Returns whether it may wait.
    pub fn may_wait(&self) -> bool {
        self.waits.is_some()
    }

    /// Makes it.
    pub fn make(self) -> Reply {
        (self.make)()
    }
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Making({} bytes)", self.bytes)
    }
}

/// Message of a server to a peer.
#[derive(Debug)]
pub enum Outgoing {
    /// The peer is in.
    Accepted {
        /// The server's own name.
        server: Proc,
        /// Address of the server, as tools are told it.
        uri: String,
        /// Name of the peer.
        proc: Proc,
        /// Descriptors of what it may map.
        parts: Vec<(DescriptorKind, OwnedFd)>,
        /// The information of its job, for one that takes it.
        job_info: Option<Arc<dyn JobInformation>>,
        /// Account that its door charges what the peer makes it hold to.
        account: Account,
    },
    /// The peer is not let in, and the connection ends.
    Refused {
        /// The status of its Init.
        status: Status,
        /// Reason, as text.
        reason: String,
    },
    /// The answer to a request.
    Reply {
        /// Number of the request.
        number: u64,
        /// The answer.
        reply: Reply,
        /// The descriptors of a [`Reply::Segments`].
        descriptors: Vec<OwnedFd>,
    },
    /// The answer to a request, which takes long to make and to encode: a thread of the door does both.
    Made {
        /// Number of the request.
        number: u64,
        /// The answer.
        answer: Making,
    },
    /// Something unasked.
    Push(Push),
    /// Something unasked that several peers are sent: it is encoded once.
    Shared(Arc<Push>),
    /// The long request that the peer was [busy](Callers::is_busy) with is done.
    GoOn,
    /// End the connection without a word; the server has forgotten the peer already.
    End,
}

impl Outgoing {
    /// Makes an answer that is still to be made: for a door that has no thread for that.
    #[must_use]
    pub fn made(self) -> Outgoing {
        match self {
            Outgoing::Made { number, answer } => {
                Outgoing::Reply { number, reply: answer.make(), descriptors: Vec::new() }
            }
            other => other,
        }
    }
}

/// Readiness of one of a door's sockets.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Something has come.
    pub readable: bool,
    /// There is room.
    pub writable: bool,
    /// Nothing will come after what is there.
    pub ended: bool,
}

/// A front door.
pub trait Door: Send {
    /// One of the door's own tokens is ready.
    fn ready(&mut self, id: u64, ready: Ready, callers: &mut dyn Callers);
    /// A process has ended, whose own connection this is, where it has been let in by this door. Messages that it has
    /// sent are handed on, and then its connection ends as if it had closed it, though a child of it may hold it open.
    /// Returns whether there is such a connection, with something that was not handed on; false also from a door that
    /// hears nobody out.
    fn hear_out(&mut self, proc: &Proc, connection: Option<u64>, callers: &mut dyn Callers) -> bool {
        let _ = (proc, connection, callers);
        false
    }
    /// Sends to a peer, or queues what the peer does not take now.
    fn send(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers);
    /// Queues for a peer what goes out when it is [flushed](Self::flush), together with what else is queued by then.
    fn queue(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers) {
        self.send(connection, message, callers);
    }
    /// Sends what was queued for a peer.
    fn flush(&mut self, connection: u64, callers: &mut dyn Callers) {
        let _ = (connection, callers);
    }
    /// Returns the time at which the door wants to be called again though nothing is ready.
    fn deadline(&self) -> Option<Instant>;
    /// Counts time beside the last turn that the server's side has taken for it, by which collectives have ended for so
    /// many processes.
    fn also_spent(&mut self, time: Duration, ended: usize) {
        let _ = (time, ended);
    }
    /// Counts time that the answer of the host to a request of this connection has taken.
    fn spent_for(&mut self, connection: u64, time: Duration) {
        let _ = (connection, time);
    }
    /// The time of the deadline has come.
    fn tick(&mut self, now: Instant, callers: &mut dyn Callers);
}
