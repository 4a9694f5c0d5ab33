//! The streams of all ranks, as the launcher and the host share them.
use std::sync::Arc;

use crate::input::Inputs;
use crate::output::OutputSender;
use crate::pulls::Pulls;
use crate::strangers::Strangers;

/// The streams of all ranks, as the launcher and the host share them.
#[derive(Clone)]
pub struct Streams {
    /// Ways to the threads that forward standard output and standard error.
    pub feeds: [OutputSender; 2],
    /// Pulls of their output.
    pub pulls: Arc<Pulls>,
    /// Standard input.
    pub inputs: Arc<Inputs>,
    /// Ranks that have not attached; their output shows that they live.
    pub strangers: Arc<Strangers>,
}
