//! Programs that are started without a copy of this process.
//!
//! A process that forks copies its page tables, and then every page that it writes; a launcher has many. The child here
//! is lent the memory of this process instead, as by vfork, while the thread that starts it waits. It has a stack of its
//! own, makes system calls on what was prepared before, and is gone from that memory when its program is executed.
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use memmap2::MmapRaw;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

/// Bytes of the child's stack beside the words of a script, which the C library hands to a shell in an array there.
const STACK: usize = 64 << 10;
/// Numbers of signals end here.
const SIGNALS: c_int = 65;

/// A program that is to be started.
///
/// It leads a process group, and is killed as soon as the thread that has started it has ended, however that comes. The
/// thread must live as long as its process does. A program that changes its user when it is executed is not killed, nor
/// is what a program starts.
#[derive(Clone, Copy, Debug)]
pub struct Spawn<'a> {
    /// The file, from `directory` on.
    pub program: &'a Path,
    /// The first of its words: its name.
    pub name: &'a OsStr,
    /// The words behind it.
    pub arguments: &'a [OsString],
    /// The whole environment.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Directory that it runs in.
    pub directory: &'a Path,
    /// Input, output and errors.
    pub streams: [BorrowedFd<'a>; 3],
    /// A descriptor that it inherits under its number here.
    pub given: Option<BorrowedFd<'a>>,
}

/// Arguments of the child. The lists end with NULL and point to strings that live as long.
struct Prepared<'a> {
    program: &'a CStr,
    words: &'a [*const c_char],
    environment: &'a [*const c_char],
    directory: &'a CStr,
    streams: [RawFd; 3],
    given: Option<RawFd>,
    is_traced: bool,
    parent: libc::pid_t,
    /// Signals that this thread has blocked.
    mask: SigSet,
    /// The error of the step that has failed; 0 while none has.
    error: c_int,
}

impl Spawn<'_> {
    /// Starts it, and returns its number.
    ///
    /// # Errors
    /// `InvalidInput` for a NUL in a word; those of the system, of every step up to the execution.
    pub fn start(&self) -> io::Result<u32> {
        self.start_traced(false)
    }

    /// The same; a program that is traced stops at its first instruction for this thread.
    pub(super) fn start_traced(&self, is_traced: bool) -> io::Result<u32> {
        let c_string = |text: &OsStr| CString::new(text.as_bytes());
        let words = [self.name].into_iter().chain(self.arguments.iter().map(OsString::as_os_str)).map(c_string);
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let variable =
            |(name, value): (&OsString, &OsString)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat());
        let variables = self.environment.iter().map(variable).collect::<Result<Vec<_>, _>>()?;
        let (words, variables) = (pointers(&words), pointers(&variables));
        let mut prepared = Prepared {
            program: &c_string(self.program.as_os_str())?,
            words: &words,
            environment: &variables,
            directory: &c_string(self.directory.as_os_str())?,
            streams: self.streams.map(|stream| stream.as_raw_fd()),
            given: self.given.map(|given| given.as_raw_fd()),
            is_traced,
            parent: nix::unistd::getpid().as_raw(),
            mask: SigSet::empty(),
            error: 0,
        };
        let stack: MmapRaw = memmap2::MmapMut::map_anon((STACK + size_of_val(&words[..])).next_multiple_of(16))?.into();
        // No handler of this process runs in the child, on its memory.
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut prepared.mask))?;
        // SAFETY:
        // - The stack ends where the mapping does, aligned as it is to be, grows downwards and has room for what `child`
        //   calls.
        // - CLONE_VFORK has this thread sleep until the child has left this memory: what `prepared` and the stack hold
        //   stays, and nobody else looks at it.
        let pid = unsafe {
            libc::clone(
                child,
                stack.as_mut_ptr().add(stack.len()).cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                (&raw mut prepared).cast(),
            )
        };
        let failed = if pid == -1 { Some(io::Error::last_os_error()) } else { None };
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&prepared.mask), None)?;
        if let Some(error) = failed {
            return Err(error);
        }
        // SAFETY: the child has changed it, which the compiler does not see.
        match unsafe { ptr::read_volatile(&prepared.error) } {
            0 => Ok(pid as u32),
            error => {
                // It has ended, or is about to.
                while nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None) == Err(nix::errno::Errno::EINTR) {}
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// A list for the C library.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The child, up to the execution of its program.
extern "C" fn child(prepared: *mut c_void) -> c_int {
    // SAFETY: it is the one of the thread that sleeps meanwhile, and nobody else has it.
    let prepared = unsafe { &mut *prepared.cast::<Prepared<'_>>() };
    // SAFETY: it runs once, in a child that has this stack for its own.
    let error = unsafe { execute(prepared) };
    // SAFETY: the place is one of ours, and is read when this process is gone.
    unsafe { ptr::write_volatile(&mut prepared.error, error) };
    // SAFETY: it ends this process at once, and runs nothing that is to run at the end of another.
    unsafe { libc::_exit(127) }
}

/// Executes the program. Returns the error of the step that has failed.
///
/// # Safety
/// The caller is a child that shares its memory with a thread that sleeps, and has every signal blocked.
unsafe fn execute(prepared: &Prepared<'_>) -> c_int {
    /// Returns the error of a call that has failed, from the function.
    macro_rules! step {
        ($call:expr) => {
            if $call == -1 {
                return io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            }
        };
    }
    // SAFETY: all are system calls on numbers, on places of this stack, and on strings and lists that the caller's thread
    // keeps; none takes a lock or allocates.
    unsafe {
        // A handler would be called in the memory of another process. This runtime ignores SIGPIPE, and programs expect
        // not to. There are numbers that the C library keeps to itself.
        for signal in 1..SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, ptr::null(), &mut action) == 0;
            if known && (action.sa_sigaction > libc::SIG_IGN || signal == libc::SIGPIPE) {
                action.sa_sigaction = libc::SIG_DFL;
                action.sa_flags = 0;
                step!(libc::sigaction(signal, &action, ptr::null_mut()));
            }
        }
        for (number, stream) in (0..).zip(prepared.streams) {
            match stream == number {
                true => step!(libc::fcntl(number, libc::F_SETFD, 0)),
                false => step!(libc::dup2(stream, number)),
            }
        }
        step!(libc::chdir(prepared.directory.as_ptr()));
        step!(libc::setpgid(0, 0));
        step!(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL));
        // The parent may have ended before.
        if libc::getppid() != prepared.parent {
            return libc::ESRCH;
        }
        if let Some(given) = prepared.given {
            step!(libc::fcntl(given, libc::F_SETFD, 0));
        }
        if prepared.is_traced && libc::ptrace(libc::PTRACE_TRACEME) == -1 {
            return super::exec_stop::REFUSED;
        }
        step!(libc::sigprocmask(libc::SIG_SETMASK, prepared.mask.as_ref(), ptr::null_mut()));
        let (program, words) = (prepared.program.as_ptr(), prepared.words.as_ptr());
        libc::execve(program, words, prepared.environment.as_ptr());
        let error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        // A script that names no interpreter is the shell's, as everywhere; a program of another machine is nobody's.
        if error != libc::ENOEXEC || is_compiled(program) {
            return error;
        }
        libc::execvpe(program, words, prepared.environment.as_ptr());
    }
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Returns whether a file begins as a compiled program does. One that cannot be read is none.
///
/// # Safety
/// The name is a string of C.
unsafe fn is_compiled(file: *const c_char) -> bool {
    let mut begin = [0u8; 4];
    // SAFETY: system calls on the caller's string and on a place of this stack; none takes a lock or allocates.
    unsafe {
        // A file that has taken its place meanwhile may be a FIFO, which nobody waits for.
        let opened = libc::open(file, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK);
        if opened != -1 {
            libc::read(opened, begin.as_mut_ptr().cast(), begin.len());
            libc::close(opened);
        }
    }
    begin == *b"\x7fELF"
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::OpenOptionsExt;

    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;

    use super::*;

    /// Starts a program in the root directory, with these words.
    pub fn of(program: &str, arguments: &[&str], start: impl FnOnce(&Spawn<'_>) -> io::Result<u32>) -> io::Result<u32> {
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let _alone = super::super::COPIES.write();
        start(&Spawn {
            program: Path::new(program),
            name: OsStr::new(program),
            arguments: &arguments,
            environment: &BTreeMap::new(),
            directory: Path::new("/"),
            streams: [null.as_fd(); 3],
            given: None,
        })
    }

    /// Runs a shell under this name, and returns what it has printed. It has 7 for its status.
    fn shell(script: &str, name: &str, directory: &str, given: Option<BorrowedFd<'_>>) -> String {
        let (mut reader, writer) = io::pipe().unwrap();
        let (null, writer) = (File::open("/dev/null").unwrap(), OwnedFd::from(writer));
        let spawn = Spawn {
            program: Path::new("/bin/sh"),
            name: OsStr::new(name),
            arguments: &["-c", &format!("{script}; exit 7"), "zero", "one"].map(OsString::from),
            environment: &BTreeMap::from(
                [("A", "x = y"), ("PATH", "/usr/bin:/bin")].map(|(a, b)| (a.into(), b.into())),
            ),
            directory: Path::new(directory),
            streams: [null.as_fd(), writer.as_fd(), writer.as_fd()],
            given,
        };
        let alone = super::super::COPIES.write();
        let child = Pid::from_raw(spawn.start().unwrap() as i32);
        drop(alone);
        drop(writer);
        let mut printed = String::new();
        reader.read_to_string(&mut printed).unwrap();
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 7), "{printed}");
        printed
    }

    #[test]
    fn a_program_has_what_it_was_given_and_nothing_else() {
        let group = "ps -o pid=,pgid= -p $$ | { read pid group; test $pid = $group && echo leads; }";
        let printed = shell(&format!("pwd; echo $0 $1 \"$A\"; env | grep -c HOME; {group}"), "sh", "/", None);
        assert_eq!(printed, "/\nzero one x = y\n0\nleads\n");
        let name = shell("cat /proc/$$/cmdline | tr '\\0' '\\n' | head -n 1; pwd", "not its file", "/usr", None);
        assert_eq!(name, "not its file\n/usr\n");
        let (given, mut ours) = io::pipe().unwrap();
        ours.write_all(b"given\n").unwrap();
        drop(ours);
        let number = given.as_raw_fd();
        // Shells redirect from numbers of one digit alone, and other tests of this process may have taken these.
        let printed = shell(&format!("cat /dev/fd/{number}"), "sh", "/", Some(given.as_fd()));
        assert_eq!(printed, "given\n");
        let printed = shell(&format!("test -e /proc/$$/fd/{number} || echo none"), "sh", "/", None);
        assert_eq!(printed, "none\n", "another program does not inherit it");
    }

    #[test]
    fn a_program_finds_signals_as_they_are_but_for_those_that_its_runtime_handles() {
        // The runtime of Rust ignores SIGPIPE, and handles SIGSEGV.
        let before = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        // A shell that starts another program blocks signals meanwhile.
        let printed = shell("while read line; do echo $line; done < /proc/$$/status", "sh", "/", None);
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            u64::from_str_radix(line.unwrap(), 16).unwrap()
        };
        assert_eq!(field(&printed, "SigBlk:"), field(&before, "SigBlk:"));
        let pipe = 1 << (libc::SIGPIPE - 1);
        assert_ne!(field(&before, "SigIgn:") & pipe, 0);
        assert_eq!(field(&printed, "SigIgn:"), field(&before, "SigIgn:") & !pipe);
        assert_eq!(
            field(&std::fs::read_to_string("/proc/thread-self/status").unwrap(), "SigIgn:"),
            field(&before, "SigIgn:")
        );
    }

    #[test]
    fn a_shell_takes_what_names_no_interpreter_and_nothing_that_was_compiled() {
        let file = std::env::temp_dir().join(format!("instanton-spawn-{}", std::process::id()));
        let start = |text: &[u8]| {
            let alone = super::super::COPIES.write();
            let mut made = File::options().create(true).write(true).truncate(true).mode(0o700).open(&file).unwrap();
            made.write_all(text).unwrap();
            drop((made, alone));
            of(file.to_str().unwrap(), &[], |spawn| spawn.start()).map_err(|error| error.raw_os_error())
        };
        let child = Pid::from_raw(start(b"exit 7\n").unwrap() as i32);
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 7));
        assert_eq!(start(b"\x7fELF\nexit 7\n"), Err(Some(libc::ENOEXEC)));
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn each_step_that_fails_says_why() {
        let error = |program: &str, start: fn(&Spawn<'_>) -> io::Result<u32>| of(program, &[], start).unwrap_err();
        assert_eq!(error("/no/such/program", |spawn| spawn.start()).raw_os_error(), Some(libc::ENOENT));
        assert_eq!(error("/etc/passwd", |spawn| spawn.start()).raw_os_error(), Some(libc::EACCES));
        let nowhere = |spawn: &Spawn<'_>| Spawn { directory: Path::new("/no/such"), ..*spawn }.start();
        assert_eq!(error("true", nowhere).raw_os_error(), Some(libc::ENOENT));
        let refused = of("true", &["a\0b"], |spawn| spawn.start()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
