//! Values that this process itself has stored, which no other sees: `PMIx_Store_internal`, and its own Puts.
//!
//! Every Get looks here first, so a look-up takes no lock, and next to no time when there is nothing.
use std::sync::Arc;

use instanton_layout::hash::hash;
use instanton_layout::key::HashedKey;

use crate::data::{Key, Proc, Rank, Scope, Value};
use crate::sys::cell::Epoch;
use crate::sys::table::ReadTable;

/// Values by process and key.
#[derive(Default)]
pub(super) struct Local(ReadTable<Stored>);

struct Stored {
    proc: Arc<Proc>,
    key: Key,
    scope: Scope,
    value: Value,
}

impl Stored {
    fn is(&self, nspace: &[u8], rank: Rank, key: &[u8]) -> bool {
        self.key.as_bytes() == key && self.proc.rank == rank && self.proc.nspace.as_bytes() == nspace
    }
}

/// The number of a rank and a key in the table. Namespaces are few: they are compared.
#[inline]
fn place(rank: Rank, key_hash: u64) -> u64 {
    key_hash ^ u64::from(rank.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Local {
    /// Keeps a value in the place of any older one.
    pub(super) fn store(&self, proc: Arc<Proc>, scope: Scope, key: Key, value: Value) {
        let place = place(proc.rank, hash(key.as_bytes()));
        self.0.put(place, Stored { proc, key, scope, value }, |old, new| {
            old.is(new.proc.nspace.as_bytes(), new.proc.rank, new.key.as_bytes())
        });
    }

    /// Returns whether there is no value, as is mostly so; one load tells.
    #[inline]
    pub(super) fn is_empty(&self, epoch: &Epoch) -> bool {
        self.0.is_empty(epoch)
    }

    /// A value of the scope `wanted`.
    #[inline]
    pub(super) fn get<'a>(
        &'a self,
        epoch: &'a Epoch,
        (nspace, rank): (&[u8], Rank),
        key: &HashedKey<'_>,
        wanted: Option<Scope>,
    ) -> Option<&'a Value> {
        let stored = self.0.get(epoch, place(rank, key.hash()), |stored| stored.is(nspace, rank, key.bytes()))?;
        stored.scope.answers(wanted).then_some(&stored.value)
    }

    /// Calls `f` on everything known of a process.
    pub(super) fn all(&self, nspace: &[u8], rank: Rank, wanted: Option<Scope>, mut f: impl FnMut(&Key, &Value)) {
        let epoch = Epoch::enter();
        let of = |stored: &&Stored| stored.proc.rank == rank && stored.proc.nspace.as_bytes() == nspace;
        let all = self.0.iter(&epoch).filter(of).filter(|stored| stored.scope.answers(wanted));
        all.for_each(|stored| f(&stored.key, &stored.value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Nspace;

    fn proc(rank: u32) -> Arc<Proc> {
        Arc::new(Proc::new(Nspace::new("job").unwrap(), Rank(rank)))
    }

    #[test]
    fn a_value_is_found_by_all_of_its_name_and_by_nothing_less() {
        let local = Local::default();
        let find = |nspace: &str, rank, key: &str, scope| {
            let name = (nspace.as_bytes(), Rank(rank));
            local.get(&Epoch::enter(), name, &HashedKey::new(key.as_bytes()), scope).cloned()
        };
        assert_eq!(find("job", 1, "k", None), None);
        local.store(proc(1), Scope::GLOBAL, Key::new("k").unwrap(), Value::Int(1));
        local.store(proc(1), Scope::GLOBAL, Key::new("k").unwrap(), Value::Int(2));
        local.store(proc(1), Scope::REMOTE, Key::new("r").unwrap(), Value::Int(3));
        assert_eq!(find("job", 1, "k", None), Some(Value::Int(2)));
        assert_eq!(find("job", 1, "k", Some(Scope::LOCAL)), Some(Value::Int(2)));
        assert_eq!(find("job", 1, "r", Some(Scope::LOCAL)), None);
        assert_eq!(find("job", 1, "r", Some(Scope::REMOTE)), Some(Value::Int(3)));
        assert_eq!(
            (find("job", 2, "k", None), find("jo", 1, "k", None), find("job", 1, "kk", None)),
            (None, None, None)
        );
        let mut all = Vec::new();
        local.all(b"job", Rank(1), None, |key, value| all.push((key.clone(), value.clone())));
        assert_eq!(all.len(), 2);
    }
}
