//! Servers of several nodes in one process, linked by a host that carries between them what a resource manager would, and
//! peers that speak the protocol byte by byte.
mod bootstrap;
mod clients;
mod death;
mod defined;
mod fences;
mod forward;
mod groups;
mod host;
mod hostile;
mod jobs;
mod modex;
mod peer;
