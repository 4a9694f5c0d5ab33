//! Names of nodes, in the order of the nodes. Names that differ in one number only, which counts up, are a **series**:
//!
//! ```text
//! series 0   first node | nodes
//!        1   first number | word of the text
//!        2   bytes before the number | bytes behind it
//!        3   digits (8 bits; 0: no number, one name; 255: no names at all) | CRC-32C of all of it, the index and the text
//! ```
//!
//! What stands behind the number begins on a word of its own. Two kinds of keys lead from a name to its series, in one sorted table:
//! the hash of a name that stands alone, highest bit set; and, highest bit clear, the hash of what stands around a number, with the
//! first number as its low half.
use std::collections::HashMap;

use super::Part;
use super::sorted::Sorted;
use crate::hash::hash;
use crate::words::Words;
use crate::{Malformed, crc, high, low, pair};

const SERIES: usize = 4;
const NAMELESS: u8 = 255;
/// Most digits of a number that is counted.
pub const DIGITS: usize = 9;
const ALONE: u64 = 1 << 63;

/// Where the names lie.
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

    /// It in two numbers, for whoever keeps it that way; none of a name too long for that.
    #[inline]
    pub fn pack(&self) -> Option<(usize, u64)> {
        let prefix = u16::try_from(self.prefix).ok()?;
        Some((self.at, u64::from(self.number) | u64::from(prefix) << 32 | u64::from(self.digits) << 48))
    }

    /// What was packed of a name of `len` bytes.
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
        let mut digits = [0; 16];
        let mut rest = self.number;
        for digit in digits[..usize::from(self.digits)].iter_mut().rev() {
            (*digit, rest) = (b'0' + (rest % 10) as u8, rest / 10);
        }
        f(&digits, self.digits.into());
        text(words, self.at + self.prefix.div_ceil(8), self.suffix, &mut f)
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
            Some(nth) => Ok(series.name(nth)),
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
fn numbers(name: &[u8]) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
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

/// A series under construction.
#[derive(Debug, Clone)]
struct Counted {
    first: u32,
    count: u32,
    number: u32,
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    digits: u8,
}

impl Counted {
    fn alone(first: u32, name: &[u8]) -> Self {
        Self { first, count: 1, number: 0, prefix: name.to_vec(), suffix: Vec::new(), digits: 0 }
    }

    /// What leads from a name to it.
    fn key(&self) -> Option<u64> {
        match self.digits {
            NAMELESS => None,
            0 => Some(alone(&self.prefix)),
            digits => Some(around(&self.prefix, &self.suffix, digits.into()) | u64::from(self.number)),
        }
    }

    /// Takes in the next name if it goes on; `last` is the one before.
    fn take(&mut self, last: &[u8], name: &[u8]) -> bool {
        match self.digits {
            NAMELESS => return false,
            0 => {
                let Some((from, end)) = follows(last, name) else { return false };
                self.number = number_of(&last[from..end]).unwrap_or(0);
                self.digits = (end - from) as u8;
                (self.prefix, self.suffix) = (name[..from].to_vec(), name[end..].to_vec());
            }
            digits => {
                let at = self.prefix.len()..self.prefix.len() + usize::from(digits);
                let goes_on = name.len() == at.end + self.suffix.len()
                    && name.starts_with(&self.prefix)
                    && name.ends_with(&self.suffix)
                    && number_of(&name[at]) == self.number.checked_add(self.count);
                if !goes_on {
                    return false;
                }
            }
        }
        self.count += 1;
        true
    }
}

/// Names under construction.
#[derive(Debug, Clone, Default)]
pub struct NamesBuild {
    series: Vec<Counted>,
    nodes: u32,
    /// The last name, while its series may go on.
    last: Vec<u8>,
}

impl NamesBuild {
    /// Adds the name of the next node.
    pub fn push(&mut self, name: Option<&[u8]>) {
        let node = self.nodes;
        self.nodes += 1;
        let last = self.series.last_mut();
        let Some(name) = name else {
            match last {
                Some(last) if last.digits == NAMELESS => last.count += 1,
                _ => self.series.push(Counted { digits: NAMELESS, ..Counted::alone(node, b"") }),
            }
            return;
        };
        if !last.is_some_and(|last| last.take(&self.last, name)) {
            self.series.push(Counted::alone(node, name));
            self.last.clear();
            self.last.extend_from_slice(name);
        }
    }

    /// Appends the words of the names. The first of two nodes with the same name is found by it.
    pub(super) fn put(&self, words: &mut Vec<u64>) -> Names {
        let mut entries = Vec::with_capacity(self.series.len() * SERIES);
        let mut keys = Vec::with_capacity(self.series.len());
        let mut texts: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
        for (index, series) in (0u32..).zip(&self.series) {
            let Counted { first, count, number, prefix, suffix, digits } = series;
            let at = *texts.entry((prefix, suffix)).or_insert_with(|| {
                let at = crate::record::append(words, prefix);
                crate::record::append(words, suffix);
                at
            });
            let entry =
                [pair(*first, *count), pair(*number, at as u32), pair(prefix.len() as u32, suffix.len() as u32)];
            let mut sum = crc::Crc::new();
            sum.slice(&[entry[0], entry[1], entry[2], pair(u32::from(*digits), index)]);
            sum.slice(&words[at..at + prefix.len().div_ceil(8) + suffix.len().div_ceil(8)]);
            entries.extend(entry);
            entries.push(pair(u32::from(*digits), sum.value()));
            keys.extend(series.key().map(|key| (key, index)));
        }
        let series = Part { at: words.len(), len: self.series.len() as u32 };
        words.extend(entries);
        keys.sort();
        let index = Sorted(Part { at: words.len(), len: keys.len() as u32 });
        words.extend(super::sorted::build(&keys));
        Names { series, index }
    }

    /// Lets each name stand alone if two series would be taken for one by their keys.
    pub fn untangle(&mut self) {
        let counted = |series: &&Counted| series.digits != 0 && series.digits != NAMELESS;
        let mut seen: HashMap<u64, (&[u8], &[u8])> = HashMap::new();
        let tangled = self.series.iter().filter(counted).any(|Counted { prefix, suffix, digits, .. }| {
            let key = around(prefix, suffix, usize::from(*digits));
            *seen.entry(key).or_insert((prefix, suffix)) != (&prefix[..], &suffix[..])
        });
        if !tangled {
            return;
        }
        for series in std::mem::take(&mut self.series) {
            if !counted(&&series) {
                self.series.push(series);
                continue;
            }
            for nth in 0..series.count {
                let number = format!("{:0width$}", series.number + nth, width = usize::from(series.digits));
                let name = [&series.prefix[..], number.as_bytes(), &series.suffix[..]].concat();
                self.series.push(Counted::alone(series.first + nth, &name));
            }
        }
    }
}

fn number_of(digits: &[u8]) -> Option<u32> {
    let all = !digits.is_empty() && digits.len() <= DIGITS && digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// Where two names have numbers that follow one another, if they differ nowhere else.
fn follows(before: &[u8], name: &[u8]) -> Option<(usize, usize)> {
    if before.len() != name.len() {
        return None;
    }
    let at = before.iter().zip(name).position(|(a, b)| a != b)?;
    numbers(name).find(|(from, end, _)| (*from..*end).contains(&at)).and_then(|(from, end, number)| {
        let same = before[..from] == name[..from] && before[end..] == name[end..];
        (same && number_of(&before[from..end])?.checked_add(1) == Some(number)).then_some((from, end))
    })
}
