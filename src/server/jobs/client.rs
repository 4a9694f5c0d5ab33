//! A process of this node, as its job's table has it.
use std::os::fd::OwnedFd;

use crate::message::door::PeerId;
use crate::server::ctx::system::WatchId;
use crate::store::ReaderId;

/// State of the process of a rank of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The process has not come yet.
    Expected,
    /// The host is asked about it.
    Asking,
    /// The process is in.
    Joined,
    /// The process has said that it is done: its end is no news.
    Finalized,
    /// The process is gone and did not say that it was done.
    Lost,
}

/// A process of this node.
#[derive(Debug)]
pub struct Client {
    pub uid: u32,
    pub gid: u32,
    pub phase: Phase,
    /// Its connection, while it has one.
    pub peer: Option<PeerId>,
    /// The process that came last; information only.
    pub pid: i32,
    /// True if a process has come in as this rank, be it one before.
    pub has_come: bool,
    pub watch: Option<WatchId>,
    /// True if the host has started that process itself.
    pub is_child: bool,
    /// True if processes that it has forked may have connections of their own.
    pub has_clones: bool,
    /// Its reader page, made before it comes: its Init does not wait for that.
    pub page: Option<ReaderId>,
    /// Descriptor of that page, until the process has come.
    pub page_descriptor: Option<OwnedFd>,
    /// True if its process has ended, one way or the other.
    pub ended: bool,
    /// True if it has ended and none will come in its place.
    pub gone: bool,
    /// True if it is a tool, which is gone with its connection.
    pub is_tool: bool,
}

impl Client {
    /// Creates the entry of a process that has not come.
    pub fn expected(uid: u32, gid: u32) -> Self {
        Client {
            uid,
            gid,
            phase: Phase::Expected,
            peer: None,
            pid: 0,
            has_come: false,
            watch: None,
            is_child: false,
            has_clones: false,
            page: None,
            page_descriptor: None,
            ended: false,
            gone: false,
            is_tool: false,
        }
    }
}
