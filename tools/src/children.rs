//! Who has ended: one thread waits for every child there is.
//!
//! It looks before it takes: while a process is being started, nobody but the standard library may wait for it, which does so
//! when the program cannot be executed. So each birth holds the [`Births`], and so does the taking of a child that has ended.
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use instanton::sys::process::{await_child, take_child};
use nix::unistd::Pid;

use crate::launch::Event;
use crate::outcome::End;

/// Held while a process is started.
#[derive(Clone, Default)]
pub struct Births(Arc<Mutex<()>>);

impl Births {
    /// Does something that starts a process.
    pub fn attend<T>(&self, birth: impl FnOnce() -> T) -> T {
        let _held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        birth()
    }
}

/// Tells of every child that ends, until there is none.
pub fn watch(births: &Births, events: &Sender<Event>) {
    loop {
        let event = match await_child() {
            Ok(()) => match births.attend(take_child) {
                Ok(Some((pid, status))) => Event::Ended(Pid::from_raw(pid), End::of(status)),
                // It was a birth that failed.
                _ => continue,
            },
            Err(_) => Event::Childless,
        };
        let was_last = matches!(event, Event::Childless);
        if events.send(event).is_err() || was_last {
            return;
        }
    }
}
