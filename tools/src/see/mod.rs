//! Views of what runs: who waits for whom, and where.
//!
//! A server knows who waits ([`WaitReport`](instanton::data::WaitReport)); here that becomes a [table](waiting), and the
//! [stacks] of processes are added where somebody wants them. Nothing here changes what it looks at.
pub mod stacks;
pub mod table;
pub mod waiting;

pub use table::width;
