//! Writes the public headers into `capi/include`, or with `man FOLDER` the manual pages into a folder.
#[allow(dead_code, reason = "the tests use the rest")]
mod generate;
mod man;

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args: Vec<String> = env::args().skip(1).collect();
    let (folder, files) = match &args[..] {
        [what, folder] if what == "man" => (PathBuf::from(folder), man::pages(&sources(here)?)),
        _ => (here.join("include"), generate::headers()),
    };
    fs::create_dir_all(&folder)?;
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// The sources of the exported functions.
fn sources(here: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(here.join("src/api"))?.map(|entry| fs::read_to_string(entry?.path())).collect()
}
