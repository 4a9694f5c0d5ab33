//! What a host says of its processes, while it says it.
//!
//! A host names the same keys for one process after the other. So values are gathered by key and type, as numbers: of a scalar its
//! bits, of a string its index among all strings that were met, of anything else its index among values that are kept as they
//! came. What becomes of them, column or record, is decided when all is said.
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use super::encode::{self, Encoded, scalar_value};
use super::nodes::Nodes;
use super::numbers::Numbers;
use super::piles::{Kind, Pile, Speeches, Values};
use super::strings::Strings;
use crate::data::{BadBytes, DataType, Key, Text, Value, keys};

/// A value of a process as a host has it, borrowed.
#[derive(Debug, Clone)]
pub enum Datum<'a> {
    /// The little-endian bits of a value of at most 8 bytes, zero-extended, and its type.
    Scalar(DataType, u64),
    /// A STRING, without its NUL; `None` is a NULL.
    Text(Option<&'a [u8]>),
    /// Anything else.
    Other(Cow<'a, Value>),
}

impl<'a> From<&'a Value> for Datum<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Datum::Text(text.as_ref().map(Text::as_bytes)),
            other => match encode::scalar(other) {
                Some(bits) => Datum::Scalar(other.data_type(), bits),
                None => Datum::Other(Cow::Borrowed(other)),
            },
        }
    }
}

impl From<Value> for Datum<'_> {
    fn from(value: Value) -> Self {
        match encode::scalar(&value) {
            Some(bits) => Datum::Scalar(value.data_type(), bits),
            None => Datum::Other(Cow::Owned(value)),
        }
    }
}

impl Datum<'_> {
    /// Its type.
    pub fn data_type(&self) -> DataType {
        match self {
            Datum::Scalar(ty, _) => *ty,
            Datum::Text(_) => DataType::STRING,
            Datum::Other(value) => value.data_type(),
        }
    }

    /// The number it is, if it can be one of 32 bits.
    pub(super) fn as_u32(&self) -> Option<u32> {
        match self {
            Datum::Scalar(DataType::PROC_RANK | DataType::UINT32, bits) => Some(*bits as u32),
            Datum::Scalar(ty, bits) => scalar_value(*ty, *bits)?.as_u32(),
            Datum::Text(_) => None,
            Datum::Other(value) => value.as_u32(),
        }
    }
}

/// All that is said of processes.
#[derive(Debug, Default, Clone)]
pub(super) struct Gather {
    keys: Vec<(Key, Vec<Pile>)>,
    by_key: HashMap<Box<[u8]>, usize>,
    /// The keys of the process that was spoken of last: mostly the next one has the same.
    order: Vec<usize>,
    /// The place of the key that names each process's node.
    host_name: Option<usize>,
    /// The name and the node that were said last.
    last_host: (Vec<u8>, u32),
    pub(super) strings: Strings,
    pub(super) others: Vec<Value>,
    speeches: Speeches,
    /// One more than the highest rank.
    pub(super) ranks: u32,
}

impl Gather {
    /// Begins to take in what is said of a process; these nodes are known so far.
    pub(super) fn speak_of<'a>(&'a mut self, rank: u32, nodes: &'a Nodes) -> Speech<'a> {
        self.ranks = self.ranks.max(rank + 1);
        self.speeches.add(rank);
        Speech { gather: self, nodes, nth: 0 }
    }

    /// Takes in what is said of a process.
    pub(super) fn take<'a>(
        &mut self,
        rank: u32,
        nodes: &Nodes,
        values: impl Iterator<Item = (&'a [u8], Datum<'a>)>,
    ) -> Result<(), BadBytes> {
        let mut speech = self.speak_of(rank, nodes);
        for (key, datum) in values {
            let place = match speech.usual() {
                Some((place, usual)) if usual == key => place,
                _ => speech.place(key)?,
            };
            speech.datum(place, datum);
        }
        Ok(())
    }

    #[cold]
    fn key(&mut self, key: &[u8], nth: usize) -> Result<usize, BadBytes> {
        let at = match self.by_key.get(key) {
            Some(at) => *at,
            None => {
                self.keys.push((Key::new(key)?, Vec::new()));
                self.add_key(key)
            }
        };
        self.order.resize(self.order.len().max(nth + 1), at);
        self.order[nth] = at;
        Ok(at)
    }

    fn add_key(&mut self, key: &[u8]) -> usize {
        let at = self.keys.len() - 1;
        self.by_key.insert(key.into(), at);
        if key == keys::HOSTNAME.as_bytes() {
            self.host_name = Some(at);
        }
        at
    }

    /// Takes in the values of one key from rank 0 on, instead of what was said of that key before.
    pub(super) fn take_column(&mut self, key: &Key, kind: Kind, values: impl Iterator<Item = u64>) {
        let numbers: Numbers = values.collect();
        let len = numbers.len() as u32;
        if len > 0 {
            self.ranks = self.ranks.max(len);
            let piles = vec![Pile::of_row(kind, self.speeches.add_row(0, len), numbers)];
            match self.by_key.get(key.as_bytes()) {
                Some(at) => self.keys[*at].1 = piles,
                None => {
                    self.keys.push((key.clone(), piles));
                    self.add_key(key.as_bytes());
                }
            }
        }
    }

    pub(super) fn text_number(&mut self, text: Option<&[u8]>) -> u64 {
        self.strings.number(text)
    }

    /// The values of each key, of what was said last of each rank.
    pub(super) fn finish(&mut self) -> Vec<Values> {
        let (speeches, by_rank) = (std::mem::take(&mut self.speeches), OnceCell::new());
        let keys = std::mem::take(&mut self.keys).into_iter();
        self.by_key.clear();
        keys.flat_map(|(key, piles)| Values::of(key, piles, &speeches, || by_rank.get_or_init(|| speeches.by_rank())))
            .collect()
    }
}

/// What is said of one process, one value after the other.
///
/// ```
/// # use instanton::data::{DataType, Nspace, Rank, Value};
/// # use instanton::store::{JobInfoBuilder, JobWriter, Limits, Lookup};
/// # let nspace = Nspace::new("job")?;
/// let mut job = JobInfoBuilder::new(&nspace, 4, "node1");
/// for rank in 0..4 {
///     let Some(mut speech) = job.speak_of(rank)? else { break };
///     // Mostly it is the key that came here for the process before.
///     let port = match speech.usual() {
///         Some((place, b"my.port")) => place,
///         _ => speech.place(b"my.port")?,
///     };
///     speech.scalar(port, DataType::UINT16, 5000 + u64::from(rank));
/// }
/// # let writer = JobWriter::create(&nspace, job.build()?, &Limits::default())?;
/// # assert_eq!(writer.reader().get(&Lookup::new(Rank(3), "my.port"))?, Value::Uint16(5003));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Speech<'a> {
    gather: &'a mut Gather,
    nodes: &'a Nodes,
    /// How many values there were.
    nth: usize,
}

/// Where values of a key go.
#[derive(Debug, Clone, Copy)]
pub struct Place(usize);

impl Speech<'_> {
    /// The key that came at this point when another process was spoken of, and where its values go.
    #[inline]
    pub fn usual(&self) -> Option<(Place, &[u8])> {
        let at = *self.gather.order.get(self.nth)?;
        Some((Place(at), self.gather.keys[at].0.as_bytes()))
    }

    /// Where values of a key go that is not the usual one.
    ///
    /// # Errors
    /// [`BadBytes`] when it is no key.
    pub fn place(&mut self, key: &[u8]) -> Result<Place, BadBytes> {
        self.gather.key(key, self.nth).map(Place)
    }

    /// A value of at most 8 bytes, as its little-endian bits, zero-extended.
    #[inline]
    pub fn scalar(&mut self, place: Place, data_type: DataType, bits: u64) {
        self.push(place, Kind::Scalars(data_type), bits);
    }

    /// Any value.
    pub fn datum(&mut self, place: Place, datum: Datum<'_>) {
        match datum {
            Datum::Scalar(ty, bits) => self.scalar(place, ty, bits),
            Datum::Text(text) => self.text(place, text),
            Datum::Other(value) => self.other(place, value),
        }
    }

    /// A string without its NUL; `None` is a NULL.
    pub fn text(&mut self, place: Place, text: Option<&[u8]>) {
        // There may be as many names as ranks, and mostly they are those of the node map.
        let of_node = (self.gather.host_name == Some(place.0)).then_some(text).flatten();
        let node = of_node.and_then(|name| self.node(name));
        let (kind, number) = match (node, &self.gather.keys[place.0].1[..]) {
            (Some(node), _) => (Kind::Nodes, node.into()),
            (None, [Pile { kind: Kind::Strings, numbers, .. }]) => {
                (Kind::Strings, self.gather.strings.number_after(numbers.last(), text))
            }
            (None, _) => (Kind::Strings, self.gather.strings.number(text)),
        };
        self.push(place, kind, number);
    }

    /// The node with a name, mostly the one of the process before.
    #[inline]
    fn node(&mut self, name: &[u8]) -> Option<u32> {
        let (known, node) = &mut self.gather.last_host;
        if known != name || known.is_empty() {
            *node = self.nodes.find_near(*node, name)?;
            known.clear();
            known.extend_from_slice(name);
        }
        Some(*node)
    }

    /// Anything else.
    #[cold]
    fn other(&mut self, place: Place, value: Cow<'_, Value>) {
        match &*value {
            Value::String(text) => self.text(place, text.as_ref().map(Text::as_bytes)),
            _ => {
                self.gather.others.push(value.into_owned());
                self.push(place, Kind::Others, self.gather.others.len() as u64 - 1);
            }
        }
    }

    #[inline(always)]
    fn push(&mut self, Place(at): Place, kind: Kind, number: u64) {
        self.nth += 1;
        let (speech, piles) = (self.gather.speeches.count, &mut self.gather.keys[at].1);
        if let [pile] = &mut piles[..]
            && pile.goes_on_with(kind, speech)
        {
            return pile.numbers.push(number);
        }
        push_to(piles, kind, speech, number);
    }
}

/// Adds a value, whatever was said before.
#[inline(never)]
fn push_to(piles: &mut Vec<Pile>, kind: Kind, speech: u32, number: u64) {
    // The second value of a key overwrites the first.
    piles.iter_mut().filter(|pile| pile.ends_with(speech)).for_each(Pile::pop);
    let pile = match piles.iter().position(|pile| pile.kind == kind) {
        Some(pile) => &mut piles[pile],
        None => {
            piles.push(Pile::new(kind));
            piles.last_mut().expect("pushed just now")
        }
    };
    pile.push(speech, number);
}

/// A value that has a record to itself, or shares one with few others.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) rank: u32,
    pub(super) key: Key,
    pub(super) kind: Kind,
    pub(super) number: u64,
}

impl Leaf {
    /// It as a record takes it.
    pub(super) fn encode<'a>(
        &self,
        strings: &Strings,
        others: &'a [Value],
    ) -> Result<(DataType, Encoded<'a>), crate::data::archive::ArchiveError> {
        Ok(match self.kind {
            Kind::Scalars(ty) => (ty, Encoded::Scalar(self.number)),
            Kind::Strings | Kind::Nodes => {
                (DataType::STRING, strings.get(self.number).map_or(Encoded::Null, encode::with_nul))
            }
            Kind::Others => {
                let value = &others[self.number as usize];
                (value.data_type(), encode::encode(value)?)
            }
        })
    }
}
