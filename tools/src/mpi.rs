//! MPI libraries, and the variables that each has of its own launcher.
//!
//! | library | told | of its own launcher |
//! |---|---|---|
//! | Open MPI | `OMPI_COMM_WORLD_*`, `OMPI_UNIVERSE_SIZE`, ... | `mpirun` |
//! | MPICH | `MPI_LOCALRANKID`, `MPI_LOCALNRANKS` | `mpiexec.hydra` |
//! | Intel MPI | as MPICH; `I_MPI_THREAD_YIELD` where processors are shared | its `mpiexec.hydra` |
//! | not known, as of a script | those of Open MPI, or of MPICH and Intel MPI where it speaks PMI | |
//!
//! No program that is known gets variables of another library: they mislead, or make it warn.
use crate::job::Job;
use crate::linked::Library;

/// An MPI library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mpi {
    /// Not known: a script, or a program that loads it late.
    #[default]
    Unknown,
    /// Open MPI.
    Open,
    /// MPICH and its kin.
    Mpich,
    /// Intel MPI.
    Intel,
}

/// File that lies beside Intel's library, or above it, and beside no other.
const OF_INTEL: &str = "libmpi_ilp64.so";

impl Mpi {
    /// Tells it by the libraries that a program is linked with.
    pub fn of(listed: &[Library]) -> Self {
        let found = listed.iter().find_map(|library| {
            let name = library.name.to_str()?.rsplit('/').next()?;
            let is_mpich = name.starts_with("libmpi.so.12") || name.starts_with("libmpi_abi.so");
            match name {
                _ if name.starts_with("libmpi.so.40") => Some(Mpi::Open),
                _ if name.starts_with("libmpich.so") => Some(Mpi::Mpich),
                _ if is_mpich => {
                    let mut folders = library.file.iter().flat_map(|file| file.ancestors().skip(1).take(2));
                    let is_intel = folders.any(|folder| folder.join(OF_INTEL).exists());
                    Some(if is_intel { Mpi::Intel } else { Mpi::Mpich })
                }
                _ => None,
            }
        });
        found.unwrap_or_default()
    }

    /// The variables of a rank. `is_pmi` says whether it speaks PMI.
    pub fn variables(self, job: &Job, rank: u32, is_pmi: bool) -> Vec<(&'static str, String)> {
        match self {
            Mpi::Open => of_open_mpi(job, rank).chain([("OMPI_UNIVERSE_SIZE", job.universe().to_string())]).collect(),
            // An mpirun that finds the number of slots refuses to start, and a script may start one.
            Mpi::Unknown if !is_pmi => of_open_mpi(job, rank).collect(),
            Mpi::Mpich => of_hydra(job, rank).collect(),
            Mpi::Unknown | Mpi::Intel => {
                let yields = job.is_oversubscribed().then(|| ("I_MPI_THREAD_YIELD", "3".to_owned()));
                of_hydra(job, rank).chain(yields).collect()
            }
        }
    }

    /// Returns whether variables of Open MPI mean something to it.
    pub fn takes_those_of_open_mpi(self) -> bool {
        matches!(self, Mpi::Unknown | Mpi::Open)
    }
}

/// Variables of Open MPI's launcher.
fn of_open_mpi(job: &Job, rank: u32) -> impl Iterator<Item = (&'static str, String)> {
    let local = job.local_rank(rank);
    let place = [
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", job.size().to_string()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", job.ranks_on(job.node_of(rank)).len().to_string()),
        ("OMPI_COMM_WORLD_NODE_RANK", job.node_rank(rank).to_string()),
        ("OMPI_NUM_APP_CTX", job.apps.len().to_string()),
        ("OMPI_FIRST_RANKS", job.per_app(|app| app.first, " ")),
        ("OMPI_APP_CTX_NUM_PROCS", job.per_app(|app| app.spec.ranks, " ")),
    ];
    place.into_iter()
}

/// Variables of MPICH's launcher, and of those that were made of it.
fn of_hydra(job: &Job, rank: u32) -> impl Iterator<Item = (&'static str, String)> {
    let local = job.ranks_on(job.node_of(rank)).len();
    [("MPI_LOCALRANKID", job.local_rank(rank).to_string()), ("MPI_LOCALNRANKS", local.to_string())].into_iter()
}
