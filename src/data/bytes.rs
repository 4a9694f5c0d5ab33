//! The three kinds of names and text that C hands over as NUL-terminated bytes. None of them is promised to be UTF-8.
use std::borrow::Borrow;
use std::fmt;

use rkyv::rancor::{Fallible, Source};
use rkyv::{Archive, Deserialize, Serialize};

/// Bytes that cannot be the name or text they were offered as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadBytes {
    /// C could not represent the rest.
    #[error("{what} has a NUL at byte {at}")]
    Nul {
        /// Kind of text that the bytes were to be.
        what: &'static str,
        /// Offset of the NUL.
        at: usize,
    },
    /// Longer than the Standard allows.
    #[error("{what} of {len} bytes; {max} are allowed")]
    Length {
        /// Kind of text that the bytes were to be.
        what: &'static str,
        /// Bytes offered.
        len: usize,
        /// Most allowed.
        max: usize,
    },
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Archive, Serialize, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Vec<u8>);

        // By hand, because an archive comes from a peer: its bytes are checked like any others.
        impl<D: Fallible + ?Sized> Deserialize<$name, D> for rkyv::Archived<$name>
        where
            D::Error: Source,
        {
            fn deserialize(&self, _: &mut D) -> Result<$name, D::Error> {
                $name::new(self.0.as_slice()).map_err(D::Error::new)
            }
        }

        impl $name {
            /// Most bytes it may have, without the NUL that C adds.
            pub const MAX: usize = $max;

            /// Checks length and the absence of NULs.
            ///
            /// # Errors
            /// [`BadBytes`] says what is wrong with them.
            pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, BadBytes> {
                Self::within(bytes.as_ref())
            }

            #[inline(never)]
            fn within(bytes: &[u8]) -> Result<Self, BadBytes> {
                if bytes.len() > Self::MAX {
                    return Err(BadBytes::Length { what: $what, len: bytes.len(), max: Self::MAX });
                }
                // Compares a word at a time, which `position` does not.
                if bytes.contains(&0) {
                    let at = bytes.iter().take_while(|b| **b != 0).count();
                    return Err(BadBytes::Nul { what: $what, at });
                }
                Ok(Self(bytes.to_vec()))
            }

            /// The bytes, without a NUL.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// Returns the number of its bytes, without a NUL.
            pub fn len(&self) -> usize {
                self.0.len()
            }

            /// Returns whether it has none.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// The text, if it is UTF-8.
            pub fn as_str(&self) -> Option<&str> {
                std::str::from_utf8(&self.0).ok()
            }

            /// The text where it is UTF-8, with replacement characters where it is not.
            pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
                String::from_utf8_lossy(&self.0)
            }
        }

        impl AsRef<[u8]> for rkyv::Archived<$name> {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl Borrow<[u8]> for $name {
            fn borrow(&self) -> &[u8] {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other.as_bytes()
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == other.as_bytes()
            }
        }

        impl TryFrom<&str> for $name {
            type Error = BadBytes;
            fn try_from(text: &str) -> Result<Self, BadBytes> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_string_lossy())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.to_string_lossy())
            }
        }
    };
}

name! {
    /// A key: at most 511 bytes (`PMIX_MAX_KEYLEN`). Keys that begin with `pmix` are the Standard's; the empty one is
    /// that of an attribute that was constructed and never named, and a key like any other.
    Key, "a key", 511
}
name! {
    /// A namespace: at most 255 bytes (`PMIX_MAX_NSLEN`). The empty one stands for "not given".
    Nspace, "a namespace", 255
}
name! {
    /// A C string of any length.
    Text, "a string", usize::MAX
}

impl Key {
    /// Returns whether the key is one of the Standard's (`PMIx_Check_reserved_key`).
    pub fn is_reserved(&self) -> bool {
        super::keys::is_reserved(&self.0)
    }

    /// Returns this key as our headers spell it, see [`canonical`](super::keys::canonical).
    pub fn canonical(self) -> Key {
        match self.as_str().map(|key| (key, super::keys::canonical(key))) {
            Some((key, ours)) if ours != key => Key(ours.as_bytes().to_vec()),
            _ => self,
        }
    }
}
