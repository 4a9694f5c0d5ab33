//! Planner of columns: it decides which values of processes are kept, and in which form.
//!
//! Values that follow from where a process runs are dropped. Of the others, a column takes those that many ranks have,
//! and records take the rest.
use std::borrow::Cow;

use instanton_layout::info::ColumnBuild;

use super::column_builder::{Kind, Values};
use super::entries::NUMBER;
use super::interner::Interner;
use super::nodes::Nodes;
use super::partition::RankPartition;
use crate::data::archive::ArchiveError;
use crate::data::{DataType, Key, Text, Value, keys};
use crate::store::codec::{self, Encoded};
use crate::store::datum::Datum;
use crate::store::error::BadJobInfo;

/// Fewer values than this make no column.
const FEW: usize = 4;
/// Bytes that a value in a record takes at least.
const ENTRY: usize = 32;

/// Facts from which values of processes follow.
pub(super) struct Facts<'a> {
    pub(in crate::store) nodes: &'a Nodes,
    /// Numbers of the applications.
    pub(in crate::store) apps: Vec<u32>,
    pub(super) node_of: &'a RankPartition,
    pub(super) app_of: &'a RankPartition,
    /// Rank of the job's first process in the session.
    pub(in crate::store) offset: u32,
}

/// The values that are kept.
pub(super) struct ColumnPlan {
    pub(in crate::store) columns: Vec<ColumnBuild>,
    pub(in crate::store) strings: Vec<Option<Box<[u8]>>>,
    pub(in crate::store) own_strings: usize,
    pub(in crate::store) sparse: Vec<SparseValue>,
    pub(in crate::store) sparse_strings: Interner,
}

/// A value without a column: it goes to the record of its process.
#[derive(Debug, Clone)]
pub(in crate::store) struct SparseValue {
    pub(in crate::store) rank: u32,
    pub(in crate::store) key: Key,
    pub(super) kind: Kind,
    pub(in crate::store) number: u64,
}

impl SparseValue {
    /// The value as a record takes it.
    pub(in crate::store) fn encode<'a>(
        &self,
        strings: &Interner,
        others: &'a [Value],
    ) -> Result<(DataType, Encoded<'a>), ArchiveError> {
        Ok(match self.kind {
            Kind::Scalars(ty) => (ty, Encoded::Scalar(self.number)),
            Kind::Strings | Kind::Nodes => {
                (DataType::STRING, strings.get(self.number).map_or(Encoded::Null, codec::with_nul))
            }
            Kind::Others => {
                let value = &others[self.number as usize];
                (value.data_type(), codec::encode(value)?)
            }
        })
    }
}

fn of_key<'a>(values: &'a [Values], key: &str) -> impl Iterator<Item = &'a Values> {
    values.iter().filter(move |values| values.key == *key)
}

/// The values of a key as numbers of 32 bits.
pub(super) fn numbers<'a>(
    values: &'a [Values],
    others: &[Value],
    key: &'static str,
) -> Result<Cow<'a, Values>, BadJobInfo> {
    let given: Vec<&Values> = of_key(values, key).collect();
    if let [Values { kind: Kind::Scalars(DataType::UINT32 | DataType::PROC_RANK), .. }] = given[..] {
        return Ok(Cow::Borrowed(given[0]));
    }
    let mut all = Vec::new();
    for (values, (rank, number)) in given.iter().flat_map(|values| values.iter().map(move |value| (values, value))) {
        let datum = match values.kind {
            Kind::Scalars(ty) => Datum::Scalar(ty, number),
            Kind::Strings | Kind::Nodes => Datum::Text(None),
            Kind::Others => Datum::from(&others[number as usize]),
        };
        let wrong = BadJobInfo::Type { key, found: datum.data_type(), wanted: NUMBER };
        all.push((rank, datum.as_u32().ok_or(wrong)?));
    }
    all.sort_unstable();
    let mut numbers = Values::new(&Key::new(key)?, Kind::Scalars(DataType::UINT32));
    all.into_iter().for_each(|(rank, number)| numbers.push(rank, number.into()));
    Ok(Cow::Owned(numbers))
}

/// The values that name the nodes of processes, each kind in the order of ranks.
pub(super) fn host_names(values: &[Values]) -> impl Iterator<Item = &Values> {
    of_key(values, keys::HOSTNAME).filter(|values| matches!(values.kind, Kind::Strings | Kind::Nodes))
}

/// Plans the columns of all values.
pub(super) fn plan(values: Vec<Values>, strings: &mut Interner, known: &Facts<'_>, own_ranks: &[u32]) -> ColumnPlan {
    let kept: Vec<Values> = values.into_iter().map(|values| drop_what_follows(values, strings, known)).collect();
    let kept = kept.into_iter().filter(|values| !values.pieces.is_empty()).map(|values| match values.kind {
        Kind::Nodes => values.spelled(known.nodes, strings),
        _ => values,
    });
    let kept: Vec<Values> = kept.collect();
    let (mut columns, rows): (Vec<_>, Vec<_>) = kept.into_iter().partition(|values| is_worth_a_column(values, strings));
    let mut sparse = Vec::new();
    let mut add = |values: Values, number_of: &[u32]| {
        sparse.extend(values.iter().map(|(rank, number)| {
            let number = number_of.get(number as usize).map_or(number, |number| u64::from(*number));
            SparseValue { rank, key: values.key.clone(), kind: values.kind, number }
        }));
    };
    rows.into_iter().for_each(|values| add(values, &[]));
    let (in_use, own_strings) = number_strings(&mut columns, strings, own_ranks);
    let mut built = Vec::with_capacity(columns.len());
    for values in columns {
        let (data_type, of_strings) = match values.kind {
            Kind::Scalars(ty) => (ty, false),
            _ => (DataType::STRING, true),
        };
        let (key, value) = (values.key.as_bytes(), |at| values.numbers.get(at));
        match ColumnBuild::new(key, data_type.0, of_strings, &values.pieces, value) {
            Some(column) => built.push(column),
            None => add(values, if of_strings { &in_use } else { &[] }),
        }
    }
    sparse.sort_by_key(|value| value.rank);
    let text = |number: &u32| {
        strings.get(u64::from(*number)).map(|text| {
            let mut bytes = Vec::with_capacity(text.len() + 1);
            bytes.extend_from_slice(text);
            bytes.push(0);
            bytes.into_boxed_slice()
        })
    };
    let texts = in_use.iter().map(text).collect();
    let sparse_strings = match sparse.iter().any(|value| value.kind == Kind::Strings) {
        true => std::mem::take(strings),
        false => Interner::default(),
    };
    ColumnPlan { columns: built, strings: texts, own_strings, sparse, sparse_strings }
}

/// A column has room for every rank from the first to the last of its values.
fn is_worth_a_column(values: &Values, strings: &Interner) -> bool {
    let (Some(first), Some(last), len) = (values.pieces.first(), values.pieces.last(), values.numbers.len()) else {
        return false;
    };
    let span = (last.0 + last.1 - first.0) as usize;
    let most = match values.kind {
        Kind::Scalars(_) if span == len => 0,
        Kind::Scalars(_) => values.numbers.iter().fold(0, u64::max),
        Kind::Strings => strings.len() as u64,
        Kind::Nodes | Kind::Others => return false,
    };
    let bits = u64::BITS - most.leading_zeros() + 1;
    len >= FEW && span * bits as usize / 8 <= len * ENTRY
}

/// Gives the strings that columns refer to new numbers, those of own processes first. Answers with the old ones in the
/// new order, and how many own processes have.
fn number_strings(columns: &mut [Values], strings: &Interner, own_ranks: &[u32]) -> (Vec<u32>, usize) {
    let (mut numbers, mut in_use) = (vec![u32::MAX; strings.len()], Vec::new());
    let mut number = |in_use: &mut Vec<u32>, old: u64| {
        let new = &mut numbers[old as usize];
        if *new == u32::MAX {
            *new = in_use.len() as u32;
            in_use.push(old as u32);
        }
        u64::from(*new)
    };
    let of_strings = |values: &&mut Values| values.kind == Kind::Strings;
    for values in columns.iter_mut().filter(of_strings) {
        let mut by_rank = values.iter();
        own_ranks.iter().filter_map(|rank| by_rank.of(*rank)).for_each(|old| {
            number(&mut in_use, old);
        });
    }
    let own_strings = in_use.len();
    for values in columns.iter_mut().filter(of_strings) {
        values.numbers = values.numbers.iter().map(|old| number(&mut in_use, old)).collect();
    }
    (in_use, own_strings)
}

/// Leaves out values that readers compute: of the same type, and no other than that.
fn drop_what_follows(values: Values, strings: &Interner, known: &Facts<'_>) -> Values {
    type Follows<'a> = Box<dyn FnMut(u32, u64) -> bool + 'a>;
    let is = |key: &str, ty: DataType| values.key == *key && values.kind == Kind::Scalars(ty);
    let (mut node, mut app) = (known.node_of.places(), known.app_of.places());
    let mut follows: Follows<'_> = if is(keys::RANK, DataType::PROC_RANK) {
        Box::new(|rank, number| u64::from(rank) == number)
    } else if is(keys::GLOBAL_RANK, DataType::PROC_RANK) {
        Box::new(|rank, number| u64::from(rank.saturating_add(known.offset)) == number)
    } else if is(keys::LOCAL_RANK, DataType::UINT16) || is(keys::NODE_RANK, DataType::UINT16) {
        Box::new(move |rank, number| node(rank).is_some_and(|(_, place)| u64::from(place) == number))
    } else if is(keys::APP_RANK, DataType::PROC_RANK) {
        Box::new(move |rank, number| app(rank).is_some_and(|(_, place)| u64::from(place) == number))
    } else if is(keys::NODEID, DataType::UINT32) {
        Box::new(move |rank, number| node(rank).is_some_and(|(node, _)| u64::from(known.nodes.number(node)) == number))
    } else if is(keys::APPNUM, DataType::UINT32) {
        Box::new(move |rank, number| app(rank).is_some_and(|(app, _)| u64::from(known.apps[app as usize]) == number))
    } else if values.key == *keys::HOSTNAME && values.kind == Kind::Strings {
        // Of each string the node that readers would answer it for.
        let mut named = vec![None; strings.len()];
        for (_, string) in values.iter() {
            named[string as usize] = strings.get(string).and_then(|name| known.nodes.find(name)).filter(|node| {
                let said = known.nodes.given.get(node).and_then(|entries| entries.get(keys::HOSTNAME));
                said.is_none_or(|said| said.as_text().map(Text::as_bytes) == strings.get(string))
            });
        }
        Box::new(move |rank, string| node(rank).is_some_and(|(node, _)| named[string as usize] == Some(node)))
    } else if values.kind == Kind::Nodes {
        // Nodes of which their own information says another name.
        let named = |node, said: &Value| known.nodes.name(node).as_deref() == said.as_text().map(Text::as_bytes);
        let given = known.nodes.given.iter().filter_map(|(node, entries)| Some((*node, entries.get(keys::HOSTNAME)?)));
        let others: Vec<u32> = given.filter(|(node, said)| !named(*node, said)).map(|(node, _)| node).collect();
        Box::new(move |rank, named| {
            let is_it = |(node, _)| u64::from(node) == named && others.binary_search(&node).is_err();
            node(rank).is_some_and(is_it)
        })
    } else {
        return values;
    };
    values.without(&mut follows)
}
