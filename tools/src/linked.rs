//! Libraries that a program is linked with. The dynamic loader alone knows its own rules, so it is asked: it lists what
//! it would load, and where it finds that.
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use instanton::internal::sys::birth;

/// The variable that tells the dynamic loader where to look.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

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

    /// Lists its libraries; none for a script, or a program that is linked with nothing.
    pub fn libraries(&self) -> Option<Vec<Library>> {
        self.libraries_with(None)
    }

    /// As [`libraries`](Self::libraries), with one more library asked for.
    pub fn libraries_with(&self, preloaded: Option<&str>) -> Option<Vec<Library>> {
        let loader = loader_of(&self.directory.join(&self.file)).ok().flatten()?;
        let mut command = Command::new(loader);
        command.arg("--list").arg(&self.file).current_dir(&self.directory).env_clear();
        command.envs(self.library_path.as_ref().map(|path| (LIBRARY_PATH, path)));
        command.envs(preloaded.map(|name| ("LD_PRELOAD", name)));
        birth::die_with_this_thread(&mut command);
        let listed = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        listed.status.success().then(|| listed.stdout.split(|byte| *byte == b'\n').filter_map(library).collect())
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
    fn the_loader_of_a_program_lists_what_it_is_linked_with() {
        let shell = Path::new("/bin/sh");
        // A system may have a shell that is linked with nothing.
        if loader_of(shell).unwrap().is_some() {
            let listed = Program::new(shell, Path::new("/"), &BTreeMap::new()).libraries().unwrap();
            assert!(listed.iter().any(|library| library.name.as_bytes().starts_with(b"libc.")), "{listed:?}");
        }
        assert_eq!(loader_of(Path::new("/proc/self/maps")).unwrap_or(None), None);
        assert!(loader_of(Path::new("/none")).is_err());
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
