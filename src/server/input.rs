//! Input for processes, from the clients and tools that push it (`PMIx_IOF_push`) to the host that carries it there.
//!
//! A host that falls behind stops a source (`PMIx_server_IOF_flow_control`, or `ERR_IOF_XOFF` as its answer to what it has taken):
//! what that pushes from then on waits here without an answer, so that whoever waits for one pushes nothing more. When the host
//! lets the source go on, what has waited goes to it in order. What a source that is gone has pushed is forgotten.
use super::router::Router;
use crate::data::{Channels, Info, Proc, Status};
use crate::message::Reply;
use crate::message::door::PeerId;
use crate::trace;

/// Most bytes of all sources that wait.
const MAX_WAITING: usize = 64 << 20;

/// Input that was pushed.
#[derive(Debug)]
pub(super) struct Pushed {
    peer: PeerId,
    number: u64,
    source: Proc,
    targets: Vec<Proc>,
    bytes: Vec<u8>,
    directives: Vec<Info>,
}

/// Which sources the host has stopped, and what they have pushed since.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Processes, or patterns of them.
    stopped: Vec<Proc>,
    waiting: Vec<Pushed>,
}

/// Whether a pattern stands for a process, or for all that another pattern stands for. Without a namespace it stands for everybody.
fn covers(pattern: &Proc, proc: &Proc) -> bool {
    pattern.nspace.is_empty() || pattern.matches(proc)
}

impl Inputs {
    fn is_stopped(&self, source: &Proc) -> bool {
        self.stopped.iter().any(|stopped| covers(stopped, source))
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.waiting.retain(|pushed| pushed.peer != peer);
    }

    /// A process has ended. Another one that comes in its place pushes what nobody has stopped.
    pub(super) fn source_ended(&mut self, source: &Proc) {
        self.stopped.retain(|stopped| stopped != source);
    }
}

impl Router {
    /// A client pushes input.
    pub(super) fn push_input(
        &mut self,
        peer: PeerId,
        number: u64,
        source: Proc,
        (targets, bytes, directives): (Vec<Proc>, Vec<u8>, Vec<Info>),
    ) {
        let pushed = Pushed { peer, number, source, targets, bytes, directives };
        if !self.inputs.is_stopped(&pushed.source) {
            return self.carry_input(pushed);
        }
        let waiting: usize = self.inputs.waiting.iter().map(|pushed| pushed.bytes.len()).sum();
        if waiting + pushed.bytes.len() > MAX_WAITING {
            trace!("{} pushes on though the host has stopped it: {waiting} bytes wait already", pushed.source);
            return self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        self.inputs.waiting.push(pushed);
    }

    fn carry_input(&mut self, pushed: Pushed) {
        let Pushed { peer, number, source, targets, bytes, directives } = pushed;
        let from = source.clone();
        self.ask_host(
            |host, done| host.push_stdin(&source, &targets, &directives, &bytes, done),
            (),
            move |router, result| {
                let status = match result {
                    Ok(()) => Status::SUCCESS,
                    // It has taken this, and wants no more.
                    Err(Status::ERR_IOF_XOFF) => {
                        router.control_input(&from, true);
                        Status::SUCCESS
                    }
                    Err(status) => status,
                };
                router.cx.reply(peer, number, Reply::Done(status));
            },
        );
    }

    /// The host stops sources, or lets them go on.
    pub(super) fn control_input(&mut self, source: &Proc, stops: bool) {
        match stops {
            true if self.inputs.stopped.contains(source) => {}
            true => self.inputs.stopped.push(source.clone()),
            false => self.inputs.stopped.retain(|stopped| !covers(source, stopped)),
        }
        let (stay, go): (Vec<Pushed>, Vec<Pushed>) =
            std::mem::take(&mut self.inputs.waiting).into_iter().partition(|p| self.inputs.is_stopped(&p.source));
        self.inputs.waiting = stay;
        go.into_iter().for_each(|pushed| match self.inputs.is_stopped(&pushed.source) {
            // The host has stopped it again over what went before.
            true => self.inputs.waiting.push(pushed),
            false => self.carry_input(pushed),
        });
    }
}

/// Whether a channel, or one of several, has a source that can be stopped.
pub(super) fn can_be_stopped(channels: Channels) -> bool {
    channels.intersects(Channels::STDIN)
}
