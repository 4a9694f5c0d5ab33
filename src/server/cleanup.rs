//! What processes leave behind, and its removal: `PMIx_Job_control` with the attributes of clean-up.
//!
//! A process registers files and directories, for itself or (with no targets, or a wildcard) for its whole job. What it registered
//! for itself goes when it ends, however it ends, unless a process that still runs has registered the same path; what it
//! registered for the job goes when the last process of the job on this node has ended, and at the latest when the
//! namespace is deregistered. Every other directive is the host's.
//!
//! The removal itself ([`sweep`](super::sweep)) happens in a thread of its own: a file system may block, and the thread takes on the rights
//! of the user the process is registered for.
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::ctx::Done;
use super::ctx::peers::PROGRAM;
use super::ctx::system::Worker;
use super::ctx::ticket::Ticket;
use super::router::Router;
use super::sweep::{self, Ignored, Item, What};
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status, keys};
use crate::message::Reply;
use crate::message::door::PeerId;
use crate::sys::signals::spawn_without_signals;
use crate::trace;

/// Attributes that are the library's.
const OURS: [&str; 6] = [
    keys::REGISTER_CLEANUP,
    keys::REGISTER_CLEANUP_DIR,
    keys::CLEANUP_RECURSIVE,
    keys::CLEANUP_EMPTY,
    keys::CLEANUP_IGNORE,
    keys::CLEANUP_LEAVE_TOPDIR,
];

/// Most paths that one process, or one job, can register.
const MAX_ITEMS: usize = 4096;

/// What is to be removed when somebody ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleanup {
    /// In the order of their paths, each of which is there once.
    items: Vec<Item>,
    ignored: Ignored,
}

impl Cleanup {
    /// Adds what a call asks for; all of it, or nothing. Whether any of it is new.
    fn add(&mut self, more: &Cleanup) -> Result<bool, Status> {
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
        for item in &more.items {
            if let Err(at) = self.find(&item.path) {
                self.items.insert(at, item.clone());
            }
        }
        self.ignored.paths.extend(more.ignored.paths.iter().cloned());
        self.ignored.names.extend(more.ignored.names.iter().cloned());
        Ok(self.items.len() + ignored(self) > before)
    }

    fn parse(directives: &[Info], uid: u32, gid: u32) -> Result<Cleanup, Status> {
        let mut cleanup = Cleanup::default();
        let tree = What::Directory {
            recursive: directives.is_set(keys::CLEANUP_RECURSIVE),
            only_empty: directives.is_set(keys::CLEANUP_EMPTY),
            leave_top: directives.is_set(keys::CLEANUP_LEAVE_TOPDIR),
        };
        for info in directives {
            let what = match () {
                () if info.key == keys::REGISTER_CLEANUP => What::File,
                () if info.key == keys::REGISTER_CLEANUP_DIR => tree,
                () if info.key == keys::CLEANUP_IGNORE => {
                    for name in list(info)? {
                        match name.as_os_str().as_bytes().contains(&b'/') {
                            true => _ = cleanup.ignored.paths.insert(name),
                            false => _ = cleanup.ignored.names.insert(name.into_os_string()),
                        }
                    }
                    continue;
                }
                () => continue,
            };
            for path in list(info)? {
                if !is_removable(&path) {
                    trace!("{} cannot be cleaned up: the path must be absolute and without \"..\"", path.display());
                    return Err(Status::ERR_BAD_PARAM);
                }
                let item = Item { path, what, uid, gid };
                match cleanup.find(&item.path) {
                    Ok(at) if cleanup.items[at] != item => return Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES),
                    Ok(_) => {}
                    // More than that would be refused anyway.
                    Err(_) if cleanup.items.len() == MAX_ITEMS => return Err(Status::ERR_OUT_OF_RESOURCE),
                    Err(at) => cleanup.items.insert(at, item),
                }
            }
        }
        Ok(cleanup)
    }

    /// Where a path is, or belongs.
    fn find(&self, path: &Path) -> Result<usize, usize> {
        self.items.binary_search_by(|item| item.path.as_path().cmp(path))
    }

    fn has(&self, path: &Path) -> bool {
        self.find(path).is_ok()
    }

    /// What is to be removed with the rights of a user: what lies in a directory before the directory.
    fn of_user(&self, uid: u32, gid: u32) -> Vec<Item> {
        self.items.iter().rev().filter(|item| (item.uid, item.gid) == (uid, gid)).cloned().collect()
    }
}

/// Does what clients of a server that is no more had registered, one call of theirs after the other, with the rights of that
/// user. Returns when it is done.
pub fn clean_up(calls: &[Vec<Info>], uid: u32, gid: u32) {
    let mut all = Cleanup::default();
    for directives in calls {
        // The server has taken each of them. Two of different processes may contradict each other: the first one holds.
        if let Ok(more) = Cleanup::parse(directives, uid, gid) {
            let _ = all.add(&more);
        }
    }
    // In a thread of its own, because that takes on the rights of the user.
    let items = all.of_user(uid, gid);
    let sweeper = spawn_without_signals("instanton-sweep", move || sweep::remove(&items, &all.ignored, uid, gid));
    match sweeper {
        Ok(sweeper) => drop(sweeper.join()),
        Err(e) => trace!("nothing is cleaned up for user {uid}: {e}"),
    }
}

/// The elements of a list with commas.
fn list(info: &Info) -> Result<Vec<PathBuf>, Status> {
    let text = info.value.as_text().ok_or(Status::ERR_BAD_PARAM)?;
    let parts = text.as_bytes().split(|byte| *byte == b',').filter(|part| !part.is_empty());
    Ok(parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect())
}

/// Whether a path says where it lies without ambiguity.
fn is_removable(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.clone().next().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
}

/// Removals under way.
#[derive(Default)]
pub(super) struct Sweepers {
    running: HashMap<u64, Worker>,
    /// Who is to be told when these are done.
    waiting: Vec<(HashSet<u64>, Done<()>)>,
    next: u64,
}

impl Sweepers {
    /// Waits for all of them, at the server's end.
    pub(super) fn join(&mut self) {
        for thread in self.running.drain().filter_map(|(_, worker)| worker) {
            // A thread that panicked has ended as well.
            let _ = thread.join();
        }
        for (_, done) in self.waiting.drain(..) {
            done(Ok(()));
        }
    }
}

impl Router {
    /// A client controls processes.
    pub(super) fn job_control(
        &mut self,
        peer: PeerId,
        number: u64,
        requestor: Proc,
        targets: Vec<Proc>,
        directives: Vec<Info>,
    ) {
        // The server's own program is no process that anything could be removed after: its host is asked for all of it.
        let (ours, rest): (Vec<Info>, Vec<Info>) =
            directives.into_iter().partition(|info| peer != PROGRAM && OURS.iter().any(|key| info.key == *key));
        if !ours.is_empty() {
            match self.register_cleanup(&requestor, &targets, &ours) {
                // Whoever keeps them for us need not keep one that is known already.
                Ok(false) => {}
                Ok(true) => self.cx.host.clone().cleanup_registered(&requestor, &ours),
                Err(status) => {
                    trace!("{requestor} registers a clean-up that cannot be: {status}");
                    return self.cx.reply_status(peer, number, Err(status));
                }
            }
            if rest.is_empty() {
                return self.cx.reply_status(peer, number, Ok(()));
            }
        }
        let rest = self.jobs.signed(&self.cx, &requestor, rest);
        self.pass_on(
            peer,
            number,
            |host, done| host.job_control(&requestor, &targets, &rest, done),
            (Status::SUCCESS, Vec::new()),
            |(status, infos)| Reply::Infos(status, infos),
        );
    }

    fn register_cleanup(&mut self, requestor: &Proc, targets: &[Proc], ours: &[Info]) -> Result<bool, Status> {
        let client = self.jobs.client(requestor).ok_or(Status::ERR_NOT_FOUND)?;
        let more = Cleanup::parse(ours, client.uid, client.gid)?;
        let job = self.jobs.get_mut(&requestor.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        if targets.iter().any(|target| target.nspace != requestor.nspace) {
            return Err(Status::ERR_NO_PERMISSIONS);
        }
        if targets.is_empty() || targets.iter().any(|target| target.rank == Rank::WILDCARD) {
            return job.cleanup.add(&more);
        }
        let mut is_new = false;
        for target in targets {
            is_new |= job.clients.get_mut(&target.rank).ok_or(Status::ERR_NOT_FOUND)?.cleanup.add(&more)?;
        }
        Ok(is_new)
    }

    /// A process has ended: removes what it registered for itself, and what its job did when it was the last one.
    pub(super) fn sweep_proc(&mut self, proc: &Proc) {
        let Some(job) = self.jobs.get_mut(&proc.nspace) else { return };
        let Some(client) = job.clients.get_mut(&proc.rank) else { return };
        let mut cleanup = std::mem::take(&mut client.cleanup);
        // What others of the job have registered too is theirs to leave behind.
        let in_use = |path: &Path| {
            job.cleanup.has(path) || job.clients.values().any(|other| !other.ended && other.cleanup.has(path))
        };
        cleanup.items.retain(|item| !in_use(&item.path));
        let over = job.is_over();
        self.sweep(cleanup);
        if over {
            self.sweep_job(&proc.nspace);
        }
    }

    /// The last process of a job on this node has ended.
    pub(super) fn sweep_job(&mut self, nspace: &Nspace) {
        if let Some(job) = self.jobs.get_mut(nspace) {
            let cleanup = std::mem::take(&mut job.cleanup);
            self.sweep(cleanup);
        }
    }

    fn sweep(&mut self, cleanup: Cleanup) {
        let users: BTreeSet<(u32, u32)> = collect_small(cleanup.items.iter().map(|item| (item.uid, item.gid)));
        for (uid, gid) in users {
            let items = cleanup.of_user(uid, gid);
            let ignored = cleanup.ignored.clone();
            let id = self.sweepers.next;
            self.sweepers.next += 1;
            let thread = self.cx.offload("instanton-sweep", move || {
                sweep::remove(&items, &ignored, uid, gid);
                Ticket::Swept(id)
            });
            match thread {
                Ok(thread) => _ = self.sweepers.running.insert(id, thread),
                Err(e) => trace!("nothing is cleaned up for user {uid}: {e}"),
            }
        }
    }

    pub(super) fn swept(&mut self, id: u64) {
        if let Some(Some(thread)) = self.sweepers.running.remove(&id) {
            let _ = thread.join();
        }
        for (awaits, _) in &mut self.sweepers.waiting {
            awaits.remove(&id);
        }
        for (_, done) in self.sweepers.waiting.extract_if(.., |(awaits, _)| awaits.is_empty()).collect::<Vec<_>>() {
            self.cx.finish(done, Ok(()));
        }
    }

    /// Calls `done` when all removals that have begun are over.
    pub(super) fn after_sweeping(&mut self, done: Done<()>) {
        match self.sweepers.running.is_empty() {
            true => self.cx.finish(done, Ok(())),
            false => self.sweepers.waiting.push((self.sweepers.running.keys().copied().collect(), done)),
        }
    }
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
    fn a_path_cannot_be_removed_in_two_ways() {
        let mut cleanup = Cleanup::default();
        let plain = parse(&[Info::new(keys::REGISTER_CLEANUP_DIR, "/d")]).unwrap();
        let recursive =
            parse(&[Info::new(keys::REGISTER_CLEANUP_DIR, "/d"), Info::new(keys::CLEANUP_RECURSIVE, Value::Undef)])
                .unwrap();
        let ignore = parse(&[Info::new(keys::CLEANUP_IGNORE, "/d")]).unwrap();
        assert_eq!(cleanup.add(&plain), Ok(true));
        assert_eq!(cleanup.add(&plain), Ok(false), "the same again is no conflict, and nothing new");
        assert_eq!(cleanup.items.len(), 1);
        assert_eq!(cleanup.add(&recursive), Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES));
        assert_eq!(cleanup.add(&ignore), Err(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES));
    }

    #[test]
    fn what_lies_in_a_directory_goes_first() {
        let mut cleanup = parse(&[Info::new(keys::REGISTER_CLEANUP_DIR, "/d,/c/e")]).unwrap();
        let more = parse(&[Info::new(keys::REGISTER_CLEANUP, "/d/f,/c/e/a,/d-x,/d/f/")]).unwrap();
        assert_eq!(cleanup.add(&more), Ok(true));
        let paths: Vec<PathBuf> = cleanup.of_user(1, 2).into_iter().map(|item| item.path).collect();
        assert_eq!(paths, ["/d-x", "/d/f", "/d", "/c/e/a", "/c/e"].map(PathBuf::from));
        assert!(cleanup.of_user(1, 3).is_empty());
    }

    /// Counts what it is told of.
    #[derive(Default)]
    struct Counts(std::sync::Mutex<usize>);

    impl crate::server::Host for Counts {
        fn cleanup_registered(&self, _: &Proc, _: &[Info]) {
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn the_host_is_told_of_each_clean_up_once() {
        let host = std::sync::Arc::new(Counts::default());
        let server = crate::server::Server::start(crate::server::ServerConfig::default(), host.clone()).unwrap();
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        server.register_client_wait(&proc, 0, 0, None).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let register = move |router: &mut Router| {
            let file = |name: &str| vec![Info::new(keys::REGISTER_CLEANUP, name)];
            let peer = PeerId { door: 0, connection: u64::MAX };
            for name in ["/no/such/a", "/no/such/b", "/no/such/a", "/no/such/a,/no/such/b"] {
                router.job_control(peer, 1, proc.clone(), Vec::new(), file(name));
                router.job_control(peer, 1, proc.clone(), vec![proc.clone()], file(name));
            }
            tell.send(()).unwrap();
        };
        server.mailbox.post(register).unwrap();
        told.recv().unwrap();
        assert_eq!(*host.0.lock().unwrap(), 4, "two files of the process, and of its job");
    }
}
