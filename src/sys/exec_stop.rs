//! Programs that stop at their first instruction, for a debugger that attaches to them by their number.
//!
//! The kernel stops a program there for whoever traces it. The thread that starts it traces it up to that place, and
//! lets it go with a SIGSTOP: it is stopped as by any other such signal, nobody traces it, and a SIGCONT makes it go on.
use std::io;
use std::sync::{Mutex, PoisonError};

use super::spawn::Spawn;

/// Held while a program is on its way to its first instruction. Its stop there is shown to whoever waits for children
/// as an end would be, until it is let go.
static BIRTH: Mutex<()> = Mutex::new(());

/// Error by which a child says that it may not be traced. No other step of a birth has it.
pub(super) const REFUSED: i32 = libc::EOPNOTSUPP;

/// Starts a program, and leaves it stopped at its first instruction. For a script that is its interpreter's. A program
/// that changes its user when it is executed does so only where this process may trace everything.
///
/// # Errors
/// As [`Spawn::start`]; one that [`is_refused`] where the program may not be traced.
pub fn start(spawn: &Spawn<'_>) -> io::Result<u32> {
    let _birth = BIRTH.lock().unwrap_or_else(PoisonError::into_inner);
    let child = spawn.start_traced(true)?;
    if stops(child)? {
        let (pid, nothing) = (child as libc::pid_t, std::ptr::null_mut::<libc::c_void>());
        // SAFETY: the request takes a number and a signal, and reads no memory. An error means that it was killed.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, nothing, libc::SIGSTOP) };
        // It gets the signal when it runs again.
        stops(child)?;
    }
    Ok(child)
}

/// Waits until a child has stopped, or has ended or gone on before that. Leaves all of it to be seen by others.
fn stops(pid: u32) -> io::Result<bool> {
    // SAFETY: siginfo_t is plain data, for which zeroes are a value.
    let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let what = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOWAIT;
    // SAFETY: waitid writes to `news`, which outlives the call, and nowhere else.
    while unsafe { libc::waitid(libc::P_PID, pid, &raw mut news, what) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(!is_end(&news))
}

/// Returns whether news of a child are of its end.
pub(super) fn is_end(news: &libc::siginfo_t) -> bool {
    [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&news.si_code)
}

/// Waits until no program is on its way to its first instruction.
pub(super) fn await_birth() {
    drop(BIRTH.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Returns whether an error means that programs may not be stopped at their first instruction.
pub fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(REFUSED)
}

/// Says which part of the system may have refused it: Yama by its setting, or a filter of system calls.
pub fn refuser() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let yama = read("/proc/sys/kernel/yama/ptrace_scope");
    if let scope @ ("2" | "3") = yama.trim() {
        return format!("Yama: /proc/sys/kernel/yama/ptrace_scope is {scope}, and must be 0 or 1");
    }
    let status = read("/proc/self/status");
    let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() == "2");
    match filters {
        true => "a seccomp filter: in a container, allow ptrace (docker run --cap-add SYS_PTRACE)".to_owned(),
        false => "the system: processes may not be traced here (ptrace)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
    use nix::unistd::Pid;

    use super::super::spawn;
    use super::*;

    fn state(pid: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].chars().next()
    }

    #[test]
    fn a_program_waits_at_its_first_instruction_until_it_is_continued() {
        let child = spawn::tests::of("/bin/sh", &["-c", "exit 7"], start).unwrap();
        let pid = Pid::from_raw(child as i32);
        let stopped = waitid(Id::Pid(pid), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
        assert_eq!(state(child), Some('T'), "and not `t`, as one that is traced");
        kill(pid, Signal::SIGCONT).unwrap();
        assert_eq!(waitpid(pid, None).unwrap(), WaitStatus::Exited(pid, 7));
    }

    #[test]
    fn a_program_that_is_not_there_is_no_refusal() {
        let error = spawn::tests::of("/no/such/program", &[], start).unwrap_err();
        assert!(error.kind() == io::ErrorKind::NotFound && !is_refused(&error), "{error}");
    }
}
