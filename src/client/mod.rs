//! The client: a process of a job, and how it asks.

mod error;

use std::sync::Arc;

use crate::control::address::Address;
use crate::data::{Info, Key, Nspace, Proc, Rank, Status, Value};

pub use crate::message::directives::{Directives, Scale};
pub use error::{Error, InitError};

/// A value where it lies: in shared memory, or in this process.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found<'a> {
    /// In this process: put or stored by itself, or answered by the server.
    Own(&'a Value),
}

impl Found<'_> {
    /// The value itself.
    pub fn to_value(&self) -> Result<Value, Error> {
        match self {
            Found::Own(value) => Ok((*value).clone()),
        }
    }
}

/// What an event handler is told.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The handler's own number, from its registration.
    pub handler: usize,
    /// The event's code.
    pub status: Status,
    /// Who raised it.
    pub source: Proc,
    /// The event's attributes, with the handler's name and its return object where it has them.
    pub info: Vec<Info>,
    /// What the handlers before it answered.
    pub results: Vec<Info>,
}

/// What an event handler must complete, now or later, from any thread: the next handler is not called before. Dropping it
/// says that nothing was done.
pub struct Chain {}

impl Chain {
    /// Hands on to the next handler, or ends the chain with `EVENT_ACTION_COMPLETE`.
    pub fn complete(self, _status: Status, _results: Vec<Info>) {}
}

/// An event handler. It runs on the client's control thread and must not wait there.
pub type Handler = Arc<dyn Fn(Notice, Chain) + Send + Sync>;

/// A process of a job. Every method may be called from any thread.
///
/// A callback (`done`, a [`Handler`]) runs on the client's own thread, never before the call that it was given to has returned;
/// it never runs when that call failed. A call that would have to wait, made from there, fails with [`Error::WouldBlock`].
pub struct Client {
    proc: Proc,
}

impl Client {
    /// Connects to the server that the environment names (`PMIx_Init`). All job information is readable when it returns.
    ///
    /// # Errors
    /// [`InitError::Singleton`] when no launcher has started this process.
    pub fn init(info: &[Info]) -> Result<Client, InitError> {
        let _ = info;
        Err(InitError::Singleton)
    }

    /// Connects as `proc` to the server at `address`, whatever the environment says.
    ///
    /// # Errors
    /// When no door opens or the server refuses.
    pub fn connect(address: &Address, info: &[Info]) -> Result<Client, InitError> {
        let _ = (address, info);
        Err(InitError::Singleton)
    }

    /// A process that is a job of its own, without a server: rank 0 of a namespace that nobody else has.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn singleton() -> Result<Client, InitError> {
        Err(InitError::Singleton)
    }

    /// Whether this process may use the client: neither after [`finalize`](Client::finalize) nor in a forked child.
    pub fn is_initialized(&self) -> bool {
        false
    }

    /// Who this process is.
    pub fn proc(&self) -> &Proc {
        &self.proc
    }

    /// The name of the server; none for a singleton.
    pub fn server(&self) -> Option<&Nspace> {
        None
    }

    /// Keeps a value for the next [`commit`](Client::commit) (`PMIx_Put`); this process itself sees it at once.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for a scope that is none of LOCAL, REMOTE, GLOBAL and INTERNAL.
    pub fn put(&self, scope: u8, key: Key, value: Value) -> Result<(), Error> {
        let _ = (scope, key, value);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Gives the server what was put (`PMIx_Commit`), without waiting for it. A commit that fails later is reported by
    /// the next commit, fence or finalize.
    ///
    /// # Errors
    /// When the server is gone, or an earlier commit has failed.
    pub fn commit(&self) -> Result<(), Error> {
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Keeps a value for this process alone (`PMIx_Store_internal`); every later Get finds it first.
    ///
    /// # Errors
    /// After finalize or fork.
    pub fn store_internal(&self, proc: &Proc, key: Key, value: Value) -> Result<(), Error> {
        let _ = (proc, key, value);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Looks a key up (`PMIx_Get`); without a key, everything known of the process, as an array of attributes. An empty namespace is
    /// the process's own.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, ... by rules of the Standard; [`Error::WouldBlock`] where a callback would have to wait.
    pub fn get(&self, proc: &Proc, key: Option<&[u8]>, info: &[Info]) -> Result<Value, Error> {
        let _ = (proc, key, info);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// The same without waiting (`PMIx_Get_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn get_nb(
        &self,
        proc: &Proc,
        key: Option<&[u8]>,
        info: &[Info],
        done: impl FnOnce(Result<Value, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let _ = (proc, key, info, done);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// The whole of a blocking Get, with `f` called on the value where it lies instead of a copy. Makes no system call and
    /// allocates nothing when the value is at hand. `f` is called again when the value changed meanwhile: only its last result counts.
    ///
    /// # Errors
    /// As [`get`](Client::get).
    pub fn get_with<T>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: &[u8],
        directives: &Directives,
        f: impl FnMut(Found<'_>) -> T,
    ) -> Result<T, Error> {
        let _ = (nspace, rank, key, directives, f);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Meets the other participants (`PMIx_Fence`); no participants means the whole own namespace.
    ///
    /// # Errors
    /// What the server or the host answers, or a commit that failed before.
    pub fn fence(&self, procs: &[Proc], info: &[Info]) -> Result<(), Error> {
        let _ = (procs, info);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// The same without waiting (`PMIx_Fence_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn fence_nb(
        &self,
        procs: &[Proc],
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let _ = (procs, info, done);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Asks the host to end processes (`PMIx_Abort`); no processes means the whole own namespace.
    ///
    /// # Errors
    /// What the host answers.
    pub fn abort(&self, status: i32, message: Option<&[u8]>, procs: &[Proc]) -> Result<(), Error> {
        let _ = (status, message, procs);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Registers a handler for events with these codes; none for every event (`PMIx_Register_event_handler`). `done` is given
    /// the handler's number.
    ///
    /// # Errors
    /// When `done` will not run: `ERR_BAD_PARAM` for a directive that is no attribute of the Standard.
    pub fn register_event_handler(
        &self,
        codes: &[Status],
        info: &[Info],
        handler: Handler,
        done: impl FnOnce(Result<usize, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let _ = (codes, info, handler, done);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Takes a handler back (`PMIx_Deregister_event_handler`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn deregister_event_handler(
        &self,
        handler: usize,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let _ = (handler, done);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Raises an event (`PMIx_Notify_event`); `range` is a `constants::data_range`.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: u8,
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let _ = (status, source, range, info, done);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Controls processes, or registers what is to be cleaned up after them (`PMIx_Job_control_nb`); no targets means the whole
    /// own namespace.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn job_control_nb(
        &self,
        targets: &[Proc],
        directives: &[Info],
        done: impl FnOnce(Result<Vec<Info>, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let _ = (targets, directives, done);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Waits for a call that answers through a callback: `start` is given the callback and makes the call.
    ///
    /// # Errors
    /// The call's, or [`Error::WouldBlock`] when this is a callback itself.
    pub fn wait<T: Send + 'static>(
        &self,
        call: &'static str,
        start: impl FnOnce(Box<dyn FnOnce(Result<T, Error>) + Send>) -> Result<(), Error>,
    ) -> Result<T, Error> {
        let _ = (call, start);
        Err(Status::ERR_NOT_SUPPORTED.into())
    }

    /// Ends the client (`PMIx_Finalize`): tells the server, ends what still waits, joins the client's thread. Later calls fail.
    ///
    /// # Errors
    /// An earlier commit's failure, or the server's; the client is ended all the same.
    pub fn finalize(&self, info: &[Info]) -> Result<(), Error> {
        let _ = info;
        Err(Status::ERR_NOT_SUPPORTED.into())
    }
}
