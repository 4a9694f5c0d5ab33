//! Findings about the kernel: shared memory, calls, limits, namespaces, and a place for temporary files.
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use instanton::internal::sys::probe;
use nix::libc::{EISDIR, EOPNOTSUPP, O_TMPFILE};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use super::finding::Finding;
use crate::random;
use crate::session::Session;

const KERNEL: &str = "kernel";
const LIMITS: &str = "limits";
const DIRECTORY: &str = "temporary directory";
/// Descriptors that a launcher needs for a small job; each rank takes about ten more.
const FEW_DESCRIPTORS: u64 = 256;
/// Descriptors with which large jobs run.
const MANY_DESCRIPTORS: u64 = 4096;
/// Address space that a client with a small job maps.
const LITTLE_SPACE: u64 = 1 << 30;
/// Shared memory that a small job takes.
const SMALL_JOB: u64 = 64 << 20;
/// Longest path of a socket, and what the session directory adds to the temporary one.
const LONGEST_SOCKET: usize = 107;
const ADDED: usize = 70;

/// Calls of the kernel, and what may refuse them.
pub fn kernel() -> Vec<Finding> {
    let filter = if seccomp() { "; a seccomp filter is active" } else { "" };
    let mut all = Vec::new();
    all.push(match probe::shared_memory() {
        Ok(()) => Finding::ok(KERNEL, "kernel.memfd", "shared memory can be made, sealed and passed on", ""),
        Err(error) => Finding::problem(
            KERNEL,
            "kernel.memfd",
            format!("no shared memory can be made: {error}{filter}"),
            "let memfd_create, fallocate, fcntl, fchmod and /proc/self/fd through (a container's seccomp profile or \
             memory limit refuses them); servers here start no job",
        ),
    });
    all.push(match probe::process_descriptor() {
        Ok(()) => Finding::ok(KERNEL, "kernel.pidfd", "the ends of processes can be watched", ""),
        Err(error) => Finding::notice(
            KERNEL,
            "kernel.pidfd",
            format!("pidfd_open is refused: {error}{filter}"),
            "let it through (Linux 5.3 and later have it); without it a server learns of a rank's end by the rank's \
             socket or its parent, later",
        ),
    });
    all.push(match probe::two_words() {
        Ok(()) => Finding::ok(KERNEL, "kernel.futex_waitv", "waiters sleep on two words at once", ""),
        Err(error) => Finding::notice(
            KERNEL,
            "kernel.futex_waitv",
            format!("futex_waitv is refused: {error}{filter}"),
            "let it through (Linux 5.16 and later have it); without it waiters look again now and then, and fences \
             may take longer",
        ),
    });
    if let Err(error) = fs::read("/proc/net/unix") {
        all.push(Finding::problem(
            KERNEL,
            "kernel.proc",
            format!("/proc/net/unix cannot be read: {error}"),
            "mount /proc whole; without it no tool finds a server",
        ));
    }
    all.extend(namespaces());
    all
}

/// Returns whether a filter of calls is active for this process.
fn seccomp() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() != "0"))
}

/// Namespaces in which this process differs from the machine.
fn namespaces() -> Vec<Finding> {
    let mut all = Vec::new();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    if !map.is_empty() && words != ["0", "0", "4294967295"] {
        all.push(Finding::notice(
            KERNEL,
            "kernel.user_namespace",
            "this is a user namespace: other processes may see another user here",
            "where a server outside refuses ranks in here, its host must allow foreign ids for the job \
             (docs/SECURITY.md)",
        ));
    }
    // To others, the kernel does not show those of the first process.
    let differs = |of: &str| {
        let first = fs::read_link(format!("/proc/1/ns/{of}")).ok()?;
        Some(first != fs::read_link(format!("/proc/self/ns/{of}")).ok()?)
    };
    if differs("net") == Some(true) {
        all.push(Finding::notice(
            KERNEL,
            "kernel.net_namespace",
            "this is another network namespace than that of the first process",
            "abstract sockets do not lead out of it: a server outside needs its second door, a path socket in a \
             directory that both see",
        ));
    }
    all
}

/// Limits of this process, which ranks inherit.
pub fn limits() -> Vec<Finding> {
    let soft = |resource| getrlimit(resource).map_or(RLIM_INFINITY, |(soft, _)| soft);
    let said =
        |value: u64, unit: &str| if value == RLIM_INFINITY { "no limit".into() } else { format!("{value}{unit}") };
    let mut all = Vec::new();
    let (descriptors, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    let text = format!("descriptors: {} (hard: {})", said(descriptors, ""), said(hard, ""));
    let raise = "ulimit -n, LimitNOFILE= of the service that starts jobs, or limits.conf raises it; a server needs \
                 about ten for each rank";
    all.push(match descriptors {
        ..FEW_DESCRIPTORS => Finding::problem(LIMITS, "limits.descriptors", text, raise),
        FEW_DESCRIPTORS..MANY_DESCRIPTORS => Finding::notice(LIMITS, "limits.descriptors", text, raise),
        _ => Finding::ok(LIMITS, "limits.descriptors", text, ""),
    });
    let space = soft(Resource::RLIMIT_AS);
    let text = format!("address space: {}", said(space, " bytes"));
    all.push(match space < LITTLE_SPACE {
        true => Finding::problem(
            LIMITS,
            "limits.address_space",
            text,
            "ulimit -v unlimited: shared memory is mapped whole; what cannot be mapped is asked of the server, slowly",
        ),
        false => Finding::ok(LIMITS, "limits.address_space", text, ""),
    });
    let processes = soft(Resource::RLIMIT_NPROC);
    let text = format!("processes and threads of this user: {}", said(processes, ""));
    all.push(match processes < 256 {
        true => Finding::problem(
            LIMITS,
            "limits.processes",
            text,
            "ulimit -u raises it; each rank is one process with at least two threads",
        ),
        false => Finding::ok(LIMITS, "limits.processes", text, ""),
    });
    let locked = soft(Resource::RLIMIT_MEMLOCK);
    let text = format!("locked memory: {}", said(locked, " bytes"));
    all.push(match locked < 64 << 10 {
        true => Finding::notice(
            LIMITS,
            "limits.locked_memory",
            text,
            "this library locks none; the networks of MPI do: ulimit -l unlimited where they complain",
        ),
        false => Finding::ok(LIMITS, "limits.locked_memory", text, ""),
    });
    all.push(match probe::headroom(SMALL_JOB) {
        Ok(()) => Finding::ok(LIMITS, "limits.memory", "there is memory for a job below every limit that is seen", ""),
        Err(line) => Finding::problem(
            LIMITS,
            "limits.memory",
            line,
            "raise memory.max of that control group, or free memory in it; jobs are refused before the kernel kills \
             somebody",
        ),
    });
    all
}

/// The temporary directory, in which session directories are made.
pub fn directory() -> Vec<Finding> {
    let home = match Session::home() {
        Ok(home) => home,
        Err(error) => {
            let advice = "set TMPDIR to a directory that is there";
            return vec![Finding::problem(DIRECTORY, "tmpdir.name", format!("TMPDIR makes no path: {error}"), advice)];
        }
    };
    let shown = home.display();
    if let Err(error) = try_place(&home) {
        return vec![Finding::problem(
            DIRECTORY,
            "tmpdir.write",
            format!("nothing can be made in {shown}: {error}"),
            "set TMPDIR to a directory on this machine that you may write in; no job starts without it",
        )];
    }
    let mut all = vec![Finding::ok(DIRECTORY, "tmpdir.write", format!("{shown} can be written in"), "")];
    if home.as_os_str().len() + ADDED > LONGEST_SOCKET {
        all.push(Finding::notice(
            DIRECTORY,
            "tmpdir.length",
            format!("the path {shown} is too long for sockets below it: they may have {LONGEST_SOCKET} bytes in all"),
            "set TMPDIR to a shorter one where `instanton up` or a second door is refused",
        ));
    }
    if let Ok(found) = statvfs(&home) {
        let free = found.blocks_available().saturating_mul(found.fragment_size());
        if free < 16 << 20 || found.files() > 0 && found.files_available() < 64 {
            all.push(Finding::problem(
                DIRECTORY,
                "tmpdir.space",
                format!("{shown} is full: {free} bytes and {} files are left", found.files_available()),
                "free some, or set TMPDIR to another one; a job has a directory for each rank there",
            ));
        }
    }
    all
}

/// Makes a file there: what the mode of a directory says is not all that counts. It has no name where the file system
/// knows such files, and is removed at once elsewhere.
fn try_place(place: &Path) -> io::Result<()> {
    let without_name = fs::File::options().write(true).custom_flags(O_TMPFILE).mode(0o600).open(place);
    match without_name {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(EOPNOTSUPP | EISDIR)) => {
            let name = random::hex::<8>().map_err(io::Error::other)?;
            let file = place.join(format!(".instanton-doctor-{name}"));
            fs::File::options().write(true).create_new(true).mode(0o600).open(&file)?;
            fs::remove_file(&file)
        }
        Err(error) => Err(error),
    }
}
