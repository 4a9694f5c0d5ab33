//! The output of other processes: asked for here, forwarded by the host, and given to a function of the program.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::{Info, Proc, Status};
use crate::message::Request;

use super::forward::nothing;
use super::{Client, Error};

/// Output of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The number of the call that asked for it.
    pub pull: usize,
    /// Whose output.
    pub source: Proc,
    /// A `constants::iof_channel`.
    pub channel: u16,
    /// The bytes; none where the output ends.
    pub bytes: Vec<u8>,
    /// Attributes.
    pub info: Vec<Info>,
}

/// Takes output; runs on the client's control thread and must not wait there.
pub type OutputHandler = Arc<dyn Fn(Output) + Send + Sync>;

#[derive(Clone)]
struct Pull {
    procs: Vec<Proc>,
    channels: u16,
    handler: OutputHandler,
}

/// What this process has asked for.
#[derive(Default)]
pub(super) struct Pulls(Mutex<(usize, BTreeMap<usize, Pull>)>);

impl Pulls {
    fn with<T>(&self, f: impl FnOnce(&mut (usize, BTreeMap<usize, Pull>)) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands output to everybody who wants it, with no lock held.
    pub(super) fn deliver(&self, source: &Proc, channel: u16, bytes: &[u8], info: &[Info]) {
        let wants = |pull: &Pull| pull.channels & channel != 0 && pull.procs.iter().any(|proc| proc.matches(source));
        let wanted: Vec<(usize, OutputHandler)> = self.with(|(_, pulls)| {
            pulls.iter().filter(|(_, pull)| wants(pull)).map(|(id, pull)| (*id, pull.handler.clone())).collect()
        });
        for (pull, handler) in wanted {
            handler(Output { pull, source: source.clone(), channel, bytes: bytes.to_vec(), info: info.to_vec() });
        }
    }
}

impl Client {
    /// Asks for the output of processes (`PMIx_IOF_pull`); `channels` are `constants::iof_channel` bits. `done` is given the number
    /// of this call.
    ///
    /// # Errors
    /// When `done` will not run: `ERR_BAD_PARAM` without processes or channels.
    pub fn iof_pull_nb(
        &self,
        procs: &[Proc],
        channels: u16,
        directives: &[Info],
        handler: OutputHandler,
        done: impl FnOnce(Result<usize, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if procs.is_empty() || channels == 0 {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        // It may come as soon as the server has agreed.
        let id = self.inner.own.pulls.with(|(last, pulls)| {
            *last += 1;
            pulls.insert(*last, Pull { procs: procs.to_vec(), channels, handler });
            *last
        });
        let inner = self.inner.clone();
        let request = Request::PullOutput { procs: procs.to_vec(), channels, directives: directives.to_vec() };
        let told = move |result: Result<(), Error>| {
            if result.is_err() {
                inner.own.pulls.with(|(_, pulls)| pulls.remove(&id));
            }
            done(result.map(|()| id));
        };
        self.inner.ask_for("PMIx_IOF_pull", &request, nothing, told).inspect_err(|_| {
            self.inner.own.pulls.with(|(_, pulls)| pulls.remove(&id));
        })
    }

    /// Ends what such a call has begun (`PMIx_IOF_deregister`).
    ///
    /// # Errors
    /// When `done` will not run: `ERR_BAD_PARAM` for a number of no call.
    pub fn iof_deregister_nb(
        &self,
        pull: usize,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let gone = self.inner.own.pulls.with(|(_, pulls)| pulls.remove(&pull)).ok_or(Status::ERR_BAD_PARAM)?;
        let request = Request::StopOutput { procs: gone.procs, channels: gone.channels };
        self.inner.ask_for("PMIx_IOF_deregister", &request, nothing, done)
    }
}
