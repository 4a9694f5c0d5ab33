//! The host of a simulated server: it takes requests over, and the manager of all nodes answers them later.
//!
//! By chance it answers some at once, or refuses them, in each of the ways that the trait allows.
use std::fmt;
use std::sync::{Arc, Mutex};

use super::machine::lock;
use super::random::Random;
use crate::data::{DataRange, Info, InfoList, Nspace, Proc, Status, Text, keys};
use crate::server::host::{Accepted, Answer, Completion, Host, Infos, Published};

/// Request of a server to its host.
pub enum Ask {
    /// Something that the manager only says yes to.
    Plain(&'static str, Completion<()>),
    /// Processes are to be ended; none means the whole namespace of the first.
    Abort(Proc, Vec<Proc>, Completion<()>),
    /// Nodes are to meet.
    Meet(Meeting, Part),
    /// Data of another node's process is to be fetched.
    Modex(Proc, Completion<Vec<u8>>),
    /// Data of a process here, which another node has asked for under this number.
    Brought(u64, Result<Vec<u8>, Status>),
    /// An event is to be spread.
    Event(Status, Proc, DataRange, Vec<Info>, Completion<()>),
    Publish(Proc, Vec<Info>, Completion<()>),
    Lookup(Proc, Vec<Text>, Vec<Info>, Completion<Published>),
    Unpublish(Proc, Vec<Text>, Completion<()>),
    /// A job is to be started.
    Spawn(Completion<Nspace>),
    /// Something that is answered by attributes.
    Infos(&'static str, Completion<Infos>),
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Plain(what, _) | Ask::Infos(what, _) => f.write_str(what),
            Ask::Abort(proc, ..) => write!(f, "{proc} aborts"),
            Ask::Meet(meeting, part) => write!(f, "{meeting:?}, failed: {:?}", part.failed),
            Ask::Modex(proc, _) => write!(f, "fetch what {proc} has posted"),
            Ask::Brought(number, result) => write!(f, "brought {number}: {:?}", result.as_ref().map(Vec::len)),
            Ask::Event(status, source, ..) => write!(f, "{status} of {source}"),
            Ask::Publish(proc, ..) => write!(f, "{proc} publishes"),
            Ask::Lookup(proc, ..) => write!(f, "{proc} looks up"),
            Ask::Unpublish(proc, ..) => write!(f, "{proc} unpublishes"),
            Ask::Spawn(_) => f.write_str("spawn"),
        }
    }
}

/// Purpose of a meeting of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Fence,
    Connect,
    Disconnect,
    /// A group's operation.
    Group(i64),
}

/// Meeting of nodes: its purpose, participants and group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Meeting {
    pub purpose: Purpose,
    pub procs: Vec<Proc>,
    pub group: Option<Nspace>,
}

/// Part that one node has in a meeting.
pub struct Part {
    /// Status with which it has failed there.
    pub failed: Option<Status>,
    pub body: Body,
}

/// Content of a part, with the way back.
pub enum Body {
    Data(Vec<u8>, Completion<Vec<u8>>),
    Plain(Completion<()>),
    Group(Vec<Info>, Completion<Infos>),
}

/// State of all hosts.
pub struct Hosts {
    random: Random,
    /// Times in a thousand that a host refuses something.
    refuses: u64,
    /// Requests that were taken over, each with the node of its host.
    asks: Vec<(usize, Ask)>,
}

/// Handle of that state; clones share it.
pub type SharedHosts = Arc<Mutex<Hosts>>;

impl Hosts {
    /// Creates hosts that refuse requests so many times in a thousand.
    pub fn shared(random: Random, refuses: u64) -> SharedHosts {
        Arc::new(Mutex::new(Hosts { random, refuses, asks: Vec::new() }))
    }

    /// Takes the requests that have come since this was last called.
    pub fn take(&mut self) -> Vec<(usize, Ask)> {
        std::mem::take(&mut self.asks)
    }

    /// Adds a request of a node's server.
    pub fn add(&mut self, node: usize, ask: Ask) {
        self.asks.push((node, ask));
    }
}

/// Host of one node.
pub struct SimHost {
    node: usize,
    hosts: SharedHosts,
}

impl SimHost {
    /// Creates the host of a node.
    pub fn new(node: usize, hosts: SharedHosts) -> Self {
        SimHost { node, hosts }
    }

    /// Takes a request over, or refuses it.
    fn take(&self, ask: Ask) -> Accepted {
        let mut hosts = lock(&self.hosts);
        let refuses = hosts.refuses;
        if hosts.random.permille(refuses) {
            let statuses = [Status::ERR_OUT_OF_RESOURCE, Status::ERR_NOT_SUPPORTED, Status::ERR_TIMEOUT];
            return Err(*hosts.random.pick(&statuses));
        }
        hosts.add(self.node, ask);
        Ok(Answer::Later)
    }

    /// Takes a request over that needs nothing but a yes, which may be given in any of three ways.
    fn agree(&self, what: &'static str, done: Completion<()>) -> Accepted {
        let way = lock(&self.hosts).random.below(4);
        match way {
            0 => Ok(Answer::Done),
            1 => {
                done.complete(Ok(()));
                Ok(Answer::Later)
            }
            2 => Err(Status::ERR_NOT_SUPPORTED),
            _ => {
                lock(&self.hosts).add(self.node, Ask::Plain(what, done));
                Ok(Answer::Later)
            }
        }
    }

    fn meet(&self, purpose: Purpose, group: Option<&Nspace>, procs: &[Proc], info: &[Info], body: Body) -> Accepted {
        let failed = info.find(keys::LOCAL_COLLECTIVE_STATUS).and_then(|info| info.value.as_status());
        let meeting = Meeting { purpose, procs: procs.to_vec(), group: group.cloned() };
        // A host that refuses to let its node meet others leaves those waiting: that is no fault of a server.
        lock(&self.hosts).add(self.node, Ask::Meet(meeting, Part { failed, body }));
        Ok(Answer::Later)
    }
}

impl Host for SimHost {
    fn client_connected(&self, _: &Proc, done: Completion<()>) -> Accepted {
        self.agree("connected", done)
    }

    fn client_finalized(&self, _: &Proc, done: Completion<()>) -> Accepted {
        self.agree("finalized", done)
    }

    fn abort(&self, proc: &Proc, _: i32, _: Option<&[u8]>, procs: &[Proc], done: Completion<()>) -> Accepted {
        self.take(Ask::Abort(proc.clone(), procs.to_vec(), done))
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        self.meet(Purpose::Fence, None, procs, info, Body::Data(data, done))
    }

    fn direct_modex(&self, proc: &Proc, _: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.take(Ask::Modex(proc.clone(), done))
    }

    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.take(Ask::Publish(proc.clone(), info.to_vec(), done))
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        self.take(Ask::Lookup(proc.clone(), keys.to_vec(), info.to_vec(), done))
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], _: &[Info], done: Completion<()>) -> Accepted {
        self.take(Ask::Unpublish(proc.clone(), keys.to_vec(), done))
    }

    fn spawn(&self, _: &Proc, _: &[Info], _: &[crate::data::App], done: Completion<Nspace>) -> Accepted {
        self.take(Ask::Spawn(done))
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        self.meet(Purpose::Connect, None, procs, info, Body::Plain(done))
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        self.meet(Purpose::Disconnect, None, procs, info, Body::Plain(done))
    }

    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        self.take(Ask::Event(status, source.clone(), range, info.to_vec(), done))
    }

    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        // Groups whose members do not all know each other are made by the server.
        let by_leaders = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];
        if procs.is_empty() || by_leaders.iter().any(|key| directives.find(key).is_some()) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let body = Body::Group(directives.to_vec(), done);
        self.meet(Purpose::Group(operation), Some(group), procs, directives, body)
    }

    fn query(&self, _: &Proc, _: &[crate::data::Query], done: Completion<Infos>) -> Accepted {
        self.take(Ask::Infos("query", done))
    }

    fn register_events(&self, _: &[Status], _: &[Info], done: Completion<()>) -> Accepted {
        self.agree("watch events", done)
    }
}
