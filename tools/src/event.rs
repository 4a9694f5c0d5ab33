//! Events of a run: everything that happens to it, in one queue.
use std::io;
use std::time::Instant;

use instanton::data::{Info, Proc};
use instanton::server::Completion;
use nix::unistd::Pid;

use crate::persistent::visit::Visit;
use crate::{allocation, control, monitor, query, spawn};

/// Abort that a rank asks for, and the way back.
#[derive(Debug)]
pub struct Abort {
    /// The rank.
    pub by: Proc,
    /// The status that its job is to have.
    pub status: i32,
    /// Its words.
    pub message: String,
    /// Processes that are to end; nobody means all of its job.
    pub procs: Vec<Proc>,
    /// Answered when that is begun.
    pub done: Completion<()>,
}

/// Question or wish of a rank or tool, which the launcher answers in a moment and at its process's pace.
#[derive(Debug)]
pub struct Question {
    /// Process that asks.
    pub by: Proc,
    pub made: Instant,
    pub what: Asked,
}

/// Subject of a question, and the way back.
#[derive(Debug)]
pub enum Asked {
    /// Slots.
    Allocation(allocation::Request),
    /// Control of processes.
    Control(control::Request),
    /// Resources that processes take of this machine.
    Measure(monitor::Request),
    /// How things are.
    Query(query::Request),
}

/// Leave of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    Taken,
    /// It was lost.
    None,
}

/// Event of a run.
#[derive(Debug)]
pub enum Event {
    /// A rank has called Init.
    Initialised(Proc),
    /// A rank has called Finalize.
    Finalized(Proc),
    /// A rank waits for a debugger, at that place.
    Stopped(Proc, Option<Info>),
    /// A process attaches as a tool.
    ToolCame(Pid),
    /// A tool is gone, and has taken its leave or not.
    ToolGone(Proc, Leave),
    /// A debugger's word that ranks are to go on, those that it names or all.
    Released(Option<Vec<Proc>>),
    /// A rank asks for the end of its job.
    Abort(Abort),
    /// A rank spawns another job.
    Spawn(spawn::Request),
    /// An abort that names processes: they are to end.
    Control(control::Request),
    /// A rank asks something.
    Question(Question),
    /// A tool asks for the end of the jobs that it has started.
    AbortBy(Proc, Completion<()>),
    /// Processes have connected.
    Connected(Vec<Proc>),
    /// Processes have disconnected.
    Disconnected(Vec<Proc>),
    /// A look-up of published data waits.
    Waits,
    /// A child has ended, which is still to be taken: a rank, or an orphan that we were given.
    Ended(Pid),
    /// A rank that has ended is heard out: what it has sent before its end was told before this.
    HeardOut(Proc),
    /// No child is left.
    Childless,
    /// The user has sent a signal.
    Signal(i32),
    /// The word of the tool that has started the run to steer it: ranks are to be started.
    Begin,
    /// The tool that has started the run to steer it is gone.
    SteererGone,
    /// The guardian has died.
    GuardianGone,
    /// One of our outputs is through, or broken.
    Printed(io::Result<()>),
    /// A caller has come.
    Visit(Visit),
    /// The user of the caller with this number has sent a signal.
    CallerSignal(u64, i32),
    /// The caller with this number is gone.
    CallerGone(u64),
    /// One of the outputs of the caller with this number is through, or broken.
    CallerPrinted(u64, io::Result<()>),
    /// A file takes no more output of a rank of ours, or of the caller with this number; a line says which and why.
    FileLost(Option<u64>, String),
    /// The server has forgotten a job that is over.
    Forgotten,
}
