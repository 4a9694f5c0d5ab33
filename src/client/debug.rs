//! Stopping in Init for a debugger.
//!
//! The launcher of a job may want its processes to wait in Init (`PMIX_DEBUG_STOP_IN_INIT`), all or some of them. Such
//! a process says that it is there (`READY_FOR_DEBUG`, to its host) and waits for `DEBUGGER_RELEASE`, which may come
//! before it waits. When its server dies, it waits no longer.
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::{DataRange, Info, Proc, Rank, Status, keys};
use crate::oneshot;
use crate::store::Question;
use crate::trace;

use super::{Client, Handler, InitError};

/// Place at which such a process stops, as its host is told.
const PLACE: &str = "pmix-init";

impl Client {
    /// Waits for a debugger, where whoever has started this job wants that of this process.
    ///
    /// # Errors
    /// [`InitError::NotAvailable`] when the server dies meanwhile.
    pub(super) fn stop_for_debugger(&self) -> Result<(), InitError> {
        // Nearly every process finds in its own memory that nobody is to stop, and Init does no more for that.
        let asked = Question::new(Rank::WILDCARD, keys::DEBUG_STOP_IN_INIT);
        if self.inner.jobs.own().is_some_and(|reader| matches!(reader.contains(&asked), Ok(false))) {
            return Ok(());
        }
        let job = Proc::new(self.proc().nspace.clone(), Rank::WILDCARD);
        let here = [Info::new(keys::OPTIONAL, true)];
        match self.get(&job, keys::DEBUG_STOP_IN_INIT, &here) {
            Ok(who) if who.chooses(self.proc()) => {}
            _ => return Ok(()),
        }
        let lost = || InitError::NotAvailable("the server is gone, and with it the debugger's word".into());
        let (sender, released) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let handler: Handler = Arc::new(move |notice, chain| {
            if let Some(sender) = sender.lock().unwrap_or_else(PoisonError::into_inner).take() {
                sender.send(notice.status == Status::DEBUGGER_RELEASE);
            }
            chain.complete(Status::EVENT_NO_ACTION_TAKEN, Vec::new());
        });
        let codes = [Status::DEBUGGER_RELEASE, Status::ERR_LOST_CONNECTION];
        let handler = self.register_event_handler(&codes, &[], handler).wait().map_err(|_| lost())?;
        let said = [Info::new(keys::EVENT_NON_DEFAULT, true), Info::new(keys::BREAKPOINT, PLACE)];
        let told = self.notify_event(Status::READY_FOR_DEBUG, self.proc(), DataRange::RM, &said).then(|_| ());
        if let Err(error) = told {
            trace!("nobody is told that {} waits for a debugger: {error}", self.proc());
        }
        let is_released = released.recv() == Some(true);
        let _ = self.deregister_event_handler(handler).then(|_| ());
        if is_released { Ok(()) } else { Err(lost()) }
    }
}
