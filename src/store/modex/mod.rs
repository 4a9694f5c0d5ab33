//! Posted data: records by rank, in segments that grow.
//!
//! [`visibility`] tells which value of a key is seen on the node and which elsewhere; [`records`] are composed of them, and
//! [`table`] publishes them in blocks of the [`heap`]; [`reader_pages`] tell which blocks readers hold, and
//! [`lingering`] which segments they keep. Readers see the same segments through [`mapped`].
mod checked;
pub(super) mod heap;
pub(super) mod lingering;
pub(super) mod mapped;
pub(super) mod reader_pages;
pub(super) mod records;
pub(super) mod table;
pub(super) mod visibility;
