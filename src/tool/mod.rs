//! A tool: a process that nobody's job is made of, and that attaches to servers to look at jobs, steer them or start
//! some.
//!
//! # Actors
//!
//! A *tool* has connections to any number of servers; each is a [`Client`], with a thread of its own. One of
//! them is the *primary* server, which everything is asked that is not meant for another. A tool without a
//! server is a client that is alone.
//!
//! # States
//!
//! A tool keeps its name from its init to its finalize. Its event handlers, what it has stored for itself and the
//! output that it has asked for belong to the tool: they stay when it turns to another server, and its handlers hear of
//! events from all of its servers. Its puts belong to the server that was primary then.
//!
//! # When a process dies
//!
//! A server that dies ends what waits for it with `ERR_LOST_CONNECTION`, and the tool's handlers are told. The
//! tool goes on, with the connections that it has left. When the tool dies, each of its servers finds out from
//! the end of the connection.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../../examples/tool.rs")]
//! ```

mod find;
#[cfg(feature = "server")]
mod stock;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::client::{Client, Error, InitError};
use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};

use find::Wish;

/// Seconds that a tool waits for a server's answer to its goodbye, where nothing else is said: a server that is stopped
/// gives none.
const FAREWELL: i32 = 5;

/// A process that attaches to servers. Every method may be called from any thread.
#[derive(Debug)]
pub struct Tool {
    proc: Proc,
    servers: Mutex<Servers>,
    attached: Condvar,
    /// The attributes of its init.
    asked: Vec<Info>,
    /// True if it has begun as a client, whose primary server may take its time.
    was_client: bool,
}

/// The connections of a tool.
#[derive(Debug)]
struct Servers {
    /// The connection that is asked; alone where there is no server.
    primary: Arc<Client>,
    others: Vec<Arc<Client>>,
    /// Number of times that a process which this one has started may have become a server.
    started: u64,
}

impl Servers {
    fn all(&self) -> impl Iterator<Item = &Arc<Client>> {
        std::iter::once(&self.primary).chain(&self.others)
    }

    /// The connection to a server, as long as it stands.
    fn of(&self, server: &Proc) -> Option<Arc<Client>> {
        let wanted = |client: &&Arc<Client>| client.is_connected() && client.server() == Some(server);
        self.all().find(wanted).cloned()
    }
}

impl Tool {
    /// Looks for a server, and attaches to it (`PMIx_tool_init`). The attributes say where to look, and whether there
    /// must be one: by default there must.
    ///
    /// # Errors
    /// [`InitError::NoServer`] where there is none, and why it was not to be had where there is;
    /// [`InitError::Directive`] for attributes that contradict each other.
    pub fn init(info: &[Info]) -> Result<Tool, InitError> {
        let wish = Wish::read(info)?;
        let client = match wish.connects {
            true => match wish.connect(None) {
                Err(error) if wish.is_optional => {
                    crate::trace!("this tool goes on without a server: {error}");
                    Client::alone(wish.proc.map_or_else(own_name, Ok)?, None)?
                }
                found => found?,
            },
            false => Client::alone(wish.proc.map_or_else(own_name, Ok)?, None)?,
        };
        Ok(Self { asked: info.to_vec(), was_client: false, ..Self::around(Arc::new(client)) })
    }

    /// Holds the attributes of one more init against those of the first.
    ///
    /// # Errors
    /// [`InitError::NotSupported`] for one that is required and unknown, [`InitError::Directive`] for one that had
    /// another value.
    pub fn check(tool: Option<&Tool>, info: &[Info]) -> Result<(), InitError> {
        Wish::read(info)?;
        let asked = |info: &Info| tool.and_then(|tool| tool.asked.find(info.key.as_str()?));
        let contradicts =
            |info: &&Info| find::is_own(info) && asked(info).is_some_and(|asked| asked.value != info.value);
        match info.iter().find(contradicts) {
            Some(info) => Err(InitError::Directive(format!("{} had another value", info.key))),
            None => Ok(()),
        }
    }

    /// Makes a tool of a process that is somebody's client, or alone: it keeps its name and its connection.
    pub fn around(client: Arc<Client>) -> Tool {
        let servers = Servers { primary: client, others: Vec::new(), started: 0 };
        Tool {
            proc: servers.primary.proc().clone(),
            servers: Mutex::new(servers),
            attached: Condvar::new(),
            asked: Vec::new(),
            was_client: true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of this tool.
    pub fn proc(&self) -> &Proc {
        &self.proc
    }

    /// The connection to the primary server; a client that is alone where there is none.
    pub fn primary(&self) -> Arc<Client> {
        self.lock().primary.clone()
    }

    /// Returns whether there is a primary server, and requests reach it (`PMIx_tool_is_connected`).
    pub fn is_connected(&self) -> bool {
        self.primary().is_connected()
    }

    /// Attaches to one more server (`PMIx_tool_attach_to_server`) and says which it is. It becomes the primary one if
    /// `PMIX_PRIMARY_SERVER` asks for that.
    ///
    /// # Errors
    /// [`InitError::Directive`] when no server is named; why it was not to be had.
    pub fn attach(&self, info: &[Info]) -> Result<Proc, InitError> {
        let wish = Wish::read(info)?;
        if !wish.names_a_server() {
            return Err(InitError::Directive("no server is named".into()));
        }
        let first = self.primary();
        let client = Arc::new(wish.connect(Some(&first))?);
        let server = client.server().cloned().unwrap_or_else(|| client.proc().clone());
        let mut servers = self.lock();
        servers.others.retain(|other| other.is_connected());
        match info.is_set(keys::PRIMARY_SERVER) {
            true => {
                let before = std::mem::replace(&mut servers.primary, client);
                // One that is alone, or has lost its server, was only standing in.
                servers.others.extend(Some(before).filter(|before| before.is_connected()));
            }
            false => servers.others.push(client),
        }
        self.attached.notify_all();
        Ok(server)
    }

    /// The servers that this tool is attached to, the primary one first (`PMIx_tool_get_servers`).
    pub fn servers(&self) -> Vec<Proc> {
        self.lock().all().filter(|client| client.is_connected()).filter_map(|client| client.server().cloned()).collect()
    }

    /// Makes a server the primary one (`PMIx_tool_set_server`). With `PMIX_WAIT_FOR_CONNECTION`, waits until this tool
    /// is attached to it, for `PMIX_TIMEOUT` seconds at most.
    ///
    /// # Errors
    /// `ERR_UNREACH` for one that it is not attached to, `ERR_TIMEOUT` when that lasts.
    pub fn set_server(&self, server: &Proc, info: &[Info]) -> Result<(), Error> {
        let until = info.time_limit().flatten().map(|limit| Instant::now() + limit);
        let mut servers = self.lock();
        let client = loop {
            match servers.of(server) {
                Some(client) => break client,
                None if !info.is_set(keys::WAIT_FOR_CONNECTION) => return Err(Status::ERR_UNREACH.into()),
                None => servers = self.await_change(servers, until)?,
            }
        };
        if !Arc::ptr_eq(&servers.primary, &client) {
            servers.others.retain(|other| !Arc::ptr_eq(other, &client));
            let before = std::mem::replace(&mut servers.primary, client);
            servers.others.extend(Some(before).filter(|before| before.is_connected()));
        }
        Ok(())
    }

    /// Waits until there may be another server than those known.
    fn await_change<'a>(
        &self,
        servers: MutexGuard<'a, Servers>,
        until: Option<Instant>,
    ) -> Result<MutexGuard<'a, Servers>, Error> {
        let Some(until) = until else { return Ok(self.attached.wait(servers).unwrap_or_else(PoisonError::into_inner)) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Status::ERR_TIMEOUT.into());
        }
        Ok(self.attached.wait_timeout(servers, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Makes a launcher that this process has started its primary server: as [`set_server`](Tool::set_server), and
    /// attaches to it first, where that is still to be done. `pid` gives its number as long as it runs.
    ///
    /// # Errors
    /// `ERR_UNREACH` also when it has ended.
    pub fn set_launcher(&self, server: &Proc, info: &[Info], pid: impl Fn() -> Option<u32>) -> Result<(), Error> {
        let until = info.time_limit().flatten().map(|limit| Instant::now() + limit);
        loop {
            let (started, is_attached) = {
                let servers = self.lock();
                (servers.started, servers.of(server).is_some())
            };
            if is_attached {
                return self.set_server(server, &[]);
            }
            let pid = pid().ok_or(Status::ERR_UNREACH)?;
            match self.attach(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(pid as i32))]) {
                Ok(found) if found == *server => continue,
                Ok(found) => crate::trace!("the launcher {server} is a server of the name {found}"),
                Err(error) => crate::trace!("the launcher {server} is no server yet: {error}"),
            }
            if !info.is_set(keys::WAIT_FOR_CONNECTION) {
                return Err(Status::ERR_UNREACH.into());
            }
            let mut servers = self.lock();
            while servers.started == started {
                servers = self.await_change(servers, until)?;
            }
        }
    }

    /// A process that this one has started has come to it, or has ended: who waits for it as a server looks again.
    pub fn look_again(&self) {
        self.lock().started += 1;
        self.attached.notify_all();
    }

    /// Ends the connection to a server (`PMIx_tool_disconnect`). Without its primary server the tool is alone
    /// until it names another one.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` for one that it is not attached to; the server's word, when the end was not a clean one.
    pub fn disconnect(&self, server: &Proc) -> Result<(), Error> {
        let gone = {
            let mut servers = self.lock();
            let client = servers.of(server).ok_or(Status::ERR_NOT_FOUND)?;
            match Arc::ptr_eq(&servers.primary, &client) {
                true => {
                    let alone = Client::alone(self.proc.clone(), Some(&client)).map_err(|error| error.status())?;
                    servers.primary = Arc::new(alone);
                }
                false => servers.others.retain(|other| !Arc::ptr_eq(other, &client)),
            }
            client
        };
        gone.finalize(&[Info::new(keys::TIMEOUT, FAREWELL)])
    }

    /// Ends every connection (`PMIx_tool_finalize`). `info` is for the primary server; its time limit is for each, and
    /// is five seconds where there is none, but for the barrier and the server of a process that was a client before.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] from a callback, and then nothing has ended; when a connection did not end cleanly,
    /// it is ended all the same.
    pub fn finalize(&self, info: &[Info]) -> Result<(), Error> {
        let all: Vec<Arc<Client>> = self.lock().all().cloned().collect();
        all.iter().try_for_each(|client| client.may_wait("PMIx_tool_finalize"))?;
        let mut info = info.to_vec();
        let limit = info.find(keys::TIMEOUT).cloned().unwrap_or_else(|| Info::new(keys::TIMEOUT, FAREWELL));
        // A barrier would be limited as well.
        if !self.was_client && info.find(keys::TIMEOUT).is_none() && !info.is_set(keys::EMBED_BARRIER) {
            info.push(limit.clone());
        }
        let limit = [limit];
        let info_of = |client: &Arc<Client>| if Arc::ptr_eq(client, &all[0]) { &info[..] } else { &limit };
        let ended: Vec<_> = all.iter().map(|client| client.finalize(info_of(client))).collect();
        ended.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// The name of a tool that no server has given one: of this host, and of this process.
fn own_name() -> Result<Proc, InitError> {
    let failed = |source| InitError::System { what: "no name for this tool", source };
    let host = nix::sys::utsname::uname().map_err(|error| failed(error.into()))?;
    let name = format!("tool.{}.{}", host.nodename().to_string_lossy(), std::process::id());
    let nspace = Nspace::new(name).map_err(|error| failed(std::io::Error::other(error)))?;
    Ok(Proc::new(nspace, Rank(0)))
}
