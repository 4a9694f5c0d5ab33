//! Common parts of node maps and process maps: the method in front, and ranges of numbers.
use super::{Form, Limit, Limits, MapError};

/// A list of map elements, stripped of its method, and where we are in it.
pub(super) struct Scan<'a> {
    text: &'a [u8],
    /// Offset of `text` in the expression, for error messages.
    base: usize,
    at: usize,
    /// The form in which all of it is written so far, if we would have written it so.
    form: Option<Form>,
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
        let (text, base, form) = if text.starts_with(b"blob:") {
            return Err(MapError::Method { method: "blob" });
        } else if let Some(rest) = text.strip_prefix(b"raw:") {
            (rest, 4, Form::Raw)
        } else if let Some(rest) = text.strip_prefix(b"pmix[") {
            let end = text.len();
            let rest = rest.strip_suffix(b"]").ok_or(MapError::Syntax { what: "no ] to match `pmix[`", at: end })?;
            (rest, 5, Form::Bracket)
        } else if let Some(rest) = text.strip_prefix(b"pmix:") {
            match rest.strip_prefix(b"\0") {
                Some(rest) => (rest, 6, Form::Colon),
                None => (rest, 5, Form::Colon),
            }
        } else {
            (text, 0, Form::Plain)
        };
        let whole = base + text.len() + form.closing().len() == expression.len() && base == form.opening().len();
        let scan = Self { text, base, at: 0, form: whole.then_some(form) };
        // A search for any NUL is faster than one for its place.
        match text.contains(&0).then(|| text.iter().position(|byte| *byte == 0)).flatten() {
            Some(at) => Err(Self { at, ..scan }.wrong("a NUL")),
            None => Ok(scan),
        }
    }

    /// The form of an expression that has been gone through, if numbers and ranges are written in it as we write them.
    pub fn form(&self) -> Option<Form> {
        self.form
    }

    /// Notes that the text just read would not have been written so by us.
    pub fn is_odd(&mut self) {
        self.form = None;
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Steps over `byte` if it comes next.
    #[inline]
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

    /// Numbers of few digits each, without zeroes in front, as long as each is seen to be alone and there is room for
    /// it: how many, and whether a `;` comes next. A comma is between them; one behind the last is stepped over, too.
    #[inline]
    pub fn short_numbers(&mut self, to: &mut [u32]) -> (usize, bool) {
        let (mut count, mut at) = (0, self.at);
        for number in to {
            let Some((value, end, separator)) = self.short_number(at) else { break };
            (*number, count) = (value, count + 1);
            if separator == b';' {
                self.at = end;
                return (count, true);
            }
            at = end + 1;
        }
        self.at = at;
        (count, false)
    }

    /// Reads such numbers, each of which has a `;` behind it that is stepped over.
    #[inline]
    pub fn lone_numbers(&mut self, to: &mut [u32]) -> usize {
        let (mut count, mut at) = (0, self.at);
        for number in to {
            let Some((value, end, b';')) = self.short_number(at) else { break };
            (*number, count, at) = (value, count + 1, end + 1);
        }
        self.at = at;
        count
    }

    /// A number, where it ends, and what is there.
    #[inline(always)]
    fn short_number(&self, at: usize) -> Option<(u32, usize, u8)> {
        let eight = self.text.get(at..)?.first_chunk::<8>()?;
        let (value, width) = up_to_seven_digits(u64::from_le_bytes(*eight))?;
        let separator = eight[width];
        let known = matches!(separator, b',' | b';') && (eight[0] != b'0' || width == 1);
        known.then_some((value, at + width, separator))
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
        if width > 1 && rest[0] == b'0' {
            self.is_odd();
        }
        self.at += width;
        Ok((value, width))
    }

    /// `7` or `7-9`.
    pub fn span(&mut self) -> Result<Span, MapError> {
        let (first, width) = self.number()?;
        if !self.take(b'-') {
            return Ok(Span { first, last: first, width });
        }
        let (last, _) = self.number()?;
        if last < first {
            return Err(self.wrong("a range that runs backwards"));
        }
        if last == first {
            self.is_odd();
        }
        Ok(Span { first, last, width })
    }
}

/// The number at the beginning of eight bytes, the first in the lowest, and its digits; `None` if there
/// are none, or nothing else.
#[inline(always)]
fn up_to_seven_digits(bytes: u64) -> Option<(u32, usize)> {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    // Digits become what they stand for, everything else more than 9; the lowest such byte has no carry from below.
    let digits = bytes ^ (EACH * 0x30);
    let others = (digits.wrapping_add(EACH * 0x76) | digits) & (EACH * 0x80);
    let width = others.trailing_zeros() / 8;
    if !(1..=7).contains(&width) {
        return None;
    }
    // As eight digits with zeroes in front: first pairs of them, then fours, then all.
    let digits = digits << (64 - 8 * width);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (high, low) = (pairs & 0xff_0000_00ff, pairs >> 16 & 0xff_0000_00ff);
    let all = high.wrapping_mul(100 + (1_000_000 << 32)).wrapping_add(low.wrapping_mul(1 + (10_000 << 32)));
    Some(((all >> 32) as u32, width as usize))
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
        Self::write_digits(number, self.width, to);
    }

    /// Writes a number with leading zeros up to a width.
    pub fn write_digits(number: u64, width: usize, to: &mut Vec<u8>) {
        let from = to.len();
        let mut rest = number;
        while rest > 0 || to.len() < from + width.max(1) {
            to.push(b'0' + (rest % 10) as u8);
            rest /= 10;
        }
        to[from..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_are_read() {
        for digits in 0..=MAX_DIGITS + 1 {
            for end in ["", ",", ";", "-", "/", ":", "\u{ff}", "-1,2,3,4,5", ",2,3,4,5,6", ";\u{b0}2345678"] {
                let text = format!("{}{end}", &"9070605040302010123"[..digits]);
                let scan = || Scan::open(text.as_bytes(), &Limits::default()).unwrap();
                let mut one = scan();
                match one.number() {
                    Ok((value, width)) => {
                        assert_eq!((value, width), (text[..digits].parse().unwrap(), digits), "{text}");
                        assert_eq!(one.at, digits);
                    }
                    Err(_) => assert!(digits == 0 || digits > MAX_DIGITS, "{text}"),
                }
                let (mut other, mut to) = (scan(), [0]);
                let alone = matches!(end.as_bytes(), [b',' | b';', ..]) && text.len() >= 8 && (1..=7).contains(&digits);
                let ends = end.starts_with(';');
                let expected = if alone { (1, ends) } else { (0, false) };
                assert_eq!(other.short_numbers(&mut to), expected, "{text}");
                assert_eq!(other.at, if alone { digits + usize::from(!ends) } else { 0 }, "{text}");
                assert!(!alone || Ok(to[0]) == text[..digits].parse::<u32>(), "{text}");
            }
        }
        let mut scan = Scan::open(b"1,22,0,4444444,5-6,7,8,9;10,11,12;13,1", &Limits::default()).unwrap();
        let mut to = [0; 3];
        assert_eq!((scan.short_numbers(&mut to), to), ((3, false), [1, 22, 0]));
        assert_eq!((scan.short_numbers(&mut to), to[0]), ((1, false), 4_444_444));
        assert_eq!((scan.short_numbers(&mut to), scan.span().unwrap().last), ((0, false), 6));
        assert!(scan.take(b','));
        assert_eq!((scan.short_numbers(&mut to), to), ((3, true), [7, 8, 9]));
        assert!(scan.take(b';'));
        assert_eq!(
            (scan.short_numbers(&mut to), to),
            ((2, false), [10, 11, 9]),
            "too near to the end to be seen at once"
        );
        let mut scan = Scan::open(b"1;22;3,4;0;01;5-6;1", &Limits::default()).unwrap();
        let mut to = [0; 3];
        assert_eq!((scan.lone_numbers(&mut to), to[1], scan.at), (2, 22, 5));
        assert_eq!((scan.lone_numbers(&mut to), scan.short_numbers(&mut to)), (0, (2, true)));
        assert!(scan.take(b';'));
        assert_eq!((scan.lone_numbers(&mut to), scan.number()), (1, Ok((1, 2))));
        for zeroes in 1..=9 {
            let text = format!("{}7,,,,,,,", "0".repeat(zeroes));
            let mut scan = Scan::open(text.as_bytes(), &Limits::default()).unwrap();
            assert_eq!(scan.short_numbers(&mut [0; 3]), (0, false));
            assert_eq!(scan.number().unwrap(), (7, zeroes + 1));
            assert_eq!(scan.form(), None, "we write no zeroes in front");
        }
    }
}
