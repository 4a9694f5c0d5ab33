//! The launcher's end of the door: one thread that lets callers in, and one for each of them.
//!
//! A caller's request becomes an [`Event`], and so do its signals and its end. A caller that says nothing holds its own
//! thread alone. One that says what nobody understands is told so and shown out.
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Result;
use nix::poll::poll;

use super::message::{self, Reply, Request};
use super::place;
use super::visit::{Asked, JobCall, Visit, Way};
use crate::args::{self, Cli, Command};
use crate::event::Event;
use crate::link;
use crate::threads::start_thread;

/// Time in milliseconds until somebody is let in again, when the system has refused that.
const RETRY: u16 = 100;
/// Time for a caller to take its answer in, which the launcher waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lets callers in, from now on.
pub fn serve(listener: UnixListener, events: Sender<Event>) -> Result<()> {
    start_thread("door", move || {
        for id in 0.. {
            match listener.accept() {
                Ok((socket, _)) => {
                    let events = events.clone();
                    // Refused a thread, the caller sees its socket close.
                    let _ = start_thread("caller", move || attend(socket, id, &events));
                }
                Err(_) => _ = poll(&mut [], RETRY),
            }
        }
    })
}

fn attend(socket: UnixStream, id: u64, events: &Sender<Event>) {
    if !place::is_own(&socket) {
        return;
    }
    let Ok(back) = socket.try_clone() else { return };
    let _ = back.set_write_timeout(Some(PATIENCE));
    let way = Way::new(id, back);
    let asked = match message::take(&socket) {
        Ok((request, descriptors)) => read(request, descriptors),
        Err(error) => Err(format!("it is not understood: {error}")),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(line) => return way.answer(&Reply::Refused(line)),
    };
    // The launcher hears nothing any more once it ends, and closes the socket.
    let _ = events.send(Event::Visit(Visit { way, asked }));
    link::each_signal(socket, |signal| drop(events.send(Event::CallerSignal(id, signal))));
    let _ = events.send(Event::CallerGone(id));
}

fn read(request: Request, descriptors: Vec<OwnedFd>) -> Result<Asked, String> {
    let mut job = match request {
        Request::Run(job) => job,
        Request::Kill { job, signal } => return Ok(Asked::Kill { job, signal }),
        Request::KillNode(node) => return Ok(Asked::KillNode(node)),
        Request::Down => return Ok(Asked::Down),
    };
    let streams = descriptors.try_into().map_err(|_| "three streams are to come with a job".to_owned())?;
    let own = ["instanton", "run"].map(OsString::from);
    let words = std::mem::take(&mut job.words).into_iter().map(OsString::from_vec);
    let read = Cli::read(own.into_iter().chain(words)).map_err(|error| args::one_line(&error, "instanton run"))?;
    let Command::Run(options) = read.command else { return Err("it is no run".to_owned()) };
    let (apps, environment) = job.take();
    let directory = OsString::from_vec(job.directory).into();
    Ok(Asked::Run(Box::new(JobCall { options: *options, apps, environment, directory, streams })))
}
