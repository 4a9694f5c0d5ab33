//! Options about debuggers.
use std::path::PathBuf;

use clap::Args;
use instanton::data::{Info, keys};

use super::ranks::Ranks;
use super::stops::Stops;

/// Options about debuggers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Debuggers")]
pub struct DebuggerOptions {
    /// Stop ranks at their first instruction, until a debugger or a SIGCONT lets them go on: all, or those of a list
    /// such as 1,3-6
    #[arg(long, value_name = "RANKS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_parser = Ranks::read)]
    stop_on_exec: Option<Ranks>,
    /// Have ranks wait in PMIx_Init until a debugger releases them
    #[arg(long, value_name = "RANKS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_parser = Ranks::read)]
    stop_in_init: Option<Ranks>,
    /// Tell ranks to wait for a debugger at a place of their own choice
    #[arg(long, value_name = "RANKS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_parser = Ranks::read)]
    stop_in_app: Option<Ranks>,
    /// Write rank, host, program and process ID of each rank once all are started: to stdout (-), to stderr (+) or into
    /// a file
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub output_proctable: Option<PathBuf>,
}

impl DebuggerOptions {
    /// The places at which ranks of a job of this size stop; `everywhere` are those that are asked for in other words.
    ///
    /// # Errors
    /// A line that names a rank that there is not.
    pub fn stops(&self, everywhere: &[&'static str], size: u32) -> Result<Stops, String> {
        let options = [
            ("--stop-on-exec", keys::DEBUG_STOP_ON_EXEC, &self.stop_on_exec),
            ("--stop-in-init", keys::DEBUG_STOP_IN_INIT, &self.stop_in_init),
            ("--stop-in-app", keys::DEBUG_STOP_IN_APP, &self.stop_in_app),
        ];
        let mut infos = Vec::new();
        for (option, key, ranks) in options {
            let all = everywhere.contains(&key).then_some(&Ranks::All);
            let Some(ranks) = ranks.as_ref().or(all) else { continue };
            if let Some(rank) = ranks.last().filter(|rank| *rank >= size) {
                return Err(format!("{option}={rank}: there is no such rank, only 0 to {}", size.saturating_sub(1)));
            }
            infos.push(Info::new(key, ranks.value()));
        }
        Ok(Stops::new(infos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Proc, Rank};

    #[test]
    fn ranks_that_there_are_not_are_refused() {
        let options = |text| DebuggerOptions { stop_on_exec: Some(Ranks::read(text).unwrap()), ..Default::default() };
        let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let stops = options("1").stops(&[], 2).unwrap();
        assert!(!stops.is_on_exec(&proc(0)) && stops.is_on_exec(&proc(1)));
        let said = options("0,2").stops(&[], 2).unwrap_err();
        assert!(said.contains("--stop-on-exec=2") && said.contains("0 to 1"), "{said}");
        let listed = DebuggerOptions::default().stops(&[keys::DEBUG_STOP_IN_INIT], 1).unwrap();
        assert_eq!(listed.infos(), [Info::new(keys::DEBUG_STOP_IN_INIT, true)]);
    }
}
