//! Values of up to eight bytes as one word, the way they lie in a union of C and in shared memory.
use super::{Channels, DataRange, DataType, Rank, Scope, Status, Value};

/// The word of each Rust type: its bytes, little end first, and zeros.
trait Word: Sized {
    /// The largest word that is one; so are all below it.
    const LARGEST: u64;

    fn to_word(&self) -> u64;
    /// `None` for bytes that are no such thing.
    fn from_word(word: u64) -> Option<Self>;
}

/// The largest word of that which something is made of.
const fn largest_of<F: Word, T>(_: fn(F) -> T) -> u64 {
    F::LARGEST
}

macro_rules! integers {
    ($($signed:ty: $unsigned:ty),*) => {
        $(impl Word for $signed {
            const LARGEST: u64 = <$unsigned>::MAX as u64;

            fn to_word(&self) -> u64 {
                u64::from(*self as $unsigned)
            }
            fn from_word(word: u64) -> Option<Self> {
                <$unsigned>::try_from(word).ok().map(|word| word as $signed)
            }
        })*
    };
}
integers!(u8: u8, u16: u16, u32: u32, u64: u64, i8: u8, i16: u16, i32: u32, i64: u64);

impl Word for bool {
    const LARGEST: u64 = 1;

    fn to_word(&self) -> u64 {
        u64::from(*self)
    }
    fn from_word(word: u64) -> Option<Self> {
        (word < 2).then_some(word == 1)
    }
}

impl Word for f32 {
    const LARGEST: u64 = u32::LARGEST;

    fn to_word(&self) -> u64 {
        self.to_bits().to_word()
    }
    fn from_word(word: u64) -> Option<Self> {
        u32::from_word(word).map(f32::from_bits)
    }
}

impl Word for f64 {
    const LARGEST: u64 = u64::LARGEST;

    fn to_word(&self) -> u64 {
        self.to_bits()
    }
    fn from_word(word: u64) -> Option<Self> {
        Some(f64::from_bits(word))
    }
}

macro_rules! wrappers {
    ($($name:ident),*) => {
        $(impl Word for $name {
            const LARGEST: u64 = largest_of($name);

            fn to_word(&self) -> u64 {
                self.0.to_word()
            }
            fn from_word(word: u64) -> Option<Self> {
                Word::from_word(word).map($name)
            }
        })*
    };
}
wrappers!(Status, Rank, DataType, Scope, DataRange, Channels);

macro_rules! scalars {
    ($($variant:ident = $ty:ident),* $(,)?) => {
        impl Value {
            /// The value as a word, if it is of a type of up to eight bytes: its bytes in C, little end first, and
            /// zeros.
            ///
            /// ```
            /// use instanton::data::{DataType, Value};
            /// assert_eq!(Value::Int16(-2).to_word(), Some(0xfffe));
            /// assert_eq!(Value::from_word(DataType::INT16, 0xfffe), Some(Value::Int16(-2)));
            /// assert_eq!(Value::from_word(DataType::BOOL, 2), None);
            /// ```
            pub fn to_word(&self) -> Option<u64> {
                match self {
                    $(Value::$variant(value) => Some(value.to_word()),)*
                    _ => None,
                }
            }

            /// The value of type `ty` whose word this is; `None` where the type has no words, or not this one.
            pub fn from_word(ty: DataType, word: u64) -> Option<Value> {
                match ty {
                    $(DataType::$ty => Word::from_word(word).map(Value::$variant),)*
                    _ => None,
                }
            }

            /// The largest word that is a value of type `ty`, as every smaller one is; `None` where the type has no
            /// words.
            pub(crate) fn largest_word(ty: DataType) -> Option<u64> {
                match ty {
                    $(DataType::$ty => Some(largest_of(Value::$variant)),)*
                    _ => None,
                }
            }
        }
    };
}

scalars! {
    Bool = BOOL, Byte = BYTE, Size = SIZE, Pid = PID, Int = INT, Int8 = INT8, Int16 = INT16, Int32 = INT32,
    Int64 = INT64, Uint = UINT, Uint8 = UINT8, Uint16 = UINT16, Uint32 = UINT32, Uint64 = UINT64, Float = FLOAT,
    Double = DOUBLE, Time = TIME, Status = STATUS, Persist = PERSIST, Pointer = POINTER, Scope = SCOPE,
    DataRange = DATA_RANGE, Command = COMMAND, InfoDirectives = INFO_DIRECTIVES, DataType = DATA_TYPE,
    ProcState = PROC_STATE, ProcRank = PROC_RANK, AllocDirective = ALLOC_DIRECTIVE, IofChannel = IOF_CHANNEL,
    JobState = JOB_STATE, LinkState = LINK_STATE, Devtype = DEVTYPE, Loctype = LOCTYPE, StorMedium = STOR_MEDIUM,
    StorAccess = STOR_ACCESS, StorPersist = STOR_PERSIST, StorAccessType = STOR_ACCESS_TYPE,
    ResblockDirective = RESBLOCK_DIRECTIVE, AllocInherit = ALLOC_INHERIT,
}
