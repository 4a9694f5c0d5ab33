//! Births of processes: copies of this one, what they inherit, and when they die with their parent.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, getpid, getppid};

/// Splits this process in two, as fork(2) does. Returns the id of the new process in the old one, and none in the new
/// one, which goes on from here with a copy of everything.
///
/// # Errors
/// `EDEADLK` where this process has other threads, whose locks nobody would release in the copy; and what the system
/// refuses.
pub fn fork() -> io::Result<Option<i32>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(Errno::EDEADLK.into());
    }
    // SAFETY: this thread is the only one, so that no lock is held by a thread that the copy lacks, and only this
    // thread could start another one meanwhile.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => Ok(None),
        ForkResult::Parent { child } => Ok(Some(child.as_raw())),
    }
}

/// Lets the programs that this process starts from now on inherit a descriptor.
///
/// # Errors
/// The system's refusal.
pub fn bequeath(descriptor: &impl AsFd) -> io::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Takes the descriptor that the process which has started this program [bequeathed](bequeath) to it.
///
/// # Errors
/// `EBADF` where there is no such descriptor, or not as an inherited one: what this program has opened is its owner's.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: it is looked at in this function only, and -1, which it must not be, is below 3. A number without a
    // descriptor is an error of the first call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = FdFlag::from_bits_retain(fcntl(borrowed, FcntlArg::F_GETFD)?);
    if flags.contains(FdFlag::FD_CLOEXEC) {
        return Err(Errno::EBADF.into());
    }
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: without the flag that everything opened here has, it was there before this program, and nobody knows it.
    // It has the flag now: it is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has the program that a command starts be killed as soon as the thread that starts it has ended, however that comes.
/// The thread must live as long as its process does. A program that changes its user when it is executed is not killed.
///
/// It holds from after the change of user that the command makes, and for that program alone: what it starts is not
/// killed.
pub fn die_with_this_thread(command: &mut Command) {
    let parent = getpid();
    let bind = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have ended before.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: in the child of a process with threads, this makes two system calls, takes no lock and allocates nothing.
    unsafe { command.pre_exec(bind) };
}

/// Has a program that is started inherit no descriptor but the standard three, whatever this process has left open, and
/// find no signal blocked, as all are for the threads of a library.
pub fn start_clean(command: &mut Command) {
    let clean = || {
        // An older kernel does not know it, and what is open there stays so.
        // SAFETY: close_range takes three integers; with this flag it closes nothing before the program is executed.
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(SigSet::empty().thread_set_mask()?)
    };
    // SAFETY: in the child of a process with threads, this makes two system calls, takes no lock and allocates nothing.
    unsafe { command.pre_exec(clean) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    #[test]
    fn nobody_forks_whose_threads_would_be_lost() {
        // The runner of the tests is another thread.
        assert_eq!(fork().unwrap_err().raw_os_error(), Some(libc::EDEADLK));
    }

    #[test]
    fn only_what_was_bequeathed_is_inherited_and_once() {
        let _alone = super::super::COPIES.write();
        let (ours, theirs) = io::pipe().unwrap();
        let (ours, theirs) = (OwnedFd::from(ours), OwnedFd::from(theirs));
        let refused = |number| inherited(number).unwrap_err().raw_os_error() == Some(libc::EBADF);
        assert!(refused(-1) && refused(0) && refused(ours.as_raw_fd()) && refused(i32::MAX));
        bequeath(&theirs).unwrap();
        let number = theirs.into_raw_fd();
        let taken = inherited(number).unwrap();
        assert!(refused(taken.as_raw_fd()));
    }
}
