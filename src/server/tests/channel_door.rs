//! A door over channels: peers that are values of a test, without socket, thread, kernel user and shared memory.
//!
//! It shows how little a door has to know. A peer's message waits in one channel until the test says that the door is
//! ready, and what the server sends it waits in the peer's own. A peer whose long commit is under way is heard when that
//! is over, as at other doors.
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::data::Proc;
use crate::message::Request;
use crate::message::door::{Arrival, Callers, Capabilities, Claim, Door, Left, Outgoing, PeerId, Ready};

/// Number of the door.
const NUMBER: u8 = 0;

/// A message of a peer.
enum Incoming {
    Arrival(Arrival, Sender<Outgoing>),
    Request(u64, Request),
    /// The most frequent request, with the count that was seen, and true if data are collected.
    Meet(u64, u32, bool),
    End,
}

/// The door.
pub struct ChannelDoor {
    incoming: Receiver<(u64, Incoming)>,
    peers: HashMap<u64, Sender<Outgoing>>,
    /// Messages of connections whose long commit is under way.
    busy: HashMap<u64, VecDeque<Incoming>>,
    /// Messages of connections for which that is over.
    heard: VecDeque<(u64, Incoming)>,
    opened: Instant,
    spent: Sender<u64>,
    flushed: Sender<u64>,
}

impl ChannelDoor {
    fn hear(&mut self, connection: u64, message: Incoming, callers: &mut dyn Callers) {
        if let Some(kept) = self.busy.get_mut(&connection) {
            return kept.push_back(message);
        }
        let peer = PeerId { door: NUMBER, connection };
        match message {
            Incoming::Arrival(arrival, sender) => {
                self.peers.insert(connection, sender);
                callers.arrived(peer, arrival);
            }
            Incoming::Request(number, request) => {
                let is_commit = matches!(request, Request::Commit { .. });
                let bytes = bytes_of(&request);
                callers.asked(peer, number, request, bytes);
                if is_commit && callers.is_busy(peer) {
                    self.busy.insert(connection, VecDeque::new());
                }
            }
            Incoming::Meet(number, seen, collect) => callers.meets(peer, number, seen, collect),
            Incoming::End => {
                if self.peers.remove(&connection).is_some() {
                    callers.left(peer, Left::Closed);
                }
            }
        }
    }
}

/// Bytes of the byte objects that a commit brings: nothing else is large here.
fn bytes_of(request: &Request) -> usize {
    let Request::Commit { entries } = request else { return 0 };
    entries.iter().filter_map(|posted| posted.value.as_bytes()).map(<[u8]>::len).sum()
}

impl Door for ChannelDoor {
    fn ready(&mut self, _: u64, _: Ready, callers: &mut dyn Callers) {
        self.tick(self.opened, callers);
        while let Ok((connection, message)) = self.incoming.try_recv() {
            self.hear(connection, message, callers);
        }
    }

    fn send(&mut self, connection: u64, message: Outgoing, _: &mut dyn Callers) {
        let is_last = matches!(message, Outgoing::Refused { .. } | Outgoing::End);
        if matches!(message, Outgoing::GoOn) || is_last {
            let kept = self.busy.remove(&connection).into_iter().flatten();
            self.heard.extend(kept.map(|message| (connection, message)));
        }
        if let Some(peer) = self.peers.get(&connection) {
            // A peer that is gone reads nothing; its `End` is on the way.
            let _ = peer.send(message);
        }
        if is_last {
            self.peers.remove(&connection);
        }
    }

    fn flush(&mut self, connection: u64, _: &mut dyn Callers) {
        let _ = self.flushed.send(connection);
    }

    fn deadline(&self) -> Option<Instant> {
        // At once: a test's clock has begun before.
        (!self.heard.is_empty()).then_some(self.opened)
    }

    fn spent_for(&mut self, connection: u64, _: Duration) {
        // A test may have no use for it.
        let _ = self.spent.send(connection);
    }

    fn tick(&mut self, _: Instant, callers: &mut dyn Callers) {
        for (connection, message) in std::mem::take(&mut self.heard) {
            self.hear(connection, message, callers);
        }
    }
}

/// The other side of the door: peers come from here.
pub struct PeerSide {
    incoming: Sender<(u64, Incoming)>,
    connections: u64,
    /// Connections that an answer of the host has counted for.
    pub spent: Receiver<u64>,
    /// Connections whose messages have gone out, as often as some have.
    pub flushed: Receiver<u64>,
}

/// A peer.
pub struct ChannelPeer {
    connection: u64,
    requests: u64,
    incoming: Sender<(u64, Incoming)>,
    /// Messages from the server.
    outgoing: Receiver<Outgoing>,
}

/// Creates a door, and its other side.
pub fn open() -> (ChannelDoor, PeerSide) {
    let (sender, incoming) = channel();
    let ((spends, spent), (flushes, flushed)) = (channel(), channel());
    let door = ChannelDoor {
        incoming,
        peers: HashMap::new(),
        busy: HashMap::new(),
        heard: VecDeque::new(),
        opened: Instant::now(),
        spent: spends,
        flushed: flushes,
    };
    (door, PeerSide { incoming: sender, connections: 0, spent, flushed })
}

impl PeerSide {
    /// Lets a process come to the door with that token, and takes what the server has to say of its job as values.
    pub fn comes(&mut self, proc: &Proc, token: Option<[u8; 32]>) -> ChannelPeer {
        let claim = Claim::Process { proc: proc.clone(), token };
        let capabilities = Capabilities { takes_job_info: true, waits_at_words: true, ..Capabilities::default() };
        self.arrives(Arrival { claim, capabilities, info: Vec::new(), user: None, pid: 0, process: None })
    }

    /// Lets a peer come to the door with that claim.
    pub fn arrives(&mut self, arrival: Arrival) -> ChannelPeer {
        self.connections += 1;
        let (sender, outgoing) = channel();
        let peer = ChannelPeer { connection: self.connections, requests: 0, incoming: self.incoming.clone(), outgoing };
        peer.sends(Incoming::Arrival(arrival, sender));
        peer
    }
}

impl ChannelPeer {
    fn sends(&self, message: Incoming) {
        self.incoming.send((self.connection, message)).expect("the door is open");
    }

    /// Asks something, and returns the number that the reply will have.
    pub fn asks(&mut self, request: Request) -> u64 {
        self.requests += 1;
        self.asks_as(self.requests, request);
        self.requests
    }

    /// Asks something under a number of the caller's choice.
    pub fn asks_as(&self, number: u64, request: Request) {
        self.sends(Incoming::Request(number, request));
    }

    /// Meets all of its job, under a number of the caller's choice.
    pub fn meets_as(&self, number: u64, seen: u32, collect: bool) {
        self.sends(Incoming::Meet(number, seen, collect));
    }

    /// Asks something that nobody waits for.
    pub fn tells(&mut self, request: Request) {
        self.asks_as(0, request);
    }

    /// Closes the connection.
    pub fn goes(self) {
        self.sends(Incoming::End);
    }

    /// Takes the messages that have come from the server.
    pub fn hears(&self) -> Vec<Outgoing> {
        self.outgoing.try_iter().collect()
    }
}
