//! Callbacks of the embedding program.
use crate::data::Status;
use crate::pending::Callback;

/// Callback of the embedding program.
pub type Done<T> = Callback<T, Status>;
