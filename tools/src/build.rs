//! Build that this is: what a report of a fault needs beside the number of the release.
use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// Number of the release.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// Commit of the sources, where `make dist` found one.
pub const COMMIT: &str = match option_env!("INSTANTON_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};
/// Kind of the build.
pub const KIND: &str = if cfg!(debug_assertions) { "development build" } else { "release build" };
/// Version of the layout of shared memory.
pub const LAYOUT: u32 = instanton_layout::header::VERSION;

/// The processor and the system that it is for.
pub fn target() -> String {
    format!("{ARCH}-{OS}")
}

/// Text of `--version`; `-V` has its first line alone.
pub fn version() -> &'static str {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| format!("{RELEASE}\ncommit {COMMIT}, {KIND}, {}\nlayout of shared memory {LAYOUT}", target()));
    &TEXT
}
