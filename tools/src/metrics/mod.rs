//! Counters of a run in the text form of Prometheus, where `--metrics` asks for them.
//!
//! Actors: a thread answers whoever connects to a Unix socket ([serve]), or writes a file anew every few seconds
//! ([file]). Both ask the servers of all nodes for reports each time ([snapshot]), which costs each a step that looks at every process
//! once; nothing is counted that nobody asks for. A server that does not answer in time leaves its part out; a reader
//! that is slow keeps other readers waiting for a while, and nobody else. With the launcher the socket goes; one that
//! was killed leaves its file, which the next run with the same path replaces.
mod file;
mod serve;
mod snapshot;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;

use crate::nodes::servers::Servers;

/// Beginning of a destination that is a socket.
const SOCKET: &str = "unix:";

/// Destination of the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A Unix socket at this path, which answers HTTP.
    Socket(PathBuf),
    /// A file that is written anew.
    File(PathBuf),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(SOCKET) {
            Some("") => Err("unix:PATH or a file is meant".into()),
            None if text.is_empty() => Err("unix:PATH or a file is meant".into()),
            Some(path) => Ok(Destination::Socket(path.into())),
            None => Ok(Destination::File(text.into())),
        }
    }
}

/// Counters that are given out, for as long as this lives.
#[derive(Debug)]
pub struct Metrics {
    /// It is dropped first, and ends the thread.
    _end: Box<dyn Send + Sync + std::fmt::Debug>,
}

impl Metrics {
    /// Begins to give out the counters of a run's servers.
    ///
    /// # Errors
    /// A path that cannot be used.
    pub fn start(to: &Destination, servers: Servers) -> Result<Self> {
        let end: Box<dyn Send + Sync + std::fmt::Debug> = match to {
            Destination::Socket(path) => Box::new(serve::start(path, servers)?),
            Destination::File(path) => Box::new(file::start(path, servers)?),
        };
        Ok(Self { _end: end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_socket_or_a_file() {
        assert_eq!("unix:/x".parse(), Ok(Destination::Socket("/x".into())));
        assert_eq!("/x/y.prom".parse(), Ok(Destination::File("/x/y.prom".into())));
        assert!("unix:".parse::<Destination>().is_err() && "".parse::<Destination>().is_err());
    }
}
