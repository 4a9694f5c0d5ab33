//! `pmix_mca_gds_instanton.so`: the store under servers of the reference implementation, as a plug-in of theirs.
//!
//! Three actors. The *host* is the PMIx library of an unmodified server (`mpirun`, a daemon of Slurm or PRRTE), which
//! finds this plug-in by its file name and asks it for a *module* of functions. The *keeper* writes what passes through
//! the module into segments, and hands them out. *Readers* are processes with this project's client library, which find
//! the segments by their environment and read them in place.
//!
//! Everything is passed on to the host's own module `hash`, which answers whom it answered before; nobody who does not
//! ask for this plug-in by name gets anything to do with it. So a process that cannot use the segments loses nothing,
//! and neither does the host when the plug-in gives up. It costs the memory of what is kept twice on the server's side.
//!
//! In processes on a host's library that asks its module on the thread of its caller, the plug-in is a reader itself
//! (`client`).
//!
//! A crash of the server is the worst that can happen, hence: releases are served by their exact name (`abi`); the
//! library that has called is looked at, and no other (`host`); its objects are read where the kernel can (`memory`),
//! and count if they prove to be what they are taken for (`proof`); panics end at the module's functions (`module`).
//!
//! When the server dies, its segments go on being read, and go with their last reader.
mod abi;
mod client;
mod environment;
mod host;
mod keeper;
mod memory;
mod module;
mod proof;

use std::ffi::c_int;

use abi::{Component, Module};

/// The plug-in, as hosts find it.
#[unsafe(no_mangle)]
pub static pmix_mca_gds_instanton_component: Component = Component {
    mca_version: [2, 1, 0],
    project: name(b"pmix"),
    project_version: [4, 2, 2],
    framework: name(b"gds"),
    framework_version: [abi::INTERFACE, 0, 0],
    name: name(b"instanton"),
    version: [0, 1, 0],
    open: None,
    close: None,
    query: Some(query),
    register: None,
    reserved: [0; 32],
    data: [2, 0, 0, 0, 0, 0, 0, 0, 0],
    unused: 0,
};

const fn name<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < text.len() {
        bytes[at] = text[at];
        at += 1;
    }
    bytes
}

/// Hands the address that it was called from on: only that tells which of several libraries has called.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn query(module: *mut *const Module, priority: *mut c_int) -> c_int {
    std::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym query_from)
}

/// Layouts are known of one architecture alone.
#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn query(module: *mut *const Module, priority: *mut c_int) -> c_int {
    // SAFETY: as promised by the caller; no library is at that address.
    unsafe { query_from(module, priority, std::ptr::null()) }
}

unsafe extern "C" fn query_from(
    module: *mut *const Module,
    priority: *mut c_int,
    caller: *const std::ffi::c_void,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { module::query(module, priority, caller) }
}
