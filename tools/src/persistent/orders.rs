//! `instanton kill` and `instanton down`: ends of jobs, of a node, and of everything.
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use instanton::internal::sys::process;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{self, Reply, Request};
use super::place::{self, Kind, Place};
use crate::args::{Down, Kill, Target};
use crate::outcome::FAILURE;
use crate::say::say;

fn enter(target: &Target, kind: Kind) -> Result<Option<(Place, UnixStream)>> {
    match place::enter(kind, target.wanted().as_deref()) {
        Ok(found) => Ok(Some(found)),
        Err(line) => {
            // `instanton ps` shows the jobs of runs as well.
            let is_lost = kind == Kind::Up && place::launchers(kind, None).is_empty();
            say(&if is_lost { format!("{line}; a run ends by a signal, from ctrl-C or `kill`") } else { line });
            Ok(None)
        }
    }
}

/// Ends jobs, or kills a node. Returns the status to exit with: a failure if one was not there.
pub fn kill(options: &Kill) -> Result<u8> {
    let signal = options.signal.map(|signal| signal as i32);
    let requests: Vec<Request> = match options.node {
        Some(node) => vec![Request::KillNode(node)],
        None => options.jobs.iter().map(|job| Request::Kill { job: *job, signal }).collect(),
    };
    let kind = if options.node.is_some() { Kind::Any } else { Kind::Up };
    let mut code = 0;
    for request in requests {
        let Some((place, socket)) = enter(&options.target, kind)? else { return Ok(FAILURE) };
        if let Reply::Refused(line) = ask(&place, &socket, &request)? {
            say(&line);
            code = FAILURE;
        }
    }
    Ok(code)
}

/// Ends what is up, and waits until nothing of it is left. Returns the status to exit with.
pub fn down(options: &Down) -> Result<u8> {
    let Some((place, socket)) = enter(&options.target, Kind::Up)? else { return Ok(FAILURE) };
    let guardian = process::watch(place.pid);
    if let Reply::Refused(line) = ask(&place, &socket, &Request::Down)? {
        say(&line);
        return Ok(FAILURE);
    }
    // One that is not there any more has ended.
    if let Ok(guardian) = guardian {
        while poll(&mut [PollFd::new(guardian.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).is_err() {}
    }
    Ok(0)
}

/// Asks a launcher, and waits for its answer.
///
/// # Errors
/// When it ends without one.
pub fn ask(place: &Place, socket: &UnixStream, request: &Request) -> Result<Reply> {
    let heard = message::ask(socket, request, &[]).and_then(|()| message::hear(socket));
    heard.with_context(|| format!("{} does not answer", place.words()))
}
