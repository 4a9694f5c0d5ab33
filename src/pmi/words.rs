//! Words of a message: pairs of a name and a value, the command first. PMI-1 has a line of them with spaces between,
//! PMI-2 a frame with a semicolon behind each, after its length in six characters.
use std::borrow::Cow;

/// Longest line or frame, its end or its length included.
pub const LONGEST: usize = 64 << 10;
/// Most pairs of a message.
const MOST: usize = 4096;
/// Characters of a frame's length.
pub const LENGTH: usize = 6;

/// Bytes that are no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    #[error("a message that does not begin with a command")]
    Command,
    #[error("a message with a NUL")]
    Nul,
    #[error("a message of more than {MOST} pairs")]
    Many,
    #[error("a frame that does not begin with its length")]
    Length,
}

/// The pairs of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Words<'a>(Vec<(&'a [u8], Cow<'a, [u8]>)>);

impl<'a> Words<'a> {
    /// Reads a line of PMI-1, without its end. A word without a name belongs to the value before it, and a space behind a
    /// backslash ends no value.
    ///
    /// # Errors
    /// [`BadWords`] says what is wrong.
    pub fn of_line(line: &'a [u8]) -> Result<Self, BadWords> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (mut pairs, mut rest) = (Vec::new(), line);
        while !rest.is_empty() {
            let end = (0..rest.len()).find(|&at| rest[at] == b' ' && (at == 0 || rest[at - 1] != b'\\'));
            let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
            match word.iter().position(|byte| *byte == b'=') {
                Some(at) => pairs.push((&word[..at], Cow::Borrowed(&word[at + 1..]))),
                None if word.is_empty() => {}
                None => match pairs.last_mut() {
                    Some((_, value)) => value.to_mut().extend([b" ", word].concat()),
                    None => return Err(BadWords::Command),
                },
            }
            rest = behind.get(1..).unwrap_or_default();
        }
        Self::checked(pairs, line)
    }

    /// Reads the body of a frame of PMI-2. A doubled semicolon belongs to a value.
    ///
    /// # Errors
    /// As [`of_line`](Self::of_line).
    pub fn of_frame(body: &'a [u8]) -> Result<Self, BadWords> {
        let (mut pairs, mut rest) = (Vec::new(), body);
        while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
            let name = &rest[..at];
            rest = &rest[at + 1..];
            let mut value = Cow::Borrowed(&rest[..0]);
            loop {
                let end = rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
                match value.is_empty() {
                    true => value = Cow::Borrowed(&rest[..end]),
                    false => value.to_mut().extend(&rest[..end]),
                }
                rest = rest.get(end + 1..).unwrap_or_default();
                let Some(behind) = rest.strip_prefix(b";") else { break };
                value.to_mut().push(b';');
                rest = behind;
            }
            pairs.push((name, value));
            if pairs.len() > MOST {
                return Err(BadWords::Many);
            }
        }
        Self::checked(pairs, body)
    }

    fn checked(pairs: Vec<(&'a [u8], Cow<'a, [u8]>)>, bytes: &[u8]) -> Result<Self, BadWords> {
        if bytes.contains(&0) {
            return Err(BadWords::Nul);
        }
        match pairs.first() {
            _ if pairs.len() > MOST => Err(BadWords::Many),
            Some((b"cmd", _)) => Ok(Self(pairs)),
            _ => Err(BadWords::Command),
        }
    }

    /// The command.
    pub fn command(&self) -> &[u8] {
        &self.0[0].1
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| &**value)
    }

    /// The first value of that name, as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        number(self.get(name)?)
    }

    /// All pairs behind the command.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().skip(1).map(|(name, value)| (*name, &**value))
    }
}

/// Reads a number.
pub fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// Makes a line of PMI-1, with its end.
pub fn line(pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let words: Vec<Vec<u8>> = pairs.iter().map(|(name, value)| [name.as_bytes(), b"=", value].concat()).collect();
    let mut line = words.join(&b' ');
    line.push(b'\n');
    line
}

/// Makes a frame of PMI-2, with its length. Semicolons are doubled.
pub fn frame(pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in pairs {
        body.extend_from_slice(name.as_bytes());
        body.push(b'=');
        value.iter().for_each(|byte| body.extend(std::iter::repeat_n(*byte, if *byte == b';' { 2 } else { 1 })));
        body.push(b';');
    }
    let mut frame = format!("{:>LENGTH$}", body.len()).into_bytes();
    frame.append(&mut body);
    frame
}

/// Reads the length of a frame, as it stands in front of it.
///
/// # Errors
/// [`BadWords::Length`] for what is none, or longer than [`LONGEST`].
pub fn length(head: &[u8; LENGTH]) -> Result<usize, BadWords> {
    let len = number(head).and_then(|len| usize::try_from(len).ok());
    len.filter(|len| LENGTH + len <= LONGEST).ok_or(BadWords::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was() {
        let made = line(&[("cmd", b"put"), ("key", b"a"), ("value", b"b=c\\ d$#")]);
        assert_eq!(made, b"cmd=put key=a value=b=c\\ d$#\n");
        let words = Words::of_line(&made[..made.len() - 1]).unwrap();
        assert_eq!((words.command(), words.get("value")), (&b"put"[..], Some(&b"b=c\\ d$#"[..])));
        let words = Words::of_line(b"cmd=abort  exitcode=3 message=the end\r").unwrap();
        assert_eq!((words.number("exitcode"), words.get("message")), (Some(3), Some(&b"the end"[..])));
    }

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let made = frame(&[("cmd", b"kvs-put"), ("key", b";a"), ("value", b"b;;=c; ")]);
        assert_eq!(made, b"    37cmd=kvs-put;key=;;a;value=b;;;;=c;; ;");
        let (head, body) = made.split_first_chunk().unwrap();
        assert_eq!(length(head), Ok(body.len()));
        let words = Words::of_frame(body).unwrap();
        assert_eq!((words.get("key"), words.get("value")), (Some(&b";a"[..]), Some(&b"b;;=c; "[..])));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (bad, error) in [
            (&b"put key=a"[..], BadWords::Command),
            (b"", BadWords::Command),
            (b"key=a cmd=put", BadWords::Command),
            (b"cmd=put key=\0", BadWords::Nul),
        ] {
            assert_eq!(Words::of_line(bad), Err(error), "{bad:?}");
        }
        let many = [&b"cmd=a"[..], &b" b=c".repeat(MOST)].concat();
        assert_eq!(Words::of_line(&many), Err(BadWords::Many));
        assert_eq!(
            Words::of_frame(&many.iter().map(|b| if *b == b' ' { b';' } else { *b }).collect::<Vec<_>>()),
            Err(BadWords::Many)
        );
        for bad in [b"  -1  ", b"abcdef", b"999999", b"      "] {
            assert_eq!(length(bad), Err(BadWords::Length));
        }
    }
}
