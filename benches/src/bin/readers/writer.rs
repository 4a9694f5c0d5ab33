//! The writer that never stops.
use std::time::{Duration, Instant};

use instanton::data::{Posted, Rank};
use instanton::store::{JobReader, JobWriter, MappedSegment};
use instanton_benches::jobs::posted;

use crate::JOB;

/// Writes one rank's record after another. All bytes of a value are the same, so that a mixture of two would show.
pub struct Writer {
    pub job: JobWriter,
    values: Vec<Posted>,
}

impl Writer {
    pub fn new(job: JobWriter) -> Self {
        let mut writer = Self { job, values: (0..=u8::MAX).map(|byte| posted("endpoint", byte, 64)).collect() };
        // Growth comes first: afterwards blocks are used again.
        (0..10_000).for_each(|n| writer.update(n));
        writer
    }

    fn update(&mut self, n: u64) {
        let value = &self.values[(n % 256) as usize..][..1];
        self.job.update(Rank(n as u32 % JOB.ranks), value).expect("memory that was used before");
    }

    /// Updates for so long; how many it made in a second. A reader that is stopped with a guard makes the job grow:
    /// `reader`, in this process, is given what is new, as a client is when it asks.
    pub fn run(&mut self, seconds: f64, reader: Option<&JobReader>) -> anyhow::Result<f64> {
        let (start, length) = (Instant::now(), Duration::from_secs_f64(seconds));
        let mut updates = 0;
        while start.elapsed() < length {
            (0..64).for_each(|n| self.update(updates + n));
            updates += 64;
            if let Some(reader) = reader.filter(|reader| reader.is_behind()) {
                for (_, fd) in self.job.segments(&reader.have()) {
                    reader.add(MappedSegment::map(fd)?)?;
                }
            }
        }
        Ok(updates as f64 / start.elapsed().as_secs_f64())
    }
}
