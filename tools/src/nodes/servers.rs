//! Reports of the PMIx servers of all nodes of a run, gathered over the star.
use std::collections::BTreeMap;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use instanton::Pending;
use instanton::data::{Info, InfoList, LOAD, Load, Status, WAITING, WaitReport};
use instanton::server::Server;

use super::hub::{Hub, OWN};
use super::wire::{Call, Given};

/// Answers of the nodes, by their numbers; none of one that has not answered in time. A node that is down is left out.
pub type Told<T> = BTreeMap<usize, Option<T>>;

/// The ways to the servers of all nodes. It keeps none of them alive.
#[derive(Clone)]
pub struct Servers {
    own: Weak<Server>,
    hub: Option<Weak<Hub>>,
}

impl Servers {
    /// The launcher's server, and those of the other nodes if there are some.
    pub fn new(own: &Arc<Server>, hub: Option<&Arc<Hub>>) -> Self {
        Self { own: Arc::downgrade(own), hub: hub.map(Arc::downgrade) }
    }

    /// Returns whether the launcher's server runs.
    pub fn is_up(&self) -> bool {
        self.own.strong_count() > 0
    }

    /// Returns whether nodes are simulated.
    pub fn are_several(&self) -> bool {
        self.hub.is_some()
    }

    /// Asks what ranks are at.
    pub fn waiting(&self, patience: Duration) -> Told<WaitReport> {
        let read = |infos: &[Info]| WaitReport::from_value(&infos.find(WAITING)?.value);
        self.gather(patience, Server::waiting, || Call::Waiting, read)
    }

    /// Asks what the servers are loaded with.
    pub fn load(&self, patience: Duration) -> Told<Load> {
        let read = |infos: &[Info]| Load::from_value(&infos.find(LOAD)?.value);
        self.gather(patience, Server::load, || Call::Load, read)
    }

    fn gather<T: Send + 'static>(
        &self,
        patience: Duration,
        own: fn(&Server) -> Pending<T, Status>,
        call: fn() -> Call,
        read: fn(&[Info]) -> Option<T>,
    ) -> Told<T> {
        let (tell, told) = mpsc::channel();
        let mut all = Told::from([(OWN, None)]);
        if let Some(server) = self.own.upgrade() {
            let tell = tell.clone();
            // A server that has ended drops the way back.
            let _ = own(&server).then(move |report| _ = tell.send((OWN, report.ok())));
        }
        if let Some(hub) = self.hub.as_ref().and_then(Weak::upgrade) {
            let take = move |node: usize, given: Result<Given, Status>| {
                let report = match given {
                    Ok(Given::Infos(_, infos)) => read(&infos),
                    _ => None,
                };
                let _ = tell.send((node, report));
            };
            all.extend(hub.ask_each(call, take).into_iter().map(|node| (node, None)));
        } else {
            drop(tell);
        }
        let until = Instant::now() + patience;
        // The way back is closed once all have answered.
        while let Ok((node, report)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            all.insert(node, report);
        }
        all
    }
}
