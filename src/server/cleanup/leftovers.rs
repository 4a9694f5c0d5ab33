//! Clean-up for a server that is no more: its host has kept the calls of its clients.
use super::directives::Cleanup;
use super::removal;
use crate::data::Info;
use crate::sys::signals::spawn_without_signals;
use crate::trace;

/// Does the clean-up that clients of a server that is no more had registered, one call of theirs after the other, with
/// the rights of that user. Returns when it is done.
pub fn clean_up(calls: &[Vec<Info>], uid: u32, gid: u32) {
    let mut all = Cleanup::default();
    for directives in calls {
        // The server has taken each of them. Two of different processes may contradict each other: the first one holds.
        if let Ok(more) = Cleanup::parse(directives, uid, gid) {
            let _ = all.add(&more, |_| ());
        }
    }
    // The thread takes on the rights of the user, and keeps them.
    let items = all.of_user(uid, gid);
    let worker = spawn_without_signals("instanton-sweep", move || removal::remove(&items, all.ignored(), uid, gid));
    match worker {
        Ok(worker) => drop(worker.join()),
        Err(e) => trace!("nothing is cleaned up for user {uid}: {e}"),
    }
}
