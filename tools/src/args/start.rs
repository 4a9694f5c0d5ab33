//! Options of how the ranks of a run are started. An `instanton up` has none of its own.
use std::time::Duration;

use clap::Args;

use super::general::seconds;
use crate::library::RankLibrary;
use crate::speech::Choice;

/// Options of how the ranks of a run are started.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct StartArgs {
    /// End the job unless all ranks are started after this many seconds; the exit status is 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub spawn_timeout: Option<Duration>,
    /// Run applications for which no directory is given in the session directory
    #[arg(long)]
    pub set_cwd_to_session_dir: bool,
    /// PMIx library of the ranks
    #[arg(long, value_name = "WHICH", env = "INSTANTON_RANK_LIBRARY", value_enum, default_value_t)]
    pub library: RankLibrary,
    /// Protocol by which ranks find their job; by default the one of the libraries that the program is linked with
    #[arg(long, value_name = "WHICH", value_enum)]
    pub pmi: Option<Choice>,
    /// Say which library each program gets
    #[arg(short, long)]
    pub verbose: bool,
}
