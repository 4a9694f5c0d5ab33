//! Strangers: ranks that never attach to the server. A program whose library finds no way to us runs as many jobs of
//! one process each and ends well, so that only we can tell its user.
//!
//! Two things show that a program was meant to attach. A stranger that writes output is alive, and its memory map, with
//! those of the processes below it, names every library that it has loaded, be it at the wish of a script. A program
//! that was linked with its library is found without that: the dynamic loader, which alone knows its own rules, lists
//! what it would load. It is asked at the end of the run, about the programs of strangers that have exited; one that a
//! signal has ended may have been on its way.
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

use nix::unistd::Pid;

use crate::linked::Program;

/// Processes below a rank that are looked at.
const MOST_BELOW: usize = 32;
/// Different programs of which the dynamic loader is asked at the end.
const MOST_PROGRAMS: usize = 64;
/// Variables by which a launcher tells its ranks their places, by PMIx and by PMI.
const PLACES: [&str; 5] = ["PMIX_NAMESPACE=", "PMI_FD=", "PMI_PORT=", "PMI_RANK=", "PMI_SIZE="];

/// A rank that has not attached.
#[derive(Debug)]
pub struct Stranger {
    program: Program,
    /// True if it was given a way to speak PMI.
    speaks_pmi: bool,
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
    by_library: BTreeMap<(String, bool), usize>,
    by_program: HashMap<(Program, bool), usize>,
}

impl Strangers {
    /// A rank is born, with a way to speak PMI or PMIx.
    pub fn born(&self, pid: Pid, program: Program, speaks_pmi: bool) {
        self.living().insert(pid, Stranger { program, speaks_pmi, library: None });
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
    pub fn exited(&self, Stranger { program, speaks_pmi, library }: Stranger) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match library {
            Some(library) => *ended.by_library.entry((library, speaks_pmi)).or_default() += 1,
            None => {
                let program = (program, speaks_pmi);
                if ended.by_program.len() < MOST_PROGRAMS || ended.by_program.contains_key(&program) {
                    *ended.by_program.entry(program).or_default() += 1;
                }
            }
        }
    }

    /// A line for each library that should have led strangers to us.
    pub fn lines(&self) -> Vec<String> {
        let Ended { mut by_library, by_program } =
            std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for ((program, speaks_pmi), count) in by_program {
            if let Some(library) = linked_with(&program) {
                *by_library.entry((library, speaks_pmi)).or_default() += count;
            }
        }
        by_library.iter().map(|((library, speaks_pmi), count)| line(library, *speaks_pmi, *count)).collect()
    }

    fn living(&self) -> std::sync::MutexGuard<'_, HashMap<Pid, Stranger>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(library: &str, speaks_pmi: bool, count: usize) -> String {
    let (ranks, which) = if count == 1 { ("rank", "it") } else { ("ranks", "each") };
    // A script shows nobody before it is started that MPICH or Intel MPI is in it.
    let is_mpich = ["libmpi.so.12", "libmpich"].iter().any(|of| library.starts_with(of));
    let hint = if is_mpich && !speaks_pmi { "; say --pmi 1 for MPICH and Intel MPI" } else { "" };
    format!(
        "{count} {ranks} ended without having attached to the PMIx server of this run, in spite of {library}: \
         if that was initialised, {which} was alone in a job of its own{hint}"
    )
}

/// The library of MPI, PMIx or PMI that a rank has loaded, or one of the processes below it. A rank may be a launcher
/// itself: the ranks of that are its own business.
fn loaded(rank: Pid) -> Option<String> {
    let own = places(rank.as_raw());
    let mut todo = vec![rank.as_raw()];
    for _ in 0..MOST_BELOW {
        let pid = todo.pop()?;
        if places(pid).iter().any(|place| !own.contains(place)) {
            continue;
        }
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

/// Variables by which a launcher has told a process of its place.
fn places(pid: i32) -> Vec<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let names = |variable: &&[u8]| PLACES.iter().any(|name| variable.starts_with(name.as_bytes()));
    environment.split(|byte| *byte == 0).filter(names).map(<[u8]>::to_vec).collect()
}

/// The library of MPI, PMIx or PMI that a program is linked with.
fn linked_with(program: &Program) -> Option<String> {
    // With a library missing the program has not begun, as the loader has said.
    let listed = program.libraries().filter(|listed| listed.iter().all(|library| library.file.is_some()))?;
    best(listed.iter().map(|library| library.name.as_bytes()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

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
    fn a_program_that_is_linked_with_none_of_them_is_not_named() {
        assert_eq!(linked_with(&Program::new(Path::new("/bin/sh"), Path::new("/"), &BTreeMap::new())), None);
    }

    #[test]
    fn who_has_attached_or_was_killed_is_not_counted() {
        let strangers = Strangers::default();
        let program = Program::new(Path::new("/none"), Path::new("/"), &BTreeMap::new());
        let pids = [1, 2, 3, 4].map(Pid::from_raw);
        pids.iter().for_each(|pid| strangers.born(*pid, program.clone(), false));
        strangers.attached(pids[0]);
        strangers.living().values_mut().for_each(|stranger| stranger.library = Some("libmpi.so.12".into()));
        strangers.living().get_mut(&pids[3]).unwrap().library = None;
        let left = pids.map(|pid| strangers.leaves(pid));
        assert!(left[0].is_none());
        left.into_iter().skip(2).flatten().for_each(|stranger| strangers.exited(stranger));
        let lines = strangers.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("1 rank ended") && lines[0].contains("libmpi.so.12"), "{lines:?}");
        assert!(lines[0].ends_with("; say --pmi 1 for MPICH and Intel MPI"), "{lines:?}");
        let told = [line("libmpi.so.12", true, 2), line("libmpi.so.40", false, 2)];
        assert!(told.iter().all(|line| line.ends_with("each was alone in a job of its own")), "{told:?}");
        assert_eq!(strangers.lines(), [""; 0]);
    }
}
