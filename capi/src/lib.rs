//! `libpmix.so.2`: the C ABI of Instanton.
#![allow(non_snake_case, reason = "the exported names are the Standard's")]
mod alloc;
mod api;
mod arena;
mod boundary;
mod callbacks;
mod convert;
mod evidence;
mod foreign;
mod handles;
mod host;
mod kept;
mod kind;
mod module;
mod objects;
mod owned;
mod packed;
mod print;
mod registration;
mod running;
mod session;
mod slot;
mod text;
mod types;

/// The names of the frameworks that a modular library would have: Open MPI asks which of its parameters are meant for
/// this one. None are.
#[unsafe(no_mangle)]
pub static pmix_framework_names: FrameworkNames = FrameworkNames([std::ptr::null()]);

/// A NULL-terminated array of strings.
#[repr(transparent)]
pub struct FrameworkNames([*const libc::c_char; 1]);

// SAFETY: it never changes.
unsafe impl Sync for FrameworkNames {}
