//! The word that the processes of a job sleep on while they wait for each other.
//!
//! The server decides who waits for whom; here is only how all of them are woken with one system call. The word counts
//! how often that has happened: whoever read it before asking to wait is released when it has changed.
use std::time::{Duration, Instant};

use super::read::JobReader;
use super::writer::JobWriter;
use crate::sys::futex;

/// Any process of the job could move the sleep of another to a word that nobody wakes: so one looks again after a while,
/// first after this.
const NAP: Duration = Duration::from_secs(1);
const LONGEST_NAP: Duration = Duration::from_secs(64);

impl JobReader {
    /// The number of times that waiting processes were released. Everything that the writer stored before the last time
    /// is seen after this.
    pub fn releases(&self) -> u32 {
        self.words().releases()
    }

    /// Sleeps until there is another number of [`releases`](Self::releases) than the one that was `seen`, or the time is
    /// over; says whether there was one. A writer that is dead releases nobody.
    ///
    /// A reader that waits for something that the writer is to store asks for the number first, then looks, and sleeps
    /// where it was not there: a value that is stored in between has changed the number.
    ///
    /// ```
    /// use instanton::data::{Key, Nspace, Posted, Rank, Scope};
    /// use instanton::store::{Have, JobInfo, JobReader, JobWriter, Limits, MappedSegment, Miss, Question};
    /// let nspace = Nspace::new("job")?;
    /// let info = JobInfo::from_infos(&nspace, 1, &[], "here")?;
    /// let mut writer = JobWriter::create(&nspace, info, &Limits::default())?;
    /// # writer.update(Rank(0), &[Posted::new(Scope::LOCAL, Key::new("first")?, 0u32)])?;
    /// let parts = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd));
    /// let reader = JobReader::attach(parts.collect::<Result<_, _>>()?, None)?;
    /// let waiter = std::thread::spawn(move || {
    ///     let card = Question::new(Rank(0), "card");
    ///     loop {
    ///         let seen = reader.releases();
    ///         match reader.get(&card) {
    ///             Err(Miss::NotFound) => _ = reader.wait_for_release(seen, None),
    ///             found => return found.unwrap(),
    ///         }
    ///     }
    /// });
    /// writer.update(Rank(0), &[Posted::new(Scope::GLOBAL, Key::new("card")?, 7u32)])?;
    /// writer.release();
    /// assert_eq!(waiter.join().unwrap(), 7u32.into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_release(&self, seen: u32, limit: Option<Duration>) -> bool {
        let (begin, mut nap) = (Instant::now(), NAP);
        while self.releases() == seen {
            let left = limit.map_or(LONGEST_NAP, |limit| limit.saturating_sub(begin.elapsed()));
            if left.is_zero() {
                return false;
            }
            futex::wait_shared(self.release_address(), seen, nap.min(left));
            nap = LONGEST_NAP.min(nap * 2);
        }
        true
    }

    /// The address of that number, to sleep on.
    pub(crate) fn release_address(&self) -> usize {
        self.words().release_address()
    }
}

impl JobWriter {
    /// Releases everybody who waits, and wakes them: one system call, whoever sleeps.
    pub fn release(&mut self) {
        self.words().release();
        futex::wake_all(self.reader().release_address());
    }
}
