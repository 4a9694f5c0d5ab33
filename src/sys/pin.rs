//! Holding on to blocks of shared memory, so that they can be looked at in place.
//!
//! A process has one reader page a job. The first [`KEPT`] of its threads that take guards own a slot of it each until
//! they end, so that the next guard finds it at once; the other slots belong to a thread as long as it has a guard. So
//! threads that idle leave slots for others. Guards of one thread nest: they share its slot. A forked child has no
//! page: what it inherits notices, and touches nothing.
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use instanton_layout::Malformed;
use instanton_layout::chain::{self, Checked, Walk};
use instanton_layout::header::{Header, Kind};
use instanton_layout::job::JobWords;
use instanton_layout::key::HashedKey;
use instanton_layout::page::{self, Pinned};
use instanton_layout::record::Entry;
use instanton_layout::sync::{AtomicU64, Ordering};
use instanton_layout::words::RawWords;

use super::fork::ForkMark;
use super::memory::Mapping;

/// Slots whose threads keep them between guards.
const KEPT: usize = 32;

/// A reader page as its owner has it.
pub(crate) struct PinPage {
    mapping: Mapping,
    /// One bit a slot: a thread of this process owns it.
    claimed: AtomicU64,
    mark: ForkMark,
}

/// Reason why nothing can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// This reader has no page to say so on.
    #[error("this reader has no page for guards")]
    NoPage,
    /// Every slot of the page is taken: 32 threads keep theirs until they end, 31 others have guards just now.
    #[error(
        "all {} slots of the reader page are taken: {} by threads that keep them until they end, others by guards",
        page::SLOTS,
        KEPT
    )]
    NoSlot,
    /// The process is a forked copy of the reader's, or its thread is about to end.
    #[error("the reader does not belong to this process or thread")]
    Foreign,
    /// Guards of this process keep more memory from being used again than one reader may, and the writer has seen it.
    /// Values can be copied all the same; there are guards again once the writer has seen that those are gone.
    #[error("guards of this process hold back too much memory already")]
    HoldsBack,
}

/// A slot that the current thread owns.
struct Slot {
    page: Arc<PinPage>,
    slot: usize,
    /// Guards that share it.
    depth: Cell<usize>,
}

impl Slot {
    /// The slot that this thread used last, if it is on this page: nearly always the one that is asked for.
    #[inline]
    fn last(page: &Arc<PinPage>) -> Option<Rc<Self>> {
        let last = LAST.get();
        // SAFETY: it was the address of a slot in an `Rc` of this thread, and is forgotten when that is dropped.
        let slot = unsafe { last.as_ref() }?;
        if !Arc::ptr_eq(&slot.page, page) {
            return None;
        }
        // SAFETY: as above; it came from `Rc::as_ptr`, and with the count goes the `Rc` made here.
        unsafe {
            Rc::increment_strong_count(last);
            Some(Rc::from_raw(last))
        }
    }

    /// The slot that this thread has on a page, or a new one.
    #[cold]
    fn own(page: &Arc<PinPage>) -> Result<Rc<Self>, PinError> {
        let find = |slots: &RefCell<Vec<Rc<Self>>>| {
            let mut slots = slots.borrow_mut();
            if let Some(own) = slots.iter().find(|slot| Arc::ptr_eq(&slot.page, page)) {
                return Ok(own.clone());
            }
            // Pages that nobody but this thread knows any more belong to readers that are gone.
            slots.retain(|slot| slot.depth.get() > 0 || Arc::strong_count(&slot.page) > 1);
            let slot = page.claim().ok_or(PinError::NoSlot)?;
            let slot = Rc::new(Self { page: page.clone(), slot, depth: Cell::new(0) });
            slots.push(slot.clone());
            Ok(slot)
        };
        let slot = SLOTS.try_with(find).map_err(|_| PinError::Foreign)??;
        LAST.set(Rc::as_ptr(&slot));
        Ok(slot)
    }

    /// Forgets that this thread has the slot, which goes with the last guard on it.
    #[cold]
    fn give_back(&self) {
        let _ = SLOTS.try_with(|slots| slots.borrow_mut().retain(|slot| !std::ptr::eq(Rc::as_ptr(slot), self)));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if std::ptr::eq(LAST.get(), self) {
            LAST.set(std::ptr::null());
        }
        if !self.page.mark.is_inherited() {
            page::unpin(&self.page.mapping.words_mut(), self.slot);
            self.page.claimed.fetch_and(!(1 << self.slot), Ordering::Release);
        }
    }
}

thread_local! {
    static SLOTS: RefCell<Vec<Rc<Slot>>> = const { RefCell::new(Vec::new()) };
    /// The slot that was used last; null when there is none, or it is gone.
    static LAST: Cell<*const Slot> = const { Cell::new(std::ptr::null()) };
}

impl PinPage {
    pub(crate) fn new(mapping: Mapping) -> io::Result<Self> {
        Ok(Self { mapping, claimed: AtomicU64::new(0), mark: ForkMark::new()? })
    }

    fn claim(&self) -> Option<usize> {
        let free = |claimed: u64| {
            Some(claimed | 1 << (!claimed).trailing_zeros())
                .filter(|_| (claimed.trailing_ones() as usize) < page::SLOTS)
        };
        let before = self.claimed.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).ok()?;
        Some((!before).trailing_zeros() as usize)
    }

    /// Returns whether no guard is held on it that was there when this was called. A value that was replaced before is
    /// out of every later guard's sight.
    pub(crate) fn is_free(&self) -> bool {
        // A forked child has neither the page nor the parent's guards.
        if self.mark.is_inherited() {
            return true;
        }
        let words = self.mapping.words();
        page::fence_before_scan(&words);
        let free = page::scan(&words, u64::MAX) == Pinned::Nothing;
        page::fence_after_scan(&words);
        free
    }
}

/// While it lives, no block that is found through it is written again. Of the thread that took it.
pub(crate) struct Hold<'a> {
    slot: Rc<Slot>,
    job: &'a Mapping,
}

impl<'a> Hold<'a> {
    /// Pins the current epoch of a job.
    #[inline]
    pub(crate) fn take(page: &'a Arc<PinPage>, job: &'a Mapping) -> Result<Self, PinError> {
        if page.mark.is_inherited() {
            return Err(PinError::Foreign);
        }
        let slot = match Slot::last(page) {
            Some(slot) => slot,
            None => Slot::own(page)?,
        };
        let depth = slot.depth.get();
        if depth == 0 && !page::pin(&JobWords::new(job.words()), &page.mapping.words_mut(), slot.slot) {
            return Err(PinError::HoldsBack);
        }
        slot.depth.set(depth + 1);
        Ok(Self { slot, job })
    }

    /// Returns whether it is on this page.
    #[inline]
    pub(crate) fn is_on(&self, page: &Arc<PinPage>) -> bool {
        Arc::ptr_eq(&self.slot.page, page)
    }

    /// Finds a key in the records of what a rank has posted: the entry, the words of its segment, and its
    /// value's bytes where they lie.
    ///
    /// `segment` gives modex segments by number.
    #[inline(always)]
    pub(crate) fn find<'h, C: Checked>(
        &'h self,
        rank: u32,
        segment: impl Fn(u32) -> Option<(&'a Mapping, C)>,
        key: &HashedKey<'_>,
    ) -> Walk<(Entry, RawWords<'a>, &'h [u8])> {
        let segment = |number| segment(number).map(|(mapping, checked)| (mapping.words(), checked));
        // The references are loaded behind the pin, which is what makes their blocks safe to look at.
        let walk = chain::walk(&JobWords::new(self.job.words()), rank, segment, &mut &*key);
        // Behind the walk: on a closed page what it has found may be written again.
        if page::is_closed(&self.slot.page.mapping.words(), self.slot.slot) {
            return Walk::Changed;
        }
        walk.and_then(|(entry, words, at)| {
            if !Header::names(&words, Kind::Modex, u64::from(at.segment)) {
                return Walk::Bad(Malformed::Owner, at);
            }
            // SAFETY:
            // - the block was reached by references loaded under the pin, in a modex segment of this job, while the
            //   page was not closed, so that the writer does not write it before the pin ends (the protocol of
            //   `instanton_layout::page`, which a writer keeps)
            // - the pin ends when the outermost guard of this thread is dropped; the bytes are borrowed from this one
            // - the mapping lives for 'a
            match unsafe { words.bytes(entry.value_word, entry.value_len) } {
                Ok(bytes) => Walk::Found((entry, words, bytes)),
                Err(error) => Walk::Bad(error, at),
            }
        })
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        let Slot { page, slot, depth } = &*self.slot;
        depth.set(depth.get() - 1);
        if depth.get() == 0 && !page.mark.is_inherited() {
            page::unpin(&page.mapping.words_mut(), *slot);
        }
        if depth.get() == 0 && *slot >= KEPT {
            self.slot.give_back();
        }
    }
}

impl Mapping {
    /// Bytes of the segment of one generation of job information, which never change.
    #[inline]
    pub(crate) fn frozen(&self, generation: u64, at: usize, len: usize) -> Result<&[u8], Malformed> {
        let words = self.words();
        match Header::names(&words, Kind::Info, generation) {
            // SAFETY: a generation of job information is written by nobody once it can be mapped, and the mapping lives as
            // long as `self` is borrowed.
            true => unsafe { words.bytes(at, len) },
            false => Err(Malformed::Owner),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use instanton_layout::words::{VecWords, Words, WordsMut};

    use super::super::cell::EpochCell;
    use super::*;

    fn copy(words: &VecWords) -> Mapping {
        let mapping = Mapping::private(words.len() * 8).unwrap();
        (0..words.len()).for_each(|at| mapping.words_mut().store(at, words.load(at).unwrap(), Ordering::Relaxed));
        mapping
    }

    fn page() -> Arc<PinPage> {
        let words = VecWords::new(page::WORDS);
        page::format(&words, 1, 1);
        Arc::new(PinPage::new(copy(&words)).unwrap())
    }

    fn job() -> Mapping {
        copy(&JobWords::format(VecWords::new(33), 1, 1).into_inner())
    }

    #[test]
    fn what_a_guard_looks_at_is_kept_until_it_is_gone_and_no_longer() {
        let (job, page, other) = (job(), page(), page());
        let alive = Arc::new(());
        let cell = EpochCell::with_page(alive.clone(), Some(page.clone()));
        let replace = || cell.replace(|_| Ok::<_, ()>(alive.clone())).unwrap();
        // A value that goes by epochs is freed a few of them later.
        let collect = || (0..1000).for_each(|_| crossbeam_epoch::pin().flush());
        assert!(cell.read_held(&Hold::take(&other, &job).unwrap()).is_none(), "of another page");
        let outer = Hold::take(&page, &job).unwrap();
        let inner = Hold::take(&page, &job).unwrap();
        let seen = cell.read_held(&outer).unwrap();
        drop(inner);
        replace();
        replace();
        collect();
        assert!(Arc::ptr_eq(seen, &alive));
        assert_eq!(Arc::strong_count(&alive), 4, "both that were replaced are there");
        drop(outer);
        replace();
        while Arc::strong_count(&alive) > 2 {
            collect();
            std::thread::yield_now();
        }
        drop(cell);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn guards_on_two_pages_by_turns_have_their_own_slots() {
        let (job, first, second) = (job(), page(), page());
        let held =
            |page: &PinPage| (0..page::SLOTS).filter(|slot| page.mapping.words().load((slot + 1) * 8) == Ok(1)).count();
        let a = Hold::take(&first, &job).unwrap();
        let b = Hold::take(&second, &job).unwrap();
        let c = Hold::take(&first, &job).unwrap();
        assert_eq!((held(&first), held(&second)), (1, 1));
        drop(a);
        drop(b);
        assert_eq!((held(&first), held(&second)), (1, 0));
        drop(c);
        assert_eq!((held(&first), held(&second)), (0, 0));
        // The slot that was used last goes with its page; the next page may well lie where that did.
        drop(first);
        for _ in 0..100 {
            let next = page();
            let hold = Hold::take(&next, &job).unwrap();
            assert_eq!((held(&next), next.claimed.load(Ordering::Relaxed)), (1, 1));
            drop(hold);
            assert_eq!(held(&next), 0);
        }
    }

    #[test]
    fn threads_that_idle_leave_slots_for_others() {
        let (job, page) = (Arc::new(job()), page());
        let (all, done) = (Arc::new(Barrier::new(2 * page::SLOTS + 1)), Arc::new(Barrier::new(2 * page::SLOTS + 1)));
        // Each has a guard, one thread after the other, and lives on.
        let turn = Arc::new(Mutex::new(()));
        let idle = || {
            let (job, page, all, done, turn) = (job.clone(), page.clone(), all.clone(), done.clone(), turn.clone());
            std::thread::spawn(move || {
                let alone = turn.lock().unwrap();
                let taken = Hold::take(&page, &job).is_ok();
                drop(alone);
                all.wait();
                done.wait();
                taken
            })
        };
        let idle: Vec<_> = (0..2 * page::SLOTS).map(|_| idle()).collect();
        all.wait();
        assert_eq!(page.claimed.load(Ordering::Relaxed).count_ones() as usize, KEPT);
        let outer = Hold::take(&page, &job).unwrap();
        let inner = Hold::take(&page, &job).unwrap();
        drop(outer);
        assert_eq!(page.claimed.load(Ordering::Relaxed).count_ones() as usize, KEPT + 1, "one guard is left");
        drop(inner);
        assert_eq!(page.claimed.load(Ordering::Relaxed).count_ones() as usize, KEPT);
        assert!(Hold::take(&page, &job).is_ok(), "and again");
        done.wait();
        assert!(idle.into_iter().all(|thread| thread.join().unwrap()));
        assert_eq!(page.claimed.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_guard_that_outlives_what_its_thread_knows_is_counted_still() {
        struct Late(Cell<Option<Hold<'static>>>, Cell<Option<Arc<PinPage>>>);
        impl Drop for Late {
            fn drop(&mut self) {
                let page = self.1.take().unwrap();
                drop(self.0.take());
                assert_eq!(page.claimed.load(Ordering::Relaxed), 0, "the slot is free");
                let job = Box::leak(Box::new(job()));
                assert!(matches!(Hold::take(&page, job).err(), Some(PinError::Foreign)));
            }
        }
        // Destroyed behind the list of slots, which is made first here.
        thread_local! { static LATE: Late = const { Late(Cell::new(None), Cell::new(None)) } }
        let page: &'static Arc<PinPage> = Box::leak(Box::new(page()));
        let job = Box::leak(Box::new(job()));
        std::thread::spawn(|| {
            LATE.with(|late| late.1.set(Some(page.clone())));
            let hold = Hold::take(page, job).unwrap();
            LATE.with(|late| late.0.set(Some(hold)));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_forked_child_touches_nothing() {
        let (job, page) = (job(), page());
        let hold = Hold::take(&page, &job).unwrap();
        let _alone = super::super::COPIES.write();
        // SAFETY: the child calls nothing but this module and _exit.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                let refused = Hold::take(&page, &job).err() == Some(PinError::Foreign);
                drop(hold);
                let kept = page.mapping.words().load(8) == Ok(1);
                // SAFETY: ends the child at once, as it must.
                unsafe { libc::_exit(if refused && kept { 0 } else { 1 }) }
            }
            nix::unistd::ForkResult::Parent { child } => {
                let status = nix::sys::wait::waitpid(child, None).unwrap();
                assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
                assert_eq!(page.mapping.words().load(8), Ok(1), "the parent's guard holds");
                drop(hold);
                assert_eq!(page.mapping.words().load(8), Ok(0));
            }
        }
    }
}
