//! Binding of ranks: a rank inherits the processors of the thread that starts it.
use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Starts a rank with `birth`, on these processors if there are any.
///
/// # Errors
/// When it cannot be bound there.
pub fn bound<T>(processors: &[usize], birth: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if processors.is_empty() {
        return birth();
    }
    let me = Pid::from_raw(0);
    let before = sched_getaffinity(me)?;
    let mut units = CpuSet::new();
    processors.iter().try_for_each(|unit| units.set(*unit))?;
    sched_setaffinity(me, &units)?;
    let born = birth();
    sched_setaffinity(me, &before)?;
    born
}
