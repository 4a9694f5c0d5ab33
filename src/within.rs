//! A client of a server in the same process: how the program that embeds a server makes the calls of a client.
//!
//! Nobody connects. What the client asks goes into the server's mailbox, and the answer to the client's control thread, where callbacks run
//! as those of any client do. The server serves such requests as it does a client's: what the host answers goes to the program's own
//! [`Host`](crate::server::Host), events and output come back. Put, Commit, Get and Fence stay within the process: a server is no rank of
//! a job. When the server ends, requests fail.
use std::sync::Arc;

use crate::client::{Client, InitError};
use crate::server::Server;

impl Client {
    /// The client of the program that embeds `server`.
    ///
    /// # Errors
    /// When the system refuses memory or a thread.
    pub fn within(server: &Server) -> Result<Client, InitError> {
        let door = server.program_door();
        let client = Client::inside(server.proc(), Arc::new(door.clone()))?;
        door.open(client.ear());
        Ok(client)
    }
}
