//! Doors of launchers: sockets of mode 0600 in session directories, which are of mode 0700.
//!
//! An `instanton up` has a door that bears its name. A run on several simulated nodes has one without a name. A process
//! that looks for one goes through the session directories of its user in the system's temporary directory; where
//! nobody answers, the launcher was killed. Both ends ask the kernel who the other is, and turn away another user.
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use instanton::internal::sys::socket::{self, Door};
use nix::libc::{O_DIRECTORY, O_NOFOLLOW, O_PATH};
use nix::unistd::{geteuid, getuid};

use crate::args::as_said;
use crate::session::Session;

/// Beginning of the name of a door's file; the launcher's own name follows.
const PREFIX: &str = "door.";
/// Longest name of a launcher.
pub const LONGEST_NAME: usize = 64;
/// Time in which a launcher takes a caller in, unless it is stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// A launcher with a door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of an `instanton up`; empty for a run.
    pub name: String,
    /// The process that the user knows.
    pub pid: i32,
    session: PathBuf,
}

/// Launchers that a caller looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Launchers that are up.
    Up,
    /// Runs as well.
    Any,
}

impl Place {
    /// The words for it.
    pub fn words(&self) -> String {
        match self.name.as_str() {
            "" => format!("the run of process {}", self.pid),
            name => format!("{name} (process {})", self.pid),
        }
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let directory = hold(&self.session)?;
        let socket = socket::connect(&Door::Path(&door(&directory, &self.name)), Some(Instant::now() + PATIENCE))?;
        match is_own(&socket) {
            true => Ok(socket),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// Makes the door of a launcher in its session directory.
///
/// # Errors
/// The system's refusal.
pub fn open(session: &Path, name: &str) -> io::Result<UnixListener> {
    let directory = hold(session)?;
    let path = door(&directory, name);
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Returns whether the process at the other end is of our user.
pub fn is_own(socket: &UnixStream) -> bool {
    socket::peer(socket).is_ok_and(|peer| peer.uid == geteuid().as_raw())
}

/// The launchers that answer at their doors, among those of a kind that are called so by name or by process.
pub fn launchers(kind: Kind, wanted: Option<&str>) -> Vec<(Place, UnixStream)> {
    let is_meant = |place: &Place| {
        let is_kind = kind == Kind::Any || !place.name.is_empty();
        is_kind && wanted.is_none_or(|wanted| wanted == place.name || wanted == place.pid.to_string())
    };
    let mut found: Vec<_> = all()
        .into_iter()
        .filter(is_meant)
        .filter_map(|place| place.connect().ok().map(|socket| (place, socket)))
        .collect();
    found.sort_by_key(|(place, _)| place.pid);
    found
}

/// Returns a line about what is up under a name, if something is.
pub fn taken(name: &str) -> Option<String> {
    let words = launchers(Kind::Up, Some(name)).first()?.0.words();
    Some(format!("{words} is up already; give another one a --name, or end it by `instanton down`"))
}

/// Names of what is up, with the processes; one that was killed may be among them.
pub fn named() -> Vec<Place> {
    all().into_iter().filter(|place| !place.name.is_empty()).collect()
}

/// Goes to the one launcher of a kind that is called so, or that there is.
///
/// # Errors
/// A line that says what there is instead.
pub fn enter(kind: Kind, wanted: Option<&str>) -> Result<(Place, UnixStream), String> {
    let mut found = launchers(kind, wanted);
    match (found.len(), wanted) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(wanted)) => {
            let wanted = as_said(wanted);
            let others: Vec<String> = launchers(kind, None).iter().map(|(place, _)| place.words()).collect();
            Err(match others.is_empty() {
                true => {
                    format!("{wanted}: nothing of that name or process is up, nor anything else; see `instanton up`")
                }
                false => format!("{wanted}: nothing of that name or process is up; there is {}", others.join(", ")),
            })
        }
        (0, None) => Err("nothing is up; `instanton up` begins it".to_owned()),
        _ => {
            let words: Vec<String> = found.iter().map(|(place, _)| place.words()).collect();
            Err(format!("which one is meant: {}? say --in and its process", words.join(" or ")))
        }
    }
}

/// Every launcher of our user with a door, be it one that was killed.
fn all() -> Vec<Place> {
    let (Ok(home), prefix) = (Session::home(), Session::prefix()) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.split('-').next()?.parse().ok());
        let (Some(pid), Ok(about)) = (pid, fs::symlink_metadata(entry.path())) else { continue };
        if !about.is_dir() || about.uid() != getuid().as_raw() {
            continue;
        }
        for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.as_bytes().strip_prefix(PREFIX.as_bytes());
            if let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) {
                found.push(Place { name: name.to_owned(), pid, session: entry.path() });
            }
        }
    }
    found
}

/// Holds a directory, so that the path of a socket in it is short, as it has to be.
fn hold(directory: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_PATH | O_DIRECTORY | O_NOFOLLOW).open(directory)
}

fn door(directory: &File, name: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{PREFIX}{name}", directory.as_raw_fd()).into()
}

/// Reads the name of a launcher: no number, since that would be a process.
///
/// # Errors
/// A line that says what a name is.
pub fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_plain);
    match is_name && text.parse::<u64>().is_err() {
        true => Ok(text.to_owned()),
        false => Err(format!("a name has 1 to {LONGEST_NAME} letters, digits, dots and dashes, and is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_for_its_user_whatever_the_length_of_its_path() {
        let top = std::env::temp_dir().join(format!("instanton-door-{}", std::process::id())).join("x".repeat(120));
        fs::create_dir_all(&top).unwrap();
        let _listens = open(&top, "a").unwrap();
        assert_eq!(fs::metadata(top.join("door.a")).unwrap().permissions().mode() & 0o777, 0o600);
        let place = |name: &str| Place { name: name.into(), pid: 1, session: top.clone() };
        assert!(is_own(&place("a").connect().unwrap()));
        assert!(place("b").connect().is_err());
        fs::remove_dir_all(top.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_name_is_none_of_a_process() {
        assert_eq!(name("my.up-1"), Ok("my.up-1".into()));
        for bad in ["", "17", "a/b", "a b", &"x".repeat(65)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
