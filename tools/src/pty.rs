//! Pseudo-terminals as the standard output of ranks: a program that writes to a terminal writes every line at once.
//!
//! Such a terminal changes no byte, is nobody's controlling terminal, and is read to its end like a pipe: when the last
//! process that holds it has closed it, or is dead, what it has written is still there.
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// A terminal: the end that is read, and the one that is written to.
///
/// # Errors
/// When the system has no more terminals.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let pair = openpty(None, None)?;
    for end in [pair.master.as_fd(), pair.slave.as_fd()] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    let mut settings = tcgetattr(&pair.slave)?;
    cfmakeraw(&mut settings);
    tcsetattr(&pair.slave, SetArg::TCSANOW, &settings)?;
    Ok((pair.master, pair.slave))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn bytes_pass_as_they_are_and_are_there_when_the_writer_is_gone() {
        let _ends = crate::COPIES.read();
        let (reader, writer) = pair().unwrap();
        let text: Vec<u8> = (0..=255).chain(*b"a\n\t\r\n").collect();
        File::from(writer).write_all(&text).unwrap();
        let mut read = Vec::new();
        // At the end there is an error instead of nothing.
        let _ = File::from(reader).read_to_end(&mut read);
        assert_eq!(read, text);
    }
}
