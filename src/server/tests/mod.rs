//! Tests of a whole server, without socket and without a thread of its own.
mod channel_door;
mod simulator;
mod whole_server;
