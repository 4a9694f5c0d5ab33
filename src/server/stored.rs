//! A job's data: the seam between the server and the store.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;

use super::ServerConfig;
use crate::data::{DataArray, Info, InfoList, Key, Nspace, Rank, Status, Value, constants::scope, keys};
use crate::message::directives::Directives;
use crate::message::{Mapped, Part, Posted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageId(u64);

#[derive(Debug, thiserror::Error)]
pub(super) enum StoredError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl StoredError {
    pub(super) fn status(&self) -> Status {
        Status::ERR_OUT_OF_RESOURCE
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("not found")]
    NotFound,
    #[error("{0}")]
    Corrupt(String),
}

#[derive(Debug, Default)]
pub(super) struct Stored {
    size: u32,
    local: BTreeSet<Rank>,
    job: HashMap<Key, Value>,
    procs: HashMap<Rank, HashMap<Key, Value>>,
    posted: BTreeMap<Rank, BTreeMap<Key, (u8, Value)>>,
    new: BTreeMap<Rank, BTreeMap<Key, Posted>>,
}

impl Stored {
    pub(super) fn create(n: &Nspace, l: usize, info: &[Info], c: &ServerConfig) -> Result<Self, StoredError> {
        let mut s = Self::default();
        s.replace(n, l, info, c)?;
        Ok(s)
    }
    pub(super) fn replace(&mut self, _: &Nspace, l: usize, info: &[Info], _: &ServerConfig) -> Result<(), StoredError> {
        for i in info {
            if i.key == keys::PROC_DATA || i.key == keys::PROC_INFO_ARRAY {
                if let Value::DataArray(a) = &i.value {
                    self.proc_data(a);
                }
            }
            self.job.insert(i.key.clone(), i.value.clone());
        }
        if let Some(Value::Uint32(n)) = info.find(keys::JOB_SIZE).map(|i| &i.value) {
            self.size = *n;
        }
        if let Some(Value::String(Some(t))) = info.find(keys::LOCAL_PEERS).map(|i| &i.value) {
            self.local = t.to_string_lossy().split(',').filter_map(|r| r.parse().ok().map(Rank)).collect();
        } else if l as u32 == self.size {
            self.local = (0..self.size).map(Rank).collect();
        }
        Ok(())
    }
    fn proc_data(&mut self, a: &DataArray) {
        let infos: Vec<Info> = a.infos().cloned().collect();
        if let Some(Value::ProcRank(r)) = infos.find(keys::RANK).map(|i| &i.value) {
            let e = self.procs.entry(*r).or_default();
            for i in &infos {
                e.insert(i.key.clone(), i.value.clone());
            }
        }
    }
    pub(super) fn size(&self) -> Option<u32> {
        Some(self.size).filter(|n| *n > 0)
    }
    pub(super) fn is_local(&self, rank: Rank) -> bool {
        self.local.contains(&rank)
    }
    pub(super) fn local_ranks(&self) -> Vec<Rank> {
        self.local.iter().copied().collect()
    }
    pub(super) fn has_posted(&self, rank: Rank) -> bool {
        self.posted.contains_key(&rank)
    }
    pub(super) fn post(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<(), StoredError> {
        self.posted.entry(rank).or_default();
        for p in entries {
            if p.scope != scope::LOCAL && self.local.contains(&rank) {
                self.new.entry(rank).or_default().insert(p.key.clone(), p.clone());
            }
            self.posted.entry(rank).or_default().insert(p.key, (p.scope, p.value));
        }
        Ok(())
    }
    pub(super) fn get(&self, rank: Rank, key: &Key, _: &Directives) -> Result<Value, Missing> {
        self.find(rank, key).ok_or(Missing::NotFound)
    }
    fn find(&self, rank: Rank, key: &Key) -> Option<Value> {
        if rank.is_process() {
            let v = self.procs.get(&rank).and_then(|p| p.get(key)).cloned();
            return v.or_else(|| {
                let (s, v) = self.posted.get(&rank)?.get(key)?;
                (*s != scope::REMOTE || !self.local.contains(&rank)).then(|| v.clone())
            }).or_else(|| key.is_reserved().then(|| self.job.get(key).cloned()).flatten());
        }
        self.job.get(key).cloned()
    }
    pub(super) fn all(&self, rank: Rank) -> Result<Vec<Info>, Missing> {
        let p = self.posted.get(&rank).into_iter().flatten();
        Ok(p.map(|(k, (_, v))| Info { key: k.clone(), flags: 0, value: v.clone() }).collect())
    }
    pub(super) fn take_new(&mut self, rank: Rank) -> Vec<Posted> {
        self.new.remove(&rank).map(|m| m.into_values().collect()).unwrap_or_default()
    }
    pub(super) fn put_back(&mut self, rank: Rank, entries: Vec<Posted>) {
        for p in entries {
            self.new.entry(rank).or_default().entry(p.key.clone()).or_insert(p);
        }
    }
    pub(super) fn outbound(&self, rank: Rank) -> Vec<Posted> {
        let p = self.posted.get(&rank).into_iter().flatten();
        p.filter(|(_, (s, _))| *s != scope::LOCAL)
            .map(|(k, (s, v))| Posted { scope: *s, key: k.clone(), value: v.clone() })
            .collect()
    }
    pub(super) fn parts(&self, _: &Mapped) -> Result<Vec<(Part, OwnedFd)>, StoredError> {
        Ok(Vec::new())
    }
    pub(super) fn open_page(&mut self) -> Result<(PageId, OwnedFd), StoredError> {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported).into())
    }
    pub(super) fn close_page(&mut self, _: PageId) {}
}
