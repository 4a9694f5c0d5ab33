//! Servers of several nodes in one process, linked by a host that carries between them what a resource manager would,
//! and peers that speak the protocol byte by byte.
mod bootstrap;
mod chaos;
mod clients;
mod death;
mod defined;
mod fences;
mod forward;
mod group_calls;
mod groups;
mod host;
mod hostile;
mod invitations;
mod jobs;
mod modex;
mod peer;
mod stock_door;
mod stock_replay;
mod trust;
