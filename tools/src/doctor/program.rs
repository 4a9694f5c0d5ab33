//! A program that is to be run: whether it can be started, which PMIx library its loader finds, and whether
//! `instanton run` gives it another.
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use instanton::launch::{App, AppSpec, Lacks, programs};

use super::binfmt;
use super::finding::Finding;
use super::libraries::{LIBRARIES, describe, program};
use crate::launch::explain;
use crate::library::{Libraries, NAME, RankLibrary};
use crate::linked::Library;
use crate::outcome::NOT_FOUND;
use crate::release::Release;

/// Findings about a program.
pub fn all(file: &Path) -> Vec<Finding> {
    match startable(file) {
        Ok(path) => of_loader(file, &path),
        Err((NOT_FOUND, text)) => {
            let advice = "name a program by its path, or one in a folder of PATH";
            vec![Finding::problem(LIBRARIES, "program.absent", text, advice)]
        }
        Err((_, text)) => {
            let advice = "mend that, or name another program; `instanton run` refuses this one, with status 126";
            vec![Finding::problem(LIBRARIES, "program.unstartable", text, advice)]
        }
    }
}

/// Finds a program as `instanton run` does. Where it cannot be started, returns the explanation.
fn startable(file: &Path) -> Result<PathBuf, explain::Explanation> {
    let spec = AppSpec { ranks: 1, program: OsString::from(file), ..AppSpec::default() };
    let apps = App::all(vec![spec]).map_err(|error| (NOT_FOUND, error.to_string()))?;
    let found = programs(&apps).map_err(|(app, lacks)| match lacks {
        Lacks::Directory(error) => explain::directory(app, &error),
        Lacks::Program(error) => explain::program(app, None, &error),
    })?;
    let path = found.into_iter().next().unwrap_or_else(|| file.to_owned());
    match explain::lacks(&path) {
        Some(why) if !binfmt::takes(&path) => {
            Err((crate::outcome::NOT_EXECUTABLE, format!("{}: {why}", file.display())))
        }
        _ => Ok(path),
    }
}

/// Findings about the libraries that the loader gives a program.
fn of_loader(file: &Path, path: &Path) -> Vec<Finding> {
    let shown = file.display();
    let Some(program) = program(path) else { return Vec::new() };
    let Some(listed) = program.libraries() else {
        return vec![Finding::notice(
            LIBRARIES,
            "program.unlinked",
            format!("{shown} is a script, is linked with nothing, or its loader cannot load it"),
            "name the program itself: which library it loads is not seen from here",
        )];
    };
    let mut all = Vec::new();
    let missing: Vec<String> = listed
        .iter()
        .filter(|library| library.file.is_none() && library.name != NAME)
        .map(|library| library.name.to_string_lossy().into_owned())
        .collect();
    if !missing.is_empty() {
        all.push(Finding::problem(
            LIBRARIES,
            "program.incomplete",
            format!("{shown} does not start: its loader does not find {}", missing.join(", ")),
            "install them, or name their folder in LD_LIBRARY_PATH",
        ));
    }
    let libraries = Libraries::new(RankLibrary::Auto, false);
    let (gets_ours, reason) = libraries.decide(&program);
    let here = match (libraries.file(), gets_ours) {
        (None, _) => "`instanton run` has no library to give it: `make install` puts one beside the command".to_owned(),
        (_, true) => format!("`instanton run` gives it ours ({reason})"),
        (_, false) => format!("`instanton run` leaves it as it is ({reason}); --library instanton gives it ours"),
    };
    all.push(match listed.iter().find(|library| library.name == NAME) {
        Some(Library { file: Some(file), .. }) => {
            describe("program.library", &format!("{shown} finds"), file, |release| match release {
                Release::Own(_) => None,
                _ => Some(here.clone()),
            })
        }
        Some(Library { file: None, .. }) => Finding::problem(
            LIBRARIES,
            "program.library",
            format!("{shown} wants {NAME}, and its loader finds none"),
            format!("{here}; elsewhere LD_LIBRARY_PATH must lead to one"),
        ),
        None => Finding::ok(
            LIBRARIES,
            "program.library",
            format!("{shown} is not linked with {NAME}; its MPI library may load one by itself"),
            here,
        ),
    });
    all
}
