//! Job control: what ranks may do to each other (`PMIx_Job_control`), and to processes of other jobs (`PMIx_Abort`).
//!
//! A process whose end is asked for in this way has not failed by ending: the other processes go on.
use instanton::data::{Info, Proc, Rank, Status, keys};
use instanton::server::{Completion, Infos};
use nix::sys::signal::Signal;

/// Action upon processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Kill them.
    Kill,
    /// Ask them to end, and kill those that have not done so after a while.
    Terminate,
    /// Send them this signal.
    Signal(Signal),
}

/// Job control that a rank asks for, and the way back.
#[derive(Debug)]
pub struct Request {
    /// Targets of the action.
    pub targets: Vec<Proc>,
    /// The action.
    pub action: Action,
    /// Answered when it is done.
    pub done: Completion<Infos>,
}

impl Request {
    /// Reads the attributes of a call; no targets are the whole namespace of the asker.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` where they name nothing that is done here, `ERR_BAD_PARAM` for a signal that is none.
    pub fn read(
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Result<Self, Status> {
        let action = directives.iter().find_map(action).unwrap_or(Err(Status::ERR_NOT_SUPPORTED))?;
        let targets = match targets {
            [] => vec![Proc::new(requestor.nspace.clone(), Rank::WILDCARD)],
            named => named.to_vec(),
        };
        Ok(Self { targets, action, done })
    }
}

impl Request {
    /// The end of processes, for a rank that asks for it by an abort.
    pub fn end(targets: Vec<Proc>, done: Completion<()>) -> Self {
        let done = Completion::new(|result: Result<Infos, Status>| done.complete(result.map(drop)));
        Self { targets, action: Action::Terminate, done }
    }
}

/// Attributes that describe the asker, and what may be done to it and how: they ask for nothing.
const SAYS: [&str; 4] = [keys::USERID, keys::GRPID, keys::JOB_CTRL_PREEMPTIBLE, keys::JOB_CTRL_CHECKPOINT_METHOD];

/// Returns whether a call wants nothing to be done.
pub fn wants_nothing(directives: &[Info]) -> bool {
    directives.iter().all(|info| SAYS.iter().any(|key| info.key == *key))
}

fn action(directive: &Info) -> Option<Result<Action, Status>> {
    let wanted = |action| directive.is_true().then_some(Ok(action));
    match directive.key.as_str()? {
        keys::JOB_CTRL_KILL => wanted(Action::Kill),
        keys::JOB_CTRL_TERMINATE => wanted(Action::Terminate),
        keys::JOB_CTRL_PAUSE => wanted(Action::Signal(Signal::SIGSTOP)),
        keys::JOB_CTRL_RESUME => wanted(Action::Signal(Signal::SIGCONT)),
        keys::JOB_CTRL_SIGNAL => {
            let signal = directive.value.as_i32().and_then(|number| Signal::try_from(number).ok());
            Some(signal.map(Action::Signal).ok_or(Status::ERR_BAD_PARAM))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Nspace;

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
        assert!(wants_nothing(&[]) && wants_nothing(&[set(keys::JOB_CTRL_PREEMPTIBLE), Info::new(keys::USERID, 0u32)]));
        assert!(!wants_nothing(&[set(keys::JOB_CTRL_PREEMPTIBLE), set(keys::JOB_CTRL_KILL)]));
    }
}
