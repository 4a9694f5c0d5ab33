//! Job information as a host gives it, sorted by level.
//!
//! The host hands over one array of attributes in any order: loose keys and arrays for sessions, the job, applications, nodes and
//! processes. [`JobInfo::from_infos`] sorts them, [`placement`](super::placement) adds what follows from the maps (rule S9) and never
//! contradicts what was given.
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap};

use instanton_layout::info::{NONE, Row};

use super::placement;
use crate::data::maps::{MapError, NodeMap, ProcMap};
use crate::data::{DataType, Info, InfoList, Key, Nspace, Rank, Value, keys};

/// More ranks than this are refused before memory is taken for them.
pub const MAX_RANKS: u32 = 1 << 24;

/// What is wrong with job information.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadJobInfo {
    /// An attribute has a value that it cannot have.
    #[error("{key} has a value of type {found}, wanted {wanted}")]
    Type {
        /// The attribute.
        key: &'static str,
        /// The type it has.
        found: DataType,
        /// What it should be.
        wanted: &'static str,
    },
    /// An array does not say whom it is about.
    #[error("an array {array} has no {key}")]
    Anonymous {
        /// The array.
        array: &'static str,
        /// What is missing in it.
        key: &'static str,
    },
    /// A rank that no process can have, or more of them than [`MAX_RANKS`].
    #[error("rank {rank} in a job of {size} processes")]
    Rank {
        /// The rank.
        rank: u32,
        /// Processes of the job.
        size: u32,
    },
    /// A node map or process map cannot be read.
    #[error("{key}: {error}")]
    Map {
        /// Which map.
        key: &'static str,
        /// What is wrong with it.
        error: MapError,
    },
}

/// Keys and values of one record.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries(Vec<(Key, Value)>);

impl Entries {
    /// The second store of a key overwrites the first (rule K6).
    pub(super) fn put(&mut self, key: &Key, value: &Value) {
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value.clone(),
            None => self.0.push((key.clone(), value.clone())),
        }
    }

    /// What follows from something else does not overwrite what was given.
    pub(super) fn imply(&mut self, key: &'static str, value: impl Into<Value>) {
        if self.get(key).is_none() {
            self.0.push((Key::new(key).expect("keys of the Standard are legal"), value.into()));
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Key, Value)> + Clone {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A session, application or node.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) number: u32,
    pub(super) name: Option<Vec<u8>>,
    pub(super) entries: Entries,
}

/// What is known of a job before its processes start.
#[derive(Debug, Clone)]
pub struct JobInfo {
    pub(super) nspace: Nspace,
    pub(super) size: u32,
    pub(super) job: Entries,
    pub(super) sessions: Vec<Member>,
    pub(super) apps: Vec<Member>,
    pub(super) nodes: Vec<Member>,
    pub(super) own_node: u32,
    pub(super) rows: Vec<Row>,
    /// What is peculiar to a process, by rank.
    pub(super) processes: Vec<Entries>,
}

/// What was read, before it is completed.
pub(super) struct Given<'a> {
    pub(super) info: JobInfo,
    pub(super) own_host: Vec<u8>,
    pub(super) local_procs: u32,
    /// What is said of each process, by rank.
    pub(super) processes: BTreeMap<u32, Vec<&'a Info>>,
    /// Ranks of each node of the node map.
    pub(super) proc_map: Option<ProcMap>,
    /// Places of nodes by name.
    names: HashMap<Vec<u8>, usize>,
    /// Nodes of the node map: they have the first places.
    mapped: usize,
    /// Numbers that were given together with a name, and the places of the nodes of that name.
    numbers: BTreeSet<(u32, usize)>,
    /// Keys about the own node, before it is known which one that is.
    pub(super) own: Entries,
    /// Keys about the only application.
    pub(super) app: Entries,
}

/// Loose keys about the own node.
const OWN_NODE: [&str; 12] = [
    keys::HOSTNAME,
    keys::HOSTNAME_ALIASES,
    keys::NODEID,
    keys::NODE_SIZE,
    keys::LOCAL_SIZE,
    keys::LOCAL_PEERS,
    keys::LOCAL_PROCS,
    keys::LOCAL_CPUSETS,
    keys::LOCALLDR,
    keys::AVAIL_PHYS_MEMORY,
    keys::HWLOC_XML_V1,
    keys::HWLOC_XML_V2,
];

/// Loose keys about the only application.
const APP: [&str; 5] = [keys::APPNUM, keys::APP_SIZE, keys::APPLDR, keys::APP_ARGV, keys::WDIR];

/// Loose keys about the session.
const SESSION: [&str; 2] = [keys::SESSION_ID, keys::UNIV_SIZE];

impl JobInfo {
    /// Sorts what a host gives at registration (`PMIx_server_register_nspace`), and completes it.
    ///
    /// `own_host` is the name of this node, as the host's node map has it if it is there.
    ///
    /// # Errors
    /// [`BadJobInfo`] names the attribute that cannot be understood.
    pub fn from_infos(nspace: &Nspace, local_procs: u32, infos: &[Info], own_host: &str) -> Result<Self, BadJobInfo> {
        let mut given = Given {
            info: JobInfo {
                nspace: nspace.clone(),
                size: 0,
                job: Entries::default(),
                sessions: Vec::new(),
                apps: Vec::new(),
                nodes: Vec::new(),
                own_node: NONE,
                rows: Vec::new(),
                processes: Vec::new(),
            },
            own_host: own_host.as_bytes().to_vec(),
            local_procs,
            processes: BTreeMap::new(),
            proc_map: None,
            names: HashMap::new(),
            mapped: 0,
            numbers: BTreeSet::new(),
            own: Entries::default(),
            app: Entries::default(),
        };
        // The node map numbers the nodes that other attributes speak of.
        if let Some(map) = infos.find(keys::NODE_MAP).or_else(|| in_job_array(infos, keys::NODE_MAP)) {
            let bytes = map_bytes(keys::NODE_MAP, &map.value)?;
            let map = NodeMap::parse(bytes).map_err(|error| BadJobInfo::Map { key: keys::NODE_MAP, error })?;
            for (number, name) in map.names().enumerate() {
                given.node_named(name, number as u32);
            }
            given.mapped = given.info.nodes.len();
        }
        if !infos.is_set(keys::REGISTER_NODATA) {
            infos.iter().try_for_each(|info| given.take(info))?;
        }
        placement::complete(given)
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Ranks that the job has room for.
    pub(super) fn ranks(&self) -> u32 {
        self.rows.len() as u32
    }
}

fn in_job_array<'a>(infos: &'a [Info], key: &str) -> Option<&'a Info> {
    let arrays = infos.iter().filter(|info| info.key == keys::JOB_INFO_ARRAY);
    arrays.filter_map(|info| info.value.as_array()).flat_map(|array| array.infos()).find(|info| info.key == key)
}

fn map_bytes<'a>(key: &'static str, value: &'a Value) -> Result<&'a [u8], BadJobInfo> {
    value.as_bytes().ok_or(BadJobInfo::Type { key, found: value.data_type(), wanted: "a string or expression" })
}

fn array_of<'a>(key: &'static str, info: &'a Info) -> Result<Vec<&'a Info>, BadJobInfo> {
    let found = info.value.data_type();
    let array = info.value.as_array().ok_or(BadJobInfo::Type { key, found, wanted: "an array of attributes" })?;
    Ok(array.infos().collect())
}

pub(super) fn number(key: &'static str, value: &Value) -> Result<u32, BadJobInfo> {
    value.as_u32().ok_or(BadJobInfo::Type { key, found: value.data_type(), wanted: "a number" })
}

/// The last value of a key.
pub(super) fn value_in<'a>(infos: &[&'a Info], key: &str) -> Option<&'a Value> {
    infos.iter().rev().find(|info| info.key == key).map(|info| &info.value)
}

pub(super) fn number_in(infos: &[&Info], key: &'static str) -> Result<Option<u32>, BadJobInfo> {
    value_in(infos, key).map(|value| number(key, value)).transpose()
}

impl<'a> Given<'a> {
    fn take(&mut self, info: &'a Info) -> Result<(), BadJobInfo> {
        let is = |keys: &[&str]| keys.iter().any(|key| info.key == *key);
        if info.key == keys::JOB_INFO_ARRAY {
            return array_of(keys::JOB_INFO_ARRAY, info)?.into_iter().try_for_each(|info| self.take(info));
        }
        let into = if info.key == keys::PROC_INFO_ARRAY {
            return self.take_process(array_of(keys::PROC_INFO_ARRAY, info)?);
        } else if info.key == keys::NODE_INFO_ARRAY {
            return self.take_node(&array_of(keys::NODE_INFO_ARRAY, info)?);
        } else if info.key == keys::APP_INFO_ARRAY {
            return self.take_app(&array_of(keys::APP_INFO_ARRAY, info)?);
        } else if info.key == keys::SESSION_INFO_ARRAY {
            return self.take_session(&array_of(keys::SESSION_INFO_ARRAY, info)?);
        } else if is(&OWN_NODE) {
            &mut self.own
        } else if is(&APP) {
            &mut self.app
        } else if is(&SESSION) {
            if info.key == keys::SESSION_ID {
                let number = number(keys::SESSION_ID, &info.value)?;
                self.session(number);
            }
            &mut self.own_session().entries
        } else {
            if info.key == keys::PROC_MAP {
                let bytes = map_bytes(keys::PROC_MAP, &info.value)?;
                let map = ProcMap::parse(bytes).map_err(|error| BadJobInfo::Map { key: keys::PROC_MAP, error })?;
                self.proc_map = Some(map);
            }
            &mut self.info.job
        };
        into.put(&info.key, &info.value);
        Ok(())
    }

    fn take_process(&mut self, infos: Vec<&'a Info>) -> Result<(), BadJobInfo> {
        let rank = number_in(&infos, keys::RANK)?
            .ok_or(BadJobInfo::Anonymous { array: keys::PROC_INFO_ARRAY, key: keys::RANK })?;
        if rank >= MAX_RANKS || !Rank(rank).is_process() {
            return Err(BadJobInfo::Rank { rank, size: self.info.size });
        }
        match self.processes.entry(rank) {
            Entry::Vacant(vacant) => {
                vacant.insert(infos);
            }
            Entry::Occupied(mut before) => before.get_mut().extend(infos),
        }
        Ok(())
    }

    fn take_node(&mut self, infos: &[&Info]) -> Result<(), BadJobInfo> {
        let name = infos.iter().find(|info| info.key == keys::HOSTNAME).and_then(|info| info.value.as_text());
        let name = name.map(|name| name.as_bytes().to_vec());
        let at = match (number_in(infos, keys::NODEID)?, name) {
            (number, Some(name)) => Some(self.node_called(name, number)),
            (Some(number), None) => Some(self.node_numbered(number)),
            (None, None) => None,
        };
        let entries = match at {
            Some(at) => &mut self.info.nodes[at].entries,
            None => &mut self.own,
        };
        infos.iter().for_each(|info| entries.put(&info.key, &info.value));
        Ok(())
    }

    fn take_app(&mut self, infos: &[&Info]) -> Result<(), BadJobInfo> {
        let entries = match number_in(infos, keys::APPNUM)? {
            Some(number) => &mut member(&mut self.info.apps, number).entries,
            None => &mut self.app,
        };
        infos.iter().for_each(|info| entries.put(&info.key, &info.value));
        Ok(())
    }

    fn take_session(&mut self, infos: &[&Info]) -> Result<(), BadJobInfo> {
        let entries = match number_in(infos, keys::SESSION_ID)? {
            Some(number) => &mut self.session(number).entries,
            None => &mut self.own_session().entries,
        };
        infos.iter().for_each(|info| entries.put(&info.key, &info.value));
        Ok(())
    }

    /// The job's own session is the first that is spoken of; one without a number takes the first number that comes.
    fn session(&mut self, number: u32) -> &mut Member {
        if let [own] = &mut self.info.sessions[..]
            && own.entries.get(keys::SESSION_ID).is_none()
        {
            own.number = number;
            own.entries.imply(keys::SESSION_ID, number);
        }
        let session = member(&mut self.info.sessions, number);
        session.entries.imply(keys::SESSION_ID, number);
        session
    }

    pub(super) fn own_session(&mut self) -> &mut Member {
        if self.info.sessions.is_empty() {
            self.info.sessions.push(Member::default());
        }
        &mut self.info.sessions[0]
    }

    fn next_node(&self) -> u32 {
        self.info.nodes.iter().map(|node| node.number.saturating_add(1)).max().unwrap_or(0)
    }

    /// The place of the node with that name, which gets `number` if it is new.
    fn node_named(&mut self, name: Vec<u8>, number: u32) -> usize {
        let nodes = &mut self.info.nodes;
        *self.names.entry(name).or_insert_with_key(|name| {
            nodes.push(Member { number, name: Some(name.clone()), entries: Entries::default() });
            nodes.len() - 1
        })
    }

    /// The place of the node with that name, whatever its number.
    pub(super) fn node_of_name(&mut self, name: Vec<u8>) -> usize {
        match self.names.get(&name) {
            Some(at) => *at,
            None => {
                let number = self.next_node();
                self.node_named(name, number)
            }
        }
    }

    /// The place of the node with that name, which is also said to have that number.
    pub(super) fn node_called(&mut self, name: Vec<u8>, number: Option<u32>) -> usize {
        let at = match number {
            Some(number) if !self.names.contains_key(&name) => {
                let at = self.node_numbered(number);
                // Another name with that number: somebody is wrong about numbers.
                if self.info.nodes[at].name.is_some() {
                    self.node_of_name(name)
                } else {
                    self.name_node(at, name);
                    at
                }
            }
            _ => self.node_of_name(name),
        };
        self.numbers.extend(number.map(|number| (number, at)));
        at
    }

    /// Lets nodes have the numbers that they were said to have beside their names, if no two of them end up with the same.
    pub(super) fn number_nodes(&mut self) {
        let mut numbers: Vec<u32> = self.info.nodes.iter().map(|node| node.number).collect();
        self.numbers.iter().for_each(|(number, at)| numbers[*at] = *number);
        if numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len() {
            self.info.nodes.iter_mut().zip(numbers).for_each(|(node, number)| node.number = number);
        }
    }

    /// The place of a node of the node map, or of one that a process map has beyond it.
    pub(super) fn node_mapped(&mut self, number: usize) -> usize {
        if number < self.mapped { number } else { self.node_numbered(number as u32) }
    }

    /// Gives a node a name, if it has none.
    pub(super) fn name_node(&mut self, at: usize, name: Vec<u8>) {
        let node = &mut self.info.nodes[at];
        if node.name.is_none() {
            node.name = Some(name.clone());
            self.names.entry(name).or_insert(at);
        }
    }

    /// The place of the node with that number.
    pub(super) fn node_numbered(&mut self, number: u32) -> usize {
        let nodes = &mut self.info.nodes;
        // The number usually is the place, as in the node map.
        if nodes.get(number as usize).is_some_and(|node| node.number == number) {
            return number as usize;
        }
        nodes.iter().position(|node| node.number == number).unwrap_or_else(|| {
            nodes.push(Member { number, ..Member::default() });
            nodes.len() - 1
        })
    }
}

/// The member with that number, made if it is not there.
pub(super) fn member(members: &mut Vec<Member>, number: u32) -> &mut Member {
    let at = members.iter().position(|member| member.number == number).unwrap_or_else(|| {
        members.push(Member { number, ..Member::default() });
        members.len() - 1
    });
    &mut members[at]
}
