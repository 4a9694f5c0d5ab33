//! Things that C holds on to: it gets a number that looks like an address.
//!
//! A callback brings the number, and the object is taken out of the table, once. A program that calls back twice, or
//! with a number of something else, does no harm by it.
use std::any::Any;
use std::collections::VecDeque;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_void;

struct Table {
    last: usize,
    /// In the order of their numbers, which is mostly that in which they are taken.
    things: VecDeque<(usize, Box<dyn Any + Send>)>,
}

/// Things that are kept together.
pub struct Handles(Mutex<Table>);

/// Objects that the program holds on to.
static OF_PROGRAM: Handles = Handles::new();

/// Keeps a thing until the program gives it back.
pub fn keep<T: Any + Send>(thing: T) -> *mut c_void {
    OF_PROGRAM.keep(thing)
}

/// Takes such a thing; none where there is none of that type.
pub fn take<T: Any + Send>(handle: *mut c_void) -> Option<T> {
    OF_PROGRAM.take(handle)
}

impl Handles {
    /// Nothing so far.
    pub const fn new() -> Self {
        Handles(Mutex::new(Table { last: 0, things: VecDeque::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a thing until it is taken.
    pub fn keep<T: Any + Send>(&self, thing: T) -> *mut c_void {
        let mut table = self.lock();
        table.last += 1;
        let number = table.last;
        table.things.push_back((number, Box::new(thing)));
        ptr::without_provenance_mut(number)
    }

    /// Takes a thing; none where there is none of that type.
    pub fn take<T: Any + Send>(&self, handle: *mut c_void) -> Option<T> {
        let number = handle.addr();
        let mut table = self.lock();
        let at = table.things.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        if !table.things[at].1.is::<T>() {
            return None;
        }
        let (_, thing) = table.things.remove(at)?;
        drop(table);
        thing.downcast().ok().map(|thing| *thing)
    }

    /// Frees all there is. Numbers do not come again.
    pub fn clear(&self) {
        let things = std::mem::take(&mut self.lock().things);
        drop(things);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thing_is_taken_once_and_as_what_it_is() {
        let handle = keep(String::from("thing"));
        assert_eq!(take::<u32>(handle), None);
        assert_eq!(take::<String>(handle).as_deref(), Some("thing"));
        assert_eq!(take::<String>(handle), None);
        assert_eq!(take::<String>(ptr::null_mut()), None);
    }

    #[test]
    fn what_nobody_gives_back_can_be_freed() {
        let (handles, thing) = (Handles::new(), Arc::new(()));
        let first = handles.keep(thing.clone());
        handles.clear();
        assert_eq!(Arc::strong_count(&thing), 1);
        let second = handles.keep(thing.clone());
        assert_ne!(first, second);
        assert_eq!(handles.take::<Arc<()>>(first), None);
    }
}
