//! Answers to requests whose texts are written by another thread.
use std::sync::{Arc, Mutex, PoisonError};

use instanton::server::Completion;

/// Request that is answered when all its texts are written, or nothing is written any more. The process that made it is
/// charged with them until then.
#[derive(Clone)]
pub struct Written(Arc<Mutex<Answer>>);

/// The way back from it.
struct Answer(Option<Completion<()>>);

impl Written {
    /// A request that is answered when this and its copies are dropped.
    pub fn new(done: Completion<()>) -> Self {
        Self(Arc::new(Mutex::new(Answer(Some(done)))))
    }

    /// Leaves the answer to the caller.
    pub fn forget(self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = None;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|done| done.complete(Ok(())));
    }
}
