//! Stages of a run and of a caller of the persistent mode, and the times that they last.
//!
//! A run goes through them, never back, with all its [jobs](crate::jobs) together.
//! - **Running** until every rank has ended and none is to be started anew, something goes wrong with the first job, or
//!   the user sends SIGTERM.
//! - **Ending**: the ranks, and everything that descends from them, were sent SIGTERM. When the
//!   ranks have ended, so is whatever they have started since.
//! - **Left over**: every rank has ended and other processes of theirs are still there. They have [`LINGER`] to end by
//!   themselves, then they are sent SIGTERM.
//! - **Killing**: [`GRACE`] after that SIGTERM, or at the user's second SIGINT, everything is sent SIGKILL, again and
//!   again until no child is left.
//!
//! Output that the ranks have printed is forwarded to its end after that, however long its reader takes. Where a time
//! limit or SIGTERM has ended the run, the reader has [`READING`].
use std::time::Duration;

/// Time from SIGTERM to SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// Time for processes that a rank left behind to finish, say to write the last of its output.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// Between two rounds of SIGKILL: a process may have been born while the first was sent.
pub(super) const ROUND: Duration = Duration::from_millis(50);

/// Time that readers of our output have, once a time limit or SIGTERM has ended the run, to take what is left of it.
pub(super) const READING: Duration = Duration::from_secs(5);

/// Stage of a run, or of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    Ending,
    LeftOver,
    Killing,
    /// Of a caller: nobody of its jobs is left, and what they have printed is on its way.
    Printing,
}
