//! What a host says of its processes, while it says it.
//!
//! A host names the same keys for one process after the other. So values are gathered by key and type, as numbers: of a scalar its
//! bits, of a string its index among all strings that were met, of anything else its index among values that are kept as they
//! came. What becomes of them, column or record, is decided when all is said.
use std::borrow::Cow;
use std::collections::HashMap;

use instanton_layout::hash::hash;

use super::encode::{self, Encoded, scalar_value};
use super::nodes::Nodes;
use super::numbered::Numbered;
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

/// Strings, each once; the number of a NULL is one as well.
#[derive(Debug, Default, Clone)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    /// Where each lies; none of a NULL.
    places: Vec<Option<(usize, usize)>>,
    by_hash: Numbered,
}

impl Strings {
    pub(super) fn get(&self, number: u64) -> Option<&[u8]> {
        let (from, to) = (*self.places.get(number as usize)?)?;
        Some(&self.bytes[from..to])
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn number(&mut self, text: Option<&[u8]>) -> u64 {
        let half = text.map_or(0, |text| (hash(text) >> 32) as u32);
        if let Some(number) = self.by_hash.find(half, |number| self.get(number.into()) == text) {
            return number.into();
        }
        let number = self.places.len() as u32;
        self.by_hash.enter(half, number);
        let from = self.bytes.len();
        self.places.push(text.map(|text| {
            self.bytes.extend_from_slice(text);
            (from, self.bytes.len())
        }));
        number.into()
    }
}

/// Numbers, in 32 bits each as long as that does.
#[derive(Debug, Clone)]
pub(super) enum Numbers {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Narrow(Vec::new())
    }
}

impl Numbers {
    #[inline]
    fn push(&mut self, number: u64) {
        match (&mut *self, u32::try_from(number)) {
            (Numbers::Narrow(numbers), Ok(number)) => numbers.push(number),
            (Numbers::Wide(numbers), _) => numbers.push(number),
            (Numbers::Narrow(numbers), Err(_)) => {
                let mut wide: Vec<u64> = numbers.iter().copied().map(u64::from).collect();
                wide.push(number);
                *self = Numbers::Wide(wide);
            }
        }
    }

    fn pop(&mut self) {
        match self {
            Numbers::Narrow(numbers) => drop(numbers.pop()),
            Numbers::Wide(numbers) => drop(numbers.pop()),
        }
    }

    pub(super) fn get(&self, at: usize) -> u64 {
        match self {
            Numbers::Narrow(numbers) => numbers[at].into(),
            Numbers::Wide(numbers) => numbers[at],
        }
    }
}

/// What the numbers of a key stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalars(DataType),
    Strings,
    /// Indexes of nodes, whose names these are as strings.
    Nodes,
    Others,
}

/// Values of one key and kind, as they come.
#[derive(Debug, Clone)]
struct Pile {
    kind: Kind,
    /// Ranks in a row that were spoken of one after the other: first rank, number of what spoke of it, how many.
    runs: Vec<(u32, u32, u32)>,
    numbers: Numbers,
}

impl Pile {
    fn ends_with(&self, rank: u32, speech: u32) -> bool {
        self.runs.last().is_some_and(|(first, begin, len)| (first + (len - 1), begin + (len - 1)) == (rank, speech))
    }

    /// Lengthens the last run by a rank, if that follows it.
    #[inline(always)]
    fn goes_on_with(&mut self, rank: u32, speech: u32) -> bool {
        match self.runs.last_mut() {
            Some((first, begin, len)) if (*first + *len, *begin + *len) == (rank, speech) => {
                *len += 1;
                true
            }
            _ => false,
        }
    }

    fn push(&mut self, rank: u32, speech: u32, number: u64) {
        if !self.goes_on_with(rank, speech) {
            self.runs.push((rank, speech, 1));
        }
        self.numbers.push(number);
    }

    fn pop(&mut self) {
        if let Some((.., len)) = self.runs.last_mut() {
            *len -= 1;
            if *len == 0 {
                self.runs.pop();
            }
            self.numbers.pop();
        }
    }

    fn is_sorted(&self) -> bool {
        self.runs.windows(2).all(|two| two[0].0 + two[0].2 <= two[1].0)
    }
}

/// Values of one key and kind, each of another rank, in the order of ranks.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) key: Key,
    pub(super) kind: Kind,
    /// Ranks: the first of some in a row, and how many.
    pub(super) pieces: Vec<(u32, u32)>,
    pub(super) numbers: Numbers,
}

impl Values {
    fn new(key: &Key, kind: Kind) -> Self {
        Self { key: key.clone(), kind, pieces: Vec::new(), numbers: Numbers::default() }
    }

    /// The names of nodes as strings.
    pub(super) fn spelled(self, nodes: &Nodes, strings: &mut Strings) -> Self {
        let mut spelled = Self::new(&self.key, Kind::Strings);
        for (rank, node) in self.iter() {
            spelled.push(rank, strings.number(nodes.name(node as u32).as_deref()));
        }
        spelled
    }

    fn push(&mut self, rank: u32, number: u64) {
        match self.pieces.last_mut() {
            Some((first, len)) if *first + *len == rank => *len += 1,
            _ => self.pieces.push((rank, 1)),
        }
        self.numbers.push(number);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let ranks = self.pieces.iter().flat_map(|(first, len)| *first..*first + *len);
        ranks.enumerate().map(|(at, rank)| (rank, self.numbers.get(at)))
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(|(_, len)| *len as usize).sum()
    }

    /// The same without those that `drop` agrees to.
    pub(super) fn without(self, mut drop: impl FnMut(u32, u64) -> bool) -> Self {
        let Some(first_kept) = self.iter().position(|(rank, number)| !drop(rank, number)) else {
            return Self::new(&self.key, self.kind);
        };
        let mut kept = Self::new(&self.key, self.kind);
        for (at, (rank, number)) in self.iter().enumerate().skip(first_kept) {
            if at == first_kept || !drop(rank, number) {
                kept.push(rank, number);
            }
        }
        kept
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
    pub(super) strings: Strings,
    pub(super) others: Vec<Value>,
    speeches: u32,
    /// One more than the highest rank.
    pub(super) ranks: u32,
}

impl Gather {
    /// Begins to take in what is said of a process; these nodes are known so far.
    pub(super) fn speak_of<'a>(&'a mut self, rank: u32, nodes: &'a Nodes) -> Speech<'a> {
        self.ranks = self.ranks.max(rank + 1);
        self.speeches += 1;
        Speech { gather: self, nodes, rank, nth: 0 }
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
            match datum {
                Datum::Scalar(ty, bits) => speech.scalar(place, ty, bits),
                Datum::Text(text) => speech.text(place, text),
                Datum::Other(value) => speech.other(place, value),
            }
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
        let mut pile = Pile { kind, runs: Vec::new(), numbers: Numbers::default() };
        values.for_each(|value| pile.numbers.push(value));
        let len = match &pile.numbers {
            Numbers::Narrow(numbers) => numbers.len(),
            Numbers::Wide(numbers) => numbers.len(),
        } as u32;
        if len > 0 {
            pile.runs.push((0, 1, len));
            self.ranks = self.ranks.max(len);
            match self.by_key.get(key.as_bytes()) {
                Some(at) => self.keys[*at].1 = vec![pile],
                None => {
                    self.keys.push((key.clone(), vec![pile]));
                    self.add_key(key.as_bytes());
                }
            }
            self.speeches = self.speeches.max(len);
        }
    }

    pub(super) fn text_number(&mut self, text: Option<&[u8]>) -> u64 {
        self.strings.number(text)
    }

    /// The values of each key, of what was said last of each rank.
    pub(super) fn finish(&mut self) -> Vec<Values> {
        let mut all = Vec::new();
        for (key, piles) in std::mem::take(&mut self.keys) {
            match &piles[..] {
                [only] if only.is_sorted() => {}
                _ => {
                    all.extend(last_words(&key, &piles));
                    continue;
                }
            }
            for Pile { kind, runs, numbers } in piles {
                let mut pieces: Vec<(u32, u32)> = Vec::with_capacity(runs.len());
                for (first, _, len) in runs {
                    match pieces.last_mut() {
                        Some((before, count)) if *before + *count == first => *count += len,
                        _ => pieces.push((first, len)),
                    }
                }
                all.push(Values { key: key.clone(), kind, pieces, numbers });
            }
        }
        self.by_key.clear();
        all
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
/// # let writer = JobWriter::create(&nspace, &job.build()?, &Limits::default())?;
/// # assert_eq!(writer.reader().get(&Lookup::new(Rank(3), "my.port"))?, Value::Uint16(5003));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Speech<'a> {
    gather: &'a mut Gather,
    nodes: &'a Nodes,
    rank: u32,
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

    /// A string without its NUL; `None` is a NULL.
    #[inline]
    pub fn text(&mut self, place: Place, text: Option<&[u8]>) {
        // There may be as many names as ranks, and mostly they are those of the node map.
        if self.gather.host_name == Some(place.0)
            && let Some(node) = text.and_then(|name| self.nodes.find(name))
        {
            return self.push(place, Kind::Nodes, node.into());
        }
        let number = self.gather.strings.number(text);
        self.push(place, Kind::Strings, number);
    }

    /// Anything else.
    #[cold]
    pub fn other(&mut self, place: Place, value: Cow<'_, Value>) {
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
        let (rank, speech, piles) = (self.rank, self.gather.speeches, &mut self.gather.keys[at].1);
        if let [pile] = &mut piles[..]
            && pile.kind == kind
            && pile.goes_on_with(rank, speech)
        {
            return pile.numbers.push(number);
        }
        push_to(piles, kind, rank, speech, number);
    }
}

/// Adds a value, whatever was said before.
#[inline(never)]
fn push_to(piles: &mut Vec<Pile>, kind: Kind, rank: u32, speech: u32, number: u64) {
    // The second value of a key overwrites the first.
    piles.iter_mut().filter(|pile| pile.ends_with(rank, speech)).for_each(Pile::pop);
    let pile = match piles.iter().position(|pile| pile.kind == kind) {
        Some(pile) => &mut piles[pile],
        None => {
            piles.push(Pile { kind, runs: Vec::new(), numbers: Numbers::default() });
            piles.last_mut().expect("pushed just now")
        }
    };
    pile.push(rank, speech, number);
}

/// What was said last of each rank, from piles of several kinds or in any order.
fn last_words(key: &Key, piles: &[Pile]) -> Vec<Values> {
    let mut said = Vec::new();
    for (nth, pile) in piles.iter().enumerate() {
        let mut at = 0;
        for (first, speech, len) in &pile.runs {
            for i in 0..*len {
                said.push((first + i, speech + i, nth, at));
                at += 1;
            }
        }
    }
    said.sort_unstable();
    let mut values: Vec<Values> = piles.iter().map(|pile| Values::new(key, pile.kind)).collect();
    for (i, (rank, _, nth, at)) in said.iter().enumerate() {
        if said.get(i + 1).is_none_or(|next| next.0 != *rank) {
            values[*nth].push(*rank, piles[*nth].numbers.get(*at));
        }
    }
    values.retain(|values| !values.pieces.is_empty());
    values
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
