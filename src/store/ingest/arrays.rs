//! Job information from a host that has it in arrays of its own: names of nodes, where ranks are, and values by rank.
use super::builder::JobInfoBuilder;
use super::column_builder::Kind;
use crate::data::{DataType, Key, Value, keys, maps};
use crate::store::datum::{check_scalar, check_text};
use crate::store::error::BadJobInfo;
use crate::store::ids::MAX_RANKS;

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
/// job.nodes((0..3125).map(|node| format!("node{node:05}")))?;
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
    /// [`BadJobInfo::Size`] when there are more than [`MAX_RANKS`].
    pub fn size(&mut self, size: u32) -> Result<(), BadJobInfo> {
        if size > MAX_RANKS {
            return Err(BadJobInfo::Size { size });
        }
        self.job.put(key(keys::JOB_SIZE)?, Value::from(size));
        Ok(())
    }

    /// Names the nodes of the job, in order, behind those that a node map or an earlier call has named; their numbers
    /// are their places.
    ///
    /// # Errors
    /// [`BadJobInfo::Map`] for the first that a node map cannot have: it is empty or too long, or has a byte in it that
    /// means something there. Those in front of it are taken in.
    pub fn nodes(&mut self, names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<(), BadJobInfo> {
        for name in names {
            let name = name.as_ref();
            maps::check_node(name).map_err(|error| BadJobInfo::Map { key: keys::NODE_MAP, error })?;
            self.nodes.map(name);
        }
        Ok(())
    }

    /// Says on which nodes the ranks are, in place of what was said of that before. Blocks and rounds go to the nodes
    /// that are known by now, and [`size`](Self::size) says how far.
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
    /// [`BadJobInfo`] when that is no key, when values of the type are not given as bits, or when there are more than
    /// [`MAX_RANKS`] values. Bits that no value of the type has are an error of [`build`](Self::build).
    pub fn column(
        &mut self,
        name: &str,
        data_type: DataType,
        values: impl IntoIterator<Item = u64>,
    ) -> Result<(), BadJobInfo> {
        let key = key(name)?;
        check_scalar(data_type, 0).map_err(|error| BadJobInfo::Value { key: key.clone(), rank: 0, error })?;
        self.processes.take_column(&key, Kind::Scalars(data_type), values.into_iter())
    }

    /// [`column`](Self::column) for a key whose values are strings.
    ///
    /// # Errors
    /// [`BadJobInfo`] when that is no key, for a string with a NUL in it, or when there are more than [`MAX_RANKS`].
    pub fn texts(&mut self, name: &str, values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<(), BadJobInfo> {
        let key = key(name)?;
        let mut numbers = Vec::new();
        for (rank, text) in (0..=MAX_RANKS).zip(values) {
            let checked = check_text(text.as_ref());
            checked.map_err(|error| BadJobInfo::Value { key: key.clone(), rank, error })?;
            numbers.push(self.processes.text_number(Some(text.as_ref())));
        }
        self.processes.take_column(&key, Kind::Strings, numbers.into_iter())
    }
}

fn key(name: &str) -> Result<Key, BadJobInfo> {
    Ok(Key::new(name)?)
}
