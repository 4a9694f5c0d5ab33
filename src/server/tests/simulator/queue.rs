//! Queue of a run: everything that will happen, by its time, and in the order in which it was put there at one time.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::client::Client;
use super::host::Ask;
use crate::message::Request;
use crate::message::door::Outgoing;
use crate::server::router::Router;

/// Something that will happen.
pub enum Happening {
    /// The host of a node registers a job.
    Registers {
        node: usize,
        job: usize,
    },
    /// A rank is started.
    Starts(usize),
    /// A rank comes to the door of its server.
    Comes(usize),
    /// A rank does the next thing.
    Acts(usize),
    /// A request of a rank comes to its server.
    Asks(usize, u64, Request),
    /// The most frequent request of a rank, in its short form: the count that was seen, and true if data are collected.
    Meets(usize, u64, u32, bool),
    /// A rank is told something.
    Told(usize, Outgoing),
    /// The end of a collective shows at the job's word.
    Released(usize, u64),
    /// A rank is killed.
    Dies(usize),
    /// The connection of a rank is closed for its server.
    Closes(usize),
    /// The kernel says that the process of a rank has ended.
    Ends(usize),
    /// The manager hears a host.
    Hears(usize, Ask),
    /// A host hears the manager.
    Answers(usize, &'static str, Box<dyn FnOnce() + Send>),
    Commands(usize, &'static str, Box<dyn FnOnce(&mut Router) + Send>),
    /// The manager learns that a process has ended.
    Missed(usize),
    /// A node is lost, and the manager learns of it.
    NodeDies(usize),
    NodeMissed(usize),
    /// A server is stopped for so long.
    Stops(usize, Duration),
    /// A server works off what it gave to threads.
    Works(usize),
}

impl Happening {
    /// Returns the node that it needs to run.
    pub fn node(&self, clients: &[Client]) -> Option<usize> {
        match self {
            Happening::Comes(client)
            | Happening::Asks(client, ..)
            | Happening::Meets(client, ..)
            | Happening::Closes(client)
            | Happening::Ends(client) => Some(clients[*client].node),
            Happening::Registers { node, .. }
            | Happening::Answers(node, ..)
            | Happening::Commands(node, ..)
            | Happening::Works(node) => Some(*node),
            _ => None,
        }
    }
}

/// Place in the queue.
struct Entry {
    at: Duration,
    number: u64,
    happening: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The queue.
#[derive(Default)]
pub struct Queue {
    entries: BinaryHeap<Reverse<Entry>>,
    /// Number of the last entry.
    number: u64,
}

impl Queue {
    /// Adds something that happens at that time.
    pub fn push(&mut self, at: Duration, happening: Happening) {
        self.number += 1;
        self.entries.push(Reverse(Entry { at, number: self.number, happening }));
    }

    /// Returns the time of the first entry.
    pub fn next_time(&self) -> Option<Duration> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the first entry, with its time.
    pub fn pop(&mut self) -> Option<(Duration, Happening)> {
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.happening))
    }
}
