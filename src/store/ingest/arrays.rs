//! Job information from a host that has it in arrays of its own: names of nodes, where ranks are, and values by rank.
use super::builder::JobInfoBuilder;
use super::column_builder::Kind;
use super::job_info::MAX_RANKS;
use crate::data::{DataType, Key, Value, keys};
use crate::store::codec::scalar_value;
use crate::store::error::BadJobInfo;

/// The node of each rank, by its place among [`JobInfoBuilder::nodes`].
#[derive(Debug, Clone, Copy)]
pub enum Placement<'a> {
    /// Blocks of so many ranks: on the first node, on the next, and round again.
    Blocks(u32),
    /// One rank on each node, and round again.
    Cyclic,
    /// The place of each rank's node.
    Each(&'a [u32]),
}

/// Nothing here makes an [`Info`](crate::data::Info) of a value, and nothing takes memory for each rank but the values
/// themselves while they are put together.
///
/// ```
/// use instanton::data::{DataType, Nspace, Rank, Value, keys};
/// use instanton::store::{JobInfoBuilder, JobWriter, Limits, Question, Placement};
/// let nspace = Nspace::new("job")?;
/// let ranks = 100_000;
/// let mut job = JobInfoBuilder::new(&nspace, 32, "node00007");
/// job.size(ranks)?;
/// job.nodes((0..3125).map(|node| format!("node{node:05}")));
/// job.place(Placement::Blocks(32));
/// job.column("my.port", DataType::UINT16, (0..ranks).map(|rank| u64::from(rank % 7)))?;
/// job.texts(keys::CPUSET, (0..ranks).map(|rank| ["0-1", "2-3"][rank as usize % 2]))?;
/// let writer = JobWriter::create(&nspace, job.build()?, &Limits::default())?;
/// let get = |rank, key| writer.reader().get(&Question::new(Rank(rank), key));
/// assert_eq!(get(99_999, keys::HOSTNAME)?, Value::from("node03124"));
/// assert_eq!(get(33, keys::LOCAL_RANK)?, Value::from(1u16));
/// assert_eq!(get(33, keys::CPUSET)?, Value::from("2-3"));
/// assert_eq!(get(33, "my.port")?, Value::from(5u16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl JobInfoBuilder {
    /// Says how many processes the job has. It comes before [`place`](Self::place).
    ///
    /// # Errors
    /// [`BadJobInfo::Rank`] when there are more than [`MAX_RANKS`].
    pub fn size(&mut self, size: u32) -> Result<(), BadJobInfo> {
        if size > MAX_RANKS {
            return Err(BadJobInfo::Rank { rank: size - 1, size });
        }
        self.job.put(key(keys::JOB_SIZE)?, Value::from(size));
        Ok(())
    }

    /// Names the nodes of the job, in order; their numbers are their places.
    pub fn nodes(&mut self, names: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        names.into_iter().for_each(|name| self.nodes.map(name.as_ref()));
    }

    /// Says on which nodes the ranks are.
    pub fn place(&mut self, placement: Placement<'_>) {
        let size = self.job.get(keys::JOB_SIZE).and_then(Value::as_u32).unwrap_or(0);
        let nodes = self.nodes.len().max(1);
        let (map, job) = (&mut self.map, &mut self.job);
        match placement {
            Placement::Blocks(block) => map.place((0..size).map(|rank| rank / block.max(1) % nodes), job),
            Placement::Cyclic => map.place((0..size).map(|rank| rank % nodes), job),
            Placement::Each(places) => map.place(places.iter().copied(), job),
        }
    }

    /// Gives the values of a key of at most 8 bytes each, as their little-endian bits, by rank, in place of what
    /// was given for that key before.
    ///
    /// # Errors
    /// [`BadJobInfo`] when that is no key, when values of the type have no such bits, or when there are too many.
    pub fn column(
        &mut self,
        name: &str,
        data_type: DataType,
        values: impl IntoIterator<Item = u64>,
    ) -> Result<(), BadJobInfo> {
        if scalar_value(data_type, 0).is_none() {
            let key = "a column";
            return Err(BadJobInfo::Type { key, found: data_type, wanted: "a type of at most 8 bytes" });
        }
        let values = values.into_iter().take(MAX_RANKS as usize);
        self.processes.take_column(&key(name)?, Kind::Scalars(data_type), values);
        Ok(())
    }

    /// [`column`](Self::column) for a key whose values are strings.
    ///
    /// # Errors
    /// [`BadJobInfo`] when that is no key.
    pub fn texts(&mut self, name: &str, values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<(), BadJobInfo> {
        let key = key(name)?;
        let mut numbers = Vec::new();
        for text in values.into_iter().take(MAX_RANKS as usize) {
            // Bytes behind a NUL are no part of a C string.
            let text = text.as_ref().split(|byte| *byte == 0).next().unwrap_or_default();
            numbers.push(self.processes.text_number(Some(text)));
        }
        self.processes.take_column(&key, Kind::Strings, numbers.into_iter());
        Ok(())
    }
}

fn key(name: &str) -> Result<Key, BadJobInfo> {
    Ok(Key::new(name)?)
}
