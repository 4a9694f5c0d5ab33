//! Forwarding of input and output (IOF): what processes write to those who pull it, and what others push
//! into their standard input.
//!
//! **Output** ([`output`]): a client or tool asks for the output of processes with a *pull* (`PMIx_IOF_pull`).
//! The host is asked whether it may have that, forwards the output of those processes to this server from then
//! on, and is told when the pull ends (`PMIX_IOF_STOP`). Each piece that the host delivers goes to every pull of
//! that process and channel.
//!
//! **Flow** ([`stream`]): nobody else waits for a peer that does not read. A peer is sent one
//! [window](crate::message::output::WINDOW), and more as it says that it has taken that in. Output that comes meanwhile
//! waits in the cache of the pull, and is dropped as the directives of the pull say when the cache is full.
//!
//! **Backlog** ([`backlog`]): output that no pull wants is kept for a while, for pulls to come. A job that was just
//! started prints before anybody knows its name.
//!
//! **Local output** ([`local_output`]): the embedding program may also want the output written to its own
//! (`PMIX_IOF_LOCAL_OUTPUT`).
//!
//! **Input** ([`input`]): what clients and tools push (`PMIx_IOF_push`) is carried to the host, unless the
//! host has stopped the source.
pub mod backlog;
pub mod input;
pub mod local_output;
pub mod output;
pub mod stream;
