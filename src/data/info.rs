//! Processes, and the structures that pair a key with a value.
use std::fmt;
use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};

use super::archive::Nested;
use super::{Key, Nspace, Text, Value, constants, keys};

/// A `pmix_rank_t`: a rank of a namespace or one of the special ranks.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank(pub u32);

impl Rank {
    /// Every rank of the namespace; as the target of a Get, the job itself.
    pub const WILDCARD: Rank = Rank(constants::rank::RANK_WILDCARD);
    /// No rank in particular.
    pub const UNDEF: Rank = Rank(constants::rank::RANK_UNDEF);
    /// Every rank on this node.
    pub const LOCAL_NODE: Rank = Rank(constants::rank::RANK_LOCAL_NODE);
    /// Every rank of the same namespace on this node.
    pub const LOCAL_PEERS: Rank = Rank(constants::rank::RANK_LOCAL_PEERS);
    /// Not a rank.
    pub const INVALID: Rank = Rank(constants::rank::RANK_INVALID);

    /// Returns whether it names one process.
    pub fn is_process(self) -> bool {
        self.0 < constants::rank::RANK_VALID
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rank::WILDCARD => f.write_str("*"),
            Rank::UNDEF => f.write_str("undefined"),
            Rank::LOCAL_NODE => f.write_str("local-node"),
            Rank::LOCAL_PEERS => f.write_str("local-peers"),
            Rank::INVALID => f.write_str("invalid"),
            Rank(n) => write!(f, "{n}"),
        }
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A `pmix_proc_t`: a namespace and a rank in it.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Proc {
    /// Its namespace.
    pub nspace: Nspace,
    /// Its rank in that namespace.
    pub rank: Rank,
}

impl Proc {
    /// A process by name.
    pub fn new(nspace: Nspace, rank: Rank) -> Self {
        Self { nspace, rank }
    }

    /// Returns whether `other` is named by this process, wildcards on either side included (`PMIx_Check_procid`).
    pub fn matches(&self, other: &Proc) -> bool {
        self.nspace == other.nspace
            && (self.rank == other.rank || self.rank == Rank::WILDCARD || other.rank == Rank::WILDCARD)
    }
}

impl fmt::Display for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.nspace, self.rank)
    }
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A `pmix_info_t`: an attribute and its directives.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct Info {
    /// The attribute.
    pub key: Key,
    /// `constants::info_directives` bits.
    pub flags: u32,
    /// Its value.
    #[rkyv(omit_bounds, with = Nested)]
    pub value: Value,
}

impl Info {
    /// An attribute that is a hint: no directive is set.
    ///
    /// # Panics
    /// When `key` is no legal key; use [`Key::new`] for keys that come from outside.
    pub fn new(key: impl AsRef<[u8]>, value: impl Into<Value>) -> Self {
        Self::of(key.as_ref(), value.into())
    }

    /// Once for all types of values and all callers, of whom there are many.
    #[inline(never)]
    fn of(key: &[u8], value: Value) -> Self {
        Self { key: Key::new(key).expect("a legal key"), flags: 0, value }
    }

    /// Returns this attribute as one that the caller cannot do without.
    pub fn required(self) -> Self {
        Self { flags: self.flags | constants::info_directives::INFO_REQD, ..self }
    }

    /// Returns whether the caller cannot do without it (`PMIX_INFO_REQD`).
    pub fn is_required(&self) -> bool {
        self.flags & constants::info_directives::INFO_REQD != 0
    }

    /// Returns whether the caller cannot do without it, and it is none of those that are `served`.
    pub fn is_unserved(&self, served: &[&str]) -> bool {
        self.is_required() && !served.iter().any(|key| self.key == *key)
    }

    /// Returns whether a boolean attribute is set: the truth of its value where it has one ([`Value::truth`]).
    pub fn is_true(&self) -> bool {
        self.value.truth() == Some(true)
    }
}

/// Look-ups in a list of attributes.
///
/// ```
/// use instanton::data::{Info, InfoList, keys};
/// let list = [Info::new(keys::TIMEOUT, 5), Info::new(keys::OPTIONAL, true).required()];
/// assert_eq!(list.find(keys::TIMEOUT).and_then(|info| info.value.as_u32()), Some(5));
/// assert!(list.is_set(keys::OPTIONAL) && !list.is_set(keys::IMMEDIATE));
/// ```
pub trait InfoList {
    /// The last attribute with that key, in either spelling where there are two.
    fn find(&self, key: &str) -> Option<&Info>;

    /// Returns whether a boolean attribute is given and true.
    fn is_set(&self, key: &str) -> bool {
        self.find(key).is_some_and(Info::is_true)
    }

    /// Returns the time limit that is given (`PMIX_TIMEOUT`, seconds). `Some(None)` is one of 0, which means for ever.
    fn time_limit(&self) -> Option<Option<Duration>> {
        self.seconds(keys::TIMEOUT)
    }

    /// Returns a time limit that is given under a key, as [`time_limit`](Self::time_limit).
    fn seconds(&self, key: &str) -> Option<Option<Duration>> {
        let value = &self.find(key)?.value;
        let seconds = u64::try_from(value.as_i64()?).unwrap_or(0);
        Some((seconds > 0).then(|| Duration::from_secs(seconds.min(u64::from(u32::MAX)))))
    }
}

impl InfoList for [Info] {
    fn find(&self, key: &str) -> Option<&Info> {
        self.iter().rev().find(|info| info.key == key || info.key.as_str().is_some_and(|k| keys::canonical(k) == key))
    }
}

/// A `pmix_pdata_t`: published data and who published it.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct Pdata {
    /// The publisher.
    pub proc: Proc,
    /// Key of the data.
    pub key: Key,
    /// The value.
    #[rkyv(omit_bounds, with = Nested)]
    pub value: Value,
}

/// A `pmix_app_t`: one application of a spawn request.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct App {
    /// The program.
    pub cmd: Option<Text>,
    /// Its arguments, the program's name first.
    pub argv: Vec<Text>,
    /// `NAME=value` settings.
    pub env: Vec<Text>,
    /// Working directory.
    pub cwd: Option<Text>,
    /// Processes to start.
    pub maxprocs: i32,
    /// Attributes of this application.
    #[rkyv(omit_bounds)]
    pub info: Vec<Info>,
}

/// A `pmix_query_t`: keys asked for together and what narrows them.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct Query {
    /// Keys that are asked for.
    pub keys: Vec<Text>,
    /// Attributes that narrow the question.
    #[rkyv(omit_bounds)]
    pub qualifiers: Vec<Info>,
}

impl Query {
    /// Returns whether its qualifiers name at most one process, and none by its rank alone.
    pub fn is_sound(&self) -> bool {
        let times = |key: &str| self.qualifiers.iter().filter(|info| info.key == *key).count();
        let named = (times(keys::PROCID), times(keys::NSPACE).max(times(keys::JOBID)), times(keys::RANK));
        matches!(named, (0, 0, 0) | (1, 0, 0) | (0, 1, 0 | 1))
    }

    /// Returns the process or job that the question is about: the job of the one who asks, unless a qualifier
    /// (`PMIX_PROCID`, or `PMIX_NSPACE` or `PMIX_JOBID`, and `PMIX_RANK`) names another process or job; nobody where
    /// that is no name, or two names of a job differ.
    pub fn about(&self, asker: &Proc) -> Option<Proc> {
        let qualifier = |key| self.qualifiers.find(key).map(|info| &info.value);
        if let Some(named) = qualifier(keys::PROCID) {
            return named.as_proc().cloned();
        }
        let job = |named: &Value| match named {
            Value::ProcNspace(nspace) => Some(nspace.clone()),
            other => Nspace::new(other.as_text()?).ok(),
        };
        let nspace = match (qualifier(keys::NSPACE), qualifier(keys::JOBID)) {
            (None, None) => asker.nspace.clone(),
            (Some(named), None) | (None, Some(named)) => job(named)?,
            (Some(one), Some(other)) => job(one).filter(|nspace| job(other).as_ref() == Some(nspace))?,
        };
        let rank = match qualifier(keys::RANK) {
            None => Rank::WILDCARD,
            Some(Value::ProcRank(rank)) => *rank,
            Some(other) => Rank(other.as_u32()?),
        };
        Some(Proc::new(nspace, rank))
    }
}
