//! `libinstanton_store.so.0`: the store for servers written in C.
//!
//! `header/table.txt` has every function of it, with what it does and the threads that may call it; the header, the list
//! of exports and the manual pages are made from there.
#![allow(non_camel_case_types, reason = "the header's names")]
mod boundary;
mod flat;
mod job;
mod layout;
mod table;
mod types;
mod view;
