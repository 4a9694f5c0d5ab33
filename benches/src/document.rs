//! The generated parts of a document: what stands between two comments, and is written anew.
use std::fs;
use std::io;
use std::path::Path;

/// Why a part was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The comments are not there.
    #[error("{path} has no lines {begin:?} and, behind it, {end:?}")]
    NoPart {
        /// Which file.
        path: String,
        /// The line in front of the part.
        begin: String,
        /// The line behind it.
        end: String,
    },
}

/// Replaces the part `name` of the document with `text`: the lines between `<!-- NAME -->` and `<!-- end of NAME -->`.
///
/// # Errors
/// [`DocumentError`].
pub fn replace_part(path: &Path, name: &str, text: &str) -> Result<(), DocumentError> {
    let file = |error| DocumentError::File { path: path.display().to_string(), error };
    let document = fs::read_to_string(path).map_err(file)?;
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let replaced = replaced(&document, &begin, &end, text).ok_or(DocumentError::NoPart {
        path: path.display().to_string(),
        begin,
        end,
    })?;
    fs::write(path, replaced).map_err(file)
}

fn replaced(document: &str, begin: &str, end: &str, text: &str) -> Option<String> {
    let from = document.find(begin)? + begin.len();
    let to = from + document[from..].find(end)?;
    Some(format!("{}{}\n{}", &document[..from], text.trim_end(), &document[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_changes_and_it_can_change_again() {
        let document = "head\n<!-- t -->\nold\nolder\n<!-- end of t -->\ntail\n";
        let once = replaced(document, "<!-- t -->\n", "<!-- end of t -->\n", "new\n").expect("a part");
        assert_eq!(once, "head\n<!-- t -->\nnew\n<!-- end of t -->\ntail\n");
        assert_eq!(replaced(&once, "<!-- t -->\n", "<!-- end of t -->\n", "new").as_ref(), Some(&once));
    }

    #[test]
    fn a_document_without_the_part_is_left_alone() {
        assert_eq!(replaced("head\n", "<!-- t -->\n", "<!-- end of t -->\n", "new"), None);
        assert_eq!(replaced("<!-- end of t -->\n<!-- t -->\n", "<!-- t -->\n", "<!-- end of t -->\n", "new"), None);
    }
}
