//! Putting names together that differ in one number.
use std::ops::Range;

use super::element::{Element, Part};
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

    pub fn into_element(self) -> Element {
        match self {
            Run::One(name) => Element::new([Part::Text(name)]),
            Run::Many { before, after, spans } => {
                Element::new([Part::Text(before), Part::numbers(spans), Part::Text(after)])
            }
        }
    }
}

/// Where two names of the same length have different numbers, if they differ nowhere else.
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
