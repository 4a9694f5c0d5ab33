//! Headers that this project did not write: those of the stock library that the machine has, and newer ones that the
//! set-up has fetched (`scripts/headers`).
#![allow(dead_code, reason = "every test uses its own part of it")]
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// The public headers of one release.
pub struct Headers {
    pub folder: PathBuf,
    /// Major, minor and release number, as they say themselves.
    pub version: [u32; 3],
}

impl Headers {
    fn within(folder: PathBuf) -> Option<Headers> {
        let text = fs::read_to_string(folder.join("pmix_version.h")).ok()?;
        let number = |name: &str| {
            let digits = text.split_once(&format!("#define PMIX_VERSION_{name} "))?.1.trim_start();
            digits[..digits.find(|c: char| !c.is_ascii_digit())?].parse().ok()
        };
        let version = [number("MAJOR")?, number("MINOR")?, number("RELEASE")?];
        folder.join("pmix.h").exists().then_some(Headers { folder, version })
    }

    /// The release, for people.
    pub fn name(&self) -> String {
        self.version.map(|number| number.to_string()).join(".")
    }
}

/// Returns the answer of the machine's own pkg-config about the stock library.
pub fn asked(variable: &str) -> Option<PathBuf> {
    let mut command = Command::new("pkg-config");
    let output = command.args([variable, "pmix"]).env_remove("PKG_CONFIG_PATH").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// The headers of the stock library that the machine has.
pub fn installed() -> Option<Headers> {
    Headers::within(asked("--variable=includedir")?)
}

/// Headers of newer releases that the set-up has fetched, or why it has none.
pub fn fetched() -> Result<Vec<Headers>, String> {
    let built = env::current_exe().expect("the test's own path");
    let mut folders = built.ancestors().map(|folder| folder.join("headers"));
    let Some(folder) = folders.find(|folder| folder.is_dir()) else {
        return Err("newer headers were not fetched: `make setup` does".to_string());
    };
    let entries = || fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = entries().filter_map(Headers::within).collect();
    found.sort_by_key(|headers| headers.version);
    if found.is_empty() {
        let said = entries().find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        return Err(format!("no newer headers could be fetched: {}", said.trim()));
    }
    Ok(found)
}
