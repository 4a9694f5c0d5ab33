//! The nodes of a job while they are put together: numbers, names, and the values that the host gave of them.
use std::collections::{BTreeMap, HashMap};

use instanton_layout::info::NameRun;

use super::entries::Entries;
use super::node_names::NodeNames;
use crate::data::maps::NameRow;

/// Nodes by their index. Mostly the number of a node is its index, too.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Nodes {
    len: u32,
    /// Numbers of all of them, once one is not the index.
    numbers: Vec<u32>,
    names: NodeNames,
    /// Indexes by number, of nodes whose number is another.
    renumbered: HashMap<u32, u32>,
    next: u32,
    /// Nodes of the node map whose place there is their index, before the first whose place is not.
    in_place: u32,
    /// The nodes of the node map behind them, in its order.
    map: Vec<u32>,
    /// The highest number that was given together with a node's name, if one was.
    said: Vec<Option<u32>>,
    pub(in crate::store) given: BTreeMap<u32, Entries>,
}

impl Nodes {
    pub(in crate::store) fn len(&self) -> u32 {
        self.len
    }

    pub(in crate::store) fn number(&self, index: u32) -> u32 {
        self.numbers.get(index as usize).copied().unwrap_or(index)
    }

    pub(super) fn name(&self, index: u32) -> Option<Vec<u8>> {
        self.names.get(index)
    }

    /// The names of nodes from this one on, up to another.
    pub(in crate::store) fn names(&self, from: u32, to: u32) -> impl Iterator<Item = NameRun<'_>> + Clone {
        self.names.runs(from, to)
    }

    /// The numbers, if they are not the indexes.
    pub(in crate::store) fn numbers(&self) -> Option<Vec<u32>> {
        (!self.renumbered.is_empty()).then(|| self.numbers.clone())
    }

    pub(in crate::store) fn entries(&mut self, index: u32) -> &mut Entries {
        self.given.entry(index).or_default()
    }

    /// The first that was given that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        self.names.find(name)
    }

    /// [`find`](Self::find) of a name that is mostly near another one.
    pub(super) fn find_near(&self, near: u32, name: &[u8]) -> Option<u32> {
        self.names.find_near(near, name)
    }

    /// The first whose name is this up to its first dot.
    pub(super) fn find_short(&self, short: &[u8]) -> Option<u32> {
        self.names.find_short(short)
    }

    /// The node with that name, which gets `number` if it is new.
    pub(super) fn named(&mut self, name: &[u8], number: u32) -> u32 {
        self.find(name).unwrap_or_else(|| {
            let index = self.add(number);
            self.names.call_new(index, name);
            index
        })
    }

    /// The node with that name, whatever its number.
    pub(super) fn of_name(&mut self, name: &[u8]) -> u32 {
        self.named(name, self.next)
    }

    /// The node with that number.
    pub(super) fn numbered(&mut self, number: u32) -> u32 {
        if number < self.len && self.number(number) == number {
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
                match self.names.has(index) {
                    true => self.of_name(name),
                    false => {
                        self.names.call_new(index, name);
                        index
                    }
                }
            }
        };
        self.say_number(index, number);
        index
    }

    /// Notes the number that is said of a node beside its name.
    pub(super) fn say_number(&mut self, index: u32, number: Option<u32>) {
        if number.is_some() {
            let said = self.said.len().max(index as usize + 1);
            self.said.resize(said, None);
            let said = &mut self.said[index as usize];
            *said = number.max(*said);
        }
    }

    /// Adds the next name of the node map.
    pub(super) fn map(&mut self, name: &[u8]) {
        let place = self.places();
        let index = self.named(name, place);
        if index == place && self.map.is_empty() {
            self.in_place += 1;
        } else {
            self.map.push(index);
        }
    }

    /// Adds the next names of the node map.
    pub(super) fn map_row(&mut self, row: NameRow<'_>) {
        let (before, after, mut first, last, width) = match row {
            NameRow::One(name) => return self.map(name),
            NameRow::Counted { before, after, first, last, width } => (before, after, first, last, width),
        };
        // As long as all numbers have the same digits.
        while first <= last {
            let digits = width.max(first.checked_ilog10().unwrap_or(0) as usize + 1);
            let end = 10u64.checked_pow(digits as u32).map_or(last, |next| last.min(next - 1));
            self.map_numbers((before, after), digits, first, end);
            first = end + 1;
        }
    }

    /// Adds the next names of the node map, whose numbers have so many digits.
    fn map_numbers(&mut self, around: (&[u8], &[u8]), digits: usize, first: u64, last: u64) {
        let as_indexes = self.numbers.is_empty() && self.map.is_empty() && self.len == self.in_place;
        if as_indexes
            && let (Ok(number), Ok(count)) = (u32::try_from(first), u32::try_from(last - first + 1))
            && self.names.call_row(self.len, around, (digits, number), count)
        {
            self.len += count;
            self.in_place = self.len;
            self.next = self.next.max(self.len);
            return;
        }
        for number in first..=last {
            self.map(&[around.0, format!("{number:0digits$}").as_bytes(), around.1].concat());
        }
    }

    /// Returns whether the node map has a node.
    pub(super) fn is_in_map(&self, index: u32) -> bool {
        index < self.in_place || self.map.contains(&index)
    }

    /// Nodes of the node map.
    pub(super) fn places(&self) -> u32 {
        self.in_place + self.map.len() as u32
    }

    /// The node at a place of the process map.
    pub(super) fn mapped(&mut self, place: u32) -> u32 {
        match place.checked_sub(self.in_place) {
            None => place,
            Some(behind) => match self.map.get(behind as usize) {
                Some(index) => *index,
                None => self.numbered(place),
            },
        }
    }

    /// Returns whether the nodes are those of the node map, in its order, and each is there once.
    pub(super) fn are_the_map(&self) -> bool {
        self.in_place == self.len && self.map.is_empty()
    }

    /// Returns whether so many places of the process map are nodes of the node map, and each is the index of its node.
    pub(super) fn are_in_place(&self, places: u32) -> bool {
        places <= self.in_place
    }

    /// Lets nodes have the numbers that they were said to have beside their names, if no two of them end up with the
    /// same.
    pub(super) fn renumber(&mut self) {
        let said = std::mem::take(&mut self.said);
        if (0u32..).zip(&said).all(|(index, said)| said.is_none_or(|number| number == self.number(index))) {
            return;
        }
        let said = |index| said.get(index as usize).copied().flatten();
        let numbers: Vec<u32> = (0..self.len).map(|index| said(index).unwrap_or(self.number(index))).collect();
        let mut renumbered: HashMap<u32, u32> = numbers.iter().copied().zip(0..).collect();
        if renumbered.len() == numbers.len() {
            renumbered.retain(|number, index| number != index);
            (self.numbers, self.renumbered) = (numbers, renumbered);
            self.next = self.numbers.iter().map(|number| number.saturating_add(1)).max().unwrap_or(0);
        }
    }

    /// Gives a node a name, if it has none.
    pub(super) fn name_it(&mut self, index: u32, name: &[u8]) {
        if !self.names.has(index) {
            self.names.call(index, name);
        }
    }

    fn add(&mut self, number: u32) -> u32 {
        let index = self.len;
        if number != index {
            self.renumbered.insert(number, index);
        }
        if number != index || !self.numbers.is_empty() {
            self.numbers.extend(self.numbers.len() as u32..index);
            self.numbers.push(number);
        }
        self.len += 1;
        self.next = self.next.max(number.saturating_add(1));
        index
    }
}
