//! A terminal as standard input.
//!
//! A terminal is read by the process group in its foreground; any other that tries is stopped. The ranks have groups of
//! their own, so that the guardian, which is in the foreground when the job is, reads for them. In the background it
//! lets the terminal be and looks again when it is continued, which is what a shell's `fg` does.
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getpgrp, tcgetpgrp};

/// Copies our standard input to `sink` in a thread of its own, which wants to be told of every SIGCONT.
pub fn relay(sink: PipeWriter) -> Result<mpsc::Sender<()>> {
    let (continued, wake) = mpsc::channel();
    thread::Builder::new()
        .name("terminal".into())
        .spawn(move || copy(sink, &wake))
        .context("cannot start a thread for the terminal")?;
    Ok(continued)
}

/// Ends at the end of file, when nobody reads the copy any more, or with the process.
fn copy(mut sink: PipeWriter, continued: &mpsc::Receiver<()>) {
    let mut input = io::stdin();
    let mut chunk = [0; 4096];
    loop {
        if !is_foreground() {
            match continued.recv() {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) if is_foreground() => {}
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => return,
        }
        match input.read(&mut chunk) {
            Ok(count @ 1..) if sink.write_all(&chunk[..count]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

fn is_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}
