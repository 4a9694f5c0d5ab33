//! The socket between the guardian and the launcher, which both are born with.
//!
//! To the launcher go signals, a byte each. Nothing goes to the guardian. Each learns of the other's death when
//! the socket closes.
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use instanton::internal::sys::birth;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// Takes the launcher's end, whose number it was given; and the guardian's process id, which has made the socket.
///
/// # Errors
/// When there is no such socket.
pub fn inherited(number: i32) -> Result<(UnixStream, i32)> {
    let silent = "the guardian does not answer";
    let link = birth::inherited(number).map(UnixStream::from).context(silent)?;
    let guardian = getsockopt(&link, PeerCredentials).context(silent)?.pid();
    Ok((link, guardian))
}

/// Calls `act` with each signal that the guardian passes on, until the guardian is gone.
pub fn each_signal(mut link: UnixStream, mut act: impl FnMut(i32)) {
    let mut number = [0];
    loop {
        match link.read(&mut number) {
            Ok(1..) => act(i32::from(number[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}
