//! Audience of an event: the processes that its range names.
use super::event::Event;
use super::proc_set::ProcSet;
use crate::data::{DataRange, Info, InfoList, Nspace, Proc, Status, keys};

/// Processes that an event is for.
#[derive(Debug)]
pub enum Audience {
    /// All of this node.
    Node,
    /// All of a namespace.
    Namespace(Nspace),
    /// Processes that the event names.
    Procs(ProcSet),
    Everybody,
    HostAlone,
}

impl Audience {
    /// Returns the audience of an event that `source` raises with these attributes.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a range that reaches nobody: an unknown one, one of the process alone, or one that should
    /// name processes and does not.
    pub fn new(range: DataRange, source: &Proc, info: &[Info]) -> Result<Self, Status> {
        Ok(match range {
            DataRange::LOCAL => Audience::Node,
            DataRange::NAMESPACE => Audience::Namespace(source.nspace.clone()),
            DataRange::UNDEF | DataRange::SESSION | DataRange::GLOBAL => Audience::Everybody,
            DataRange::RM => Audience::HostAlone,
            DataRange::CUSTOM => Audience::Procs(custom(info).ok_or(Status::ERR_BAD_PARAM)?),
            // PROC_LOCAL never leaves its process.
            _ => return Err(Status::ERR_BAD_PARAM),
        })
    }

    /// Returns the audience of an event.
    ///
    /// # Errors
    /// As [`new`](Audience::new).
    pub fn of(event: &Event) -> Result<Self, Status> {
        Audience::new(event.range, &event.source, &event.info)
    }

    /// Returns whether a process of this node is among them.
    pub fn has(&self, proc: &Proc) -> bool {
        match self {
            Audience::Node | Audience::Everybody => true,
            Audience::Namespace(of) => *of == proc.nspace,
            Audience::Procs(procs) => procs.has(proc),
            Audience::HostAlone => false,
        }
    }
}

fn custom(info: &[Info]) -> Option<ProcSet> {
    Some(info.find(keys::EVENT_CUSTOM_RANGE)?.value.as_procs()?.into_iter().collect())
}
