//! The streams of all ranks, as the launcher and the host share them.
use std::sync::Arc;

use crate::input::Inputs;
use crate::input_copies::InputCopies;
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
    /// Standard input that is pushed to ranks.
    pub inputs: Arc<Inputs>,
    /// Our own standard input, for ranks that all read it.
    pub copies: Arc<InputCopies>,
    /// Ranks that have not attached; their output shows that they live.
    pub strangers: Arc<Strangers>,
}
