//! Manual pages and completions, made from the description that reads the command line: neither can differ from it.
//! `make dist` asks for them.
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;

/// Each shell with the folder where it looks for completions of installed programs.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// Writes `instanton(1)`, a page for each subcommand, and the completions, below a `share` folder.
///
/// # Errors
/// Folders and files that cannot be written.
pub fn run(share: &Path) -> Result<u8> {
    let folder = |name: &str| {
        let folder = share.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display())).map(|()| folder)
    };
    let mut command = Cli::command();
    let pages = folder("man/man1")?;
    clap_mangen::generate_to(command.clone(), &pages).with_context(|| format!("cannot write {}", pages.display()))?;
    for (shell, place) in SHELLS {
        let place = folder(place)?;
        let written = clap_complete::generate_to(shell, &mut command, "instanton", &place);
        let written = written.with_context(|| format!("cannot write {}", place.display()))?;
        if shell == Shell::Bash {
            // Bash loads a file that has the command's own name.
            let own = place.join("instanton");
            fs::rename(&written, &own).with_context(|| format!("cannot write {}", own.display()))?;
        }
    }
    Ok(0)
}
