//! Job information as a host gives it, sorted by level.
//!
//! The host hands over attributes in any order: loose keys and arrays for sessions, the job, applications, nodes and
//! processes. [`JobInfoBuilder`] sorts them; what is said of processes, by far the most, it takes in without making an
//! [`Info`] of it. [`placement`](super::placement) then finds out what follows from the maps and need not be kept, and
//! never contradicts what was given.
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use super::entries::{Entries, NUMBER, number};
use super::job_info::{JobInfo, Session};
use super::nodes::Nodes;
use super::proc_writer::{Ingest, ProcWriter};
use super::process_map::ProcessMap;
use crate::data::maps::NodeMap;
use crate::data::{DataType, Info, InfoList, Key, Nspace, Rank, Text, Value, keys};
use crate::store::datum::Datum;
use crate::store::error::BadJobInfo;
use crate::store::ids::MAX_RANKS;

impl JobInfo {
    /// Sorts what a host gives at registration (`PMIx_server_register_nspace`), and completes it.
    ///
    /// `own_host` is the name of this node, as the host's node map has it if it is there.
    ///
    /// # Errors
    /// [`BadJobInfo`] names the attribute that cannot be understood.
    pub fn from_infos(nspace: &Nspace, local_procs: u32, infos: &[Info], own_host: &str) -> Result<Self, BadJobInfo> {
        let mut builder = JobInfoBuilder::new(nspace, local_procs, own_host);
        builder.infos(infos)?;
        builder.build()
    }
}

/// Job information that is being put together.
///
/// ```
/// use instanton::data::{DataType, Info, Nspace, Rank, Value, keys};
/// use instanton::store::{Datum, JobInfoBuilder, JobWriter, Limits, Question};
/// let nspace = Nspace::new("job")?;
/// let mut job = JobInfoBuilder::new(&nspace, 2, "node1");
/// job.infos(&[Info::new(keys::NODE_MAP, "node1,node2"), Info::new(keys::PROC_MAP, "0,1;2,3")])?;
/// // Of each process, borrowed from wherever the host keeps it.
/// for rank in 0..4u32 {
///     job.process(rank, [("my.port".as_bytes(), Datum::Scalar(DataType::UINT16, 5000 + u64::from(rank)))])?;
/// }
/// let writer = JobWriter::create(&nspace, job.build()?, &Limits::default())?;
/// assert_eq!(writer.reader().get(&Question::new(Rank(3), "my.port"))?, Value::Uint16(5003));
/// assert_eq!(writer.reader().get(&Question::new(Rank(3), keys::HOSTNAME))?, Value::from("node2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JobInfoBuilder {
    pub(super) nspace: Nspace,
    pub(super) own_host: Vec<u8>,
    pub(super) local_procs: u32,
    pub(super) has_data: bool,
    pub(in crate::store) job: Entries,
    pub(in crate::store) sessions: Vec<Session>,
    pub(in crate::store) apps: BTreeMap<u32, Entries>,
    pub(in crate::store) nodes: Nodes,
    pub(super) map: ProcessMap,
    /// Keys about the own node, before it is known which one that is.
    pub(super) own: Entries,
    /// Keys about the only application.
    pub(super) app: Entries,
    /// True if an array was among them.
    has_app_array: bool,
    pub(super) processes: Ingest,
    /// Attributes that were given, apart from those within arrays.
    said: HashSet<Key>,
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

fn in_job_array<'a>(infos: &'a [Info], key: &str) -> Option<&'a Info> {
    let arrays = infos.iter().filter(|info| info.key == keys::JOB_INFO_ARRAY);
    arrays.filter_map(|info| info.value.as_array()).flat_map(|array| array.infos()).find(|info| info.key == key)
}

fn map_bytes<'a>(key: &'static str, value: &'a Value) -> Result<&'a [u8], BadJobInfo> {
    if let Value::Regex2(regex) = value {
        return Ok(&regex.bytes);
    }
    value.as_bytes().ok_or(BadJobInfo::Type { key, found: value.data_type(), wanted: "a string or expression" })
}

/// The attributes in an array, borrowed if the array is.
fn items_of<'a>(key: &'static str, info: Cow<'a, Info>) -> Result<Vec<Cow<'a, Info>>, BadJobInfo> {
    let wrong = no_array(key, &info);
    let array = match info {
        Cow::Borrowed(info) => info.value.as_array().map(|array| array.infos().map(Cow::Borrowed).collect()),
        Cow::Owned(Info { value: Value::DataArray(array), .. }) => {
            let owned = |item| if let Value::Info(info) = item { Some(Cow::Owned(*info)) } else { None };
            Some(array.into_items().into_iter().filter_map(owned).collect())
        }
        Cow::Owned(_) => None,
    };
    array.ok_or(wrong)
}

fn no_array(key: &'static str, info: &Info) -> BadJobInfo {
    BadJobInfo::Type { key, found: info.value.data_type(), wanted: "an array of attributes" }
}

/// The last value of a key, as a number; each must be one.
fn number_in(infos: &[Cow<'_, Info>], key: &'static str) -> Result<Option<u32>, BadJobInfo> {
    let numbers = infos.iter().filter(|info| info.key == key).map(|info| number(key, &info.value));
    Ok(numbers.collect::<Result<Vec<_>, _>>()?.pop())
}

impl JobInfoBuilder {
    /// Begins with nothing but how many processes will run here, 0 where the maps say it, and the name of this node as the
    /// host's node map has it if it is there.
    pub fn new(nspace: &Nspace, local_procs: u32, own_host: &str) -> Self {
        Self {
            nspace: nspace.clone(),
            own_host: own_host.as_bytes().to_vec(),
            local_procs,
            has_data: true,
            job: Entries::default(),
            sessions: Vec::new(),
            apps: BTreeMap::new(),
            nodes: Nodes::default(),
            map: ProcessMap::default(),
            own: Entries::default(),
            app: Entries::default(),
            processes: Ingest::default(),
            has_app_array: false,
            said: HashSet::new(),
        }
    }

    /// Takes in the attributes that a host gives at registration, of processes or of anything else.
    ///
    /// The node map numbers the nodes that other attributes speak of: it belongs into the first call.
    ///
    /// # Errors
    /// [`BadJobInfo`] names the attribute that cannot be understood.
    pub fn infos(&mut self, infos: &[Info]) -> Result<(), BadJobInfo> {
        self.before(infos)?;
        infos.iter().try_for_each(|info| self.take(Cow::Borrowed(info)))
    }

    /// [`infos`](Self::infos) for attributes that are kept without a copy: a map may be as large as everything else.
    ///
    /// # Errors
    /// As [`infos`](Self::infos).
    pub fn owned_infos(&mut self, infos: Vec<Info>) -> Result<(), BadJobInfo> {
        self.before(&infos)?;
        infos.into_iter().try_for_each(|info| self.take(Cow::Owned(info)))
    }

    /// Reads the attributes that must be known before the first is taken in.
    fn before(&mut self, infos: &[Info]) -> Result<(), BadJobInfo> {
        if let Some(map) = infos.find(keys::NODE_MAP).or_else(|| in_job_array(infos, keys::NODE_MAP)) {
            let bytes = map_bytes(keys::NODE_MAP, &map.value)?;
            let parsed = NodeMap::each_row_of(bytes, |row| self.nodes.map_row(row));
            parsed.map_err(|error| BadJobInfo::Map { key: keys::NODE_MAP, error })?;
        }
        self.has_data &= !infos.is_set(keys::REGISTER_NODATA);
        Ok(())
    }

    fn take(&mut self, info: Cow<'_, Info>) -> Result<(), BadJobInfo> {
        // An attribute that is for us and not for the processes counts in any case.
        if !self.has_data && !info.key.as_bytes().starts_with(b"instanton.") {
            return Ok(());
        }
        if !self.said.contains(&info.key) {
            self.said.insert(info.key.clone());
        }
        self.sort(info)
    }

    /// Takes in attributes that hold for every job: those that were not given before.
    ///
    /// # Errors
    /// As [`infos`](Self::infos).
    pub fn unsaid(&mut self, infos: &[Info]) -> Result<(), BadJobInfo> {
        let unsaid: Vec<Info> = infos.iter().filter(|info| !self.said.contains(&info.key)).cloned().collect();
        if unsaid.is_empty() { Ok(()) } else { self.owned_infos(unsaid) }
    }

    /// Takes in values of a session that are known without the job, if the job has named it; the job's own values count
    /// more.
    pub fn known_session(&mut self, number: u32, known: &[Info]) {
        let named =
            |session: &&mut Session| session.number == number && session.entries.get(keys::SESSION_ID).is_some();
        let Some(session) = self.sessions.iter_mut().find(named) else { return };
        for info in known.iter().filter(|info| !info.key.is_empty()) {
            if session.entries.place(info.key.as_bytes()).is_none() {
                session.entries.put(info.key.clone(), info.value.clone());
            }
        }
    }

    /// Takes in a process map that is a text of its host's: a long one is copied only where what it says is not enough
    /// to write it again.
    ///
    /// # Errors
    /// As [`infos`](Self::infos).
    pub fn process_map(&mut self, data_type: DataType, expression: &[u8]) -> Result<(), BadJobInfo> {
        if !self.has_data {
            return Ok(());
        }
        let key = Key::new(keys::PROC_MAP)?;
        self.said.insert(key.clone());
        if !self.map_processes(data_type, expression)? {
            let value = match data_type {
                DataType::REGEX => Value::Regex(expression.to_vec()),
                _ => Value::String(Some(Text::new(expression)?)),
            };
            self.job.put(key, value);
        }
        Ok(())
    }

    /// Takes in the values of one process. The last value of a key counts.
    ///
    /// # Errors
    /// [`BadJobInfo`] when no process can have that rank, a key is none, or a value is none of its type. The values in
    /// front of that one are taken in. Numbers that no value of their type has and texts with a NUL in them are an
    /// error of [`build`](Self::build).
    pub fn process<'a>(
        &mut self,
        rank: u32,
        values: impl IntoIterator<Item = (&'a [u8], Datum<'a>)>,
    ) -> Result<(), BadJobInfo> {
        if rank >= MAX_RANKS || !Rank(rank).is_process() {
            return Err(BadJobInfo::Rank { rank });
        }
        match self.has_data {
            true => self.processes.take(rank, &self.nodes, values.into_iter()),
            false => Ok(()),
        }
    }

    /// Begins the values of one process, to be written one by one, which takes a host less time than
    /// [`process`](Self::process); `None` where it has said that it gives no data.
    ///
    /// # Errors
    /// [`BadJobInfo`] when no process can have that rank.
    #[inline]
    pub fn proc_writer(&mut self, rank: u32) -> Result<Option<ProcWriter<'_>>, BadJobInfo> {
        if rank >= MAX_RANKS || !Rank(rank).is_process() {
            return Err(BadJobInfo::Rank { rank });
        }
        Ok(self.has_data.then(|| self.processes.proc_writer(rank, &self.nodes)))
    }

    /// The rank that an array about a process is about.
    ///
    /// # Errors
    /// [`BadJobInfo`] when it does not say, or says it by something that is no number.
    pub fn rank_in<'a>(values: impl Iterator<Item = (&'a [u8], Datum<'a>)>) -> Result<u32, BadJobInfo> {
        let (array, key) = (keys::PROC_INFO_ARRAY, keys::RANK);
        let mut ranks = values.filter(|(name, _)| *name == key.as_bytes()).map(|(_, value)| value);
        let first = ranks.next().ok_or(BadJobInfo::Anonymous { array, key })?;
        let last = ranks.last().unwrap_or(first);
        last.as_u32().ok_or(BadJobInfo::Type { key, found: last.data_type(), wanted: NUMBER })
    }

    /// Puts an attribute where it belongs.
    fn sort(&mut self, info: Cow<'_, Info>) -> Result<(), BadJobInfo> {
        let is = |keys: &[&str]| keys.iter().any(|key| info.key == *key);
        let into = if info.key == keys::PROC_INFO_ARRAY {
            let array = info.value.as_array().ok_or_else(|| no_array(keys::PROC_INFO_ARRAY, &info))?;
            let values = || array.infos().map(|info| (info.key.as_bytes(), (&info.value).into()));
            return self.process(Self::rank_in(values())?, values());
        } else if info.key == keys::JOB_INFO_ARRAY {
            return items_of(keys::JOB_INFO_ARRAY, info)?.into_iter().try_for_each(|info| self.sort(info));
        } else if info.key == keys::NODE_INFO_ARRAY {
            return self.take_node(items_of(keys::NODE_INFO_ARRAY, info)?);
        } else if info.key == keys::APP_INFO_ARRAY {
            return self.take_app(items_of(keys::APP_INFO_ARRAY, info)?);
        } else if info.key == keys::SESSION_INFO_ARRAY {
            return self.take_session(items_of(keys::SESSION_INFO_ARRAY, info)?);
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
                let expression = map_bytes(keys::PROC_MAP, &info.value)?;
                if self.map_processes(info.value.data_type(), expression)? {
                    return Ok(());
                }
            }
            &mut self.job
        };
        into.put_info(info)
    }

    /// Takes in where a process map has the ranks. Answers whether that says all, so that its text needs not be kept.
    fn map_processes(&mut self, data_type: DataType, expression: &[u8]) -> Result<bool, BadJobInfo> {
        // Room that is not used takes no memory.
        let about = self.job.get(keys::JOB_SIZE).and_then(Value::as_u32).unwrap_or(0);
        let says_all = self.map.read(data_type, expression, about);
        let says_all = says_all.map_err(|error| BadJobInfo::Map { key: keys::PROC_MAP, error })?;
        if says_all {
            self.job.retain(|(key, _)| *key != keys::PROC_MAP);
        }
        Ok(says_all)
    }

    fn take_node(&mut self, infos: Vec<Cow<'_, Info>>) -> Result<(), BadJobInfo> {
        let mut named = infos.iter().filter(|info| info.key == keys::HOSTNAME);
        let name = named.next().and_then(|info| info.value.as_text()).map(|name| name.as_bytes());
        let entries = match (number_in(&infos, keys::NODEID)?, name) {
            (number, Some(name)) => {
                let index = self.nodes.called(name, number);
                self.nodes.entries(index)
            }
            (Some(number), None) => {
                let index = self.nodes.numbered(number);
                self.nodes.entries(index)
            }
            (None, None) => &mut self.own,
        };
        entries.put_all(infos)
    }

    fn take_app(&mut self, infos: Vec<Cow<'_, Info>>) -> Result<(), BadJobInfo> {
        let entries = match number_in(&infos, keys::APPNUM)? {
            Some(number) => self.apps.entry(number).or_default(),
            // Of several, nobody could tell which is which.
            None if std::mem::replace(&mut self.has_app_array, true) => {
                return Err(BadJobInfo::Anonymous { array: keys::APP_INFO_ARRAY, key: keys::APPNUM });
            }
            None => &mut self.app,
        };
        entries.put_all(infos)
    }

    fn take_session(&mut self, infos: Vec<Cow<'_, Info>>) -> Result<(), BadJobInfo> {
        let entries = match number_in(&infos, keys::SESSION_ID)? {
            Some(number) => &mut self.session(number).entries,
            None => &mut self.own_session().entries,
        };
        entries.put_all(infos)
    }

    /// The job's own session is the first that is spoken of; one without a number takes the first number that comes.
    fn session(&mut self, number: u32) -> &mut Session {
        if let [own] = &mut self.sessions[..]
            && own.entries.get(keys::SESSION_ID).is_none()
        {
            own.number = number;
            own.entries.imply(keys::SESSION_ID, number);
        }
        let at = self.sessions.iter().position(|session| session.number == number).unwrap_or_else(|| {
            self.sessions.push(Session { number, entries: Entries::default() });
            self.sessions.len() - 1
        });
        self.sessions[at].entries.imply(keys::SESSION_ID, number);
        &mut self.sessions[at]
    }

    pub(super) fn own_session(&mut self) -> &mut Session {
        if self.sessions.is_empty() {
            self.sessions.push(Session::default());
        }
        &mut self.sessions[0]
    }
}
