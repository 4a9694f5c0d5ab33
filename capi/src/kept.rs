//! Values that the program looks at and does not free (`PMIX_GET_POINTER_VALUES`).
//!
//! No call gives them back, so they live until the last Finalize. There is one for each different value that was seen
//! of a process and key, however often it is asked for: what they take up is bounded by what was posted, not by how
//! often it was read. A value that was seen before is found without a lock and without a copy.
use std::sync::{Arc, Mutex, PoisonError};

use instanton::client::Found;
use instanton::data::{Rank, Status, Value};
use instanton::internal::sys::table::ReadTable;
use instanton_layout::hash::hash;

use crate::alloc;
use crate::convert::made;
use crate::kind::Kind;
use crate::owned::release_array;
use crate::slot::Slot;
use crate::types::pmix_value_t;

/// A text or blob up to this size is compared without a copy in memory of its own.
const SMALL: usize = 1024;

struct Kept {
    nspace: Box<[u8]>,
    rank: Rank,
    key: Box<[u8]>,
    value: Value,
    shown: *mut pmix_value_t,
}

// SAFETY: the value is never changed, and freed when this is dropped.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: one value, made by `show`.
        unsafe { release_array(self.shown, 1) };
    }
}

impl Kept {
    fn is_of(&self, nspace: &[u8], rank: Rank, key: &[u8]) -> bool {
        self.rank == rank && *self.key == *key && *self.nspace == *nspace
    }

    /// Returns whether it is the found value.
    fn shows(&self, found: Found<'_>) -> bool {
        let raw = match found {
            Found::Own(own) => return self.value == *own,
            Found::Shared(raw) if raw.data_type() == self.value.data_type() => raw,
            _ => return false,
        };
        if let (Some(bits), Some(kind)) = (raw.scalar(), Kind::of(raw.data_type()))
            && kind.is_number()
        {
            // SAFETY: every bit pattern is a number.
            return bits.to_le() == unsafe { (*self.shown).data.words[0] };
        }
        let (bytes, nul): (&[u8], &[u8]) = match &self.value {
            Value::String(Some(text)) => (text.as_bytes(), &[0]),
            Value::ByteObject(bytes) => (bytes, &[]),
            _ => return raw.to_value().is_ok_and(|value| value == self.value),
        };
        if raw.is_null() || raw.is_archive() || raw.len() != bytes.len() + nul.len() {
            return false;
        }
        if raw.len() > SMALL {
            return raw.to_value().is_ok_and(|value| value == self.value);
        }
        let mut copy = [std::mem::MaybeUninit::<u8>::uninit(); SMALL];
        let copied = raw.copy_to(&mut copy[..raw.len()]);
        // SAFETY: as many bytes have just been written.
        let copy = unsafe { std::slice::from_raw_parts(copy.as_ptr().cast::<u8>(), copied) };
        copy.strip_suffix(nul) == Some(bytes)
    }
}

static KEPT: Slot<ReadTable<Kept>> = Slot::empty();

/// Held while something is added or the table comes or goes.
static ADDING: Mutex<()> = Mutex::new(());

fn place(rank: Rank, key: &[u8]) -> u64 {
    hash(key) ^ u64::from(rank.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The place where a value has been shown before.
pub fn find(nspace: &[u8], rank: Rank, key: &[u8], found: Found<'_>) -> Option<*mut pmix_value_t> {
    let same = |kept: &Kept| kept.is_of(nspace, rank, key) && kept.shows(found);
    KEPT.with(|epoch, table| table.get(epoch, place(rank, key), same).map(|kept| kept.shown)).flatten()
}

/// The place where a value can be looked at.
pub fn show(nspace: &[u8], rank: Rank, key: &[u8], value: Value) -> Result<*mut pmix_value_t, Status> {
    let _one_at_a_time = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shown) = find(nspace, rank, key, Found::Own(&value)) {
        return Ok(shown);
    }
    let table = KEPT.with(|_, table| table.clone()).unwrap_or_else(|| {
        let table = Arc::<ReadTable<Kept>>::default();
        KEPT.put(table.clone());
        table
    });
    let shown = alloc::boxed(made(&value)?)?;
    table.put(place(rank, key), Kept { nspace: nspace.into(), rank, key: key.into(), value, shown }, |_, _| false);
    Ok(shown)
}

/// Frees them all.
pub fn forget() {
    let _one_at_a_time = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    KEPT.clear();
}
