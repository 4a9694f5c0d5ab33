//! Persistent map by namespace: the next version, with a name more or less, is made in a few steps and shares all else
//! with the one before, however many names there are.
//!
//! It is a hash trie. A node is a short list, or 16 nodes told apart by four bits of the names' hash. Tools choose names,
//! so the hash has a seed that all versions share.
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::data::Nspace;

const WAYS: usize = 16;
const BITS: u32 = WAYS.ilog2();
/// Names in a leaf.
const FEW: usize = 8;

/// One version of the map.
#[derive(Clone)]
pub struct PersistentMap<T> {
    seed: RandomState,
    root: Node<T>,
}

#[derive(Clone)]
enum Node<T> {
    Leaf(Arc<[(Nspace, T)]>),
    /// Children by the lowest bits of the rest of the hash.
    Branch(Arc<[Node<T>; WAYS]>),
}

impl<T> Default for PersistentMap<T> {
    fn default() -> Self {
        PersistentMap { seed: RandomState::new(), root: Node::Leaf(Arc::default()) }
    }
}

impl<T: Clone> PersistentMap<T> {
    /// Returns the value of a name.
    pub fn get(&self, name: &Nspace) -> Option<&T> {
        let (mut node, mut rest) = (&self.root, self.seed.hash_one(name.as_bytes()));
        loop {
            match node {
                Node::Leaf(values) => {
                    return values.iter().find(|(known, _)| known == name).map(|(_, value)| value);
                }
                Node::Branch(children) => (node, rest) = (&children[rest as usize % WAYS], rest >> BITS),
            }
        }
    }

    /// Returns the next version, in which a name has this value, or none.
    pub fn with(&self, name: &Nspace, value: Option<T>) -> Self {
        let hash = |name: &Nspace| self.seed.hash_one(name.as_bytes());
        PersistentMap { seed: self.seed.clone(), root: self.root.with_at(&hash, 0, name, value) }
    }
}

impl<T: Clone> Node<T> {
    /// Makes the next version of a node behind so many bits of the hash.
    fn with_at(&self, hash: &impl Fn(&Nspace) -> u64, bits: u32, name: &Nspace, value: Option<T>) -> Self {
        let place = |name: &Nspace| (hash(name) >> bits) as usize % WAYS;
        match self {
            Node::Leaf(values) => {
                let others = values.iter().filter(|(known, _)| known != name).cloned();
                let values: Vec<_> = others.chain(value.map(|value| (name.clone(), value))).collect();
                // Names of the same hash stay together.
                if values.len() <= FEW || bits >= u64::BITS {
                    return Node::Leaf(values.into());
                }
                let child = |at| values.iter().filter(|(name, _)| place(name) == at).cloned().collect();
                Node::Branch(Arc::new(std::array::from_fn(|at| Node::Leaf(child(at)))))
            }
            Node::Branch(children) => {
                let mut children = (**children).clone();
                let child = &mut children[place(name)];
                *child = child.with_at(hash, bits + BITS, name, value);
                Self::merged(&children).unwrap_or_else(|| Node::Branch(Arc::new(children)))
            }
        }
    }

    /// Returns one leaf in place of several that have become short.
    fn merged(children: &[Self; WAYS]) -> Option<Self> {
        let lists = children.iter().map(|child| match child {
            Node::Leaf(values) => Some(values),
            Node::Branch(_) => None,
        });
        let lists = lists.collect::<Option<Vec<_>>>()?;
        let few = lists.iter().map(|values| values.len()).sum::<usize>() <= FEW / 2;
        few.then(|| Node::Leaf(lists.into_iter().flat_map(|values| values.iter().cloned()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn versions_have_what_was_put_and_share_the_rest() {
        let name = |number: u32| Nspace::new(format!("job@{number}")).unwrap();
        let (mut known, mut map) = (HashMap::new(), PersistentMap::default());
        let mut versions = Vec::new();
        for step in 0..6_000u32 {
            // More and more names, then fewer and fewer; some are put again.
            let number = step * 7 % if step < 3_000 { 2_000 } else { 2_003 };
            let value = (step < 3_000).then_some(step);
            map = map.with(&name(number), value);
            match value {
                Some(value) => known.insert(number, value),
                None => known.remove(&number),
            };
            if step % 500 == 0 {
                versions.push((map.clone(), known.clone()));
            }
        }
        for (map, known) in versions {
            for number in 0..2_003 {
                assert_eq!(map.get(&name(number)), known.get(&number), "{number}");
            }
        }
        (0..2_000).for_each(|number| map = map.with(&name(number), None));
        assert!(matches!(map.root, Node::Leaf(values) if values.is_empty()), "nothing is left of what is gone");
    }
}
