//! The functions that are exported but not served yet, see the table `docs/NOT_SUPPORTED.md`.
//!
//! Programs that bind every symbol when they start need them all. The Standard lets a function say
//! `PMIX_ERR_NOT_SUPPORTED`; those that cannot say it do nothing, or give NULL or false.
include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
