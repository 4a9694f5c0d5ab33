//! Last words: what a process has sent before its end, of which the kernel or the host knows before its door does.
//!
//! A process ends when the kernel says so, or the host. Its connection may hold requests then that nobody has read, an
//! abort among them, or wait at the door still. So the doors are asked to
//! [hear it out](crate::message::door::Door::hear_out), and it has ended once its connection has, or at once where no
//! door has more of it.
use std::collections::VecDeque;

use super::Router;
use crate::data::Proc;
use crate::message::door::PeerId;
use crate::server::ctx::Done;
use crate::server::ctx::system::WatchId;

/// Witness of a process's end.
enum Word {
    Kernel(WatchId),
    Host(Done<()>),
}

/// Processes that have ended, and whose end does not count yet.
#[derive(Default)]
pub(in crate::server) struct LastWords {
    /// Processes of which the doors are not told yet.
    news: VecDeque<(Proc, Done<()>)>,
    /// Processes that are heard out.
    speaking: Vec<(Proc, Word)>,
}

impl LastWords {
    /// A process has ended, by the host's word.
    pub(in crate::server) fn has_died(&mut self, proc: Proc, done: Done<()>) {
        self.news.push_back((proc, done));
    }

    /// A process has ended, by the kernel's word, and is heard out.
    pub(in crate::server) fn is_over(&mut self, proc: Proc, watch: WatchId) {
        self.speaking.push((proc, Word::Kernel(watch)));
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
        match speaks && self.peer_of(&proc).is_some() {
            true => self.last_words.speaking.push((proc, Word::Host(done))),
            false => self.is_silent(&proc, Word::Host(done)),
        }
    }

    /// Ends those who were heard out. Returns whether there were some.
    pub(super) fn end_the_silent(&mut self) -> bool {
        if self.last_words.speaking.is_empty() {
            return false;
        }
        let all = std::mem::take(&mut self.last_words.speaking);
        let (speaking, silent): (Vec<_>, Vec<_>) = all.into_iter().partition(|(proc, _)| self.peer_of(proc).is_some());
        self.last_words.speaking = speaking;
        let are_some = !silent.is_empty();
        silent.into_iter().for_each(|(proc, word)| self.is_silent(&proc, word));
        are_some
    }

    /// Returns the connection that a process is let in by.
    pub(in crate::server) fn peer_of(&self, proc: &Proc) -> Option<PeerId> {
        self.jobs.client(proc)?.peer
    }

    fn is_silent(&mut self, proc: &Proc, word: Word) {
        match word {
            Word::Kernel(watch) => self.process_ended(proc, watch),
            Word::Host(done) => {
                self.client_died(proc);
                self.process_left(&proc.nspace);
                self.cx.finish(done, Ok(()));
            }
        }
    }
}
