//! Finding a program before anything of a job is started.
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::app::App;
use crate::data::Status;

/// Part that an application of a job lacks.
#[derive(Debug)]
pub enum Lacks {
    /// A directory to run in.
    Directory(io::Error),
    /// A program to execute.
    Program(io::Error),
}

impl Lacks {
    /// The status for it.
    pub fn status(&self) -> Status {
        match self {
            Lacks::Directory(error) if is_missing(error) => Status::ERR_JOB_WDIR_NOT_FOUND,
            Lacks::Directory(_) => Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
            Lacks::Program(error) if is_missing(error) => Status::ERR_JOB_EXE_NOT_FOUND,
            Lacks::Program(_) => Status::ERR_JOB_APP_NOT_EXECUTABLE,
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    [Errno::ENOENT, Errno::ENOTDIR].into_iter().any(|errno| error.raw_os_error() == Some(errno as i32))
}

/// The file of each application's program, so that not half a job is started.
///
/// # Errors
/// The first application that lacks something, and what.
pub fn all(apps: &[App]) -> Result<Vec<PathBuf>, (&App, Lacks)> {
    let ours = std::env::var_os("PATH").unwrap_or_default();
    let of = |app: &App| {
        enterable(&app.wdir).map_err(Lacks::Directory)?;
        let asked = app.spec.environment.iter().rev().find(|(name, _)| name == "PATH");
        let path = app.spec.path.as_ref().or(asked.and_then(|(_, value)| value.as_ref())).unwrap_or(&ours);
        find(&app.spec.program, &app.wdir, path).map_err(Lacks::Program)
    };
    apps.iter().map(|app| of(app).map_err(|lacks| (app, lacks))).collect()
}

/// Fails unless a process can be started there.
fn enterable(directory: &Path) -> io::Result<()> {
    access(directory, AccessFlags::X_OK)?;
    if directory.is_dir() { Ok(()) } else { Err(Errno::ENOTDIR.into()) }
}

/// The file that `program` means to a process in `directory` with this search path. The directory comes last: with the
/// launchers of MPI it does, and job scripts count on it.
///
/// # Errors
/// `ENOENT` when there is none, `EACCES` when it is not one to execute.
fn find(program: &OsStr, directory: &Path, path: &OsStr) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let file = directory.join(program);
        executable(&file)?;
        return Ok(file);
    }
    let mut failure = Errno::ENOENT;
    for place in std::env::split_paths(path).chain([PathBuf::new()]) {
        let file = directory.join(place).join(program);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(Errno::EACCES) => failure = Errno::EACCES,
            Err(_) => {}
        }
    }
    Err(failure.into())
}

fn executable(file: &Path) -> Result<(), Errno> {
    access(file, AccessFlags::X_OK)?;
    // The kernel executes nothing else, and whoever looks into a FIFO waits for it.
    if file.is_file() { Ok(()) } else { Err(Errno::EACCES) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::test_directory::TestDirectory;

    fn errno(program: &str, path: &str) -> Option<i32> {
        find(program.as_ref(), Path::new("/"), path.as_ref()).unwrap_err().raw_os_error()
    }

    #[test]
    fn a_name_is_looked_for_in_the_path_and_a_path_in_the_directory() {
        let found = |program: &str, path: &str| find(program.as_ref(), Path::new("/bin"), path.as_ref()).unwrap();
        assert_eq!(found("sh", "/nowhere:/bin"), Path::new("/bin/sh"));
        assert_eq!(found("./sh", "/nowhere"), Path::new("/bin/./sh"));
        assert_eq!(found("sh", "/nowhere:."), Path::new("/bin/./sh"));
        assert_eq!(found("sh", "/nowhere"), Path::new("/bin/sh"), "the directory comes last");
        assert_eq!(found("/bin/sh", ""), Path::new("/bin/sh"));
    }

    #[test]
    fn what_is_not_there_differs_from_what_cannot_run() {
        assert_eq!(errno("no-such-program", "/bin"), Some(Errno::ENOENT as i32));
        assert_eq!(errno("./no/such", "/bin"), Some(Errno::ENOENT as i32));
        assert_eq!(errno("/etc", ""), Some(Errno::EACCES as i32));
        assert_eq!(errno("/etc/passwd", ""), Some(Errno::EACCES as i32));
        assert_eq!(errno("passwd", "/etc"), Some(Errno::EACCES as i32));
    }

    #[test]
    fn a_fifo_is_no_program() {
        let directory = TestDirectory::new();
        let fifo = directory.0.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let errno = |program: &Path, path: &Path| {
            find(program.as_os_str(), Path::new("/"), path.as_os_str()).unwrap_err().raw_os_error()
        };
        assert_eq!(errno(&fifo, Path::new("")), Some(Errno::EACCES as i32));
        assert_eq!(errno(Path::new("fifo"), &directory.0), Some(Errno::EACCES as i32));
    }
}
