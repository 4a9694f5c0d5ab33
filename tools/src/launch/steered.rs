//! A run that a tool [steers](crate::steering): its first job takes the tool's directives, and starts at the tool's word.
use std::time::Instant;

use anyhow::{Result, bail};
use instanton::data::{Info, InfoList, Status, Value, keys};
use instanton::launch::{TimeLimits, environment};

use super::running::{FirstStart, Running};
use crate::debugger::stops::{self, Stops};
use crate::job::StreamOptions;
use crate::server::Pmix;
use crate::spawn;
use crate::steering::{Steering, Wish};
use crate::survival::Survival;
use crate::ties::Tells;

/// Keys of survival: a tool that says one overrules all that the command line says of it.
const OF_SURVIVAL: [&str; 3] = [keys::JOB_CONTINUOUS, keys::JOB_RECOVERABLE, keys::MAX_RESTARTS];

impl Running {
    /// Goes to the tool, and does as it wants with the first job.
    ///
    /// # Errors
    /// When the tool is not there, or wants what cannot be.
    pub(super) fn begin_steering(&mut self, wish: &Wish) -> Result<()> {
        self.steering = Steering::begin(wish, &self.events)?;
        let Some(steering) = &self.steering else { return Ok(()) };
        let infos = &steering.directives;
        let served = spawn::served();
        if let Some(info) = infos.iter().find(|info| info.is_unserved(&served)) {
            bail!("the tool requires {} of the job, which is not served", info.key);
        }
        let wrong = |what: &str, status| anyhow::anyhow!("what the tool says of {what} makes no sense: {status}");
        let limits = TimeLimits::read(infos).map_err(|status| wrong("time limits", status))?;
        let stops = Stops::read(infos, &[]).map_err(|status| wrong("places to stop at", status))?;
        let survival = Survival::read(infos).map_err(|status| wrong("failures", status))?;
        let survives = infos.iter().any(|info| OF_SURVIVAL.iter().any(|key| info.key == *key));
        self.jobs.steer(steering.tool(), Tells::read(infos), |job| {
            // Its ranks read what the tool pushes.
            let wants = spawn::wants(infos);
            job.wants = StreamOptions { input: wants.input.or(job.wants.input), ..wants };
            if stops::KEYS.iter().any(|key| infos.find(key).is_some()) {
                job.stops = stops;
            }
            if survives {
                job.survival = survival;
            }
            job.said.extend(environment(infos, &[]));
        });
        self.steered_limits = limits;
        self.starter.steerer = Some(steering.tool().clone());
        Ok(())
    }

    /// Has the first job wait for a tool's word.
    pub(super) fn hold(&mut self, start: FirstStart, pmix: &Pmix) {
        let limit = self.steered_limits.start.or(start.limit);
        self.held = Some(FirstStart { limit, ..start });
        self.tell_tools(Status::LAUNCHER_READY, pmix.address(true).map(|uri| Info::new(keys::SERVER_URI, &*uri)), pmix);
    }

    /// The tool's word has come.
    pub(super) fn start_held(&mut self, pmix: &Pmix) {
        let Some(start) = self.held.take() else { return };
        let first = self.jobs.first();
        let (number, name) = (first.number, Value::string(&first.nspace));
        if let Err(error) = self.start_first(start, pmix) {
            self.outcome.broken(format!("{error:#}"));
        }
        if self.outcome.is_decided() {
            return;
        }
        let limit = self.steered_limits.run.map(|limit| (Instant::now() + limit, number));
        self.limits.extend(limit);
        if let Some(live) = self.jobs.get(number).filter(|live| live.tells.job_events) {
            pmix.job_started(&live.job);
        }
        self.tell_tools(Status::LAUNCH_COMPLETE, Some(Info::new(keys::NSPACE, name)), pmix);
    }

    /// A job that waits for a tool's word is not to begin any more: what there is ends as after a start that has failed.
    pub(super) fn give_up_held(&mut self) {
        if self.held.take().is_some() {
            self.watch_again();
        }
    }

    /// The tool is gone, and the run with it.
    pub(super) fn steerer_gone(&mut self) {
        self.outcome.broken("the tool that has started this run is gone; the run was ended".to_owned());
    }

    /// The tool that steers the run is told something of it; without one, every tool that is attached.
    fn tell_tools(&self, status: Status, more: Option<Info>, pmix: &Pmix) {
        match &self.steering {
            Some(steering) => steering.tell(status, more),
            None => pmix.tell_tools(status, more),
        }
    }
}
