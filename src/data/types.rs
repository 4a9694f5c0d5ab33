use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

/// A `pmix_data_type_t`: which member of a value's union holds, or what an array's elements are.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataType(pub u16);

include!(concat!(env!("OUT_DIR"), "/types.rs"));

impl DataType {
    /// Whether a [`Value`](super::Value) can be of this type. Not so the few numbers that name no public structure:
    /// see there.
    pub fn is_supported(self) -> bool {
        self.name().is_some() && self != DataType::BUFFER && self != DataType::KVAL
    }

    /// The name in the public headers, with its prefix: `"PMIX_UINT32"`.
    pub fn name(self) -> Option<&'static str> {
        TYPE_NAMES.iter().find(|(v, _)| *v == self.0).map(|(_, n)| *n)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "data type {}", self.0),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
