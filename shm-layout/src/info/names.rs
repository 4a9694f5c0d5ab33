//! Names of nodes, in the order of the nodes. Names that differ in one number only, which counts up, are a **series**:
//!
//! ```text
//! series 0   first node | nodes
//!        1   first number | word of the text
//!        2   bytes before the number | bytes behind it
//!        3   digits (8 bits; 0: no number, one name; 255: no names at all) | CRC-32C of all of it, the index and the text
//! ```
//!
//! The text behind the number begins on a word of its own. Two kinds of keys lead from a name to its series, in one
//! sorted table: the hash of a name that stands alone, highest bit set; and, highest bit clear, the hash of what stands
//! around a number, with the first number as its low half.
use std::collections::HashMap;

use super::Part;
use super::decimal::{HIGH, ZEROES, eight_digits};
use super::sorted::Sorted;
use crate::hash::hash;
use crate::words::Words;
use crate::{Malformed, crc, high, low, pair};

const SERIES: usize = 4;
const NAMELESS: u8 = 255;
/// Most digits of a number that is counted.
pub const DIGITS: usize = 9;
const ALONE: u64 = 1 << 63;

/// The place of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    pub(super) series: Part,
    pub(super) index: Sorted,
}

/// A name, in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    at: usize,
    prefix: usize,
    suffix: usize,
    number: u32,
    digits: u8,
}

impl Name {
    /// Bytes of it.
    #[allow(clippy::len_without_is_empty, reason = "a length in bytes to make room for")]
    #[inline]
    pub fn len(&self) -> usize {
        self.prefix + usize::from(self.digits) + self.suffix
    }

    /// The name in two numbers, for callers that keep it so; `None` for a name that is too long.
    #[inline]
    pub fn pack(&self) -> Option<(usize, u64)> {
        let prefix = u16::try_from(self.prefix).ok()?;
        Some((self.at, u64::from(self.number) | u64::from(prefix) << 32 | u64::from(self.digits) << 48))
    }

    /// Unpacks a name of `len` bytes.
    ///
    /// # Errors
    /// [`Malformed::Table`] when it is no name.
    #[inline]
    pub fn unpack(at: usize, packed: u64, len: usize) -> Result<Self, Malformed> {
        let (number, prefix, digits) = (packed as u32, usize::from((packed >> 32) as u16), (packed >> 48) as u8);
        let suffix = len.checked_sub(prefix + usize::from(digits)).ok_or(Malformed::Table)?;
        match usize::from(digits) <= DIGITS {
            true => Ok(Self { at, prefix, suffix, number, digits }),
            false => Err(Malformed::Table),
        }
    }

    /// Gives its bytes to `f`, piece by piece: the first so many of 16.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when they do not all lie in the segment.
    #[inline]
    pub fn write<W: Words>(&self, words: &W, mut f: impl FnMut(&[u8; 16], usize)) -> Result<(), Malformed> {
        text(words, self.at, self.prefix, &mut f)?;
        let (high, digits) = (self.number / HIGH % 10, usize::from(self.digits));
        let nine = u128::from(eight_digits(self.number % HIGH) | ZEROES) << 8 | u128::from(b'0' + high as u8);
        f(&(nine >> (8 * DIGITS.saturating_sub(digits))).to_le_bytes(), digits);
        text(words, self.at + self.prefix.div_ceil(8), self.suffix, &mut f)
    }

    /// The word behind its text.
    #[inline]
    fn end(&self) -> usize {
        self.at + self.prefix.div_ceil(8) + self.suffix.div_ceil(8)
    }

    fn is<W: Words>(&self, words: &W, name: &[u8]) -> Result<bool, Malformed> {
        let (mut rest, mut same) = (name, self.len() == name.len());
        self.write(words, |piece, len| match rest.strip_prefix(&piece[..len]) {
            Some(tail) => rest = tail,
            None => same = false,
        })?;
        Ok(same)
    }
}

#[inline]
fn text<W: Words>(words: &W, at: usize, len: usize, f: &mut impl FnMut(&[u8; 16], usize)) -> Result<(), Malformed> {
    for from in (0..len).step_by(8) {
        f(&u128::from(words.load(at + from / 8)?).to_le_bytes(), (len - from).min(8));
    }
    Ok(())
}

impl Names {
    /// The name of a node, if it has one.
    ///
    /// # Errors
    /// [`Malformed`] when the names are damaged.
    #[inline]
    pub fn name<W: Words>(&self, words: &W, node: u32) -> Result<Option<Name>, Malformed> {
        let (mut from, mut to) = (0, self.series.len);
        while from < to {
            let middle = from + (to - from) / 2;
            match low(words.load(self.series.at(middle, SERIES)?)?) <= node {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let Some(index) = from.checked_sub(1) else { return Ok(None) };
        let series = Series::read(words, self.series, index)?;
        match node.checked_sub(series.first).filter(|nth| *nth < series.count) {
            // A caller that is given a name makes room for all of it.
            Some(nth) => match series.name(nth) {
                Some(name) if name.end() > words.len() => Err(Malformed::bounds(name.at)),
                found => Ok(found),
            },
            None => Err(Malformed::Table),
        }
    }

    /// The node with a name.
    ///
    /// # Errors
    /// [`Malformed`] when the names are damaged.
    pub fn find<W: Words>(&self, words: &W, name: &[u8]) -> Result<Option<u32>, Malformed> {
        let alone = self.index.find_where(words, alone(name), |index| {
            let series = Series::read(words, self.series, index)?;
            Ok(series.count > 0 && series.name(0).map_or(Ok(false), |own| own.is(words, name))?)
        })?;
        if let Some(index) = alone {
            return Ok(Some(Series::read(words, self.series, index)?.first));
        }
        for (at, end, number) in numbers(name) {
            let key = around(&name[..at], &name[end..], end - at) | u64::from(number);
            let Some((found, index)) = self.index.last_to(words, key)? else { continue };
            if high(found) != high(key) {
                continue;
            }
            let series = Series::read(words, self.series, index)?;
            let nth = number.checked_sub(series.number).filter(|nth| *nth < series.count);
            if let Some(nth) = nth
                && series.name(nth).map_or(Ok(false), |own| own.is(words, name))?
            {
                return Ok(Some(series.first + nth));
            }
        }
        Ok(None)
    }
}

struct Series {
    first: u32,
    count: u32,
    number: u32,
    at: usize,
    prefix: usize,
    suffix: usize,
    digits: u8,
}

impl Series {
    #[inline]
    fn read<W: Words>(words: &W, part: Part, index: u32) -> Result<Self, Malformed> {
        let at = part.at(index, SERIES)?;
        let w = words.load_all::<SERIES>(at)?;
        let series = Self {
            first: low(w[0]),
            count: high(w[0]),
            number: low(w[1]),
            at: high(w[1]) as usize,
            prefix: low(w[2]) as usize,
            suffix: high(w[2]) as usize,
            digits: w[3] as u8,
        };
        let (text, text_words) = (series.at, series.prefix.div_ceil(8) + series.suffix.div_ceil(8));
        words.once(at, move |words| {
            let mut sum = crc::Crc::new();
            sum.slice(&[w[0], w[1], w[2], pair(low(w[3]), index)]);
            sum.words(words, text, text_words)?;
            crc::expect(sum.value().into(), high(w[3]).into())
        })?;
        match usize::from(series.digits) <= DIGITS || series.digits == NAMELESS {
            true => Ok(series),
            false => Err(Malformed::Table),
        }
    }

    #[inline]
    fn name(&self, nth: u32) -> Option<Name> {
        let Self { at, prefix, suffix, digits, .. } = *self;
        let number = self.number.wrapping_add(if digits == 0 { 0 } else { nth });
        (digits != NAMELESS).then_some(Name { at, prefix, suffix, number, digits })
    }
}

fn alone(name: &[u8]) -> u64 {
    hash(name) | ALONE
}

/// The key of a series, its low half clear.
fn around(prefix: &[u8], suffix: &[u8], digits: usize) -> u64 {
    let mixed = hash(prefix) ^ hash(suffix).rotate_left(21) ^ (digits as u64) << 40;
    mixed & !ALONE & !u64::from(u32::MAX)
}

/// The numbers in a name that may count: where each begins and ends, and the number.
pub fn numbers(name: &[u8]) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += name[at..].iter().position(u8::is_ascii_digit)?;
            let len = name[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (from, end) = (at, at + len);
            at = end;
            if len <= DIGITS {
                let number = name[from..end].iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
                return Some((from, end, number));
            }
        }
    })
}

/// Names to be written: of nodes that follow one another as their numbers do, of one node, or of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameRun<'a> {
    /// The first node.
    pub first: u32,
    /// Nodes.
    pub count: u32,
    /// The number of the first one.
    pub number: u32,
    /// The text before the number.
    pub before: &'a [u8],
    /// The text behind the number.
    pub after: &'a [u8],
    /// Digits of each number, no more than [`DIGITS`]; 0: one name without a number.
    pub digits: u8,
    /// True if the nodes are found by their names, or have none. Of nodes with one name only one is found.
    pub found: bool,
}

impl<'a> NameRun<'a> {
    /// Nodes without names.
    pub fn nameless(first: u32, count: u32) -> Self {
        Self { first, count, number: 0, before: b"", after: b"", digits: NAMELESS, found: false }
    }

    /// The name of one node.
    pub fn one(first: u32, name: &'a [u8]) -> Self {
        Self { first, count: 1, number: 0, before: name, after: b"", digits: 0, found: true }
    }

    /// Returns whether these nodes have no names.
    pub fn is_nameless(&self) -> bool {
        self.digits == NAMELESS
    }

    /// Bytes of each name.
    #[allow(clippy::len_without_is_empty, reason = "a length in bytes to make room for")]
    pub fn len(&self) -> usize {
        self.before.len() + usize::from(self.digits) + self.after.len()
    }

    /// The n-th name, in place of what was in `name`.
    pub fn write(&self, nth: u32, name: &mut Vec<u8>) {
        name.clear();
        name.extend_from_slice(self.before);
        let mut rest = self.number + nth;
        name.resize(self.before.len() + usize::from(self.digits), b'0');
        for digit in name[self.before.len()..].iter_mut().rev() {
            (*digit, rest) = (b'0' + (rest % 10) as u8, rest / 10);
        }
        name.extend_from_slice(self.after);
    }
}

/// Names on their way into words.
struct Writer<'w, 'a> {
    words: &'w mut Vec<u64>,
    /// The texts around the numbers of series, by their keys. Two such texts with one key would be taken for one
    /// another.
    around: HashMap<u64, (&'a [u8], &'a [u8])>,
    /// Words of these texts.
    texts: HashMap<(&'a [u8], &'a [u8]), usize>,
    series: Vec<u64>,
    keys: Vec<(u64, u32)>,
}

impl<'a> Writer<'_, 'a> {
    fn take(&mut self, run: NameRun<'a>, name: &mut Vec<u8>) {
        let NameRun { first, count, number, before, after, digits, found } = run;
        let key = around(before, after, digits.into());
        let is_series = count > 1 && found && *self.around.entry(key).or_insert((before, after)) == (before, after);
        if run.is_nameless() {
            let at = self.words.len();
            self.put(run, at);
        } else if is_series {
            let words = &mut *self.words;
            let at = *self.texts.entry((before, after)).or_insert_with(|| {
                let at = crate::record::append(words, before);
                crate::record::append(words, after);
                at
            });
            self.keys.push((key | u64::from(number), self.next()));
            self.put(run, at);
        } else {
            for nth in 0..count {
                run.write(nth, name);
                let at = crate::record::append(self.words, name);
                if found {
                    self.keys.push((alone(name), self.next()));
                }
                self.put(NameRun::one(first + nth, name), at);
            }
        }
    }

    /// The index of the next series.
    fn next(&self) -> u32 {
        (self.series.len() / SERIES) as u32
    }

    fn put(&mut self, run: NameRun<'_>, at: usize) {
        let NameRun { first, count, number, before, after, digits, .. } = run;
        let entry = [pair(first, count), pair(number, at as u32), pair(before.len() as u32, after.len() as u32)];
        let mut sum = crc::Crc::new();
        sum.slice(&[entry[0], entry[1], entry[2], pair(u32::from(digits), self.next())]);
        sum.slice(&self.words[at..at + before.len().div_ceil(8) + after.len().div_ceil(8)]);
        self.series.extend(entry);
        self.series.push(pair(u32::from(digits), sum.value()));
    }
}

/// Appends the words of names, which are given in the order of nodes, each of these once.
pub(super) fn put<'a>(runs: impl Iterator<Item = NameRun<'a>>, words: &mut Vec<u64>) -> Names {
    let (series, keys) = (Vec::new(), Vec::new());
    let mut writer = Writer { words, around: HashMap::new(), texts: HashMap::new(), series, keys };
    let mut name = Vec::new();
    runs.for_each(|run| writer.take(run, &mut name));
    let Writer { words, series: entries, mut keys, .. } = writer;
    let series = Part { at: words.len(), len: (entries.len() / SERIES) as u32 };
    words.extend(entries);
    keys.sort_unstable();
    let index = Sorted(Part { at: words.len(), len: keys.len() as u32 });
    words.extend(super::sorted::build(&keys));
    Names { series, index }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Plain;

    #[test]
    fn a_text_that_has_grown_beyond_its_segment_since_it_was_checked_is_damage() {
        let mut words = Vec::new();
        let names = put([NameRun::one(0, b"alpha"), NameRun::nameless(1, 2)].into_iter(), &mut words);
        let lens =
            |words: &[u64]| [0, 1].map(|node| names.name(&Plain(words), node).map(|name| name.map(|it| it.len())));
        assert_eq!(lens(&words), [Ok(Some(5)), Ok(None)]);
        words[names.series.at + 2] |= 1 << 63;
        assert!(matches!(lens(&words), [Err(Malformed::Bounds { .. }), Ok(None)]));
    }
}
