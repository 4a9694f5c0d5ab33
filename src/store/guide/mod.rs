//! Three pages for whoever embeds the store in a server of their own: [the writer](writing),
//! [the hand-over](handing_over), [the readers](reading).
//!
//! A fourth, on names, comes with the feature `named-segments`.
//!
//! `examples/embedded.rs` puts all of it together: four nodes of eight ranks each, under a server that is not ours.

#[doc = include_str!("writing.md")]
pub mod writing {}

#[doc = include_str!("handing_over.md")]
pub mod handing_over {}

#[doc = include_str!("reading.md")]
pub mod reading {}

#[cfg(feature = "named-segments")]
#[doc = include_str!("naming.md")]
pub mod naming {}
