//! PMIx library of a rank. A program whose loader would find none, or the system's plain one, gets ours: the folder
//! `lib` beside that of the command comes first in its library path. A program keeps the library that it has brought:
//! one in a folder of its RPATH or RUNPATH, or in the user's own library path. So do programs that are linked with no
//! MPI and no PMIx library, because what a shell starts inherits its variables, and the launchers of others, which need
//! theirs.
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;

use crate::elf;
use crate::environment::Environment;
use crate::linked::{LIBRARY_PATH, Library, Program};
use crate::say::say;

/// Name that programs ask their loader for.
pub const NAME: &str = "libpmix.so.2";

/// Choice of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RankLibrary {
    /// This project's, where the loader would find none or the system's
    #[default]
    Auto,
    /// This project's, for every program
    Instanton,
    /// The one that the loader finds
    Own,
}

/// Libraries of a program; none of a script.
type Listed = Option<Arc<Vec<Library>>>;

/// Gives ranks their library.
#[derive(Debug)]
pub struct Libraries {
    /// Our folder of libraries; none where there is no such library.
    folder: Option<PathBuf>,
    choice: RankLibrary,
    is_told: bool,
    /// Programs that were looked at, and whether they get ours.
    known: Mutex<HashMap<Program, bool>>,
    /// Libraries of programs that were asked for.
    listed: Mutex<HashMap<Program, Listed>>,
}

impl Libraries {
    /// Libraries beside this command. The choice is told with a line for each program if `is_told`.
    pub fn new(choice: RankLibrary, is_told: bool) -> Self {
        let beside = || {
            let command = std::env::current_exe().ok()?;
            let folder = command.parent()?.parent()?.join("lib");
            folder.join(NAME).exists().then_some(folder)
        };
        Self { folder: beside(), choice, is_told, known: Mutex::default(), listed: Mutex::default() }
    }

    /// The libraries that a program is linked with, of which the loader is asked once.
    pub fn listed(&self, program: &Program) -> Listed {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.entry(program.clone()).or_insert_with(|| program.libraries().map(Arc::new)).clone()
    }

    /// Our library, where there is one.
    pub fn file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(NAME))
    }

    /// Adds our folder to the library path of a program that is to have ours.
    pub fn give(&self, program: &Program, environment: &mut Environment) {
        let Some(folder) = &self.folder else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let gets_ours = match known.get(program) {
            Some(known) => *known,
            None => {
                let (gets_ours, reason) = self.decide(program);
                if self.is_told {
                    let which = if gets_ours { "gets" } else { "does without" };
                    say(&format!("{} {which} {}: {reason}", program.file().display(), folder.join(NAME).display()));
                }
                known.insert(program.clone(), gets_ours);
                gets_ours
            }
        };
        if gets_ours {
            let name = OsStr::new(LIBRARY_PATH);
            let mut path = folder.clone().into_os_string();
            if let Some(before) = environment.get(name).filter(|before| !before.is_empty()) {
                path.push(":");
                path.push(before);
            }
            environment.insert(name.into(), path);
        }
    }

    /// Returns whether a program gets ours, and why.
    pub fn decide(&self, program: &Program) -> (bool, &'static str) {
        match self.choice {
            RankLibrary::Own => (false, "as --library says"),
            RankLibrary::Instanton => (true, "as --library says"),
            RankLibrary::Auto if program.library_path().any(|folder| is_taken(&folder.join(NAME))) => {
                (false, "LD_LIBRARY_PATH has one")
            }
            RankLibrary::Auto => match self.listed(program) {
                Some(listed) => by_libraries(&listed, || plain(program.directory())),
                None => (false, "linked with nothing, or its loader cannot load it"),
            },
        }
    }
}

/// Decides by the libraries that a program is linked with; `plain` finds the system's own one.
fn by_libraries(listed: &[Library], plain: impl FnOnce() -> Option<PathBuf>) -> (bool, &'static str) {
    let has = |prefix: &str| listed.iter().any(|library| library.name.as_bytes().starts_with(prefix.as_bytes()));
    let is_open_mpi = has("libmpi.so.40");
    if !is_open_mpi && (has("libprrte") || has("libopen-rte")) {
        return (false, "a launcher");
    }
    match listed.iter().find(|library| library.name == NAME) {
        Some(Library { file: None, .. }) => (true, "it would find none"),
        Some(Library { file: Some(file), .. }) => match plain() {
            Some(plain) if is_same(file, &plain) => (true, "it would find the system's"),
            _ => (false, "it brings one"),
        },
        // Open MPI 4 loads it by way of a plug-in.
        None if is_open_mpi => (true, "a program of Open MPI"),
        None => (false, "neither of Open MPI nor linked with PMIx"),
    }
}

/// Returns whether a loader takes this file: it passes over one for another kind of machine, and fails at one that is no
/// library.
pub fn is_taken(file: &Path) -> bool {
    elf::kind_of(file).is_some_and(|kind| Some(kind) == elf::own_kind())
}

/// Finds the library that a program finds which brings none: this command, with that library added.
fn plain(directory: &Path) -> Option<PathBuf> {
    let command = Program::new(&std::env::current_exe().ok()?, directory, &BTreeMap::<OsString, OsString>::new());
    let listed = command.libraries_with(NAME)?;
    listed.into_iter().find(|library| library.name == NAME)?.file
}

/// Returns whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gets_ours(listed: &[(&str, Option<&str>)]) -> bool {
        let library =
            |(name, file): &(&str, Option<&str>)| Library { name: name.into(), file: file.map(PathBuf::from) };
        by_libraries(&listed.iter().map(library).collect::<Vec<_>>(), || Some("/bin/sh".into())).0
    }

    #[test]
    fn a_file_that_no_loader_takes_is_none_that_a_program_brings() {
        let folder = std::env::temp_dir().join(format!("instanton-library-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let own = std::fs::read("/proc/self/exe").unwrap();
        let library = Libraries { folder: Some("/ours".into()), ..Libraries::new(RankLibrary::Auto, false) };
        let environment = BTreeMap::from([(OsString::from(LIBRARY_PATH), folder.clone().into_os_string())]);
        let reason = |bytes: &[u8]| {
            std::fs::write(folder.join(NAME), bytes).unwrap();
            library.decide(&Program::new(Path::new("/bin/sh"), Path::new("/"), &environment)).1
        };
        assert_eq!(reason(&own[..64]), "LD_LIBRARY_PATH has one");
        let mut foreign = own[..64].to_vec();
        foreign[18] ^= 0xff;
        for bytes in [&foreign[..], b"text", b""] {
            assert_ne!(reason(bytes), "LD_LIBRARY_PATH has one");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn ours_is_for_who_brings_none() {
        assert!(gets_ours(&[("libpmix.so.2", None)]));
        assert!(gets_ours(&[("libpmix.so.2", Some("/bin/sh"))]));
        assert!(gets_ours(&[("libmpi.so.40", Some("/x")), ("libopen-rte.so.40", Some("/x"))]));
        for own in [
            &[("libpmix.so.2", Some("/bin/cat"))][..],
            &[("libpmix.so.2", Some("/no/such"))],
            &[("libopen-rte.so.40", Some("/x")), ("libpmix.so.2", None)],
            &[("libprrte.so.3", Some("/x")), ("libpmix.so.2", Some("/bin/sh"))],
            &[("libmpi.so.12", Some("/x"))],
            &[("libc.so.6", Some("/x"))],
        ] {
            assert!(!gets_ours(own), "{own:?}");
        }
    }
}
