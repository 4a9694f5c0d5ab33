//! Release of a PMIx library, read from the texts in its file: nothing of it is run.
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use instanton::internal::sys::regular_file;

/// Text with which the reference implementation says its release.
const STOCK: &[u8] = b"OpenPMIx ";
/// Text with which ours says the release of its build.
const OWN_RELEASE: &[u8] = b"Instanton build ";
/// Text that every build of ours has in it.
const OWN: &[u8] = b"INSTANTON_SERVER";

/// Origin of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// A library of ours, and its release where it says one.
    Own(Option<String>),
    /// A library of the reference implementation: `OpenPMIx 4.2.2`.
    Stock(String),
    /// None that is known.
    Unknown,
}

impl Release {
    /// Reads it from a file.
    ///
    /// # Errors
    /// The system's, where the file cannot be read.
    pub fn of(file: &Path) -> io::Result<Self> {
        Ok(Self::within(&bytes(file)?))
    }

    fn within(bytes: &[u8]) -> Self {
        if find(bytes, OWN).is_some() {
            return Release::Own(find(bytes, OWN_RELEASE).map(|at| word(&bytes[at + OWN_RELEASE.len()..])));
        }
        stock(bytes).map_or(Release::Unknown, Release::Stock)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Release::Own(Some(release)) => write!(f, "Instanton {release}"),
            Release::Own(None) => f.write_str("Instanton"),
            Release::Stock(release) => f.write_str(release),
            Release::Unknown => f.write_str("of an unknown release"),
        }
    }
}

/// Content of a file. Nothing but a regular file is opened: a FIFO in a library's place would be waited for.
///
/// # Errors
/// The system's, where it cannot be read.
pub fn bytes(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular_file::open(file)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first release of the reference implementation that a file names.
pub fn stock(bytes: &[u8]) -> Option<String> {
    let at = find(bytes, STOCK)?;
    let text = bytes[at..].iter().take_while(|byte| (b' '..=b'~').contains(byte)).copied().collect();
    let text = String::from_utf8(text).ok()?;
    Some(text.split(" (").next().unwrap_or_default().to_owned())
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}

/// The word that a text begins with.
fn word(bytes: &[u8]) -> String {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    bytes.iter().take_while(is_part).map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_a_library_is_read_from_its_text() {
        let library = b"\x7fELF\0OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2)\0OpenPMIx 9\0";
        assert_eq!(Release::within(library), Release::Stock("OpenPMIx 4.2.2rc2".into()));
        assert_eq!(Release::within(b"\x7fELF\0OpenPMI\0"), Release::Unknown);
        assert_eq!(stock(b"OpenPMIx "), Some("OpenPMIx ".into()));
        let own = Release::within(b"INSTANTON_SERVER OpenPMIx 4\0Instanton build 0.1.0 traces");
        assert_eq!(own.to_string(), "Instanton 0.1.0");
        assert_eq!(Release::within(b"\0INSTANTON_SERVER"), Release::Own(None));
    }
}
