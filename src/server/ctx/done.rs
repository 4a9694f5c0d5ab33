//! Callbacks of the embedding program.
use crate::data::Status;

/// Callback of the embedding program.
pub type Done<T> = Box<dyn FnOnce(Result<T, Status>) + Send>;
