//! Strangers: ranks that never attach to the server. A program whose library finds no way to us runs as many jobs of
//! one process each and ends well, so that only we can tell its user.
//!
//! Two things show that a program was meant to attach. A stranger that writes output is alive, and its memory map, with
//! those of the processes below it, names every library that it has loaded, be it at the wish of a script. A program
//! that was linked with its library is found without that: the dynamic loader, which alone knows its own rules, lists
//! what it would load. It is asked at the end of the run, about the programs of strangers that have exited; one that a
//! signal has ended may have been on its way.
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use instanton::internal::sys::birth;
use nix::unistd::Pid;

/// Processes below a rank that are looked at.
const MOST_BELOW: usize = 32;
/// Different programs of which the dynamic loader is asked at the end.
const MOST_PROGRAMS: usize = 64;
/// The variable that tells the dynamic loader where to look.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// A program as the dynamic loader would find its libraries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    file: PathBuf,
    directory: PathBuf,
    library_path: Option<OsString>,
}

/// A rank that has not attached.
#[derive(Debug)]
pub struct Stranger {
    program: Program,
    /// The library that it was seen to have loaded.
    library: Option<String>,
}

/// All strangers of a run.
#[derive(Debug, Default)]
pub struct Strangers {
    living: Mutex<HashMap<Pid, Stranger>>,
    ended: Mutex<Ended>,
}

/// Numbers of those that have exited.
#[derive(Debug, Default)]
struct Ended {
    by_library: BTreeMap<String, usize>,
    by_program: HashMap<Program, usize>,
}

impl Program {
    /// A program, with the directory and the environment that it is started in.
    pub fn new(file: &Path, directory: &Path, environment: &BTreeMap<OsString, OsString>) -> Self {
        let library_path = environment.get(OsStr::new(LIBRARY_PATH)).cloned();
        Self { file: file.into(), directory: directory.into(), library_path }
    }

    /// The library of MPI, PMIx or PMI that it is linked with, directly or through others.
    fn library(&self) -> Option<String> {
        let loader = loader_of(&self.directory.join(&self.file)).ok().flatten()?;
        let mut command = Command::new(loader);
        command.arg("--list").arg(&self.file).current_dir(&self.directory).env_clear();
        command.envs(self.library_path.as_ref().map(|path| (LIBRARY_PATH, path)));
        birth::die_with_this_thread(&mut command);
        let listed = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        // With a library missing the program has not begun, as the loader has said.
        let is_complete = listed.status.success() && !listed.stdout.windows(9).any(|words| words == b"not found");
        let lines = listed.stdout.split(|byte| *byte == b'\n').filter(|_| is_complete);
        // A tab, the name that is asked for, an arrow, and the file that it leads to.
        best(lines.filter_map(|line| line.trim_ascii_start().split(|byte| *byte == b' ').next()))
    }
}

impl Strangers {
    /// A rank is born.
    pub fn born(&self, pid: Pid, program: Program) {
        self.living().insert(pid, Stranger { program, library: None });
    }

    /// A rank has attached, as that or as a tool, and is none.
    pub fn attached(&self, pid: Pid) {
        self.living().remove(&pid);
    }

    /// Looks at the libraries that a rank has loaded, unless it is none or was seen before.
    pub fn look(&self, pid: Pid) {
        if self.living().get(&pid).is_none_or(|stranger| stranger.library.is_some()) {
            return;
        }
        // The kernel may take its time, and nobody waits for us meanwhile.
        let Some(library) = loaded(pid) else { return };
        // A process leaves before it is reaped, so that the number of one that is still here was its own.
        if let Some(stranger) = self.living().get_mut(&pid) {
            stranger.library = Some(library);
        }
    }

    /// A process is about to be reaped.
    pub fn leaves(&self, pid: Pid) -> Option<Stranger> {
        self.living().remove(&pid)
    }

    /// A stranger has ended by itself.
    pub fn exited(&self, Stranger { program, library }: Stranger) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match library {
            Some(library) => *ended.by_library.entry(library).or_default() += 1,
            None if ended.by_program.len() < MOST_PROGRAMS || ended.by_program.contains_key(&program) => {
                *ended.by_program.entry(program).or_default() += 1;
            }
            None => {}
        }
    }

    /// A line for each library that should have led strangers to us.
    pub fn lines(&self) -> Vec<String> {
        let Ended { mut by_library, by_program } =
            std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for (program, count) in by_program {
            if let Some(library) = program.library() {
                *by_library.entry(library).or_default() += count;
            }
        }
        by_library.iter().map(|(library, count)| line(library, *count)).collect()
    }

    fn living(&self) -> std::sync::MutexGuard<'_, HashMap<Pid, Stranger>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(library: &str, count: usize) -> String {
    let (ranks, which) = if count == 1 { ("rank", "it") } else { ("ranks", "each") };
    format!(
        "{count} {ranks} ended without having attached to the PMIx server of this run, in spite of {library}: \
         if that was initialised, {which} was alone in a job of its own"
    )
}

/// The library of MPI, PMIx or PMI that a process has loaded, or one of the processes below it.
fn loaded(pid: Pid) -> Option<String> {
    let mut todo = vec![pid.as_raw()];
    for _ in 0..MOST_BELOW {
        let pid = todo.pop()?;
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let files = maps.split(|byte| *byte == b'\n').filter_map(|line| line.rsplit(|byte| *byte == b'/').next());
        if let Some(library) = best(files) {
            return Some(library);
        }
        let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        todo.extend(below.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    None
}

/// The library among these files that says most about its process: one of MPI before one of PMIx, and that before one
/// of PMI.
fn best<'a>(files: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let kinds = files.filter_map(|file| Some((kind(file)?, file)));
    kinds.min().map(|(_, file)| String::from_utf8_lossy(file).into_owned())
}

fn kind(file: &[u8]) -> Option<u8> {
    let at = file.windows(3).position(|part| part == b".so")?;
    let name = file[..at].strip_prefix(b"lib")?;
    match name {
        b"mpi" | b"mpich" => Some(0),
        // Bindings of other languages, and the libraries of vendors; not `libmpir`, which counts.
        _ if [&b"mpi_"[..], b"mpich", b"mpifort", b"mpicxx"].iter().any(|of| name.starts_with(of)) => Some(1),
        b"pmix" => Some(2),
        b"pmi" | b"pmi2" => Some(3),
        _ => None,
    }
}

/// The dynamic loader that a program asks for; none where it asks for something else, or nothing.
fn loader_of(program: &Path) -> io::Result<Option<PathBuf>> {
    const PT_INTERP: u64 = 3;
    let file = File::open(program)?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    let own_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let is_wide = match header[..6] {
        [0x7f, b'E', b'L', b'F', class @ (1 | 2), order] if order == own_order => class == 2,
        _ => return Ok(None),
    };
    // Where a field lies in a wide file and in another, and how wide a word is there.
    let word = |bytes: &[u8], at: [usize; 2]| if is_wide { number(bytes, at[0], 8) } else { number(bytes, at[1], 4) };
    let short = |at: [usize; 2]| number(&header, if is_wide { at[0] } else { at[1] }, 2);
    let (table, size, count) = (word(&header, [32, 28]), short([54, 42]), short([56, 44]));
    for at in 0..count {
        let mut entry = [0; 40];
        file.read_exact_at(&mut entry[..if is_wide { 40 } else { 32 }], table.saturating_add(at * size))?;
        if number(&entry, 0, 4) == PT_INTERP {
            let mut path = vec![0; word(&entry, [32, 16]).min(4096) as usize];
            file.read_exact_at(&mut path, word(&entry, [8, 4]))?;
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            // A program that is no dynamic loader would take `--list` for one.
            let is_loader = [&b"ld-linux"[..], b"ld-musl", b"ld64.so", b"ld.so"].iter().any(|of| name.starts_with(of));
            return Ok(is_loader.then(|| OsStr::from_bytes(path).into()));
        }
    }
    Ok(None)
}

/// A number of this machine's byte order.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let digits = bytes[at..at + width].iter();
    let join = |number, digit: &u8| number << 8 | u64::from(*digit);
    if cfg!(target_endian = "little") { digits.rev().fold(0, join) } else { digits.fold(0, join) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_mpi_and_pmi_are_known_by_their_names() {
        let best = |files: &[&str]| best(files.iter().map(|file| file.as_bytes()));
        for name in ["libmpi.so.40", "libmpich.so.12", "libmpi_cray.so.12", "libmpifort.so.12", "libpmi2.so.0"] {
            assert_eq!(best(&["libc.so.6", name]).as_deref(), Some(name));
        }
        let of_open_mpi = ["libpmi.so.0", "libpmix.so.2.2.35", "libmpi_cxx.so.40", "libmpi.so.40.30.4"];
        assert_eq!(best(&of_open_mpi).as_deref(), Some("libmpi.so.40.30.4"));
        assert_eq!(best(&of_open_mpi[..2]).as_deref(), Some("libpmix.so.2.2.35"));
        assert_eq!(best(&["libmpir.so.23", "libmpfr.so.6", "libmpi.a", "mpi.so", "libpmixer.so", "[heap]", ""]), None);
    }

    #[test]
    fn the_loader_of_a_program_lists_what_it_is_linked_with() {
        let shell = Path::new("/bin/sh");
        // A system may have a shell that is linked with nothing.
        if loader_of(shell).unwrap().is_some() {
            let program = Program::new(shell, Path::new("/"), &BTreeMap::new());
            assert_eq!(program.library(), None);
        }
        assert_eq!(loader_of(Path::new("/proc/self/maps")).unwrap_or(None), None);
        assert!(loader_of(Path::new("/none")).is_err());
    }

    #[test]
    fn who_has_attached_or_was_killed_is_not_counted() {
        let strangers = Strangers::default();
        let program = Program::new(Path::new("/none"), Path::new("/"), &BTreeMap::new());
        let pids = [1, 2, 3, 4].map(Pid::from_raw);
        pids.iter().for_each(|pid| strangers.born(*pid, program.clone()));
        strangers.attached(pids[0]);
        strangers.living().values_mut().for_each(|stranger| stranger.library = Some("libmpi.so.12".into()));
        strangers.living().get_mut(&pids[3]).unwrap().library = None;
        let left = pids.map(|pid| strangers.leaves(pid));
        assert!(left[0].is_none());
        left.into_iter().skip(2).flatten().for_each(|stranger| strangers.exited(stranger));
        let lines = strangers.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("1 rank ended") && lines[0].contains("libmpi.so.12"), "{lines:?}");
        assert_eq!(strangers.lines(), [""; 0]);
    }
}
