//! A directory of a test, which goes with it.
use std::fs;
use std::path::PathBuf;

use super::random;

pub(crate) struct TestDirectory(pub PathBuf);

impl TestDirectory {
    /// Makes one with a name that no other has.
    pub fn new() -> Self {
        let name = format!("instanton-test-{:x}", u64::from_le_bytes(random::bytes().unwrap()));
        let directory = TestDirectory(std::env::temp_dir().join(name));
        fs::create_dir(&directory.0).unwrap();
        directory
    }

    pub fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
