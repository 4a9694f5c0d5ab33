//! Putting names together that differ in one number.
use std::ops::Range;

use super::Form;
use super::element::{Element, Part, write_name, write_numbers};
use super::row::NameRow;
use super::scan::Span;

/// Names that follow one another, while we look for what they have in common.
pub(super) enum Run {
    One(Vec<u8>),
    Many { before: Vec<u8>, after: Vec<u8>, spans: Vec<Span> },
}

/// Most digits that are written as a range: other libraries read them into an `int`.
const MAX_RANGE_DIGITS: usize = 9;

impl Run {
    /// Takes `name` in if it differs from the names before in one number only.
    pub fn extend(&mut self, name: &[u8]) -> bool {
        match self {
            Run::One(first) => match differing_number(first, name) {
                None => false,
                Some(at) => {
                    let mut spans = vec![one(&first[at.clone()])];
                    append(&mut spans, one(&name[at.clone()]));
                    *self = Run::Many { before: first[..at.start].to_vec(), after: first[at.end..].to_vec(), spans };
                    true
                }
            },
            Run::Many { before, after, spans } => {
                // Their length alone tells most of those that do not follow.
                let width = spans[0].width;
                let number = (name.len() == before.len() + width + after.len())
                    .then(|| name.strip_prefix(&before[..])?.strip_suffix(&after[..]))
                    .flatten()
                    .filter(|number| number.iter().all(u8::is_ascii_digit));
                number.map(|number| append(spans, one(number))).is_some()
            }
        }
    }

    /// Takes in the first name of a list with commas if it differs from several names before in their
    /// number only; gives its length.
    pub fn extend_from(&mut self, list: &[u8]) -> Option<usize> {
        let Run::Many { before, after, spans } = self else { return None };
        let width = spans[0].width;
        let len = before.len() + width + after.len();
        let name = list.get(..len).filter(|_| list.get(len).is_none_or(|byte| *byte == b','))?;
        let (first, rest) = name.split_at(before.len());
        let (digits, last) = rest.split_at(width);
        // Names are short: shorter than a call that compares them.
        let same = |a: &[u8], b: &[u8]| a.iter().zip(b).all(|(a, b)| a == b);
        if !digits.iter().all(u8::is_ascii_digit) || !same(first, before) || !same(last, after) {
            return None;
        }
        append(spans, one(digits));
        Some(len)
    }

    /// Returns the number of names.
    pub fn count(&self) -> u64 {
        match self {
            Run::One(_) => 1,
            Run::Many { spans, .. } => spans.iter().map(Span::len).sum(),
        }
    }

    /// Gives `f` the names.
    pub fn each_row(&self, f: &mut impl FnMut(NameRow<'_>)) {
        match self {
            Run::One(name) => f(NameRow::One(name)),
            Run::Many { before, after, spans } => spans.iter().for_each(|span| f(NameRow::of(*span, before, after))),
        }
    }

    /// Writes what [`into_element`](Run::into_element) would write.
    pub fn write(&self, form: Form, text: &mut Vec<u8>) {
        match self {
            Run::One(name) => write_name(name, form, text),
            Run::Many { before, after, spans } => {
                text.extend_from_slice(before);
                write_numbers(spans, form, text);
                text.extend_from_slice(after);
            }
        }
    }

    pub fn into_element(self) -> Element {
        match self {
            Run::One(name) => Element::new([Part::Text(name)]),
            Run::Many { before, after, spans } => {
                Element::new([Part::Text(before), Part::numbers(spans), Part::Text(after)])
            }
        }
    }
}

/// Returns the place of the number in which two names of the same length differ, if they differ nowhere else.
fn differing_number(a: &[u8], b: &[u8]) -> Option<Range<usize>> {
    let differs = |at: &usize| a[*at] != b[*at];
    if a.len() != b.len() {
        return None;
    }
    let mut start = (0..a.len()).find(differs)?;
    let mut end = (0..a.len()).rfind(differs)? + 1;
    while start > 0 && a[start - 1].is_ascii_digit() {
        start -= 1;
    }
    while end < a.len() && a[end].is_ascii_digit() {
        end += 1;
    }
    let digits = |name: &[u8]| name[start..end].iter().all(u8::is_ascii_digit);
    (end - start <= MAX_RANGE_DIGITS && digits(a) && digits(b)).then_some(start..end)
}

fn one(digits: &[u8]) -> Span {
    let value = digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    Span { first: value, last: value, width: digits.len() }
}

fn append(spans: &mut Vec<Span>, next: Span) {
    match spans.last_mut() {
        Some(last) if last.last + 1 == next.first => last.last = next.last,
        _ => spans.push(next),
    }
}
