//! Tools that pull the output of ranks (`PMIx_IOF_pull`), besides the readers of ours.
//!
//! The threads that forward output look here at each piece, and hand what is wanted to the server, which waits for no
//! slow reader. Output of a job that was started with the wish to have it forwarded is handed over from its beginning:
//! its parent can pull it once it knows its name.
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use instanton::data::{Channels, Info, InfoList, Proc, Rank, keys};
use instanton::server::Server;

/// One call.
#[derive(Debug, PartialEq, Eq)]
struct Pull {
    /// In order: each piece of output is held against them.
    procs: Vec<Proc>,
    channels: Channels,
    /// True if it takes the output away from our own reader.
    redirects: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Pulls {
    open: Mutex<Vec<Pull>>,
    server: OnceLock<Weak<Server>>,
    others: OnceLock<Others>,
}

/// Hands output to the servers of other nodes.
type Deliver = dyn Fn(&Proc, Channels, &[u8], &[Info]) + Send + Sync;

struct Others(Box<Deliver>);

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Others")
    }
}

/// A stream that may be pulled.
#[derive(Debug)]
pub struct PulledStream {
    /// All pulls of the run.
    pub pulls: Arc<Pulls>,
    /// The process that prints it.
    pub source: Proc,
    /// The stream.
    pub channel: Channels,
    /// True if it is handed over in any case.
    pub always: bool,
}

impl Pulls {
    /// Makes this the server that output is handed to. It is not kept alive.
    pub fn lead_to(&self, server: &Arc<Server>) {
        // There is one server.
        let _ = self.server.set(Arc::downgrade(server));
    }

    /// Makes this the way to the servers of other nodes.
    pub fn lead_on(&self, deliver: impl Fn(&Proc, Channels, &[u8], &[Info]) + Send + Sync + 'static) {
        let _ = self.others.set(Others(Box::new(deliver)));
    }

    /// Somebody asks for output, or wants it no more.
    pub fn pull(&self, procs: &[Proc], directives: &[Info], channels: Channels) {
        let mut procs = procs.to_vec();
        procs.sort_unstable();
        procs.dedup();
        let pull = Pull { procs, channels, redirects: directives.is_set(keys::IOF_REDIRECT) };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !directives.is_set(keys::IOF_STOP) {
            open.push(pull);
        } else if let Some(at) = open.iter().position(|other| *other == pull) {
            open.swap_remove(at);
        }
    }
}

impl PulledStream {
    /// Hands bytes to the tools that want them, none at the end of the stream. Returns whether they are for our own
    /// output as well.
    pub fn hand_over(&self, bytes: &[u8]) -> bool {
        let (mut is_wanted, mut is_ours) = (self.always, true);
        {
            let open = self.pulls.open.lock().unwrap_or_else(PoisonError::into_inner);
            let all = Proc::new(self.source.nspace.clone(), Rank::WILDCARD);
            let has = |pull: &Pull, proc: &Proc| pull.procs.binary_search(proc).is_ok();
            let wants =
                |pull: &&Pull| pull.channels.contains(self.channel) && (has(pull, &self.source) || has(pull, &all));
            for pull in open.iter().filter(wants) {
                is_wanted = true;
                is_ours &= !pull.redirects;
            }
        }
        if is_wanted && let Some(server) = self.pulls.server.get().and_then(Weak::upgrade) {
            let end = bytes.is_empty().then(|| Info::new(keys::IOF_COMPLETE, true));
            // It takes over at once, so that no more than this is on its way; one that has ended has nobody left to
            // tell.
            if let Some(Others(deliver)) = self.pulls.others.get() {
                deliver(&self.source, self.channel, bytes, end.as_slice());
            }
            let _ = server.iof_deliver(&self.source, self.channel, bytes, end.as_slice()).wait();
        }
        is_ours
    }
}

#[cfg(test)]
mod tests {
    use instanton::data::Nspace;

    use super::*;

    #[test]
    fn output_is_held_against_all_processes_that_a_pull_names() {
        let job = Nspace::new("job").unwrap();
        let proc = |rank| Proc::new(job.clone(), rank);
        let (pulls, redirects) = (Arc::new(Pulls::default()), Info::new(keys::IOF_REDIRECT, true));
        let is_ours = |rank, channel| {
            let stream = PulledStream { pulls: pulls.clone(), source: proc(Rank(rank)), channel, always: false };
            stream.hand_over(b"text")
        };
        let of_both = |channel| [0, 7].map(|rank| is_ours(rank, channel));
        // In no order, and named twice.
        let some = [9, 3, 7, 1, 7, 5].map(|rank| proc(Rank(rank)));
        let stop = [redirects.clone(), Info::new(keys::IOF_STOP, true)];
        pulls.pull(&some, std::slice::from_ref(&redirects), Channels::STDOUT);
        assert_eq!((of_both(Channels::STDOUT), of_both(Channels::STDERR)), ([true, false], [true, true]));
        pulls.pull(&[proc(Rank(0))], &[], Channels::STDOUT);
        assert_eq!(of_both(Channels::STDOUT), [true, false], "who reads along takes nothing away");
        pulls.pull(&some, &stop, Channels::STDOUT);
        assert_eq!(of_both(Channels::STDOUT), [true, true]);
        let other = Proc::new(Nspace::new("other").unwrap(), Rank::WILDCARD);
        pulls.pull(&[other, proc(Rank::WILDCARD)], &[redirects], Channels::STDOUT);
        assert_eq!(of_both(Channels::STDOUT), [false, false]);
    }
}
