//! Placement: which part of the machine each rank of a job is mapped to, and which processing units it is bound to.
//!
//! Everything here is computed from what it is given and asks the system nothing. A [`Machine`] is what hwloc has found
//! or a [synthetic](synthetic) text says. A [`Policy`] is what the [options](policy) of a run or the attributes of a
//! spawn say. [`place`] makes a [`Spot`] for each rank of both: the [seats](seats) say on which node, of which each has the
//! whole machine. A rank is *mapped* to an object of the machine, in
//! turn; it is *bound* to objects within that one, or around it. A rank that is not bound runs on every unit.
//!
//! The units that ranks of other jobs are bound to count as taken, for as long as those jobs last.
mod drawing;
mod files;
mod machine;
mod mapping;
mod policy;
mod seats;
mod synthetic;
#[cfg(test)]
mod tests;

pub use drawing::{allocation, bindings, map};
pub use files::{FileRequest, read_file};
pub use machine::{Kind, Machine};
pub use mapping::{Spot, place};
pub use policy::{Binding, Mapping, Policy};
pub use seats::Nodes;
pub use synthetic::read as synthetic_machine;
