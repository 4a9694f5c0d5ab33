//! A closed page holds what was there when it was closed, and nothing that came later.
#![cfg(loom)]

use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::page::{self, Pinned};
use instanton_layout::sync::InPlace;
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, Weak, model};
use loom::sync::Arc;

struct Shared {
    job: VecWords,
    page: VecWords,
    data: VecWords,
    old: InPlace,
    new: InPlace,
}

const OLD: Reference = Reference { segment: 1, word: 8 };
const NEW: Reference = Reference { segment: 1, word: 16 };
/// The page of the rank table; only its first word matters.
const PAGE: Reference = Reference { segment: 1, word: 0 };

/// Faults that a twin has.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// The reader asks whether its page is closed before it looks for the record.
    asks_first: bool,
    /// The writer opens the page although a slot may be taken.
    opens_early: bool,
}

/// The writer closes the reader's page, replaces a record twice, and writes the block between at once: it is newer than
/// the guard. The block of the first one it writes when the slot is free.
fn close_and_go_on(faults: Faults, writer_forgets: Forget) {
    model(move || {
        let shared = Arc::new(Shared {
            job: VecWords::new(33),
            page: VecWords::new(16),
            data: VecWords::new(1),
            old: InPlace::default(),
            new: InPlace::default(),
        });
        JobWords::format(&shared.job, 1, 1);
        job::publish(&shared.data, PAGE, 0, Some(OLD));
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let data = Weak(&writer.data, writer_forgets);
            page::close(&writer.page);
            job::publish(&data, PAGE, 0, Some(NEW));
            job::publish(&data, PAGE, 0, None);
            let ended = JobWords::new(&writer.job).end_epoch().unwrap();
            writer.new.write();
            page::fence_before_scan(&writer.job);
            let is_free = page::scan(&writer.page, ended + 1) == Pinned::Nothing;
            page::fence_after_scan(&writer.job);
            if is_free || faults.opens_early {
                page::open(&writer.page);
            }
            if is_free {
                writer.old.write();
            }
        });
        if page::pin(&JobWords::new(&shared.job), &shared.page, 0) {
            let was_closed = faults.asks_first && page::is_closed(&shared.page, 0);
            let found = job::record(&shared.data, PAGE, 0);
            let is_closed = if faults.asks_first { was_closed } else { page::is_closed(&shared.page, 0) };
            match found.filter(|_| !is_closed) {
                Some(OLD) => shared.old.read(),
                Some(_) => shared.new.read(),
                None => {}
            }
            page::unpin(&shared.page, 0);
        }
        writer.join().unwrap();
    });
}

#[test]
fn nothing_new_is_held_by_an_old_guard() {
    close_and_go_on(Faults::default(), Forget::Nothing);
}

#[test]
#[should_panic]
fn who_asks_before_the_look_holds_what_is_written() {
    close_and_go_on(Faults { asks_first: true, ..Faults::default() }, Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_reference_overtakes_the_closing() {
    close_and_go_on(Faults::default(), Forget::Release);
}

#[test]
#[should_panic]
fn a_page_that_is_opened_under_a_guard_shows_what_is_written() {
    close_and_go_on(Faults { opens_early: true, ..Faults::default() }, Forget::Nothing);
}
