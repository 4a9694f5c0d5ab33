//! What is to be kept of all that was said of processes, and in which form.
//!
//! What follows from where a process runs is dropped. Of what is left, a column takes what many ranks have, and records the rest.
use instanton_layout::info::ColumnBuild;

use super::gather::{Kind, Leaf, Strings};
use super::job_info::BadJobInfo;
use super::nodes::Nodes;
use super::placement::Parted;
use crate::data::{DataType, Text, Value, keys};

pub(super) use super::gather::Values;

/// Fewer values than this make no column.
const FEW: usize = 4;
/// What a value in a record takes at least, in bytes.
const ENTRY: usize = 32;

/// What is known of every process.
pub(super) struct Known<'a> {
    pub(super) nodes: &'a Nodes,
    /// Numbers of the applications.
    pub(super) apps: Vec<u32>,
    pub(super) node_of: &'a Parted,
    pub(super) app_of: &'a Parted,
    /// Rank of the job's first process in the session.
    pub(super) offset: u32,
}

/// What is kept.
pub(super) struct Sifted {
    pub(super) columns: Vec<ColumnBuild>,
    pub(super) strings: Vec<Option<Box<[u8]>>>,
    pub(super) own_strings: usize,
    pub(super) leaves: Vec<Leaf>,
    pub(super) leaf_strings: Strings,
}

fn of_key<'a>(values: &'a [Values], key: &str) -> impl Iterator<Item = &'a Values> {
    values.iter().filter(move |values| values.key == *key)
}

/// The values of a key as numbers, in the order of ranks.
pub(super) fn numbers(values: &[Values], others: &[Value], key: &'static str) -> Result<Vec<(u32, u32)>, BadJobInfo> {
    let mut all = Vec::new();
    for values in of_key(values, key) {
        let wrong = |found| BadJobInfo::Type { key, found, wanted: "a number" };
        all.reserve(values.len());
        for (rank, number) in values.iter() {
            let number = match values.kind {
                Kind::Scalars(ty) => super::gather::Datum::Scalar(ty, number).as_u32().ok_or(wrong(ty))?,
                Kind::Strings | Kind::Nodes => return Err(wrong(DataType::STRING)),
                Kind::Others => {
                    let value = &others[number as usize];
                    value.as_u32().ok_or(wrong(value.data_type()))?
                }
            };
            all.push((rank, number));
        }
    }
    if !all.is_sorted_by_key(|(rank, _)| *rank) {
        all.sort_unstable();
    }
    Ok(all)
}

/// What names the nodes of processes: of each kind in the order of ranks.
pub(super) fn host_names(values: &[Values]) -> impl Iterator<Item = &Values> {
    of_key(values, keys::HOSTNAME).filter(|values| matches!(values.kind, Kind::Strings | Kind::Nodes))
}

/// Decides about all values.
pub(super) fn sift(values: Vec<Values>, strings: &mut Strings, known: &Known<'_>, own_ranks: &[u32]) -> Sifted {
    let kept: Vec<Values> = values.into_iter().map(|values| drop_what_follows(values, strings, known)).collect();
    let kept = kept.into_iter().filter(|values| !values.pieces.is_empty()).map(|values| match values.kind {
        Kind::Nodes => values.spelled(known.nodes, strings),
        _ => values,
    });
    let kept: Vec<Values> = kept.collect();
    let (columns, rows): (Vec<_>, Vec<_>) = kept.into_iter().partition(|values| is_worth_a_column(values, strings));
    let mut leaves = Vec::new();
    let mut add = |values: &Values| {
        let Values { key, kind, .. } = values;
        leaves.extend(values.iter().map(|(rank, number)| Leaf { rank, key: key.clone(), kind: *kind, number }));
    };
    rows.iter().for_each(&mut add);
    let (numbers, in_use, own_strings) = number_strings(&columns, strings, own_ranks);
    let mut built = Vec::with_capacity(columns.len());
    for values in &columns {
        let (data_type, of_strings) = match values.kind {
            Kind::Scalars(ty) => (ty, false),
            _ => (DataType::STRING, true),
        };
        let numbers: Vec<u64> = values
            .iter()
            .map(|(_, number)| if of_strings { u64::from(numbers[number as usize]) } else { number })
            .collect();
        match ColumnBuild::new(values.key.as_bytes(), data_type.0, of_strings, &values.pieces, &numbers) {
            Some(column) => built.push(column),
            None => add(values),
        }
    }
    leaves.sort_by_key(|leaf| leaf.rank);
    let text = |number: &u32| {
        strings.get(u64::from(*number)).map(|text| {
            let mut bytes = Vec::with_capacity(text.len() + 1);
            bytes.extend_from_slice(text);
            bytes.push(0);
            bytes.into_boxed_slice()
        })
    };
    let texts = in_use.iter().map(text).collect();
    let leaf_strings = match leaves.iter().any(|leaf| leaf.kind == Kind::Strings) {
        true => std::mem::take(strings),
        false => Strings::default(),
    };
    Sifted { columns: built, strings: texts, own_strings, leaves, leaf_strings }
}

/// A column has room for every rank from the first to the last of its values.
fn is_worth_a_column(values: &Values, strings: &Strings) -> bool {
    let (Some(first), Some(last), len) = (values.pieces.first(), values.pieces.last(), values.len()) else {
        return false;
    };
    let span = (last.0 + last.1 - first.0) as usize;
    let most = match values.kind {
        Kind::Scalars(_) => values.iter().map(|(_, number)| number).max().unwrap_or(0),
        Kind::Strings => strings.len() as u64,
        Kind::Nodes | Kind::Others => return false,
    };
    let bits = u64::BITS - most.leading_zeros() + 1;
    len >= FEW && span * bits as usize / 8 <= len * ENTRY
}

/// New numbers for the strings that columns refer to, those of own processes first: by old number; the old ones in the new
/// order; and how many own processes have.
fn number_strings(columns: &[Values], strings: &Strings, own_ranks: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
    let mut numbers = vec![u32::MAX; strings.len()];
    let mut in_use = Vec::new();
    let mut own = 0;
    for own_only in [true, false] {
        for values in columns.iter().filter(|values| values.kind == Kind::Strings) {
            for (rank, number) in values.iter() {
                let new = &mut numbers[number as usize];
                if *new == u32::MAX && (!own_only || own_ranks.binary_search(&rank).is_ok()) {
                    *new = in_use.len() as u32;
                    in_use.push(number as u32);
                }
            }
        }
        if own_only {
            own = in_use.len();
        }
    }
    (numbers, in_use, own)
}

/// Leaves out values that readers compute: of the same type, and no other than that.
fn drop_what_follows(values: Values, strings: &Strings, known: &Known<'_>) -> Values {
    type Follows<'a> = Box<dyn Fn(u32, u64) -> bool + 'a>;
    let is = |key: &str, ty: DataType| values.key == *key && values.kind == Kind::Scalars(ty);
    let node = |rank| known.node_of.place(rank);
    let app = |rank| known.app_of.place(rank);
    let follows: Follows<'_> = if is(keys::RANK, DataType::PROC_RANK) {
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
    values.without(follows)
}
