//! Job control: what ranks may do to each other (`PMIx_Job_control`), and to processes of other jobs (`PMIx_Abort`).
//!
//! A process whose end is asked for in this way has not failed by ending: the other processes go on.
use std::time::Instant;

use instanton::data::{Info, InfoList, Proc, Rank, Status, keys};
use instanton::server::{Completion, Infos};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// Bytes of a name that a request or a checkpoint is given: the launcher keeps the one for a while, and tells processes
/// the other.
const LONGEST_NAME: usize = 4096;

/// Action upon processes.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Kill them.
    Kill,
    /// Ask them to end, and kill those that have not done so after a while.
    Terminate,
    /// Send them this signal.
    Signal(Signal),
    /// Tell them by an event that they are to write a checkpoint of this name.
    Checkpoint(Info),
    /// Spare those whose end the asker has asked for under this name, or under any, and who have not ended yet.
    Cancel(Option<String>),
}

/// Origin of a request, by which it can be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The process that asks.
    pub by: Proc,
    /// Its name for the request (`PMIX_JOB_CTRL_ID`).
    pub name: Option<String>,
}

/// Processes that were asked to end.
#[derive(Debug)]
pub struct Condemned {
    /// Time at which those that have not ended are killed.
    pub at: Instant,
    /// The processes.
    pub pids: Vec<Pid>,
    /// Origin of the request; none where it cannot be cancelled.
    pub origin: Option<Origin>,
}

impl Condemned {
    /// Returns whether a process cancels this, by its name for the request or whatever that is.
    pub fn is_cancelled(&self, by: &Proc, name: Option<&str>) -> bool {
        let is_named = |origin: &Origin| name.is_none() || origin.name.as_deref() == name;
        self.origin.as_ref().is_some_and(|origin| origin.by == *by && is_named(origin))
    }
}

/// Job control that a rank asks for, and the way back.
#[derive(Debug)]
pub struct Request {
    /// Targets of the action; none for all processes of the session.
    pub targets: Option<Vec<Proc>>,
    /// The action.
    pub action: Action,
    /// Origin of the request, where that can be cancelled, or cancels one.
    pub origin: Option<Origin>,
    /// Answered when it is done.
    pub done: Completion<Infos>,
}

impl Request {
    /// Reads the attributes of a call; no targets are the whole namespace of the asker.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` where they name nothing that is done here, `ERR_BAD_PARAM` for a signal that is none and for a
    /// name that is too long.
    pub fn read(
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Result<Self, Status> {
        let names = [keys::JOB_CTRL_ID, keys::JOB_CTRL_CHECKPOINT].map(|key| directives.find(key));
        if names.into_iter().flatten().any(|name| name.value.size() > LONGEST_NAME) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let action = match directives.find(keys::JOB_CTRL_CHECKPOINT) {
            Some(name) => checkpoint(name, directives)?,
            None => directives.iter().find_map(action).unwrap_or(Err(Status::ERR_NOT_SUPPORTED))?,
        };
        let targets = Some(match targets {
            [] => vec![Proc::new(requestor.nspace.clone(), Rank::WILDCARD)],
            named => named.to_vec(),
        });
        let name = directives.find(keys::JOB_CTRL_ID).and_then(|info| info.value.as_str()).map(str::to_owned);
        Ok(Self { targets, action, origin: Some(Origin { by: requestor.clone(), name }), done })
    }
}

impl Request {
    /// Reads the attributes of a call that controls a session (`PMIx_Session_control`).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of_session(directives: &[Info], done: Completion<Infos>) -> Result<Self, Status> {
        let action = directives.iter().find_map(session_action).unwrap_or(Err(Status::ERR_NOT_SUPPORTED))?;
        Ok(Self { targets: None, action, origin: None, done })
    }

    /// The end of processes, for a rank that asks for it by an abort.
    pub fn end(targets: Vec<Proc>, done: Completion<()>) -> Self {
        let done = Completion::new(|result: Result<Infos, Status>| done.complete(result.map(drop)));
        Self { targets: Some(targets), action: Action::Terminate, origin: None, done }
    }
}

/// Attributes that describe the asker, and what may be done to it and how: they ask for nothing.
const SAYS: [&str; 4] = [keys::USERID, keys::GRPID, keys::JOB_CTRL_PREEMPTIBLE, keys::JOB_CTRL_CHECKPOINT_METHOD];

/// Returns whether a call wants nothing to be done.
pub fn wants_nothing(directives: &[Info]) -> bool {
    directives.iter().all(|info| SAYS.iter().any(|key| info.key == *key))
}

/// Way in which processes are told to write a checkpoint: by an event, or by a signal that they have agreed on.
fn checkpoint(name: &Info, directives: &[Info]) -> Result<Action, Status> {
    let signal = directives.find(keys::JOB_CTRL_CHECKPOINT_SIGNAL);
    match directives.is_set(keys::JOB_CTRL_CHECKPOINT_EVENT) {
        true => Ok(Action::Checkpoint(Info::new(keys::JOB_CTRL_CHECKPOINT, name.value.clone()))),
        false => signal_in(signal.ok_or(Status::ERR_NOT_SUPPORTED)?),
    }
}

fn signal_in(directive: &Info) -> Result<Action, Status> {
    let signal = directive.value.as_i32().and_then(|number| Signal::try_from(number).ok());
    signal.map(Action::Signal).ok_or(Status::ERR_BAD_PARAM)
}

fn session_action(directive: &Info) -> Option<Result<Action, Status>> {
    let wanted = |action| directive.is_true().then_some(Ok(action));
    match directive.key.as_str()? {
        keys::SESSION_TERMINATE => wanted(Action::Terminate),
        keys::SESSION_PAUSE => wanted(Action::Signal(Signal::SIGSTOP)),
        keys::SESSION_RESUME => wanted(Action::Signal(Signal::SIGCONT)),
        keys::SESSION_SIGNAL => Some(signal_in(directive)),
        _ => None,
    }
}

fn action(directive: &Info) -> Option<Result<Action, Status>> {
    let wanted = |action| directive.is_true().then_some(Ok(action));
    match directive.key.as_str()? {
        keys::JOB_CTRL_KILL => wanted(Action::Kill),
        keys::JOB_CTRL_TERMINATE => wanted(Action::Terminate),
        keys::JOB_CTRL_PAUSE => wanted(Action::Signal(Signal::SIGSTOP)),
        keys::JOB_CTRL_RESUME => wanted(Action::Signal(Signal::SIGCONT)),
        keys::JOB_CTRL_SIGNAL => Some(signal_in(directive)),
        keys::JOB_CTRL_CANCEL => Some(Ok(Action::Cancel(directive.value.as_str().map(str::to_owned)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Value};

    #[test]
    fn directives_are_read() {
        let me = Proc::new(Nspace::new("job").unwrap(), Rank(1));
        let read = |directives: &[Info]| {
            Request::read(&me, &[], directives, Completion::new(|_| ())).map(|request| request.action)
        };
        let set = |key| Info::new(key, true);
        assert_eq!(read(&[Info::new(keys::JOB_CTRL_ID, "x"), set(keys::JOB_CTRL_KILL)]), Ok(Action::Kill));
        assert_eq!(read(&[set(keys::JOB_CTRL_TERMINATE)]), Ok(Action::Terminate));
        assert_eq!(read(&[set(keys::JOB_CTRL_PAUSE)]), Ok(Action::Signal(Signal::SIGSTOP)));
        assert_eq!(read(&[Info::new(keys::JOB_CTRL_SIGNAL, 10)]), Ok(Action::Signal(Signal::SIGUSR1)));
        assert_eq!(read(&[Info::new(keys::JOB_CTRL_SIGNAL, 1000)]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(read(&[Info::new(keys::JOB_CTRL_KILL, false)]), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(read(&[set(keys::JOB_CTRL_RESTART)]), Err(Status::ERR_NOT_SUPPORTED));
        let ckpt = || Info::new(keys::JOB_CTRL_CHECKPOINT, "c1");
        assert_eq!(read(&[ckpt()]), Err(Status::ERR_NOT_SUPPORTED), "nobody has said how");
        assert_eq!(read(&[ckpt(), set(keys::JOB_CTRL_CHECKPOINT_EVENT)]), Ok(Action::Checkpoint(ckpt())));
        let long = "x".repeat(2 * LONGEST_NAME);
        let named = |key| read(&[set(keys::JOB_CTRL_KILL), Info::new(key, long.as_str())]);
        assert_eq!(named(keys::JOB_CTRL_ID), Err(Status::ERR_BAD_PARAM), "it would be kept");
        assert_eq!(named(keys::JOB_CTRL_CHECKPOINT), Err(Status::ERR_BAD_PARAM), "it would be told");
        let by_signal = Info::new(keys::JOB_CTRL_CHECKPOINT_SIGNAL, 12);
        assert_eq!(read(&[by_signal, ckpt()]), Ok(Action::Signal(Signal::SIGUSR2)));
        let cancel = |name: Value| read(&[Info { value: name, ..Info::new(keys::JOB_CTRL_CANCEL, "") }]);
        assert_eq!(cancel(Value::string("x")), Ok(Action::Cancel(Some("x".into()))));
        assert_eq!(cancel(Value::String(None)), Ok(Action::Cancel(None)));
        let session = |directive| {
            Request::of_session(&[directive], Completion::new(|_| ())).map(|request| (request.targets, request.action))
        };
        assert_eq!(session(set(keys::SESSION_PAUSE)), Ok((None, Action::Signal(Signal::SIGSTOP))));
        assert_eq!(session(set(keys::SESSION_TERMINATE)), Ok((None, Action::Terminate)));
        assert_eq!(session(set(keys::SESSION_EXTEND)), Err(Status::ERR_NOT_SUPPORTED));
        let origin = Some(Origin { by: me.clone(), name: Some("x".into()) });
        let condemned = Condemned { at: Instant::now(), pids: Vec::new(), origin };
        let other = Proc::new(me.nspace.clone(), Rank(0));
        let cancels = [(&me, Some("x")), (&me, None), (&me, Some("y")), (&other, Some("x")), (&other, None)];
        assert_eq!(cancels.map(|(by, name)| condemned.is_cancelled(by, name)), [true, true, false, false, false]);
        assert!(wants_nothing(&[]) && wants_nothing(&[set(keys::JOB_CTRL_PREEMPTIBLE), Info::new(keys::USERID, 0u32)]));
        assert!(!wants_nothing(&[set(keys::JOB_CTRL_PREEMPTIBLE), set(keys::JOB_CTRL_KILL)]));
    }
}
