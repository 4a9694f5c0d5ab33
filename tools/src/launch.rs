//! The launcher: starts the processes of a job, and of the jobs that those spawn, watches them, and ends with them.
//!
//! Everything that happens is an [`Event`] in one queue, and one loop acts on them ([`running`]). Their sources are the
//! [host](crate::host) (the PMIx server's thread), a thread that waits for [children](crate::children), one that reads
//! the guardian's link, and the two that forward output.
mod running;
mod start;

use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, anyhow};

use crate::args::Launch;
use crate::event::Event;
use crate::host::{Pmix, Topology};
use crate::input::Inputs;
use crate::job::Job;
use crate::record::Record;
use crate::say::say;
use crate::session::Session;
use crate::streams::Streams;
use crate::threads::start_thread;
use crate::{family, link, output, signals};
use running::Running;

/// Runs the job that the guardian was asked for. Returns the status to exit with.
pub fn run(arguments: Launch) -> Result<u8> {
    signals::give_back()?;
    // Not the guardian's name: a kill by name would end both.
    nix::sys::prctl::set_name(c"inst-launcher")?;
    let topology = Topology::ask(arguments.run.bind_to);
    let guardian = link::inherited(arguments.guardian)?;
    // Closed when this process ends, and not before: a guardian that has lost the reaper waits for that.
    let _held = guardian.0.try_clone().context("cannot hold the link to the guardian")?;
    let session = Session::named(arguments.session.clone());
    let outcome = launch(arguments, topology, session.clone(), guardian);
    family::end();
    // Reaper and guardian remove it if they are there to do so.
    let removed = session.remove();
    let code = outcome?;
    removed.context("cannot remove the session directory")?;
    Ok(code)
}

fn launch(arguments: Launch, topology: Topology, session: Session, guardian: (UnixStream, i32)) -> Result<u8> {
    family::adopt_orphans().context("cannot become a subreaper")?;
    let (events, happening) = mpsc::channel();
    let (to_queue, (link, guardian)) = (events.clone(), guardian);
    start_thread("guardian", move || {
        link::each_signal(link, |signal| drop(to_queue.send(Event::Signal(signal))));
        drop(to_queue.send(Event::GuardianGone));
    })?;

    let record = Arc::new(Record::open(session.top())?);
    let job = Job::new(arguments.run.apps(), session, guardian)?;
    start::make_room(job.size())?;
    let ((out, fed_out), (err, fed_err)) = (output::feed()?, output::feed()?);
    let streams =
        Streams { feeds: [out, err], pulls: Arc::default(), inputs: Inputs::new()?, strangers: Arc::default() };
    let mut running = Running::new(job, events, &arguments, streams);
    if let Some(programs) = running.find_programs() {
        let job = running.jobs.first();
        job.session.create_job(job.number, job.size())?;
        let (events, streams) = (running.events.clone(), running.streams.clone());
        let pmix = Pmix::start(job, topology, &arguments.run, events, record.clone(), streams)?;
        pmix.register(job, &[]).map_err(|status| anyhow!("the PMIx server refuses the job: {status}"))?;
        running.print([fed_out, fed_err])?;
        running.start_first(&programs, &pmix)?;
        running.attend(&happening, &pmix);
        pmix.finish();
        record.clear();
        running.streams.strangers.lines().iter().for_each(|line| say(line));
    }
    if let Some(line) = running.outcome.line() {
        say(&line);
    }
    Ok(running.outcome.code())
}
