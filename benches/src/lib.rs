//! Benchmarks of Instanton, one a part, named after operations: `cargo bench -p instanton-benches`.
