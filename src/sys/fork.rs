//! Whether this process is a forked copy of the one that made something.
use std::io;
use std::ptr::NonNull;

use instanton_layout::sync::{AtomicU64, Ordering};
use memmap2::MmapRaw;

/// A word that reads as 0 in every forked child of its maker: the kernel wipes its page at fork.
pub(crate) struct ForkMark {
    page: MmapRaw,
}

impl ForkMark {
    pub(crate) fn new() -> io::Result<Self> {
        let page: MmapRaw = memmap2::MmapMut::map_anon(4096)?.into();
        // SAFETY: the range is exactly our own anonymous private mapping, which MADV_WIPEONFORK demands.
        if unsafe { libc::madvise(page.as_mut_ptr().cast(), page.len(), libc::MADV_WIPEONFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mark = Self { page };
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    fn word(&self) -> &AtomicU64 {
        let word = NonNull::new(self.page.as_mut_ptr().cast()).expect("a mapping is not at address 0");
        // SAFETY: aligned, mapped writable as long as `self`, and reached in no other way.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }

    /// Whether this process was forked off since.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 0
    }
}
