//! One element of a node list: the text of a name with numbers in it, which stands for as many names as there are
//! numbers.
use std::ops::Range;

use super::row::NameRow;
use super::scan::{MAX_DIGITS, Scan, Span};
use super::{Form, Limit, Limits, MapError};

/// Bytes that a name cannot have, because they mean something in an expression or would end it.
pub(super) const SPECIAL: &[u8] = b",;[]\0";

/// Table of [`SPECIAL`], by byte.
pub(super) const IS_SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut at = 0;
    while at < SPECIAL.len() {
        special[SPECIAL[at] as usize] = true;
        at += 1;
    }
    special
};

/// An element of a list, in pieces.
#[derive(Debug, Clone)]
pub(super) struct Element(Vec<Part>);

/// A piece of a name.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Text(Vec<u8>),
    /// One of these numbers, `count` in all; `before` says how many there are before each span.
    Numbers {
        spans: Vec<Span>,
        before: Vec<u64>,
        count: u64,
    },
}

impl Element {
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Self {
        Self(parts.into_iter().filter(|part| part.longest() > 0).collect())
    }

    /// Reads text and numbers in brackets, by turns.
    pub fn read(scan: &mut Scan<'_>, limits: &Limits) -> Result<Self, MapError> {
        let mut parts = Vec::new();
        let mut longest = 0;
        loop {
            let text = scan.until(SPECIAL);
            longest += text.len();
            check_name(longest, limits)?;
            if !text.is_empty() {
                parts.push(Part::Text(text.to_vec()));
            }
            if !scan.take(b'[') {
                break;
            }
            let numbers = numbers(scan, limits)?;
            longest += numbers.longest();
            parts.push(numbers);
        }
        match parts.is_empty() {
            true => Err(scan.wrong("an empty name")),
            false => Ok(Self(parts)),
        }
    }

    /// Returns the number of names that it stands for.
    pub fn count(&self) -> u64 {
        self.0.iter().map(Part::count).fold(1, u64::saturating_mul)
    }

    /// The name at `index` of those that it stands for; the last number varies fastest.
    pub fn name(&self, index: u64) -> Vec<u8> {
        let mut name = Vec::new();
        self.write_name(index, &mut name);
        name
    }

    /// Appends that name.
    pub fn write_name(&self, mut index: u64, name: &mut Vec<u8>) {
        let mut rest = self.count();
        for part in &self.0 {
            match part {
                Part::Text(text) => name.extend_from_slice(text),
                Part::Numbers { spans, before, count } => {
                    rest /= count;
                    let which = index / rest;
                    index %= rest;
                    let at = before.partition_point(|before| *before <= which) - 1;
                    spans[at].write(spans[at].first + which - before[at], name);
                }
            }
        }
    }

    /// Gives `f` the names in order, together where numbers are in one place.
    pub fn each_row(&self, f: &mut impl FnMut(NameRow<'_>)) {
        let (before, spans, after): (&[u8], _, &[u8]) = match &self.0[..] {
            [Part::Numbers { spans, .. }] => (b"", spans, b""),
            [Part::Text(before), Part::Numbers { spans, .. }] => (before, spans, b""),
            [Part::Numbers { spans, .. }, Part::Text(after)] => (b"", spans, after),
            [Part::Text(before), Part::Numbers { spans, .. }, Part::Text(after)] => (before, spans, after),
            _ => {
                let mut name = Vec::new();
                for index in 0..self.count() {
                    name.clear();
                    self.write_name(index, &mut name);
                    f(NameRow::One(&name));
                }
                return;
            }
        };
        spans.iter().for_each(|span| f(NameRow::of(*span, before, after)));
    }

    /// Returns whether every library can read it in brackets: numbers in one place, all of the same width.
    pub fn is_simple(&self) -> bool {
        let mut numbers = self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Numbers { spans, .. } => Some(spans),
        });
        let uniform = |spans: &Vec<Span>| spans.iter().all(|span| span.width == spans[0].width);
        numbers.next().is_none_or(uniform) && numbers.next().is_none()
    }

    pub fn write(&self, form: Form, text: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(name) if self.0.len() == 1 => write_name(name, form, text),
                Part::Text(piece) => text.extend_from_slice(piece),
                Part::Numbers { spans, .. } => write_numbers(spans, form, text),
            }
        }
    }
}

/// Writes a name that stands for itself alone.
pub(super) fn write_name(name: &[u8], form: Form, text: &mut Vec<u8>) {
    match number_of(name).filter(|_| form == Form::Bracket) {
        Some(at) => write_numbered(name, at, text),
        None => text.extend_from_slice(name),
    }
}

/// Writes numbers in brackets.
pub(super) fn write_numbers(spans: &[Span], form: Form, text: &mut Vec<u8>) {
    text.push(b'[');
    if form == Form::Bracket {
        Span::write_digits(spans[0].width as u64, 1, text);
        text.push(b':');
    }
    for (index, span) in spans.iter().enumerate() {
        text.extend_from_slice(if index == 0 { b"" } else { b"," });
        let width = if form == Form::Bracket { 1 } else { span.width };
        Span::write_digits(span.first, width, text);
        if span.last > span.first {
            text.push(b'-');
            Span::write_digits(span.last, width, text);
        }
    }
    text.push(b']');
}

/// Returns the place of the number in a name that has letters, then digits, and perhaps more of both: stock libraries
/// write such a name as a range of one.
fn number_of(name: &[u8]) -> Option<Range<usize>> {
    let start = name.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    let digits = name[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let plain = name.iter().all(u8::is_ascii_alphanumeric);
    (plain && (1..=MOST_SHOWN).contains(&digits)).then_some(start..start + digits)
}

/// Digits of a number that every library reads as one.
const MOST_SHOWN: usize = 9;

fn write_numbered(name: &[u8], at: Range<usize>, text: &mut Vec<u8>) {
    let digits = &name[at.clone()];
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count().min(digits.len() - 1);
    text.extend_from_slice(&name[..at.start]);
    text.push(b'[');
    Span::write_digits(digits.len() as u64, 1, text);
    text.push(b':');
    text.extend_from_slice(&digits[zeros..]);
    text.push(b']');
    text.extend_from_slice(&name[at.end..]);
}

impl Part {
    pub fn numbers(spans: Vec<Span>) -> Self {
        let mut count = 0;
        let mut before = Vec::with_capacity(spans.len());
        for span in &spans {
            before.push(count);
            count += span.len();
        }
        Part::Numbers { spans, before, count }
    }

    /// Returns the number of things that this piece can be.
    fn count(&self) -> u64 {
        match self {
            Part::Text(_) => 1,
            Part::Numbers { count, .. } => *count,
        }
    }

    /// Bytes of the longest of them.
    fn longest(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            Part::Numbers { spans, .. } => spans.iter().map(|span| span.digits()).max().unwrap_or(0),
        }
    }
}

/// `1-4,7]` or, with the number of digits in front, `3:1-4,7]`. Without it each range is as wide as its first number.
fn numbers(scan: &mut Scan<'_>, limits: &Limits) -> Result<Part, MapError> {
    let mut spans: Vec<Span> = Vec::new();
    let mut count = 0u64;
    let mut span = scan.span()?;
    let digits = match span.first == span.last && scan.take(b':') {
        true if span.first > MAX_DIGITS as u64 => return Err(scan.wrong("too many digits")),
        true => {
            let digits = span.first as usize;
            span = scan.span()?;
            Some(digits)
        }
        false => None,
    };
    loop {
        span.width = digits.unwrap_or(span.width);
        count = count.saturating_add(span.len());
        if count > limits.nodes as u64 {
            return Err(MapError::TooLarge { limit: Limit::Nodes, max: limits.nodes as u64 });
        }
        spans.push(span);
        if scan.take(b']') {
            return Ok(Part::numbers(spans));
        }
        if !scan.take(b',') {
            return Err(scan.wrong("something where a , or ] belongs"));
        }
        span = scan.span()?;
    }
}

pub(super) fn check_name(len: usize, limits: &Limits) -> Result<(), MapError> {
    match len <= limits.name {
        true => Ok(()),
        false => Err(MapError::TooLarge { limit: Limit::Name, max: limits.name as u64 }),
    }
}
