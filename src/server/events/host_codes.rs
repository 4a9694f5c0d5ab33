//! Event codes that the host watches for, because clients have registered them.
use std::collections::{BTreeSet, VecDeque};

use crate::data::{Info, Status};
use crate::server::ctx::Ctx;
use crate::server::ctx::ticket::Ticket;
use crate::trace;

/// Questions that a host may leave unanswered. Beyond that it is asked nothing new until it answers: what it is shown
/// stays until then.
const MAX_UNANSWERED: usize = 64;

/// Codes at the host, and those that it is to be told of.
#[derive(Debug, Default)]
pub struct HostCodes {
    /// Codes that the host was asked to watch for.
    watched: BTreeSet<i32>,
    /// Number of questions that it has not answered.
    unanswered: usize,
    /// Codes that it is to be asked for, with the attributes of the registration. Some of them may be wanted by nobody
    /// any more.
    to_watch: VecDeque<(Vec<Status>, Vec<Info>)>,
    /// Number of codes in `to_watch`.
    listed: usize,
    /// Codes that are in `to_watch` and wanted.
    queued: BTreeSet<i32>,
    /// Codes that the host watches for and nobody wanted when they were put here.
    unwanted: BTreeSet<i32>,
}

/// Returns whether only the host can know of such events: codes of the environment, and those that are not the
/// Standard's.
fn is_the_hosts(code: i32) -> bool {
    let environment = (Status::EVENT_SYS_OTHER.0..=Status::EVENT_SYS_BASE.0).contains(&code);
    environment || !(Status::EXTERNAL_ERR_BASE.0..=0).contains(&code)
}

impl HostCodes {
    /// Has the host watch for those among these codes that are its own, and new to it.
    pub fn watch(&mut self, cx: &mut Ctx, codes: &[Status], info: Vec<Info>) {
        // Behind the host of a single client are all others that may raise an event.
        let is_watched = |code: i32| cx.config.one_client || is_the_hosts(code);
        let is_new = |code: &i32| is_watched(*code) && !self.watched.contains(code) && self.queued.insert(*code);
        let new: Vec<Status> = codes.iter().map(|code| code.0).filter(is_new).map(Status).collect();
        if !new.is_empty() {
            self.listed += new.len();
            self.to_watch.push_back((new, info));
            self.ask(cx);
        }
    }

    /// Has the host watch no longer for codes that nobody wants any more.
    pub fn release(&mut self, cx: &mut Ctx, unwanted: &[i32]) {
        for code in unwanted {
            if !self.queued.remove(code) && self.watched.contains(code) {
                self.unwanted.insert(*code);
            }
        }
        // So seldom that what is gone through was released before.
        if self.listed > 2 * self.queued.len() + MAX_UNANSWERED {
            let mut left = self.queued.clone();
            self.to_watch.retain_mut(|(codes, _)| {
                codes.retain(|code| left.remove(&code.0));
                !codes.is_empty()
            });
            self.listed = self.queued.len();
        }
        self.ask(cx);
    }

    /// The host has answered a question.
    pub fn answered(&mut self, cx: &mut Ctx, result: Result<(), Status>) {
        // A host that cannot watch for them leaves those that clients raise themselves.
        if let Err(status) = result {
            trace!("the host does not watch for events: {status}");
        }
        self.unanswered -= 1;
        self.ask(cx);
    }

    /// Asks the host what it is to be asked, as far as it may be.
    fn ask(&mut self, cx: &mut Ctx) {
        if self.unanswered >= MAX_UNANSWERED {
            return;
        }
        if !self.unwanted.is_empty() {
            let mut gone = std::mem::take(&mut self.unwanted);
            // Somebody may want it again by now.
            gone.retain(|code| !cx.subscriptions.is_wanted(*code) && self.watched.remove(code));
            let gone: Vec<Status> = gone.into_iter().map(Status).collect();
            if !gone.is_empty() {
                self.unanswered += 1;
                cx.ask_host(|host, done| host.deregister_events(&gone, done), (), |_| Ticket::EventCodes(Ok(())));
            }
        }
        while self.unanswered < MAX_UNANSWERED
            && let Some((mut new, info)) = self.to_watch.pop_front()
        {
            self.listed -= new.len();
            // A code that was released and wanted again meanwhile stands in a later registration as well.
            new.retain(|code| self.queued.remove(&code.0));
            if !new.is_empty() {
                self.unanswered += 1;
                self.watched.extend(new.iter().map(|code| code.0));
                cx.ask_host(|host, done| host.register_events(&new, &info, done), (), Ticket::EventCodes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::message::door::PeerId;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host};

    /// A host that lets questions wait until it is told to answer at once.
    #[derive(Default)]
    struct DeferringHost {
        waiting: Mutex<Vec<Completion<()>>>,
        asked: Mutex<Vec<String>>,
        is_prompt: Mutex<bool>,
    }

    impl DeferringHost {
        fn take(&self, question: String, done: Completion<()>) -> Accepted {
            self.asked.lock().unwrap().push(question);
            if *self.is_prompt.lock().unwrap() {
                return Ok(Answer::Done);
            }
            self.waiting.lock().unwrap().push(done);
            Ok(Answer::Later)
        }
    }

    impl Host for DeferringHost {
        fn register_events(&self, codes: &[Status], _: &[Info], done: Completion<()>) -> Accepted {
            self.take(format!("+{:?}", codes.iter().map(|code| code.0).collect::<Vec<_>>()), done)
        }

        fn deregister_events(&self, codes: &[Status], done: Completion<()>) -> Accepted {
            self.take(format!("-{:?}", codes.iter().map(|code| code.0).collect::<Vec<_>>()), done)
        }
    }

    const OURS: i32 = Status::EXTERNAL_ERR_BASE.0;

    fn bench() -> (TestCtx, Arc<DeferringHost>, PeerId) {
        let host = Arc::new(DeferringHost::default());
        let mut test = testing::ctx_of(Default::default(), host.clone());
        let peer = test.connect(&proc("job", 0));
        (test, host, peer)
    }

    fn register(test: &mut TestCtx, codes: &mut HostCodes, peer: PeerId, code: i32) {
        test.cx.subscriptions.add(peer, &[Status(code)]);
        codes.watch(&mut test.cx, &[Status(code)], Vec::new());
    }

    fn answer_all(test: &mut TestCtx, codes: &mut HostCodes) {
        while let Some(ticket) = test.ticket() {
            let Ticket::EventCodes(result) = ticket else { panic!("{ticket:?}") };
            codes.answered(&mut test.cx, result);
        }
    }

    #[test]
    fn a_host_that_answers_at_once_after_a_while_is_asked_all_that_has_waited() {
        let (mut test, host, peer) = bench();
        let mut codes = HostCodes::default();
        (1..1000).for_each(|code| register(&mut test, &mut codes, peer, OURS - code));
        assert_eq!(host.waiting.lock().unwrap().len(), MAX_UNANSWERED);
        *host.is_prompt.lock().unwrap() = true;
        let first = host.waiting.lock().unwrap().remove(0);
        first.complete(Ok(()));
        answer_all(&mut test, &mut codes);
        assert_eq!((codes.to_watch.len(), codes.unanswered), (0, MAX_UNANSWERED - 1));
        assert_eq!(host.asked.lock().unwrap().len(), 999);
    }

    #[test]
    fn the_host_is_asked_once_for_a_code_and_only_for_its_own() {
        let (mut test, host, peer) = bench();
        let mut codes = HostCodes::default();
        for code in [OURS - 1, OURS - 1, Status::ERR_PROC_ABORTED.0] {
            register(&mut test, &mut codes, peer, code);
        }
        assert_eq!(*host.asked.lock().unwrap(), [format!("+[{}]", OURS - 1)]);
    }

    #[test]
    fn codes_that_nobody_wants_any_more_are_taken_back_or_never_asked_for() {
        let (mut test, host, peer) = bench();
        let mut codes = HostCodes::default();
        (1..=MAX_UNANSWERED as i32 + 2).for_each(|code| register(&mut test, &mut codes, peer, OURS - code));
        let kept = OURS - MAX_UNANSWERED as i32 - 2;
        let gone: Vec<Status> = (1..=MAX_UNANSWERED as i32 + 1).map(|code| Status(OURS - code)).collect();
        let unwanted = test.cx.subscriptions.remove(peer, &gone);
        codes.release(&mut test.cx, &unwanted);
        assert_eq!(host.asked.lock().unwrap().len(), MAX_UNANSWERED, "it has not answered yet");
        *host.is_prompt.lock().unwrap() = true;
        let first = host.waiting.lock().unwrap().remove(0);
        first.complete(Err(Status::ERR_NOT_SUPPORTED));
        answer_all(&mut test, &mut codes);
        let asked = host.asked.lock().unwrap().split_off(MAX_UNANSWERED);
        let taken_back = asked[0].strip_prefix('-').map(|codes| codes.split(',').count());
        assert_eq!((taken_back, &asked[1..]), (Some(MAX_UNANSWERED), &[format!("+[{kept}]")][..]));
    }

    #[test]
    fn codes_of_a_host_that_does_not_answer_cost_as_much_as_they_are() {
        // 65,536 codes wait at a host that is silent. Of each pair compared, 4,294,967,296 steps would not end.
        let (mut test, host, peer) = bench();
        let mut codes = HostCodes::default();
        (1..=MAX_UNANSWERED as i32).for_each(|code| register(&mut test, &mut codes, peer, OURS - code));
        let many: Vec<Status> = (100..65_636).map(|code| Status(OURS - code)).collect();
        test.cx.subscriptions.add(peer, &many);
        for _ in 0..20 {
            codes.watch(&mut test.cx, &many, Vec::new());
        }
        assert_eq!((codes.to_watch.len(), codes.queued.len()), (1, many.len()));
        for code in &many {
            let unwanted = test.cx.subscriptions.remove(peer, &[*code]);
            codes.release(&mut test.cx, &unwanted);
        }
        assert!(codes.queued.is_empty() && codes.listed <= MAX_UNANSWERED);
        *host.is_prompt.lock().unwrap() = true;
        let first = host.waiting.lock().unwrap().remove(0);
        first.complete(Ok(()));
        answer_all(&mut test, &mut codes);
        assert_eq!(host.asked.lock().unwrap().len(), MAX_UNANSWERED, "nobody wants them any more");
    }
}
