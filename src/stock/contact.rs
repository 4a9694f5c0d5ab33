//! Contact files: where tools on a stock library look for a server.
//!
//! Such a tool goes through the server's temporary directory, and everything below it, for files whose names begin with
//! `pmix.HOST.tool`, with a process id or a namespace behind that where it means a certain server. The files of a
//! server lie in a directory of its own with a random name, made and opened without following links: nobody else can
//! take their place. Only a tool that asks for the system's server looks in a place that is known beforehand,
//! `pmix.sys.HOST` in the system's temporary directory: what lies there already is replaced only if it was left by a
//! dead server of the same user.
//!
//! A server that is killed leaves its files. They are locked while their server lives, and the next server of the same
//! user removes, beside its own, those that nobody holds locked.
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fchmod};
use nix::unistd::{getegid, geteuid};

use super::folder::{self, Kept};
use crate::data::Proc;

/// Prefix of the names of directories for contact files; user and a random number follow.
pub const DIRECTORY: &str = "instanton-contact-";
/// Longest part of a file's name that a namespace may be.
const MAX_NSPACE: usize = 200;

/// A server, as its files describe it.
#[derive(Clone, Copy, Debug)]
pub struct Contact<'a> {
    /// Its name.
    pub server: &'a Proc,
    /// Its address.
    pub uri: &'a str,
    /// The process that users know it by.
    pub pid: i32,
    /// True if tools of other users may read it.
    pub is_public: bool,
}

impl Contact<'_> {
    /// Writes the files that tools find below `tmpdir`, and removes what dead servers have left there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write(&self, tmpdir: &Path) -> io::Result<Kept> {
        let parent = open(tmpdir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        folder::sweep(&parent, DIRECTORY);
        let made = folder::make(parent, DIRECTORY)?;
        let host = host()?;
        for whom in [Some(self.pid.to_string().into_bytes()), plain(self.server)].into_iter().flatten() {
            let mut file = self.create(&*made.locked, &[b"pmix.", &host[..], b".tool.", &whom].concat())?;
            file.write_all(&self.text())?;
        }
        if self.is_public {
            fchmod(&*made.locked, Mode::from_bits_truncate(0o755))?;
        }
        Ok(made)
    }

    /// Writes the file of the system's own server.
    ///
    /// # Errors
    /// The kernel's; `AlreadyExists` where another server lives, or what is there is somebody else's.
    pub fn write_for_system(&self, tmpdir: &Path) -> io::Result<Kept> {
        let parent = open(tmpdir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let name = [b"pmix.sys.", &host()?[..]].concat();
        folder::remove_dead(&parent, &name, SFlag::S_IFREG);
        let locked = folder::lock(self.create(&parent, &name)?.into())?;
        if folder::is_gone(&locked) {
            // Taken for a dead server's before it was locked: another one begins at the same time.
            return Err(Errno::EEXIST.into());
        }
        let written = Kept { parent, name, locked };
        File::from(written.locked.try_clone()?).write_all(&self.text())?;
        Ok(written)
    }

    /// Creates a file that is not there yet.
    fn create(&self, directory: impl AsFd, name: &[u8]) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(if self.is_public { 0o644 } else { 0o600 });
        let file = openat(directory, OsStr::from_bytes(name), flags, mode)?;
        // The mode holds, whatever the mask of this process is.
        fchmod(&file, mode)?;
        Ok(file.into())
    }

    /// Returns the text of a file: address, release, process and user.
    fn text(&self) -> Vec<u8> {
        let Contact { uri, pid, .. } = self;
        format!("{uri}\nv{}\n{pid}\n{}:{}\n", super::VERSION, geteuid(), getegid()).into_bytes()
    }
}

/// Returns the lines that a tool reads of a file it is told: the address, and the release behind it. There are none
/// where the server has no such address.
pub fn lines(uri: &str) -> Vec<String> {
    if uri.is_empty() { Vec::new() } else { vec![uri.to_owned(), format!("v{}", super::VERSION)] }
}

/// Returns this machine's name, as tools know it.
fn host() -> io::Result<Vec<u8>> {
    Ok(nix::unistd::gethostname()?.as_bytes().to_vec())
}

/// Returns a server's namespace, where a file may be named so.
fn plain(server: &Proc) -> Option<Vec<u8>> {
    let name = server.nspace.as_bytes();
    (name.len() <= MAX_NSPACE && !name.contains(&b'/')).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::folder::prefix;
    use super::*;
    use crate::data::{Nspace, Rank};
    use crate::sys::test_directory::TestDirectory;

    impl TestDirectory {
        fn system_file(&self) -> PathBuf {
            self.0.join(format!("pmix.sys.{}", String::from_utf8(host().unwrap()).unwrap()))
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn server(name: &str) -> Proc {
        Proc::new(Nspace::new(name).unwrap(), Rank(0))
    }

    #[test]
    fn files_are_their_users_alone_and_go_with_their_server() {
        let scratch = TestDirectory::new();
        let server = server("s@0");
        let contact = Contact { server: &server, uri: "s@0.0;tcp4://127.0.0.1:1", pid: 17, is_public: false };
        let written = contact.write(&scratch.0).unwrap();
        let [directory] = &scratch.entries()[..] else { panic!("{:?}", scratch.entries()) };
        assert_eq!(mode(directory), 0o700);
        let host = String::from_utf8(host().unwrap()).unwrap();
        for whom in ["17", "s@0"] {
            let path = directory.join(format!("pmix.{host}.tool.{whom}"));
            let own = format!("{}:{}", geteuid(), getegid());
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\nv4.2.2\n17\n{own}\n", contact.uri));
            assert_eq!(mode(&path), 0o600);
        }
        // Another one of the same user leaves it alone.
        let other = Contact { is_public: true, ..contact }.write(&scratch.0).unwrap();
        assert_eq!(scratch.entries().len(), 2);
        let public = scratch.entries().into_iter().find(|entry| entry != directory).unwrap();
        assert_eq!(mode(&public), 0o755);
        drop((written, other));
        assert!(scratch.entries().is_empty());
    }

    #[test]
    fn what_a_dead_server_has_left_goes_and_a_link_is_not_followed() {
        let scratch = TestDirectory::new();
        let left = scratch.0.join(format!("{}0", prefix(DIRECTORY)));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("pmix.host.tool.1"), "left").unwrap();
        let (elsewhere, link) = (scratch.0.join("elsewhere"), scratch.0.join(format!("{}1", prefix(DIRECTORY))));
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "kept").unwrap();
        symlink(&elsewhere, &link).unwrap();
        let server = server("a/b");
        let contact = Contact { server: &server, uri: "u", pid: 1, is_public: false };
        let written = contact.write(&scratch.0).unwrap();
        assert!(!left.exists() && link.exists() && elsewhere.join("file").exists());
        let [own] = &folder::names(&written.locked)[..] else {
            panic!("a namespace that cannot be a file's name is none")
        };
        assert!(own.ends_with(b".tool.1"));
    }

    #[test]
    fn the_systems_place_is_taken_from_the_dead_alone() {
        let scratch = TestDirectory::new();
        let (server, path) = (server("s"), scratch.system_file());
        let contact = Contact { server: &server, uri: "u", pid: 1, is_public: false };
        fs::write(&path, "left").unwrap();
        let written = contact.write_for_system(&scratch.0).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("u\n") && mode(&path) == 0o600);
        let exists = |result: io::Result<Kept>| result.unwrap_err().kind() == io::ErrorKind::AlreadyExists;
        assert!(exists(contact.write_for_system(&scratch.0)));
        drop(written);
        assert!(!path.exists());
        symlink("/nowhere", &path).unwrap();
        assert!(exists(contact.write_for_system(&scratch.0)));
        assert!(fs::symlink_metadata(&path).is_ok());
    }
}
