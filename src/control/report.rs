//! A server's address in a file, for tools that are told the file's name (`PMIX_LAUNCHER_RENDEZVOUS_FILE`).
//!
//! There is such a file only where the host asks for it, and it goes with the server; what a server that is killed
//! leaves is the host's to remove. Only the server's own user may read it. Tools on a stock library read an address and a
//! release on the first two lines, so a server that they can reach has its own address behind these.
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::rendezvous::Uri;
use crate::sys::random;

/// Returns the lines of such a file: those for tools on a stock library, where they have an address, and the server's.
pub fn text(uri: &Uri, stock: &[String]) -> String {
    stock.iter().cloned().chain([uri.to_string()]).map(|line| line + "\n").collect()
}

/// Returns the server's own address in the lines of such a file; none where a server of another library has written it.
pub fn own_address(text: &str) -> Option<Uri> {
    text.lines().find_map(|line| line.trim_end().parse().ok())
}

/// The file; dropping it removes it, unless somebody has put another one in its place.
#[derive(Debug)]
pub struct UriFile {
    /// Directory that it lies in, whatever its path leads to by now.
    parent: OwnedFd,
    name: OsString,
    inode: (u64, u64),
}

impl UriFile {
    /// Writes a text that [`text`] has made to a file of this name, in place of one that is there: a new file, which
    /// others can neither have opened before nor have linked to something else.
    ///
    /// # Errors
    /// The kernel's; `EEXIST` where something lies there that is no file, such as a symbolic link.
    pub fn write(path: &Path, text: &str) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::EISDIR)?.to_owned();
        let place = path.parent().filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = open(place, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        if look(&parent, &name).is_some_and(|found| found.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits()) {
            return Err(Errno::EEXIST.into());
        }
        let draft = format!(".instanton-{:032x}", u128::from_le_bytes(random::bytes()?));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&parent, draft.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let write = || {
            let inode = inode(&fstat(&file)?);
            File::from(file).write_all(text.as_bytes())?;
            renameat(&parent, draft.as_str(), &parent, &*name)?;
            Ok(inode)
        };
        let written: io::Result<(u64, u64)> = write();
        let inode = written.inspect_err(|_| {
            // A folder that cannot be removed now stays, empty or not.
            let _ = unlinkat(&parent, draft.as_str(), UnlinkatFlags::NoRemoveDir);
        })?;
        Ok(UriFile { parent, name, inode })
    }
}

impl Drop for UriFile {
    fn drop(&mut self) {
        if look(&self.parent, &self.name).is_some_and(|found| inode(&found) == self.inode) {
            // A file that somebody else has removed meanwhile need not be removed.
            let _ = unlinkat(&self.parent, &*self.name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Returns what lies there, links not followed.
fn look(parent: &OwnedFd, name: &OsStr) -> Option<FileStat> {
    fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
}

fn inode(found: &FileStat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Proc, Rank};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_goes_with_its_server_and_another_one_stays() {
        let path = std::env::temp_dir().join(format!("instanton-uri-{}", std::process::id()));
        let uri = Uri { server: Proc::new(Nspace::new("s").unwrap(), Rank(0)), name: "instanton-tools-1-a".into() };
        let file = UriFile::write(&path, &text(&uri, &[])).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim_end().parse(), Ok(uri.clone()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
        let file = UriFile::write(&path, &text(&uri, &[])).unwrap();
        let other = path.with_extension("other");
        fs::write(&other, "another's").unwrap();
        fs::rename(&other, &path).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/nowhere", &path).unwrap();
        assert!(UriFile::write(&path, &text(&uri, &[])).is_err());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_own_address_is_found_among_the_lines() {
        let uri = Uri { server: Proc::new(Nspace::new("s").unwrap(), Rank(0)), name: "instanton-tools-1-a".into() };
        let stock = ["s.0;tcp4://127.0.0.1:9".to_owned(), "v4.2.2".to_owned()];
        assert_eq!(text(&uri, &stock).lines().take(2).collect::<Vec<_>>(), stock);
        for stock in [&stock[..], &[]] {
            assert_eq!(own_address(&text(&uri, stock)), Some(uri.clone()));
        }
        assert_eq!(own_address(&stock.join("\n")), None);
    }

    /// Another name of a file, and a reader who has opened it before.
    #[test]
    fn what_others_have_prepared_is_replaced_and_neither_read_nor_written() {
        let place = std::env::temp_dir().join(format!("instanton-uri-swap-{}", std::process::id()));
        let (path, victim) = (place.join("uri"), place.join("victim"));
        fs::create_dir(&place).unwrap();
        let uri = Uri { server: Proc::new(Nspace::new("s").unwrap(), Rank(0)), name: "instanton-tools-1-a".into() };
        fs::write(&victim, "kept").unwrap();
        fs::hard_link(&victim, &path).unwrap();
        let mut before = File::open(&path).unwrap();
        let file = UriFile::write(&path, &text(&uri, &[])).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(io::read_to_string(&mut before).unwrap(), "kept");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // The way to it leads elsewhere by the time that it is removed.
        fs::rename(&place, place.with_extension("moved")).unwrap();
        fs::create_dir(&place).unwrap();
        fs::write(&path, "kept").unwrap();
        drop(file);
        assert!(path.exists() && !place.with_extension("moved").join("uri").exists());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert!(UriFile::write(&path, &text(&uri, &[])).is_err(), "nobody reads it");
        [place.with_extension("moved"), place].iter().for_each(|place| fs::remove_dir_all(place).unwrap());
    }
}
