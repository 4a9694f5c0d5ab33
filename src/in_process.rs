//! In-process client: the program that embeds a server makes the calls of a client through it.
//!
//! No connection is made. A request goes into the server's mailbox, and its reply to the client's control thread, where
//! callbacks run as those of any client do. The server serves such requests as it does a client's: what the host
//! answers goes to the program's own [`Host`](crate::server::Host), events and output come back. Put, Commit, Get and
//! Fence stay within the process: a server is no rank of a job. When the server ends, requests fail.
//!
//! A tool with a server for the processes that it launches sends its requests to the servers that it is attached
//! to, not to its own. Beside its connections it has an in-process client, which brings it the events of the
//! processes that it has launched.
use std::sync::Arc;

use crate::client::{Client, InitError};
use crate::server::Server;

impl Client {
    /// Makes the client of the program that embeds `server`.
    ///
    /// # Errors
    /// When the system refuses memory or a thread.
    pub fn in_process(server: &Server) -> Result<Client, InitError> {
        enter(server, None)
    }

    /// Makes the client of a tool that embeds `server`: the event handlers of `tool`, and of all its other connections,
    /// receive the events that go through that server as well, for as long as the client lives.
    ///
    /// # Errors
    /// When the system refuses memory or a thread.
    pub fn in_process_of_tool(tool: &Client, server: &Server) -> Result<Client, InitError> {
        enter(server, Some(tool))
    }
}

fn enter(server: &Server, first: Option<&Client>) -> Result<Client, InitError> {
    let door = server.program_door();
    let client = Client::connect_in_process(server.proc(), Arc::new(door.clone()), first)?;
    door.open(client.delivery_handler());
    client.hear_events();
    Ok(client)
}
