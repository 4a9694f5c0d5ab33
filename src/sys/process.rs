//! Other processes, as the kernel knows them.
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getegid, geteuid};

use super::exec_stop;

/// Returns the processor time that this thread has taken so far, up to this moment: `getrusage` lags by a tick of the
/// kernel, and would count a long turn as the next one's.
pub fn thread_time() -> Duration {
    // It fails for nobody who asks for itself.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Returns the time that this thread has been ready so far, and had no processor; `None` where the kernel does not say.
pub fn thread_wait() -> Option<Duration> {
    let mut text = [0; 64];
    let read = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    let waited = str::from_utf8(&text[..read]).ok()?.split(' ').nth(1)?;
    waited.parse().ok().map(Duration::from_nanos)
}

/// A descriptor that becomes readable when the process at the other end of `socket` ends: the very process that
/// connected, whatever becomes of its number. `pid` is what the kernel says of that process, for kernels before 6.5.
///
/// # Errors
/// When the process is gone, or not visible from this process's pid namespace.
pub fn watch_peer(socket: &impl AsFd, pid: i32) -> io::Result<OwnedFd> {
    match super::socket::peer_pidfd(socket) {
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => watch(pid),
        answer => answer,
    }
}

/// A descriptor that becomes readable when process `pid` ends.
///
/// # Errors
/// When there is no such process, or the kernel has no pidfds.
pub fn watch(pid: i32) -> io::Result<OwnedFd> {
    if pid <= 0 {
        // 0 is what the kernel says of a process of another pid namespace.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so `fd` is a new descriptor that nobody else owns. The kernel made it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Returns such a descriptor for a child of this process that nobody else waits for: where the kernel has no pidfds, a
/// thread waits. The child is left to be waited for.
///
/// # Errors
/// When the child is gone, or there is no thread to be had.
pub fn watch_child(pid: i32) -> io::Result<OwnedFd> {
    let is_unknown = |error: &io::Error| [libc::ENOSYS, libc::EPERM].iter().any(|e| error.raw_os_error() == Some(*e));
    let by_thread = || {
        let (end, held) = io::pipe()?;
        super::signals::spawn_without_signals("instanton-child", move || {
            let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(Pid::from_raw(pid)), ends) == Err(Errno::EINTR) {}
            drop(held);
        })?;
        Ok(end.into())
    };
    watch(pid).or_else(|error| if is_unknown(&error) { by_thread() } else { Err(error) })
}

/// Returns whether the process behind `pidfd` is a child of this one, not yet waited for. Leaves it to be waited for.
pub fn is_child(pidfd: &impl AsFd) -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: siginfo_t is plain data, for which zeroes are a value.
    let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let pidfd = pidfd.as_fd().as_raw_fd() as libc::id_t;
    // SAFETY: waitid writes to `news`, which outlives the call, and nowhere else.
    unsafe { libc::waitid(libc::P_PIDFD, pidfd, &raw mut news, options) == 0 }
}

/// Sends a signal to the process behind `pidfd`, whoever has its number by now.
///
/// # Errors
/// `ESRCH` when it has ended and somebody has waited for it.
pub fn signal(pidfd: &impl AsFd, signal: Signal) -> io::Result<()> {
    send(pidfd, signal, 0)
}

/// Sends a signal to the process group that a child of this process was started as, and to no group that has its number
/// by now, because somebody has waited for the child. `end` is what [`watch_child`] has given for it.
pub fn signal_group(end: &impl AsFd, pid: i32, signal: Signal) {
    const PROCESS_GROUP: libc::c_uint = 4;
    let sent = send(end, signal, PROCESS_GROUP);
    // Kernels before 6.9 know no groups there, and who has no pidfds has watched otherwise.
    if sent.is_err_and(|error| error.raw_os_error() != Some(libc::ESRCH)) {
        let pid = Pid::from_raw(pid);
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // An error means that nobody is left in the group.
        let _ = waitid(Id::Pid(pid), look).and_then(|_| killpg(pid, signal));
    }
}

fn send(pidfd: &impl AsFd, signal: Signal, flags: libc::c_uint) -> io::Result<()> {
    let (pidfd, nothing) = (pidfd.as_fd().as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
    // SAFETY: pidfd_send_signal takes integers, and reads nothing where no description of the signal is given.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal as libc::c_int, nothing, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until a child of this process has ended, and leaves it to be [taken](take_child). Its id.
///
/// # Errors
/// `ECHILD` where there is no child.
pub fn await_child() -> io::Result<i32> {
    // SAFETY: siginfo_t is plain data, for which zeroes are a value.
    let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: waitid writes to `news`, which outlives the call, and nowhere else.
        if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut news, libc::WEXITED | libc::WNOWAIT) } == 0 {
            if !exec_stop::is_end(&news) {
                // Such a stop of one that is traced is shown as well.
                exec_stop::await_birth();
                continue;
            }
            // SAFETY: what waitid has written is of a child, whose id it has.
            return Ok(unsafe { news.si_pid() });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Takes a child of this process that has ended, a certain one or any, by whatever signal: `nix` knows the real-time
/// ones not, and has no word for such an end. None where all go on.
///
/// # Errors
/// `ECHILD` where there is no such child.
pub fn take_child(pid: Option<i32>) -> io::Result<Option<(i32, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: waitpid writes to `status`, which outlives the call, and nowhere else.
    match unsafe { libc::waitpid(pid.unwrap_or(-1), &raw mut status, libc::WNOHANG) } {
        0 => Ok(None),
        pid if pid > 0 => Ok(Some((pid, ExitStatus::from_raw(status)))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether a descriptor's number is so high that half of those that this process may have are in use.
pub fn is_high(descriptor: &impl AsFd) -> bool {
    let number = descriptor.as_fd().as_raw_fd() as libc::rlim_t;
    getrlimit(Resource::RLIMIT_NOFILE).is_ok_and(|(soft, _)| number >= soft / 2)
}

/// Descriptors that are few.
const FEW_DESCRIPTORS: libc::rlim_t = 64;

/// Returns whether a descriptor's number is so high that few are left of those that this process may have.
pub fn is_among_last(descriptor: &impl AsFd) -> bool {
    let number = descriptor.as_fd().as_raw_fd() as libc::rlim_t;
    getrlimit(Resource::RLIMIT_NOFILE).is_ok_and(|(soft, _)| number.saturating_add(FEW_DESCRIPTORS) >= soft)
}

/// Gives this process, where it has one thread, a name: to the kernel, and in the place of its program's name and
/// arguments, as far as those have room for it. It is for people: a system that refuses it changes nothing else.
pub fn call_this(name: &str) {
    let _ = std::ffi::CString::new(name).map(|name| nix::sys::prctl::set_name(&name));
    let _ = replace_arguments(name);
}

/// Writes over the arguments of this process where the kernel shows them: they are its own memory, which nobody has a
/// reference into once a program has begun and has copied them.
fn replace_arguments(name: &str) -> io::Result<()> {
    const BEGIN: usize = 48;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The number of a field, from 1, is that of proc(5); the name in the second may have spaces.
    let behind_name = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    let mut fields = behind_name.split_ascii_whitespace().skip(BEGIN - 3).map(str::parse::<u64>);
    let (Some(Ok(begin)), Some(Ok(end))) = (fields.next(), fields.next()) else { return Ok(()) };
    let mut text = vec![0; end.saturating_sub(begin) as usize];
    let shown = name.len().min(text.len().saturating_sub(1));
    text[..shown].copy_from_slice(&name.as_bytes()[..shown]);
    File::options().write(true).open("/proc/self/mem")?.write_all_at(&text, begin)
}

/// Gives the calling thread, and no other, the rights of a user for good, where it does not act with these anyway.
///
/// The system calls are made directly: the C library's functions change every thread of the process.
///
/// # Errors
/// When the kernel refuses, for instance because this process has no right to change its user. The thread may then have
/// some of its rights changed already and must end.
pub fn become_user_in_this_thread(uid: u32, gid: u32) -> io::Result<()> {
    if (geteuid().as_raw(), getegid().as_raw()) == (uid, gid) {
        return Ok(());
    }
    let groups = [gid];
    // SAFETY: setgroups reads one gid from `groups`; the other two take integers. They change the calling thread only.
    let failed = unsafe {
        libc::syscall(libc::SYS_setgroups, 1, groups.as_ptr()) != 0
            || libc::syscall(libc::SYS_setresgid, gid, gid, gid) != 0
            || libc::syscall(libc::SYS_setresuid, uid, uid, uid) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use nix::sys::signal::kill;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;

    use super::super::spawn;
    use super::*;

    /// In its own group, until it is killed.
    fn sleeper() -> std::process::Child {
        let _alone = super::super::COPIES.write();
        Command::new("sleep").arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn the_processor_time_of_a_thread_runs_on_between_ticks() {
        let times = [(); 100].map(|()| {
            (0..10_000).for_each(|at| _ = std::hint::black_box(at));
            thread_time()
        });
        assert!(times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");
    }

    #[test]
    fn the_wait_of_a_thread_for_processors_is_known_and_never_less() {
        let waits = [(); 10].map(|()| {
            std::thread::yield_now();
            thread_wait()
        });
        // A kernel without accounts of delays says nothing.
        let is_known = std::path::Path::new("/proc/thread-self/schedstat").exists();
        assert!(waits.is_sorted() && waits.iter().all(|waited| waited.is_some() == is_known), "{waits:?}");
    }

    #[test]
    fn a_number_that_another_process_has_by_now_is_not_signalled() {
        let (mut child, mut other) = (sleeper(), sleeper());
        let end = watch_child(child.id() as i32).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(signal(&end, Signal::SIGKILL).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        signal_group(&end, other.id() as i32, Signal::SIGTERM);
        let end = watch_child(other.id() as i32).unwrap();
        signal_group(&end, other.id() as i32, Signal::SIGKILL);
        assert_eq!(other.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn who_waits_for_ends_sees_none_before_there_is_one() {
        let stopped = || spawn::tests::of("/bin/true", &[], exec_stop::start).unwrap() as i32;
        let end = |child: i32| {
            kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
            let killed = WaitStatus::Signaled(Pid::from_raw(child), Signal::SIGKILL, false);
            assert_eq!(waitpid(Pid::from_raw(child), None).unwrap(), killed);
        };
        let children: Vec<_> = (0..20).map(|_| stopped()).collect();
        // Other tests have children, too: what is seen must have ended, whoever it is.
        let waiter = std::thread::spawn(await_child);
        let more = stopped();
        let (first, others) = children.split_first().unwrap();
        kill(Pid::from_raw(*first), Signal::SIGKILL).unwrap();
        assert_ne!(waiter.join().unwrap().unwrap(), more);
        end(*first);
        others.iter().copied().chain([more]).for_each(end);
    }
}
