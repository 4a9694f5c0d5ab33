//! A Unix socket that answers HTTP with the counters: `curl --unix-socket PATH http://localhost/metrics`.
//!
//! The same user and root are answered. One reader is served after the other, each within a time limit.
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use instanton::internal::sys::socket;
use instanton::trace;
use instanton_layout::sync::{AtomicU32, Ordering};
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use std::sync::Arc;

use super::snapshot;
use crate::nodes::servers::Servers;

/// Time for a reader to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a question.
const LONGEST: usize = 8 << 10;

/// A thread that answers, until this is dropped.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    is_over: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

/// Begins to answer at a path.
///
/// # Errors
/// A path where somebody listens already, or where no socket can be made.
pub fn start(path: &Path, servers: Servers) -> Result<Door> {
    let shown = path.display();
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            bail!("--metrics: somebody listens at {shown} already");
        }
        fs::remove_file(path).with_context(|| format!("--metrics: {shown} is left over and cannot be removed"))?;
    }
    let listener = UnixListener::bind(path).with_context(|| format!("--metrics: no socket can be made at {shown}"))?;
    // A visitor that comes before that is asked for its user all the same.
    fs::set_permissions(path, Permissions::from_mode(0o600)).with_context(|| format!("--metrics: {shown}"))?;
    let is_over = Arc::new(AtomicU32::new(0));
    let seen = is_over.clone();
    let body = move || {
        for caller in listener.incoming() {
            if seen.load(Ordering::Acquire) != 0 {
                return;
            }
            match caller {
                Ok(caller) => {
                    if let Err(error) = answer(&caller, &servers) {
                        trace!("a reader of the counters is not answered: {error}");
                    }
                }
                // Without descriptors nobody can be answered: the next who comes is heard again.
                Err(error) => trace!("nobody can be told the counters: {error}"),
            }
        }
    };
    let thread = thread::Builder::new().name("metrics".into()).spawn(body).context("cannot start a thread")?;
    Ok(Door { path: path.into(), is_over, thread: Some(thread) })
}

fn answer(mut caller: &UnixStream, servers: &Servers) -> io::Result<()> {
    let uid = socket::peer(caller)?.uid;
    if uid != 0 && uid != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other(format!("it is of user {uid}")));
    }
    caller.set_read_timeout(Some(PATIENCE))?;
    caller.set_write_timeout(Some(PATIENCE))?;
    let until = Instant::now() + PATIENCE;
    let mut question = Vec::new();
    let mut chunk = [0; 1024];
    while !question.windows(4).any(|end| end == b"\r\n\r\n") {
        let n = caller.read(&mut chunk)?;
        question.extend_from_slice(&chunk[..n]);
        if n == 0 {
            break;
        }
        if question.len() > LONGEST || Instant::now() > until {
            return Err(io::Error::other("its question has no end"));
        }
    }
    let (status, body) = match question.starts_with(b"GET ") {
        true => ("200 OK", snapshot::text(servers)),
        false => ("405 Method Not Allowed", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    caller.write_all((head + &body).as_bytes())
}

impl Drop for Door {
    fn drop(&mut self) {
        self.is_over.store(1, Ordering::Release);
        // The thread that waits for the next caller gets one.
        let woken = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        if woken.is_ok() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}
