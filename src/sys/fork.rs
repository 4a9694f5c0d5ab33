//! Detection of a process that is a forked copy of the one that made something.
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use instanton_layout::sync::Ordering;
use instanton_layout::words::{RawWordsMut, Words, WordsMut};
use memmap2::MmapRaw;

/// A word that reads as 0 in every forked child of its maker: the kernel wipes its page at fork. All marks of
/// a process lie on one page.
pub(crate) struct ForkMark {
    /// The words of the page, for as long as that is mapped.
    words: RawWordsMut<'static>,
    _page: Arc<MmapRaw>,
}

impl ForkMark {
    pub(crate) fn new() -> io::Result<Self> {
        static LAST: Mutex<Weak<MmapRaw>> = Mutex::new(Weak::new());
        // Another thread may have had the lock when this process was forked off: then nobody gives it back.
        let mut last = LAST.try_lock().ok();
        let known = last.as_ref().and_then(|last| last.upgrade()).map(Self::of);
        if let Some(mark) = known.filter(|mark| !mark.is_inherited()) {
            return Ok(mark);
        }
        let page: MmapRaw = memmap2::MmapMut::map_anon(4096)?.into();
        // SAFETY: the range is exactly our own anonymous private mapping, which MADV_WIPEONFORK demands.
        if unsafe { libc::madvise(page.as_mut_ptr().cast(), page.len(), libc::MADV_WIPEONFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mark = Self::of(Arc::new(page));
        mark.words.store(0, 1, Ordering::Relaxed);
        if let Some(last) = &mut last {
            **last = Arc::downgrade(&mark._page);
        }
        Ok(mark)
    }

    /// A mark on a page that was made for marks.
    fn of(page: Arc<MmapRaw>) -> Self {
        let base = NonNull::new(page.as_mut_ptr().cast()).expect("a mapping is not at address 0");
        // SAFETY: aligned, mapped writable as long as `page`, which has the same owner, and reached through words alone.
        let words = unsafe { RawWordsMut::new(base, 1) };
        Self { words, _page: page }
    }

    /// Returns whether this process was forked off since.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.words.load(0) != Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_none_of_its_parents_marks_and_can_make_its_own() {
        let (first, second) = (ForkMark::new().unwrap(), ForkMark::new().unwrap());
        let _alone = super::super::COPIES.write();
        // SAFETY: the child calls nothing but this module and _exit.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                let inherited = first.is_inherited() && second.is_inherited();
                let own = [ForkMark::new(), ForkMark::new()].map(|mark| mark.is_ok_and(|mark| !mark.is_inherited()));
                let right = inherited && own == [true, true] && first.is_inherited();
                // SAFETY: ends the child at once, as it must.
                unsafe { libc::_exit(if right { 0 } else { 1 }) }
            }
            nix::unistd::ForkResult::Parent { child } => {
                let status = nix::sys::wait::waitpid(child, None).unwrap();
                assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
                assert!(!first.is_inherited() && !second.is_inherited());
            }
        }
    }
}
