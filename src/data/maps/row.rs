//! A row of names in an expression: one name, or names that differ in a number which counts up.
use super::scan::Span;

/// Names that follow one another in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRow<'a> {
    One(&'a [u8]),
    /// The numbers from `first` to `last`, with zeroes in front up to `width` digits, between two texts.
    Counted {
        before: &'a [u8],
        after: &'a [u8],
        first: u64,
        last: u64,
        width: usize,
    },
}

impl<'a> NameRow<'a> {
    /// The names that a span of numbers makes between two texts.
    pub(super) fn of(span: Span, before: &'a [u8], after: &'a [u8]) -> Self {
        let Span { first, last, width } = span;
        NameRow::Counted { before, after, first, last, width }
    }
}
