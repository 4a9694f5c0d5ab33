//! Access to published data: who finds it, and which data of one key cannot be told apart.
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::data::{DataArray, DataRange, Info, InfoList, Proc, Status, Value, keys};
use crate::server::ctx::proc_set::ProcSet;

/// Attribute by which a host of several nodes says at which of them the caller runs (an integer), for data of
/// `RANGE_LOCAL`. Where nobody says so, all run at one.
pub const NODE: &str = "instanton.node";

/// Attributes of calls about published data. They are not published.
const ATTRIBUTES: [&str; 11] = [
    NODE,
    keys::RANGE,
    keys::PERSISTENCE,
    keys::USERID,
    keys::GRPID,
    keys::TIMEOUT,
    keys::WAIT,
    keys::EVENT_CUSTOM_RANGE,
    keys::ACCESS_PERMISSIONS,
    keys::ACCESS_USERIDS,
    keys::ACCESS_GRPIDS,
];

/// Returns whether an attribute says how data is published, and is not data itself: users' keys never begin as the
/// Standard's do. One that means nothing here is a hint.
pub fn is_directive(info: &Info) -> bool {
    info.key == NODE || info.key.is_reserved()
}

/// Refuses what a look-up or a taking back requires and nobody knows.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`.
pub fn check(info: &[Info]) -> Result<(), Status> {
    if info.iter().any(is_unserved) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// Returns whether an attribute is required, and says nothing of publishing.
pub fn is_unserved(info: &Info) -> bool {
    info.is_unserved(&ATTRIBUTES)
}

/// Rules by which published data is found.
#[derive(Clone, Debug)]
pub struct Access {
    pub publisher: Proc,
    pub range: DataRange,
    user: Option<u32>,
    node: Option<u32>,
    audience: Arc<Audience>,
}

/// Processes, users and groups that data is for. A publisher names as many as it likes, so each look-up searches, and
/// goes through none.
#[derive(Debug)]
struct Audience {
    /// Processes that a `RANGE_CUSTOM` names.
    procs: ProcSet,
    /// Users and groups that have access beside the publisher's own user.
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

/// Process that looks data up, with the user and group that the server has signed its request with.
#[derive(Debug)]
pub struct Asker {
    pub proc: Proc,
    node: Option<u32>,
    user: Option<u32>,
    group: Option<u32>,
}

impl Asker {
    /// Reads the attributes of a look-up.
    pub fn read(proc: &Proc, info: &[Info]) -> Self {
        let node = id_in(info, NODE);
        Asker { proc: proc.clone(), node, user: id_in(info, keys::USERID), group: id_in(info, keys::GRPID) }
    }
}

impl Access {
    /// Reads the attributes of a publication.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for attributes of other types or a range that is none.
    pub fn read(publisher: &Proc, info: &[Info]) -> Result<Self, Status> {
        let range = range_in(info)?.unwrap_or(DataRange::SESSION);
        let audience = Arc::new(Audience::read(range, info)?);
        let (user, node) = (id_in(info, keys::USERID), id_in(info, NODE));
        Ok(Access { publisher: publisher.clone(), range, user, node, audience })
    }

    /// Bytes of the audience. They count for each item, since each look-up of the item goes through them.
    pub fn audience_bytes(&self) -> usize {
        let Audience { procs, users, groups } = &*self.audience;
        procs.len() * size_of::<Proc>() + (users.len() + groups.len()) * size_of::<u32>()
    }

    /// Returns whether the data is for processes that the publisher names.
    pub fn is_custom(&self) -> bool {
        self.range == DataRange::CUSTOM
    }

    /// Returns whether two items of one key cannot be told apart: they are in one range, for the same user.
    pub fn conflicts_with(&self, other: &Access) -> bool {
        let is_one_place = match self.range {
            DataRange::LOCAL => self.node == other.node,
            DataRange::NAMESPACE => self.publisher.nspace == other.publisher.nspace,
            DataRange::PROC_LOCAL => self.publisher == other.publisher,
            DataRange::CUSTOM => self.audience.procs.meets(&other.audience.procs),
            _ => true,
        };
        self.range == other.range && self.user == other.user && is_one_place
    }

    /// Returns whether a process may find the data.
    pub fn admits(&self, asker: &Asker) -> bool {
        let is_within = match self.range {
            DataRange::LOCAL => asker.node == self.node,
            DataRange::NAMESPACE => asker.proc.nspace == self.publisher.nspace,
            DataRange::PROC_LOCAL => asker.proc == self.publisher,
            DataRange::CUSTOM => self.audience.procs.has(&asker.proc),
            // For the host itself.
            DataRange::RM => false,
            _ => true,
        };
        let may = |ids: &BTreeSet<u32>, id: Option<u32>| id.is_some_and(|id| ids.contains(&id));
        let Audience { users, groups, .. } = &*self.audience;
        is_within && (self.user == asker.user || may(users, asker.user) || may(groups, asker.group))
    }
}

impl Audience {
    fn read(range: DataRange, info: &[Info]) -> Result<Self, Status> {
        let procs = match range {
            DataRange::CUSTOM => {
                let custom = info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs());
                custom.ok_or(Status::ERR_BAD_PARAM)?.into_iter().collect()
            }
            _ => ProcSet::default(),
        };
        // The lists stand together in an array, or by themselves.
        let all = info.find(keys::ACCESS_PERMISSIONS).and_then(|info| info.value.as_array());
        let given: Vec<&Info> = all.into_iter().flat_map(DataArray::infos).chain(info).collect();
        let ids = |key: &str| -> Result<BTreeSet<u32>, Status> {
            let lists = given.iter().filter(|info| info.key == *key).map(|info| info.value.as_array());
            let lists = lists.collect::<Option<Vec<_>>>().ok_or(Status::ERR_BAD_PARAM)?;
            let ids = lists.into_iter().flat_map(|list| list.items()).map(Value::as_u32);
            ids.collect::<Option<BTreeSet<_>>>().ok_or(Status::ERR_BAD_PARAM)
        };
        Ok(Audience { procs, users: ids(keys::ACCESS_USERIDS)?, groups: ids(keys::ACCESS_GRPIDS)? })
    }
}

/// Returns the range that attributes name, if they do.
///
/// # Errors
/// `ERR_BAD_PARAM` for a range that is none.
pub fn range_in(info: &[Info]) -> Result<Option<DataRange>, Status> {
    match info.find(keys::RANGE).map(|info| &info.value) {
        None | Some(Value::DataRange(DataRange::UNDEF)) => Ok(None),
        Some(Value::DataRange(range)) if *range <= DataRange::PROC_LOCAL => Ok(Some(*range)),
        Some(_) => Err(Status::ERR_BAD_PARAM),
    }
}

fn id_in(info: &[Info], key: &str) -> Option<u32> {
    info.find(key)?.value.as_u32()
}
