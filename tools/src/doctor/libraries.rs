//! PMIx libraries: the one beside this command, the one that a program's loader finds, and whose they are.
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::elf;
use crate::library::{Libraries, NAME, RankLibrary};
use crate::linked::{Library, Program};
use crate::release::Release;

pub const LIBRARIES: &str = "libraries";

/// Our library, and the one that programs find which bring none.
pub fn plain() -> Vec<Finding> {
    let libraries = Libraries::new(RankLibrary::Auto, false);
    let own = libraries.file();
    let mut all = vec![match &own {
        Some(file) => describe("library.own", "beside this command", file, |release| match release {
            Release::Own(_) => None,
            _ => Some("another library stands where ours belongs: install it again".into()),
        }),
        None => Finding::notice(
            LIBRARIES,
            "library.own",
            format!("there is no {NAME} in the folder lib beside that of this command"),
            "`make install` puts it there; until then `instanton run` gives ranks none, and they load what their \
             loader finds",
        ),
    }];
    let found = match found_by_all() {
        Some(Library { file: Some(file), .. }) => {
            describe("library.plain", "programs that bring none find", &file, |of| match of {
                Release::Own(_) => None,
                Release::Stock(_) => Some(
                    "`instanton run` gives its ranks ours all the same; other launchers do where the file is \
                     replaced or LD_LIBRARY_PATH leads to ours (docs/HOSTS.md)"
                        .into(),
                ),
                Release::Unknown => Some(format!("see which package has it: dpkg -S {}", file.display())),
            })
        }
        _ => {
            let place = own.as_deref().and_then(Path::parent).map_or("DIST/lib".into(), |it| it.display().to_string());
            Finding::notice(
                LIBRARIES,
                "library.plain",
                format!("programs that bring no {NAME} find none"),
                format!("`instanton run` gives its ranks ours; elsewhere LD_LIBRARY_PATH={place} does"),
            )
        }
    };
    all.push(found);
    all
}

/// Describes a library; `wrong` says what to do about one of that release, where it is not as it should be.
pub fn describe(id: &'static str, whose: &str, file: &Path, wrong: impl FnOnce(&Release) -> Option<String>) -> Finding {
    let shown = file.display();
    match Release::of(file) {
        Ok(Release::Unknown) if !matches!(elf::read(file), Ok(Some(_))) => Finding::problem(
            LIBRARIES,
            id,
            format!("{whose}: {shown}, which is no library that a loader takes"),
            "install it again: programs that are given it do not start",
        ),
        Ok(release) => {
            let text = format!("{whose}: {shown}, {release}");
            match wrong(&release) {
                Some(advice) => Finding::notice(LIBRARIES, id, text, advice),
                None => Finding::ok(LIBRARIES, id, text, ""),
            }
        }
        Err(error) => Finding::problem(
            LIBRARIES,
            id,
            format!("{whose}: {shown}, which cannot be read: {error}"),
            "mend its rights, or install it again",
        ),
    }
}

/// The library that a program finds which brings none: this command, with that library added.
pub fn found_by_all() -> Option<Library> {
    let listed = program(&std::env::current_exe().ok()?)?.libraries_with(NAME)?;
    listed.into_iter().find(|library| library.name == NAME)
}

/// A program as it would be started from here.
pub fn program(file: &Path) -> Option<Program> {
    let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    Some(Program::new(file, &std::env::current_dir().ok()?, &environment))
}

/// A program by its path, or by its name in a folder of PATH.
pub fn in_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn a_file_that_is_no_library_is_a_problem() {
        let own = std::env::current_exe().unwrap();
        let unknown = describe("library.own", "beside this command", &own, |_| Some("install it again".into()));
        assert_eq!(unknown.level, Level::Notice, "{unknown:?}");
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let broken = describe("library.own", "beside this command", &text, |_| None);
        assert_eq!(broken.level, Level::Problem, "{broken:?}");
    }
}
