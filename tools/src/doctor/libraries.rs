//! PMIx libraries: the one beside this command, the one that a program's loader finds, and whose they are.
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::elf;
use crate::library::{Libraries, NAME, RankLibrary, is_taken};
use crate::linked::{LIBRARY_PATH, Library, Program};
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
            "`make install` puts it there; until then `instanton run` leaves ranks what their loader finds",
        ),
    }];
    let (path, brought) = in_library_path();
    all.extend(path);
    if brought {
        return all;
    }
    let found = match found_by_all() {
        Some(Library { file: Some(file), .. }) => {
            describe("library.plain", "programs that bring none find", &file, |of| match of {
                Release::Own(_) => None,
                Release::Stock(_) if own.is_none() => Some("`instanton run` leaves its ranks this one, too".into()),
                Release::Stock(_) => Some(
                    "`instanton run` gives its ranks ours all the same; other launchers do where the file is \
                     replaced or LD_LIBRARY_PATH leads to ours (docs/HOSTS.md)"
                        .into(),
                ),
                Release::Unknown => Some(format!("see which package has it: dpkg -S {}", file.display())),
            })
        }
        _ => {
            let advice = match own.as_deref().and_then(Path::parent) {
                Some(place) => {
                    format!("`instanton run` gives its ranks ours; elsewhere LD_LIBRARY_PATH={} does", place.display())
                }
                None => "`make install` puts ours beside this command, which gives it to ranks".to_owned(),
            };
            Finding::notice(LIBRARIES, "library.plain", format!("programs that bring no {NAME} find none"), advice)
        }
    };
    all.push(found);
    all
}

/// Files of that name in LD_LIBRARY_PATH, and whether programs load one of them.
fn in_library_path() -> (Vec<Finding>, bool) {
    let path = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    let mut all = Vec::new();
    for file in folders.map(|folder| folder.join(NAME)).filter(|file| file.exists()) {
        if is_taken(&file) {
            all.push(describe("library.path", "programs find in LD_LIBRARY_PATH", &file, |release| match release {
                Release::Own(_) => None,
                _ => Some(
                    "`instanton run` leaves ranks this one, too: take its folder out of LD_LIBRARY_PATH, or say \
                     --library instanton"
                        .into(),
                ),
            }));
            return (all, true);
        }
        let shown = file.display();
        let advice = "take its folder out of LD_LIBRARY_PATH, or put the library for this machine there";
        all.push(match elf::kind_of(&file) {
            Some(_) => Finding::notice(
                LIBRARIES,
                "library.path",
                format!("LD_LIBRARY_PATH leads to {shown}, which is for another kind of machine: loaders pass over it"),
                advice,
            ),
            None => Finding::problem(
                LIBRARIES,
                "library.path",
                format!("LD_LIBRARY_PATH leads to {shown}, which is no library: programs that want one do not start"),
                advice,
            ),
        });
    }
    (all, false)
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
