//! Headroom: memory that can be taken without bringing the OOM killer on.
//!
//! In a control group with a memory limit, allocating shared memory beyond it does not fail: it kills a process. So the
//! limits of every visible ancestor group are looked at before each step. Memory that another process takes between the
//! look and the step is not seen; the margin is for that.
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory that must be left after a step.
const MARGIN: u64 = 4 << 20;

/// There is too little left below some limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes of shared memory are wanted and {left} are left below the limit of {whose}")]
pub(crate) struct TooLittle {
    /// Bytes asked for.
    pub(crate) wanted: u64,
    /// Bytes left.
    pub(crate) left: u64,
    /// The group, or the machine.
    pub(crate) whose: String,
}

/// Memory that a look has found, less what was taken since. Looking costs some tenths of a millisecond, more than most
/// segments do.
struct Seen {
    at: Instant,
    left: u64,
}

/// For how long a look counts, where plenty was left.
const FRESH: Duration = Duration::from_millis(20);
/// With less than this left after a step, we look before each step that is not little.
const PLENTY: u64 = 256 << 20;
/// So much is taken altogether before somebody looks: a part of the margin, and no more than the kernel itself takes
/// for a few processes that come in. So nobody's Init waits for a look because of its own page.
const LITTLE: u64 = 64 << 10;

/// Record of the memory that is left.
struct Ledger {
    seen: Option<Seen>,
    /// Taken since the last look without one.
    unseen: u64,
}

impl Ledger {
    /// Fails unless `bytes` more can be taken. `look` says how much is left, if those are.
    fn require(
        &mut self,
        bytes: u64,
        now: Instant,
        look: impl FnOnce(u64) -> Result<u64, TooLittle>,
    ) -> Result<(), TooLittle> {
        if let Some(seen) = &mut self.seen
            && now.duration_since(seen.at) < FRESH
            && seen.left >= bytes.saturating_add(PLENTY)
        {
            seen.left -= bytes;
            return Ok(());
        }
        if self.unseen.saturating_add(bytes) <= LITTLE {
            self.unseen += bytes;
            return Ok(());
        }
        self.seen = None;
        let left = look(bytes)?;
        *self = Self { seen: Some(Seen { at: now, left: left.saturating_sub(bytes) }), unseen: 0 };
        Ok(())
    }
}

/// Fails unless `bytes` more can be taken: in the groups of this process, and on the machine.
pub(crate) fn require(bytes: u64) -> Result<(), TooLittle> {
    static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { seen: None, unseen: 0 });
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner).require(bytes, Instant::now(), look)
}

/// The least that is left anywhere, if `bytes` are.
fn look(bytes: u64) -> Result<u64, TooLittle> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut least = check(bytes, &groups, Path::new("/sys/fs/cgroup"))?;
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if let Some(kib) = field(&meminfo, "MemAvailable:") {
        let left = kib.saturating_mul(1024);
        enough(bytes, left, || "the machine".into())?;
        least = least.min(left);
    }
    Ok(least)
}

/// The least that is left in any group below `root` that the process belongs to, if `bytes` are.
fn check(bytes: u64, groups: &str, root: &Path) -> Result<u64, TooLittle> {
    let mut least = u64::MAX;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, Some(path)) = (parts.next(), parts.next().unwrap_or(""), parts.next()) else { continue };
        let (mount, files) = match controllers {
            "" => (root.to_path_buf(), ["memory.max", "memory.current", "inactive_file", "active_file"]),
            list if list.split(',').any(|c| c == "memory") => (
                root.join("memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"],
            ),
            _ => continue,
        };
        // Below a namespace of groups the path may lead nowhere; its existing ancestors count.
        let group = mount.join(path.trim_start_matches('/'));
        for group in group.ancestors().take_while(|group| group.starts_with(&mount)) {
            if let Some(left) = left(group, files) {
                enough(bytes, left, || format!("control group {}", group.display()))?;
                least = least.min(left);
            }
        }
    }
    Ok(least)
}

/// Bytes left in a group: its limit less what is used and could not be dropped.
fn left(group: &Path, [limit, usage, inactive, active]: [&str; 4]) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    // "max", which is no number, is no limit.
    let limit: u64 = read(limit)?.trim().parse().ok()?;
    let usage: u64 = read(usage)?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let droppable = field(&stat, inactive).unwrap_or(0) + field(&stat, active).unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(droppable)))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn enough(wanted: u64, left: u64, whose: impl FnOnce() -> String) -> Result<(), TooLittle> {
    if left >= wanted.saturating_add(MARGIN) { Ok(()) } else { Err(TooLittle { wanted, left, whose: whose() }) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn group(root: &Path, path: &str, files: &[(&str, &str)]) -> PathBuf {
        let group = root.join(path);
        fs::create_dir_all(&group).unwrap();
        files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        group
    }

    #[test]
    fn what_is_little_is_looked_for_together() {
        let mut ledger = Ledger { seen: None, unseen: 0 };
        let start = Instant::now();
        let refuse = |wanted| Err(TooLittle { wanted, left: 0, whose: "a test".into() });
        let unlooked = |_| panic!("a look");
        (0..LITTLE / 4096).for_each(|_| ledger.require(4096, start, unlooked).unwrap());
        (0..2)
            .for_each(|_| assert!(ledger.require(1, start, refuse).is_err(), "each of them is looked for from now on"));
        assert_eq!(ledger.require(4096, start, |_| Ok(PLENTY)), Ok(()));
        assert!(ledger.require(LITTLE + 1, start, refuse).is_err());
        assert_eq!(ledger.require(LITTLE, start, unlooked), Ok(()));
        // Of plenty, nothing is counted as not looked for, as long as that is fresh.
        assert_eq!(ledger.require(LITTLE + 1, start, |_| Ok(2 * PLENTY)), Ok(()));
        assert_eq!(ledger.require(LITTLE + 1, start + FRESH / 2, unlooked), Ok(()));
        assert_eq!(ledger.require(LITTLE, start + FRESH, unlooked), Ok(()));
        assert!(ledger.require(1, start + FRESH, refuse).is_err());
    }

    #[test]
    fn the_tightest_ancestor_decides() {
        let root = std::env::temp_dir().join(format!("instanton-headroom-{}", std::process::id()));
        let limit = (64u64 << 20).to_string();
        group(
            &root,
            "job",
            &[
                ("memory.max", &limit),
                ("memory.current", &(60u64 << 20).to_string()),
                ("memory.stat", "anon 1\ninactive_file 1048576\nactive_file 0\n"),
            ],
        );
        group(&root, "job/step", &[("memory.max", "max\n"), ("memory.current", "4096\n")]);
        let groups = "0::/job/step/not-visible\n3:cpuset:/elsewhere\n";
        assert_eq!(check(1 << 20, groups, &root), Ok(5 << 20));
        let error = check(2 << 20, groups, &root).unwrap_err();
        assert_eq!((error.wanted, error.left), (2 << 20, 5 << 20));
        assert!(error.whose.ends_with("/job"));
        group(&root, "memory/old", &[("memory.limit_in_bytes", "1048576"), ("memory.usage_in_bytes", "0")]);
        assert!(check(1, "4:memory:/old\n", &root).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
