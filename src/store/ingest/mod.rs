//! Job information as a host gives it, until it is ready to be written.
//!
//! [`JobInfoBuilder`] sorts attributes by level. Values of processes go to a [`column builder`](column_builder) for
//! each key and type. [`placement`] then completes the rest from the maps, and the [`column_planner`] decides which
//! values become columns.
mod arrays;
mod builder;
mod column_builder;
pub(super) mod column_planner;
mod contradiction;
pub(super) mod entries;
mod hash_index;
pub(super) mod interner;
pub(super) mod job_info;
mod node_names;
pub(super) mod nodes;
mod packed_ints;
mod partition;
mod placement;
mod proc_writer;
mod process_map;
mod rank_list;

pub use arrays::Placement;
pub use builder::JobInfoBuilder;
pub use contradiction::Contradiction;
pub use job_info::JobInfo;
pub use proc_writer::{KeySlot, ProcWriter};

#[cfg(test)]
mod tests;
