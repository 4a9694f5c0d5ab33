//! Ways to rooms for files that are still methods of the router.
use super::Router;
use crate::server::ctx::event::{AfterRaise, Event, Origin};

impl Router {
    /// Raises an event of this server, or of one of its processes.
    pub(in crate::server) fn raise(&mut self, event: Event, origin: Origin, then: AfterRaise) {
        self.events.raise(&mut self.cx, &self.jobs, event, origin, then);
    }
}
