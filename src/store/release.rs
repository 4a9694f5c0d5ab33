//! The word that the processes of a job sleep on while they wait for each other.
//!
//! The server decides who waits for whom; here is only how all of them are woken with one system call. The sequence in the word
//! says how often that has happened: whoever saw it before asking to wait knows its own release by the one after.
use instanton_layout::job::Release;

use super::reader::JobReader;
use super::writer::JobWriter;
use crate::sys::futex;

impl JobReader {
    /// The last release. What the writer had stored before it is seen after this.
    pub fn release(&self) -> Release {
        self.words().release()
    }

    /// Where its sequence lies, to sleep on.
    pub(crate) fn release_address(&self) -> usize {
        self.words().release_address()
    }
}

impl JobWriter {
    /// Releases everybody who waits, and wakes them.
    pub fn release(&mut self, status: i32) {
        let next = self.reader().release().next(status);
        self.words().set_release(next);
        futex::wake_all(self.reader().release_address());
    }
}
