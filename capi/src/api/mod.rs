//! The exported functions, a file a family.
mod argv;
mod arrays;
mod constructors;
mod control;
mod data;
mod events;
mod fence;
mod info_lists;
mod infos;
mod init;
mod maps;
mod names;
pub(crate) mod server;
mod strings;
mod unsupported;
mod values;
