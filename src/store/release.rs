//! The word that the processes of a job sleep on while they wait for each other.
//!
//! The server decides who waits for whom; here is only how all of them are woken with one system call. The word counts
//! how often that has happened: whoever read it before asking to wait is released when it has changed.
use super::read::JobReader;
use super::writer::JobWriter;
use crate::sys::futex;

impl JobReader {
    /// The number of times that waiting processes were released. Everything that the writer stored before the last time
    /// is seen after this.
    pub fn releases(&self) -> u32 {
        self.words().releases()
    }

    /// The address of that number, to sleep on.
    #[cfg_attr(not(any(feature = "client", feature = "server")), allow(dead_code, reason = "nobody sleeps"))]
    pub(crate) fn release_address(&self) -> usize {
        self.words().release_address()
    }
}

impl JobWriter {
    /// Releases everybody who waits, and wakes them.
    pub fn release(&mut self) {
        self.words().release();
        futex::wake_all(self.reader().release_address());
    }
}
