//! Modex segments that a reader has mapped.
use std::sync::Arc;

use super::checked::Checked;
use crate::store::error::AttachError;
use crate::sys::memory::Mapping;

/// A segment, and which of its records this process has found whole.
#[derive(Clone)]
pub(in crate::store) struct MappedSegment {
    pub(in crate::store) mapping: Arc<Mapping>,
    pub(in crate::store) checked: Arc<Checked>,
}

/// Segments by number, with gaps for those that are not mapped yet.
#[derive(Clone, Default)]
pub(in crate::store) struct MappedModex {
    /// From number `first` on.
    segments: Vec<Option<MappedSegment>>,
    first: u32,
}

impl MappedModex {
    #[inline]
    pub(in crate::store) fn get(&self, number: u32) -> Option<&MappedSegment> {
        self.segments.get(number.checked_sub(self.first)? as usize)?.as_ref()
    }

    /// Adds a segment, and forgets those before `oldest`.
    pub(in crate::store) fn add(&mut self, number: u32, mapping: Arc<Mapping>, oldest: u32) -> Result<(), AttachError> {
        let checked = Arc::new(Checked::new(mapping.len() / 8).map_err(AttachError::Memory)?);
        if self.segments.is_empty() {
            self.first = number;
        }
        if number < self.first {
            let before = (self.first - number) as usize;
            self.segments.splice(0..0, std::iter::repeat_n(None, before));
            self.first = number;
        }
        let at = (number - self.first) as usize;
        if at >= self.segments.len() {
            self.segments.resize(at + 1, None);
        }
        self.segments[at] = Some(MappedSegment { mapping, checked });
        self.forget(oldest);
        Ok(())
    }

    /// The last number before the first gap, 0 if nothing is mapped: a gap is asked for again, with all that is behind
    /// it.
    pub(in crate::store) fn newest(&self) -> u32 {
        let whole = self.segments.iter().take_while(|segment| segment.is_some()).count() as u32;
        if whole == 0 { 0 } else { self.first + whole - 1 }
    }

    /// Forgets the segments before `oldest`, to which nothing refers any more.
    pub(in crate::store) fn forget(&mut self, oldest: u32) {
        let last = self.segments.len().saturating_sub(1);
        let gone = (oldest.saturating_sub(self.first) as usize).min(last);
        self.segments.drain(..gone);
        self.first += gone as u32;
    }
}
