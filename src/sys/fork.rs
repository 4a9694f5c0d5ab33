//! Whether this process is a forked copy of the one that made something.
use std::io;
use std::ptr::NonNull;

use instanton_layout::sync::Ordering;
use instanton_layout::words::{RawWordsMut, Words, WordsMut};
use memmap2::MmapRaw;

/// A word that reads as 0 in every forked child of its maker: the kernel wipes its page at fork.
pub(crate) struct ForkMark {
    /// The words of the page, for as long as that is mapped.
    words: RawWordsMut<'static>,
    _page: MmapRaw,
}

impl ForkMark {
    pub(crate) fn new() -> io::Result<Self> {
        let page: MmapRaw = memmap2::MmapMut::map_anon(4096)?.into();
        // SAFETY: the range is exactly our own anonymous private mapping, which MADV_WIPEONFORK demands.
        if unsafe { libc::madvise(page.as_mut_ptr().cast(), page.len(), libc::MADV_WIPEONFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(page.as_mut_ptr().cast()).expect("a mapping is not at address 0");
        // SAFETY: aligned, mapped writable as long as `page`, which has the same owner, and reached in no other way.
        let words = unsafe { RawWordsMut::new(base, 1) };
        words.store(0, 1, Ordering::Relaxed);
        Ok(Self { words, _page: page })
    }

    /// Whether this process was forked off since.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.words.load(0) != Ok(1)
    }
}
