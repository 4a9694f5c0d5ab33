//! Events that clients and the embedding program raise: groups hear of them first, then they are delivered.
use super::Router;
use crate::data::DataRange;
use crate::server::ctx::Done;
use crate::server::ctx::event::{AfterRaise, Event, Origin};
use crate::server::ctx::peers::Caller;
use crate::server::groups::is_between_servers;

impl Router {
    /// A client raises an event. It has told its own handlers, unless `tells_raiser`.
    pub(super) fn notify(&mut self, caller: Caller, mut event: Event, tells_raiser: bool) {
        if event.range == DataRange::UNDEF {
            event.range = DataRange::SESSION;
        }
        self.groups.hear(below!(self), &mut event, false);
        if tells_raiser {
            self.events.tell(&mut self.cx, caller.peer, &event);
        }
        self.events.raise(&mut self.cx, &self.jobs, event, Origin::Peer(caller.peer), AfterRaise::Reply(caller));
    }

    /// The embedding program raises an event, or passes one on.
    pub(in crate::server) fn notify_from_host(&mut self, mut event: Event, done: Done<()>) {
        if self.events.is_back(&self.cx, &self.jobs, &event) {
            return self.cx.finish(done, Ok(()));
        }
        // Behind the host of a single client, processes on other libraries raise such events themselves. Such an event
        // concerns that client alone.
        let by_server = event.take_signature() || self.cx.config.one_client;
        self.groups.hear(below!(self), &mut event, by_server);
        if is_between_servers(&event) {
            return self.cx.finish(done, Ok(()));
        }
        // Servers of nodes without a member of a group do not know whom its name stands for.
        self.groups.resolve(&self.jobs, &self.process_sets, &mut event.info);
        self.events.raise(&mut self.cx, &self.jobs, event, Origin::Program, AfterRaise::Done(done));
    }
}
