//! Values that this process itself has stored, which no other sees: `PMIx_Store_internal`, and its own Puts.
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use instanton_layout::sync::{AtomicU64, Ordering};

use crate::data::{Key, Nspace, Proc, Rank, Value, constants::scope};

/// Values by process and key.
///
/// Few keys are ever stored in this way, and every Get asks for them first. So a word says which keys may be here at all: one
/// load when there are none, and no lock for the others.
#[derive(Debug)]
pub(super) struct Local {
    filter: AtomicU64,
    values: RwLock<HashMap<Nspace, HashMap<Rank, Keys>>>,
}

type Keys = HashMap<Key, (u8, Value)>;

fn bit(key: &[u8]) -> u64 {
    let sum = key.iter().fold(0u32, |sum, byte| sum.wrapping_mul(0x0100_0193) ^ u32::from(*byte));
    1 << (sum.wrapping_mul(0x9e37_79b1) >> 26)
}

impl Default for Local {
    fn default() -> Self {
        Self { filter: AtomicU64::new(0), values: RwLock::default() }
    }
}

impl Local {
    /// Keeps a value in the place of any older one.
    pub(super) fn store(&self, proc: &Proc, scope: u8, key: Key, value: Value) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let bit = bit(key.as_bytes());
        let keys = values.entry(proc.nspace.clone()).or_default().entry(proc.rank).or_default();
        keys.insert(key, (scope, value));
        self.filter.fetch_or(bit, Ordering::Release);
    }

    /// Calls `f` on a value that satisfies `wanted`.
    #[inline]
    pub(super) fn read<T>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: &[u8],
        wanted: Option<u8>,
        f: impl FnOnce(&Value) -> T,
    ) -> Option<T> {
        match self.filter.load(Ordering::Acquire) {
            0 => None,
            filter if filter & bit(key) == 0 => None,
            _ => self.find(nspace, rank, key, wanted, f),
        }
    }

    #[cold]
    fn find<T>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: &[u8],
        wanted: Option<u8>,
        f: impl FnOnce(&Value) -> T,
    ) -> Option<T> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let (scope, value) = values.get(nspace)?.get(&rank)?.get(key)?;
        satisfies(*scope, wanted).then(|| f(value))
    }

    /// Calls `f` on everything known of a process.
    pub(super) fn all(&self, nspace: &[u8], rank: Rank, wanted: Option<u8>, mut f: impl FnMut(&Key, &Value)) {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let Some(keys) = values.get(nspace).and_then(|ranks| ranks.get(&rank)) else { return };
        keys.iter().filter(|(_, (scope, _))| satisfies(*scope, wanted)).for_each(|(key, (_, value))| f(key, value));
    }
}

/// Whether a value of one scope is what a Get for another asks for: GLOBAL is both LOCAL and REMOTE.
fn satisfies(scope: u8, wanted: Option<u8>) -> bool {
    match wanted {
        None => true,
        Some(scope::LOCAL | scope::REMOTE) if scope == scope::GLOBAL => true,
        Some(wanted) => scope == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    #[test]
    fn a_value_is_found_by_all_of_its_name_and_by_nothing_less() {
        let local = Local::default();
        let find = |nspace: &str, rank, key: &str, scope| {
            local.read(nspace.as_bytes(), Rank(rank), key.as_bytes(), scope, Value::clone)
        };
        assert_eq!(find("job", 1, "k", None), None);
        local.store(&proc(1), scope::GLOBAL, Key::new("k").unwrap(), Value::Int(1));
        local.store(&proc(1), scope::GLOBAL, Key::new("k").unwrap(), Value::Int(2));
        local.store(&proc(1), scope::REMOTE, Key::new("r").unwrap(), Value::Int(3));
        assert_eq!(find("job", 1, "k", None), Some(Value::Int(2)));
        assert_eq!(find("job", 1, "k", Some(scope::LOCAL)), Some(Value::Int(2)));
        assert_eq!(find("job", 1, "r", Some(scope::LOCAL)), None);
        assert_eq!(find("job", 1, "r", Some(scope::REMOTE)), Some(Value::Int(3)));
        assert_eq!(
            (find("job", 2, "k", None), find("jo", 1, "k", None), find("job", 1, "kk", None)),
            (None, None, None)
        );
        let mut all = Vec::new();
        local.all(b"job", Rank(1), None, |key, value| all.push((key.clone(), value.clone())));
        assert_eq!(all.len(), 2);
    }
}
