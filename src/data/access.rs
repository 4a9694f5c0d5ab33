//! Making values out of Rust's own types, and looking into them.
use super::{DataArray, DataType, Info, Proc, Rank, Status, Text, Value};

impl Value {
    /// A string value from text without NULs.
    ///
    /// # Panics
    /// When `text` has a NUL; use [`Text::new`] for text that comes from outside.
    pub fn string(text: impl AsRef<[u8]>) -> Self {
        Value::String(Some(Text::new(text).expect("text without a NUL")))
    }

    /// An array of attributes.
    pub fn infos(items: Vec<Info>) -> Self {
        Value::DataArray(DataArray::of_info(items))
    }

    /// The truth of a BOOL; see [`Value::truth`] for everything that can be meant as one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The bytes of a string, without a NUL; `None` for a NULL too.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Value::String(text) => text.as_ref(),
            _ => None,
        }
    }

    /// A string, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.as_text()?.as_str()
    }

    /// The bytes of everything that is no more than bytes: strings and namespaces (without a NUL), byte objects, map
    /// expressions, compressed data, buffers.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::String(Some(text)) => Some(text.as_bytes()),
            Value::ProcNspace(nspace) => Some(nspace.as_bytes()),
            Value::ByteObject(bytes)
            | Value::Regex(bytes)
            | Value::CompressedString(bytes)
            | Value::CompressedByteObject(bytes)
            | Value::DataBuffer(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A process.
    pub fn as_proc(&self) -> Option<&Proc> {
        match self {
            Value::Proc(proc) => Some(proc),
            _ => None,
        }
    }

    /// The processes that this names: one, or an array of them; none for anything else.
    pub fn as_procs(&self) -> Option<Vec<Proc>> {
        match self {
            Value::Proc(proc) => Some(vec![proc.clone()]),
            Value::DataArray(array) => array.items().iter().map(|item| item.as_proc().cloned()).collect(),
            _ => None,
        }
    }

    /// Returns whether a process is among those that this chooses of a job: all, by true; one, by its name or its rank;
    /// or a list of such.
    pub fn chooses(&self, proc: &Proc) -> bool {
        match self {
            Value::Bool(all) => *all,
            Value::Proc(chosen) => chosen.matches(proc),
            Value::DataArray(list) => list.items().iter().any(|chosen| chosen.chooses(proc)),
            other => other.as_rank().is_some_and(|rank| rank == Rank::WILDCARD || rank == proc.rank),
        }
    }

    /// A rank: of a PROC_RANK, or any number that can be one.
    pub fn as_rank(&self) -> Option<Rank> {
        self.as_u32().map(Rank)
    }

    /// A status: of a STATUS, or any number that can be one.
    pub fn as_status(&self) -> Option<Status> {
        self.as_i32().map(Status)
    }

    /// An array.
    pub fn as_array(&self) -> Option<&DataArray> {
        match self {
            Value::DataArray(array) => Some(array),
            _ => None,
        }
    }
}

macro_rules! numbers {
    ($($name:ident: $ty:ty = $data_type:ident($variant:ident);)*) => {
        impl Value {
            $(
                /// The number that any numeric value holds, if it can be had unchanged as this type.
                pub fn $name(&self) -> Option<$ty> {
                    match self.to_number(DataType::$data_type) {
                        Ok(Value::$variant(number)) if !self.has_fraction() => Some(number),
                        _ => None,
                    }
                }
            )*
        }
    };
}

numbers! {
    as_u16: u16 = UINT16(Uint16);
    as_u32: u32 = UINT32(Uint32);
    as_u64: u64 = UINT64(Uint64);
    as_i32: i32 = INT32(Int32);
    as_i64: i64 = INT64(Int64);
}

impl Value {
    /// The number that any numeric value holds, as near as this type comes.
    pub fn as_f64(&self) -> Option<f64> {
        match self.to_number(DataType::DOUBLE) {
            Ok(Value::Double(number)) => Some(number),
            _ => None,
        }
    }

    fn has_fraction(&self) -> bool {
        match self {
            Value::Float(number) => number.fract() != 0.0,
            Value::Double(number) => number.fract() != 0.0,
            _ => false,
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident),* $(,)?) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Value::$variant(value)
            }
        })*
    };
}
from!(bool => Bool, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16, u32 => Uint32,
    u64 => Uint64, f32 => Float, f64 => Double, Status => Status, Proc => Proc, Rank => ProcRank, DataArray => DataArray,
    Vec<u8> => ByteObject, super::Timeval => Timeval, super::Envar => Envar, super::Nspace => ProcNspace,
    DataType => DataType, super::Scope => Scope, super::DataRange => DataRange, super::Channels => IofChannel,
    super::Coord => Coord, super::Cpuset => ProcCpuset,
    super::NodePid => NodePid, super::ResourceUnit => ResourceUnit);

macro_rules! from_boxed {
    ($($ty:ident => $variant:ident),* $(,)?) => {
        $(impl From<super::$ty> for Value {
            fn from(value: super::$ty) -> Self {
                Value::$variant(Box::new(value))
            }
        })*
    };
}
from_boxed!(App => App, Topology => Topo, Info => Info, Pdata => Pdata, Query => Query, ProcInfo => ProcInfo, RegAttr => Regattr,
    Geometry => Geometry, DeviceDistance => DeviceDist, Device => Device, Endpoint => Endpoint, Regex2 => Regex2,
    ProcStats => ProcStats, DiskStats => DiskStats, NetStats => NetStats, NodeStats => NodeStats);

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Value::String(Some(text))
    }
}

impl From<&str> for Value {
    /// # Panics
    /// When the text has a NUL, see [`Value::string`].
    fn from(text: &str) -> Self {
        Value::string(text)
    }
}

impl From<String> for Value {
    /// # Panics
    /// When the text has a NUL, see [`Value::string`].
    fn from(text: String) -> Self {
        Value::string(text)
    }
}

impl From<Option<Text>> for Value {
    fn from(text: Option<Text>) -> Self {
        Value::String(text)
    }
}

impl From<usize> for Value {
    fn from(size: usize) -> Self {
        Value::Size(size as u64)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Value::ByteObject(bytes.to_vec())
    }
}

impl From<Vec<Info>> for Value {
    fn from(items: Vec<Info>) -> Self {
        Value::infos(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Nspace;

    #[test]
    fn processes_are_chosen_in_several_ways() {
        let me = Proc::new(Nspace::new("job@1").unwrap(), Rank(2));
        let all = Proc::new(me.nspace.clone(), Rank::WILDCARD);
        let ranks = |ranks: &[u32]| Value::DataArray(DataArray::of(ranks.iter().map(|rank| Rank(*rank))));
        for who in [true.into(), Rank(2).into(), Rank::WILDCARD.into(), Value::Uint32(2), all.into(), ranks(&[0, 2])] {
            assert!(who.chooses(&me), "{who:?}");
        }
        let other = Proc::new(Nspace::new("job@2").unwrap(), Rank(2));
        for who in [false.into(), Rank(0).into(), other.into(), ranks(&[0, 1]), Value::from("2")] {
            assert!(!who.chooses(&me), "{who:?}");
        }
    }
}
