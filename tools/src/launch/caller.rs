//! Caller of the persistent mode, as the run keeps it.
use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::hang::Hang;
use super::stage::Stage;
use super::start::Starter;
use crate::outcome::Outcome;
use crate::persistent::visit::Way;

/// A caller whose job was taken in.
pub(super) struct Caller {
    pub(super) way: Way,
    pub(super) starter: Starter,
    pub(super) outcome: Outcome,
    pub(super) stage: Stage,
    /// Time at which the stage is over by itself.
    pub(super) next: Option<Instant>,
    /// Its numbers of jobs that have begun.
    pub(super) jobs: BTreeSet<u32>,
    /// Processes that its ranks have left behind and that were sent SIGTERM.
    pub(super) asked: HashSet<Pid>,
    /// Number of times that its user has asked for the end.
    pub(super) insisted: u32,
    pub(super) reports_separately: bool,
    /// The user's limit.
    pub(super) limit: Option<Duration>,
    pub(super) hang: Hang,
    /// The signal that has ended it, if one has.
    pub(super) ended_by: Option<i32>,
    /// Number of outputs that are not through yet.
    pub(super) printing: usize,
}
