//! Range of an event or of published data.
use super::constants::data_range as number;
use rkyv::{Archive, Deserialize, Serialize};

/// A `pmix_data_range_t`: which processes an event is delivered to, or published data is visible to.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataRange(pub u8);

impl DataRange {
    /// Not given; counts as `SESSION`.
    pub const UNDEF: DataRange = DataRange(number::RANGE_UNDEF);
    /// The host alone.
    pub const RM: DataRange = DataRange(number::RANGE_RM);
    /// The processes of the same node.
    pub const LOCAL: DataRange = DataRange(number::RANGE_LOCAL);
    /// The processes of the same namespace.
    pub const NAMESPACE: DataRange = DataRange(number::RANGE_NAMESPACE);
    /// The processes of the same session.
    pub const SESSION: DataRange = DataRange(number::RANGE_SESSION);
    /// All processes.
    pub const GLOBAL: DataRange = DataRange(number::RANGE_GLOBAL);
    /// The processes that an attribute lists.
    pub const CUSTOM: DataRange = DataRange(number::RANGE_CUSTOM);
    /// The process itself.
    pub const PROC_LOCAL: DataRange = DataRange(number::RANGE_PROC_LOCAL);
    /// Not a range.
    pub const INVALID: DataRange = DataRange(number::RANGE_INVALID);
}

impl From<DataRange> for u64 {
    fn from(range: DataRange) -> u64 {
        range.0.into()
    }
}
