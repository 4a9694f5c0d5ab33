//! The state of a server.
use std::sync::Arc;
use std::thread::JoinHandle;

use super::fork::Forks;
use super::host::Host;
use super::mailbox::Mailbox;
use super::{ServerConfig, ServerError};
use crate::data::{Info, Key, Nspace, Proc, Status, Value};

/// A callback of the embedding program.
pub(super) type Done<T> = Box<dyn FnOnce(Result<T, Status>) + Send>;

pub(super) struct Core {}

impl Core {
    pub(super) fn start(
        _config: Arc<ServerConfig>,
        _host: Arc<dyn Host>,
        _forks: Arc<Forks>,
    ) -> Result<(Mailbox, JoinHandle<()>), ServerError> {
        Err(ServerError::System { what: "start", source: std::io::ErrorKind::Unsupported.into() })
    }

    pub(super) fn stop(&mut self) {}
    pub(super) fn register_nspace(&mut self, _: Nspace, _: usize, _: &[Info]) -> Result<(), Status> {
        Err(Status::ERR_NOT_SUPPORTED)
    }
    pub(super) fn register_client(&mut self, _: Proc, _: u32, _: u32, _: Option<usize>) -> Result<(), Status> {
        Err(Status::ERR_NOT_SUPPORTED)
    }
    pub(super) fn deregister_nspace(&mut self, _: &Nspace, done: Done<()>) {
        done(Err(Status::ERR_NOT_SUPPORTED));
    }
    pub(super) fn deregister_client(&mut self, _: &Proc, done: Done<()>) {
        done(Err(Status::ERR_NOT_SUPPORTED));
    }
    pub(super) fn client_died(&mut self, _: &Proc) {}
    pub(super) fn dmodex_request(&mut self, _: Proc, _: &[Info], done: Done<Vec<u8>>) {
        done(Err(Status::ERR_NOT_SUPPORTED));
    }
    pub(super) fn get_local(&mut self, _: Proc, _: Key, _: Vec<Info>, done: Done<Value>) {
        done(Err(Status::ERR_NOT_SUPPORTED));
    }
    pub(super) fn notify_from_host(&mut self, _: Status, _: Proc, _: u8, _: Vec<Info>, done: Done<()>) {
        done(Err(Status::ERR_NOT_SUPPORTED));
    }
}
