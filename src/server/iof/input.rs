//! Input for processes, from the clients and tools that push it (`PMIx_IOF_push`) to the host that carries it there.
//!
//! A host that falls behind stops a source (`PMIx_server_IOF_flow_control`, or `ERR_IOF_XOFF` as its answer to what it
//! has taken). Input that a stopped source pushes waits here without an answer, so that a caller who waits for one
//! pushes nothing more. When the host lets the source go on, the input that has waited goes to the host in order. Input
//! of a source that is gone is forgotten.
use std::collections::VecDeque;

use crate::data::{Channels, Info, Proc, Status};
use crate::message::door::PeerId;
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::ticket::Ticket;
use crate::trace;

/// Most bytes of all sources that wait.
const MAX_WAITING: usize = 64 << 20;

/// Input that was pushed.
#[derive(Debug)]
pub struct Pushed {
    pub caller: Caller,
    pub source: Proc,
    pub targets: Vec<Proc>,
    pub bytes: Vec<u8>,
    pub directives: Vec<Info>,
}

/// Room of the input: sources that the host has stopped, and what they have pushed since.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Processes, or patterns of them.
    stopped: Vec<Proc>,
    waiting: Vec<Pushed>,
    /// Bytes of what waits.
    bytes: usize,
    /// Input that has waited and goes on now.
    released: VecDeque<Pushed>,
}

/// Returns whether a pattern stands for a process, or for all that another pattern stands for. One without a
/// namespace stands for everybody.
fn covers(pattern: &Proc, proc: &Proc) -> bool {
    pattern.nspace.is_empty() || pattern.matches(proc)
}

impl Inputs {
    /// Takes in input, which goes to the host unless its source is stopped.
    pub fn push(&mut self, cx: &mut Ctx, pushed: Pushed) {
        if !self.is_stopped(&pushed.source) {
            return carry(cx, pushed);
        }
        let waiting = self.bytes;
        if waiting + pushed.bytes.len() > MAX_WAITING {
            trace!("{} pushes on though the host has stopped it: {waiting} bytes wait already", pushed.source);
            return cx.reply_status(pushed.caller.peer, pushed.caller.number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        self.keep(pushed);
    }

    fn keep(&mut self, pushed: Pushed) {
        self.bytes += pushed.bytes.len();
        self.waiting.push(pushed);
    }

    /// The host has answered to input of a source.
    pub fn answered(&mut self, cx: &mut Ctx, caller: Caller, source: &Proc, result: Result<(), Status>) {
        let result = match result {
            // It has taken this, and wants no more.
            Err(Status::ERR_IOF_XOFF) => {
                self.stop(source);
                Ok(())
            }
            other => other,
        };
        cx.reply_status(caller.peer, caller.number, result);
    }

    /// The host stops sources.
    pub fn stop(&mut self, source: &Proc) {
        if !self.stopped.contains(source) {
            self.stopped.push(source.clone());
        }
    }

    /// The host lets sources go on.
    pub fn resume(&mut self, cx: &mut Ctx, source: &Proc) {
        self.stopped.retain(|stopped| !covers(source, stopped));
        let (stay, go): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|pushed| self.is_stopped(&pushed.source));
        self.bytes = 0;
        stay.into_iter().for_each(|pushed| self.keep(pushed));
        self.released.extend(go);
        self.release(cx);
    }

    /// Carries the first released input to the host. The next follows when the host's answer is in, where it answers at
    /// once: that may stop the source again.
    pub fn release(&mut self, cx: &mut Ctx) {
        while let Some(pushed) = self.released.pop_front() {
            if self.is_stopped(&pushed.source) {
                self.keep(pushed);
                continue;
            }
            carry(cx, pushed);
            return cx.effect(Effect::InputReleased);
        }
    }

    /// A peer is gone.
    pub fn peer_over(&mut self, peer: PeerId) {
        let is_its = |pushed: &Pushed| pushed.caller.peer == peer;
        for pushed in self.waiting.extract_if(.., |pushed| is_its(pushed)) {
            self.bytes -= pushed.bytes.len();
        }
        self.released.retain(|pushed| !is_its(pushed));
    }

    /// A process has ended. Nobody has stopped the one that comes in its place.
    pub fn process_ended(&mut self, source: &Proc) {
        self.stopped.retain(|stopped| stopped != source);
    }

    fn is_stopped(&self, source: &Proc) -> bool {
        self.stopped.iter().any(|stopped| covers(stopped, source))
    }
}

fn carry(cx: &mut Ctx, pushed: Pushed) {
    let Pushed { caller, source, targets, bytes, directives } = pushed;
    let pusher = source.clone();
    cx.ask_host(
        |host, done| host.push_stdin(&source, &targets, &directives, &bytes, done),
        (),
        move |result| Ticket::InputPushed(caller, pusher, result),
    );
}

/// Returns whether channels include one whose source can be stopped.
pub fn can_be_stopped(channels: Channels) -> bool {
    channels.intersects(Channels::STDIN)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::data::{Nspace, Rank};
    use crate::message::Reply;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host};

    /// A host that notes the bytes it takes, and answers each with the next of its statuses.
    #[derive(Default)]
    struct ScriptedHost(Mutex<(Vec<Vec<u8>>, Vec<Status>)>);

    impl Host for Arc<ScriptedHost> {
        fn push_stdin(&self, _: &Proc, _: &[Proc], _: &[Info], bytes: &[u8], _: Completion<()>) -> Accepted {
            let mut sink = self.0.lock().unwrap();
            sink.0.push(bytes.to_vec());
            sink.1.pop().map_or(Ok(Answer::Done), Err)
        }
    }

    struct Room {
        inputs: Inputs,
        test: TestCtx,
        sink: Arc<ScriptedHost>,
        peer: PeerId,
    }

    impl Room {
        fn new() -> Room {
            let sink = Arc::new(ScriptedHost::default());
            let mut test = testing::ctx(sink.clone());
            let peer = test.connect(&proc("tool", 0));
            Room { inputs: Inputs::default(), test, sink, peer }
        }

        fn push(&mut self, bytes: &[u8]) {
            let caller = self.test.request(self.peer);
            let source = proc("tool", 0);
            let pushed = Pushed { caller, source, targets: Vec::new(), bytes: bytes.to_vec(), directives: Vec::new() };
            self.inputs.push(&mut self.test.cx, pushed);
            self.drain();
        }

        fn resume(&mut self) {
            self.inputs.resume(&mut self.test.cx, &proc("tool", 0));
            self.drain();
        }

        fn drain(&mut self) {
            while let Some(effect) = self.test.cx.next_effect() {
                match effect {
                    Effect::Returned(Ticket::InputPushed(caller, source, result)) => {
                        self.inputs.answered(&mut self.test.cx, caller, &source, result);
                    }
                    Effect::InputReleased => self.inputs.release(&mut self.test.cx),
                    other => panic!("{other:?}"),
                }
            }
        }

        fn taken(&self) -> Vec<Vec<u8>> {
            std::mem::take(&mut self.sink.0.lock().unwrap().0)
        }
    }

    #[test]
    fn input_of_a_stopped_source_waits_without_an_answer_and_goes_on_in_order() {
        let mut room = Room::new();
        room.inputs.stop(&proc("tool", 0));
        (b'a'..=b'c').for_each(|byte| room.push(&[byte]));
        assert!(room.taken().is_empty() && room.test.replies().is_empty());
        room.resume();
        assert_eq!(room.taken(), [b"a", b"b", b"c"]);
        assert_eq!(room.test.replies().len(), 3);
    }

    #[test]
    fn a_host_that_wants_no_more_gets_no_more_of_what_was_released() {
        let mut room = Room::new();
        room.sink.0.lock().unwrap().1.push(Status::ERR_IOF_XOFF);
        (b'a'..=b'c').for_each(|byte| room.push(&[byte]));
        assert_eq!(room.taken(), [b"a"]);
        assert_eq!(room.test.replies()[0].1, Reply::Done(Status::SUCCESS), "the host has taken it");
        room.sink.0.lock().unwrap().1.push(Status::ERR_IOF_XOFF);
        room.resume();
        assert_eq!(room.taken(), [b"b"]);
        room.resume();
        assert_eq!(room.taken(), [b"c"]);
    }

    #[test]
    fn input_of_a_peer_that_is_gone_is_forgotten() {
        let mut room = Room::new();
        let everybody = Proc::new(Nspace::new("").unwrap(), Rank::UNDEF);
        room.inputs.stop(&everybody);
        room.push(b"a");
        room.inputs.peer_over(room.peer);
        room.inputs.resume(&mut room.test.cx, &everybody);
        room.drain();
        assert!(room.taken().is_empty());
    }

    #[test]
    fn a_process_that_comes_in_the_place_of_a_stopped_one_is_not_stopped() {
        let mut room = Room::new();
        room.inputs.stop(&proc("tool", 0));
        room.inputs.process_ended(&proc("tool", 0));
        room.push(b"a");
        assert_eq!(room.taken(), [b"a"]);
    }

    #[test]
    fn no_more_than_so_much_waits() {
        let mut room = Room::new();
        room.inputs.stop(&proc("tool", 0));
        room.push(&vec![0; MAX_WAITING]);
        room.push(b"a");
        assert_eq!(room.test.replies()[0].1, Reply::Done(Status::ERR_OUT_OF_RESOURCE));
    }
}
