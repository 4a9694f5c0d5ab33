//! The launcher: starts the processes of a job, and of the jobs that those spawn, watches them, and ends with them.
//!
//! Everything that happens is an [`Event`] in one queue, and one loop acts on them ([`running`]). Their sources are the
//! [host](crate::host) (the PMIx server's thread), a thread that waits for [children](crate::children), one that reads
//! the guardian's link, and the two that forward output.
mod caller;
mod callers;
mod debugging;
mod ending;
mod ends;
pub mod explain;
mod failures;
mod groups;
mod hang;
mod hanging;
mod pace;
pub mod placing;
mod plan;
mod questions;
mod requests;
mod running;
mod spawning;
mod stage;
mod start;
mod steered;
mod variables;
mod visits;

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock, mpsc};

use anyhow::{Context, Result, anyhow};
use instanton::internal::sys::later::keep_none_that_is_large;
use nix::sys::signal::Signal;

use crate::args::{Launch, PlacementArgs};
use crate::event::Event;
use crate::input::Inputs;
use crate::job::{self, Job, Placement};
use crate::outcome::SENSELESS;
use crate::record::{self, Record};
use crate::say::{self, say};
use crate::server::{Pmix, Topology};
use crate::session::Session;
use crate::steering::Wish;
use crate::streams::Streams;
use crate::threads::start_thread;
use crate::{family, link, output, placement, report, signals};
use plan::Plan;
use running::{FirstStart, Running};

/// Runs the job that the guardian was asked for. Returns the status to exit with.
pub fn run(arguments: Launch) -> Result<u8> {
    signals::leave_to_guardian(&arguments.run.signals)?;
    // Not the guardian's name: a kill by name would end both.
    nix::sys::prctl::set_name(c"inst-launcher")?;
    keep_none_that_is_large();
    // A command that places ranks on its parts waits for them.
    let placement = &arguments.run.placement;
    let topology =
        (placement.needs_machine() || placement.topology.is_some()).then(|| Topology::ask(placement.needs_machine()));
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

fn launch(arguments: Launch, topology: Option<Topology>, session: Session, guardian: (UnixStream, i32)) -> Result<u8> {
    family::adopt_orphans().context("cannot become a subreaper")?;
    let (events, happening) = mpsc::channel();
    let (to_queue, (link, guardian)) = (events.clone(), guardian);
    let ends: Arc<OnceLock<()>> = Arc::default();
    let is_over = ends.clone();
    start_thread("guardian", move || {
        link::each_signal(link, |signal| {
            if signal == Signal::SIGTERM as i32 {
                let _ = is_over.set(());
            }
            drop(to_queue.send(Event::Signal(signal)));
        });
        let _ = is_over.set(());
        drop(to_queue.send(Event::GuardianGone));
    })?;

    let record = Arc::new(Record::open(session.top())?);
    let run = &arguments.run;
    let known = topology.map(Topology::wait).transpose()?;
    let found = known.as_ref().and_then(Option::as_ref);
    let name = arguments.up.name.as_deref();
    let planned = match name {
        Some(_) => Ok(plan::of_nothing(arguments.up.slots)),
        None => plan::of(run, &job::node_name()?, found),
    };
    let Plan { mut specs, psets, placement, slots, seats, simulated, stops, options } = match planned {
        Ok(plan) => plan,
        Err(line) => {
            say(&line);
            return Ok(SENSELESS);
        }
    };
    if run.start.set_cwd_to_session_dir {
        specs.iter_mut().for_each(|spec| _ = spec.wdir.get_or_insert_with(|| session.top().into()));
    }
    let mut job = Job::new(specs, run.nodes.nodes, session, guardian)?;
    let wish = if name.is_none() { Wish::read() } else { None };
    if let Some(name) = wish.as_ref().and_then(Wish::name) {
        job.server = name;
    }
    (job.slots, job.slots_of_nodes, job.simulated_slots) = (slots, seats, simulated);
    job.place(placement, Vec::new());
    show(&run.placement, &job).context("cannot show the placement")?;
    if run.placement.do_not_launch {
        return Ok(0);
    }
    job.psets = psets;
    job.wants.input = run.output.stdin.target();
    job.survival = run.survival.survival();
    job.stops = stops;
    start::make_room(job.size(), job.nodes.len(), 1)?;
    let ((out, fed_out), (err, fed_err)) = (output::feed()?, output::feed()?);
    let streams = Streams {
        feeds: [out, err],
        pulls: Arc::default(),
        inputs: Inputs::new()?,
        copies: Arc::default(),
        strangers: Arc::default(),
    };
    say::begin()?;
    let mut running = Running::new(job, events, run, streams, options, record.clone(), ends);
    running.is_up = name.is_some();
    if let Some(programs) = running.find_programs() {
        let job = running.jobs.first();
        let topology = match known {
            // A machine that is not there is not the one that hwloc describes.
            Some(place) => Topology::Known(place.filter(|_| run.placement.topology.is_none())),
            // MPICH and its kin ask nobody for it, and finding it out takes longer than all else that is done here.
            None if running.starter.surely_speaks_pmi(job, &programs) => Topology::Known(None),
            None => Topology::ask(false),
        };
        running.starter.look_ahead(job, &programs);
        (1..arguments.run.nodes.nodes).try_for_each(|node| job.session.create_node(node))?;
        job.create_directories()?;
        let (events, streams) = (running.events.clone(), running.streams.clone());
        let pmix = Pmix::start(job, topology, &run.general, events, record.clone(), streams)?;
        if let Some(wish) = &wish {
            running.begin_steering(wish)?;
        }
        let job = running.jobs.first();
        if job.size() > 0 {
            pmix.introduce(job).map_err(|line| anyhow!(line))?;
        }
        if let Some(place) = &run.general.report_uri
            && let Some(address) = pmix.address(report::is_stream(place))
        {
            report::write(place, &address).context("cannot report the address")?;
        }
        running.print([fed_out, fed_err])?;
        let start = FirstStart { programs, limit: run.start.spawn_timeout, table: run.proctable().map(Into::into) };
        match &wish {
            Some(_) => running.hold(start, &pmix),
            None => running.start_first(start, &pmix)?,
        }
        running.streams.copies.serve(None)?;
        running.open_door(name)?;
        running.attend(&happening, &pmix);
        if pmix.finish() {
            record.clear();
        } else {
            // A node was lost that has not done all of it.
            record::clean_up(running.jobs.first().session.top());
        }
        running.streams.strangers.lines().iter().for_each(|line| say(line));
    }
    if let Some(line) = running.outcome.line() {
        say(&line);
    }
    say::end(running.reading_of_lines());
    Ok(running.outcome.code())
}

/// Shows what the user wants to see of the placement.
fn show(wanted: &PlacementArgs, job: &Job) -> io::Result<()> {
    let [out, err] = shown(wanted, job);
    io::stderr().write_all(err.as_bytes())?;
    io::stdout().write_all(out.as_bytes())
}

/// Texts for standard output and standard error about the placement of a job.
fn shown(wanted: &PlacementArgs, job: &Job) -> [String; 2] {
    let Job { nodes, placement: Placement { machine, spots, .. }, .. } = job;
    let machine = machine.as_deref();
    let mut out = String::new();
    if wanted.shows("allocation") {
        let slots = (0..).map(|node| job.slots_on(node));
        nodes.iter().zip(slots).for_each(|(node, slots)| out += &placement::allocation(machine, node, slots));
    }
    if wanted.shows("map") {
        let programs: Vec<_> = job.ranks().map(|(rank, app)| (rank, app.spec.program.to_string_lossy())).collect();
        out += &placement::map(spots, nodes, programs.iter().map(|(rank, program)| (*rank, &**program)));
    }
    let bindings = placement::bindings(machine, spots, nodes);
    if wanted.shows("bindings") {
        out += &bindings;
    }
    [out, if wanted.report_bindings { bindings } else { String::new() }]
}
