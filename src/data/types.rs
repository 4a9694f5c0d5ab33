//! Data types.
use std::ffi::{CStr, c_char};
use std::fmt;

use rkyv::{Archive, Deserialize, Serialize};

use super::texts;

/// A `pmix_data_type_t`: which member of a value's union holds, or what an array's elements are.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataType(pub u16);

include!(concat!(env!("OUT_DIR"), "/types.rs"));

impl DataType {
    /// Returns whether a [`Value`](super::Value) can be of this type. Not so the few numbers that name no
    /// public structure: see there.
    pub fn is_supported(self) -> bool {
        self.name().is_some() && self != DataType::BUFFER && self != DataType::KVAL
    }

    /// The name in the public headers, with its prefix: `"PMIX_UINT32"`.
    pub fn name(self) -> Option<&'static str> {
        self.c_name()?.to_str().ok()
    }

    /// Returns its text in `PMIx_Data_type_string`: the name, or that there is none. UNDEF is no type to it.
    pub fn text(self) -> &'static CStr {
        self.c_name().filter(|_| self != DataType::UNDEF).unwrap_or(c"NOT INITIALIZED")
    }

    /// The type with this name, `"PMIX_UINT32"`.
    pub fn from_name(name: &str) -> Option<DataType> {
        TYPES.iter().find(|(_, at, _)| texts::text(*at) == name).map(|(number, ..)| DataType(*number))
    }

    /// Bytes that one of it takes in C, on a 64-bit machine: of a value, what its union holds or points to. 0
    /// where there is no such thing.
    pub fn c_size(self) -> usize {
        TYPES.iter().find(|(number, ..)| *number == self.0).map_or(0, |(_, _, size)| usize::from(*size))
    }

    /// Returns [`text`](DataType::text) for C; nothing for what is no type.
    #[inline]
    pub fn pointer(self) -> Option<*const c_char> {
        self.at().filter(|_| self != DataType::UNDEF).map(texts::pointer)
    }

    fn c_name(self) -> Option<&'static CStr> {
        self.at().map(texts::c_text)
    }

    #[inline]
    fn at(self) -> Option<u16> {
        /// 0 where there is no such type.
        static BY_NUMBER: [u16; 128] = {
            let mut names = [0; 128];
            let mut row = 0;
            while row < TYPES.len() {
                let (number, at, _) = TYPES[row];
                // A type that had no room here would not compile.
                names[number as usize] = at;
                row += 1;
            }
            names
        };
        BY_NUMBER.get(usize::from(self.0)).copied().filter(|at| *at != 0)
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
