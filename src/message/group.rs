//! Calls of a client about a group of processes (`PMIx_Group_*`), and the place of group members' information.
use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{DataArray, DataType, Info, Key, Nspace, Proc, Value, keys};

/// A request about the group that goes with it.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GroupCall {
    /// Meet the other members and make the group (`PMIx_Group_construct`). Answered by
    /// [`Reply::Infos`](super::Reply::Infos).
    Construct {
        /// The members: the same list at each of them. A member's place in it is its rank in the group. A leader that
        /// does not know the others names itself; who is added by a leader, nobody.
        procs: Vec<Proc>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Meet the other members and end the group (`PMIx_Group_destruct`).
    Destruct {
        /// Attributes.
        info: Vec<Info>,
    },
    /// Leave the group (`PMIx_Group_leave`).
    Leave {
        /// Attributes.
        info: Vec<Info>,
    },
    /// Invite processes into a new group that the caller leads (`PMIx_Group_invite`). Answered by
    /// [`Reply::Infos`](super::Reply::Infos) when all have accepted or were given up.
    Invite {
        /// Processes that are invited.
        procs: Vec<Proc>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Answer an invitation (`PMIx_Group_join`). Answered by [`Reply::Infos`](super::Reply::Infos): an acceptance
    /// when the group is complete.
    Join {
        /// Process that has invited; none for whoever it was.
        leader: Option<Proc>,
        /// True if the caller accepts.
        accept: bool,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Decision of the caller's handlers about an event of a group that is being made.
    Decide(Decision),
}

impl GroupCall {
    /// Returns the name of its kind, for the trace.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            GroupCall::Construct { .. } => "a group construct",
            GroupCall::Destruct { .. } => "a group destruct",
            GroupCall::Leave { .. } => "a group leave",
            GroupCall::Invite { .. } => "a group invite",
            GroupCall::Join { .. } => "a group join",
            GroupCall::Decide(_) => "a group decision",
        }
    }

    /// Returns the attributes that say how the call is to be done.
    pub(crate) fn attributes(&self) -> &[Info] {
        match self {
            GroupCall::Construct { info, .. }
            | GroupCall::Destruct { info }
            | GroupCall::Leave { info }
            | GroupCall::Invite { info, .. }
            | GroupCall::Join { info, .. } => info,
            GroupCall::Decide(_) => &[],
        }
    }
}

/// Decision that event handlers have made together.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Number of the vote that came with the event.
    pub vote: u64,
    /// Give the group up (`GROUP_CONSTRUCT_ABORT`).
    pub abort: bool,
    /// The process is the new leader (`PMIX_GROUP_LEADER`).
    pub lead: bool,
    /// Invite these instead (`PMIX_GROUP_ADD_MEMBERS`).
    pub add: Vec<Proc>,
}

/// Under which key information lies that a process has given to the group with this context id (`PMIX_GROUP_INFO`);
/// none for a key that leaves no room for it.
pub fn key_in_context(context: u64, key: &[u8]) -> Option<Key> {
    Key::new([format!("{context}@").as_bytes(), key].concat()).ok()
}

/// The answer to members of a group that has been made.
pub(crate) fn group_results(group: &Nspace, context: Option<u64>, members: &[Proc]) -> Vec<Info> {
    let context = context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)));
    let membership = Info::new(keys::GROUP_MEMBERSHIP, array_of(members.to_vec()));
    context.into_iter().chain([membership, id_of(group)]).collect()
}

/// The attribute that names a group.
pub(crate) fn id_of(group: &Nspace) -> Info {
    Info::new(keys::GROUP_ID, Value::string(group.as_bytes()))
}

/// An array of processes.
pub(crate) fn array_of(procs: Vec<Proc>) -> Value {
    let procs = procs.into_iter().map(Value::from).collect();
    DataArray::new(DataType::PROC, procs).map_or(Value::Undef, Value::DataArray)
}
