//! Info segments under construction, in the writer's private memory.
use std::collections::HashMap;

use super::column::{self, ColumnBuild, KeyEntry, KeyTable};
use super::packed::Packer;
use super::{Group, Index, NameRun, Part, PartitionBuild, Places, Room, START, Sorted, TextForm, sorted};
use crate::header::{Header, Kind};
use crate::job::Reference;
use crate::record::{self, Base, Item, Owner, Payload};
use crate::words::Words;
use crate::{crc, hash, pair};

/// Nodes, applications or sessions to be written.
#[derive(Default)]
pub struct GroupBuild {
    /// Their numbers; none: each number is the index.
    pub numbers: Option<Vec<u32>>,
    /// The number of members.
    pub count: u32,
    /// Records of those that have one, by index.
    pub records: Vec<(u32, RecordBuild)>,
}

/// The contents of an info segment. Names of nodes come from an `N`, columns of partitions lie in a `C`.
pub struct Contents<'a, N, C = Vec<u64>> {
    /// Processes of the job.
    pub size: u32,
    /// Ranks there is room for.
    pub ranks: u32,
    /// Rank of the job's first process in the session.
    pub offset: u32,
    /// Index of the own node, or [`NONE`](super::NONE).
    pub own_node: u32,
    /// The job's record.
    pub job: RecordBuild,
    /// Nodes, applications, sessions.
    pub groups: [GroupBuild; 3],
    /// Records of ranks that have one, by rank.
    pub processes: Vec<(u32, RecordBuild)>,
    /// Ranks by node.
    pub nodes_of: PartitionBuild<C>,
    /// Ranks by application.
    pub apps_of: PartitionBuild<C>,
    /// Names of nodes, in the order of these.
    pub names: N,
    /// Other names of nodes.
    pub aliases: Vec<(&'a [u8], u32)>,
    /// Columns; those of one key one behind the other.
    pub columns: &'a [ColumnBuild],
    /// The strings that columns refer to, those of own processes first; `None` is NULL.
    pub strings: &'a [Option<Box<[u8]>>],
    /// The number of strings that own processes have.
    pub own_strings: usize,
    /// Ranks of the own node, in order.
    pub own_ranks: &'a [u32],
    /// Texts that are computed.
    pub texts: [Option<TextForm>; 3],
    /// The keys of all records.
    pub keys: SharedKeys,
}

/// Keys that a whole segment shares; they lie behind the head.
#[derive(Default)]
pub struct SharedKeys {
    words: Vec<u64>,
    known: HashMap<Box<[u8]>, Known>,
}

struct Known {
    word: usize,
    places: Places,
    column: u32,
}

impl SharedKeys {
    /// The keys of records of one kind.
    pub fn at(&mut self, place: Places) -> KeysAt<'_> {
        KeysAt { keys: self, place }
    }

    fn known(&mut self, key: &[u8]) -> &mut Known {
        if !self.known.contains_key(key) {
            let word = START + record::append(&mut self.words, key);
            self.known.insert(key.into(), Known { word, places: Places::default(), column: 0 });
        }
        self.known.get_mut(key).expect("it is there, or was put there")
    }
}

/// Keys that records of one kind have.
pub struct KeysAt<'a> {
    keys: &'a mut SharedKeys,
    place: Places,
}

impl record::Keys for KeysAt<'_> {
    fn place(&mut self, _: &mut Vec<u64>, key: &[u8]) -> usize {
        let place = self.place;
        let known = self.keys.known(key);
        known.places.0 |= place.0;
        known.word
    }
}

/// All records of a frozen segment have this version.
const FROZEN: u64 = 2;

/// A value of more bytes is long: what a process reads first has none of them in between.
const LONG: usize = 256;

/// A record. Its long values are in one of their own, in which it continues: a checksum is looked at as a whole, and
/// nobody should read the description of a machine to learn its name.
pub struct RecordBuild {
    short: Vec<u64>,
    long: Option<Vec<u64>>,
}

impl RecordBuild {
    /// A record with these entries, whose keys differ.
    pub fn new<'a>(
        kind: Owner,
        owner: u32,
        items: impl Iterator<Item = Item<'a>> + Clone,
        keys: &mut KeysAt<'_>,
    ) -> Self {
        let is_long = |item: &Item<'_>| match item.payload {
            Payload::Scalar(_) | Payload::Null => false,
            Payload::Bytes(bytes) | Payload::Archive(bytes) => bytes.len() > LONG,
        };
        if !items.clone().any(|item| is_long(&item)) {
            return Self { short: record::build(kind, owner, items, keys), long: None };
        }
        let short = items.clone().filter(|item| !is_long(item));
        let short = record::build_with(kind, owner, short, keys, Some(&continuing_at(0)));
        Self { short, long: Some(record::build(kind, owner, items.filter(is_long), keys)) }
    }
}

/// The reference to the record with the long values, which lies in the same segment.
fn continuing_at(word: usize) -> Base {
    Base { at: Reference { segment: 1, word: word as u32 }, version: FROZEN, outdated: 0 }
}

/// Records that have their places already, and neither their checksums nor, some, what they continue in.
#[derive(Default)]
struct Records(Vec<(usize, usize, Option<Vec<u64>>)>);

impl Records {
    /// Appends a record and returns its word.
    fn put(&mut self, words: &mut Vec<u64>, record: RecordBuild) -> usize {
        let at = put_aligned(words, &record.short);
        self.0.push((at, record.short.len(), record.long));
        at
    }

    /// Appends what they continue in, and seals them all.
    fn seal(self, words: &mut Vec<u64>) {
        for (at, len, long) in self.0 {
            if let Some(mut long) = long {
                record::seal(&mut long, FROZEN);
                let word = put_aligned(words, &long);
                record::set_base(&mut words[at..at + len], &continuing_at(word));
            }
            record::seal(&mut words[at..at + len], FROZEN);
        }
    }
}

/// Appends a record and returns its word. Archives in it are aligned if it is.
fn put_aligned(words: &mut Vec<u64>, record: &[u64]) -> usize {
    words.resize(words.len().next_multiple_of(2), 0);
    words.extend_from_slice(record);
    words.len() - record.len()
}

/// The words of an info segment, one piece behind the other.
pub struct Built<C = Vec<u64>> {
    words: Vec<u64>,
    /// Columns of partitions, which are by far the most where ranks go by no rule. They stay where they are.
    columns: Vec<C>,
}

impl<C: Room> Built<C> {
    /// The number of words.
    #[allow(clippy::len_without_is_empty, reason = "no segment is empty")]
    pub fn len(&self) -> usize {
        self.words.len() + self.columns.iter().map(|column| column.len()).sum::<usize>()
    }

    /// Gives `f` one piece after the other, and takes no memory for it any more then.
    ///
    /// # Errors
    /// Errors of `f`.
    pub fn write<E>(self, mut f: impl FnMut(&[u64]) -> Result<(), E>) -> Result<(), E> {
        f(&self.words)?;
        drop(self.words);
        self.columns.into_iter().try_for_each(|column| f(&column))
    }
}

/// The words of an info segment, header included; `None` when 32 GiB do not hold them.
pub fn build<'a, N: Iterator<Item = NameRun<'a>>, C: Room>(
    contents: Contents<'a, N, C>,
    job: u64,
    generation: u64,
) -> Option<Built<C>> {
    let Contents { size, ranks, own_node, groups, mut keys, nodes_of, apps_of, .. } = contents;
    let mut areas = Vec::new();
    let (mut rows, row_bits, row_bit_of) = rows(contents.columns, contents.own_ranks);

    // Keys of columns, and the columns of each key as a chain.
    let mut next = vec![0; contents.columns.len()];
    for (index, column) in contents.columns.iter().enumerate().rev() {
        let known = keys.known(&column.key);
        next[index] = std::mem::replace(&mut known.column, index as u32 + 1);
    }
    let mut table: Vec<_> = keys
        .known
        .iter()
        .map(|(key, known)| (hash::hash(key), known.word, key.len(), known.places, known.column))
        .collect();
    table.sort_by_key(|entry| entry.1);

    let mut words = vec![0; START];
    words.extend(keys.words);
    let table = KeyTable::build(&words, &table);
    let key_table = KeyTable::unread(Part { at: words.len(), len: (table.len() / KeyEntry::WORDS) as u32 });
    words.extend(table);
    let columns = Part { at: words.len(), len: contents.columns.len() as u32 };
    words.resize(words.len() + contents.columns.len() * column::WORDS, 0);

    // Records that a process reads first, short ones before long ones.
    let rows_part = Part { at: words.len(), len: contents.own_ranks.len() as u32 };
    areas.push(Part { at: words.len(), len: rows.len() as u32 });
    words.append(&mut rows);
    let [nodes, apps, sessions] = groups;
    let counts = [nodes.count, apps.count, sessions.count];
    let mut front = vec![(Of::Job, 0, contents.job)];
    front.extend(sessions.records.into_iter().map(|(index, record)| (Of::Group(Group::Sessions), index, record)));
    front.extend(apps.records.into_iter().map(|(index, record)| (Of::Group(Group::Apps), index, record)));
    let is_own = |rank: &u32| contents.own_ranks.binary_search(rank).is_ok();
    let (own, others): (Vec<_>, Vec<_>) = contents.processes.into_iter().partition(|(rank, _)| is_own(rank));
    front.extend(own.into_iter().map(|(rank, record)| (Of::Process, rank, record)));
    let (own, other_nodes): (Vec<_>, Vec<_>) = nodes.records.into_iter().partition(|(index, _)| *index == own_node);
    front.extend(own.into_iter().map(|(index, record)| (Of::Group(Group::Nodes), index, record)));
    front.sort_by_key(|(.., record)| record.short.len());
    let (mut job_word, mut own_node_word) = (0, 0);
    let mut placed = Records::default();
    let mut records: [Vec<(u64, u32)>; 4] = Default::default();
    for (of, index, record) in front {
        let at = placed.put(&mut words, record);
        match of {
            Of::Job => job_word = at,
            Of::Process => records[3].push((index.into(), at as u32)),
            Of::Group(group) => {
                if group == Group::Nodes {
                    own_node_word = at;
                }
                records[group as usize].push((index.into(), at as u32));
            }
        }
    }
    let table_of = |words: &mut Vec<u64>, mut entries: Vec<(u64, u32)>| {
        entries.sort_unstable();
        let part = Part { at: words.len(), len: entries.len() as u32 };
        words.extend(sorted::build(&entries));
        Sorted(part)
    };
    let [mut node_records, app_records, session_records, mut process_records] = records;
    let app_records = table_of(&mut words, app_records);
    let session_records = table_of(&mut words, session_records);
    // Of the strings of own processes each reads its own; their cells end what is read first.
    let mut strings = Vec::with_capacity(contents.strings.len());
    let (own_strings, other_strings) = contents.strings.split_at(contents.own_strings);
    let from = words.len();
    strings.extend(own_strings.iter().map(|string| put_string(&mut words, string.as_deref())));
    areas.push(Part { at: from, len: (words.len() - from) as u32 });
    let string_cells = Part { at: words.len(), len: contents.strings.len() as u32 };
    let front = (words.len() + contents.own_strings) * 8;
    words.resize(words.len() + contents.strings.len(), 0);

    // Records of other nodes.
    node_records
        .extend(other_nodes.into_iter().map(|(index, record)| (index.into(), placed.put(&mut words, record) as u32)));
    let node_records = table_of(&mut words, node_records);
    let numbered = [nodes.numbers, apps.numbers, sessions.numbers];
    let (mut by_number, mut numbers) = ([Sorted::default(); 3], [Part::default(); 3]);
    for (group, of_group) in numbered.into_iter().enumerate() {
        let Some(of_group) = of_group else { continue };
        numbers[group] = Part { at: words.len(), len: of_group.len() as u32 };
        let packed = Packer::of(of_group.iter().map(|number| u64::from(*number)), 32);
        areas.push(Part { at: words.len(), len: packed.len() as u32 });
        words.extend(packed);
        let entries = of_group.iter().zip(0u32..).map(|(number, index)| (u64::from(*number), index)).collect();
        by_number[group] = table_of(&mut words, entries);
    }
    let names = super::names::put(contents.names, &mut words);
    let aliases = contents.aliases.iter().map(|(alias, node)| (hash::hash(alias), *node)).collect();
    let aliases = table_of(&mut words, aliases);
    let mut partitions = [&nodes_of, &apps_of].map(|build| build.put(&mut words, 0));
    let from = words.len();
    strings.extend(other_strings.iter().map(|string| put_string(&mut words, string.as_deref())));
    areas.push(Part { at: from, len: (words.len() - from) as u32 });
    words[string_cells.at..string_cells.at + strings.len()].copy_from_slice(&strings);
    areas.push(Part { at: string_cells.at, len: string_cells.len });
    for (index, column) in contents.columns.iter().enumerate() {
        let at = columns.at + index * column::WORDS;
        let described = column.describe(index as u32, next[index], words.len(), row_bit_of[index]);
        words[at..at + column::WORDS].copy_from_slice(&described);
        areas.push(Part { at: words.len(), len: column.numbers().len() as u32 });
        words.extend_from_slice(column.numbers());
    }
    process_records
        .extend(others.into_iter().map(|(rank, record)| (rank.into(), placed.put(&mut words, record) as u32)));
    let process_records = table_of(&mut words, process_records);
    placed.seal(&mut words);
    areas.retain(|area| area.len > 0);
    let mut areas: Vec<_> =
        areas.into_iter().map(|area| (area, crc::of(&words[area.at..area.at + area.len as usize]))).collect();
    // Each partition's by itself; of those that have a rule none.
    let tail = [&nodes_of, &apps_of].map(PartitionBuild::columns);
    let mut end = words.len() + AREA * (areas.len() + tail.iter().flatten().count());
    for ((partition, build), columns) in partitions.iter_mut().zip([&nodes_of, &apps_of]).zip(tail) {
        if let Some(columns) = columns {
            *partition = build.put(&mut words, end);
            let (mut len, mut sum) = (0, crc::Crc::new());
            for column in columns {
                len += column.len();
                sum.slice(column);
            }
            areas.push((Part { at: end, len: len as u32 }, sum.value()));
            end += len;
        }
    }
    let areas = put_areas(&mut words, &areas);
    u32::try_from(end).ok()?;

    let index = Index {
        size,
        ranks,
        count: counts,
        own_node,
        job_word: job_word as u32,
        own_node_word: own_node_word as u32,
        front,
        keys: key_table,
        columns,
        strings: string_cells,
        rows: rows_part,
        row_bits,
        offset: contents.offset,
        nodes: partitions[0],
        apps: partitions[1],
        names,
        aliases,
        records: [node_records, app_records, session_records, process_records],
        by_number,
        numbers,
        areas,
        texts: contents.texts,
    };
    let head = crate::words::VecWords::new(START);
    Header { kind: Kind::Info, length: end as u64 * 8, job, number: generation, ranks: ranks.into() }.write(&head);
    index.write(&head);
    for (at, word) in words.iter_mut().enumerate().take(START) {
        *word = head.load(at).unwrap_or(0);
    }
    let columns = [nodes_of, apps_of].into_iter().filter_map(PartitionBuild::into_columns).flatten().collect();
    Some(Built { words, columns })
}

/// Subject of a record.
enum Of {
    Job,
    Process,
    Group(Group),
}

/// The numbers of own processes together, one row each: the words, bits of a row, and where each column begins in it.
fn rows(columns: &[ColumnBuild], own_ranks: &[u32]) -> (Vec<u64>, u32, Vec<u32>) {
    let mut bits = 0;
    let begin = |column: &ColumnBuild| {
        bits += column.bits();
        bits - column.bits()
    };
    let begins = columns.iter().map(begin).collect();
    let mut rows = Packer::with_capacity(own_ranks.len() as u64 * u64::from(bits));
    for rank in own_ranks {
        columns.iter().for_each(|column| rows.push(column.number(*rank), column.bits()));
    }
    (rows.into_words(), bits, begins)
}

fn put_string(words: &mut Vec<u64>, string: Option<&[u8]>) -> u64 {
    match string {
        Some(string) => pair(record::append(words, string) as u32, string.len() as u32),
        None => 0,
    }
}

/// Words of an area.
const AREA: usize = 2;

fn put_areas(words: &mut Vec<u64>, areas: &[(Part, u32)]) -> Part {
    let part = Part { at: words.len(), len: areas.len() as u32 };
    for (place, (area, sum)) in (0u32..).zip(areas) {
        words.extend([area.word(), pair(*sum, crc::of(&[area.word(), pair(*sum, place)]))]);
    }
    part
}
