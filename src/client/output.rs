//! The output of other processes: asked for here, forwarded by the host, and given to a function of the program.
//!
//! The server sends no more than a [window](WINDOW) ahead of what this process says that it has taken in: what a slow handler leaves
//! waits there, and not here.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::{Channels, Info, Proc, Status};
use crate::message::Request;
use crate::message::format::{Format, write_out};
use crate::message::output::{WINDOW, cost};
use crate::pending::{Callback, Pending};

use super::call::{limit_in, nothing};
use super::clock::{end_of, given_up};
use super::{Client, Error, Inner};

/// Output of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The number of the call that asked for it.
    pub pull: usize,
    /// Process that has printed it.
    pub source: Proc,
    /// The stream.
    pub channel: Channels,
    /// The bytes; none where the output ends.
    pub bytes: Vec<u8>,
    /// Attributes.
    pub info: Vec<Info>,
}

/// Takes output; runs on the client's control thread and must not wait there.
pub type OutputHandler = Arc<dyn Fn(Output) + Send + Sync>;

/// A handler that writes what comes to this process's own standard output and error.
pub fn to_own_output() -> OutputHandler {
    Arc::new(|output: Output| write_out(output.channel, &output.bytes))
}

struct Pull {
    handler: OutputHandler,
    /// Form in which it is shown.
    format: Format,
    /// Part of the window that was taken in and the server does not know of.
    taken: usize,
}

/// Pulls of this process.
#[derive(Default)]
pub(super) struct Pulls(Mutex<(usize, BTreeMap<usize, Pull>)>);

impl Pulls {
    fn with<T>(&self, f: impl FnOnce(&mut (usize, BTreeMap<usize, Pull>)) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    /// Output has come: hands it to who wants it, with no lock held, and says so when enough has been taken in, or all of it.
    pub(super) fn output_comes(&self, mut output: Output) {
        let (own, is_end) = (cost(output.bytes.len()), output.bytes.is_empty());
        let handler = self.own.pulls.with(|(_, pulls)| {
            let pull = pulls.get_mut(&output.pull)?;
            output.bytes = pull.format.shown(&output.source, output.channel, std::mem::take(&mut output.bytes));
            Some(pull.handler.clone())
        });
        let id = output.pull;
        let Some(handler) = handler else { return };
        handler(output);
        let taken = self.own.pulls.with(|(_, pulls)| {
            let pull = pulls.get_mut(&id)?;
            pull.taken += own;
            (is_end || pull.taken >= WINDOW / 4).then(|| std::mem::take(&mut pull.taken))
        });
        if let Some(taken) = taken {
            // A server that is gone sends nothing more.
            let _ = self.link.tell("PMIx_IOF_pull", &Request::OutputTaken { id: id as u64, cost: taken as u64 });
        }
    }
}

impl Client {
    /// Asks for the output of processes (`PMIx_IOF_pull`), and answers the number of this call.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without processes or channels, `ERR_NOT_SUPPORTED` for standard input; what the host answers.
    pub fn iof_pull(
        &self,
        procs: &[Proc],
        channels: Channels,
        directives: &[Info],
        handler: OutputHandler,
    ) -> Pending<usize, Error> {
        let (procs, directives) = (procs.to_vec(), directives.to_vec());
        self.prepare("PMIx_IOF_pull", None, move |inner, callback: Callback<usize, Error>| {
            if procs.is_empty() || channels.is_empty() {
                return Err(Status::ERR_BAD_PARAM.into());
            }
            if channels.intersects(Channels::STDIN) {
                return Err(Status::ERR_NOT_SUPPORTED.into());
            }
            // It may come as soon as the server has agreed.
            let id = inner.own.pulls.with(|(last, pulls)| {
                *last += 1;
                pulls.insert(*last, Pull { handler, format: Format::read(&directives), taken: 0 });
                *last
            });
            let late = inner.clone();
            let late = move || {
                // The caller will never know its number.
                late.own.pulls.with(|(_, pulls)| pulls.remove(&id));
                let _ = late.link.request("PMIx_IOF_pull", &Request::StopOutput { id: id as u64 }, Box::new(|_| ()));
                given_up()
            };
            let callback = inner.link.bound(end_of(limit_in(&directives)), late, callback);
            let begun = inner.clone();
            let told = move |result: Result<(), Error>| {
                if result.is_err() {
                    begun.own.pulls.with(|(_, pulls)| pulls.remove(&id));
                }
                callback(result.map(|()| id));
            };
            let request = Request::PullOutput { id: id as u64, procs, channels, directives };
            inner.ask_for("PMIx_IOF_pull", &request, nothing, told).inspect_err(|_| {
                inner.own.pulls.with(|(_, pulls)| pulls.remove(&id));
            })
        })
    }

    /// Ends what such a call has begun (`PMIx_IOF_deregister`). Output that the server still holds back comes before
    /// the answer.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a number of no call.
    pub fn iof_deregister(&self, pull: usize) -> Pending<(), Error> {
        self.prepare("PMIx_IOF_deregister", None, move |inner, callback: Callback<(), Error>| {
            if !inner.own.pulls.with(|(_, pulls)| pulls.contains_key(&pull)) {
                return Err(Status::ERR_BAD_PARAM.into());
            }
            let ended = inner.clone();
            let told = move |result| {
                let known = ended.own.pulls.with(|(_, pulls)| pulls.remove(&pull));
                // Another call has ended it meanwhile.
                callback(known.map_or(Err(Status::ERR_BAD_PARAM.into()), |_| result));
            };
            inner.ask_for("PMIx_IOF_deregister", &Request::StopOutput { id: pull as u64 }, nothing, told)
        })
    }
}
