//! Server objects: the pointers that a host gives with its clients' registrations, and gets back with every call about
//! them.
//!
//! The library itself has no use for them. An object is forgotten when the deregistration of its client, or of the
//! namespace, is over: until then the host is still called about the client. A client that is registered anew meanwhile
//! has a new entry, which stays.
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use instanton::data::{Nspace, Proc, Status};
use libc::c_void;

/// An object, and the number of the registration that brought it.
struct Entry {
    proc: Proc,
    object: usize,
    registration: u64,
}

/// All entries, in the order of their processes, and the number of the last registration.
struct Objects {
    entries: Vec<Entry>,
    last: u64,
}

static OBJECTS: Mutex<Objects> = Mutex::new(Objects { entries: Vec::new(), last: 0 });

fn lock() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the object of a client that is being registered.
pub fn keep(proc: &Proc, object: *mut c_void) {
    let mut objects = lock();
    objects.last += 1;
    let entry = Entry { proc: proc.clone(), object: object.expose_provenance(), registration: objects.last };
    match objects.entries.binary_search_by(|known| known.proc.cmp(proc)) {
        Ok(at) => objects.entries[at] = entry,
        Err(at) => objects.entries.insert(at, entry),
    }
}

/// The object of a client; NULL for one that has none.
pub fn of(proc: &Proc) -> *mut c_void {
    let objects = lock();
    let found = objects.entries.binary_search_by(|known| known.proc.cmp(proc));
    ptr::with_exposed_provenance_mut(found.map_or(0, |at| objects.entries[at].object))
}

/// The clients of a deregistration.
#[derive(Clone)]
pub enum Leaving {
    /// One client.
    Client(Proc, u64),
    /// All of a namespace.
    Nspace(Nspace, u64),
}

impl Leaving {
    /// Notes that a client is to be forgotten, as it is registered now.
    pub fn client(proc: &Proc) -> Self {
        Leaving::Client(proc.clone(), lock().last)
    }

    /// Notes that a namespace is to be forgotten with the clients that are registered now.
    pub fn nspace(nspace: &Nspace) -> Self {
        Leaving::Nspace(nspace.clone(), lock().last)
    }

    /// A callback that forgets the objects first.
    pub fn forgotten_before(
        self,
        done: impl FnOnce(Result<(), Status>) + Send,
    ) -> impl FnOnce(Result<(), Status>) + Send {
        move |result| {
            self.forget();
            done(result);
        }
    }

    /// Forgets the objects: the deregistration is over.
    pub fn forget(self) {
        let is_meant = |entry: &Entry| match &self {
            Leaving::Client(proc, last) => entry.registration <= *last && entry.proc == *proc,
            Leaving::Nspace(nspace, last) => entry.registration <= *last && entry.proc.nspace == *nspace,
        };
        lock().entries.retain(|entry| !is_meant(entry));
    }
}

/// Forgets all objects: the server has ended.
pub fn forget_all() {
    lock().entries.clear();
}

#[cfg(test)]
mod tests {
    use instanton::data::Rank;

    use super::*;

    #[test]
    fn an_object_is_forgotten_with_its_registration_and_not_with_a_later_one() {
        let proc = |job: &str, rank| Proc::new(Nspace::new(job).unwrap(), Rank(rank));
        let object = |number| ptr::without_provenance_mut::<c_void>(number);
        let (one, two) = (proc("objects@1", 1), proc("objects@1", 2));
        keep(&two, object(2));
        keep(&one, object(1));
        assert_eq!([&one, &two, &proc("objects@1", 3)].map(|proc| of(proc).addr()), [1, 2, 0]);
        let (client, all) = (Leaving::client(&one), Leaving::nspace(&one.nspace));
        client.clone().forget();
        assert_eq!([&one, &two].map(|proc| of(proc).addr()), [0, 2]);
        keep(&one, object(3));
        client.forget();
        all.forget();
        assert_eq!([&one, &two].map(|proc| of(proc).addr()), [3, 0]);
        keep(&one, ptr::null_mut());
        assert!(of(&one).is_null());
        Leaving::nspace(&one.nspace).forget();
    }
}
