//! Answers of the server, and those who wait for them.
use std::os::fd::OwnedFd;

use crate::data::Status;
use crate::message::Reply;

use super::Error;

/// Answer of the server, and the descriptors that came with it.
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Answer {
    /// Returns the status of an answer that brings nothing else.
    pub(super) fn done(self) -> Result<(), Error> {
        match self.reply {
            Reply::Done(status) => Ok(status.ok()?),
            _ => Err(Status::ERR_COMM_FAILURE.into()),
        }
    }
}

/// Called once, with the answer or with why there is none: on the control thread, unless it belongs to a look-up that
/// somebody blocks for.
pub(super) type Waiter = Box<dyn FnOnce(Result<Answer, Error>) + Send>;
