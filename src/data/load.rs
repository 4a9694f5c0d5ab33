//! Load of a server: what it serves, how often it is asked, and what its jobs hold; and how that travels in the answer to
//! a query.
//!
//! The answer is an array of attributes, for jobs and kinds arrays within: whoever knows nothing of it can still print it.
//! Attributes that a reader does not know are skipped, so that later servers may say more.
use super::{DataArray, Info, InfoList, Nspace, Value, keys};

/// The query key whose answer is a server's load: requests by kind since it began, and for each job that the asker may
/// know of its processes, what they make the server hold, and its shared memory. `PMIX_NSPACE` restricts it to one job.
pub const LOAD: &str = "instanton.load";

const PEERS: &str = "instanton.peers";
const REQUESTS: &str = "instanton.requests";
const KIND: &str = "instanton.kind";
const COUNT: &str = "instanton.count";
const LOCAL: &str = "instanton.local";
const ATTACHED: &str = "instanton.attached";
const HELD: &str = "instanton.held";
const BYTES: &str = "instanton.bytes";
const LIMIT: &str = "instanton.limit";
const SHARED: &str = "instanton.shared";
const LIVE: &str = "instanton.live";
const RETIRED: &str = "instanton.retired";
const SET_ASIDE: &str = "instanton.set.aside";
const SEGMENTS: &str = "instanton.segments";
const WAITING_SETS: &str = "instanton.waiting.sets";
const GENERATION: &str = "instanton.generation";

/// Load of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections of processes and tools.
    pub peers: u64,
    /// Requests since the server began, by kind.
    pub requests: Vec<(String, u64)>,
    /// Jobs, by namespace.
    pub jobs: Vec<JobLoad>,
}

/// Load of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLoad {
    /// Its namespace.
    pub nspace: Nspace,
    /// Number of its processes, where the host has said it.
    pub size: Option<u32>,
    /// Number of those that were registered to run on the server's node.
    pub local: u64,
    /// Number of those that are attached.
    pub attached: u64,
    /// Requests of the processes that are attached.
    pub requests: u64,
    /// Bytes that its processes make the server hold, and their limit.
    pub held: u64,
    /// Most bytes that they may.
    pub held_limit: u64,
    /// Bytes held, by kind.
    pub kinds: Vec<(String, u64)>,
    /// Its shared memory, once it is registered.
    pub shared: Option<SharedLoad>,
}

/// Shared memory of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLoad {
    /// Bytes of all its segments, replaced ones that still wait included.
    pub bytes: u64,
    /// Most bytes that they may have.
    pub limit: u64,
    /// Bytes of blocks that hold current records.
    pub live: u64,
    /// Bytes of blocks that wait for readers.
    pub retired: u64,
    /// Bytes of blocks that wait for readers which hold back more than they may.
    pub set_aside: u64,
    /// Modex segments in use.
    pub segments: u64,
    /// Replaced sets of segments that wait for readers.
    pub waiting_sets: u64,
    /// Generation of the job information.
    pub generation: u64,
}

fn counts(outer: &'static str, counts: &[(String, u64)]) -> impl Iterator<Item = Info> {
    counts.iter().map(move |(kind, count)| {
        let pair = vec![Info::new(KIND, Value::string(kind)), Info::new(COUNT, *count)];
        Info::new(outer, DataArray::of_info(pair))
    })
}

fn number(infos: &[Info], key: &str) -> Option<u64> {
    infos.find(key)?.value.as_u64()
}

/// The arrays of attributes under a key.
fn arrays<'a>(infos: &'a [Info], key: &'a str) -> impl Iterator<Item = Vec<Info>> + 'a {
    infos.iter().filter(move |info| info.key == key).filter_map(|info| match &info.value {
        Value::DataArray(array) => Some(array.infos().cloned().collect()),
        _ => None,
    })
}

fn read_counts(infos: &[Info], key: &str) -> Vec<(String, u64)> {
    let pair = |pair: Vec<Info>| Some((pair.find(KIND)?.value.as_str()?.to_owned(), number(&pair, COUNT)?));
    arrays(infos, key).filter_map(pair).collect()
}

impl SharedLoad {
    fn into_info(self) -> Info {
        let numbers = [
            (BYTES, self.bytes),
            (LIMIT, self.limit),
            (LIVE, self.live),
            (RETIRED, self.retired),
            (SET_ASIDE, self.set_aside),
            (SEGMENTS, self.segments),
            (WAITING_SETS, self.waiting_sets),
            (GENERATION, self.generation),
        ];
        let numbers = numbers.into_iter().map(|(key, number)| Info::new(key, number)).collect();
        Info::new(SHARED, DataArray::of_info(numbers))
    }

    fn from_infos(infos: &[Info]) -> Self {
        let of = |key| number(infos, key).unwrap_or(0);
        Self {
            bytes: of(BYTES),
            limit: of(LIMIT),
            live: of(LIVE),
            retired: of(RETIRED),
            set_aside: of(SET_ASIDE),
            segments: of(SEGMENTS),
            waiting_sets: of(WAITING_SETS),
            generation: of(GENERATION),
        }
    }
}

impl JobLoad {
    fn into_info(self) -> Info {
        let mut infos = vec![Info::new(keys::NSPACE, Value::string(self.nspace.as_bytes()))];
        infos.extend(self.size.map(|size| Info::new(keys::JOB_SIZE, size)));
        let numbers = [
            (LOCAL, self.local),
            (ATTACHED, self.attached),
            (REQUESTS, self.requests),
            (BYTES, self.held),
            (LIMIT, self.held_limit),
        ];
        infos.extend(numbers.map(|(key, number)| Info::new(key, number)));
        infos.extend(counts(HELD, &self.kinds));
        infos.extend(self.shared.map(SharedLoad::into_info));
        Info::new(keys::JOB_INFO_ARRAY, DataArray::of_info(infos))
    }

    fn from_infos(infos: &[Info]) -> Option<Self> {
        let of = |key| number(infos, key).unwrap_or(0);
        Some(Self {
            nspace: Nspace::new(infos.find(keys::NSPACE)?.value.as_text()?.as_bytes()).ok()?,
            size: infos.find(keys::JOB_SIZE).and_then(|info| info.value.as_u32()),
            local: of(LOCAL),
            attached: of(ATTACHED),
            requests: of(REQUESTS),
            held: of(BYTES),
            held_limit: of(LIMIT),
            kinds: read_counts(infos, HELD),
            shared: arrays(infos, SHARED).next().map(|infos| SharedLoad::from_infos(&infos)),
        })
    }
}

/// Adds counts to those of the same kinds.
fn add_counts(counts: &mut Vec<(String, u64)>, others: Vec<(String, u64)>) {
    for (kind, count) in others {
        match counts.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum += count,
            None => counts.push((kind, count)),
        }
    }
}

impl SharedLoad {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.limit += other.limit;
        self.live += other.live;
        self.retired += other.retired;
        self.set_aside += other.set_aside;
        self.segments += other.segments;
        self.waiting_sets += other.waiting_sets;
        self.generation = self.generation.max(other.generation);
    }
}

impl JobLoad {
    fn add(&mut self, other: Self) {
        self.size = self.size.or(other.size);
        self.local += other.local;
        self.attached += other.attached;
        self.requests += other.requests;
        self.held += other.held;
        self.held_limit += other.held_limit;
        add_counts(&mut self.kinds, other.kinds);
        match (&mut self.shared, other.shared) {
            (Some(shared), Some(other)) => shared.add(other),
            (shared, other) => *shared = shared.take().or(other),
        }
    }
}

impl Load {
    /// The load as the answer to a query.
    pub fn into_value(self) -> Value {
        let mut infos = vec![Info::new(PEERS, self.peers)];
        infos.extend(counts(REQUESTS, &self.requests));
        infos.extend(self.jobs.into_iter().map(JobLoad::into_info));
        Value::DataArray(DataArray::of_info(infos))
    }

    /// Adds the load of another node's server: what both have of a job is summed, its limits as well.
    pub fn add(&mut self, other: Self) {
        self.peers += other.peers;
        add_counts(&mut self.requests, other.requests);
        for job in other.jobs {
            match self.jobs.iter_mut().find(|known| known.nspace == job.nspace) {
                Some(known) => known.add(job),
                None => self.jobs.push(job),
            }
        }
    }

    /// Reads such an answer; none where it is something else. Jobs that make no sense are left out.
    pub fn from_value(value: &Value) -> Option<Self> {
        let Value::DataArray(array) = value else { return None };
        let infos: Vec<Info> = array.infos().cloned().collect();
        Some(Self {
            peers: number(&infos, PEERS)?,
            requests: read_counts(&infos, REQUESTS),
            jobs: arrays(&infos, keys::JOB_INFO_ARRAY).filter_map(|job| JobLoad::from_infos(&job)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_comes_back_as_it_was_sent() {
        let shared = SharedLoad {
            bytes: 1,
            limit: 2,
            live: 3,
            retired: 4,
            set_aside: 5,
            segments: 6,
            waiting_sets: 7,
            generation: 8,
        };
        let job = JobLoad {
            nspace: Nspace::new("job@1").unwrap(),
            size: Some(4),
            local: 3,
            attached: 2,
            requests: 100,
            held: 1000,
            held_limit: 2000,
            kinds: vec![("a connection".into(), 1000)],
            shared: Some(shared),
        };
        let bare = JobLoad { size: None, shared: None, kinds: Vec::new(), ..job.clone() };
        let requests = vec![("a fence".into(), 3), ("a get".into(), 4)];
        let load = Load { peers: 5, requests, jobs: vec![job, bare] };
        assert_eq!(Load::from_value(&load.clone().into_value()), Some(load.clone()));
        // Two nodes with one job have twice what one has.
        let load = Load { jobs: load.jobs[..1].to_vec(), ..load };
        let mut sum = load.clone();
        sum.add(load);
        assert_eq!((sum.peers, sum.jobs.len()), (10, 1));
        assert_eq!(sum.requests, [("a fence".to_owned(), 6), ("a get".to_owned(), 8)]);
        let job = &sum.jobs[0];
        assert_eq!((job.local, job.held, job.kinds[0].1), (6, 2000, 2000));
        assert_eq!(Load::from_value(&Value::from(true)), None);
        assert_eq!(Load::from_value(&Value::infos(Vec::new())), None);
    }
}
