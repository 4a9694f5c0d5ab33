//! Speech of a rank: PMIx, or PMI over a descriptor of its own, as MPICH, Intel MPI and their kin speak.
//!
//! It follows from the libraries that the program is linked with, directly or through others. A program that shows none
//! speaks PMIx, and what a rank spawns that speaks PMI itself speaks as that does.
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use instanton::internal::control::address::{self, Address};
use instanton::internal::pmi;

use crate::elf;
use crate::environment::Environment;
use crate::job::Job;
use crate::library::Libraries;
use crate::linked::{Library, Program};
use crate::mpi::Mpi;

/// Choice of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// PMI-1
    #[value(name = "1")]
    One,
    /// PMI-2
    #[value(name = "2")]
    Two,
    /// PMIx
    Pmix,
}

/// The way in which a rank speaks, and its MPI library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speech {
    /// True if it speaks PMI.
    pub is_pmi: bool,
    /// Its library.
    pub mpi: Mpi,
}

/// Variables of launchers that would mislead a rank that speaks PMI; by their beginnings.
const STRANGE: [&str; 7] = ["PMIX_", "OMPI_", "PRTE_", "INSTANTON_", "PMI_", "HYDI_", "I_MPI_PMI"];
/// Variable by which Intel MPI finds the library of another launcher.
const OF_INTEL: &str = "I_MPI_PMI_LIBRARY";

impl Speech {
    /// Returns whether a program will speak PMI, as far as that shows without asking the loader.
    pub fn is_surely_pmi(program: &Path, choice: Option<Choice>, environment: &Environment) -> bool {
        let is_mpich = |name: &OsString| {
            let name = name.as_encoded_bytes();
            [&b"libmpi.so.12"[..], b"libmpich.so.12", b"libpmi2.so.0"].iter().any(|of| name.starts_with(of))
        };
        match choice {
            Some(choice) => choice != Choice::Pmix,
            None if names_pmix(environment.get(OsStr::new(OF_INTEL)).map(|name| &**name)) => false,
            None => elf::read(program).ok().flatten().is_some_and(|elf| elf.needed.iter().any(is_mpich)),
        }
    }

    /// Finds out how a program is to speak; `is_inherited` says whether who starts it speaks PMI.
    pub fn of(
        program: &Program,
        choice: Option<Choice>,
        is_inherited: bool,
        libraries: &Libraries,
        environment: &Environment,
    ) -> Self {
        let listed = libraries.listed(program);
        let listed: &[Library] = listed.as_deref().map_or(&[], Vec::as_slice);
        let mpi = Mpi::of(listed);
        let is_pmi = match (choice, mpi) {
            (Some(Choice::One | Choice::Two), _) => true,
            (Some(Choice::Pmix), _) | (None, Mpi::Open) => false,
            (None, Mpi::Mpich) => true,
            (None, Mpi::Intel) => !names_pmix(environment.get(OsStr::new(OF_INTEL)).map(|name| &**name)),
            (None, Mpi::Unknown) => {
                let has = |name: &str| listed.iter().any(|library| library.name == name);
                has("libpmi2.so.0") || is_inherited && !has("libpmix.so.2")
            }
        };
        Self { is_pmi, mpi }
    }

    /// Changes the environment of a rank that speaks PMIx to what its library needs for that.
    ///
    /// # Errors
    /// When Intel MPI is to speak PMIx, and there is no library for it to load.
    pub fn turn_to_pmix(
        self,
        choice: Option<Choice>,
        libraries: &Libraries,
        environment: &mut Environment,
    ) -> Result<()> {
        environment.remove(OsStr::new(pmi::VARIABLE));
        if !self.mpi.takes_those_of_open_mpi() {
            environment.retain(|name, _| !name.as_encoded_bytes().starts_with(b"OMPI_"));
        }
        if choice == Some(Choice::Pmix) && self.mpi != Mpi::Open && !environment.contains_key(OsStr::new(OF_INTEL)) {
            match libraries.file() {
                Some(library) => _ = environment.insert(OF_INTEL.into(), library.into()),
                // Its ranks would be jobs of one.
                None if self.mpi == Mpi::Intel => {
                    bail!("--pmi pmix: no libpmix.so.2 beside this command for Intel MPI; name one in {OF_INTEL}")
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Changes the environment of a rank that speaks PMI, and returns the socket over which it does so.
    ///
    /// # Errors
    /// When its server has no door for it.
    pub fn turn_to_pmi(
        self,
        choice: Option<Choice>,
        job: &Job,
        rank: u32,
        environment: &mut Environment,
    ) -> Result<OwnedFd> {
        let variable = |name: &str| environment.get(OsStr::new(name)).and_then(|value| value.to_str());
        let address: Address = variable(address::VARIABLE).context("a rank without a server")?.parse()?;
        let door = variable(pmi::VARIABLE).context("a server without a door for PMI")?;
        let socket: OwnedFd =
            pmi::connect(door, &address.proc, &address.token).context("cannot connect for PMI")?.into();
        let is_strange = |name: &OsStr| STRANGE.iter().any(|of| name.as_encoded_bytes().starts_with(of.as_bytes()));
        environment.retain(|name, _| !is_strange(name));
        let set = [
            ("PMI_FD", socket.as_raw_fd().to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", job.size().to_string()),
            ("PMI_SPAWNED", u8::from(job.parent.is_some()).to_string()),
        ];
        environment.extend(set.map(|(name, value)| (name.into(), value.into())));
        // MPICH's words for it, from 4.1 on, and Intel's.
        let version = choice.and_then(|choice| match choice {
            Choice::One => Some(("1", "pmi1")),
            Choice::Two => Some(("2", "pmi2")),
            Choice::Pmix => None,
        });
        if let Some((mpich, intel)) = version {
            environment.entry("MPIR_CVAR_PMI_VERSION".into()).or_insert(mpich.into());
            environment.insert("I_MPI_PMI".into(), intel.into());
        }
        Ok(socket)
    }
}

/// Returns whether a path is that of a PMIx library.
fn names_pmix(path: Option<&OsStr>) -> bool {
    let name = path.and_then(|path| Path::new(path).file_name());
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"libpmix."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_pmix_is_known_by_its_name() {
        let named = |path: &str| names_pmix(Some(path.as_ref()));
        assert!(named("/opt/lib/libpmix.so.2") && !named("/usr/lib/libpmi2.so.0") && !names_pmix(None));
    }
}
