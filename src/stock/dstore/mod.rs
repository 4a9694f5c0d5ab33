//! Files from which stock clients of releases 3.2 to 4.2 read the data of their job, as they do under their own server.
//!
//! A client opens two of them before it connects: the lock file, in which it takes a pair of mutexes for itself, and
//! the list of namespaces. Both are made when the processes of a job are registered ([`files`]); the others when the
//! first client has come that has chosen this way, which it says in its acknowledgement.
//!
//! This side only writes ([`store`]), to files that it keeps open and whose content it knows without reading. It takes
//! no mutex, so a client that is killed while it holds one is in nobody's way. A reader takes a mutex that nobody else
//! has, and so is told nothing by it: each write must be right for a reader that looks between it and the next. That a
//! later write is seen no earlier holds because the kernel copies the bytes of a write into the very pages that readers
//! have mapped, by stores of this thread, and x86-64 keeps stores and loads in their order. On aarch64 a reader might
//! see a flag and not yet what it stands for.
//!
//! A process of another word size finds no mutex in the lock file, and goes without; so does one whose path to the
//! files leads nowhere, as in another container. One of another C library uses the mutexes within itself alone, where
//! all of them are good that are zeroes.
use std::path::Path;

use crate::message::door::MakesJobFiles;

mod files;
mod layout;
mod store;

pub use files::is_array;

/// Returns the maker of the files of jobs below a directory, where this machine is one whose processes read them. The
/// directory may be the server's own.
pub fn maker(tmpdir: &Path, is_own: bool) -> Option<Box<dyn MakesJobFiles>> {
    let is_one = cfg!(all(target_arch = "x86_64", target_env = "gnu"));
    is_one.then(|| Box::new(files::Maker::new(tmpdir, is_own)) as _)
}
