//! Texts that say which ranks are where, written when they are read.
use std::mem::MaybeUninit;

use instanton_layout::Malformed;
use instanton_layout::info::decimal::{HIGH, ZEROES, eight_digits};
use instanton_layout::info::{NameRun, Names, Partition, TextForm};
use instanton_layout::words::Words;

use crate::data::DataType;
use crate::data::maps::Form;

/// Sink for the pieces of a text.
pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    /// [`put`](Self::put) of the first `len` of 16 bytes, which is faster.
    #[inline]
    fn put_short(&mut self, bytes: &[u8; 16], len: usize) {
        self.put(&bytes[..len]);
    }

    /// `count` texts of `len` bytes, no more than 8, each of which is `one` more than the last.
    #[inline]
    fn put_row(&mut self, mut text: u64, one: u64, len: usize, count: u64) {
        for _ in 0..count {
            self.put_short(&u128::from(text).to_le_bytes(), len);
            text = text.wrapping_add(one);
        }
    }

    /// The decimal numbers from `first` on, each with a comma in front, the first one only if there is something before
    /// it.
    #[inline]
    fn put_numbers(&mut self, first: u32, count: u32, comma: bool) {
        let (mut from, end, mut comma) = (u64::from(first), u64::from(first) + u64::from(count), comma);
        while from < end {
            let Decimal { text, len, mut last } = Decimal::new(from as u32);
            let begins = !std::mem::replace(&mut comma, true);
            if begins || len > 8 {
                let skipped = usize::from(begins);
                self.put_short(&(text >> (8 * skipped)).to_le_bytes(), len - skipped);
                (from, last) = (from + 1, last + 1);
                if len > 8 {
                    continue;
                }
            }
            let one = 1 << (8 * (len - 1));
            let mut text = text as u64 + if begins { one } else { 0 };
            loop {
                // Only the last digit counts up.
                let some = (end - from).min((10 - last).into());
                self.put_row(text, one, len, some);
                (from, last) = (from + some, 0);
                // And then the last but one, up to the next hundred. Nine is one digit, and ten two.
                text = text.wrapping_add((some * one).wrapping_sub(10 * one).wrapping_add(one >> 8));
                if from == end || len == 2 || (text >> (8 * (len - 2))) as u8 > b'9' {
                    break;
                }
            }
        }
    }
}

/// Sink that counts the bytes of a text.
#[derive(Default)]
pub(super) struct Count(pub(super) usize);

/// The first number of two digits, of three, and so on to ten.
const TENS: [u64; 9] = [10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

impl Sink for Count {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn put_numbers(&mut self, first: u32, count: u32, comma: bool) {
        let (mut from, end) = (u64::from(first), u64::from(first) + u64::from(count));
        while from < end {
            let digits = from.checked_ilog10().unwrap_or(0) as usize + 1;
            let to = end.min(TENS.get(digits - 1).copied().unwrap_or(u64::MAX));
            self.0 += (to - from) as usize * (digits + 1);
            from = to;
        }
        self.0 -= usize::from(count > 0 && !comma);
    }
}

/// Into memory; what is behind its end is left out.
pub(super) struct Fill<'a> {
    /// The room that is left.
    pub(super) rest: &'a mut [MaybeUninit<u8>],
}

impl Fill<'_> {
    /// The first `len` bytes of a text where there is no room for more: in two pieces, which overlap.
    #[inline(never)]
    fn put_last(&mut self, text: u128, len: usize) {
        let (to, rest) = std::mem::take(&mut self.rest).split_at_mut(len);
        let end = text >> (8 * len.saturating_sub(if len < 8 { 4 } else { 8 }));
        if let Some(first) = to.first_chunk_mut::<8>() {
            *first = (text as u64).to_le_bytes().map(MaybeUninit::new);
        }
        if let Some(last) = to.last_chunk_mut::<8>() {
            *last = (end as u64).to_le_bytes().map(MaybeUninit::new);
        } else if let Some(first) = to.first_chunk_mut::<4>() {
            *first = (text as u32).to_le_bytes().map(MaybeUninit::new);
            if let Some(last) = to.last_chunk_mut::<4>() {
                *last = (end as u32).to_le_bytes().map(MaybeUninit::new);
            }
        } else {
            to.iter_mut().zip(text.to_le_bytes()).for_each(|(to, byte)| {
                to.write(byte);
            });
        }
        self.rest = rest;
    }
}

impl Sink for Fill<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(self.rest.len());
        let (to, rest) = std::mem::take(&mut self.rest).split_at_mut(len);
        to.iter_mut().zip(bytes).for_each(|(to, byte)| {
            to.write(*byte);
        });
        self.rest = rest;
    }

    #[inline]
    fn put_short(&mut self, bytes: &[u8; 16], len: usize) {
        match self.rest.first_chunk_mut() {
            Some(to) => {
                *to = bytes.map(MaybeUninit::new);
                self.rest = &mut std::mem::take(&mut self.rest)[len..];
            }
            None => self.put_last(u128::from_le_bytes(*bytes), len.min(self.rest.len())),
        }
    }

    /// Eight bytes at once, as long as there is room: what is too many is written over.
    #[inline]
    fn put_row(&mut self, mut text: u64, one: u64, len: usize, mut count: u64) {
        let (mut rest, len) = (std::mem::take(&mut self.rest), len.min(8));
        while count > 0
            && let Some(to) = rest.first_chunk_mut::<8>()
        {
            *to = text.to_le_bytes().map(MaybeUninit::new);
            rest = &mut std::mem::take(&mut rest)[len..];
            (text, count) = (text.wrapping_add(one), count - 1);
        }
        self.rest = rest;
        for _ in 0..count {
            self.put_last(text.into(), len.min(self.rest.len()));
            text = text.wrapping_add(one);
        }
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Sink that compares a text with another.
pub(super) struct Compare<'a> {
    pub(super) rest: &'a [u8],
    pub(super) same: bool,
}

impl Sink for Compare<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.rest.strip_prefix(bytes) {
            Some(rest) => self.rest = rest,
            None => self.same = false,
        }
    }

    #[inline]
    fn put_short(&mut self, bytes: &[u8; 16], len: usize) {
        match self.rest.first_chunk() {
            Some(rest) if (1..=16).contains(&len) => {
                let differ = u128::from_le_bytes(*rest) ^ u128::from_le_bytes(*bytes);
                self.same &= differ << (8 * (16 - len)) == 0;
                self.rest = &self.rest[len..];
            }
            _ => self.put(&bytes[..len]),
        }
    }
}

impl Compare<'_> {
    pub(super) fn of(text: &[u8]) -> Compare<'_> {
        Compare { rest: text, same: true }
    }

    pub(super) fn is_same(&self) -> bool {
        self.same && self.rest.is_empty()
    }
}

/// A number in decimal digits, behind a comma.
struct Decimal {
    text: u128,
    len: usize,
    /// The last digit.
    last: u32,
}

impl Decimal {
    #[inline]
    fn new(number: u32) -> Self {
        let (text, digits, last) = match number < HIGH {
            true => {
                let digits = eight_digits(number);
                // The last digit stays, whatever it is.
                let zeroes = (digits.trailing_zeros() / 8).min(7);
                (u128::from((digits | ZEROES) >> (8 * zeroes)), 8 - zeroes, digits >> 56)
            }
            false => {
                let (high, low) = (eight_digits(number / HIGH), eight_digits(number % HIGH));
                let zeroes = high.trailing_zeros() / 8;
                let digits = 8 - zeroes;
                let text = u128::from((high | ZEROES) >> (8 * zeroes)) | u128::from(low | ZEROES) << (8 * digits);
                (text, digits + 8, low >> 56)
            }
        };
        Self { text: text << 8 | u128::from(b','), len: digits as usize + 1, last: last as u32 }
    }
}

/// Leaves out the comma in front of the first thing that is put.
struct List<'a, S> {
    sink: &'a mut S,
    empty: bool,
}

impl<S: Sink> List<'_, S> {
    fn numbers(&mut self, first: u32, count: u32) {
        self.sink.put_numbers(first, count, !self.empty);
        self.empty &= count == 0;
    }
}

/// Ranks that follow one another.
pub(super) fn ranks_in_a_row(first: u32, count: u32, sink: &mut impl Sink) {
    sink.put_numbers(first, count, false);
}

/// The ranks of a member of a partition: `LOCAL_PEERS`.
pub(super) fn ranks<W: Words>(
    partition: &Partition,
    words: &W,
    member: u32,
    sink: &mut impl Sink,
) -> Result<(), Malformed> {
    let mut list = List { sink, empty: true };
    partition.pieces(words, member, |first, count| list.numbers(first, count))
}

/// Names with commas between them.
pub(super) fn names<'a>(runs: impl Iterator<Item = NameRun<'a>>, sink: &mut impl Sink) {
    let (mut first, mut name) = (true, Vec::new());
    for run in runs {
        for nth in 0..run.count {
            if !std::mem::take(&mut first) {
                sink.put(b",");
            }
            run.write(nth, &mut name);
            sink.put(&name);
        }
    }
}

/// The length of that text.
pub(super) fn names_len<'a>(runs: impl Iterator<Item = NameRun<'a>>) -> usize {
    runs.map(|run| run.count as usize * (run.len() + 1)).sum::<usize>().saturating_sub(1)
}

/// The names of all nodes, or of those that run processes of the job: `NODE_LIST`.
pub(super) fn node_list<W: Words>(
    names: &Names,
    used: Option<&Partition>,
    words: &W,
    nodes: u32,
    sink: &mut impl Sink,
) -> Result<(), Malformed> {
    let mut first = true;
    for node in 0..nodes {
        if let Some(partition) = used
            && partition.size(words, node)? == 0
        {
            continue;
        }
        let Some(name) = names.name(words, node)? else { continue };
        if !std::mem::take(&mut first) {
            sink.put(b",");
        }
        name.write(words, |piece, len| sink.put_short(piece, len))?;
    }
    Ok(())
}

/// The forms of a map, by the number that a segment has for each.
pub(super) const FORMS: [Form; 4] = [Form::Bracket, Form::Colon, Form::Raw, Form::Plain];

/// A text that is longer than this is computed when it is read, if it can be.
pub(super) const LONG: usize = 4096;

/// The list of the own node's peers is not written for every process that reads it before it is longer than this.
pub(super) const VERY_LONG: usize = 64 << 10;

/// The description by which a map in that form is written again; `None` where its text is kept as it is.
pub(super) fn map_form(data_type: DataType, map: &[u8], form: Form) -> Option<TextForm> {
    let with_nul = match data_type {
        DataType::STRING => 1,
        DataType::REGEX => 0,
        _ => return None,
    };
    let len = (map.len() > LONG).then_some(map.len() as u64)?;
    let form = FORMS.iter().position(|known| *known == form)? as u8;
    Some(TextForm { data_type: data_type.0, form, len: len + with_nul })
}

/// The ranks of each node: `PROC_MAP`. Nodes behind the last one that runs something have no element.
pub(super) fn proc_map<W: Words>(
    partition: &Partition,
    words: &W,
    nodes: u32,
    form: Form,
    sink: &mut impl Sink,
) -> Result<(), Malformed> {
    sink.put(form.opening());
    let each = matches!(form, Form::Plain | Form::Raw);
    // Semicolons up to this node are there.
    let mut reached = 0;
    for node in 0..nodes {
        let (mut range, mut first): (Option<(u32, u32)>, bool) = (None, true);
        let mut list = List { sink: &mut *sink, empty: true };
        let mut begin = |list: &mut List<'_, _>| {
            if std::mem::take(&mut first) {
                (reached..node).for_each(|_| Sink::put(list.sink, b";"));
                reached = node;
            }
        };
        partition.pieces(words, node, |from, count| match range {
            _ if each => {
                begin(&mut list);
                list.numbers(from, count);
            }
            Some((start, len)) if start + len == from => range = Some((start, len + count)),
            _ => {
                begin(&mut list);
                put_range(&mut list, range.replace((from, count)));
            }
        })?;
        put_range(&mut list, range);
    }
    sink.put(form.closing());
    Ok(())
}

fn put_range<S: Sink>(list: &mut List<'_, S>, range: Option<(u32, u32)>) {
    let Some((first, count)) = range else { return };
    list.numbers(first, 1);
    if count > 1 {
        let last = Decimal::new(first + (count - 1));
        list.sink.put(b"-");
        list.sink.put_short(&(last.text >> 8).to_le_bytes(), last.len - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_and_written_alike() {
        for (first, count) in [
            (0, 0),
            (0, 1),
            (7, 5),
            (8, 200),
            (99_990, 20),
            (9_999_999, 2),
            (99_999_998, 5),
            (999_999_999, 2),
            (4_294_967_290, 6),
        ] {
            for comma in [true, false] {
                let expected: String = (0..count).map(|n| format!(",{}", first + n)).collect();
                let expected = if comma { &expected } else { expected.trim_start_matches(',') };
                let mut counted = Count::default();
                counted.put_numbers(first, count, comma);
                assert_eq!(counted.0, expected.len());
                let mut same = Compare::of(expected.as_bytes());
                same.put_numbers(first, count, comma);
                assert!(same.is_same());
                for room in [0, expected.len() / 2, expected.len(), expected.len() + 50] {
                    let mut left = 0;
                    let written = crate::sys::written(room, |to| {
                        let mut fill = Fill { rest: to };
                        fill.put_numbers(first, count, comma);
                        left = fill.rest.len();
                    });
                    let whole = expected.as_bytes().iter().take(room);
                    assert_eq!(left, room - whole.len());
                    assert!(written.iter().zip(whole).all(|(written, wanted)| written == wanted), "{first} {count}");
                }
            }
        }
    }
}
