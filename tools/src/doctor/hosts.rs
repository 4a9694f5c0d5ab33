//! Findings about other launchers and services of this machine: their PMIx libraries, hwloc and munge.
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use instanton::internal::sys::hwloc;

use super::finding::Finding;
use super::libraries::{in_path, program};
use crate::gds;
use crate::library::NAME;
use crate::linked::Library;
use crate::release::Release;

const HOSTS: &str = "other launchers and services";
/// Folders of libraries; those of each architecture lie below.
const PLACES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"];
/// Sockets at which munge answers.
const MUNGE: [&str; 2] = ["/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2"];

/// Findings about all of them.
pub fn all() -> Vec<Finding> {
    let mut all = vec![match hwloc::is_present() {
        true => Finding::ok(HOSTS, "hwloc", "libhwloc is there: ranks are told the machine's topology", ""),
        false => Finding::notice(
            HOSTS,
            "hwloc",
            "libhwloc.so.15 is not there, or cannot be loaded: each rank finds the machine's topology out for itself",
            "install it (libhwloc15): ranks start faster, and --bind-to works",
        ),
    }];
    all.extend(munge());
    all.extend(slurm());
    all.extend(["mpirun", "prterun", "prte"].into_iter().filter_map(launcher));
    all.extend(plugin());
    all
}

/// The service by which Slurm's daemons trust each other.
fn munge() -> Option<Finding> {
    let socket = MUNGE.iter().map(Path::new).find(|socket| socket.exists())?;
    let shown = socket.display();
    Some(match UnixStream::connect(socket) {
        Ok(_) => Finding::ok(HOSTS, "munge", format!("munge answers at {shown}"), ""),
        Err(error) => Finding::notice(
            HOSTS,
            "munge",
            format!("munge does not answer at {shown}: {error}"),
            "start it (systemctl start munge) where Slurm is used; this library needs none",
        ),
    })
}

/// Slurm's plug-ins for PMIx, and the library that each opens.
fn slurm() -> Vec<Finding> {
    let sub = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let top = PLACES.iter().map(PathBuf::from);
    let folders = top.clone().chain(top.flat_map(|folder| sub(&folder).collect::<Vec<_>>()));
    let is_plugin = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The plug-in without a number is a link to one of the others.
        name.starts_with("mpi_pmix_v") && name.ends_with(".so")
    };
    let mut all = Vec::new();
    for folder in folders {
        let slurms = sub(&folder)
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("slurm")));
        let plugins: Vec<PathBuf> =
            slurms.flat_map(|slurm| sub(&slurm).filter(is_plugin).collect::<Vec<_>>()).collect();
        for plugin in plugins {
            all.push(opened_by(&plugin, &[folder.join("pmix2/lib"), folder.clone()]));
        }
    }
    all
}

fn opened_by(plugin: &Path, folders: &[PathBuf]) -> Finding {
    let shown = plugin.display();
    let Some(file) = folders.iter().map(|folder| folder.join(NAME)).find(|file| file.exists()) else {
        return Finding::notice(
            HOSTS,
            "slurm.plugin",
            format!("{shown} is there, and no {NAME} where Debian's packages have it"),
            "install libpmix2, or this library in its place (docs/HOSTS.md)",
        );
    };
    let (file, release) = (file.display(), Release::of(&file).unwrap_or(Release::Unknown));
    let text = format!("{shown} opens {file}, {release}");
    match release {
        Release::Own(_) => Finding::ok(HOSTS, "slurm.plugin", text, ""),
        _ => Finding::notice(
            HOSTS,
            "slurm.plugin",
            text,
            "replace the file to serve Slurm's jobs by this library (docs/HOSTS.md, \"Replacing the file\")",
        ),
    }
}

/// A launcher of Open MPI or PRRTE, and the library that it finds.
fn launcher(name: &'static str) -> Option<Finding> {
    let path = in_path(Path::new(name))?;
    let program = program(&path)?;
    let (shown, id) = (path.display(), "launcher");
    let listed = program.libraries_with(NAME)?;
    let is_prrte = listed.iter().any(|library| library.name.to_string_lossy().starts_with("libprrte"));
    let Some(Library { file: Some(file), .. }) = listed.into_iter().find(|library| library.name == NAME) else {
        let advice = "its servers do not start: name the folder of its PMIx library in LD_LIBRARY_PATH";
        return Some(Finding::notice(HOSTS, id, format!("{shown} finds no {NAME}"), advice));
    };
    let release = Release::of(&file).unwrap_or(Release::Unknown);
    let text = format!("{shown} finds {}, {release}", file.display());
    Some(match (release, is_prrte) {
        (Release::Own(_), true) => Finding::problem(
            HOSTS,
            id,
            text,
            "PRRTE uses functions that the stock library keeps to itself: give it its own (docs/HOSTS.md, \"Open MPI \
             5\")",
        ),
        (Release::Own(_), false) => Finding::ok(HOSTS, id, text, ""),
        (_, true) => Finding::ok(HOSTS, id, text, "it keeps its own; programs on this library run under it"),
        (_, false) => Finding::ok(
            HOSTS,
            id,
            text,
            "LD_LIBRARY_PATH, for it and by -x for its ranks, gives it ours (docs/HOSTS.md)",
        ),
    })
}

/// The plug-in that puts the store under stock servers.
fn plugin() -> Option<Finding> {
    let status = match gds::look()? {
        Ok(status) => status,
        Err(error) => {
            let advice = "look at that file: `instanton gds` leaves alone what is not its own";
            return Some(Finding::notice(HOSTS, "gds", format!("{error:#}"), advice));
        }
    };
    let (library, release, is_served) = status.host?;
    let (file, library) = (status.file.display(), library.display());
    Some(match (status.state, is_served) {
        (gds::State::Absent, true) => Finding::ok(
            HOSTS,
            "gds",
            format!("{library} ({release}) could have the store's plug-in, and has none"),
            "`instanton gds install` puts it there, where stock servers are to stay",
        ),
        (gds::State::Absent, false) => {
            Finding::ok(HOSTS, "gds", format!("{library} ({release}) takes no plug-in of this release"), "")
        }
        (gds::State::Current, true) => Finding::ok(HOSTS, "gds", format!("{file} serves {library} ({release})"), ""),
        (gds::State::Current, false) => Finding::notice(
            HOSTS,
            "gds",
            format!("{file} is there, and declines {library} ({release})"),
            "`instanton gds remove` takes it away; servers run as without it",
        ),
        (gds::State::Other, _) => Finding::notice(
            HOSTS,
            "gds",
            format!("{file} is of another release than this command"),
            "`instanton gds install` puts this one in its place: ranks of another release do not read what it writes",
        ),
    })
}
