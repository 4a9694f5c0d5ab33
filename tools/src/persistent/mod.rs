//! The persistent mode: `instanton up` holds a PMIx server and slots, and `instanton run --in` starts jobs there.
//!
//! Actors: `instanton up` is the four processes of a run (guardian, watcher, reaper, launcher) whose first job has no
//! ranks. Its launcher has a [door](door): a socket in the session directory. *Callers* come in by it: a
//! [run](mod@run) hands over its words, its environment, its directory and its three streams, and waits for the status
//! of its job; [orders] look at jobs and end them. The words of the two ends are a [message], and a [visit] once it is
//! read; [place] is the way to a door, and who comes up waits for its [turn].
//!
//! There is one user, and no queue: a job that does not fit into the free slots is refused. To its caller a job is a run
//! of its own; to other jobs it is one of the same session, with which it shares published data.
//!
//! A caller that dies takes its job with it, and so does a launcher: its callers see their sockets close. `up` ends as
//! every run does, whichever of its processes are killed.
pub mod door;
pub mod message;
pub mod orders;
pub mod place;
pub mod run;
pub mod turn;
pub mod up;
pub mod visit;
