//! A rank: the client's protocol as a state machine, without thread and without waiting.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::model::Expected;
use super::posted::Versions;
use super::random::Random;
use crate::data::{Nspace, Proc};
use crate::message::Reply;
use crate::server::tests::channel_door::ChannelPeer;

/// Stage of a rank's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The client has not been started.
    Unborn,
    /// The client has asked to be let in.
    Coming,
    In,
    /// The client has said goodbye.
    Leaving,
    /// The client has ended.
    Ended,
}

/// A request that has no answer yet.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub what: String,
    pub expected: Expected,
    /// True if the rank does nothing else meanwhile.
    pub blocks: bool,
    /// Time by which the answer is there.
    pub until: Option<Duration>,
    /// Count that was seen at the job's word, where the end may show there.
    pub word: Option<u32>,
    /// The answer that a change there stands for.
    pub at_word: Reply,
}

/// A rank.
pub struct Client {
    pub proc: Proc,
    pub node: usize,
    pub stage: Stage,
    pub random: Random,
    /// Its connection, once the server has seen it.
    pub peer: Option<ChannelPeer>,
    pub number: u64,
    pub waiting: BTreeMap<u64, Waiting>,
    /// Next of the plan's rounds.
    pub round: usize,
    /// Values that it has committed.
    pub committed: Versions,
    /// Groups that it is in.
    pub groups: BTreeSet<Nspace>,
    /// Time at which the last message that it has sent arrives, and the last one to it.
    pub last_sent: Duration,
    pub last_told: Duration,
    /// True if its process has ended for the kernel.
    pub is_over: bool,
    /// True if it can be watched by the kernel's means.
    pub is_shown: bool,
}

impl Client {
    /// Creates a rank that has not been started.
    pub fn new(proc: Proc, node: usize, mut random: Random) -> Self {
        let is_shown = random.permille(900);
        Client {
            proc,
            node,
            stage: Stage::Unborn,
            random,
            peer: None,
            number: 0,
            waiting: BTreeMap::new(),
            round: 0,
            committed: Versions::default(),
            groups: BTreeSet::new(),
            last_sent: Duration::ZERO,
            last_told: Duration::ZERO,
            is_over: false,
            is_shown,
        }
    }

    /// Returns whether it does nothing before it has an answer.
    pub fn is_blocked(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.blocks)
    }
}
