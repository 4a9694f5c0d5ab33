//! Structures that describe hardware: where in a machine or a fabric something is.
//!
//! In C a topology and a cpuset hold pointers into hwloc, which mean nothing outside the process: here they hold what
//! hwloc writes of them, and whoever speaks C turns one into the other.
use rkyv::{Archive, Deserialize, Serialize};

use super::Text;

/// A `pmix_topology_t`: a node's hardware.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Topology {
    /// Program that wrote `xml`, `hwloc:2.9.0`.
    pub source: Option<Text>,
    /// The topology as its source exports it: for hwloc, XML.
    pub xml: Option<Text>,
    /// Abilities of the source to find out and bind there, which its export leaves out: for hwloc, a byte for each.
    #[rkyv(with = super::archive::Bytes)]
    pub support: Vec<u8>,
}

/// A `pmix_cpuset_t`: processing units.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Cpuset {
    /// Library that wrote `bitmap`, `hwloc`.
    pub source: Option<Text>,
    /// The set as its source writes it: for hwloc, a list such as `0-3,8`.
    pub bitmap: Option<Text>,
}

/// A `pmix_coord_t`: a place in a fabric.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Coord {
    /// A `constants::coord_view`.
    pub view: u8,
    /// One number a dimension.
    pub coord: Vec<u32>,
}

/// A `pmix_geometry_t`: the places of a device in a fabric.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Geometry {
    /// The fabric's index.
    pub fabric: u64,
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name of it.
    pub osname: Option<Text>,
    /// Its places, one a view.
    pub coordinates: Vec<Coord>,
}

/// A `pmix_device_t`.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Device {
    /// Its identifier.
    pub uuid: Option<Text>,
    /// The operating system's name of it.
    pub osname: Option<Text>,
    /// `constants::device_type` bits.
    pub device_type: u64,
}

/// A `pmix_device_distance_t`: how far a process is from a device.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct DeviceDistance {
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name of it.
    pub osname: Option<Text>,
    /// `constants::device_type` bits.
    pub device_type: u64,
    /// From the nearest place the process may run on.
    pub mindist: u16,
    /// From the farthest.
    pub maxdist: u16,
}

/// A `pmix_endpoint_t`: an address on a fabric device.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Endpoint {
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name of it.
    pub osname: Option<Text>,
    /// The address, in the fabric's own form.
    #[rkyv(with = super::archive::Bytes)]
    pub endpt: Vec<u8>,
}

/// A `pmix_resource_unit_t`: so many of a kind of device.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct ResourceUnit {
    /// `constants::device_type` bits.
    pub device_type: u64,
    /// Number of units.
    pub count: u64,
}
