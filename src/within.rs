//! A client of a server in the same process: how the program that embeds a server makes the calls of a client.
//!
//! Nobody connects. What the client asks goes into the server's mailbox, and the answer to the client's control thread, where callbacks run
//! as those of any client do. The server serves such requests as it does a client's: what the host answers goes to the program's own
//! [`Host`](crate::server::Host), events and output come back. Put, Commit, Get and Fence stay within the process: a server is no rank of
//! a job. When the server ends, requests fail.
//!
//! A tool that has a server for what it launches asks the servers that it is attached to, and not its own. Beside its connections it has
//! such a client for what its own server has to tell: the events of the processes that it has launched.
use std::sync::Arc;

use crate::client::{Client, InitError};
use crate::server::Server;

impl Client {
    /// The client of the program that embeds `server`.
    ///
    /// # Errors
    /// When the system refuses memory or a thread.
    pub fn within(server: &Server) -> Result<Client, InitError> {
        enter(server, None)
    }

    /// The same for a tool that embeds `server`: the event handlers of `tool`, and of all its other connections, hear of the events that go through
    /// that server as well, for as long as the client lives.
    ///
    /// # Errors
    /// When the system refuses memory or a thread.
    pub fn beside(tool: &Client, server: &Server) -> Result<Client, InitError> {
        enter(server, Some(tool))
    }
}

fn enter(server: &Server, first: Option<&Client>) -> Result<Client, InitError> {
    let door = server.program_door();
    let client = Client::inside(server.proc(), Arc::new(door.clone()), first)?;
    door.open(client.ear());
    client.hear_events();
    Ok(client)
}
