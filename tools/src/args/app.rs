//! Options of one application: its ranks, its environment and where its program is found.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;
use instanton::data::Text;
use instanton::launch::{AppSpec, MOST_RANKS};

/// Options of one application, and its program.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Application (before each program)")]
pub struct AppArgs {
    /// Number of ranks of this application; by default 1, or with hosts as many as they have slots
    #[arg(short = 'n', long = "np", visible_short_alias = 'c', visible_aliases = ["n", "ntasks"], value_name = "N",
        value_parser = ranks, allow_negative_numbers = true)]
    pub ranks: Option<u32>,
    /// Set VAR for the ranks. Without =VALUE it has the value that it has here; VAR* means all variables that begin so
    #[arg(short = 'x', long = "set-env", value_name = "VAR[=VALUE]")]
    environment: Vec<OsString>,
    /// Remove VAR from the environment of the ranks; VAR* means all variables that begin so
    #[arg(long, visible_alias = "unset-envar", value_name = "VAR")]
    unset_env: Vec<OsString>,
    /// Put TEXT before the value of VAR; the separator is in brackets: --prepend-envar 'PATH[:]' /opt/bin
    #[arg(long, visible_alias = "prepend-env", num_args = 2, value_names = ["VAR[SEPARATOR]", "TEXT"])]
    prepend_envar: Vec<OsString>,
    /// Put TEXT after the value of VAR
    #[arg(long, visible_alias = "append-env", num_args = 2, value_names = ["VAR[SEPARATOR]", "TEXT"])]
    append_envar: Vec<OsString>,
    /// Set a parameter of Open MPI for the ranks (OMPI_MCA_NAME)
    #[arg(long, visible_alias = "gmca", num_args = 2, value_names = ["NAME", "VALUE"])]
    mca: Vec<OsString>,
    /// Run this application in DIR
    #[arg(long, visible_aliases = ["wd", "chdir"], value_name = "DIR")]
    wdir: Option<PathBuf>,
    /// Look for the program in these directories instead of those of PATH; the one to run in comes last
    #[arg(long, value_name = "DIR:DIR")]
    path: Option<OsString>,
    /// Name each process after its rank: its argv[0] is PROGRAM-RANK
    #[arg(long)]
    index_argv_by_rank: bool,
    /// Put this application into a process set of this name; may be given more than once
    #[arg(long = "pset", value_name = "NAME", value_parser = set_name)]
    pub psets: Vec<Text>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl AppArgs {
    /// The application that is asked for; `unnumbered` is its number of ranks where none is given.
    ///
    /// # Errors
    /// A line about a setting that makes no sense.
    pub fn spec(&self, unnumbered: u32) -> Result<AppSpec, String> {
        let (program, arguments) = self.command.split_first().expect("clap requires a program");
        Ok(AppSpec {
            ranks: self.ranks.unwrap_or(unnumbered),
            environment: self.changes()?,
            wdir: self.wdir.clone(),
            path: self.path.clone(),
            program: program.clone(),
            name: None,
            is_numbered: self.index_argv_by_rank,
            arguments: arguments.to_vec(),
        })
    }

    /// Changes of the environment in the order in which they are made: what is taken away, what is set, parameters of
    /// Open MPI, and what is put before and behind.
    fn changes(&self) -> Result<Vec<(OsString, Option<OsString>)>, String> {
        let mut changes: Vec<(OsString, Option<OsString>)> = Vec::new();
        for name in &self.unset_env {
            match pattern(name) {
                Some(begin) => changes.extend(beginning(begin).map(|name| (name, None))),
                None => changes.push((name.clone(), None)),
            }
        }
        for (name, value) in self.environment.iter().filter_map(|setting| setting_of(setting)) {
            if name.is_empty() {
                return Err(format!("-x ={}: the name of the variable is missing", value.display()));
            }
            changes.push((name, Some(value)));
        }
        for pair in self.mca.chunks(2) {
            let name = [OsStr::new("OMPI_MCA_"), &pair[0]].into_iter().collect::<OsString>();
            changes.push((name, Some(pair[1].clone())));
        }
        let both = [("--prepend-envar", &self.prepend_envar, true), ("--append-envar", &self.append_envar, false)];
        for (option, pairs, is_first) in both {
            for pair in pairs.chunks(2) {
                let (name, separator) = separated(&pair[0]).ok_or_else(|| {
                    format!("{option} {}: a separator in brackets is missing, as in 'PATH[:]'", pair[0].display())
                })?;
                let made = changes.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| value.clone());
                let before = made.unwrap_or_else(|| std::env::var_os(&name)).filter(|value| !value.is_empty());
                let joined = |parts: [&OsString; 3]| parts.map(OsString::as_os_str).into_iter().collect();
                let value = match (before, is_first) {
                    (None, _) => pair[1].clone(),
                    (Some(before), true) => joined([&pair[1], &separator, &before]),
                    (Some(before), false) => joined([&before, &separator, &pair[1]]),
                };
                changes.push((name, Some(value)));
            }
        }
        Ok(changes)
    }

    /// Lines about variables that the ranks are to have as they are set here, and that are not.
    pub fn notes(&self) -> Vec<String> {
        let missing = |name: &&OsString| match (setting_of(name), pattern(name)) {
            (Some(_), _) => false,
            (None, Some(begin)) => beginning(begin).next().is_none(),
            (None, None) => std::env::var_os(name).is_none(),
        };
        let line = |name: &OsString| format!("-x {}: there is no such variable here; it is not set", name.display());
        self.environment.iter().filter(missing).map(line).collect()
    }
}

/// A number of ranks.
pub fn ranks(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_RANKS).contains(number));
    number.ok_or_else(|| format!("not a number from 1 to {MOST_RANKS}"))
}

/// The name of a process set.
fn set_name(name: &str) -> Result<Text, String> {
    let is_name = !name.is_empty() && !name.contains(',');
    is_name.then(|| Text::new(name).ok()).flatten().ok_or_else(|| "not a name without commas".to_owned())
}

/// `VAR=VALUE`.
fn setting_of(setting: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = setting.as_bytes();
    let at = bytes.iter().position(|&byte| byte == b'=')?;
    Some((OsStr::from_bytes(&bytes[..at]).into(), OsStr::from_bytes(&bytes[at + 1..]).into()))
}

/// Returns the beginning of the names that a pattern `VAR*` means.
fn pattern(name: &OsStr) -> Option<&[u8]> {
    name.as_bytes().strip_suffix(b"*")
}

/// Names of our variables that begin so.
fn beginning(begin: &[u8]) -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name).filter(move |name| name.as_bytes().starts_with(begin))
}

/// `VAR[SEPARATOR]`.
fn separated(text: &OsStr) -> Option<(OsString, OsString)> {
    let inner = text.as_bytes().strip_suffix(b"]")?;
    let at = inner.iter().position(|&byte| byte == b'[').filter(|&at| at > 0)?;
    Some((OsStr::from_bytes(&inner[..at]).into(), OsStr::from_bytes(&inner[at + 1..]).into()))
}
