//! Removal of files and directories, with the rights of a user.
//!
//! Nothing here goes by a path that somebody could redirect: every directory is opened from its parent without
//! following links, and every entry is removed from an open directory.
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::sys::process;
use crate::trace;

/// Deepest tree that is removed: each level holds a descriptor while those below it are.
const MAX_DEPTH: usize = 128;

/// Way in which a path is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One file.
    File,
    /// A directory's files, and the directory.
    Directory {
        /// The contents of its subdirectories as well.
        recursive: bool,
        /// No files: only directories that are empty.
        only_empty: bool,
        /// Not the directory itself.
        leave_top: bool,
    },
}

/// Path to remove, and the user with whose rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub path: PathBuf,
    pub kind: Kind,
    pub uid: u32,
    pub gid: u32,
}

/// Paths and names that stay, wherever they lie in a tree that is removed.
#[derive(Clone, Debug, Default)]
pub struct Ignored {
    pub paths: BTreeSet<PathBuf>,
    pub names: BTreeSet<OsString>,
}

impl Ignored {
    fn has(&self, directory: &Path, name: &OsStr) -> bool {
        self.names.contains(name) || !self.paths.is_empty() && self.paths.contains(&directory.join(name))
    }
}

/// Removes `items` with the rights of a user. The calling thread keeps those rights, and should end.
pub fn remove(items: &[Item], ignored: &Ignored, uid: u32, gid: u32) {
    if let Err(e) = process::become_user_in_this_thread(uid, gid) {
        return trace!("nothing is cleaned up for user {uid}, whose rights this server cannot take on: {e}");
    }
    for item in items {
        match remove_one(item, ignored) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(e) => trace!("{} is not cleaned up: {e}", item.path.display()),
        }
    }
}

fn remove_one(item: &Item, ignored: &Ignored) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (item.path.parent(), item.path.file_name()) else { return Err(Errno::EINVAL) };
    let parent = walk(parent)?;
    match item.kind {
        Kind::File => remove_file(&parent, name),
        Kind::Directory { recursive, only_empty, leave_top } => {
            let directory = openat(&parent, name, OPEN_TO_LIST, Mode::empty())?;
            clear(directory, &item.path, ignored, recursive, only_empty, 0)?;
            match leave_top {
                true => Ok(()),
                false => remove_empty(&parent, name),
            }
        }
    }
}

const OPEN_TO_LIST: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const OPEN_TO_PASS: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Opens a directory from the root on, one name after the other.
fn walk(path: &Path) -> Result<OwnedFd, Errno> {
    let mut at = open("/", OPEN_TO_PASS, Mode::empty())?;
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => at = openat(&at, name, OPEN_TO_PASS, Mode::empty())?,
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(at)
}

/// Empties an open directory as far as it may be.
fn clear(
    directory: OwnedFd,
    path: &Path,
    ignored: &Ignored,
    recursive: bool,
    only_empty: bool,
    depth: usize,
) -> Result<(), Errno> {
    if depth > MAX_DEPTH {
        return Err(Errno::ELOOP);
    }
    let mut directory = Dir::from_fd(directory)?;
    let mut entries = Vec::new();
    for entry in directory.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
        }
    }
    for (name, kind) in entries {
        if ignored.has(path, &name) {
            continue;
        }
        let is_directory = match kind {
            Some(kind) => kind == Type::Directory,
            None => fstatat(&directory, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits()),
        };
        let inside = path.join(&name);
        let result = match is_directory {
            true if recursive => openat(&directory, name.as_os_str(), OPEN_TO_LIST, Mode::empty())
                .and_then(|sub| clear(sub, &inside, ignored, recursive, only_empty, depth + 1))
                .and_then(|()| remove_empty(&directory, &name)),
            true if only_empty => remove_empty(&directory, &name),
            false if !only_empty => remove_file(&directory, &name),
            _ => Ok(()),
        };
        match result {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(e) => trace!("{} is not cleaned up: {e}", inside.display()),
        }
    }
    Ok(())
}

/// Removes a file; a device stays. A job of root's that names `/dev/null` would take it from the whole machine.
fn remove_file(parent: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let kind = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode & SFlag::S_IFMT.bits();
    if kind == SFlag::S_IFCHR.bits() || kind == SFlag::S_IFBLK.bits() {
        return Err(Errno::EPERM);
    }
    unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)
}

/// Removes a directory; one that still holds something stays.
fn remove_empty(parent: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(parent, name, UnlinkatFlags::RemoveDir) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton_layout::sync::{AtomicBool, Ordering};
    use nix::unistd::{getegid, geteuid};
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Tree(PathBuf);

    impl Tree {
        fn new() -> Tree {
            let name: [u8; 8] = crate::sys::random::bytes().unwrap();
            let root = std::env::temp_dir().join(format!("instanton-sweep-{:016x}", u64::from_le_bytes(name)));
            fs::create_dir_all(root.join("d/sub/deep")).unwrap();
            fs::create_dir(root.join("d/empty")).unwrap();
            for file in ["outside", "d/a", "d/keep", "d/sub/b", "d/sub/deep/c"] {
                fs::write(root.join(file), "x").unwrap();
            }
            symlink(root.join("outside"), root.join("d/to-file")).unwrap();
            symlink(&root, root.join("d/to-directory")).unwrap();
            symlink(root.join("d"), root.join("link-to-d")).unwrap();
            Tree(root)
        }

        fn remove(&self, path: &str, kind: Kind, ignored: &Ignored) {
            let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
            remove(&[Item { path: self.0.join(path), kind, uid, gid }], ignored, uid, gid);
        }

        fn has(&self, path: &str) -> bool {
            self.0.join(path).symlink_metadata().is_ok()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn directory(recursive: bool, only_empty: bool, leave_top: bool) -> Kind {
        Kind::Directory { recursive, only_empty, leave_top }
    }

    #[test]
    fn a_tree_goes_and_what_its_links_lead_to_stays() {
        let tree = Tree::new();
        tree.remove("d", directory(true, false, false), &Ignored::default());
        assert!(!tree.has("d"));
        assert!(tree.has("outside"));
    }

    #[test]
    fn a_device_stays() {
        use nix::sys::stat::{makedev, mknod};
        let tree = Tree::new();
        // Like /dev/null; only root makes one, and only root could remove it.
        match mknod(&tree.0.join("d/null"), SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3)) {
            Err(Errno::EPERM) => return println!("skipped: this user makes no devices"),
            made => made.unwrap(),
        }
        tree.remove("d/null", Kind::File, &Ignored::default());
        tree.remove("d", directory(true, false, false), &Ignored::default());
        assert!(tree.has("d/null") && !tree.has("d/a"));
        fs::remove_file(tree.0.join("d/null")).unwrap();
    }

    #[test]
    fn no_link_is_followed_on_the_way() {
        let tree = Tree::new();
        tree.remove("link-to-d", directory(true, false, false), &Ignored::default());
        tree.remove("link-to-d/a", Kind::File, &Ignored::default());
        assert!(tree.has("d/a") && tree.has("link-to-d"));
        tree.remove("link-to-d", Kind::File, &Ignored::default());
        assert!(!tree.has("link-to-d") && tree.has("d/a"), "a link itself is a file");
    }

    /// Each name that a removal comes to is a directory at one moment and a link at the next.
    #[test]
    fn what_is_swapped_for_a_link_at_any_moment_leads_nowhere() {
        let tree = Tree::new();
        fs::create_dir_all(tree.0.join("elsewhere/sub/deep")).unwrap();
        fs::write(tree.0.join("elsewhere/sub/deep/c"), "kept").unwrap();
        fs::write(tree.0.join("elsewhere/sub/b"), "kept").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for name in ["d", "d/sub", "d/sub/deep"] {
                        let (at, aside) = (tree.0.join(name), tree.0.join("aside"));
                        let _ = fs::remove_dir_all(&aside);
                        let _ = fs::rename(&at, &aside);
                        let to = tree.0.join(name.replacen('d', "elsewhere", 1));
                        let _ = symlink(to, &at);
                        let _ = fs::remove_file(&at);
                        let _ = fs::rename(&aside, &at);
                    }
                }
            });
            for _ in 0..200 {
                let _ = fs::create_dir_all(tree.0.join("d/sub/deep"));
                tree.remove("d", directory(true, false, false), &Ignored::default());
                tree.remove("d/sub/b", Kind::File, &Ignored::default());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(tree.has("elsewhere/sub/b") && tree.has("elsewhere/sub/deep/c"));
    }

    #[test]
    fn directives_are_kept() {
        let tree = Tree::new();
        let ignored = Ignored { names: ["keep".into()].into(), paths: [tree.0.join("d/sub/b")].into() };
        tree.remove("d", directory(false, false, false), &ignored);
        assert!(!tree.has("d/a") && !tree.has("d/to-file"));
        assert!(tree.has("d/keep") && tree.has("d/empty") && tree.has("d/sub/deep/c"));
        tree.remove("d", directory(true, true, false), &ignored);
        assert!(!tree.has("d/empty") && tree.has("d/sub/deep/c"));
        tree.remove("d", directory(true, false, true), &ignored);
        assert!(tree.has("d/sub/b") && tree.has("d/keep") && !tree.has("d/sub/deep"));
        tree.remove("d", directory(true, false, true), &Ignored::default());
        assert!(tree.has("d") && fs::read_dir(tree.0.join("d")).unwrap().next().is_none());
    }

    #[test]
    fn the_rights_are_those_of_the_user() {
        if !geteuid().is_root() {
            return;
        }
        let tree = Tree::new();
        fs::create_dir(tree.0.join("theirs")).unwrap();
        std::os::unix::fs::chown(tree.0.join("theirs"), Some(65534), Some(65534)).unwrap();
        let items: Vec<Item> = ["d", "theirs"]
            .map(|name| Item { path: tree.0.join(name), kind: directory(true, false, true), uid: 65534, gid: 65534 })
            .into();
        fs::write(tree.0.join("theirs/x"), "x").unwrap();
        let ignored = Ignored::default();
        std::thread::spawn(move || remove(&items, &ignored, 65534, 65534)).join().unwrap();
        assert!(geteuid().is_root(), "other threads keep theirs");
        assert!(tree.has("d/a"), "another user's file");
        assert!(!tree.has("theirs/x"));
    }
}
