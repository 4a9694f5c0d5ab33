//! A stock server upstream: how a process finds its job under a server of the reference implementation.
//!
//! Three actors, two of them in this process. The *client* is the one that every process has: it maps a job's memory
//! and looks up by itself. Its *server* is one of its own, which serves nobody else. That server's *host* is the stock
//! server ([`StockHost`]): what a host does for a node, it does for this process. So there is one client, one store
//! and one way for a Get, whoever the process's server is; only the last step to the host is another protocol.
//!
//! A tool comes to a stock server in the same way, and finds it by its files ([`contacts`]). It is the only process of
//! its namespace; jobs of others it looks into as any process does.
//!
//! At first the process says who it is ([`Connection::open`]) and takes in the information of its job
//! ([`job_info`]), which its server writes into memory. From then on one thread receives ([`Connection::serve`]):
//! answers go to those who have asked, events and output to the server.
//!
//! When the stock server dies, or closes its end, the thread ends this process's server, and the client finds that its
//! connection is lost. When this process dies, everything goes with it, and the stock server sees the end of its socket.
mod address;
mod answers;
mod commands;
mod connection;
pub mod contacts;
mod copies;
mod error;
pub mod exchange;
mod host;
mod job_info;
mod modex;
pub mod node;
pub mod parsers;
#[cfg(test)]
mod tests;
pub mod told;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::control::address::{self as native, Address};
use crate::data::{DataRange, Proc, Status};
use crate::handover::Opened;
use crate::server::{Server, ServerConfig};
use crate::stock::ack;
use crate::sys::signals;
use crate::trace;

pub use address::{Identity, StockAddress};
use connection::{Accepted, Connection, News};
pub use error::JoinError;
use host::StockHost;
use job_info::JobInfo;

/// The way to a stock server, for as long as its client lives.
#[derive(Debug)]
pub struct Upstream {
    link: Arc<Connection>,
    server: Arc<Mutex<Option<Arc<Server>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Joins the job that a stock server knows this process to be of, or attaches to the server. Returns the address of
    /// the server that stands for it in this process, and where it may `map` them the node's segments of the job.
    ///
    /// # Errors
    /// When the stock server cannot be reached or refuses, and when the system has no room for a server.
    pub fn join(
        address: &StockAddress,
        who: &Identity,
        map: bool,
        until: Option<Instant>,
    ) -> Result<(Upstream, Address, Option<Opened>), JoinError> {
        // A server before 7 has one way of information for a namespace, that of who came last. A process that may not
        // map the segments must not take it from the others, or what they commit from then on is missing there.
        let way = if address.node.is_some() { node::MODULE } else { ack::VALUES };
        let Accepted { link, receiver, proc, server: name } = Connection::open(address, who, way, until)?;
        let (link, nspace) = (Arc::new(link), &proc.nspace);
        let (answer, mut early, mut receiver) = receiver.ask_first(&link, &job_info::request(), until)?;
        let is_tool = matches!(who, Identity::Tool { .. });
        // The plug-in has them when the server has answered.
        let node = address.node.as_deref().filter(|_| map);
        let node = node.and_then(|address| node::open(address, &proc, until));
        let mut job = match node.as_ref().and_then(|(reader, _)| node::job_info(reader, &proc)) {
            Some(known) => known,
            None => match job_info::read(&answer, nspace) {
                // A server need not know more of a tool's job than the tool does.
                found if is_tool => found.unwrap_or_default().of_tool(&proc, &name),
                Err(JoinError::Refused { status: node::LOOK_THERE, .. }) => JobInfo::default(),
                found => found?,
            },
        };
        if !job.is_whole() {
            // A process that has come after this one has chosen shared memory, and the most of it is there.
            let (answer, more, next) = receiver.ask_first(&link, &job_info::request_values(nspace), until)?;
            let known = answers::read(&answer, answers::data);
            let known = known.map_err(|status| job_info::refused(nspace, status))?;
            job.add(known.into_iter().flat_map(|(_, info)| info).collect());
            early.extend(more);
            receiver = next;
        }

        let host = Arc::new(StockHost::new(link.clone(), nspace, address.major, address.node.is_some()));
        let config = ServerConfig {
            nspace: name.nspace,
            rank: name.rank,
            hostname: job.hostname_of(proc.rank).unwrap_or(ServerConfig::default().hostname),
            stock_clients: false,
            one_client: true,
            ..ServerConfig::default()
        };
        let failed = |what| move |status: Status| JoinError::System { what, source: io::Error::other(status) };
        let server = Server::start(config, host.clone()).map_err(|error| JoinError::System {
            what: "no server for one process",
            source: io::Error::other(error),
        })?;
        let server = Arc::new(server);
        host.serve(Arc::downgrade(&server));
        let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        server.register_client(&proc, uid, gid).wait().map_err(failed("no registration of this process"))?;
        server.register_nspace(nspace, 1, &job.info).wait().map_err(failed("no registration of its job"))?;
        let own = address_in(&server, &proc)?;

        let (heir, upstream) = (Arc::downgrade(&server), Arc::new(Mutex::new(Some(server))));
        let end = End { link: link.clone(), server: upstream.clone() };
        let of_host = host.clone();
        let thread = signals::spawn_without_signals("instanton-host", move || {
            let end = end;
            early.into_iter().for_each(|item| tell(&of_host, &heir, item));
            receiver.serve(&end.link, |item| tell(&of_host, &heir, item));
        });
        let thread = thread.map_err(|source| JoinError::System { what: "no thread", source })?;
        host.hear_everything();
        Ok((Upstream { link, server: upstream, thread: Some(thread) }, own, node))
    }
}

/// The end of the receiving thread, however it ends: nobody goes on waiting for an answer, and with the server in this
/// process the client's connection ends.
struct End {
    link: Arc<Connection>,
    server: Arc<Mutex<Option<Arc<Server>>>>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.link.end();
        drop(self.server.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // First the connection: the server's thread may wait for a stock server that takes nothing any more.
        self.link.close();
        drop(self.server.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// Returns the address at which the process finds its own server.
fn address_in(server: &Server, proc: &Proc) -> Result<Address, JoinError> {
    let unusable = |problem: String| JoinError::NotAvailable(format!("the server in this process: {problem}"));
    let mut variables = BTreeMap::<OsString, OsString>::new();
    server.setup_fork(proc, &mut variables).map_err(|status| unusable(status.to_string()))?;
    let text = variables.get(OsStr::new(native::VARIABLE)).and_then(|text| text.to_str()).unwrap_or_default();
    text.parse().map_err(|error: native::BadAddress| unusable(error.to_string()))
}

/// Hands on what the stock server says unasked.
fn tell(host: &StockHost, server: &Weak<Server>, news: News) {
    let Some(server) = server.upgrade() else { return };
    let told = match news {
        // The stock server has chosen this process already, whatever the range was.
        News::Event { status, source, info } => {
            server.notify_event(status, &source, DataRange::LOCAL, &info).then(|_| {})
        }
        News::Output { source, channel, pull, bytes, info } => {
            if !host.counts(&source, channel, pull) {
                return;
            }
            server.iof_deliver(&source, channel, &bytes, &info).then(|_| {})
        }
    };
    if let Err(status) = told {
        trace!("news of the stock server come too late: {status}");
    }
}
