//! Put and Commit.
//!
//! A Put stays here until the Commit, which sends what was put since the last one and does not wait: the server
//! answers only when it cannot store that. A commit that failed is told to the next Commit, Fence or Finalize, once.
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::{Key, Proc, Status, Value, constants::scope};
use crate::message::{Posted, Reply, Request};
use crate::trace;

use super::Error;
use super::connection::Link;
use super::local::Local;

/// What this process posts.
#[derive(Default)]
pub(super) struct Posts {
    /// Everything ever put, for the process's own Gets.
    pub(super) own: Local,
    pending: Mutex<Pending>,
    failure: Mutex<Option<Status>>,
}

#[derive(Debug, Default)]
struct Pending {
    entries: Vec<Posted>,
    /// Whether the server knows that this process has committed, if only nothing.
    told: bool,
}

impl Posts {
    pub(super) fn put(&self, me: &Arc<Proc>, scope: u8, key: Key, value: Value) -> Result<(), Error> {
        let leaves = match scope {
            scope::LOCAL | scope::REMOTE | scope::GLOBAL => true,
            scope::INTERNAL => false,
            scope::DEL_LOCAL..=scope::DEL_INTERNAL => return Err(Status::ERR_NOT_SUPPORTED.into()),
            _ => return Err(Status::ERR_BAD_PARAM.into()),
        };
        if leaves {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.entries.push(Posted { scope, key: key.clone(), value: value.clone() });
        }
        self.own.store(me.clone(), scope, key, value);
        Ok(())
    }

    pub(super) fn commit(&self, link: &Link) -> Result<(), Error> {
        if link.has_server() {
            // Held while sending: two commits reach the server in the order in which they took their entries.
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            if !pending.entries.is_empty() || !pending.told {
                let request = Request::Commit { entries: std::mem::take(&mut pending.entries) };
                link.tell("PMIx_Commit", &request)?;
                pending.told = true;
            }
        }
        self.outcome()
    }

    /// The server's word on a commit.
    pub(super) fn committed(&self, reply: Reply) {
        let status = match reply {
            Reply::Done(Status::SUCCESS) => return,
            Reply::Done(status) => status,
            _ => Status::ERR_COMM_FAILURE,
        };
        trace!("what was committed is not stored: {status}");
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(status);
    }

    /// The failure of an earlier commit, told once.
    pub(super) fn outcome(&self) -> Result<(), Error> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(status) => Err(status.into()),
            None => Ok(()),
        }
    }
}
