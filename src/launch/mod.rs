//! Launching: starting the operating-system processes of jobs on this machine. It has what all launchers share, and a
//! launcher that is part of a program.
//!
//! A spawn request (`PMIx_Spawn`) is read into [`AppSpec`]s, these become the [`App`]s of a job, and [`programs`] finds
//! what they execute before anything is started. `instanton run` goes its own way from there: it launches the first job
//! itself and ends with it. A tool that is a launcher itself, and attached to no server, has a [`Launcher`] beside its
//! own [server](crate::server).

mod app;
#[cfg(feature = "client")]
mod family;
#[cfg(feature = "client")]
mod launcher;
mod program;
#[cfg(feature = "client")]
mod queue;

pub use app::{App, AppSpec, MOST_RANKS, SERVED, TimeLimits, environment, is_named, read};
#[cfg(feature = "client")]
pub use launcher::Launcher;
pub use program::{Lacks, all as programs};
#[cfg(feature = "client")]
pub use queue::JobEnd;
