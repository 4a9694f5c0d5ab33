//! Costs of Instanton beside the stock library: measuring them, and showing the results.
//!
//! | where | what |
//! |---|---|
//! | `c/` | programs over the public C interface: a host, and clients that time their calls. They print samples, see `c/bench.h` |
//! | `src/bin/side_by_side.rs` | runs them with either library and prints one table: `make bench` |
//! | `src/bin/scale.rs` | registers jobs of a thousand to a million ranks and draws what it costs |
//! | `src/bin/readers.rs` | readers on every core, beside a writer that never stops |
//! | `benches/store.rs` | criterion's view of the store's operations: `cargo bench -p instanton-benches` |

pub mod chart;
pub mod grid;
pub mod jobs;
pub mod machine;
pub mod run;
pub mod samples;
pub mod table;
pub mod units;
pub mod up;
