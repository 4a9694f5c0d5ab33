//! Environment that the user has asked for an application.
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use instanton::launch::App;

use crate::steering::PREFIX;

/// Variables that an outer mpirun sets for its own ranks; they would mislead a rank of ours.
const LEFTOVERS: [&str; 5] =
    ["OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_FILE_LOCATION", "OMPI_UNIVERSE_SIZE", "PRTE_LAUNCHED"];

/// The variable by which a program knows the name of its directory.
const PWD: &str = "PWD";

/// A whole environment.
pub type Environment = BTreeMap<OsString, OsString>;

/// The environment that the user has asked for an application, made of `ours`.
pub fn of_app(app: &App, ours: &Environment) -> Environment {
    let mut all = ours.clone();
    all.retain(|name, _| {
        let name = name.to_string_lossy();
        !LEFTOVERS.iter().chain([&PREFIX]).any(|leftover| name.starts_with(leftover))
    });
    // Shells and scripts believe it. One that names the directory by another way is as good, and the user's own word.
    if app.spec.wdir.is_some() && !all.get(PWD.as_ref() as &OsStr).is_some_and(|told| is_same(told.as_ref(), &app.wdir))
    {
        all.insert(PWD.into(), plain(&app.wdir).into());
    }
    for (name, value) in &app.spec.environment {
        match value {
            Some(value) => all.insert(name.clone(), value.clone()),
            None => all.remove(name),
        };
    }
    all
}

/// Returns whether two paths lead to one directory.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    one.is_absolute() && place(one).is_ok_and(|found| place(other).is_ok_and(|other| found == other))
}

/// A path without dots, which have no place in such a name.
fn plain(path: &Path) -> PathBuf {
    match path.components().any(|part| part == Component::ParentDir) {
        true => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        false => path.components().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::launch::AppSpec;

    #[test]
    fn the_directory_is_known_by_its_name() {
        let here = std::env::temp_dir().join(format!("instanton-pwd-{}", std::process::id()));
        fs::create_dir_all(here.join("a")).unwrap();
        std::os::unix::fs::symlink("a", here.join("link")).unwrap();
        let named = |name: &str| here.join(name).into_os_string();
        let told = |pwd: OsString, wdir: Option<OsString>, asked: Option<&str>| {
            let environment = asked.map(|value| (PWD.into(), Some(value.into()))).into_iter().collect();
            let spec =
                AppSpec { environment, wdir: wdir.map(PathBuf::from), program: "p".into(), ..AppSpec::default() };
            let apps = App::all(vec![spec]).unwrap();
            of_app(&apps[0], &Environment::from([(PWD.into(), pwd)])).remove(PWD.as_ref() as &OsStr).unwrap()
        };
        assert_eq!(told("/".into(), Some(named("a")), None), named("a"));
        assert_eq!(told("/".into(), Some(named("./a/")), None), named("a"));
        assert_eq!(told("/".into(), Some(named("link/../a")), None), named("a"));
        assert_eq!(told(named("link"), Some(named("a")), None), named("link"), "that is its name, too");
        assert_eq!(told("/".into(), Some(named("link")), None), named("link"));
        assert_eq!(told("/".into(), None, None), "/");
        assert_eq!(told("/".into(), Some(named("a")), Some("/x")), "/x");
        fs::remove_dir_all(here).unwrap();
    }
}
