//! A job's records: what clients find in the files, and how it grows.
//!
//! Clients take no lock that this side takes, so each step leaves what they may read at any time. Nothing that they can
//! reach is ever written over, but for single bytes. The records of a rank end with two jumps. The first is passed
//! over; new records are written elsewhere, its target is set, and then it becomes valid by one byte. Records that new
//! ones replace are passed over from then on, by one byte each, too. Walks end at the second jump; the number of
//! records that count is exact for who lists all of them, and while it changes it is never below what it was or will
//! be.
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::layout::{self, FIRST_RECORD, FLAGS_IN_RECORD, JUMP, JUMP_LEN, PASSED, SEGMENT, TAIL, TARGET_IN_JUMP};
use crate::data::{DataType, Info, Key};
use crate::message::door::FileEntry;
use crate::stock::body::{Bodies, is_for};
use crate::trace;
use crate::wire::Form;

/// Most files with records.
const MOST_FILES: u64 = 16;
/// Bytes for what each rank posts, beside as much as the host has said.
const FOR_POSTS: u64 = 4 << 10;
/// Most bytes that are written ahead of records.
const MOST_AHEAD: u64 = 256 << 10;

/// Records of a rank, or of the job.
#[derive(Debug, Default)]
struct Chain {
    /// Place of the jump that is passed over behind the last record.
    tail: u64,
    /// Records that count.
    count: u64,
    /// Places of those that the host has said.
    said: Vec<u32>,
    /// Places of those that the process has posted.
    posted: HashMap<Key, u32>,
}

/// Records that are written together.
struct Block {
    /// Place of the first.
    first: u64,
    /// Places of all.
    places: Vec<u32>,
    /// Place of the jump behind them.
    tail: u64,
}

/// A file that is only written.
pub trait Sink {
    /// Writes bytes at an offset.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
}

impl Sink for File {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }
}

/// The files with records, and where what is.
#[derive(Debug)]
pub struct Store<S = File> {
    form: Form,
    metas: Vec<S>,
    datas: Vec<S>,
    /// Files with records: clients map all of them at once, so none is added.
    files: u64,
    /// First place that nothing is at.
    end: u64,
    /// Place up to which there are pages.
    ahead: u64,
    chains: Vec<Chain>,
    /// Bytes that are to be written, and their places.
    pending: Vec<(u64, Vec<u8>)>,
}

impl<S: Sink> Store<S> {
    /// Writes what the host has said of the job and of each rank to files that nobody knows of yet. They are made when
    /// it is known how many are needed: so many with places, and so many with records.
    pub fn create(
        form: Form,
        said: &[Vec<Info>],
        make: impl FnOnce(usize, usize) -> io::Result<(Vec<S>, Vec<S>)>,
    ) -> io::Result<Self> {
        let chains: Vec<Chain> = said.iter().map(|_| Chain::default()).collect();
        let mut store = Store {
            form,
            metas: Vec::new(),
            datas: Vec::new(),
            files: MOST_FILES,
            end: FIRST_RECORD,
            ahead: 0,
            chains,
            pending: Vec::new(),
        };
        let mut metas: Vec<(usize, u64, Vec<u8>)> = Vec::new();
        for (slot, infos) in said.iter().enumerate() {
            let records = store.records(infos.iter().map(|info| (&info.key, Some(&info.value))));
            let block = store.write(records.iter().map(|(_, record)| record.as_slice()));
            let Some(block) = block else { return Err(io::ErrorKind::StorageFull.into()) };
            let count = block.places.len() as u64;
            let bytes = layout::meta_bytes(slot as u64, block.first, count);
            store.chains[slot] = Chain { tail: block.tail, count, said: block.places, posted: HashMap::new() };
            let (file, at) = layout::meta(slot as u64);
            match metas.last_mut() {
                Some((last, _, all)) if *last == file => all.extend_from_slice(&bytes),
                _ => metas.push((file, at, bytes.to_vec())),
            }
        }
        let room = 2 * store.end + said.len() as u64 * FOR_POSTS;
        store.files = room.div_ceil(SEGMENT).min(MOST_FILES);
        (store.metas, store.datas) = make(metas.len(), store.files as usize)?;
        store.flush()?;
        store.write_ahead(room)?;
        for (file, at, bytes) in metas {
            store.metas[file].write_at(&bytes, at)?;
        }
        Ok(store)
    }

    /// Form of its values.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Bytes of the files that are in use.
    pub fn bytes(&self) -> u64 {
        self.metas.len() as u64 * SEGMENT + self.end.max(self.ahead)
    }

    /// Writes zeroes where records will come. A fault of a client maps the pages around it that there are: so there is one
    /// fault for all ranks, where else there would be one for each page of what they post.
    fn write_ahead(&mut self, room: u64) -> io::Result<()> {
        let end_of_file = self.end.next_multiple_of(SEGMENT);
        self.ahead = room.min(self.end + MOST_AHEAD).min(end_of_file);
        let zeroes = vec![0; self.ahead.saturating_sub(self.end) as usize];
        // Behind the last byte of the last file there is none.
        if zeroes.is_empty() { Ok(()) } else { self.change(self.end, &zeroes) }
    }

    /// Takes in what a process has posted.
    pub fn post<'a>(&mut self, slot: u64, entries: impl Iterator<Item = FileEntry<'a>> + Clone) -> io::Result<()> {
        let slot = slot as usize;
        let Some(chain) = self.chains.get_mut(slot) else { return Ok(()) };
        let mut replaced: Vec<u32> = entries.clone().filter_map(|(key, _)| chain.posted.remove(key)).collect();
        let records = self.records(entries);
        let added = self.append(slot, &records);
        if let Ok(places) = &added {
            let posted = &mut self.chains[slot].posted;
            let again = records.into_iter().zip(places).filter_map(|((key, _), place)| posted.insert(key, *place));
            replaced.extend(again);
        }
        self.take_away(slot, &replaced)?;
        added.map(|_| ())
    }

    /// Takes in what the host says anew of the job or of a rank.
    pub fn say(&mut self, slot: u64, infos: &[Info]) -> io::Result<()> {
        let slot = slot as usize;
        let Some(chain) = self.chains.get_mut(slot) else { return Ok(()) };
        let replaced = std::mem::take(&mut chain.said);
        let records = self.records(infos.iter().map(|info| (&info.key, Some(&info.value))));
        let added = self.append(slot, &records);
        if let Ok(places) = &added {
            self.chains[slot].said.clone_from(places);
        }
        self.take_away(slot, &replaced)?;
        added.map(|_| ())
    }

    /// Returns the records of entries, with their keys. A value that readers cannot know, or that fits in no file, is
    /// left out.
    fn records<'a>(&self, entries: impl Iterator<Item = FileEntry<'a>>) -> Vec<(Key, Vec<u8>)> {
        let record = |(key, value): FileEntry<'a>| {
            let value = value.filter(|value| is_for(self.form, key, value))?;
            let mut packed = Bodies::new(self.form);
            packed
                .one(DataType::VALUE, value)
                .inspect_err(|e| trace!("{key} is left out for stock clients: {e}"))
                .ok()?;
            let len = layout::record_len(key.as_bytes(), packed.bytes.len());
            let fits = FIRST_RECORD as usize + len + TAIL <= SEGMENT as usize;
            let mut record = Vec::with_capacity(len);
            layout::record(&mut record, key.as_bytes(), &packed.bytes);
            fits.then(|| (key.clone(), record))
        };
        entries.filter_map(record).collect()
    }

    /// Puts records behind those of a rank, and makes them valid. Returns their places.
    fn append(&mut self, slot: usize, records: &[(Key, Vec<u8>)]) -> io::Result<Vec<u32>> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let Some(block) = self.write(records.iter().map(|(_, record)| record.as_slice())) else {
            return Err(io::ErrorKind::StorageFull.into());
        };
        self.flush()?;
        let tail = self.chains[slot].tail;
        self.change(tail + TARGET_IN_JUMP, &block.first.to_le_bytes())?;
        self.change(tail + FLAGS_IN_RECORD, &[JUMP])?;
        self.chains[slot].tail = block.tail;
        self.count(slot, self.chains[slot].count + block.places.len() as u64)?;
        Ok(block.places)
    }

    /// Has readers pass over records.
    fn take_away(&mut self, slot: usize, places: &[u32]) -> io::Result<()> {
        for place in places {
            self.change(u64::from(*place) + FLAGS_IN_RECORD, &[PASSED])?;
        }
        if places.is_empty() { Ok(()) } else { self.count(slot, self.chains[slot].count - places.len() as u64) }
    }

    /// Says how many records of a rank count, by bytes in an order in which no number between is less than both.
    fn count(&mut self, slot: usize, count: u64) -> io::Result<()> {
        let before = std::mem::replace(&mut self.chains[slot].count, count);
        let (file, meta) = layout::meta(slot as u64);
        let (old, new, at) = (before.to_le_bytes(), count.to_le_bytes(), layout::count_at(meta));
        let mut changed: Vec<usize> = (0..8).filter(|byte| old[*byte] != new[*byte]).collect();
        if count > before {
            changed.reverse();
        }
        changed.into_iter().try_for_each(|byte| self.metas[file].write_at(&[new[byte]], at + byte as u64))
    }

    /// Writes records one behind the other, or nothing where there is no room for all of them: not yet to the files.
    fn write<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) -> Option<Block> {
        let (before, written) = (self.end, self.pending.len());
        let last = self.pending.last().map_or(0, |(_, bytes)| bytes.len());
        let mut block = Block { first: 0, places: Vec::new(), tail: 0 };
        for record in records {
            let Some(place) = self.place(record.len(), !block.places.is_empty()) else {
                self.end = before;
                self.pending.truncate(written);
                if let Some((_, bytes)) = self.pending.last_mut() {
                    bytes.truncate(last);
                }
                return None;
            };
            block.places.push(place as u32);
            self.put(|out| out.extend_from_slice(record));
        }
        if block.places.is_empty() {
            block.first = self.place(0, false)?;
        } else {
            block.first = u64::from(block.places[0]);
        }
        block.tail = self.end;
        self.put(layout::tail);
        Some(block)
    }

    /// Returns the place for so many bytes, which is in another file where this one is full: a jump leads there.
    fn place(&mut self, len: usize, is_behind_others: bool) -> Option<u64> {
        if self.end % SEGMENT + (len + TAIL) as u64 > SEGMENT || self.end.is_multiple_of(SEGMENT) {
            let next = (self.end.div_ceil(SEGMENT).max(1)) * SEGMENT + FIRST_RECORD;
            if next / SEGMENT >= self.files {
                return None;
            }
            if is_behind_others {
                self.put(|out| layout::jump(out, 0, next));
            }
            self.end = next;
        }
        Some(self.end)
    }

    /// Adds bytes at the end.
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.pending.last_mut() {
            Some((at, bytes)) if *at + bytes.len() as u64 == self.end && !self.end.is_multiple_of(SEGMENT) => {
                let before = bytes.len();
                write(bytes);
                self.end += (bytes.len() - before) as u64;
            }
            _ => {
                let mut bytes = Vec::new();
                write(&mut bytes);
                let at = self.end;
                self.end += bytes.len() as u64;
                self.pending.push((at, bytes));
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        pending.into_iter().try_for_each(|(at, bytes)| self.change(at, &bytes))
    }

    fn change(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.datas[(at / SEGMENT) as usize].write_at(bytes, at % SEGMENT)
    }
}

const _: () = assert!(JUMP_LEN <= TAIL);

#[cfg(test)]
mod tests;
