//! The output of processes, for clients that have asked for it: the host forwards it to this server, which hands it on.
//!
//! The host is asked whether a client may have what it wants. What it delivers later goes to every client that wants output of that
//! process on that channel. A client that is gone wants nothing any more.
use std::collections::HashMap;

use super::core::Core;
use crate::data::{Info, Proc};
use crate::message::door::{Outgoing, PeerId};
use crate::message::{Push, Reply};

/// What one call of a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    procs: Vec<Proc>,
    channels: u16,
}

/// Who wants which output.
#[derive(Debug, Default)]
pub(super) struct Outputs(HashMap<PeerId, Vec<Wanted>>);

impl Outputs {
    /// A client is gone.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.0.remove(&peer);
    }
}

impl Core {
    /// A client asks for the output of processes.
    pub(super) fn pull_output(
        &mut self,
        peer: PeerId,
        number: u64,
        procs: Vec<Proc>,
        channels: u16,
        directives: Vec<Info>,
    ) {
        let wanted = Wanted { procs: procs.clone(), channels };
        self.ask_host(
            |host, done| host.iof_pull(&procs, &directives, channels, done),
            (),
            move |core, result| {
                if result.is_ok() && core.peers.contains_key(&peer) {
                    core.outputs.0.entry(peer).or_default().push(wanted);
                }
                core.reply_status(peer, number, result);
            },
        );
    }

    /// It wants it no more.
    pub(super) fn stop_output(&mut self, peer: PeerId, number: u64, procs: Vec<Proc>, channels: u16) {
        let gone = Wanted { procs, channels };
        if let Some(wanted) = self.outputs.0.get_mut(&peer)
            && let Some(at) = wanted.iter().position(|one| *one == gone)
        {
            wanted.swap_remove(at);
        }
        self.reply(peer, number, Reply::Done(crate::data::Status::SUCCESS));
    }

    /// The host delivers output.
    pub(super) fn deliver_output(&mut self, source: &Proc, channel: u16, bytes: &[u8], info: &[Info]) {
        let wants = |one: &Wanted| one.channels & channel != 0 && one.procs.iter().any(|proc| proc.matches(source));
        let peers: Vec<PeerId> =
            self.outputs.0.iter().filter(|(_, wanted)| wanted.iter().any(wants)).map(|(peer, _)| *peer).collect();
        for peer in peers {
            let (source, bytes, info) = (source.clone(), bytes.to_vec(), info.to_vec());
            self.send(peer, Outgoing::Push(Push::Output { source, channel, bytes, info }));
        }
    }
}
