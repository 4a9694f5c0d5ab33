//! The files of a job: made where its processes look for them, and removed with the job.
//!
//! Their directory is the server's. Where the job is another user's, that user passes through it and can change nothing
//! in it; the files themselves are the user's. The first job of a server that has a temporary directory to itself has its
//! files there: a directory costs twice as much as they do.
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate, open, openat};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, fchmod};
use nix::sys::statfs::{self, FsType, fstatfs};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, ftruncate, geteuid, unlinkat};

use super::layout::{self, INITIAL, NAMESPACE_AT, SEGMENT};
use super::store::Store;
use crate::account::{Account, Charge, Kind};
use crate::data::{Info, Rank, Status, keys};
use crate::message::door::{FileEntry, JobFacts, JobFiles, JobInformation, MakesJobFiles};
use crate::stock::folder::{self, Kept};
use crate::trace;
use crate::wire::Form;

/// Prefix of the names of directories; user and a random number follow.
const DIRECTORY: &str = "instanton-ds21-";
/// Most ranks of a job that has files: the control thread writes what is said of them in one go, 5 us for each.
const MOST_RANKS: u32 = 1024;
/// Name of the file with the list of namespaces.
const INITIAL_NAME: &[u8] = b"initial-pmix_shared-segment-0";
/// Longest name of a namespace that can be a part of a file's.
const MAX_NSPACE: usize = 200;
/// Free bytes without which none are made: clients fail at Init where a file cannot be had later.
const FREE: u64 = 64 << 20;
/// Places in the lock file for each process of this node, and for all of them besides. Each start of the library in a
/// process takes one for good, and one that finds none goes on without the files.
const PLACES_EACH: u32 = 2;
const PLACES: u32 = 14;
/// Bytes that are charged together.
const CHARGED: u64 = 64 << 10;
/// Longest value that is written for a process that has posted it, and most bytes of those that come together: others
/// are asked for.
const LONGEST_POSTED: usize = 16 << 10;
const MOST_POSTED: usize = 256 << 10;

/// File systems whose files have one copy of their content in memory, which is mapped and written.
const COHERENT: [FsType; 5] = [
    statfs::TMPFS_MAGIC,
    statfs::EXT4_SUPER_MAGIC,
    statfs::XFS_SUPER_MAGIC,
    statfs::BTRFS_SUPER_MAGIC,
    statfs::OVERLAYFS_SUPER_MAGIC,
];

/// Maker of the files of jobs.
#[derive(Debug)]
pub struct Maker {
    tmpdir: PathBuf,
    is_own: bool,
    swept: Once,
}

impl Maker {
    pub fn new(tmpdir: &Path, is_own: bool) -> Self {
        Maker { tmpdir: tmpdir.to_owned(), is_own, swept: Once::new() }
    }

    fn try_make(&self, facts: &JobFacts<'_>) -> io::Result<Files> {
        let parent = open(&self.tmpdir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let system = fstatfs(&parent)?;
        let free = system.blocks_available().saturating_mul(system.block_size() as u64);
        if !COHERENT.contains(&system.filesystem_type()) {
            return Err(io::Error::other("a file system whose files may have several copies in memory"));
        }
        if free < FREE || getrlimit(Resource::RLIMIT_FSIZE)?.0 < SEGMENT {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let foreign = (facts.uid != geteuid().as_raw()).then_some((Uid::from_raw(facts.uid), Gid::from_raw(facts.gid)));
        let nspace = facts.nspace.as_bytes().to_vec();
        let (mut place, initial) = if self.is_own && foreign.is_none() {
            let directory = Directory::Servers(parent.try_clone()?, Vec::new());
            let mut place = Place { directory, foreign, path: self.tmpdir.clone(), nspace: nspace.clone() };
            match place.create_as(INITIAL_NAME) {
                Ok(initial) => (place, initial),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.apart(parent, foreign, nspace)?,
                Err(e) => return Err(e),
            }
        } else {
            self.swept.call_once(|| folder::sweep(&parent, DIRECTORY));
            self.apart(parent, foreign, nspace)?
        };
        initial.write_all_at(&[0; INITIAL], 0)?;
        let places = PLACES + PLACES_EACH * facts.local;
        place.create("smlockseg-", None)?.write_all_at(&layout::locks(places), 0)?;
        Ok(Files { place, initial, store: None })
    }

    /// Makes a directory for the files of a job, and the first of them.
    fn apart(&self, parent: OwnedFd, foreign: Option<(Uid, Gid)>, nspace: Vec<u8>) -> io::Result<(Place, File)> {
        let directory = folder::make(parent, DIRECTORY)?;
        if foreign.is_some() {
            fchmod(directory.opened(), Mode::from_bits_truncate(0o711))?;
        }
        let path = self.tmpdir.join(OsStr::from_bytes(directory.name()));
        let mut place = Place { directory: Directory::Own(directory), foreign, path, nspace };
        let initial = place.create_as(INITIAL_NAME)?;
        Ok((place, initial))
    }
}

impl MakesJobFiles for Maker {
    fn make(&self, facts: &JobFacts<'_>) -> Option<Box<dyn JobFiles>> {
        let name = facts.nspace.as_bytes();
        let euid = geteuid();
        let is_ours_to_give = euid.is_root() || euid.as_raw() == facts.uid;
        if facts.ranks > MOST_RANKS || name.len() > MAX_NSPACE || name.contains(&b'/') || !is_ours_to_give {
            return None;
        }
        match self.try_make(facts) {
            Ok(files) => Some(Box::new(files)),
            Err(e) => {
                trace!("stock clients of {} have no files with its data: {e}", facts.nspace);
                None
            }
        }
    }
}

/// A directory with files of a job.
#[derive(Debug)]
enum Directory {
    /// A directory of its own.
    Own(Kept),
    /// The server's, in which it has these files.
    Servers(OwnedFd, Vec<Vec<u8>>),
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Directory::Servers(directory, names) = self {
            // A file that cannot be removed goes with the directory.
            names
                .iter()
                .for_each(|name| _ = unlinkat(&*directory, OsStr::from_bytes(name), UnlinkatFlags::NoRemoveDir));
        }
    }
}

/// The directory of a job's files.
#[derive(Debug)]
struct Place {
    directory: Directory,
    /// User and group of the job, where they are not ours.
    foreign: Option<(Uid, Gid)>,
    path: PathBuf,
    nspace: Vec<u8>,
}

impl Place {
    /// Makes the file of the namespace with that prefix, and that number where it is one of several.
    fn create(&mut self, prefix: &str, number: Option<usize>) -> io::Result<File> {
        let number = number.map(|number| format!("-{number}")).unwrap_or_default();
        self.create_as(&[prefix.as_bytes(), &self.nspace, number.as_bytes()].concat())
    }

    fn create_as(&mut self, name: &[u8]) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o600);
        let file = match &mut self.directory {
            Directory::Own(directory) => openat(directory.opened(), OsStr::from_bytes(name), flags, mode)?,
            Directory::Servers(directory, names) => {
                let file = openat(&*directory, OsStr::from_bytes(name), flags, mode)?;
                names.push(name.to_vec());
                file
            }
        };
        // The mode holds, whatever the mask of this process is.
        fchmod(&file, mode)?;
        if let Some((uid, gid)) = self.foreign {
            fchown(&file, Some(uid), Some(gid))?;
        }
        Ok(file.into())
    }

    /// Makes files with places, all of whose pages are there: a rank that is not may be asked for.
    fn metas(&mut self, count: usize) -> io::Result<Vec<File>> {
        let make = |number| {
            let file = self.create("smseg-", Some(number))?;
            match fallocate(file.as_fd(), FallocateFlags::empty(), 0, SEGMENT as i64) {
                // Pages of files elsewhere than in memory need no room to be read.
                Err(Errno::EOPNOTSUPP) => ftruncate(&file, SEGMENT as i64)?,
                result => result?,
            }
            Ok(file)
        };
        (0..count).map(make).collect()
    }

    /// Makes files with records, of which nothing is read that was not written.
    fn datas(&mut self, count: usize) -> io::Result<Vec<File>> {
        let make = |number| {
            let file = self.create("smdataseg-", Some(number))?;
            ftruncate(&file, SEGMENT as i64)?;
            Ok(file)
        };
        (0..count).map(make).collect()
    }
}

/// The files of a job.
#[derive(Debug)]
struct Files {
    place: Place,
    initial: File,
    store: Option<(Store, Charges)>,
}

/// Charges for the bytes of files.
#[derive(Debug)]
struct Charges {
    account: Account,
    charged: u64,
    charges: Vec<Charge>,
}

impl Charges {
    /// Charges for so many bytes in all.
    fn cover(&mut self, bytes: u64) -> bool {
        while self.charged < bytes {
            let Some(charge) = self.account.charge(Kind::Files, CHARGED as usize) else { return false };
            self.charges.push(charge);
            self.charged += CHARGED;
        }
        true
    }
}

impl Files {
    fn create(&mut self, form: Form, said: &[Vec<Info>]) -> io::Result<Store> {
        let (mut counts, place) = ((0, 0), &mut self.place);
        let store = Store::create(form, said, |metas, datas| {
            counts = (metas, datas);
            Ok((place.metas(metas)?, place.datas(datas)?))
        })?;
        let named = layout::namespace(&self.place.nspace, counts.0, counts.1).ok_or(io::ErrorKind::InvalidInput)?;
        self.initial.write_all_at(&named, NAMESPACE_AT)?;
        // From here on all of it can be found.
        self.initial.write_all_at(&[1], 0)?;
        Ok(store)
    }
}

impl JobFiles for Files {
    fn variables(&self) -> Vec<(&'static str, Vec<u8>)> {
        let path = self.place.path.as_os_str().as_bytes().to_vec();
        vec![("PMIX_GDS_MODULE", b"ds21,hash".to_vec()), ("PMIX_DSTORE_21_BASE_PATH", path)]
    }

    fn begin(&mut self, form: Form, job: &dyn JobInformation, account: &Account) -> Result<bool, Status> {
        if let Some((store, _)) = &self.store {
            // Values have one encoding.
            return if store.form() == form { Ok(false) } else { Err(Status::ERR_NOT_SUPPORTED) };
        }
        let store = self.create(form, &said(job)?).map_err(|e| {
            trace!("the files with the data of {} cannot be written: {e}", job.nspace());
            Status::ERR_OUT_OF_RESOURCE
        })?;
        let account = account.of_its_job().clone();
        let store_bytes = store.bytes();
        let charge = account.force(Kind::Files, store_bytes as usize);
        self.store = Some((store, Charges { account, charged: store_bytes, charges: vec![charge] }));
        Ok(true)
    }

    fn renew(&mut self, job: &dyn JobInformation) {
        let Some((store, _)) = &mut self.store else { return };
        let Ok(said) = said(job) else { return };
        for (slot, infos) in said.iter().enumerate() {
            if let Err(e) = store.say(slot as u64, infos) {
                trace!("stock clients find the former information of {}: {e}", job.nspace());
            }
        }
    }

    fn posted(&mut self, rank: Rank, entries: &[FileEntry<'_>]) {
        let Some((store, charges)) = &mut self.store else { return };
        let mut left = MOST_POSTED;
        let mut len = 0;
        let fitting: Vec<FileEntry<'_>> = entries
            .iter()
            .map(|(key, value)| {
                let value = value.filter(|value| {
                    let bytes = value.kept_size();
                    let fits = bytes <= LONGEST_POSTED && bytes <= left;
                    if fits {
                        left -= bytes;
                        len += bytes + key.as_bytes().len();
                    }
                    fits
                });
                (*key, value)
            })
            .collect();
        let has_room = charges.cover(store.bytes() + len as u64);
        let entries = fitting.into_iter().map(|(key, value)| (key, value.filter(|_| has_room)));
        if let Err(e) = store.post(layout::slot(Some(rank.0)), entries) {
            trace!("stock clients will ask for what rank {rank} has posted: {e}");
        }
    }
}

/// Values that the host has given of the job, and then of each rank, that clients look for in the files.
fn said(job: &dyn JobInformation) -> Result<Vec<Vec<Info>>, Status> {
    let mut said = vec![Vec::new(); job.ranks() as usize + 1];
    said[0] = job.of_job()?.into_iter().filter(|info| !is_array(info)).collect();
    job.of_ranks(&mut (0..job.ranks()).map(Rank), &mut |infos| {
        let rank = infos.iter().find(|info| info.key == keys::RANK).and_then(|info| info.value.as_rank());
        if let Some(place) = rank.and_then(|rank| said.get_mut(rank.0 as usize + 1)) {
            *place = infos.into_iter().filter(|info| info.key != keys::RANK).collect();
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(said)
}

/// Returns whether an entry is one that clients keep by themselves, because the files have no place for it.
pub fn is_array(info: &Info) -> bool {
    [keys::NODE_INFO_ARRAY, keys::APP_INFO_ARRAY, keys::SESSION_INFO_ARRAY].iter().any(|key| info.key == **key)
}

#[cfg(test)]
mod tests;
