//! Libraries that a program is linked with. The dynamic loader alone knows its own rules, so it is asked: it lists what
//! it would load, and where it finds that. That takes milliseconds, so a program that asks for nothing but the C runtime
//! by itself is spared the question.
//!
//! A program names its loader, and its environment where that looks, so the answer may never come or never end: beyond
//! [some time](PATIENCE) or [some bytes](MOST) there is none.
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use instanton::internal::sys::{birth, process};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::elf::{self, Elf};

/// The variable that tells the dynamic loader where to look.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Time that a loader has for its answer, and most bytes of that.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST: u64 = 1 << 20;

/// Libraries of the C and C++ runtime, of shells and of the system's tools: they lead to none of MPI, PMIx or PMI.
const RUNTIME: [&str; 10] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libtinfo.so.6",
    "libselinux.so.1",
    "ld-linux-x86-64.so.2",
];

/// A program as the dynamic loader would find its libraries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    file: PathBuf,
    directory: PathBuf,
    library_path: Option<OsString>,
}

/// A library that a program is linked with, directly or through others.
#[derive(Debug, PartialEq, Eq)]
pub struct Library {
    /// Name that is asked for.
    pub name: OsString,
    /// File that it leads to; none where the loader finds none.
    pub file: Option<PathBuf>,
}

impl Program {
    /// A program, with the directory and the environment that it is started in.
    pub fn new(file: &Path, directory: &Path, environment: &BTreeMap<OsString, OsString>) -> Self {
        let library_path = environment.get(OsStr::new(LIBRARY_PATH)).cloned();
        Self { file: file.into(), directory: directory.into(), library_path }
    }

    /// The program's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The directory that it is started in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Folders that the environment has the loader look in first.
    pub fn library_path(&self) -> impl Iterator<Item = PathBuf> {
        let folders = self.library_path.as_deref().into_iter().flat_map(std::env::split_paths);
        folders.filter(|folder| !folder.as_os_str().is_empty()).map(|folder| self.directory.join(folder))
    }

    /// Lists its libraries, unless they are those of the runtime alone; none for a script, or a program that is linked
    /// with nothing.
    pub fn libraries(&self) -> Option<Vec<Library>> {
        let elf = self.elf()?;
        let is_runtime = |name: &OsString| RUNTIME.iter().any(|runtime| name == runtime);
        match elf.needed.iter().all(is_runtime) {
            true => Some(Vec::new()),
            false => self.listed(&elf, None),
        }
    }

    /// Lists its libraries, as it would load them with one more.
    pub fn libraries_with(&self, preloaded: &str) -> Option<Vec<Library>> {
        self.listed(&self.elf()?, Some(preloaded))
    }

    fn elf(&self) -> Option<Elf> {
        elf::read(&self.directory.join(&self.file)).ok().flatten()
    }

    /// Asks the loader.
    fn listed(&self, elf: &Elf, preloaded: Option<&str>) -> Option<Vec<Library>> {
        let loader = elf.loader()?;
        let ask = |with_gaps: bool| {
            let mut command = Command::new(loader);
            match with_gaps {
                true => command.arg(&self.file),
                false => command.arg("--list").arg(&self.file),
            };
            command.current_dir(&self.directory).env_clear();
            command.envs(with_gaps.then_some(("LD_TRACE_LOADED_OBJECTS", "1")));
            command.envs(self.library_path.as_ref().map(|path| (LIBRARY_PATH, path)));
            command.envs(preloaded.map(|name| ("LD_PRELOAD", name)));
            birth::die_with_this_thread(&mut command);
            answer(command.stdin(Stdio::null()).stderr(Stdio::null()))
        };
        // That of glibc gives up at a library that it does not find, unless it is asked as ldd asks it. Others would run
        // the program then.
        let is_glibc = || loader.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-linux"));
        let listed = ask(false).or_else(|| is_glibc().then(|| ask(true))?)?;
        Some(listed.split(|byte| *byte == b'\n').filter_map(library).collect())
    }
}

/// Runs a command, and returns what it prints where it succeeds in time.
fn answer(command: &mut Command) -> Option<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let printed = child.stdout.take().and_then(|pipe| printed(pipe, &child, until));
    if printed.is_none() {
        let _ = child.kill();
    }
    child.wait().ok()?.success().then_some(printed?)
}

/// Reads all that a child prints; nothing where that is too much, or it has not ended by then.
fn printed(mut pipe: ChildStdout, child: &Child, until: Instant) -> Option<Vec<u8>> {
    let mut printed = Vec::new();
    let mut chunk = [0; 4096];
    while wait_for(&pipe, until) {
        match pipe.read(&mut chunk).ok()? {
            0 => {
                let end: OwnedFd = process::watch_child(child.id() as i32).ok()?;
                return wait_for(&end, until).then_some(printed);
            }
            count if printed.len() as u64 + count as u64 <= MOST => printed.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
    None
}

/// Waits until something can be read; false where that is not by then.
fn wait_for(readable: &impl AsFd, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let limit = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(readable.as_fd(), PollFlags::POLLIN)], limit) {
            Ok(ready) => return ready > 0,
            Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Reads a line of the list: a tab, the name, an arrow, the file, an address. One without an arrow has a path for its
/// name, or is the kernel's own.
fn library(line: &[u8]) -> Option<Library> {
    const ARROW: &[u8] = b" => ";
    let line = line.trim_ascii();
    let name = line.split(|byte| *byte == b' ').next().filter(|name| !name.is_empty())?;
    let found = match line.windows(ARROW.len()).position(|part| part == ARROW) {
        Some(at) => &line[at + ARROW.len()..],
        None => line,
    };
    let end = found.windows(3).rposition(|part| part == b" (0").unwrap_or(found.len());
    let file = (found != b"not found").then(|| PathBuf::from(OsString::from_vec(found[..end].to_vec())));
    Some(Library { name: OsStr::from_bytes(name).into(), file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_program_lists_what_it_is_linked_with() {
        let shell = Program::new(Path::new("/bin/sh"), Path::new("/"), &BTreeMap::new());
        let elf = shell.elf().unwrap();
        // A system may have a shell that is linked with nothing.
        if elf.loader().is_some() {
            let listed = shell.listed(&elf, None).unwrap();
            for name in &elf.needed {
                assert!(listed.iter().any(|library| library.name == *name && library.file.is_some()), "{listed:?}");
            }
        }
        let of = |file: &str| Program::new(Path::new(file), Path::new("/"), &BTreeMap::new()).libraries();
        assert_eq!([of("/proc/self/maps"), of("/none")], [None, None]);
    }

    #[test]
    fn a_loader_that_never_ends_or_prints_without_end_has_no_answer() {
        let of = |script: &str| {
            let alone = crate::COPIES.write();
            let answered = answer(Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()));
            drop(alone);
            answered
        };
        assert_eq!(of("echo yes"), Some(b"yes\n".to_vec()));
        assert_eq!(of("echo no; exit 1"), None);
        assert_eq!(of("exec yes"), None);
        assert_eq!(of("exec sleep 1000"), None);
        assert_eq!(of("echo begun; exec >&-; exec sleep 1000"), None);
    }

    /// Each program of the system that is spared the question would have been answered with nothing that counts.
    #[test]
    fn who_is_spared_the_question_is_linked_with_no_mpi() {
        let programs = std::fs::read_dir("/usr/bin").unwrap().take(40).map(|entry| entry.unwrap().path());
        for file in programs {
            let program = Program::new(&file, Path::new("/"), &BTreeMap::new());
            if let (Some(elf), Some(libraries)) = (program.elf(), program.libraries())
                && libraries.is_empty()
            {
                let listed = program.listed(&elf, None).unwrap_or_default();
                let counts = |library: &Library| {
                    ["mpi", "pmi", "prrte", "open-rte"].iter().any(|of| library.name.to_string_lossy().contains(of))
                };
                assert!(!listed.iter().any(counts), "{}: {listed:?}", file.display());
            }
        }
    }

    #[test]
    fn lines_of_a_list_are_read() {
        let of = |name: &str, file: Option<&str>| Some(Library { name: name.into(), file: file.map(PathBuf::from) });
        assert_eq!(library(b"\tliba.so.1 => /x y/liba.so.1 (0x00007f)"), of("liba.so.1", Some("/x y/liba.so.1")));
        assert_eq!(library(b"\tliba.so.1 => not found"), of("liba.so.1", None));
        assert_eq!(library(b"\t/lib/ld.so (0x00007f)"), of("/lib/ld.so", Some("/lib/ld.so")));
        assert_eq!(library(b""), None);
    }
}
