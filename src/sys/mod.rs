//! System calls that no crate wraps: the one module of this crate with `unsafe` in it.
//!
//! Every function here is safe to call. Each block says what it assumes of the kernel.
#![allow(unsafe_code, reason = "this is the place for it")]

/// A forked child has a copy of every descriptor for a moment. A test that forks holds this alone, and those together
/// that expect an end to be seen as soon as they close theirs.
#[cfg(test)]
static COPIES: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Returns the bytes that `write` makes of so many zeroes: for tests of what writes to memory that has nothing in it.
#[cfg(test)]
pub(crate) fn written(len: usize, write: impl FnOnce(&mut [std::mem::MaybeUninit<u8>])) -> Vec<u8> {
    let mut room = vec![std::mem::MaybeUninit::new(0); len];
    write(&mut room);
    // SAFETY: each byte was there from the beginning, and no test takes one away.
    room.iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

/// Returns the bytes of a mutex that processes share, as this machine's library makes it.
#[cfg(all(test, target_arch = "x86_64", target_env = "gnu"))]
pub(crate) fn shared_mutex() -> [u8; size_of::<libc::pthread_mutex_t>()] {
    let mut mutex = [0u8; size_of::<libc::pthread_mutex_t>()];
    // SAFETY: all of it is plain memory, which the library writes, and which is as large as it says; nobody locks it.
    unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&raw mut attributes);
        libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
        let mut made: libc::pthread_mutex_t = std::mem::zeroed();
        libc::pthread_mutex_init(&raw mut made, &raw const attributes);
        libc::pthread_mutexattr_destroy(&raw mut attributes);
        std::ptr::copy_nonoverlapping((&raw const made).cast(), mutex.as_mut_ptr(), mutex.len());
    }
    mutex
}

#[cfg(feature = "server")]
pub mod birth;
pub mod cell;
#[cfg(feature = "server")]
pub mod directory;
#[cfg(feature = "server")]
pub mod exec_stop;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod headroom;
#[cfg(feature = "server")]
pub mod hwloc;
#[cfg(feature = "server")]
pub mod interfaces;
#[cfg(feature = "server")]
pub mod later;
#[cfg(feature = "server")]
mod loaded;
#[cfg(feature = "named-segments")]
pub(crate) mod lock;
pub(crate) mod memory;
#[cfg(feature = "server")]
pub mod munge;
pub(crate) mod pin;
#[cfg(feature = "server")]
pub mod probe;
#[cfg(feature = "server")]
pub mod process;
#[cfg_attr(not(any(feature = "server", test)), expect(dead_code, reason = "the store asks for one of its counts"))]
pub mod queue;
pub mod random;
#[cfg(feature = "server")]
pub mod regular_file;
pub(crate) mod scratch;
#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "the store starts threads with it"))]
pub mod signals;
#[cfg(feature = "server")]
pub mod sock_diag;
pub mod socket;
#[cfg(feature = "server")]
pub mod spawn;
#[cfg(feature = "server")]
pub mod stopwatch;
pub mod strays;
#[cfg(feature = "client")]
pub mod table;
#[cfg(all(test, feature = "server"))]
pub(crate) mod test_directory;
