//! The `instanton` command.
fn main() {}
