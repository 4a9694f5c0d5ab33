//! Things that C holds on to: it gets a number that looks like an address.
//!
//! Whoever calls back brings the number, and the thing is taken out of the table, once. A program that calls back twice, or
//! with a number of something else, does no harm by it.
use std::any::Any;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use libc::c_void;

#[derive(Default)]
struct Table {
    last: usize,
    things: BTreeMap<usize, Box<dyn Any + Send>>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn table<T>(f: impl FnOnce(&mut Table) -> T) -> T {
    f(TABLE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Keeps a thing until it is taken.
pub fn keep<T: Any + Send>(thing: T) -> *mut c_void {
    table(|table| {
        table.last += 1;
        table.things.insert(table.last, Box::new(thing));
        ptr::without_provenance_mut(table.last)
    })
}

/// Takes a thing; none where there is none of that type.
pub fn take<T: Any + Send>(handle: *mut c_void) -> Option<T> {
    let number = handle.addr();
    let thing = table(|table| match table.things.get(&number)?.is::<T>() {
        true => table.things.remove(&number),
        false => None,
    })?;
    thing.downcast().ok().map(|thing| *thing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_taken_once_and_as_what_it_is() {
        let handle = keep(String::from("thing"));
        assert_eq!(take::<u32>(handle), None);
        assert_eq!(take::<String>(handle).as_deref(), Some("thing"));
        assert_eq!(take::<String>(handle), None);
        assert_eq!(take::<String>(ptr::null_mut()), None);
    }
}
