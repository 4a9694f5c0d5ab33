//! System calls that no crate wraps safely. The one module of this crate with `unsafe` in it.
#![allow(unsafe_code)]

#[cfg(feature = "server")]
pub mod process;
#[cfg(feature = "server")]
pub mod random;
#[cfg(feature = "server")]
pub mod snapshot;
