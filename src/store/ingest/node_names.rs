//! Names of the nodes of a job while it is put together: those that differ in one number only are kept as ranges of it,
//! so that a million of them take no more than one.
//!
//! The text around a number is a **family**; a **row** is nodes that follow one another as the numbers of a family do.
//! A name may have several numbers. In a row that was given as such any of them counts; a name that comes alone is in
//! the family around the last number in front of its first dot. So it is looked for in the families around each of its
//! numbers.
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use instanton_layout::hash::hash;
use instanton_layout::info::NameRun;
use instanton_layout::info::names::{DIGITS, numbers};

use super::hash_index::HashIndex;

#[derive(Debug, Clone, Default)]
pub(super) struct NodeNames {
    /// The texts around the numbers of families.
    text: Vec<u8>,
    families: Vec<Family>,
    by_hash: HashIndex,
    /// Rows by their first nodes.
    rows: BTreeMap<u32, Row>,
    /// First nodes of rows that are not the first of their family, by family and first number.
    more: BTreeMap<(u32, u32), u32>,
    /// Nodes whose names others had before: these are found by them.
    twins: BTreeSet<u32>,
    /// True if the text in front of the number of some family has a number, too, or the text behind it.
    numbers_in_front: bool,
    numbers_behind: bool,
}

#[derive(Debug, Clone, Copy)]
struct Family {
    at: usize,
    before: u32,
    after: u32,
    /// 0: one name without a number.
    digits: u8,
    /// The first node of its first row.
    node: u32,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    count: u32,
    family: u32,
    number: u32,
}

impl NodeNames {
    pub(in crate::store) fn get(&self, node: u32) -> Option<Vec<u8>> {
        let (first, row) = self.row_of(node)?;
        let mut name = Vec::new();
        self.run(first, row).write(node - first, &mut name);
        Some(name)
    }

    pub(super) fn has(&self, node: u32) -> bool {
        self.row_of(node).is_some()
    }

    /// The first node that was given this name.
    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        let mut several = numbers(name).peekable();
        if several.peek().is_none() {
            return self.find_in(name, b"", 0, 0);
        }
        several.find_map(|(at, end, number)| self.find_in(&name[..at], &name[end..], end - at, number))
    }

    /// [`find`](Self::find), sooner where the name is in one row with that of a node.
    pub(super) fn find_near(&self, node: u32, name: &[u8]) -> Option<u32> {
        let near = self.row_of(node).and_then(|(first, row)| {
            let run = self.run(first, row);
            let nth = number_in(&run, name)?.checked_sub(run.number)?;
            (nth < run.count && run.found).then_some(first + nth)
        });
        near.or_else(|| self.find(name))
    }

    fn find_in(&self, before: &[u8], after: &[u8], digits: usize, number: u32) -> Option<u32> {
        let index = self.family(before, after, digits).ok()?;
        let node = self.row_before(index, number)?;
        let row = self.rows[&node];
        number.checked_sub(row.number).filter(|nth| *nth < row.count).map(|nth| node + nth)
    }

    /// The first node whose name is this up to its first dot.
    pub(super) fn find_short(&self, short: &[u8]) -> Option<u32> {
        self.rows.iter().find_map(|(first, row)| {
            let run = self.run(*first, *row);
            if let Some(dot) = run.before.iter().position(|byte| *byte == b'.') {
                return (run.before[..dot] == *short).then_some(*first);
            }
            let after = run.after.split(|byte| *byte == b'.').next().unwrap_or_default();
            let number = short.strip_prefix(run.before)?.strip_suffix(after)?;
            if number.len() != usize::from(run.digits) {
                return None;
            }
            // A number alone is all of what is left.
            let value = numbers(number).next().map_or(
                run.number,
                |(_, end, value)| {
                    if end == number.len() { value } else { u32::MAX }
                },
            );
            let same = number.iter().all(u8::is_ascii_digit);
            value.checked_sub(run.number).filter(|nth| same && *nth < run.count).map(|nth| first + nth)
        })
    }

    /// Names a node that has no name yet.
    pub(super) fn call(&mut self, node: u32, name: &[u8]) {
        if self.find(name).is_none() {
            return self.call_new(node, name);
        }
        self.twins.insert(node);
        let (before, after, digits, number) = usual(name);
        let family = self.family(before, after, digits);
        let family = family.unwrap_or_else(|half| self.add_family(before, after, digits, half, node));
        self.rows.insert(node, Row { count: 1, family, number });
    }

    /// Names a node that has no name yet; nobody else has this name.
    pub(super) fn call_new(&mut self, node: u32, name: &[u8]) {
        if !self.goes_on(node, name) {
            let (before, after, digits, number) = usual(name);
            self.add_row(node, before, after, digits, number, 1);
        }
    }

    /// Names so many nodes without names at once, by numbers that have so many digits. Answers whether all of that was
    /// possible; where it is not, somebody has one of these names already, or they are no range of numbers.
    pub(super) fn call_row(
        &mut self,
        node: u32,
        (before, after): (&[u8], &[u8]),
        (digits, number): (usize, u32),
        count: u32,
    ) -> bool {
        let cut = before.last().is_some_and(u8::is_ascii_digit) || after.first().is_some_and(u8::is_ascii_digit);
        if cut || !(1..=DIGITS).contains(&digits) {
            return false;
        }
        // Names with other numbers may be in families around these, which have numbers on the other side then.
        let has_number = |text: &[u8]| text.iter().any(u8::is_ascii_digit);
        if (has_number(before) && self.numbers_behind) || (has_number(after) && self.numbers_in_front) {
            let run = NameRun { first: node, count, number, before, after, digits: digits as u8, found: true };
            let mut name = Vec::new();
            let mut is_new = |nth| {
                run.write(nth, &mut name);
                self.find(&name).is_none()
            };
            if !(0..count).all(&mut is_new) {
                return false;
            }
        } else if let Ok(family) = self.family(before, after, digits)
            && let Some(last) = self.row_before(family, number + (count - 1))
            && self.rows[&last].number + self.rows[&last].count > number
        {
            return false;
        }
        self.add_row(node, before, after, digits, number, count);
        true
    }

    /// The runs of names, and of nodes without one, of so many nodes from this one on.
    pub(super) fn runs(&self, from: u32, to: u32) -> impl Iterator<Item = NameRun<'_>> + Clone {
        let first = self.row_of(from).map_or(from, |(first, _)| first);
        let (mut rows, mut at) = (self.rows.range(first..to.max(first)).peekable(), from);
        iter::from_fn(move || {
            let begin = at;
            if begin >= to {
                return None;
            }
            match rows.peek() {
                Some((first, row)) if **first <= begin => {
                    let (mut run, skipped) = (self.run(**first, **row), begin - **first);
                    (run.first, run.number) = (begin, run.number + skipped);
                    run.count = (run.count - skipped).min(to - begin);
                    rows.next();
                    at += run.count;
                    Some(run)
                }
                next => {
                    at = next.map_or(to, |(first, _)| **first);
                    Some(NameRun::nameless(begin, at - begin))
                }
            }
        })
    }

    fn row_of(&self, node: u32) -> Option<(u32, Row)> {
        let (first, row) = self.rows.range(..=node).next_back()?;
        (node - first < row.count).then_some((*first, *row))
    }

    fn run(&self, first: u32, Row { count, family, number }: Row) -> NameRun<'_> {
        let Family { digits, .. } = self.families[family as usize];
        let (before, after) = self.around(family);
        NameRun { first, count, number, before, after, digits, found: !self.twins.contains(&first) }
    }

    fn around(&self, family: u32) -> (&[u8], &[u8]) {
        let Family { at, before, after, .. } = self.families[family as usize];
        self.text[at..at + (before + after) as usize].split_at(before as usize)
    }

    /// The first node of the last row of a family that begins with this number or below.
    fn row_before(&self, family: u32, number: u32) -> Option<u32> {
        let first = self.families[family as usize].node;
        let first = Some(first).filter(|first| !self.twins.contains(first));
        let more = self.more.range((family, 0)..=(family, number)).next_back().map(|(_, node)| *node);
        let begins = |node: &u32| self.rows[node].number;
        first.into_iter().chain(more).filter(|node| begins(node) <= number).max_by_key(begins)
    }

    /// The index of a family, or its hash.
    fn family(&self, before: &[u8], after: &[u8], digits: usize) -> Result<u32, u32> {
        let half = hash_of(before, after, digits);
        let is_it = |family: u32| {
            let known = usize::from(self.families[family as usize].digits);
            known == digits && self.around(family) == (before, after)
        };
        self.by_hash.find(half, is_it).ok_or(half)
    }

    /// Enters a family that is not there yet.
    fn add_family(&mut self, before: &[u8], after: &[u8], digits: usize, half: u32, node: u32) -> u32 {
        let (at, index) = (self.text.len(), self.families.len() as u32);
        self.text.extend_from_slice(before);
        self.text.extend_from_slice(after);
        self.numbers_in_front |= digits > 0 && before.iter().any(u8::is_ascii_digit);
        self.numbers_behind |= digits > 0 && after.iter().any(u8::is_ascii_digit);
        let (before, after) = (before.len() as u32, after.len() as u32);
        self.families.push(Family { at, before, after, digits: digits as u8, node });
        self.by_hash.enter(half, index);
        index
    }

    fn add_row(&mut self, node: u32, before: &[u8], after: &[u8], digits: usize, number: u32, count: u32) {
        let family = match self.family(before, after, digits) {
            Ok(family) => {
                self.more.insert((family, number), node);
                family
            }
            Err(half) => self.add_family(before, after, digits, half, node),
        };
        self.rows.insert(node, Row { count, family, number });
    }

    /// Takes a name in that goes on where the row in front of its node ends.
    fn goes_on(&mut self, node: u32, name: &[u8]) -> bool {
        let Some((first, row)) = self.rows.range(..node).next_back().map(|(first, row)| (*first, *row)) else {
            return false;
        };
        let run = self.run(first, row);
        let ends_here = first + run.count == node && run.found && run.digits > 0;
        let goes_on = ends_here && number_in(&run, name).is_some_and(|number| number == run.number + run.count);
        if goes_on && let Some(row) = self.rows.get_mut(&first) {
            row.count += 1;
        }
        goes_on
    }
}

/// The number of a name that differs from others in this alone.
fn number_in(run: &NameRun<'_>, name: &[u8]) -> Option<u32> {
    let same_len = name.len() == run.len();
    let digits = Some(name).filter(|_| same_len)?.strip_prefix(run.before)?.strip_suffix(run.after)?;
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
}

fn hash_of(before: &[u8], after: &[u8], digits: usize) -> u32 {
    let mixed = hash(before) ^ hash(after).rotate_left(21) ^ (digits as u64) << 32;
    (mixed >> 32) as u32
}

/// The family of a name that comes alone, and its number.
fn usual(name: &[u8]) -> (&[u8], &[u8], usize, u32) {
    let dot = name.iter().position(|byte| *byte == b'.').unwrap_or(name.len());
    // The first part of an address means no more than others.
    let host = if name[..dot].iter().all(u8::is_ascii_digit) { name } else { &name[..dot] };
    match numbers(host).last().or_else(|| numbers(name).last()) {
        Some((at, end, number)) => (&name[..at], &name[end..], end - at, number),
        None => (name, b"", 0, 0),
    }
}
