//! Ends of children: one thread waits for every child there is, and reaps none of them.
//!
//! A child that has ended keeps its number until it is taken, and then the number may become another process's. So the
//! loop that sends signals to children is also the one that takes them: it never signals a stranger, and it meets no
//! two children of one number. It takes each when that is told, and no sooner: what a child has done before its end was
//! told before that.
use std::sync::mpsc::{Receiver, Sender};

use instanton::internal::sys::process::await_child;
use nix::unistd::Pid;

use crate::event::Event;

/// Tells of each child that has ended, until there is none. `taken` tells that it is taken.
pub fn watch(events: &Sender<Event>, taken: &Receiver<()>) {
    while let Ok(pid) = await_child() {
        if events.send(Event::Ended(Pid::from_raw(pid))).is_err() || taken.recv().is_err() {
            return;
        }
    }
    let _ = events.send(Event::Childless);
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn who_has_ended_can_still_be_taken_when_that_is_told() {
        let alone = crate::COPIES.write();
        let mut child = Command::new("true").spawn().unwrap();
        drop(alone);
        let pid = Pid::from_raw(child.id() as i32);
        let (events, happening) = mpsc::channel();
        let (taken, awaits_taken) = mpsc::channel();
        thread::spawn(move || watch(&events, &awaits_taken));
        // Other tests have children, too.
        while !matches!(happening.recv().unwrap(), Event::Ended(ended) if ended == pid) {
            taken.send(()).unwrap();
        }
        assert!(child.wait().unwrap().success());
    }
}
