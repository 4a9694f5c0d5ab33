//! Who is connected with whom: `PMIx_Connect`, `PMIx_Disconnect`, and the ties that a spawn makes.
//!
//! Processes connect by meeting, as in a fence; when all of this node have come, the host is asked, once. Connected jobs, and a
//! job and the one it was started from, may map each other's memory: a Get of one in the other is a read of memory as
//! well. The host registers the namespaces that live on other nodes before it says that they are connected. One that does no
//! such thing (`ERR_NOT_SUPPORTED`) is not needed by processes that all run here.
//!
//! Ties end with a disconnect, and with the namespace. A participant that dies before it has come ends the operation for the
//! others, as it does a fence.
use super::fence::Tracker;
use super::members::{Members, Operation};
use super::router::Router;
use crate::data::{Info, Nspace, Status};

/// The ties between namespaces.
#[derive(Debug, Default)]
pub(super) struct Ties {
    connected: Vec<Members>,
    /// Jobs, each with one that was started from it.
    born: Vec<(Nspace, Nspace)>,
}

impl Ties {
    /// A job was started from another one.
    pub(super) fn born(&mut self, parent: Nspace, child: Nspace) {
        let tie = (parent, child);
        if !self.born.contains(&tie) {
            self.born.push(tie);
        }
    }

    /// Whether these, and no others, have connected.
    pub(super) fn are_connected(&self, members: &Members) -> bool {
        self.connected.iter().any(|connected| connected.are_those_of(members))
    }

    /// Whether processes of one may map the memory of the other.
    pub(super) fn bind(&self, a: &Nspace, b: &Nspace) -> bool {
        self.connected.iter().any(|members| members.involves(a) && members.involves(b))
            || self.born.iter().any(|(parent, child)| (parent, child) == (a, b) || (parent, child) == (b, a))
    }

    /// A namespace is deregistered.
    pub(super) fn forget(&mut self, nspace: &Nspace) {
        self.connected.retain(|members| !members.involves(nspace));
        self.born.retain(|(parent, child)| parent != nspace && child != nspace);
    }
}

impl Router {
    /// Everybody of this node has come to connect, or to disconnect.
    pub(super) fn connect_at_host(&mut self, tracker: Tracker) {
        let members = tracker.members.clone();
        let connects = *members.operation() == Operation::Connect;
        let elsewhere = tracker.census.elsewhere;
        let (id, procs, info) = self.hand_over(tracker);
        // What is required, and not served by the library, only the host can do.
        let needs_host = elsewhere || info.iter().any(Info::is_required);
        let then = move |router: &mut Router, result: Result<(), Status>| {
            let result = if needs_host || result != Err(Status::ERR_NOT_SUPPORTED) { result } else { Ok(()) };
            // An answer that comes after a time limit or the end of a job connects nobody.
            if result.is_ok() && router.fences.at_host.contains_key(&id) {
                router.ties.connected.retain(|connected| !connected.are_those_of(&members));
                if connects {
                    router.ties.connected.push(members);
                }
            }
            router.met(id, result);
        };
        match connects {
            true => self.ask_host(|host, done| host.connect(&procs, &info, done), (), then),
            false => self.ask_host(|host, done| host.disconnect(&procs, &info, done), (), then),
        }
    }
}
