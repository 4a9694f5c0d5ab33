//! Wish of a user, of the run or of a caller, for an explanation of a job that hangs.
use std::time::{Duration, Instant};

use crate::args::GeneralArgs;

/// Time that a job has for its end after the user's first interrupt, before it is explained.
pub(super) const AFTER_INTERRUPT: Duration = Duration::from_secs(1);

/// The wish for explanations.
#[derive(Debug, Default)]
pub(super) struct Hang {
    /// True if stacks are shown with them.
    pub(super) shows_stacks: bool,
    /// Time at which an interrupt should have ended the job, and its number.
    pub(super) due: Option<(Instant, i32)>,
}

/// Beginning of the explanation at the user's time limit.
pub(super) fn limit_over(limit: Duration) -> String {
    format!("{} s are over", limit.as_secs_f64())
}

impl Hang {
    pub(super) fn new(arguments: &GeneralArgs) -> Self {
        Self { shows_stacks: arguments.get_stack_traces, due: None }
    }
}
