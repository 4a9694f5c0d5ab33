//! A server's address in a file, for tools that are told the file's name (`PMIX_LAUNCHER_RENDEZVOUS_FILE`).
//!
//! There is such a file only where the host asks for it, and it goes with the server; what a server that is killed
//! leaves is the host's to remove. Only the server's own user may read it.
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::rendezvous::Uri;

/// The file; dropping it removes it, unless somebody has put another one in its place.
#[derive(Debug)]
pub struct UriFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl UriFile {
    /// Writes an address to a file of this name, whatever was in it.
    ///
    /// # Errors
    /// The kernel's; a symbolic link is not followed.
    pub fn write(path: &Path, uri: &Uri) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)?;
        let metadata = file.metadata()?;
        let written = UriFile { path: path.to_owned(), inode: (metadata.dev(), metadata.ino()) };
        file.write_all(format!("{uri}\n").as_bytes())?;
        Ok(written)
    }
}

impl Drop for UriFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|found| found == self.inode) {
            // A file that somebody else has removed meanwhile need not be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Proc, Rank};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_goes_with_its_server_and_another_one_stays() {
        let path = std::env::temp_dir().join(format!("instanton-uri-{}", std::process::id()));
        let uri = Uri { server: Proc::new(Nspace::new("s").unwrap(), Rank(0)), name: "instanton-tools-1-a".into() };
        let file = UriFile::write(&path, &uri).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim_end().parse(), Ok(uri.clone()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
        let file = UriFile::write(&path, &uri).unwrap();
        let other = path.with_extension("other");
        fs::write(&other, "another's").unwrap();
        fs::rename(&other, &path).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/nowhere", &path).unwrap();
        assert!(UriFile::write(&path, &uri).is_err());
        fs::remove_file(&path).unwrap();
    }
}
