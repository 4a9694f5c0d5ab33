//! Writes the public headers into `capi/include`.
#[allow(dead_code, reason = "the tests use the rest")]
mod generate;

fn main() -> std::io::Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    std::fs::create_dir_all(&folder)?;
    for (name, text) in generate::headers() {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
