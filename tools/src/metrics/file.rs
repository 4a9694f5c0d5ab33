//! A file with the counters, for a collector that reads files. It is written beside its name and renamed: whoever reads
//! it finds a whole one.
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use instanton::trace;

use super::snapshot;
use crate::nodes::servers::Servers;

/// Time between two writes.
const PERIOD: Duration = Duration::from_secs(5);

/// A thread that writes, until this is dropped: then once more, for the last values.
#[derive(Debug)]
pub struct Writer {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Begins to write.
///
/// # Errors
/// A file that cannot be written.
pub fn start(path: &Path, servers: Servers) -> Result<Writer> {
    write(path, &snapshot::text(&servers))
        .with_context(|| format!("--metrics: {} cannot be written", path.display()))?;
    let (end, ended) = mpsc::channel::<()>();
    let path: PathBuf = path.into();
    let body = move || loop {
        let is_over = ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
        if let Err(error) = write(&path, &snapshot::text(&servers)) {
            trace!("{} cannot be written: {error}", path.display());
        }
        if is_over {
            return;
        }
    };
    let thread = thread::Builder::new().name("metrics".into()).spawn(body).context("cannot start a thread")?;
    Ok(Writer { end: Some(end), thread: Some(thread) })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let written = File::options().write(true).create(true).truncate(true).mode(0o644).open(&beside);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes())).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&beside);
    }
    written
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.end.take());
        // It ends after one more write.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
