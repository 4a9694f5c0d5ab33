//! Modex segments that a reader has mapped.
use std::sync::Arc;

use instanton_layout::Malformed;

use super::checked::Checked;
use crate::store::error::AttachError;
use crate::store::ids::SegmentId;
use crate::sys::memory::Mapping;

/// Most numbers between the segments of a job: so many a writer has at most, and damaged ones may claim any.
const MAX_SPAN: u64 = 1 << 20;

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

    /// Adds a segment, and forgets those before `oldest` and it.
    pub(in crate::store) fn add(&mut self, number: u32, mapping: Arc<Mapping>, oldest: u32) -> Result<(), AttachError> {
        let checked = Arc::new(Checked::new(mapping.len() / 8).map_err(AttachError::Memory)?);
        if self.segments.is_empty() || u64::from(self.first) + self.segments.len() as u64 <= u64::from(oldest) {
            self.segments.clear();
            self.first = number;
        }
        let end = u64::from(self.first) + self.segments.len() as u64;
        if u64::from(number.max(self.first)).max(end) - u64::from(number.min(self.first)) > MAX_SPAN {
            return Err(AttachError::Damaged { id: SegmentId::Modex(number), error: Malformed::Table });
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
        self.forget(oldest.min(number));
        Ok(())
    }

    /// The first number, 0 if nothing is mapped.
    pub(in crate::store) fn oldest(&self) -> u32 {
        if self.segments.is_empty() { 0 } else { self.first }
    }

    /// The last number before the first gap, 0 if nothing is mapped: a gap is asked for again, with all that is behind
    /// it.
    pub(in crate::store) fn newest(&self) -> u32 {
        let whole = self.segments.iter().take_while(|segment| segment.is_some()).count() as u32;
        if whole == 0 { 0 } else { self.first + whole - 1 }
    }

    /// Forgets the segments before `oldest`, to which nothing refers any more.
    pub(in crate::store) fn forget(&mut self, oldest: u32) {
        let gone = (oldest.saturating_sub(self.first) as usize).min(self.segments.len());
        self.segments.drain(..gone);
        self.first += gone as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_far_from_the_others_is_damage_and_takes_no_room() {
        let mapping = || Arc::new(Mapping::private(4096).unwrap());
        let mut modex = MappedModex::default();
        modex.add(5, mapping(), 0).unwrap();
        modex.add(3, mapping(), 0).unwrap();
        assert_eq!((modex.first, modex.segments.len()), (3, 3));
        for far in [u32::MAX, 4 << 20] {
            assert!(matches!(modex.add(far, mapping(), 0), Err(AttachError::Damaged { .. })));
        }
        assert_eq!(modex.segments.len(), 3);
        // A reader that has slept while all of its segments were replaced goes on with the new ones.
        modex.add(4 << 20, mapping(), 4 << 20).unwrap();
        assert_eq!((modex.first, modex.segments.len()), (4 << 20, 1));
        assert!(matches!(modex.add(1, mapping(), 0), Err(AttachError::Damaged { .. })));
    }
}
