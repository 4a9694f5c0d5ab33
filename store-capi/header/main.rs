//! Writes the header into `store-capi/include` and the exports beside it, or with `man FOLDER` the manual pages into a
//! folder.
#[allow(dead_code, reason = "the tests use the rest")]
mod generate;

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args: Vec<String> = env::args().skip(1).collect();
    if let [what, folder] = &args[..]
        && what == "man"
    {
        fs::create_dir_all(folder)?;
        return generate::pages().iter().try_for_each(|(name, text)| fs::write(Path::new(folder).join(name), text));
    }
    fs::write(here.join("include/instanton_store.h"), generate::header())?;
    fs::write(here.join("exports.txt"), generate::exports())
}
