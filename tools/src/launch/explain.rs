//! Explanations for a program that could not be started: which file, and what it lacks.
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use instanton::data::Status;
use instanton::internal::sys::{exec_stop, regular_file};
use instanton::launch::App;
use nix::errno::Errno;

use crate::elf;
use crate::outcome::{FAILURE, NOT_EXECUTABLE, NOT_FOUND};

/// Endings of files that are compiled.
const SOURCES: [&str; 6] = ["c", "cc", "cpp", "f90", "go", "rs"];

/// Explanation of a failure: the status to exit with, and a text.
pub type Explanation = (u8, String);

/// Explains why an application's program was not found, or could not be executed, with this error. `found` is its file
/// if there is one.
pub fn program(app: &App, found: Option<&Path>, error: &io::Error) -> Explanation {
    let name = app.spec.program.to_string_lossy();
    if exec_stop::is_refused(error) {
        return (FAILURE, format!("{name}: {}", not_stopped()));
    }
    let Some(errno) = error.raw_os_error().map(Errno::from_raw) else { return (FAILURE, format!("{name}: {error}")) };
    let has_slash = app.spec.program.as_bytes().contains(&b'/');
    let file = found.map(Path::to_path_buf).or_else(|| has_slash.then(|| app.wdir.join(&app.spec.program)));
    let (code, why) = match (errno, file) {
        (Errno::ENOENT | Errno::ENOTDIR | Errno::ENOEXEC, Some(file)) if file.is_file() => {
            let why = lacks(&file).unwrap_or_else(|| format!("{} is no program for this machine", file.display()));
            (NOT_EXECUTABLE, why)
        }
        (Errno::ENOENT | Errno::ENOTDIR, Some(file)) => (NOT_FOUND, missing(&file, app)),
        (Errno::ENOENT | Errno::ENOTDIR, None) => (NOT_FOUND, unknown(app)),
        (Errno::EACCES | Errno::EISDIR, Some(file)) => (NOT_EXECUTABLE, not_executable(&file)),
        (Errno::EACCES | Errno::EISDIR, None) => {
            let here = app.wdir.join(&app.spec.program);
            let in_path = || "a file of that name is in PATH and cannot be executed".to_owned();
            (NOT_EXECUTABLE, if here.exists() { not_executable(&here) } else { in_path() })
        }
        _ => (FAILURE, error.to_string()),
    };
    (code, format!("{name}: {why}"))
}

/// Explains why no program can be stopped at its first instruction.
pub fn not_stopped() -> String {
    format!("it cannot be stopped on exec; that is refused by {}", exec_stop::refuser())
}

/// Explains why an application's directory cannot be run in.
pub fn directory(app: &App, error: &io::Error) -> Explanation {
    let asked = if app.spec.wdir.is_some() { "--wdir " } else { "" };
    (FAILURE, format!("cannot run in {asked}{}: {}", app.wdir.display(), error))
}

/// Explains why the server of a rank's node does not say what its process needs.
pub fn no_environment(node: &str, rank: u32, status: Status) -> String {
    match status {
        Status::ERR_LOST_CONNECTION => format!("node {node} went down before rank {rank} was started there"),
        status => format!("the PMIx server refuses the environment of rank {rank}: {status}"),
    }
}

/// A path that leads to no file.
fn missing(file: &Path, app: &App) -> String {
    if let Ok(target) = fs::read_link(file) {
        return format!("{} is a link to {}, which is not there", file.display(), target.display());
    }
    let above = file.ancestors().skip(1).find(|above| above.exists());
    let above = above.filter(|above| Some(*above) != file.parent());
    let where_it_ends = above.map(|above| format!("; there is nothing below {}", above.display()));
    let is_absolute = Path::new(&app.spec.program).is_absolute();
    let place = if is_absolute { String::new() } else { format!(" in {}", app.wdir.display()) };
    format!("there is no such file{place}{}", where_it_ends.unwrap_or_default())
}

/// A name that is in no directory of the search path, nor in the one to run in.
fn unknown(app: &App) -> String {
    let searched = if app.spec.path.is_some() { "--path" } else { "PATH" };
    let name = app.spec.program.as_bytes();
    let hint = match () {
        () if name.contains(&b' ') => "; a program and its arguments are words of their own, without quotes around all",
        () if name.contains(&b'=') => "; -x sets a variable",
        () => "",
    };
    format!("there is no such program in {searched}, nor in {}{hint}", app.wdir.display())
}

/// A file without the right to execute it.
fn not_executable(file: &Path) -> String {
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => format!("{} is a directory", file.display()),
        Ok(found) if !found.is_file() => format!("{} is no file that can be executed", file.display()),
        Ok(_) if SOURCES.iter().any(|kind| file.extension() == Some(OsStr::new(kind))) => {
            format!("{} is a source file; name the program that is made from it", file.display())
        }
        Ok(_) => format!("permission denied: {} is not executable for you; chmod +x makes it so", file.display()),
        Err(error) => format!("{} cannot be looked at: {}", file.display(), error),
    }
}

/// Says why the kernel cannot execute a file that is there; nothing where none is seen.
pub fn lacks(file: &Path) -> Option<String> {
    let name = file.display();
    let mut begin = Vec::new();
    // One may be executed that cannot be read.
    regular_file::open(file).and_then(|file| file.take(4096).read_to_end(&mut begin)).ok()?;
    if let Some(line) = begin.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let word = line.split(|&byte| byte == b' ' || byte == b'\t').find(|word| !word.is_empty()).unwrap_or_default();
        if Path::new(OsStr::from_bytes(word)).exists() {
            return None;
        }
        let carriage = if line.ends_with(b"\r") { "; its lines end as on Windows, with a carriage return" } else { "" };
        return Some(match word.trim_ascii() {
            [] => format!("{name} is a script whose first line names no interpreter (#!/bin/sh)"),
            _ => format!("the interpreter of {name}, {}, is not there{carriage}", OsStr::from_bytes(word).display()),
        });
    }
    match interpreter(&begin) {
        Some(loader) if !loader.exists() => Some(format!(
            "the dynamic loader of {name}, {}, is not there; it was built for another system",
            loader.display()
        )),
        _ if begin.starts_with(b"\x7fELF") => {
            is_foreign(&begin).then(|| format!("{name} is no program for this machine"))
        }
        _ if begin.is_empty() => Some(format!("{name} is empty")),
        _ => {
            Some(format!("{name} is neither a program nor a script whose first line names its interpreter (#!/bin/sh)"))
        }
    }
}

/// Returns whether a program is for another kind of machine than this command. A kernel for 64 bits may take some for
/// 32 bits.
fn is_foreign(begin: &[u8]) -> bool {
    const WIDE: u8 = 2;
    elf::kind(begin).is_none_or(|kind| kind.0 == WIDE && Some(kind) != elf::own_kind())
}

/// The dynamic loader that a program of 64 bits names.
fn interpreter(begin: &[u8]) -> Option<PathBuf> {
    const INTERPRETER: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(begin.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(begin.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(begin.get(at..at + 8)?.try_into().ok()?) as usize);
    if !begin.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (long(32)?, usize::from(half(54)?), usize::from(half(56)?));
    let mut headers = (0..count).map(|at| table.saturating_add(at * size));
    let header = headers.find(|&at| word(at) == Some(INTERPRETER))?;
    let text = begin.get(long(header + 8)?..)?.get(..long(header + 32)?)?;
    Some(OsStr::from_bytes(text.strip_suffix(b"\0")?).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::launch::{AppSpec, Lacks, programs};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_node_that_goes_down_while_ranks_are_started_is_named() {
        let of = |status| no_environment("here-n1", 3, status);
        assert_eq!(of(Status::ERR_LOST_CONNECTION), "node here-n1 went down before rank 3 was started there");
        assert!(of(Status::ERR_NOT_FOUND).ends_with("refuses the environment of rank 3: PMIX_ERR_NOT_FOUND"));
    }

    #[test]
    fn what_a_program_lacks_is_named() {
        let folder = std::env::temp_dir().join(format!("instanton-explain-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let make = |name: &str, bytes: &[u8], mode| {
            fs::write(folder.join(name), bytes).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        make("plain", b"#!/bin/sh\n", 0o644);
        make("hello.c", b"int main() {}\n", 0o644);
        make("script", b"#! /no/such -x\n", 0o755);
        make("windows", b"#!/bin/sh\r\n", 0o755);
        make("text", b"words\n", 0o755);
        make("empty", b"", 0o755);
        let mut elf = fs::read("/bin/sh").unwrap();
        let at = elf.windows(5).position(|bytes| bytes == b"/lib6" || bytes == b"/lib/").unwrap();
        elf[at + 1..at + 4].copy_from_slice(b"bil");
        make("elf", &elf, 0o755);
        std::os::unix::fs::symlink("gone", folder.join("link")).unwrap();
        nix::unistd::mkfifo(&folder.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let explained = |program: &str| {
            let spec = AppSpec { ranks: 1, program: program.into(), wdir: Some(folder.clone()), ..AppSpec::default() };
            let apps = App::all(vec![spec]).unwrap();
            match programs(&apps) {
                Err((app, Lacks::Program(error))) => super::program(app, None, &error),
                Err((app, Lacks::Directory(error))) => directory(app, &error),
                Ok(found) => {
                    let alone = crate::COPIES.write();
                    let error = std::process::Command::new(&found[0]).spawn().unwrap_err();
                    drop(alone);
                    super::program(&apps[0], Some(&found[0]), &error)
                }
            }
        };
        for (program, code, words) in [
            ("plain", 126, "is not executable"),
            ("./plain", 126, "chmod +x"),
            ("./hello.c", 126, "is a source file"),
            ("./script", 126, "/no/such, is not there"),
            ("./windows", 126, "carriage return"),
            ("./text", 126, "#!/bin/sh"),
            ("./empty", 126, "is empty"),
            ("./elf", 126, "dynamic loader"),
            ("./link", 127, "is a link to gone"),
            ("./no/such/file", 127, "there is nothing below"),
            ("./none", 127, "there is no such file in"),
            ("/no-such-anywhere", 127, "there is no such file"),
            ("none-such-anywhere", 127, "in PATH, nor in /"),
            ("none such", 127, "words of their own"),
            ("A=1", 127, "-x sets a variable"),
            ("./", 126, "is a directory"),
            ("./fifo", 126, "is no file that can be executed"),
        ] {
            let (status, text) = explained(program);
            assert!(status == code && text.contains(words), "{program}: {status} {text}");
            let is_elsewhere = program.starts_with('/') && text.contains(" in ");
            assert!(!is_elsewhere, "{program} is in no directory: {text}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
