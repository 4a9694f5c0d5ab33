//! Memory that processes share: made, sealed and mapped.
//!
//! A segment is an anonymous file. Its maker maps it writable once, seals its size and every later writable mapping, takes
//! away the write permission and keeps a descriptor that was opened read-only: what a reader gets can neither be written
//! nor shortened. Its maker allocates every page before anything in it is written or referred to; of a large segment,
//! later ones [when they are needed](Mapping::take), because all of them at once take long. A reader that looks where
//! nothing is referred to takes no more by it than its maker was charged with. When the last descriptor and mapping are
//! gone, however their owners ended, the kernel frees it.
//!
//! With the feature `named-segments` a segment may be a file, which has no seals: its owner can shorten it under whoever
//! has mapped it, and is trusted not to.
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use instanton_layout::sync::Ordering;
use instanton_layout::words::{RawWords, RawWordsMut, Words, WordsMut};
use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, SealFlag, fallocate, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::ftruncate;

use super::fork::ForkMark;
use super::headroom;

/// Space is asked for in steps of this size, so that a limit is met between two of them and not in the middle of one.
const STEP: u64 = 1 << 20;

/// Memory is mapped in pages of this size, or of a multiple of it that the system takes care of.
const PAGE: usize = 4096;

/// Gives back to the system what the allocator keeps of memory that was freed.
///
/// Maps and columns of a large job are taken apart in buffers of many megabytes. The GNU allocator keeps such buffers
/// for the next time, and a server has no next time of that size for as long as the job runs.
#[cfg(feature = "server")]
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks and touches only memory that nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reason why there is no memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MemoryError {
    /// The system refused.
    #[error("{call} for {len} bytes of shared memory: {error}")]
    System {
        /// System call that was made.
        call: &'static str,
        /// For how much.
        len: u64,
        /// Its answer.
        error: io::Error,
    },
    /// Taking it would bring the OOM killer on.
    #[error("{0}")]
    Headroom(#[from] headroom::TooLittle),
}

/// Reason why a descriptor cannot be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The system refused to map it.
    #[error("{}", refused(call, error))]
    System {
        /// System call that was made.
        call: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// The memory could be shortened under the reader.
    #[error("it is not sealed against changes of its size, as segments are (seals {seals:#x})")]
    Unsealed {
        /// The seals it has.
        seals: i32,
    },
    /// Its size cannot be that of a segment.
    #[error("it has {len} bytes; a segment has 64 at least, in words of 8")]
    Size {
        /// Bytes it has.
        len: i64,
    },
}

fn system(call: &'static str, len: u64) -> impl Fn(nix::Error) -> MemoryError {
    move |error| MemoryError::System { call, len, error: error.into() }
}

/// A mapping of a whole segment.
pub(crate) struct Mapping {
    raw: ManuallyDrop<MmapRaw>,
    /// Its words, at hand; for as long as `raw`.
    words: RawWords<'static>,
    writable: bool,
    /// True of a segment that this process has made.
    is_own: bool,
    /// Says in a forked child, which has not inherited it, that something else may lie there by now.
    mark: Option<ForkMark>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.mark.as_ref().is_some_and(ForkMark::is_inherited) {
            return;
        }
        // SAFETY: it is not used after this.
        let raw = unsafe { ManuallyDrop::take(&mut self.raw) };
        // A process that lets go of its own memory last is not held up by that. A client has others' mappings gone at
        // once.
        #[cfg(feature = "server")]
        if self.is_own {
            return super::later::drop_sized(raw.len(), raw);
        }
        drop(raw);
    }
}

impl Mapping {
    fn new(raw: impl Into<MmapRaw>, writable: bool) -> Self {
        let raw: MmapRaw = raw.into();
        let base = NonNull::new(raw.as_mut_ptr().cast()).expect("a mapping is not at address 0");
        // SAFETY:
        // - a mapping begins on a page; its words are only handed out for as long as it is borrowed, and it stays where
        //   it is
        // - its length was allocated and sealed, or its owner is trusted not to shorten it, so that no access faults
        // - all access in this process goes through words
        let words = unsafe { RawWords::new(base, raw.len() / 8) };
        Self { raw: ManuallyDrop::new(raw), words, writable, is_own: false, mark: ForkMark::new().ok() }
    }

    /// Marks it as that of a segment which this process has made.
    pub(crate) fn own(&mut self) {
        self.is_own = true;
    }

    /// Its words.
    #[inline(always)]
    pub(crate) fn words(&self) -> RawWords<'_> {
        self.words
    }

    /// Its words, to be written.
    ///
    /// # Panics
    /// When it was mapped read-only.
    #[inline]
    pub(crate) fn words_mut(&self) -> RawWordsMut<'_> {
        assert!(self.writable, "a store to a read-only mapping");
        // SAFETY: it is writable.
        unsafe { self.words.writable() }
    }

    /// Bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Maps the pages of `len` bytes from byte `at` in one go, instead of a fault each. Only a hint.
    pub(crate) fn populate(&self, at: usize, len: usize) {
        let from = at.min(self.raw.len()) / PAGE * PAGE;
        let to = at.saturating_add(len).min(self.raw.len());
        if from < to {
            // Kernels before 5.14 do not know it; then the pages come when they are looked at.
            let _ = self.raw.advise_range(Advice::PopulateRead, from, to - from);
        }
    }

    /// Takes memory from the system for `len` bytes from byte `at`, where it has none there.
    ///
    /// # Errors
    /// [`MemoryError`]; some of it may be taken then.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only servers write"))]
    pub(crate) fn take(&self, at: usize, len: usize) -> Result<(), MemoryError> {
        let end = (at + len).min(self.raw.len());
        let mut from = at / PAGE * PAGE;
        while from < end {
            let step = (end - from).min(STEP as usize);
            headroom::require(step as u64)?;
            match self.raw.advise_range(Advice::PopulateWrite, from, step) {
                Ok(()) => from += step,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(MemoryError::System { call: "madvise", len: len as u64, error }),
            }
        }
        Ok(())
    }

    /// Private zeroed memory of this process, which costs nothing until it is touched.
    pub(crate) fn private(len: usize) -> io::Result<Self> {
        let raw = MmapOptions::new().len(len.max(8).next_multiple_of(8)).map_anon()?;
        Ok(Self::new(raw, true))
    }

    /// Private memory of this process with the same words as of now.
    #[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only servers write"))]
    pub(crate) fn copy(&self) -> io::Result<Self> {
        let copy = Self::private(self.len())?;
        let words = copy.words_mut();
        for at in 0..self.len() / 8 {
            let word = self.words.load(at).map_err(io::Error::other)?;
            words.store(at, word, Ordering::Relaxed);
        }
        Ok(copy)
    }

    /// A segment that the sender can neither shorten nor grow, to be read.
    pub(crate) fn read_only(fd: BorrowedFd<'_>) -> Result<Self, MapError> {
        let len = sealed_len(fd)?;
        let raw = MmapOptions::new().len(len).map_raw_read_only(fd.as_raw_fd());
        let raw = raw.map_err(|error| MapError::System { call: "mmap", error })?;
        Ok(Self::new(raw, false))
    }

    /// A segment that is not sealed, whose owner is trusted not to shorten it while it is mapped, to be read.
    #[cfg(feature = "named-segments")]
    pub(crate) fn of_trusted(fd: BorrowedFd<'_>) -> Result<Self, MapError> {
        let len = whole_len(fd)?;
        let raw = MmapOptions::new().len(len).map_raw_read_only(fd.as_raw_fd());
        let raw = raw.map_err(|error| MapError::System { call: "mmap", error })?;
        Ok(Self::new(raw, false))
    }

    /// Private memory of this process with what a file has in it now. Nobody needs to be trusted for it: where the file
    /// becomes shorter meanwhile, that is an error.
    #[cfg(feature = "named-segments")]
    pub(crate) fn copy_of(file: &std::fs::File) -> Result<Self, MapError> {
        use std::os::unix::fs::FileExt;
        let failed = |error| MapError::System { call: "pread", error };
        let len = whole_len(file.as_fd())?;
        let copy = Self::private(len).map_err(|error| MapError::System { call: "mmap", error })?;
        let words = copy.words_mut();
        let mut bytes = vec![0; (CHUNK * 8).min(len)];
        for at in (0..len).step_by(CHUNK * 8) {
            let bytes = &mut bytes[..(CHUNK * 8).min(len - at)];
            file.read_exact_at(bytes, at as u64).map_err(failed)?;
            for (word, bytes) in (at / 8..).zip(bytes.as_chunks::<8>().0) {
                // Zeros are there already, and take no memory until they are touched.
                if bytes != &[0; 8] {
                    words.store(word, u64::from_le_bytes(*bytes), Ordering::Relaxed);
                }
            }
        }
        Ok(copy)
    }

    /// A reader's own page, to be written by it. A forked child does not inherit it.
    #[cfg_attr(not(feature = "client"), allow(dead_code, reason = "only clients have pages"))]
    pub(crate) fn reader_page(fd: BorrowedFd<'_>) -> Result<Self, MapError> {
        let len = sealed_len(fd)?;
        let raw = MmapOptions::new().len(len).map_raw(fd.as_raw_fd());
        let raw = raw.map_err(|error| MapError::System { call: "mmap", error })?;
        keep_from_children(&raw);
        Ok(Self::new(raw, true))
    }
}

fn refused(call: &str, error: &io::Error) -> String {
    match call {
        SEALS if error.raw_os_error() == Some(libc::EINVAL) => "the descriptor is none of shared memory".to_owned(),
        _ => format!("{call}: {error}"),
    }
}

/// The call that says how a descriptor is sealed; that of another file than memory has no seals.
const SEALS: &str = "fcntl(F_GET_SEALS)";

fn sealed_len(fd: BorrowedFd<'_>) -> Result<usize, MapError> {
    let failed = |call| move |error: nix::Error| MapError::System { call, error: error.into() };
    let seals = fcntl(fd, FcntlArg::F_GET_SEALS).map_err(failed(SEALS))?;
    let size_seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    if !SealFlag::from_bits_truncate(seals).contains(size_seals) {
        return Err(MapError::Unsealed { seals });
    }
    whole_len(fd)
}

fn whole_len(fd: BorrowedFd<'_>) -> Result<usize, MapError> {
    let len = fstat(fd).map_err(|error| MapError::System { call: "fstat", error: error.into() })?.st_size;
    match usize::try_from(len) {
        Ok(size) if size >= 64 && size % 8 == 0 => Ok(size),
        _ => Err(MapError::Size { len }),
    }
}

/// A new segment: its only writable mapping, the read-only descriptor that readers get, and the bytes from its beginning
/// that it has memory for. For the rest memory is [taken](Mapping::take) later.
pub(crate) fn segment(name: &[u8], len: u64) -> Result<(Mapping, OwnedFd, usize), MemoryError> {
    let writable = anonymous(name, len)?;
    if len <= STEP {
        let (writable, mapping) = fill(writable, len)?;
        return Ok((mapping, sealed(&writable, len)?, len as usize));
    }
    headroom::require(STEP)?;
    allocate(&writable, 0, STEP).map_err(system("fallocate", len))?;
    ftruncate(&writable, len as i64).map_err(system("ftruncate", len))?;
    let mapping = map(&writable, len)?;
    if mapping.raw.advise_range(Advice::PopulateWrite, 0, PAGE).is_ok() {
        return Ok((mapping, sealed(&writable, len)?, STEP as usize));
    }
    // Kernels before 5.14 take no memory by a mapping without a fault that may end the process.
    let (writable, mapping) = fill(writable, len)?;
    Ok((mapping, sealed(&writable, len)?, len as usize))
}

/// A new segment of so many bytes, which `write` is given a function for to write its words, one piece behind the
/// other; its maker does not write it either any more. A write to a file takes fewer faults than a store in a mapping,
/// and none of it counts as this process's before it is read.
pub(crate) fn frozen_segment(
    name: &[u8],
    len: u64,
    write: impl FnOnce(&mut dyn FnMut(&[u64]) -> Result<(), MemoryError>) -> Result<(), MemoryError>,
) -> Result<(Mapping, OwnedFd), MemoryError> {
    freeze(anonymous(name, len)?.into(), len, write, |file| sealed(file, len))
}

/// A new segment in an empty file, with words that change no more; `fd` is the same file, open for reading.
#[cfg(feature = "named-segments")]
pub(crate) fn frozen_segment_in(
    file: OwnedFd,
    fd: OwnedFd,
    len: u64,
    write: impl FnOnce(&mut dyn FnMut(&[u64]) -> Result<(), MemoryError>) -> Result<(), MemoryError>,
) -> Result<(Mapping, OwnedFd), MemoryError> {
    freeze(file.into(), len, write, |_| Ok(fd))
}

/// Writes a file and maps it as readers get it, by the descriptor that `finish` makes.
fn freeze(
    mut file: std::fs::File,
    len: u64,
    write: impl FnOnce(&mut dyn FnMut(&[u64]) -> Result<(), MemoryError>) -> Result<(), MemoryError>,
    finish: impl FnOnce(&std::fs::File) -> Result<OwnedFd, MemoryError>,
) -> Result<(Mapping, OwnedFd), MemoryError> {
    let (mut written, mut required) = (0, 0);
    let mut bytes = vec![0; (CHUNK * 8).min(len as usize)];
    write(&mut |piece| {
        for words in piece.chunks(CHUNK) {
            let bytes = &mut bytes[..words.len() * 8];
            bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
            written += bytes.len() as u64;
            if written > required {
                let step = STEP.min(len - required);
                headroom::require(step)?;
                required += step;
            }
            file.write_all(bytes).map_err(|error| MemoryError::System { call: "write", len, error })?;
        }
        Ok(())
    })?;
    let fd = finish(&file)?;
    let mapped = MmapOptions::new().len(len as usize).map_raw_read_only(fd.as_raw_fd());
    let raw = mapped.map_err(|error| MemoryError::System { call: "mmap", len, error })?;
    keep_from_children(&raw);
    Ok((Mapping::new(raw, false), fd))
}

/// Keeps a mapping out of forked children. Where the system refuses, a child has it for as long as it lives: that takes
/// address space of its own and nothing else, because no call of the library goes on in a child.
fn keep_from_children(raw: &MmapRaw) {
    let _ = raw.advise(Advice::DontFork);
}

/// Words that are written at once, in a buffer that stays close.
const CHUNK: usize = 8 << 10;

/// Seals a segment and opens it as readers get it.
fn sealed(writable: &(impl AsFd + AsRawFd), len: u64) -> Result<OwnedFd, MemoryError> {
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_SEAL;
    fcntl(writable, FcntlArg::F_ADD_SEALS(seals)).map_err(system("fcntl(F_ADD_SEALS)", len))?;
    fchmod(writable, Mode::S_IRUSR | Mode::S_IRGRP | Mode::S_IROTH).map_err(system("fchmod", len))?;
    let path = format!("/proc/self/fd/{}", writable.as_raw_fd());
    let fd = open(path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
    fd.map_err(system("open(/proc/self/fd)", len))
}

/// A look at whether others have a segment. Its maker must have closed the descriptor that others were given.
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only writers look"))]
pub(crate) struct Watch(OwnedFd);

#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "only writers look"))]
impl Watch {
    /// Will look at the segment with this descriptor.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(fd: &OwnedFd) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        Ok(Self(open(path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?))
    }

    /// Returns whether anybody has the segment mapped, or a descriptor of it: then the kernel lends it to nobody. Where
    /// it lends none at all, nobody knows, and this is false.
    pub(crate) fn is_held(&self) -> bool {
        let call = |command: libc::c_int, argument: libc::c_int| {
            // SAFETY: these commands take a number, and touch no memory of this process.
            unsafe { libc::fcntl(self.0.as_raw_fd(), command, argument) }
        };
        // Somebody who opens it in between has this process signalled: by a signal that does nothing.
        if call(F_SETSIG, libc::SIGURG) < 0 {
            return false;
        }
        let is_held =
            call(libc::F_SETLEASE, libc::F_WRLCK) < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
        call(libc::F_SETLEASE, libc::F_UNLCK);
        is_held
    }
}

/// The command that names the signal for a descriptor; the crate libc does not know it everywhere.
const F_SETSIG: libc::c_int = 10;

/// A new reader page: the maker's mapping, and the writable descriptor for the reader.
pub(crate) fn reader_page(len: u64) -> Result<(Mapping, OwnedFd), MemoryError> {
    let (fd, mapping) = create(b"instanton-page", len)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals)).map_err(system("fcntl(F_ADD_SEALS)", len))?;
    Ok((mapping, fd))
}

fn create(name: &[u8], len: u64) -> Result<(OwnedFd, Mapping), MemoryError> {
    fill(anonymous(name, len)?, len)
}

/// A new segment in an empty file: its only writable mapping.
#[cfg(feature = "named-segments")]
pub(crate) fn segment_in(file: OwnedFd, len: u64) -> Result<Mapping, MemoryError> {
    fill(file, len).map(|(_, mapping)| mapping)
}

/// Takes memory for an empty file, and maps it.
fn fill(fd: OwnedFd, len: u64) -> Result<(OwnedFd, Mapping), MemoryError> {
    let mut at = 0;
    while at < len {
        let step = STEP.min(len - at);
        headroom::require(step)?;
        allocate(&fd, at, step).map_err(system("fallocate", len))?;
        at += step;
    }
    let mapping = map(&fd, len)?;
    Ok((fd, mapping))
}

/// Maps a whole file, to be written.
fn map(fd: &OwnedFd, len: u64) -> Result<Mapping, MemoryError> {
    let mapped = MmapOptions::new().len(len as usize).map_raw(fd.as_raw_fd());
    let raw = mapped.map_err(|error| MemoryError::System { call: "mmap", len, error })?;
    keep_from_children(&raw);
    Ok(Mapping::new(raw, true))
}

fn anonymous(name: &[u8], len: u64) -> Result<OwnedFd, MemoryError> {
    memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).map_err(system("memfd_create", len))
}

fn allocate(fd: &impl AsFd, at: u64, step: u64) -> nix::Result<()> {
    loop {
        match fallocate(fd, FallocateFlags::empty(), at as i64, step as i64) {
            Err(nix::Error::EINTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    /// A child inherits no segment, so its own may lie where its parent's does.
    #[test]
    fn a_child_that_lets_go_of_its_parents_segment_keeps_its_own() {
        const LEN: u64 = 4096;
        let inherited = segment(b"parent", LEN).unwrap().0;
        let _alone = super::super::COPIES.write();
        // SAFETY: the child calls nothing but this module, the allocator, which glibc has ready in a child, and _exit.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let place = inherited.raw.as_mut_ptr();
                // SAFETY: a mapping of its own, at a place where this process has none.
                let own = unsafe {
                    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                    libc::mmap(place.cast(), LEN as usize, access, kind | libc::MAP_FIXED_NOREPLACE, -1, 0)
                };
                drop(inherited);
                // SAFETY: the mapping, as long as this process has kept it; then it ends at once, as it must.
                unsafe {
                    if own == place.cast() {
                        own.cast::<u64>().write_volatile(1);
                    }
                    libc::_exit(if own == place.cast() { 0 } else { 2 })
                }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
                assert_eq!(inherited.words().load(0), Ok(0));
            }
        }
    }
}
