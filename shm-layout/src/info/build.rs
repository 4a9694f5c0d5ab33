//! Info segments under construction, in the writer's private memory.
use super::{CELL, Group, Index, NONE, ROW, Row, START, hash_number};
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
    let Contents { size, mut rows, processes, groups, own_node, job: job_record, keys } = contents;
    let is_local = |rank: u32| own_node != NONE && rows[rank as usize].node == own_node;
    let (local, others): (Vec<_>, Vec<_>) = processes.into_iter().partition(|(rank, _)| is_local(*rank));
    let mut words = vec![0; START];
    words.extend(keys.words);
    let mut index = Index {
        size,
        rows: rows.len() as u32,
        count: [0; 3],
        own_node,
        rows_word: 0,
        cells_word: [0; 3],
        job_word: put(&mut words, job_record),
        slots: [0; 3],
        by_number: [0; 3],
        by_name: 0,
    };
    // What a process reads first lies together: the keys, the job, its application, its session, its node and itself.
    let [nodes, apps, sessions] = groups;
    index.members(&mut words, Group::Sessions, sessions, NONE);
    index.members(&mut words, Group::Apps, apps, NONE);
    for (rank, record) in local {
        rows[rank as usize].record = put(&mut words, record) as u32;
    }
    index.members(&mut words, Group::Nodes, nodes, own_node);
    index.rows_word = words.len();
    words.resize(words.len() + rows.len() * ROW, 0);
    for (rank, record) in others {
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

/// Appends a record and returns its word. Archives in it are aligned if it is.
fn put(words: &mut Vec<u64>, mut record: Vec<u64>) -> usize {
    words.resize(words.len().next_multiple_of(2), 0);
    let at = words.len();
    crate::record::seal(&mut record, FROZEN);
    words.extend(record);
    at
}

impl Index {
    /// Appends the records of a group, that of `first` in front, then its cells and indexes.
    fn members(&mut self, words: &mut Vec<u64>, group: Group, members: Vec<Member<'_>>, first: u32) {
        let g = group as usize;
        let log = (members.len() * 2).next_power_of_two().ilog2();
        let (mut numbers, mut names) = (vec![0; 1 << log], vec![0; 1 << log]);
        let mut cells = vec![0; members.len() * CELL];
        let mut members: Vec<_> = (0u32..).zip(members).collect();
        members.sort_by_key(|(index, _)| *index != first);
        for (index, member) in members {
            insert(&mut numbers, hash_number(member.number), index);
            if let Some(name) = member.name {
                insert(&mut names, hash::hash(name), index);
            }
            let cell = pair(put(words, member.record) as u32, member.number);
            let at = index as usize * CELL;
            cells[at..at + CELL].copy_from_slice(&[cell, pair(index, crc::of(&[cell, u64::from(index)]))]);
        }
        self.count[g] = (cells.len() / CELL) as u32;
        self.slots[g] = log;
        self.cells_word[g] = words.len();
        words.extend(cells);
        self.by_number[g] = words.len();
        words.extend(numbers);
        if group == Group::Nodes {
            self.by_name = words.len();
            words.extend(names);
        }
    }
}

fn insert(table: &mut [u64], hash: u64, index: u32) {
    let mut slot = hash as usize & (table.len() - 1);
    while table[slot] != 0 {
        slot = (slot + 1) & (table.len() - 1);
    }
    table[slot] = pair(index + 1, high(hash));
}
