//! Files that others name, and that may be something else by the time they are opened.
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// Opens a regular file to read it, and nothing else: a FIFO would be waited for, and a device does as it likes. The
/// open file is looked at and not the name, which may lead to another file by then.
///
/// # Errors
/// The kernel's; `EACCES` for what is no regular file, as the kernel says of one that is to be executed.
pub fn open(path: &Path) -> io::Result<File> {
    // The standard library closes it for children.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Errno::EACCES.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::test_directory::TestDirectory;

    #[test]
    fn what_is_no_regular_file_is_neither_waited_for_nor_read() {
        let directory = TestDirectory::new();
        let (file, fifo, link) = (directory.0.join("file"), directory.0.join("fifo"), directory.0.join("link"));
        std::fs::write(&file, "text").unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        assert_eq!(io::read_to_string(open(&file).unwrap()).unwrap(), "text");
        for other in [&fifo, &link, &directory.0, Path::new("/dev/zero")] {
            assert_eq!(open(other).unwrap_err().raw_os_error(), Some(Errno::EACCES as i32), "{}", other.display());
        }
        assert_eq!(open(&directory.0.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
