//! What needs `unsafe` or a system call that no crate wraps. Everything above this module is safe Rust.
#![allow(unsafe_code, reason = "this is the place for it")]

pub(crate) mod headroom;
pub(crate) mod memory;
