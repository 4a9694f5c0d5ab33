//! Values that the program looks at and does not free (`PMIX_GET_POINTER_VALUES`).
//!
//! There is no call that gives them back, so they live until the last Finalize: one for each different value that was seen
//! of a key, however often it is asked for.
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use instanton::data::{Status, Value};

use crate::alloc;
use crate::convert::made;
use crate::owned::release_array;
use crate::types::pmix_value_t;

/// Whose value, and of which key.
type Place = (Vec<u8>, u32, Vec<u8>);

struct Kept {
    value: Value,
    shown: *mut pmix_value_t,
}

// SAFETY: what is shown is never changed, and freed by whoever takes it out of the table.
unsafe impl Send for Kept {}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: one value, made by `show`.
        unsafe { release_array(self.shown, 1) };
    }
}

static KEPT: Mutex<Option<HashMap<Place, Vec<Kept>>>> = Mutex::new(None);

/// The place where a value of a key can be looked at.
pub fn show(nspace: &[u8], rank: u32, key: &[u8], value: Value) -> Result<*mut pmix_value_t, Status> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = kept.get_or_insert_default().entry((nspace.to_vec(), rank, key.to_vec())).or_default();
    if let Some(kept) = seen.iter().find(|kept| kept.value == value) {
        return Ok(kept.shown);
    }
    let shown = alloc::boxed(made(&value)?)?;
    seen.push(Kept { value, shown });
    Ok(shown)
}

/// Frees them all.
pub fn forget() {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
