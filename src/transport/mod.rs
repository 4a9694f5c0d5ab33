//! Transport, which doors of every protocol have in common: bytes of a connection on their way in ([`input`]) and out
//! ([`output`]), work that takes longer than a turn ([`worker`]), whose turn it is ([`turns`], [`shares`]), who
//! comes in ([`entrance`]), who has not said yet who it is ([`lobby`]), who cannot be let in for want of descriptors
//! ([`shortage`]), and what all doors of a server have in common ([`common`]).
//!
//! A door makes messages of the bytes, and knows the sockets. The memory that its peers make it hold is charged here to
//! their accounts, and bounded for each of them.
pub mod common;
pub mod entrance;
pub mod input;
pub mod lobby;
pub mod output;
pub mod shares;
mod shortage;
pub mod turns;
pub mod worker;
