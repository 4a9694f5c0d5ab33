//! Values of processes, written to column builders as the host gives them.
//!
//! A host names the same keys for one process after the other. So each key has a column builder for every type of its
//! values, and a value is a number in it: of a scalar its bits, of a string its index in the interner, of anything else
//! its index among the values that are kept as they came. The column planner decides at the end which columns stay and
//! which values go to records.
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use super::column_builder::{ColumnBuilder, Kind, Rows, Values};
use super::interner::Interner;
use super::nodes::Nodes;
use super::packed_ints::PackedInts;
use crate::data::archive::ArchiveError;
use crate::data::{BadBytes, DataType, Key, Text, Value, keys};
use crate::store::codec::largest_scalar;
use crate::store::datum::{Datum, check_scalar, check_text};
use crate::store::error::BadJobInfo;
use crate::store::ids::MAX_RANKS;

/// The column builders of all keys, and which rank each of their rows is about.
#[derive(Debug, Default, Clone)]
pub(super) struct Ingest {
    keys: Vec<(Key, Vec<ColumnBuilder>)>,
    by_key: HashMap<Box<[u8]>, usize>,
    /// The keys of the last process, in order: mostly the next one has the same.
    order: Vec<usize>,
    /// The index of the key that names the node of each process.
    host_name: Option<usize>,
    /// The last name of a node, and its index.
    last_host: (Vec<u8>, u32),
    pub(in crate::store) strings: Interner,
    pub(in crate::store) others: Vec<Value>,
    rows: Rows,
    /// One more than the highest rank.
    pub(in crate::store) ranks: u32,
}

impl Ingest {
    /// Begins a row about a process; `nodes` are those that are known so far.
    pub(super) fn proc_writer<'a>(&'a mut self, rank: u32, nodes: &'a Nodes) -> ProcWriter<'a> {
        self.ranks = self.ranks.max(rank + 1);
        self.rows.add(rank);
        ProcWriter { ingest: self, nodes, nth: 0 }
    }

    /// Writes a whole row about a process.
    pub(super) fn take<'a>(
        &mut self,
        rank: u32,
        nodes: &Nodes,
        values: impl Iterator<Item = (&'a [u8], Datum<'a>)>,
    ) -> Result<(), BadJobInfo> {
        let mut writer = self.proc_writer(rank, nodes);
        for (key, datum) in values {
            let slot = match writer.expected() {
                Some((slot, expected)) if expected == key => slot,
                _ => writer.slot(key)?,
            };
            if let Err(error) = writer.datum(slot, datum) {
                return Err(BadJobInfo::Value { key: self.keys[slot.0].0.clone(), rank, error });
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

    /// Takes the values of one key from rank 0 on, in place of all that this key had before.
    pub(super) fn take_column(
        &mut self,
        key: &Key,
        kind: Kind,
        values: impl Iterator<Item = u64>,
    ) -> Result<(), BadJobInfo> {
        let numbers: PackedInts = values.take(MAX_RANKS as usize + 1).collect();
        let len = numbers.len() as u32;
        if len > MAX_RANKS {
            return Err(BadJobInfo::Values { key: key.clone() });
        }
        if len > 0 {
            self.ranks = self.ranks.max(len);
            let columns = vec![ColumnBuilder::of_run(kind, self.rows.add_run(0, len), numbers)];
            match self.by_key.get(key.as_bytes()) {
                Some(at) => self.keys[*at].1 = columns,
                None => {
                    self.keys.push((key.clone(), columns));
                    self.add_key(key.as_bytes());
                }
            }
        }
        Ok(())
    }

    /// Looks whether all numbers and strings are values of their types, which those who wrote them were not asked.
    ///
    /// # Errors
    /// [`BadJobInfo::Value`] for the first that is not.
    #[inline(never)]
    pub(super) fn check(&self) -> Result<(), BadJobInfo> {
        let has_nul = self.strings.has_nul();
        let is_bad = |number| self.strings.get(number).is_some_and(|text| text.contains(&0));
        for (key, columns) in &self.keys {
            for column in columns {
                let bad = match column.kind {
                    Kind::Scalars(ty) => match largest_scalar(ty) {
                        Some(largest) => column.numbers.first_above(largest),
                        None => (column.numbers.len() > 0).then_some(0),
                    },
                    Kind::Strings if has_nul => column.numbers.iter().position(is_bad),
                    Kind::Strings | Kind::Nodes | Kind::Others => None,
                };
                let Some(at) = bad else { continue };
                let number = column.numbers.get(at);
                let checked = match column.kind {
                    Kind::Scalars(ty) => check_scalar(ty, number),
                    _ => check_text(self.strings.get(number).unwrap_or_default()),
                };
                let rank = column.rank(at, &self.rows);
                checked.map_err(|error| BadJobInfo::Value { key: key.clone(), rank, error })?;
            }
        }
        Ok(())
    }

    pub(super) fn text_number(&mut self, text: Option<&[u8]>) -> u64 {
        self.strings.number(text)
    }

    /// The values of each key by rank. Of several values for one rank the last counts.
    pub(super) fn finish(&mut self) -> Vec<Values> {
        let (rows, by_rank) = (std::mem::take(&mut self.rows), OnceCell::new());
        let keys = std::mem::take(&mut self.keys).into_iter();
        self.by_key.clear();
        keys.flat_map(|(key, columns)| Values::of(key, columns, &rows, || by_rank.get_or_init(|| rows.by_rank())))
            .collect()
    }
}

/// Writes the values of one process, one after the other.
///
/// ```
/// # use instanton::data::{DataType, Nspace, Rank, Value};
/// # use instanton::store::{JobInfoBuilder, JobWriter, Limits, Question};
/// # let nspace = Nspace::new("job")?;
/// let mut job = JobInfoBuilder::new(&nspace, 4, "node1");
/// for rank in 0..4 {
///     let Some(mut writer) = job.proc_writer(rank)? else { break };
///     // Mostly the key is the one that the process before had here.
///     let port = match writer.expected() {
///         Some((slot, b"my.port")) => slot,
///         _ => writer.slot(b"my.port")?,
///     };
///     writer.scalar(port, DataType::UINT16, 5000 + u64::from(rank));
/// }
/// # let writer = JobWriter::create(&nspace, job.build()?, &Limits::default())?;
/// # assert_eq!(writer.reader().get(&Question::new(Rank(3), "my.port"))?, Value::Uint16(5003));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ProcWriter<'a> {
    ingest: &'a mut Ingest,
    nodes: &'a Nodes,
    /// Values that were written so far.
    nth: usize,
}

/// The column builders of one key.
#[derive(Debug, Clone, Copy)]
pub struct KeySlot(usize);

impl ProcWriter<'_> {
    /// The key that the process before had at this point, and its slot.
    #[inline]
    pub fn expected(&self) -> Option<(KeySlot, &[u8])> {
        let at = *self.ingest.order.get(self.nth)?;
        Some((KeySlot(at), self.ingest.keys[at].0.as_bytes()))
    }

    /// The slot of a key other than the expected one.
    ///
    /// # Errors
    /// [`BadBytes`] when it is no key.
    pub fn slot(&mut self, key: &[u8]) -> Result<KeySlot, BadBytes> {
        self.ingest.key(key, self.nth).map(KeySlot)
    }

    /// Writes a value of at most 8 bytes, given as its little-endian bits, zero-extended. Where no value of the type
    /// has these, [`build`](super::JobInfoBuilder::build) says so.
    #[inline]
    pub fn scalar(&mut self, slot: KeySlot, data_type: DataType, bits: u64) {
        self.push(slot, Kind::Scalars(data_type), bits);
    }

    /// Writes any value. Where it is a number that no value of its type has, or a text with a NUL in it,
    /// [`build`](super::JobInfoBuilder::build) says so: it looks at all of them in one pass.
    ///
    /// # Errors
    /// [`ArchiveError`] for bytes of a type that is not made of bytes, and for what is nested more deeply than can be
    /// stored. Nothing is written then.
    pub fn datum(&mut self, slot: KeySlot, datum: Datum<'_>) -> Result<(), ArchiveError> {
        match datum {
            Datum::Scalar(ty, bits) => self.scalar(slot, ty, bits),
            Datum::Text(text) => self.text(slot, text),
            datum => {
                datum.check()?;
                match datum {
                    Datum::Other(value) => self.other(slot, value),
                    bytes => self.other(slot, Cow::Owned(bytes.to_value()?)),
                }
            }
        }
        Ok(())
    }

    /// Writes a string, given without its NUL; `None` is a NULL. Where there is one in it,
    /// [`build`](super::JobInfoBuilder::build) says so.
    pub fn text(&mut self, slot: KeySlot, text: Option<&[u8]>) {
        // There may be as many names as ranks, and mostly they are those of the node map.
        let of_node = (self.ingest.host_name == Some(slot.0)).then_some(text).flatten();
        let node = of_node.and_then(|name| self.node(name));
        let (kind, number) = match (node, &self.ingest.keys[slot.0].1[..]) {
            (Some(node), _) => (Kind::Nodes, node.into()),
            (None, [ColumnBuilder { kind: Kind::Strings, numbers, .. }]) => {
                (Kind::Strings, self.ingest.strings.number_after(numbers.last(), text))
            }
            (None, _) => (Kind::Strings, self.ingest.strings.number(text)),
        };
        self.push(slot, kind, number);
    }

    /// The node with a name, mostly the one of the process before.
    #[inline]
    fn node(&mut self, name: &[u8]) -> Option<u32> {
        let (known, node) = &mut self.ingest.last_host;
        if known != name || known.is_empty() {
            *node = self.nodes.find_near(*node, name)?;
            known.clear();
            known.extend_from_slice(name);
        }
        Some(*node)
    }

    /// Writes a value that is neither a scalar nor a string, and is kept as it is.
    #[cold]
    fn other(&mut self, slot: KeySlot, value: Cow<'_, Value>) {
        match &*value {
            Value::String(text) => self.text(slot, text.as_ref().map(Text::as_bytes)),
            _ => {
                self.ingest.others.push(value.into_owned());
                self.push(slot, Kind::Others, self.ingest.others.len() as u64 - 1);
            }
        }
    }

    #[inline(always)]
    fn push(&mut self, KeySlot(at): KeySlot, kind: Kind, number: u64) {
        self.nth += 1;
        let (row, columns) = (self.ingest.rows.count, &mut self.ingest.keys[at].1);
        if let [column] = &mut columns[..]
            && column.continues_with(kind, row)
        {
            return column.numbers.push(number);
        }
        push_to(columns, kind, row, number);
    }
}

/// Adds a value to the column builder of its kind, in place of any that the row has.
#[inline(never)]
fn push_to(columns: &mut Vec<ColumnBuilder>, kind: Kind, row: u32, number: u64) {
    // The second value of a key overwrites the first.
    columns.iter_mut().filter(|column| column.ends_with(row)).for_each(ColumnBuilder::pop);
    let column = match columns.iter().position(|column| column.kind == kind) {
        Some(column) => &mut columns[column],
        None => {
            columns.push(ColumnBuilder::new(kind));
            columns.last_mut().expect("pushed just now")
        }
    };
    column.push(row, number);
}
