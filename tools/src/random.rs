//! Names that do not collide and cannot be guessed.
use anyhow::{Context, Result};
use instanton::internal::sys::random::bytes;

/// Returns random bytes as hexadecimal digits.
pub fn hex<const BYTES: usize>() -> Result<String> {
    let random = bytes::<BYTES>().context("no random numbers")?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
