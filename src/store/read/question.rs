//! What can be asked of a store, and the answers that are no value.
use crate::data::{Rank, Scope};

/// A question: which key, of whom, at which level.
#[derive(Debug, Clone, Copy)]
pub struct Lookup<'a> {
    /// Whose; `WILDCARD` or `UNDEF` for the job itself. Of what processes have posted, only the server knows by key alone whose it is.
    pub rank: Rank,
    /// Which key.
    pub key: &'a [u8],
    /// At which level.
    pub level: Level<'a>,
    /// Only what was put with this scope (or GLOBAL, which includes LOCAL and REMOTE). Job information has no scope
    /// and is found in any case.
    pub scope: Option<Scope>,
    /// Which process of the job asks: its own application is meant where neither the rank nor the level names one. `UNDEF` for
    /// anybody else.
    pub asker: Rank,
}

impl<'a> Lookup<'a> {
    /// A key of a process, or of the job, without further directives.
    pub fn new(rank: Rank, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { rank, key: key.as_ref(), level: Level::Default, scope: None, asker: Rank::UNDEF }
    }
}

/// The level a key is looked up at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level<'a> {
    /// Where the rank and the key say.
    #[default]
    Default,
    /// The session with that number, else the job's own.
    Session(Option<u32>),
    /// The job.
    Job,
    /// The application with that number, whatever the rank; else the rank's, else the asker's, else the only one.
    App(Option<u32>),
    /// A node.
    Node(NodeSel<'a>),
}

/// Which node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodeSel<'a> {
    /// The one of the rank; for no rank in particular, the own one.
    #[default]
    Own,
    /// The one with that number, whatever the rank.
    Id(u32),
    /// The one with that name, whatever the rank.
    Name(&'a [u8]),
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host's job information.
    Info,
    /// A process posted it.
    Modex,
}
