//! Texts that say which ranks are where, written when they are read.
use std::mem::MaybeUninit;

use instanton_layout::Malformed;
use instanton_layout::info::{Names, Partition};
use instanton_layout::words::Words;

use crate::data::maps::Form;

/// Where a text goes.
pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    /// The same for the first `len` of 16 bytes, which is faster.
    #[inline]
    fn put_short(&mut self, bytes: &[u8; 16], len: usize) {
        self.put(&bytes[..len]);
    }

    /// The decimal numbers from `first` on, each with a comma in front.
    fn put_numbers(&mut self, first: u32, count: u32) {
        let mut text = Decimal::new(first);
        for nth in 0..count {
            if nth > 0 {
                text.next();
            }
            self.put_short(&text.text, text.len);
        }
    }
}

/// How long it is.
#[derive(Default)]
pub(super) struct Count(pub(super) usize);

impl Sink for Count {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn put_numbers(&mut self, first: u32, count: u32) {
        let (mut from, end) = (u64::from(first), u64::from(first) + u64::from(count));
        while from < end {
            let digits = from.checked_ilog10().unwrap_or(0) + 1;
            let to = end.min(10u64.pow(digits));
            self.0 += (to - from) as usize * (digits as usize + 1);
            from = to;
        }
    }
}

/// Into memory; what is behind its end is left out.
pub(super) struct Fill<'a> {
    pub(super) to: &'a mut [MaybeUninit<u8>],
    pub(super) at: usize,
}

impl Sink for Fill<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let to = &mut self.to[self.at..];
        to.iter_mut().zip(bytes).for_each(|(to, byte)| {
            to.write(*byte);
        });
        self.at += bytes.len().min(to.len());
    }

    #[inline]
    fn put_short(&mut self, bytes: &[u8; 16], len: usize) {
        match self.to[self.at..].first_chunk_mut() {
            Some(to) => {
                *to = bytes.map(MaybeUninit::new);
                self.at += len;
            }
            None => self.put(&bytes[..len]),
        }
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Whether it is the same as another text.
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

/// A number in decimal digits, which counts up, behind a comma.
struct Decimal {
    text: [u8; 16],
    len: usize,
}

impl Decimal {
    #[inline]
    fn new(number: u32) -> Self {
        // From the end on, and then to the front all at once.
        let mut text = [0; 16];
        let (mut at, mut rest) = (text.len(), number);
        loop {
            at -= 1;
            (text[at], rest) = (b'0' + (rest % 10) as u8, rest / 10);
            if rest == 0 {
                break;
            }
        }
        text[at - 1] = b',';
        let len = text.len() + 1 - at;
        Self { text: (u128::from_le_bytes(text) >> (8 * (16 - len))).to_le_bytes(), len }
    }

    #[inline]
    fn next(&mut self) {
        for at in (1..self.len).rev() {
            if self.text[at] < b'9' {
                self.text[at] += 1;
                return;
            }
            self.text[at] = b'0';
        }
        self.text[1] = b'1';
        self.text[self.len] = b'0';
        self.len += 1;
    }
}

/// Leaves out the comma in front of the first thing that is put.
struct List<'a, S> {
    sink: &'a mut S,
    empty: bool,
}

impl<S: Sink> List<'_, S> {
    fn numbers(&mut self, first: u32, count: u32) {
        if count > 0 && std::mem::take(&mut self.empty) {
            let text = Decimal::new(first);
            self.sink.put(&text.text[1..text.len]);
            self.sink.put_numbers(first + 1, count - 1);
        } else {
            self.sink.put_numbers(first, count);
        }
    }
}

/// Ranks that follow one another.
pub(super) fn ranks_in_a_row(first: u32, count: u32, sink: &mut impl Sink) {
    List { sink, empty: true }.numbers(first, count);
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
            && partition.size(words, node)?.0 == 0
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

/// The ranks of each node: `PROC_MAP`. Nodes behind the last one that runs something have no element.
pub(super) fn proc_map<W: Words>(
    partition: &Partition,
    words: &W,
    nodes: u32,
    form: Form,
    sink: &mut impl Sink,
) -> Result<(), Malformed> {
    sink.put(match form {
        Form::Plain => b"",
        Form::Raw => b"raw:",
        Form::Bracket => b"pmix[",
        Form::Colon => b"pmix:",
    });
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
    if form == Form::Bracket {
        sink.put(b"]");
    }
    Ok(())
}

fn put_range<S: Sink>(list: &mut List<'_, S>, range: Option<(u32, u32)>) {
    let Some((first, count)) = range else { return };
    list.numbers(first, 1);
    if count > 1 {
        let mut text = Decimal::new(first + (count - 1));
        text.text[0] = b'-';
        list.sink.put_short(&text.text, text.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_and_written_alike() {
        for (first, count) in [(0, 0), (0, 1), (7, 5), (8, 200), (99_990, 20), (9_999_999, 2), (4_294_967_290, 4)] {
            let expected: String = (0..count).map(|n| format!(",{}", first + n)).collect();
            let mut counted = Count::default();
            counted.put_numbers(first, count);
            assert_eq!(counted.0, expected.len());
            let mut same = Compare::of(expected.as_bytes());
            same.put_numbers(first, count);
            assert!(same.is_same());
            for room in [0, expected.len() / 2, expected.len(), expected.len() + 50] {
                let mut to = vec![MaybeUninit::new(0); room];
                let mut fill = Fill { to: &mut to, at: 0 };
                fill.put_numbers(first, count);
                assert_eq!(fill.at, room.min(expected.len()));
            }
        }
    }
}
