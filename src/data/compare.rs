//! The order of values (`PMIx_Value_compare`).
use std::cmp::Ordering;
use std::ffi::CStr;

use super::{DataArray, Info, Value, constants::value_cmp, names};

/// Relation of two values. The numbers are those of `pmix_value_cmp_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Comparison {
    /// Nothing tells them apart.
    Equal = value_cmp::EQUAL as i32,
    /// The first comes after the second.
    Value1Greater = value_cmp::VALUE1_GREATER as i32,
    /// The second comes after the first.
    Value2Greater = value_cmp::VALUE2_GREATER as i32,
    /// They are of different types.
    TypeDifferent = value_cmp::VALUE_TYPE_DIFFERENT as i32,
    /// They are of the same type but not of the same thing: arrays of different elements, places in different views.
    IncompatibleObjects = value_cmp::VALUE_INCOMPATIBLE_OBJECTS as i32,
    /// They differ, and things of this type have no order.
    NotAvailable = value_cmp::VALUE_COMPARISON_NOT_AVAIL as i32,
}

impl Comparison {
    /// Returns its text in `PMIx_Value_comparison_string`.
    pub fn text(self) -> &'static CStr {
        names::VALUE_CMP.of(self as u32)
    }
}

impl From<Ordering> for Comparison {
    fn from(order: Ordering) -> Self {
        match order {
            Ordering::Equal => Comparison::Equal,
            Ordering::Greater => Comparison::Value1Greater,
            Ordering::Less => Comparison::Value2Greater,
        }
    }
}

impl From<Option<Ordering>> for Comparison {
    fn from(order: Option<Ordering>) -> Self {
        order.map_or(Comparison::NotAvailable, Comparison::from)
    }
}

impl Value {
    /// Returns the relation of this value, the first, to another.
    ///
    /// Numbers and names have their usual order, a NULL comes before all text, a shorter array or byte object before a
    /// longer one; structures are compared field by field. Requests (APP, QUERY, PDATA) have no order.
    ///
    /// ```
    /// use instanton::data::{Comparison, Value};
    /// assert_eq!(Value::Int(3).compare(&Value::Int(2)), Comparison::Value1Greater);
    /// assert_eq!(Value::Int(3).compare(&Value::Int32(3)), Comparison::TypeDifferent);
    /// ```
    pub fn compare(&self, other: &Value) -> Comparison {
        use Value as V;
        if self.data_type() != other.data_type() {
            return Comparison::TypeDifferent;
        }
        if self == other {
            return Comparison::Equal;
        }
        match (self, other) {
            (V::Bool(a), V::Bool(b)) => a.cmp(b).into(),
            (V::String(a), V::String(b)) => a.cmp(b).into(),
            (V::Int8(a), V::Int8(b)) => a.cmp(b).into(),
            (V::Int16(a), V::Int16(b)) => a.cmp(b).into(),
            (V::Pid(a), V::Pid(b)) | (V::Int(a), V::Int(b)) | (V::Int32(a), V::Int32(b)) => a.cmp(b).into(),
            (V::Int64(a), V::Int64(b)) | (V::Time(a), V::Time(b)) => a.cmp(b).into(),
            (V::Byte(a), V::Byte(b))
            | (V::Uint8(a), V::Uint8(b))
            | (V::Persist(a), V::Persist(b))
            | (V::Command(a), V::Command(b))
            | (V::ProcState(a), V::ProcState(b))
            | (V::AllocDirective(a), V::AllocDirective(b))
            | (V::JobState(a), V::JobState(b))
            | (V::LinkState(a), V::LinkState(b))
            | (V::ResblockDirective(a), V::ResblockDirective(b))
            | (V::AllocInherit(a), V::AllocInherit(b)) => a.cmp(b).into(),
            (V::Uint16(a), V::Uint16(b))
            | (V::Loctype(a), V::Loctype(b))
            | (V::StorAccessType(a), V::StorAccessType(b)) => a.cmp(b).into(),
            (V::Uint(a), V::Uint(b)) | (V::Uint32(a), V::Uint32(b)) | (V::InfoDirectives(a), V::InfoDirectives(b)) => {
                a.cmp(b).into()
            }
            (V::Size(a), V::Size(b))
            | (V::Uint64(a), V::Uint64(b))
            | (V::Pointer(a), V::Pointer(b))
            | (V::Devtype(a), V::Devtype(b))
            | (V::StorMedium(a), V::StorMedium(b))
            | (V::StorAccess(a), V::StorAccess(b))
            | (V::StorPersist(a), V::StorPersist(b)) => a.cmp(b).into(),
            (V::Float(a), V::Float(b)) => a.partial_cmp(b).into(),
            (V::Double(a), V::Double(b)) => a.partial_cmp(b).into(),
            (V::Status(a), V::Status(b)) => a.cmp(b).into(),
            (V::Scope(a), V::Scope(b)) => a.cmp(b).into(),
            (V::DataRange(a), V::DataRange(b)) => a.cmp(b).into(),
            (V::IofChannel(a), V::IofChannel(b)) => a.cmp(b).into(),
            (V::DataType(a), V::DataType(b)) => a.cmp(b).into(),
            (V::ProcRank(a), V::ProcRank(b)) => a.cmp(b).into(),
            (V::Proc(a), V::Proc(b)) => a.cmp(b).into(),
            (V::ProcNspace(a), V::ProcNspace(b)) => a.cmp(b).into(),
            (V::ByteObject(a), V::ByteObject(b))
            | (V::Regex(a), V::Regex(b))
            | (V::CompressedString(a), V::CompressedString(b))
            | (V::CompressedByteObject(a), V::CompressedByteObject(b))
            | (V::DataBuffer(a), V::DataBuffer(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)).into(),
            (V::Value(a), V::Value(b)) => inside(a, b),
            (V::Info(a), V::Info(b)) => compare_infos(a, b),
            (V::DataArray(a), V::DataArray(b)) => compare_arrays(a, b),
            (V::Timeval(a), V::Timeval(b)) => a.partial_cmp(b).into(),
            (V::Envar(a), V::Envar(b)) => a.partial_cmp(b).into(),
            (V::ProcInfo(a), V::ProcInfo(b)) => a.partial_cmp(b).into(),
            (V::Regattr(a), V::Regattr(b)) => a.partial_cmp(b).into(),
            (V::Coord(a), V::Coord(b)) if a.view != b.view => Comparison::IncompatibleObjects,
            (V::Coord(a), V::Coord(b)) => a.partial_cmp(b).into(),
            (V::Geometry(a), V::Geometry(b)) if a.fabric != b.fabric => Comparison::IncompatibleObjects,
            (V::Geometry(a), V::Geometry(b)) => a.partial_cmp(b).into(),
            (V::ProcCpuset(a), V::ProcCpuset(b)) if a.source != b.source => Comparison::IncompatibleObjects,
            (V::ProcCpuset(a), V::ProcCpuset(b)) => a.partial_cmp(b).into(),
            (V::Device(a), V::Device(b)) => a.partial_cmp(b).into(),
            (V::DeviceDist(a), V::DeviceDist(b)) => a.partial_cmp(b).into(),
            (V::Endpoint(a), V::Endpoint(b)) => a.partial_cmp(b).into(),
            (V::ProcStats(a), V::ProcStats(b)) => a.partial_cmp(b).into(),
            (V::DiskStats(a), V::DiskStats(b)) => a.partial_cmp(b).into(),
            (V::NetStats(a), V::NetStats(b)) => a.partial_cmp(b).into(),
            (V::NodeStats(a), V::NodeStats(b)) => a.partial_cmp(b).into(),
            (V::ResourceUnit(a), V::ResourceUnit(b)) if a.device_type != b.device_type => {
                Comparison::IncompatibleObjects
            }
            (V::ResourceUnit(a), V::ResourceUnit(b)) => a.partial_cmp(b).into(),
            (V::NodePid(a), V::NodePid(b)) => a.partial_cmp(b).into(),
            (V::Regex2(a), V::Regex2(b)) => a.partial_cmp(b).into(),
            _ => Comparison::NotAvailable,
        }
    }
}

/// Of two things of the same type what is inside may differ in type.
fn inside(a: &Value, b: &Value) -> Comparison {
    match a.compare(b) {
        Comparison::TypeDifferent => Comparison::IncompatibleObjects,
        other => other,
    }
}

fn compare_infos(a: &Info, b: &Info) -> Comparison {
    match a.key.cmp(&b.key) {
        Ordering::Equal => inside(&a.value, &b.value),
        order => order.into(),
    }
}

fn compare_arrays(a: &DataArray, b: &DataArray) -> Comparison {
    if a.data_type() != b.data_type() {
        return Comparison::TypeDifferent;
    }
    if a.len() != b.len() {
        return a.len().cmp(&b.len()).into();
    }
    let mut pairs = a.items().iter().zip(b.items()).map(|(a, b)| inside(a, b));
    pairs.find(|relation| *relation != Comparison::Equal).unwrap_or(Comparison::Equal)
}
