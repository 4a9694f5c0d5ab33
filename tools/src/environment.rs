//! Environment that the user has asked for an application.
use std::collections::BTreeMap;
use std::ffi::OsString;

use instanton::launch::App;

use crate::steering::PREFIX;

/// Variables that an outer mpirun sets for its own ranks; they would mislead a rank of ours.
const LEFTOVERS: [&str; 5] =
    ["OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_FILE_LOCATION", "OMPI_UNIVERSE_SIZE", "PRTE_LAUNCHED"];

/// A whole environment.
pub type Environment = BTreeMap<OsString, OsString>;

/// The environment that the user has asked for an application, made of `ours`.
pub fn of_app(app: &App, ours: &Environment) -> Environment {
    let mut all = ours.clone();
    all.retain(|name, _| {
        let name = name.to_string_lossy();
        !LEFTOVERS.iter().chain([&PREFIX]).any(|leftover| name.starts_with(leftover))
    });
    for (name, value) in &app.spec.environment {
        match value {
            Some(value) => all.insert(name.clone(), value.clone()),
            None => all.remove(name),
        };
    }
    all
}
