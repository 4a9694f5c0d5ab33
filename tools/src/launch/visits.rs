//! Visits: what comes by the [door](crate::persistent::door), and the door itself.
use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use instanton::data::Status;
use instanton::server::Completion;
use nix::sys::signal::{Signal, kill};

use super::running::Running;
use crate::control::{Action, Request};
use crate::persistent::door;
use crate::persistent::message::Reply;
use crate::persistent::place;
use crate::persistent::turn::Turn;
use crate::persistent::visit::{Asked, Visit};
use crate::server::Pmix;

impl Running {
    /// Opens the door of what is up, which has a name, and says so; and that of a run on several nodes.
    pub(super) fn open_door(&self, name: Option<&str>) -> Result<()> {
        let first = self.jobs.first();
        if name.is_none() && first.nodes.len() == 1 {
            return Ok(());
        }
        // Where somebody else has a file of that name, the look is a little less sure.
        let _turn = name.and_then(|_| Turn::take().ok());
        if let Some(taken) = name.and_then(place::taken) {
            bail!(taken);
        }
        let listener = place::open(first.session.top(), name.unwrap_or_default()).context("cannot open the door")?;
        door::serve(listener, self.events.clone())?;
        if let Some(name) = name {
            let (pid, slots) = (first.guardian, first.universe());
            // Nobody may read it, and need not.
            let _ = writeln!(io::stdout(), "instanton: {name} is up (process {pid}, {slots} slots)");
        }
        Ok(())
    }

    /// Does what a visitor asks for.
    pub(super) fn visit(&mut self, visit: Visit, pmix: &Pmix) {
        let Visit { way, asked } = visit;
        match asked {
            Asked::Run(call) if self.is_up => self.call(way, *call, pmix),
            Asked::Run(_) => way.answer(&Reply::Refused("it is a run, which takes no other in".to_owned())),
            Asked::Kill { job, signal } => way.answer(&reply(self.kill_job(job, signal))),
            Asked::KillNode(node) => way.answer(&reply(pmix.node_process(node).map(|pid| {
                // It is our child, and not reaped: nobody else has its number.
                let _ = kill(pid, Signal::SIGKILL);
            }))),
            Asked::Down if self.is_up => {
                way.answer(&Reply::Done);
                self.leave();
            }
            Asked::Down => way.answer(&Reply::Refused("it is a run, which ends by itself or by a signal".to_owned())),
        }
    }

    fn kill_job(&mut self, job: u32, signal: Option<i32>) -> Result<(), String> {
        let live = self.jobs.get(job).filter(|live| live.job.size() > 0);
        let all =
            live.map(|live| live.job.all()).ok_or_else(|| format!("there is no job {job}; see `instanton ps`"))?;
        let action = match signal.map(Signal::try_from) {
            None => Action::Terminate,
            Some(Ok(signal)) => Action::Signal(signal),
            Some(Err(_)) => return Err("it is no signal".to_owned()),
        };
        let done = Completion::new(|_: Result<_, Status>| ());
        self.control(Request { targets: Some(vec![all]), action, origin: None, done });
        Ok(())
    }
}

fn reply(result: Result<(), String>) -> Reply {
    result.map_or_else(Reply::Refused, |()| Reply::Done)
}
