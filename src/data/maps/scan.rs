//! What node maps and process maps have in common: the method in front, and ranges of numbers.
use super::{Limit, Limits, MapError};

/// A list of map elements, stripped of its method, and where we are in it.
pub(super) struct Scan<'a> {
    text: &'a [u8],
    /// Offset of `text` in the expression, for error messages.
    base: usize,
    at: usize,
}

/// `first` to `last`, both included, each written with leading zeros up to `width` digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub first: u64,
    pub last: u64,
    pub width: usize,
}

/// Most digits of a number; with more it would not fit.
pub(super) const MAX_DIGITS: usize = 18;

impl<'a> Scan<'a> {
    /// Takes the method off an expression. One that starts with no known method is a plain list.
    pub fn open(expression: &'a [u8], limits: &Limits) -> Result<Self, MapError> {
        if expression.len() > limits.text {
            return Err(MapError::TooLarge { limit: Limit::Text, max: limits.text as u64 });
        }
        // C programs may count the NUL that ends a string, or put one behind the method.
        let text = expression.strip_suffix(b"\0").unwrap_or(expression);
        let (text, base) = if text.starts_with(b"blob:") {
            return Err(MapError::Method { method: "blob" });
        } else if let Some(rest) = text.strip_prefix(b"raw:") {
            (rest, 4)
        } else if let Some(rest) = text.strip_prefix(b"pmix[") {
            let end = text.len();
            (rest.strip_suffix(b"]").ok_or(MapError::Syntax { what: "no ] to match `pmix[`", at: end })?, 5)
        } else if let Some(rest) = text.strip_prefix(b"pmix:") {
            match rest.strip_prefix(b"\0") {
                Some(rest) => (rest, 6),
                None => (rest, 5),
            }
        } else {
            (text, 0)
        };
        let scan = Self { text, base, at: 0 };
        // Whether there is one at all is faster to say than where.
        match text.contains(&0).then(|| text.iter().position(|byte| *byte == 0)).flatten() {
            Some(at) => Err(Self { at, ..scan }.wrong("a NUL")),
            None => Ok(scan),
        }
    }

    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Steps over `byte` if it comes next.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Everything up to one of `ends`, or to the end.
    pub fn until(&mut self, ends: &[u8]) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| ends.contains(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    pub fn wrong(&self, what: &'static str) -> MapError {
        MapError::Syntax { what, at: self.base + self.at }
    }

    /// A number, and how many digits it was written with.
    pub fn number(&mut self) -> Result<(u64, usize), MapError> {
        let rest = &self.text[self.at..];
        let (mut value, mut width) = (0u64, 0);
        while let Some(digit) = rest.get(width).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            (value, width) = (value.wrapping_mul(10).wrapping_add(digit.into()), width + 1);
        }
        if width == 0 {
            return Err(self.wrong("something where a number belongs"));
        }
        if width > MAX_DIGITS {
            return Err(self.wrong("a number of too many digits"));
        }
        self.at += width;
        Ok((value, width))
    }

    /// `7` or `7-9`.
    pub fn span(&mut self) -> Result<Span, MapError> {
        let (first, width) = self.number()?;
        let last = if self.take(b'-') { self.number()?.0 } else { first };
        if last < first {
            return Err(self.wrong("a range that runs backwards"));
        }
        Ok(Span { first, last, width })
    }
}

impl Span {
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Digits of the longest number.
    pub fn digits(&self) -> usize {
        self.width.max(self.last.checked_ilog10().unwrap_or(0) as usize + 1)
    }

    /// Writes a number with leading zeros up to the width of this span.
    pub fn write(&self, number: u64, to: &mut Vec<u8>) {
        let from = to.len();
        let mut rest = number;
        while rest > 0 || to.len() < from + self.width.max(1) {
            to.push(b'0' + (rest % 10) as u8);
            rest /= 10;
        }
        to[from..].reverse();
    }
}
