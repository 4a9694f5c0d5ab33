//! A job for tests of what clients are told.
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crate::data::{Info, Nspace, Rank, Status, Value, keys};
use crate::message::door::{Each, JobInformation};

/// Job with so many ranks on each of so many nodes; the first node is the own one.
#[derive(Debug)]
pub struct Job {
    nspace: Nspace,
    nodes: u32,
    local: Vec<Rank>,
    /// Number of times that ranks were gone through.
    read: Mutex<usize>,
}

/// Name of the job.
pub fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

impl Job {
    pub fn new(nodes: u32, per_node: u32) -> Arc<Self> {
        let local = (0..per_node).map(Rank).collect();
        Arc::new(Job { nspace: nspace(), nodes, local, read: Mutex::new(0) })
    }

    /// Returns the number of times that ranks were gone through.
    pub fn reads(&self) -> usize {
        *self.read.lock().unwrap()
    }
}

impl JobInformation for Job {
    fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    fn ranks(&self) -> u32 {
        self.nodes * self.local.len() as u32
    }

    fn local(&self) -> &[Rank] {
        &self.local
    }

    fn of_job(&self) -> Result<Vec<Info>, Status> {
        Ok(vec![
            Info::new(keys::NODE_MAP, Value::Regex(b"pmix[a]\0".to_vec())),
            Info::new(keys::JOB_SIZE, self.ranks()),
        ])
    }

    fn of_nodes(&self, others: bool, each: Each<'_>) -> Result<(), Status> {
        let nodes = if others { 0..self.nodes } else { 0..1 };
        let _ = nodes.map(|node| each(vec![Info::new(keys::NODEID, node)])).find(ControlFlow::is_break);
        Ok(())
    }

    fn of_apps(&self, _: Each<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn of_ranks(&self, ranks: &mut dyn Iterator<Item = Rank>, each: Each<'_>) -> Result<(), Status> {
        *self.read.lock().unwrap() += 1;
        let said = |rank| vec![Info::new(keys::RANK, rank), Info::new(keys::HOSTNAME, "a name of some length")];
        let _ = ranks.map(|rank| each(said(rank))).find(ControlFlow::is_break);
        Ok(())
    }
}
