//! Info segments under construction, in the writer's private memory.
use super::{CELL, Group, Index, ROW, Row, START, hash_number};
use crate::header::{Header, Kind};
use crate::words::Words;
use crate::{crc, hash, high, pair};

/// A node, application or session to be written.
pub struct Member<'a> {
    /// Its number.
    pub number: u32,
    /// Its name, of nodes only.
    pub name: Option<&'a [u8]>,
    /// Its record, built with [`crate::record::build`] and [`SharedKeys`].
    pub record: Vec<u64>,
}

/// Everything of an info segment.
pub struct Contents<'a> {
    /// Processes of the job.
    pub size: u32,
    /// A row for every rank, `record` unset.
    pub rows: Vec<Row>,
    /// Records of ranks that have one, by rank.
    pub processes: Vec<(u32, Vec<u64>)>,
    /// Nodes, applications, sessions.
    pub groups: [Vec<Member<'a>>; 3],
    /// Index of the own node, or [`NONE`].
    pub own_node: u32,
    /// The job's record.
    pub job: Vec<u64>,
    /// The keys of all records.
    pub keys: SharedKeys,
}

/// Keys that all records of a segment share; they lie behind the head.
#[derive(Default)]
pub struct SharedKeys {
    words: Vec<u64>,
    places: std::collections::HashMap<Box<[u8]>, usize>,
}

impl crate::record::Keys for SharedKeys {
    fn place(&mut self, _: &mut Vec<u64>, key: &[u8]) -> usize {
        if let Some(at) = self.places.get(key) {
            return *at;
        }
        let at = START + crate::record::append(&mut self.words, key);
        self.places.insert(key.into(), at);
        at
    }
}

/// All records of a frozen segment have this version.
const FROZEN: u64 = 2;

/// The words of an info segment, header included; `None` when 32 GiB do not hold them.
pub fn build(contents: Contents<'_>, job: u64, generation: u64) -> Option<Vec<u64>> {
    let Contents { size, mut rows, processes, groups, own_node, job: mut job_record, keys } = contents;
    // What a process reads first lies first: keys, the job's record, then the own node's.
    let mut words = vec![0; START];
    words.extend(keys.words);
    let put = |words: &mut Vec<u64>, mut record: Vec<u64>| {
        words.resize(words.len().next_multiple_of(2), 0);
        let at = words.len();
        crate::record::seal(&mut record, FROZEN);
        words.extend(record);
        at
    };
    let job_word = put(&mut words, core::mem::take(&mut job_record));
    let mut index = Index {
        size,
        rows: rows.len() as u32,
        count: [0; 3],
        own_node,
        rows_word: 0,
        cells_word: [0; 3],
        job_word,
        slots: [0; 3],
        by_number: [0; 3],
        by_name: 0,
    };
    for (g, members) in groups.into_iter().enumerate() {
        let log = (members.len() * 2).next_power_of_two().ilog2();
        let (mut numbers, mut names) = (vec![0; 1 << log], vec![0; 1 << log]);
        let mut cells = Vec::with_capacity(members.len() * CELL);
        for (i, member) in members.into_iter().enumerate() {
            let i = i as u32;
            insert(&mut numbers, hash_number(member.number), i);
            if let Some(name) = member.name {
                insert(&mut names, hash::hash(name), i);
            }
            let cell = pair(put(&mut words, member.record) as u32, member.number);
            cells.extend([cell, pair(i, crc::of(&[cell, u64::from(i)]))]);
        }
        index.count[g] = (cells.len() / CELL) as u32;
        index.slots[g] = log;
        index.cells_word[g] = words.len();
        words.extend(cells);
        index.by_number[g] = words.len();
        words.extend(numbers);
        if g == Group::Nodes as usize {
            index.by_name = words.len();
            words.extend(names);
        }
    }
    index.rows_word = words.len();
    words.resize(words.len() + rows.len() * ROW, 0);
    for (rank, record) in processes {
        rows[rank as usize].record = put(&mut words, record) as u32;
    }
    for (rank, row) in rows.iter().enumerate() {
        let at = index.rows_word + rank * ROW;
        words[at..at + ROW].copy_from_slice(&row.encode(rank as u32));
    }
    u32::try_from(words.len()).ok()?;
    let head = crate::words::VecWords::new(START);
    Header { kind: Kind::Info, length: words.len() as u64 * 8, job, number: generation, ranks: rows.len() as u64 }
        .write(&head);
    index.write(&head);
    for (at, word) in words.iter_mut().enumerate().take(START) {
        *word = head.load(at).unwrap_or(0);
    }
    Some(words)
}

fn insert(table: &mut [u64], hash: u64, index: u32) {
    let mut slot = hash as usize & (table.len() - 1);
    while table[slot] != 0 {
        slot = (slot + 1) & (table.len() - 1);
    }
    table[slot] = pair(index + 1, high(hash));
}
