//! Last words: what a process has sent before its end, of which the host knows before its door does.
//!
//! A process that the kernel does not show to the server ends when the host says so. Its connection may hold requests
//! then that nobody has read, an abort among them, or wait at the door still. So the doors are asked to
//! [hear it out](crate::message::door::Door::hear_out), and it has ended once its connection has, or at once where no
//! door has one.
use std::collections::VecDeque;

use super::Router;
use crate::data::Proc;
use crate::server::ctx::Done;

/// Processes that have ended, by the host's word.
#[derive(Default)]
pub(in crate::server) struct LastWords {
    /// Those of whom the doors are not told yet.
    news: VecDeque<(Proc, Done<()>)>,
    /// Those that are heard out.
    speaking: Vec<(Proc, Done<()>)>,
}

impl LastWords {
    /// A process has ended.
    pub(in crate::server) fn has_died(&mut self, proc: Proc, done: Done<()>) {
        self.news.push_back((proc, done));
    }

    /// Takes a process of which the doors are to be told.
    pub(in crate::server) fn next(&mut self) -> Option<(Proc, Done<()>)> {
        self.news.pop_front()
    }

    /// Returns whether a process is heard out.
    pub(super) fn is_speaking(&self, proc: &Proc) -> bool {
        self.speaking.iter().any(|(other, _)| other == proc)
    }
}

impl Router {
    /// The doors are told that a process has ended, and some of them hears it out or none.
    pub(in crate::server) fn has_died(&mut self, proc: Proc, done: Done<()>, speaks: bool) {
        match speaks && self.has_peer(&proc) {
            true => self.last_words.speaking.push((proc, done)),
            false => self.is_silent(&proc, done),
        }
    }

    /// Ends those who were heard out. Returns whether there were some.
    pub(super) fn end_the_silent(&mut self) -> bool {
        if self.last_words.speaking.is_empty() {
            return false;
        }
        let all = std::mem::take(&mut self.last_words.speaking);
        let (speaking, silent): (Vec<_>, Vec<_>) = all.into_iter().partition(|(proc, _)| self.has_peer(proc));
        self.last_words.speaking = speaking;
        let are_some = !silent.is_empty();
        silent.into_iter().for_each(|(proc, done)| self.is_silent(&proc, done));
        are_some
    }

    fn has_peer(&self, proc: &Proc) -> bool {
        self.jobs.client(proc).is_some_and(|client| client.peer.is_some())
    }

    fn is_silent(&mut self, proc: &Proc, done: Done<()>) {
        self.client_died(proc);
        self.process_left(&proc.nspace);
        self.cx.finish(done, Ok(()));
    }
}
