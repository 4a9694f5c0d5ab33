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
    for entry in fs::read_dir(&pages).with_context(|| format!("cannot read {}", pages.display()))? {
        let page = entry?.path();
        let text = fs::read_to_string(&page).map(|text| with_sections(&text));
        text.and_then(|text| fs::write(&page, text)).with_context(|| format!("cannot write {}", page.display()))?;
    }
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

/// Gives each part of the end of a help a section of its own in the page, with its lines as they are.
fn with_sections(page: &str) -> String {
    let page = page.replace(".SH VERSION\n", ".SH VERSION\n.nf\n");
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page };
    let (extra, after) = rest.split_at(rest.find(".SH ").unwrap_or(rest.len()));
    let section = |part: &str| match part.split_once(":\n") {
        Some((title, lines)) if !title.contains('\n') => {
            format!(".SH {}\n.nf\n{}\n.fi\n", title.to_uppercase(), lines.trim_end())
        }
        _ => format!(".SH NOTES\n{}\n", part.trim_end()),
    };
    let sections: String = extra.split("\n\n").filter(|part| !part.trim().is_empty()).map(section).collect();
    format!("{before}{sections}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_help_has_sections_in_a_page() {
        let page = ".SH NAME\nps\n.SH EXTRA\nIt ends.\n\nExit status:\n  0  good\n  1  bad\n.SH VERSION\nv0\nx\n";
        let expected = ".SH NAME\nps\n.SH NOTES\nIt ends.\n.SH EXIT STATUS\n.nf\n  0  good\n  1  bad\n.fi\n\
                        .SH VERSION\n.nf\nv0\nx\n";
        assert_eq!(with_sections(page), expected);
        assert_eq!(with_sections(".SH NAME\nps\n"), ".SH NAME\nps\n");
    }
}
