//! Who has ended: one thread waits for every child there is, and takes none of them.
//!
//! A child that has ended keeps its number until it is taken, and then the number may become another process's. So the loop that sends
//! signals to children is also the one that takes them: it never signals a stranger, and it meets no two children of one number.
use std::sync::mpsc::{Receiver, Sender};

use instanton::sys::process::await_child;

use crate::launch::Event;

/// Tells whenever a child has ended, until there is none. `taken` tells that those that had ended are taken.
pub fn watch(events: &Sender<Event>, taken: &Receiver<()>) {
    while await_child().is_ok() {
        if events.send(Event::Ended).is_err() || taken.recv().is_err() {
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

    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    use nix::unistd::Pid;

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
        loop {
            assert!(matches!(happening.recv().unwrap(), Event::Ended));
            let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
            if waitid(Id::Pid(pid), look) != Ok(WaitStatus::StillAlive) {
                break;
            }
            taken.send(()).unwrap();
        }
        assert!(child.wait().unwrap().success());
    }
}
