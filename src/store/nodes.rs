//! The nodes of a job while they are put together: numbers, names, and what is said of them.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use instanton_layout::hash::hash;
use instanton_layout::info::NamesBuild;

use super::job_info::Entries;

/// Nodes by their index. Mostly the number of a node is its index, too.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    numbers: Vec<u32>,
    text: Vec<u8>,
    names: Vec<Option<(usize, usize)>>,
    /// Indexes by the hash of the name, each one more than it.
    slots: Vec<u32>,
    named: usize,
    /// Indexes by number, of nodes whose number is another.
    renumbered: HashMap<u32, u32>,
    next: u32,
    /// The nodes of the node map, in its order.
    map: Vec<u32>,
    /// Numbers that were given together with a name, and the nodes of that name.
    said: BTreeSet<(u32, u32)>,
    pub(super) given: BTreeMap<u32, Entries>,
}

impl Nodes {
    pub(super) fn len(&self) -> u32 {
        self.numbers.len() as u32
    }

    pub(super) fn number(&self, index: u32) -> u32 {
        self.numbers[index as usize]
    }

    pub(super) fn name(&self, index: u32) -> Option<&[u8]> {
        let (from, to) = (*self.names.get(index as usize)?)?;
        Some(&self.text[from..to])
    }

    /// The numbers, if they are not the indexes.
    pub(super) fn numbers(&self) -> Option<Vec<u32>> {
        (!self.renumbered.is_empty()).then(|| self.numbers.clone())
    }

    pub(super) fn entries(&mut self, index: u32) -> &mut Entries {
        self.given.entry(index).or_default()
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash(name) as usize & mask;
        while let Some(index) = self.slots[slot].checked_sub(1) {
            if self.name(index) == Some(name) {
                return Some(index);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// The first whose name `is_it` agrees to.
    pub(super) fn find_where(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<u32> {
        (0..self.len()).find(|index| self.name(*index).is_some_and(&is_it))
    }

    /// The node with that name, which gets `number` if it is new.
    pub(super) fn named(&mut self, name: &[u8], number: u32) -> u32 {
        self.find(name).unwrap_or_else(|| {
            let index = self.add(number);
            self.call(index, name);
            index
        })
    }

    /// The node with that name, whatever its number.
    pub(super) fn of_name(&mut self, name: &[u8]) -> u32 {
        self.named(name, self.next)
    }

    /// The node with that number.
    pub(super) fn numbered(&mut self, number: u32) -> u32 {
        if self.numbers.get(number as usize) == Some(&number) {
            return number;
        }
        match self.renumbered.get(&number) {
            Some(index) => *index,
            None => self.add(number),
        }
    }

    /// The node with that name, which is also said to have that number.
    pub(super) fn called(&mut self, name: &[u8], number: Option<u32>) -> u32 {
        let index = match (self.find(name), number) {
            (Some(index), _) => index,
            (None, None) => self.of_name(name),
            (None, Some(number)) => {
                let index = self.numbered(number);
                // Another name with that number: somebody is wrong about numbers.
                match self.name(index) {
                    Some(_) => self.of_name(name),
                    None => {
                        self.call(index, name);
                        index
                    }
                }
            }
        };
        self.said.extend(number.map(|number| (number, index)));
        index
    }

    /// Adds the next name of the node map.
    pub(super) fn map(&mut self, name: &[u8]) {
        let index = self.named(name, self.map.len() as u32);
        self.map.push(index);
    }

    /// The node at a place of the process map.
    pub(super) fn mapped(&mut self, place: u32) -> u32 {
        match self.map.get(place as usize) {
            Some(index) => *index,
            None => self.numbered(place),
        }
    }

    /// Lets nodes have the numbers that they were said to have beside their names, if no two of them end up with the same.
    pub(super) fn renumber(&mut self) {
        let mut numbers = self.numbers.clone();
        std::mem::take(&mut self.said).iter().for_each(|(number, index)| numbers[*index as usize] = *number);
        if numbers == self.numbers {
            return;
        }
        let mut renumbered: HashMap<u32, u32> = numbers.iter().copied().zip(0..).collect();
        if renumbered.len() == numbers.len() {
            renumbered.retain(|number, index| number != index);
            (self.numbers, self.renumbered) = (numbers, renumbered);
            self.next = self.numbers.iter().map(|number| number.saturating_add(1)).max().unwrap_or(0);
        }
    }

    /// Gives a node a name, if it has none.
    pub(super) fn name_it(&mut self, index: u32, name: &[u8]) {
        if self.name(index).is_none() {
            self.call(index, name);
        }
    }

    fn add(&mut self, number: u32) -> u32 {
        let index = self.len();
        if number != index {
            self.renumbered.insert(number, index);
        }
        self.numbers.push(number);
        self.names.push(None);
        self.next = self.next.max(number.saturating_add(1));
        index
    }

    fn call(&mut self, index: u32, name: &[u8]) {
        let from = self.text.len();
        self.text.extend_from_slice(name);
        self.names[index as usize] = Some((from, self.text.len()));
        self.named += 1;
        if self.slots.len() < self.named * 2 {
            self.slots = vec![0; (self.named * 4).next_power_of_two()];
            (0..self.len()).for_each(|index| self.enter(index));
        } else {
            self.enter(index);
        }
    }

    /// Of two nodes with one name the first is found by it.
    fn enter(&mut self, index: u32) {
        let Some(name) = self.name(index) else { return };
        let mask = self.slots.len() - 1;
        let mut slot = hash(name) as usize & mask;
        while let Some(other) = self.slots[slot].checked_sub(1) {
            if self.name(other) == Some(name) {
                return;
            }
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = index + 1;
    }

    /// The names as a segment has them.
    pub(super) fn build_names(&self) -> NamesBuild {
        let mut names = NamesBuild::default();
        (0..self.len()).for_each(|index| names.push(self.name(index)));
        names.untangle();
        names
    }
}
