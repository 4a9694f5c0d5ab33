//! Words of a debugger for a process that stops at two places.
//!
//! A process that was left stopped at its first instruction (`PMIX_DEBUG_STOP_ON_EXEC`) may go on by the event that also
//! ends a wait in Init or in the program (`PMIX_DEBUGGER_RELEASE`). That event is kept for those who register late, and
//! a process that stops there as well would find it, and wait no longer.
use super::Events;
use crate::data::{Key, Rank, Status, keys};
use crate::message::door::PeerId;
use crate::server::ctx::Ctx;
use crate::server::jobs::Jobs;
use crate::store::Directives;

impl Events {
    /// A rank has come. If it was stopped at its first instruction, what debuggers have said so far was for that.
    pub fn rank_came(&mut self, cx: &Ctx, jobs: &Jobs, peer: PeerId) {
        let Some(proc) = cx.peers.get(&peer).map(|entry| &entry.proc) else { return };
        let mut words =
            self.kept.events(cx.now()).filter(|kept| kept.event.status == Status::DEBUGGER_RELEASE).peekable();
        if words.peek().is_none() {
            return;
        }
        let (Some(store), Ok(key)) = (jobs.store(&proc.nspace), Key::new(keys::DEBUG_STOP_ON_EXEC)) else { return };
        let chosen = store.get(Rank::UNDEF, Rank::WILDCARD, &key, Directives::none());
        if chosen.is_ok_and(|chosen| chosen.chooses(proc)) {
            words.for_each(|kept| _ = kept.told.insert(peer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{DataRange, Info, Nspace, Proc};
    use crate::server::NoHost;
    use crate::server::ctx::event::{AfterRaise, Event, Origin};
    use crate::server::ctx::testing;
    use crate::store::JobInfoBuilder;

    #[test]
    fn the_word_for_one_stop_is_not_that_for_the_next() {
        let (mut test, mut events, mut jobs) = (testing::ctx(NoHost), Events::default(), Jobs::default());
        let nspace = Nspace::new("job").unwrap();
        let mut info = JobInfoBuilder::new(&nspace, 2, "n0");
        let stops = Info::new(keys::DEBUG_STOP_ON_EXEC, Rank(0));
        info.infos(&[Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::LOCAL_PEERS, "0,1"), stops]).unwrap();
        jobs.register(&mut test.cx, &nspace, 2, Ok(info)).unwrap();
        let own = test.cx.own_name();
        let all = Proc::new(nspace.clone(), Rank::WILDCARD);
        let raise = |test: &mut testing::TestCtx, events: &mut Events| {
            let info = vec![Info::new(keys::EVENT_CUSTOM_RANGE, all.clone()), Info::new(keys::EVENT_NON_DEFAULT, true)];
            let (status, range) = (Status::DEBUGGER_RELEASE, DataRange::CUSTOM);
            let event = Event { status, source: own.clone(), range, info, vote: None };
            events.raise(&mut test.cx, &jobs, event, Origin::Program, AfterRaise::Nothing);
            test.sent();
        };
        raise(&mut test, &mut events);
        let ranks = [0, 1].map(|rank| test.connect(&Proc::new(nspace.clone(), Rank(rank))));
        let hears = |test: &mut testing::TestCtx, events: &mut Events, peer| {
            events.rank_came(&test.cx, &Jobs::default(), peer);
            events.rank_came(&test.cx, &jobs, peer);
            let caller = test.request(peer);
            events.register(&mut test.cx, &jobs, caller, &[Status::DEBUGGER_RELEASE], Vec::new());
            test.pushes().len()
        };
        assert_eq!(ranks.map(|peer| hears(&mut test, &mut events, peer)), [0, 1], "the first was stopped before");
        let caller = test.request(ranks[0]);
        events.deregister(&mut test.cx, caller, &[Status::DEBUGGER_RELEASE]);
        raise(&mut test, &mut events);
        let caller = test.request(ranks[0]);
        events.register(&mut test.cx, &jobs, caller, &[Status::DEBUGGER_RELEASE], Vec::new());
        assert_eq!(test.pushes().len(), 1, "and the next word is for its next stop");
    }
}
