//! Views of what runs, and why it hangs. Nothing here changes what it looks at.
//!
//! The commands that look into servers share one way: [places] lists the servers that let tools in, a [source] is a
//! connection to one with a time limit for each answer, and [jobs] reads plain data by it. A value that a server does
//! not tell stays empty. [`ps`](mod@ps), [`query`](mod@query) and [`info`](mod@info) show such data as a [table], as a
//! tree or as [JSON](json), [`events`](mod@events) shows what passes, and [top] looks again and again. A server that
//! dies or hangs is told of, and the others are shown.
//!
//! A server knows who waits ([`WaitReport`](instanton::data::WaitReport)): that becomes a [table](waiting), at any time
//! and when a run hangs, with those who are [missing] on other nodes, and the [stacks] of processes are added where somebody wants them.
mod answers;
pub mod events;
pub mod info;
pub mod job_row;
mod jobs;
mod json;
pub mod missing;
mod patience;
mod places;
pub mod ps;
pub mod query;
mod source;
pub mod stacks;
pub mod table;
mod times;
pub mod top;
mod tree;
pub mod waiting;

pub use table::width;
