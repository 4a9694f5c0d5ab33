//! Debuggers: processes that wait for one, and the daemons that it has beside them.
//!
//! Actors: the *debugger* is a tool, which starts a job or attaches to a run, and whatever it starts; a *rank* stops for
//! it at one of three [places](stops); *daemons* are jobs that a debugger starts [beside](daemons) the ranks that it
//! looks into. The launcher tells the debugger of each rank that has stopped, by an event (`PMIX_READY_FOR_DEBUG`).
//!
//! A rank that was stopped **on exec** is stopped as by a SIGSTOP, and goes on with a SIGCONT: from the debugger that
//! has attached to it, or from the launcher at the debugger's word (`PMIX_DEBUGGER_RELEASE`, or job control that
//! resumes). One that stops **in Init** or **in the application** waits for that event itself.
//!
//! A debugger that is gone releases what it has started: the ranks of its jobs that wait still go on without it. Ranks
//! of a job that no process has started wait for the next debugger when one has taken its leave, and go on when a tool
//! was lost, which may have been theirs. A rank that is killed while it waits has failed as any other; whoever ends a run
//! ends what is stopped, too.
pub mod daemons;
pub mod options;
pub mod ranks;
pub mod stops;
pub mod table;
