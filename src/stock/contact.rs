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
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, getegid, geteuid, unlinkat};

use crate::data::Proc;
use crate::sys::{directory, random};

/// Prefix of the names of directories for contact files; user and a random number follow.
pub const DIRECTORY: &str = "instanton-contact-";
/// Longest part of a file's name that a namespace may be.
const MAX_NSPACE: usize = 200;
/// Flags of a directory that is opened.
const OF_DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

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

/// A file, or a directory with files in it; dropping it removes it.
#[derive(Debug)]
pub struct ContactFile {
    parent: OwnedFd,
    name: Vec<u8>,
    /// The file or directory itself, locked for as long as the server lives.
    locked: Flock<OwnedFd>,
}

impl Contact<'_> {
    /// Writes the files that tools find below `tmpdir`, and removes what dead servers have left there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write(&self, tmpdir: &Path) -> io::Result<ContactFile> {
        let parent = open(tmpdir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        sweep(&parent);
        let made = make_directory(parent)?;
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
    pub fn write_for_system(&self, tmpdir: &Path) -> io::Result<ContactFile> {
        let parent = open(tmpdir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let name = [b"pmix.sys.", &host()?[..]].concat();
        remove_dead(&parent, &name, SFlag::S_IFREG);
        let locked = lock(self.create(&parent, &name)?.into())?;
        if is_gone(&locked) {
            // Taken for a dead server's before it was locked: another one begins at the same time.
            return Err(Errno::EEXIST.into());
        }
        let written = ContactFile { parent, name, locked };
        File::from(written.locked.try_clone()?).write_all(&self.text())?;
        Ok(written)
    }

    /// Creates a file that is not there yet.
    fn create(&self, directory: impl AsFd, name: &[u8]) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(if self.is_public { 0o644 } else { 0o600 });
        let file = openat(directory, OsStr::from_bytes(name), flags, mode)?;
        // Whatever the mask of this process is.
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

impl Drop for ContactFile {
    fn drop(&mut self) {
        if is_gone(&self.locked) {
            // The file that lies there now is somebody else's.
            return;
        }
        let is_directory = fstat(&*self.locked).is_ok_and(|found| kind(&found) == SFlag::S_IFDIR);
        remove(&self.parent, &self.name, is_directory.then_some(&*self.locked));
    }
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

/// Returns the beginning of the names of our user's directories.
fn prefix() -> String {
    format!("{DIRECTORY}{}-", geteuid())
}

/// Makes a directory for the files of one server, for its user alone, and locks it.
fn make_directory(parent: OwnedFd) -> io::Result<ContactFile> {
    loop {
        let name = format!("{}{:032x}", prefix(), u128::from_le_bytes(random::bytes()?));
        match directory::make_own(&parent, &name).and_then(lock) {
            // One that was swept away before it was locked is made anew.
            Ok(locked) if is_gone(&locked) => {}
            Ok(locked) => return Ok(ContactFile { parent, name: name.into_bytes(), locked }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let _ = unlinkat(&parent, name.as_str(), UnlinkatFlags::RemoveDir);
                return Err(error);
            }
        }
    }
}

/// Locks what was opened.
fn lock(opened: OwnedFd) -> io::Result<Flock<OwnedFd>> {
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Returns whether what was locked has been removed from its directory.
fn is_gone(locked: &Flock<OwnedFd>) -> bool {
    fstat(&**locked).is_ok_and(|found| found.st_nlink == 0)
}

/// Removes what dead servers of our user have left in a directory.
fn sweep(parent: &OwnedFd) {
    let prefix = prefix();
    names(parent).iter().filter(|name| name.starts_with(prefix.as_bytes())).for_each(|name| {
        remove_dead(parent, name, SFlag::S_IFDIR);
    });
}

/// Removes a file or directory, if it is our user's and its server does not live.
fn remove_dead(parent: &OwnedFd, name: &[u8], kind: SFlag) {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let Ok(found) = openat(parent, OsStr::from_bytes(name), flags, Mode::empty()) else { return };
    let is_ours = |found: FileStat| self::kind(&found) == kind && found.st_uid == geteuid().as_raw();
    if fstat(&found).is_ok_and(is_ours)
        && let Ok(dead) = lock(found)
        && !is_gone(&dead)
    {
        remove(parent, name, (kind == SFlag::S_IFDIR).then_some(&*dead));
    }
}

/// Removes a file, or a directory and the files in it.
fn remove(parent: &OwnedFd, name: &[u8], directory: Option<&OwnedFd>) {
    let unlink = |parent: &OwnedFd, name: &[u8], how| {
        // A file that cannot be removed now may be the next time.
        let _ = unlinkat(parent, OsStr::from_bytes(name), how);
    };
    if let Some(directory) = directory {
        names(directory).iter().for_each(|name| unlink(directory, name, UnlinkatFlags::NoRemoveDir));
    }
    unlink(parent, name, if directory.is_some() { UnlinkatFlags::RemoveDir } else { UnlinkatFlags::NoRemoveDir });
}

/// Returns the names in a directory.
fn names(directory: &OwnedFd) -> Vec<Vec<u8>> {
    let entries = Dir::openat(directory, ".", OF_DIRECTORY, Mode::empty());
    let names = entries.map(|mut entries| {
        entries.iter().flatten().map(|entry| entry.file_name().to_bytes().to_vec()).collect::<Vec<_>>()
    });
    names.unwrap_or_default().into_iter().filter(|name| name != b"." && name != b"..").collect()
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;
    use crate::data::{Nspace, Rank};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let name = format!("instanton-contacts-{:x}", u64::from_le_bytes(random::bytes().unwrap()));
            let scratch = Scratch(std::env::temp_dir().join(name));
            fs::create_dir(&scratch.0).unwrap();
            scratch
        }

        fn entries(&self) -> Vec<PathBuf> {
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
        }

        fn system_file(&self) -> PathBuf {
            self.0.join(format!("pmix.sys.{}", String::from_utf8(host().unwrap()).unwrap()))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
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
        let scratch = Scratch::new();
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
        let scratch = Scratch::new();
        let left = scratch.0.join(format!("{}0", prefix()));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("pmix.host.tool.1"), "left").unwrap();
        let (elsewhere, link) = (scratch.0.join("elsewhere"), scratch.0.join(format!("{}1", prefix())));
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "kept").unwrap();
        symlink(&elsewhere, &link).unwrap();
        let server = server("a/b");
        let contact = Contact { server: &server, uri: "u", pid: 1, is_public: false };
        let written = contact.write(&scratch.0).unwrap();
        assert!(!left.exists() && link.exists() && elsewhere.join("file").exists());
        let [own] = &names(&written.locked)[..] else { panic!("a namespace that cannot be a file's name is none") };
        assert!(own.ends_with(b".tool.1"));
    }

    #[test]
    fn the_systems_place_is_taken_from_the_dead_alone() {
        let scratch = Scratch::new();
        let (server, path) = (server("s"), scratch.system_file());
        let contact = Contact { server: &server, uri: "u", pid: 1, is_public: false };
        fs::write(&path, "left").unwrap();
        let written = contact.write_for_system(&scratch.0).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("u\n") && mode(&path) == 0o600);
        let exists = |result: io::Result<ContactFile>| result.unwrap_err().kind() == io::ErrorKind::AlreadyExists;
        assert!(exists(contact.write_for_system(&scratch.0)));
        drop(written);
        assert!(!path.exists());
        symlink("/nowhere", &path).unwrap();
        assert!(exists(contact.write_for_system(&scratch.0)));
        assert!(fs::symlink_metadata(&path).is_ok());
    }
}
