//! The plan of a job: which rank runs what, where, and how it ends.
//!
//! Everything runs on this machine, on one node unless [several](crate::nodes) are simulated. A run begins with one
//! job; its ranks may start further ones, which are numbered in the order in which they come.
mod infos;
mod placement;
mod process_set;
mod stream_options;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use instanton::data::{Info, Nspace, Proc, Rank};
use instanton::launch::{App, AppSpec};

use crate::debugger::daemons::Daemons;
use crate::debugger::stops::Stops;
use crate::files::Source;
use crate::nodes;
use crate::random;
use crate::session::Session;
use crate::survival::Survival;

pub use placement::Placement;
pub use process_set::ProcessSet;
pub use stream_options::{StreamOptions, Tags};

/// The only session's number.
pub const SESSION: u32 = 1;

/// A job on this machine.
#[derive(Debug)]
pub struct Job {
    /// Its number in the run, from 1.
    pub number: u32,
    /// Its name.
    pub nspace: Nspace,
    /// The rank that has started it, if one has.
    pub parent: Option<Proc>,
    /// Number of ranks of other jobs that come before its own where all of the run are counted.
    pub before: u32,
    /// The guardian's process id, which users and tools know the run by.
    pub guardian: i32,
    /// Prefix of the names of all jobs of the run.
    family: String,
    /// The launcher's own name, as a server.
    pub server: Nspace,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    homes: Homes,
    /// The tool that steers it, where it is the first job and there is one.
    pub steerer: Option<Proc>,
    /// Its applications in the order of their ranks.
    pub apps: Vec<App>,
    /// Its directories.
    pub session: Session,
    /// Its parent's wishes for its streams.
    pub wants: StreamOptions,
    /// The daemons of a debugger that it is, if it is that.
    pub daemons: Option<Daemons>,
    /// Places at which its ranks stop for a debugger.
    pub stops: Stops,
    /// Its rules for failures of its processes.
    pub survival: Survival,
    /// True if it is a job apart from the one that has started it.
    pub is_apart: bool,
    /// True if it goes on when that one fails.
    pub is_independent: bool,
    /// True if its processes are not to call Init.
    pub is_non_pmi: bool,
    /// True if the rank that has started it speaks PMI.
    pub speaks_pmi: bool,
    /// Information of its parent that its server is told besides.
    pub said: Vec<Info>,
    /// Ranks that were started anew, and how often.
    pub reincarnations: BTreeMap<u32, u32>,
    /// Its process sets.
    pub psets: Vec<ProcessSet>,
    /// Slots of this machine: processors that we may use, unless somebody says otherwise.
    pub slots: u32,
    /// Slots of each node where the options of the run give them.
    pub slots_of_nodes: Option<Vec<u32>>,
    /// Slots of simulated nodes: those that were given, and of all of them.
    pub simulated_slots: Simulated,
    /// Places of its ranks on the machine of their nodes.
    pub placement: Placement,
    /// Number of ranks of the run's first job.
    first_size: u32,
}

/// Slots of simulated nodes.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    /// Of each, where they were given. Others have as many as the machine.
    pub given: Option<Vec<u32>>,
    /// Of all together, where there are several nodes.
    pub all: Option<u32>,
}

/// Nodes of a job's ranks.
#[derive(Debug)]
struct Homes {
    of_rank: Vec<u32>,
    /// The ranks on each node, in order.
    on_node: Vec<Vec<u32>>,
    /// Number of ranks of other jobs that come before them on each node; none on the nodes behind the last.
    before: Vec<u32>,
}

/// Facts that all jobs of a run have in common.
struct Run {
    family: String,
    server: Nspace,
    guardian: i32,
    nodes: Vec<String>,
    session: Session,
    first_size: u32,
    slots: u32,
    simulated_slots: Simulated,
}

impl Job {
    /// Plans what was asked for, on so many nodes; `guardian` is that process's id.
    pub fn new(specs: Vec<AppSpec>, nodes: u32, session: Session, guardian: i32) -> Result<Self> {
        let node = node_name()?;
        let family = format!("instanton-{node}-{guardian}-{}", random::hex::<4>()?);
        let first_size = specs.iter().map(|spec| spec.ranks).sum();
        let run = Run {
            server: Nspace::new(format!("{family}@0"))?,
            family,
            guardian,
            nodes: nodes::names(&node, nodes),
            session,
            first_size,
            slots: processors(),
            simulated_slots: Simulated::default(),
        };
        Self::plan(run, 1, None, 0, specs)
    }

    /// Plans a further job of the same run, that a process has started.
    pub fn spawned(&self, number: u32, parent: Proc, before: u32, specs: Vec<AppSpec>) -> Result<Self> {
        self.further(number, Some(parent), before, specs)
    }

    /// Plans a further job that no process has started.
    pub fn called(&self, number: u32, before: u32, specs: Vec<AppSpec>) -> Result<Self> {
        self.further(number, None, before, specs)
    }

    fn further(&self, number: u32, parent: Option<Proc>, before: u32, specs: Vec<AppSpec>) -> Result<Self> {
        let run = Run {
            server: self.server.clone(),
            family: self.family.clone(),
            guardian: self.guardian,
            nodes: self.nodes.clone(),
            session: self.session.clone(),
            first_size: self.first_size,
            slots: self.slots,
            simulated_slots: self.simulated_slots.clone(),
        };
        Self::plan(run, number, parent, before, specs)
    }

    fn plan(run: Run, number: u32, parent: Option<Proc>, before: u32, specs: Vec<AppSpec>) -> Result<Self> {
        Ok(Self {
            number,
            nspace: Nspace::new(format!("{}@{number}", run.family))?,
            parent,
            before,
            guardian: run.guardian,
            family: run.family,
            server: run.server,
            homes: {
                let of_rank = vec![0; specs.iter().map(|spec| spec.ranks as usize).sum()];
                Homes::new(of_rank, run.nodes.len(), vec![before])
            },
            apps: App::all(specs).context("the working directory is gone; change to another, or say --wdir")?,
            nodes: run.nodes,
            session: run.session,
            steerer: None,
            wants: StreamOptions::default(),
            daemons: None,
            stops: Stops::default(),
            survival: Survival::default(),
            is_apart: false,
            is_independent: false,
            is_non_pmi: false,
            speaks_pmi: false,
            said: Vec::new(),
            reincarnations: BTreeMap::new(),
            psets: Vec::new(),
            slots: run.slots,
            slots_of_nodes: None,
            simulated_slots: run.simulated_slots,
            placement: Placement::default(),
            first_size: run.first_size,
        })
    }

    /// Returns the prefix of the names of all jobs of the run, up to the `@`.
    pub fn family(&self) -> &str {
        &self.family
    }

    /// Its programs and their arguments, as they were typed.
    pub fn command_line(&self) -> Vec<u8> {
        let words = |app: &App| {
            let all = std::iter::once(&app.spec.program).chain(&app.spec.arguments);
            all.map(|word| word.as_encoded_bytes()).collect::<Vec<_>>().join(&b' ')
        };
        self.apps.iter().map(words).collect::<Vec<_>>().join(&b" : "[..])
    }

    /// Returns the process that has started it, or steers it as if it had.
    pub fn starter(&self) -> Option<&Proc> {
        self.parent.as_ref().or(self.steerer.as_ref())
    }

    /// Returns the number of its ranks.
    pub fn size(&self) -> u32 {
        self.apps.iter().map(|app| app.spec.ranks).sum()
    }

    /// A rank's full name.
    pub fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// All its ranks in one name.
    pub fn all(&self) -> Proc {
        Proc::new(self.nspace.clone(), Rank::WILDCARD)
    }

    /// Every rank with its application, in order.
    pub fn ranks(&self) -> impl Iterator<Item = (u32, &App)> {
        self.apps.iter().flat_map(|app| app.ranks().map(move |rank| (rank, app)))
    }

    /// Seats its ranks. `before` are those of other jobs that come before them on each node.
    pub fn place(&mut self, placement: Placement, before: Vec<u32>) {
        self.homes = Homes::new(placement.spots.iter().map(|spot| spot.node).collect(), self.nodes.len(), before);
        self.placement = placement;
    }

    /// The node of each rank.
    pub fn homes(&self) -> &[u32] {
        &self.homes.of_rank
    }

    /// The node that a rank runs on.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.homes.of_rank.get(rank as usize).copied().unwrap_or(0)
    }

    /// The name of the node that a rank runs on.
    pub fn node_name(&self, rank: u32) -> &str {
        &self.nodes[self.node_of(rank) as usize]
    }

    /// The ranks on a node, in order.
    pub fn ranks_on(&self, node: u32) -> &[u32] {
        self.homes.on_node.get(node as usize).map_or(&[], Vec::as_slice)
    }

    /// The number of a rank among those of its job on its node.
    pub fn local_rank(&self, rank: u32) -> u32 {
        self.ranks_on(self.node_of(rank)).binary_search(&rank).unwrap_or(0) as u32
    }

    /// The number of ranks of other jobs that come before its own on a node.
    fn before_on(&self, node: u32) -> u32 {
        self.homes.before.get(node as usize).copied().unwrap_or(0)
    }

    /// The number of ranks on a node, with those of other jobs that come before its own.
    pub fn size_on(&self, node: u32) -> u32 {
        self.before_on(node) + self.ranks_on(node).len() as u32
    }

    /// The number of a rank among those of all jobs on its node.
    pub fn node_rank(&self, rank: u32) -> u32 {
        self.before_on(self.node_of(rank)) + self.local_rank(rank)
    }

    /// The nodes that have ranks of it: those of its `PMIX_NODE_MAP`.
    pub fn used_nodes(&self) -> Vec<u32> {
        (0..self.nodes.len() as u32).filter(|node| !self.ranks_on(*node).is_empty()).collect()
    }

    /// Makes the directories of its ranks, on each node.
    pub fn create_directories(&self) -> Result<()> {
        (0..self.nodes.len() as u32).try_for_each(|node| {
            self.session.of_node(node).create_job(self.number, self.ranks_on(node).iter().copied())
        })
    }

    /// Returns its number to those who have asked for it on a command line, to whom it is the first.
    fn own_number(&self) -> u32 {
        if self.parent.is_none() { 1 } else { self.number }
    }

    /// Returns a rank, as files for its streams are named after it.
    pub fn source(&self, rank: u32) -> Source<'_> {
        let (nspace, is_restarted) = (&self.nspace, self.reincarnation(rank) > 0);
        Source { number: self.own_number(), nspace, size: self.size(), rank, is_restarted }
    }

    /// Returns the tag of a rank's stream.
    pub fn tag(&self, tags: Tags, rank: u32, pid: u32, stream: &str) -> String {
        let (number, nspace, node) = (self.own_number(), &self.nspace, self.node_name(rank));
        match tags {
            Tags::None => String::new(),
            Tags::Rank => format!("[{rank}]<{stream}>: "),
            Tags::Short if number == 1 => format!("[{rank}]<{stream}>: "),
            Tags::Short => format!("[{number}.{rank}]<{stream}>: "),
            Tags::Full => format!("[{nspace},{rank}]<{stream}>: "),
            Tags::Detailed => format!("[{nspace},{rank}][{node}:{pid}]<{stream}>: "),
        }
    }

    /// Returns how often a rank was started anew.
    pub fn reincarnation(&self, rank: u32) -> u32 {
        self.reincarnations.get(&rank).copied().unwrap_or(0)
    }

    /// Returns the number of slots of the session, which every job of the run is told alike: the processors that we may
    /// use, on each simulated node, and as many as the first job has ranks.
    pub fn universe(&self) -> u32 {
        self.first_size.max(self.simulated_slots.all.unwrap_or(self.slots))
    }

    /// Returns the number of slots of a node.
    pub fn slots_on(&self, node: u32) -> u32 {
        let given = self.simulated_slots.given.as_ref().and_then(|given| given.get(node as usize));
        given.copied().unwrap_or(self.slots)
    }

    /// Returns whether ranks have to share processors.
    pub fn is_oversubscribed(&self) -> bool {
        self.daemons.is_none() && self.before + self.size() > self.slots
    }

    /// Returns a number of each application, as one text.
    pub fn per_app(&self, of: impl Fn(&App) -> u32, separator: &str) -> String {
        self.apps.iter().map(|app| of(app).to_string()).collect::<Vec<_>>().join(separator)
    }
}

impl Homes {
    fn new(of_rank: Vec<u32>, nodes: usize, before: Vec<u32>) -> Self {
        let mut on_node = vec![Vec::new(); nodes];
        for (&node, rank) in of_rank.iter().zip(0..) {
            on_node[node as usize].push(rank);
        }
        Self { of_rank, on_node, before }
    }
}

/// This machine's name.
///
/// # Errors
/// When it has none.
pub fn node_name() -> Result<String> {
    let name = nix::sys::utsname::uname().context("this machine has no name")?;
    Ok(name.nodename().to_string_lossy().into_owned())
}

/// Number of processors that we may use.
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}
