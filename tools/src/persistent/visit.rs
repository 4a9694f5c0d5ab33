//! Visit of a caller: its request, read and checked, and the way back to it.
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use instanton::launch::AppSpec;

use super::message::{self, Reply};
use crate::args::Run;
use crate::environment::Environment;

/// The way back to a caller.
#[derive(Clone, Debug)]
pub struct Way {
    /// Its number.
    pub id: u64,
    socket: Arc<UnixStream>,
}

/// A caller has come.
#[derive(Debug)]
pub struct Visit {
    /// The way back.
    pub way: Way,
    /// Request.
    pub asked: Asked,
}

/// Request of a visit.
#[derive(Debug)]
pub enum Asked {
    /// A job.
    Run(Box<JobCall>),
    /// The end of a job, or a signal to it.
    Kill { job: u32, signal: Option<i32> },
    /// The death of a node.
    KillNode(u32),
    /// The end of everything.
    Down,
}

/// A job that a caller asks for.
#[derive(Debug)]
pub struct JobCall {
    /// Options of the whole job.
    pub options: Run,
    /// Its applications; no ranks mean that no number was given.
    pub apps: Vec<AppSpec>,
    /// Environment of the caller.
    pub environment: Environment,
    /// Directory of the caller.
    pub directory: PathBuf,
    /// Input, output and error output of the caller.
    pub streams: [OwnedFd; 3],
}

impl Way {
    /// The way to the caller with this number, over its socket.
    pub fn new(id: u64, socket: UnixStream) -> Self {
        Self { id, socket: Arc::new(socket) }
    }

    /// Answers the caller, who then has nothing more to say.
    pub fn answer(&self, reply: &Reply) {
        // A caller that is gone hears nothing.
        let _ = message::answer(&self.socket, reply);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}
