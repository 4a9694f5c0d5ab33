//! `instanton gds`: the plug-in for stock servers is put where their library looks for plug-ins, and taken away.
//!
//! A library looks in the folder `pmix` beside itself. There the plug-in has a name of its own, so that it never stands
//! in the place of another one. It is written beside that name first, under one that no library takes for a plug-in,
//! and renamed when it is whole: whoever starts meanwhile finds the old one or the new one, and jobs that run keep the
//! file that they have mapped.
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use instanton::internal::stock::SERVED;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::{elf, out, release};

/// `instanton gds`.
#[derive(Debug, Subcommand)]
pub enum Gds {
    /// Install the plug-in where the PMIx library looks for its own
    Install(Library),
    /// Show which plug-in is installed, and whether the library is served
    Status(Library),
    /// Remove the plug-in
    Remove(Library),
}

/// A stock library.
#[derive(Debug, Args)]
pub struct Library {
    /// The library (libpmix.so.2), its folder, or a folder of plug-ins; by default the library of the system
    #[arg(long = "for", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Name of a library.
const LIBRARY: &str = "libpmix.so.2";
/// Name of the plug-in among others.
const NAME: &str = "pmix_mca_gds_instanton.so";
/// Beginning of the name that it has while it is written; behind it is the number of the process that does so.
const BESIDE: &str = ".pmix_mca_gds_instanton.so.";
/// End of that name: of all others than those of libtool's objects, stock libraries say that they are no plug-ins.
const PASSED_OVER: &str = ".lo";
/// Text that only the plug-in has in it.
const MARK: &[u8] = b"pmix_mca_gds_instanton_component";
/// Folders in which a system has its library; in the first ones, those of each architecture.
const PLACES: [&str; 5] = ["/usr/lib", "/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"];

/// A place for plug-ins, and the library that looks there, where it is known.
struct Place {
    folder: PathBuf,
    host: Option<PathBuf>,
}

/// Carries out a command.
pub fn run(asked: Gds) -> anyhow::Result<u8> {
    match asked {
        Gds::Install(library) => install(&Place::of(library)?),
        Gds::Status(library) => status(&Place::of(library)?),
        Gds::Remove(library) => remove(&Place::of(library)?),
    }
    .map(|()| 0)
}

impl Place {
    fn of(named: Library) -> anyhow::Result<Self> {
        let file = match named.file {
            Some(file) => file,
            None => found().context("there is no libpmix.so.2 in the system's folders; name it: --for FILE")?,
        };
        // A user who names the folder of a library means the library: no library looks for plug-ins beside itself.
        let within = Some(file.join(LIBRARY)).filter(|within| within.is_file());
        let file = within.unwrap_or(file);
        let file = fs::canonicalize(&file).with_context(|| format!("{} cannot be used", file.display()))?;
        if file.is_dir() {
            return Ok(Place { folder: file, host: None });
        }
        let folder = file.parent().unwrap_or(Path::new("/")).join("pmix");
        if !folder.is_dir() {
            bail!("{} has no folder of plug-ins: there is no {}", file.display(), folder.display());
        }
        Ok(Place { folder, host: Some(file) })
    }

    fn plugin(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// The release that the library says.
    fn release(&self) -> anyhow::Result<Option<String>> {
        let Some(library) = &self.host else { return Ok(None) };
        let bytes = release::bytes(library).with_context(|| format!("{} cannot be read", library.display()))?;
        match release::stock(&bytes) {
            Some(release) => Ok(Some(release)),
            None => bail!("{} is no library of the reference implementation", library.display()),
        }
    }
}

/// The system's library.
fn found() -> Option<PathBuf> {
    let sub = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = PLACES.iter().map(PathBuf::from);
    let all = folders.clone().chain(folders.take(2).flat_map(|folder| sub(&folder).collect::<Vec<_>>()));
    all.map(|folder| folder.join(LIBRARY)).find(|file| file.exists())
}

/// The plug-in that was built with this command, beside which it lies.
fn built() -> anyhow::Result<Vec<u8>> {
    let own = std::env::current_exe().context("this command does not find itself")?;
    let prefix = own.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let file = prefix.join("lib/instanton").join(NAME);
    fs::read(&file).with_context(|| format!("the plug-in cannot be read: {}", file.display()))
}

/// The plug-in that is in a place. Another file of that name is not touched.
fn there(place: &Place) -> anyhow::Result<Option<Vec<u8>>> {
    let file = place.plugin();
    match release::bytes(&file) {
        Ok(bytes) if bytes.windows(MARK.len()).any(|text| text == MARK) => Ok(Some(bytes)),
        Ok(_) => bail!("{} is not a plug-in of this project; it is left as it is", file.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
    }
}

fn install(place: &Place) -> anyhow::Result<()> {
    if let Some(release) = place.release()?.filter(|release| !SERVED.contains(&release.as_str())) {
        bail!("{release} is not served; the plug-in serves {}", SERVED.join(", "));
    }
    let built = built()?;
    if let Some(library) = place.host.as_ref().filter(|library| elf::kind_of(library) != elf::kind(&built)) {
        bail!("{} is for another kind of machine than the plug-in", library.display());
    }
    there(place)?;
    sweep(&place.folder);
    write(&place.plugin(), &built)?;
    out::write(&format!("{} is installed; servers that start from now on use it\n", place.plugin().display()))
}

/// Writes a file as a whole, or not at all.
fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let beside = file.with_file_name(format!("{BESIDE}{}{PASSED_OVER}", std::process::id()));
    let written = (|| {
        let mut new = File::options().write(true).create_new(true).open(&beside)?;
        // Servers and programs of every user load it, whatever the umask of who installs it.
        new.set_permissions(fs::Permissions::from_mode(0o755))?;
        new.write_all(bytes)?;
        new.sync_all()?;
        fs::rename(&beside, file)
    })();
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("{} cannot be written", file.display()))
}

/// Removes what was left by commands that were killed while they wrote.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let writer = name.to_str().and_then(|name| name.strip_prefix(BESIDE));
        let writer = writer.and_then(|pid| pid.strip_suffix(PASSED_OVER).unwrap_or(pid).parse().ok());
        let Some(writer) = writer.filter(|pid| *pid > 0).map(Pid::from_raw) else { continue };
        if writer == Pid::this() || kill(writer, None) == Err(Errno::ESRCH) {
            // It is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The plug-in as it is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The plug-in is not there.
    Absent,
    /// The plug-in is that of this release.
    Current,
    /// The plug-in is another one.
    Other,
}

/// A place for the plug-in, with what is there.
#[derive(Debug)]
pub struct Status {
    /// The plug-in's file, which may not be there.
    pub file: PathBuf,
    /// The plug-in.
    pub state: State,
    /// The library that looks there, its release, and whether that is served; none where the place is a bare folder.
    pub host: Option<(PathBuf, String, bool)>,
}

/// Looks at the place of the system's library; none where the system has none, or its library takes no plug-ins.
pub fn look() -> Option<anyhow::Result<Status>> {
    let place = Place::of(Library { file: Some(found()?) }).ok()?;
    Some(status_of(&place))
}

fn status_of(place: &Place) -> anyhow::Result<Status> {
    let state = match there(place)? {
        None => State::Absent,
        Some(bytes) if built().is_ok_and(|built| built == bytes) => State::Current,
        Some(_) => State::Other,
    };
    let host = place.host.clone().zip(place.release()?).map(|(library, release)| {
        let is_served = SERVED.contains(&release.as_str());
        (library, release, is_served)
    });
    Ok(Status { file: place.plugin(), state, host })
}

fn status(place: &Place) -> anyhow::Result<()> {
    let Status { file, state, host } = status_of(place)?;
    let what = match state {
        State::Absent => "is not there",
        State::Current => "is that of this release",
        State::Other => "is not that of this command: of another release, or damaged",
    };
    let mut text = format!("{} {what}\n", file.display());
    if let Some((library, release, is_served)) = host {
        let is = if is_served { "served" } else { "not served" };
        text += &format!("{} is {release}, which is {is}\n", library.display());
    }
    out::write(&text)
}

fn remove(place: &Place) -> anyhow::Result<()> {
    let file = place.plugin();
    sweep(&place.folder);
    if there(place)?.is_none() {
        return out::write(&format!("{} is not there\n", file.display()));
    }
    fs::remove_file(&file).with_context(|| format!("{} cannot be removed", file.display()))?;
    out::write(&format!("{} is removed; servers that run keep what they have loaded\n", file.display()))
}
