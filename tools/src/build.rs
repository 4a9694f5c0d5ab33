//! Build that this is: what a report of a fault needs beside the number of the release.
use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// Commit of the sources, where `make dist` found one.
const COMMIT: &str = match option_env!("INSTANTON_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Text of `--version`; `-V` has its first line alone.
pub fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let release = env!("CARGO_PKG_VERSION");
        let kind = if cfg!(debug_assertions) { "development" } else { "release" };
        let layout = instanton_layout::header::VERSION;
        format!("{release}\ncommit {COMMIT}, {kind} build, {ARCH}-{OS}\nlayout of shared memory {layout}")
    });
    &TEXT
}
