//! Directives of clean-up, and the paths that they name together.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::removal::{Ignored, Item, Kind};
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Status, keys};
use crate::trace;

/// Attributes of `PMIx_Job_control` that are about clean-up.
const ATTRIBUTES: [&str; 6] = [
    keys::REGISTER_CLEANUP,
    keys::REGISTER_CLEANUP_DIR,
    keys::CLEANUP_RECURSIVE,
    keys::CLEANUP_EMPTY,
    keys::CLEANUP_IGNORE,
    keys::CLEANUP_LEAVE_TOPDIR,
];

/// Returns whether an attribute is about clean-up.
pub fn is_about_cleanup(info: &Info) -> bool {
    ATTRIBUTES.iter().any(|key| info.key == *key)
}

/// Most paths that one process, or one job, can register, and most that a call can name.
const MAX_ITEMS: usize = 4096;

/// Length from which on no path leads anywhere.
const PATH_MAX: usize = 4096;

/// Paths to remove when a process or a job ends.
#[derive(Clone, Debug, Default)]
pub struct Cleanup {
    /// In the order of their paths, each of which is there once.
    items: Vec<Item>,
    ignored: Ignored,
}

impl Cleanup {
    /// Adds the paths of a call: all of them, or none. Calls `added` for each that is to be removed and new, and returns
    /// whether anything is new.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` for more than fits, `ERR_CONFLICTING_CLEANUP_DIRECTIVES` for a path that is registered
    /// otherwise.
    pub fn add(&mut self, more: &Cleanup, added: impl FnMut(&Path)) -> Result<bool, Status> {
        let conflict = |item: &Item| {
            self.find(&item.path).is_ok_and(|at| self.items[at] != *item)
                || self.ignored.paths.contains(&item.path)
                || more.ignored.paths.contains(&item.path)
        };
        let ignored_now = |item: &Item| more.ignored.paths.contains(&item.path);
        let ignored = |of: &Cleanup| of.ignored.paths.len() + of.ignored.names.len();
        if self.items.len() + more.items.len() > MAX_ITEMS || ignored(self) + ignored(more) > MAX_ITEMS {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        if more.items.iter().any(conflict) || self.items.iter().any(ignored_now) {
            return Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        }
        let before = self.items.len() + ignored(self);
        let new: Vec<Item> = more.items.iter().filter(|item| self.find(&item.path).is_err()).cloned().collect();
        new.iter().map(|item| item.path.as_path()).for_each(added);
        let room = self.items.len() + new.len();
        let mut new = new.into_iter().peekable();
        // Both are in order.
        for item in std::mem::replace(&mut self.items, Vec::with_capacity(room)) {
            while let Some(before) = new.next_if(|new| new.path < item.path) {
                self.items.push(before);
            }
            self.items.push(item);
        }
        self.items.extend(new);
        self.ignored.paths.extend(more.ignored.paths.iter().cloned());
        self.ignored.names.extend(more.ignored.names.iter().cloned());
        Ok(self.items.len() + ignored(self) > before)
    }

    /// Reads the directives of a call, for a process of that user.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a path that is ambiguous, `ERR_CONFLICTING_CLEANUP_DIRECTIVES` for one that is named in two
    /// ways, `ERR_OUT_OF_RESOURCE` for too many.
    pub fn parse(directives: &[Info], uid: u32, gid: u32) -> Result<Cleanup, Status> {
        let (mut cleanup, mut room) = (Cleanup::default(), MAX_ITEMS);
        let tree = Kind::Directory {
            recursive: directives.is_set(keys::CLEANUP_RECURSIVE),
            only_empty: directives.is_set(keys::CLEANUP_EMPTY),
            leave_top: directives.is_set(keys::CLEANUP_LEAVE_TOPDIR),
        };
        for info in directives {
            let kind = match () {
                () if info.key == keys::REGISTER_CLEANUP => Kind::File,
                () if info.key == keys::REGISTER_CLEANUP_DIR => tree,
                () if info.key == keys::CLEANUP_IGNORE => {
                    for name in list(info, &mut room)? {
                        match name.as_os_str().as_bytes().contains(&b'/') {
                            true => _ = cleanup.ignored.paths.insert(name),
                            false => _ = cleanup.ignored.names.insert(name.into_os_string()),
                        }
                    }
                    continue;
                }
                () => continue,
            };
            for path in list(info, &mut room)? {
                if !is_removable(&path) {
                    trace!("{} cannot be cleaned up: the path must be absolute and without \"..\"", path.display());
                    return Err(Status::ERR_BAD_PARAM);
                }
                let item = Item { path, kind, uid, gid };
                match cleanup.find(&item.path) {
                    Ok(at) if cleanup.items[at] != item => return Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
                    Ok(_) => {}
                    Err(at) => cleanup.items.insert(at, item),
                }
            }
        }
        Ok(cleanup)
    }

    /// Returns the place of a path, or else the one where it belongs.
    fn find(&self, path: &Path) -> Result<usize, usize> {
        self.items.binary_search_by(|item| item.path.as_path().cmp(path))
    }

    /// Returns the number of paths to remove.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether a path is among those to remove.
    pub fn has(&self, path: &Path) -> bool {
        self.find(path).is_ok()
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let items = self.items.iter().map(|item| size_of::<Item>() + item.path.as_os_str().len());
        let paths = self.ignored.paths.iter().map(|path| size_of::<PathBuf>() + path.as_os_str().len());
        let names = self.ignored.names.iter().map(|name| size_of::<PathBuf>() + name.len());
        items.chain(paths).chain(names).sum()
    }

    /// Leaves the paths out that are to stay.
    pub fn retain(&mut self, mut stays_registered: impl FnMut(&Path) -> bool) {
        self.items.retain(|item| stays_registered(&item.path));
    }

    /// Returns the users with whose rights there is something to remove.
    pub fn users(&self) -> BTreeSet<(u32, u32)> {
        collect_small(self.items.iter().map(|item| (item.uid, item.gid)))
    }

    /// Returns the paths and names that stay.
    pub fn ignored(&self) -> &Ignored {
        &self.ignored
    }

    /// Returns the paths to remove with the rights of a user: the contents of a directory come before the directory.
    pub fn of_user(&self, uid: u32, gid: u32) -> Vec<Item> {
        self.items.iter().rev().filter(|item| (item.uid, item.gid) == (uid, gid)).cloned().collect()
    }
}

/// Returns the elements of a list with commas, and takes them from the room for those of the whole call. A longer list is
/// not read to its end.
fn list(info: &Info, room: &mut usize) -> Result<Vec<PathBuf>, Status> {
    let mut rest = info.value.as_text().ok_or(Status::ERR_BAD_PARAM)?.as_bytes();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().take(PATH_MAX).position(|byte| *byte == b',').unwrap_or(rest.len());
        if end >= PATH_MAX {
            return Err(Status::ERR_BAD_PARAM);
        }
        *room = room.checked_sub(1).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        if end > 0 {
            parts.push(PathBuf::from(OsStr::from_bytes(&rest[..end])));
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    Ok(parts)
}

/// Returns whether a path is absolute, names something below the root and leaves no doubt where that lies.
fn is_removable(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.clone().next().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Value;

    fn parse(directives: &[Info]) -> Result<Cleanup, Status> {
        Cleanup::parse(directives, 1, 2)
    }

    #[test]
    fn paths_that_could_mean_anything_are_refused() {
        for bad in ["relative", "/a/../b", "/", "a/b,/c"] {
            assert_eq!(parse(&[Info::new(keys::REGISTER_CLEANUP, bad)]).err(), Some(Status::ERR_BAD_PARAM), "{bad}");
        }
        assert_eq!(parse(&[Info::new(keys::REGISTER_CLEANUP, 7u32)]).err(), Some(Status::ERR_BAD_PARAM));
        let two = parse(&[Info::new(keys::REGISTER_CLEANUP, "/a/b,/c")]).unwrap();
        assert!(two.has(Path::new("/a/b")) && two.has(Path::new("/c")));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused() {
        let longest = format!("/{}", "a".repeat(PATH_MAX - 2));
        let bytes = parse(&[Info::new(keys::REGISTER_CLEANUP, longest.as_str())]).unwrap().bytes();
        assert_eq!(bytes, PATH_MAX - 1 + size_of::<Item>());
        let longer = format!("/b,{longest}a");
        for key in [keys::REGISTER_CLEANUP, keys::REGISTER_CLEANUP_DIR, keys::CLEANUP_IGNORE] {
            assert_eq!(parse(&[Info::new(key, longer.as_str())]).err(), Some(Status::ERR_BAD_PARAM), "{key}");
        }
    }

    #[test]
    fn a_call_names_so_many_paths_be_they_the_same() {
        let paths = |n: usize| "/a,".repeat(n);
        assert_eq!(parse(&[Info::new(keys::REGISTER_CLEANUP, paths(MAX_ITEMS).as_str())]).unwrap().len(), 1);
        let half = paths(MAX_ITEMS / 2);
        let both = [keys::REGISTER_CLEANUP, keys::CLEANUP_IGNORE].map(|key| Info::new(key, half.as_str()));
        assert_eq!(parse(&[both.to_vec(), both[..1].to_vec()].concat()).err(), Some(Status::ERR_OUT_OF_RESOURCE));
        for long in [paths(9_000_000), ",".repeat(27_000_000)] {
            assert_eq!(
                parse(&[Info::new(keys::CLEANUP_IGNORE, long.as_str())]).err(),
                Some(Status::ERR_OUT_OF_RESOURCE)
            );
        }
    }

    #[test]
    fn a_path_cannot_be_removed_in_two_ways() {
        let mut cleanup = Cleanup::default();
        let plain = parse(&[Info::new(keys::REGISTER_CLEANUP_DIR, "/d")]).unwrap();
        let recursive =
            parse(&[Info::new(keys::REGISTER_CLEANUP_DIR, "/d"), Info::new(keys::CLEANUP_RECURSIVE, Value::Undef)])
                .unwrap();
        let ignore = parse(&[Info::new(keys::CLEANUP_IGNORE, "/d")]).unwrap();
        assert_eq!(cleanup.add(&plain, |_| ()), Ok(true));
        assert_eq!(cleanup.add(&plain, |_| ()), Ok(false), "the same again is no conflict, and nothing new");
        assert_eq!(cleanup.items.len(), 1);
        assert_eq!(cleanup.add(&recursive, |_| ()), Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES));
        assert_eq!(cleanup.add(&ignore, |_| ()), Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES));
    }

    #[test]
    fn what_lies_in_a_directory_goes_first() {
        let mut cleanup = parse(&[Info::new(keys::REGISTER_CLEANUP_DIR, "/d,/c/e")]).unwrap();
        let more = parse(&[Info::new(keys::REGISTER_CLEANUP, "/d/f,/c/e/a,/d-x,/d/f/")]).unwrap();
        assert_eq!(cleanup.add(&more, |_| ()), Ok(true));
        let paths: Vec<PathBuf> = cleanup.of_user(1, 2).into_iter().map(|item| item.path).collect();
        assert_eq!(paths, ["/d-x", "/d/f", "/d", "/c/e/a", "/c/e"].map(PathBuf::from));
        assert!(cleanup.of_user(1, 3).is_empty());
    }
}
