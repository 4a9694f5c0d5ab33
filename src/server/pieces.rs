//! Values by namespace in versions: the next one, with a name more or less, is made in a few steps and shares all else with the one
//! before, however many names there are.
//!
//! Names are parted by the bits of their hash, four at a time, where there are too many for one list.
use std::sync::Arc;

use instanton_layout::hash::hash;

use crate::data::Nspace;

const WAYS: usize = 16;
const BITS: u32 = WAYS.ilog2();
/// Names in a list.
const FEW: usize = 8;

/// One version.
#[derive(Clone)]
pub(super) enum Pieces<T> {
    Few(Arc<[(Nspace, T)]>),
    /// By the lowest bits of the rest of the hash.
    Many(Arc<[Pieces<T>; WAYS]>),
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces::Few(Arc::default())
    }
}

impl<T: Clone> Pieces<T> {
    pub(super) fn get(&self, name: &Nspace) -> Option<&T> {
        let (mut pieces, mut rest) = (self, hash(name.as_bytes()));
        loop {
            match pieces {
                Pieces::Few(values) => return values.iter().find(|(known, _)| known == name).map(|(_, value)| value),
                Pieces::Many(parts) => (pieces, rest) = (&parts[rest as usize % WAYS], rest >> BITS),
            }
        }
    }

    /// The next version, in which a name has this value, or none.
    pub(super) fn with(&self, name: &Nspace, value: Option<T>) -> Self {
        self.with_at(0, name, value)
    }

    /// The same behind so many bits of the hash.
    fn with_at(&self, bits: u32, name: &Nspace, value: Option<T>) -> Self {
        let place = |name: &Nspace| (hash(name.as_bytes()) >> bits) as usize % WAYS;
        match self {
            Pieces::Few(values) => {
                let others = values.iter().filter(|(known, _)| known != name).cloned();
                let values: Vec<_> = others.chain(value.map(|value| (name.clone(), value))).collect();
                // Names of the same hash stay together.
                if values.len() <= FEW || bits >= u64::BITS {
                    return Pieces::Few(values.into());
                }
                let part = |at| values.iter().filter(|(name, _)| place(name) == at).cloned().collect();
                Pieces::Many(Arc::new(std::array::from_fn(|at| Pieces::Few(part(at)))))
            }
            Pieces::Many(parts) => {
                let mut parts = (**parts).clone();
                let part = &mut parts[place(name)];
                *part = part.with_at(bits + BITS, name, value);
                Self::together(&parts).unwrap_or_else(|| Pieces::Many(Arc::new(parts)))
            }
        }
    }

    /// One list in place of several that have become short.
    fn together(parts: &[Self; WAYS]) -> Option<Self> {
        let lists = parts.iter().map(|part| match part {
            Pieces::Few(values) => Some(values),
            Pieces::Many(_) => None,
        });
        let lists = lists.collect::<Option<Vec<_>>>()?;
        let few = lists.iter().map(|values| values.len()).sum::<usize>() <= FEW / 2;
        few.then(|| Pieces::Few(lists.into_iter().flat_map(|values| values.iter().cloned()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn versions_have_what_was_put_and_share_the_rest() {
        let name = |number: u32| Nspace::new(format!("job@{number}")).unwrap();
        let (mut known, mut pieces) = (HashMap::new(), Pieces::default());
        let mut versions = Vec::new();
        for step in 0..6_000u32 {
            // More and more names, then fewer and fewer; some are put again.
            let number = step * 7 % if step < 3_000 { 2_000 } else { 2_003 };
            let value = (step < 3_000).then_some(step);
            pieces = pieces.with(&name(number), value);
            match value {
                Some(value) => known.insert(number, value),
                None => known.remove(&number),
            };
            if step % 500 == 0 {
                versions.push((pieces.clone(), known.clone()));
            }
        }
        for (pieces, known) in versions {
            for number in 0..2_003 {
                assert_eq!(pieces.get(&name(number)), known.get(&number), "{number}");
            }
        }
        (0..2_000).for_each(|number| pieces = pieces.with(&name(number), None));
        assert!(matches!(pieces, Pieces::Few(values) if values.is_empty()), "nothing is left of what is gone");
    }
}
