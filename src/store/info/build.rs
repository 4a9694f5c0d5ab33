//! Job information as the words of an info segment.
use instanton_layout::info::{Built, Contents, GroupBuild, KeysAt, Places, RecordBuild, SharedKeys, build};
use instanton_layout::record::{self, Item, Owner};

use crate::data::{Scope, Value, keys};
use crate::store::codec::{Encode, payload};
use crate::store::error::WriteError;
use crate::store::ingest::JobInfo;
use crate::store::ingest::column_planner::SparseValue;
use crate::store::ingest::entries::Entries;
use crate::store::ingest::nodes::Nodes;
use crate::sys::scratch::Scratch;

/// The words of generation `generation`.
pub(in crate::store) fn info_words(
    info: JobInfo,
    job: u64,
    generation: u64,
) -> Result<Built<Scratch<u64>>, WriteError> {
    let mut keys = SharedKeys::default();
    // The length of a string has 32 bits, as that of a record has.
    info.strings.iter().flatten().try_for_each(|string| fits(string.len(), u32::MAX as usize))?;
    let job_record = encode(Owner::Job, 0, &info.job, &mut keys.at(Places::JOB))?;
    let mut nodes = GroupBuild { count: info.nodes.len(), numbers: info.nodes.numbers(), records: Vec::new() };
    for (index, entries) in &info.nodes.given {
        let place = if *index == info.own_node { Places::OWN_NODE } else { Places::NODES };
        nodes.records.push((*index, encode(Owner::Node, *index, entries, &mut keys.at(place))?));
    }
    let numbers: Vec<u32> = info.apps.keys().copied().collect();
    let mut apps = GroupBuild { count: numbers.len() as u32, numbers: renumbered(numbers), records: Vec::new() };
    for (index, entries) in (0u32..).zip(info.apps.values()).filter(|(_, entries)| !entries.is_empty()) {
        apps.records.push((index, encode(Owner::App, index, entries, &mut keys.at(Places::APPS))?));
    }
    let numbers: Vec<u32> = info.sessions.iter().map(|session| session.number).collect();
    let mut sessions = GroupBuild { count: numbers.len() as u32, numbers: renumbered(numbers), records: Vec::new() };
    for (index, session) in (0u32..).zip(&info.sessions) {
        let record = encode(Owner::Session, index, &session.entries, &mut keys.at(Places::SESSIONS))?;
        sessions.records.push((index, record));
    }
    let mut processes = Vec::new();
    for sparse in info.sparse.chunk_by(|a, b| a.rank == b.rank) {
        processes.push((sparse[0].rank, encode_sparse(&info, sparse, &mut keys.at(Places::PROCESSES))?));
    }
    let contents = Contents {
        size: info.size,
        ranks: info.ranks,
        offset: info.offset,
        own_node: info.own_node,
        job: job_record,
        groups: [nodes, apps, sessions],
        processes,
        nodes_of: info.nodes_of,
        apps_of: info.apps_of,
        names: info.nodes.names(0, info.nodes.len()),
        aliases: aliases(&info.nodes),
        columns: &info.columns,
        strings: &info.strings,
        own_strings: info.own_strings,
        own_ranks: &info.own_ranks,
        texts: info.texts,
        keys,
    };
    build(contents, job, generation).ok_or(WriteError::TooLarge { bytes: u64::from(u32::MAX) * 8 })
}

/// PackedInts that are not the indexes.
fn renumbered(numbers: Vec<u32>) -> Option<Vec<u32>> {
    (!numbers.iter().copied().eq(0..numbers.len() as u32)).then_some(numbers)
}

/// The other names of every node.
fn aliases(nodes: &Nodes) -> Vec<(&[u8], u32)> {
    let mut aliases = Vec::new();
    for (index, entries) in &nodes.given {
        let list = entries.get(keys::HOSTNAME_ALIASES).and_then(Value::as_text);
        let names = list.into_iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
        aliases.extend(names.map(|name| (name, *index)));
    }
    aliases
}

fn encode(kind: Owner, owner: u32, entries: &Entries, keys: &mut KeysAt<'_>) -> Result<RecordBuild, WriteError> {
    let encoded = entries
        .iter()
        .map(|(key, value)| Encode::new(Scope::UNDEF, key, value).map_err(|error| WriteError::value(key, error)))
        .collect::<Result<Vec<_>, _>>()?;
    record(kind, owner, encoded.iter().map(Encode::item), keys)
}

fn encode_sparse(info: &JobInfo, sparse: &[SparseValue], keys: &mut KeysAt<'_>) -> Result<RecordBuild, WriteError> {
    let encoded = sparse
        .iter()
        .map(|value| {
            let encoded = value.encode(&info.sparse_strings, &info.others);
            let (data_type, encoded) = encoded.map_err(|error| WriteError::value(&value.key, error))?;
            Ok((&value.key, data_type, encoded))
        })
        .collect::<Result<Vec<_>, WriteError>>()?;
    let items = encoded.iter().map(|(key, data_type, encoded)| Item {
        key: key.as_bytes(),
        scope: 0,
        data_type: data_type.0,
        payload: payload(encoded),
    });
    record(Owner::Process, sparse[0].rank, items, keys)
}

fn record<'a>(
    kind: Owner,
    owner: u32,
    items: impl Iterator<Item = Item<'a>> + Clone,
    keys: &mut KeysAt<'_>,
) -> Result<RecordBuild, WriteError> {
    fits(record::size(items.clone()) * 8, record::LARGEST * 8)?;
    Ok(RecordBuild::new(kind, owner, items, keys))
}

fn fits(bytes: usize, most: usize) -> Result<(), WriteError> {
    if bytes > most { Err(WriteError::TooLarge { bytes: bytes as u64 }) } else { Ok(()) }
}
