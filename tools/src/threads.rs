//! Threads of the launcher.
use std::thread;

use anyhow::{Context, Result};

/// Starts a thread.
pub fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
