//! The Standard's data model: values and their types, names, keys, status codes.
//!
//! A [`Value`] is what a key holds, an [`Info`] a key with one, a [`DataArray`] many values of one type. They become
//! bytes and come back in [`archive`] alone, which trusts no peer. [`maps`] reads and writes the expressions that say
//! where a job runs; [`names`] and [`keys`] have the texts. Numbers and names come from the tables in `tables/`, turned
//! into constants when the crate is built.
//!
//! Nothing here shares state, blocks or knows of other processes.

mod access;
#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
pub mod archive;
mod array;
mod bytes;
mod channels;
mod compare;
mod display;
mod hardware;
pub(crate) mod have;
mod info;
pub mod keys;
mod load;
pub mod locality;
pub mod maps;
pub mod names;
mod number;
mod posted;
mod range;
mod rank_set;
mod records;
mod scalar;
mod scope;
mod size;
mod stats;
mod status;
#[cfg(test)]
mod tests;
mod texts;
mod types;
mod value;
mod waiting;

/// Every other integer constant of the Standard, one module a group (`constants::persistence::PERSIST_APP`).
pub mod constants {
    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}

pub use array::{ArchivedDataArray, DataArray};
pub use bytes::{BadBytes, Key, Nspace, Text};
pub use channels::Channels;
pub use compare::Comparison;
pub use hardware::{Coord, Cpuset, Device, DeviceDistance, Endpoint, Geometry, ResourceUnit, Topology};
pub use info::{App, ArchivedInfo, Info, InfoList, Pdata, Proc, Query, Rank};
pub use load::{JobLoad, LOAD, Load, SharedLoad};
pub use number::{NumberError, decimal};
pub use posted::Posted;
pub use range::DataRange;
pub use rank_set::{NoRankSet, RankSet};
pub use records::{Envar, NodePid, ProcInfo, RegAttr, Regex2, Timeval};
pub use scope::Scope;
pub use stats::{DiskStats, NetStats, NodeStats, ProcStats, Real};
pub use status::Status;
pub use types::DataType;
pub use value::{ArchivedValue, Value};
pub use waiting::{Activity, WAITING, WATCH, WaitReport, Waiting};
