//! Variables of the environment that lead somewhere, or change what the library does.
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use instanton::internal::client::from_variables;
use instanton::internal::control::address::{self, Address};
use instanton::internal::sys::socket::{self, Door};
use nix::libc::{O_NOCTTY, O_NONBLOCK};

use super::finding::Finding;

const ENVIRONMENT: &str = "environment";
/// Time for a door to open.
const PATIENCE: Duration = Duration::from_secs(2);
/// Variables that have one value which changes something.
const SWITCHES: [(&str, &str, &str, &str); 2] = [
    (
        "INSTANTON_SHM",
        "off",
        "environment.shm",
        "every Get asks the server; unset it, unless shared memory is suspected",
    ),
    (
        "INSTANTON_STOCK_CLIENTS",
        "off",
        "environment.stock_clients",
        "ranks and tools that bring a stock PMIx library are not served; unset it where there are such",
    ),
];

/// Findings about the variables of this process.
pub fn all() -> Vec<Finding> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut all: Vec<Finding> = trace(variable).into_iter().collect();
    for (name, value, id, effect) in SWITCHES {
        if variable(name).is_some_and(|found| found == value) {
            all.push(Finding::notice(ENVIRONMENT, id, format!("{name}={value} is set"), effect));
        }
    }
    if variable(address::VARIABLE).is_some() || variable("PMIX_NAMESPACE").is_some() {
        all.push(server(variable));
    }
    all
}

/// The place of the trace, which says nothing where it cannot be written.
fn trace(variable: impl Fn(&str) -> Option<OsString>) -> Option<Finding> {
    const NAME: &str = instanton::trace::VARIABLE;
    let set = variable(NAME)?;
    let target = instanton::trace::file_of(&set);
    let shown = set.to_string_lossy().into_owned();
    let Some(path) = target else {
        return Some(Finding::ok(ENVIRONMENT, "environment.trace", format!("{NAME}={shown}"), ""));
    };
    Some(match try_append(path) {
        Ok(()) => Finding::ok(ENVIRONMENT, "environment.trace", format!("{NAME}={shown} can be written"), ""),
        Err(error) => Finding::problem(
            ENVIRONMENT,
            "environment.trace",
            format!("{NAME}={shown} cannot be written: {error}"),
            "name a file in a directory that is there and that you may write in, or stderr",
        ),
    })
}

/// Returns whether lines could be added to a file; one that is not there is not made.
fn try_append(path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return File::options().append(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path).map(drop);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.metadata()?;
    Ok(nix::unistd::access(folder, nix::unistd::AccessFlags::W_OK)?)
}

/// The server that the variables of a rank name.
pub fn server(variable: impl Fn(&str) -> Option<OsString>) -> Finding {
    let names = || {
        ["PMIX_RANK", address::VARIABLE]
            .map(OsString::from)
            .into_iter()
            .filter(|name| variable(name.to_str().unwrap_or_default()).is_some())
    };
    let found = from_variables(&variable, names);
    let is_stock = variable("PMIX_SERVER_URI41").is_some() || variable("PMIX_SERVER_URI4").is_some();
    let leads_nowhere = "start the program by a launcher, or unset PMIX_NAMESPACE, PMIX_RANK, PMIX_SERVER_URI* and \
                         INSTANTON_SERVER: they are left over from another job";
    let address = match found {
        Ok(address) => address,
        // A stock server's own variables are enough for a rank.
        Err(error) if is_stock => {
            let advice = "a rank goes to the stock server that PMIX_SERVER_URI* names";
            return Finding::ok(
                ENVIRONMENT,
                "environment.server",
                format!("no server of ours is named: {error}"),
                advice,
            );
        }
        Err(error) => {
            let text = format!("the variables of a rank lead to no server: {error}");
            return Finding::problem(ENVIRONMENT, "environment.server", text, leads_nowhere);
        }
    };
    let (proc, name) = (&address.proc, &address.abstract_name);
    match reach(&address) {
        Ok(()) => {
            Finding::ok(ENVIRONMENT, "environment.server", format!("{proc}'s server can be reached ({name})"), "")
        }
        Err(error) => Finding::problem(
            ENVIRONMENT,
            "environment.server",
            format!("{proc}'s server cannot be reached at {name}: {error}"),
            leads_nowhere,
        ),
    }
}

/// Tries the doors of a server, and says nothing there.
fn reach(address: &Address) -> std::io::Result<()> {
    let until = Some(Instant::now() + PATIENCE);
    let by_name = socket::connect(&Door::Abstract(&address.abstract_name), until);
    match (&address.path, by_name) {
        (Some(path), Err(_)) => socket::connect(&Door::Path(Path::new(path)), until).map(drop),
        (_, result) => result.map(drop),
    }
}
