//! Every process that descends from this one, however far and whatever session it made for itself.
//!
//! Guardian, watcher, reaper and launcher are subreapers: a process whose parent dies becomes their child instead of
//! init's. So the family is exactly what is found below us, and it is gone when there is no child left to wait for.
use std::collections::{HashMap, HashSet};
use std::fs;

use instanton::internal::sys::process::{self, await_child, take_child};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

/// Makes this process the one that orphans below it are given to.
pub fn adopt_orphans() -> nix::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)
}

/// Sends signals to all of the family that are `wanted`; returns how many they were sent to.
pub fn signal(signals: &[Signal], mut wanted: impl FnMut(Pid) -> bool) -> usize {
    let members: HashSet<Pid> = descendants(getpid()).into_iter().collect();
    // One that has just ended is no error: it is waited for elsewhere.
    members.iter().filter(|pid| wanted(**pid) && tell(**pid, &members, signals)).count()
}

/// Sends signals to one of the family. Its number may be a stranger's by now, where others than we wait for it: it is
/// held by a descriptor, and then looked at again.
fn tell(pid: Pid, family: &HashSet<Pid>, signals: &[Signal]) -> bool {
    match process::watch(pid.as_raw()) {
        Ok(held) => {
            let is_ours = |parent: Pid| parent == getpid() || family.contains(&parent);
            parent_of(pid).is_some_and(is_ours) && signals.iter().all(|signal| process::signal(&held, *signal).is_ok())
        }
        Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => false,
        // The kernel has no such descriptors.
        Err(_) => signals.iter().all(|signal| kill(pid, *signal).is_ok()),
    }
}

/// Our children that nobody knows: those whose parents have ended.
pub fn orphans(is_known: impl Fn(Pid) -> bool) -> Vec<Pid> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    }
    found.retain(|pid| !is_known(*pid));
    found
}

/// Sends signals to processes of the family, and to all below them, that are `wanted`.
pub fn signal_below(tops: &[Pid], signals: &[Signal], mut wanted: impl FnMut(Pid) -> bool) {
    let all = |top: &Pid| descendants(*top).into_iter().chain([*top]);
    let members: HashSet<Pid> = tops.iter().flat_map(all).collect();
    members.iter().filter(|pid| wanted(**pid)).for_each(|pid| _ = tell(*pid, &members, signals));
}

/// Kills the family and waits until nobody is left of it.
pub fn end() {
    // A process without a child has no family: whatever has lost its parent below us is our child. To look for it in
    // all of /proc takes its time.
    while take_child(None).is_ok() {
        // Again after each death: a process forked in between is found the next time.
        if signal(&[Signal::SIGKILL], |_| true) == 0 || await_child().is_err() {
            return;
        }
    }
}

/// The processes below `ancestor`, as /proc tells them at this moment.
pub fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent_of(Pid::from_raw(pid)) {
            children.entry(parent.as_raw()).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut todo = vec![ancestor.as_raw()];
    while let Some(parent) = todo.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(below.iter().copied().map(Pid::from_raw));
        todo.extend(below);
    }
    found
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parent_in(&stat).map(Pid::from_raw)
}

/// The parent's id in a /proc/PID/stat; the name in parentheses before it may hold anything.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in(b"12 (sh) S 7 12 12"), Some(7));
        assert_eq!(parent_in(b"12 (a) R 9 (\xff) S 7 12"), Some(7));
        assert_eq!(parent_in(b"12 (a"), None);
        assert_eq!(parent_in(b"12 (a) S"), None);
    }

    #[test]
    fn children_and_grandchildren_are_found() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        let alone = crate::COPIES.write();
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'echo $$; exec sleep 1000' & wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(alone);
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap());
        let found = descendants(getpid());
        assert!(found.contains(&Pid::from_raw(shell.id() as i32)));
        assert!(found.contains(&grandchild));
        kill(grandchild, Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
    }
}
