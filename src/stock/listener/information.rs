//! Information of jobs on its way to clients: packed once, by the worker where it is much, and shared.
//!
//! A client that asks while it is being packed waits for that. A client that is gone by then is passed over.
use std::sync::Arc;
use std::time::Instant;

use super::{Breach, Connection, Done, Stage, StockListener};
use crate::data::Status;
use crate::message::door::{Callers, JobInformation};
use crate::stock::job_info::{self, Asker, For, Found, Packed};

impl StockListener {
    /// Brings a client the information of a job, packed for it or for another one before it.
    pub(super) fn inform(
        &mut self,
        id: u64,
        purpose: For,
        job: Arc<dyn JobInformation>,
        callers: &mut dyn Callers,
    ) -> Result<(), Breach> {
        let Some(Connection { stage: Stage::In(conversation), .. }) = self.connections.get(&id) else { return Ok(()) };
        let kind = (conversation.form(), conversation.parts(purpose));
        match self.shelf.ask(&job, kind, (id, purpose), Instant::now()) {
            Found::Packed(packed) => self.informed(id, purpose, Some(packed), callers)?,
            Found::Awaited => {}
            Found::Nothing => {
                if job.ranks() > job_info::FEW {
                    self.worker.is_there(&self.registry);
                }
                let pack = move || {
                    let body = job_info::body(kind, &*job);
                    Some(Done::Packed(job, kind, body))
                };
                if let Some(done) = self.worker.run(pack) {
                    self.done(done, callers);
                }
            }
        }
        Ok(())
    }

    /// Brings what was packed to those who wait for it.
    pub(super) fn packed(
        &mut self,
        job: &Arc<dyn JobInformation>,
        kind: job_info::Kind,
        body: Result<Vec<u8>, Status>,
        callers: &mut dyn Callers,
    ) {
        let connections = &self.connections;
        let charged = |askers: &[Asker]| {
            let account = &askers.iter().find_map(|(id, _)| connections.get(id))?.account;
            Packed::charged(body.ok()?, account)
        };
        let (askers, packed) = self.shelf.keep(job, kind, charged, Instant::now());
        for (id, purpose) in askers {
            if let Err(breach) = self.informed(id, purpose, packed.clone(), callers) {
                self.cut(id, &breach, callers);
            }
        }
    }

    /// Goes on with the information of a job, or without it where it cannot be had.
    pub(super) fn informed(
        &mut self,
        id: u64,
        purpose: For,
        packed: Option<Arc<Packed>>,
        callers: &mut dyn Callers,
    ) -> Result<(), Breach> {
        let Some(Connection { stage: Stage::In(conversation), .. }) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let step = match (purpose, packed) {
            (For::Answer(tag), Some(packed)) => return self.push_shared(id, tag, packed, callers),
            (For::Answer(tag), None) => Some(conversation.refused(tag)?),
            (For::Part(number), packed) => conversation.gathered(number, packed)?,
        };
        match step {
            Some(step) => self.step(id, step, 0, callers),
            None => Ok(()),
        }
    }

    fn push_shared(&mut self, id: u64, tag: u32, body: Arc<Packed>, callers: &mut dyn Callers) -> Result<(), Breach> {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.push_shared(tag, body)?;
            self.send_soon(id, callers);
        }
        Ok(())
    }
}
