//! Memory that is used again, and memory that is not.
use std::time::{Duration, Instant};

use super::*;
use crate::sys::memory::Mapping;
use instanton_layout::sync::Ordering;
use instanton_layout::words::WordsMut;

const BLOB: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn without_guards_the_same_memory_does() {
    let mut writer = writer(&Limits::default());
    let (reader, _) = attach(&mut writer);
    for round in 0..5_000u32 {
        post(&mut writer, 0, "blob", vec![round as u8; 1000]).unwrap();
    }
    catch_up(&reader, &writer);
    assert_eq!(reader.get(&Question::new(Rank(0), "blob")).unwrap(), Value::from(vec![4999u32 as u8; 1000]));
    assert_eq!(writer.stats().segments, 1);
}

#[test]
fn a_record_that_grows_leaves_no_trail() {
    let mut writer = writer(&Limits::default());
    for n in 0..400u32 {
        post(&mut writer, 0, &format!("k{n}"), vec![n as u8; 5000]).unwrap();
    }
    let stats = writer.stats();
    assert!(stats.bytes < 6 * stats.live, "{stats:?}");
    for n in 0..400u32 {
        let name = format!("k{n}");
        let value = writer.reader().get(&Question::new(Rank(0), &name)).unwrap();
        assert_eq!(value, Value::from(vec![n as u8; 5000]));
    }
}

#[test]
fn what_is_hidden_leaves_no_trail_either() {
    let mut writer = writer(&Limits::default());
    let (reader, _) = attach(&mut writer);
    let remote = |n: usize| [Posted::new(Scope::REMOTE, key("there"), Value::from(vec![n as u8; 100 + n]))];
    let local = [Posted::new(Scope::LOCAL, key("here"), Value::from(vec![1u8; 900]))];
    for n in 0..4000 {
        writer.update(Rank(0), &remote(n)).unwrap();
        writer.update(Rank(0), &local).unwrap();
    }
    assert!(writer.stats().bytes < 4 << 20, "{:?}", writer.stats());
    assert_eq!(writer.outbound_all(Rank(0)).unwrap(), remote(3999));
    // Numbers of segments that nobody is given leave no gaps in those that are.
    for n in 0..40 {
        post(&mut writer, 1, &format!("k{n}"), vec![n; 5000]).unwrap();
        writer.update(Rank(1), &remote(usize::from(n) * 1000)).unwrap();
    }
    catch_up(&reader, &writer);
    assert_eq!(reader.get(&Question::new(Rank(1), "k39")).unwrap(), Value::from(vec![39u8; 5000]));
}

/// Commits in the tests of readers that do not let go: so many that whatever each of them holds back adds up.
const COMMITS: u32 = 1_000;

/// Replaces the large value of rank 0 again and again, and asserts that this always succeeds, in so many bytes.
fn replace_often(writer: &mut JobWriter, most: u64) {
    for round in 1..=COMMITS {
        if let Err(error) = post(writer, 0, "blob", vec![round as u8; BLOB]) {
            panic!("commit {round} fails: {error}; {:?}", writer.stats());
        }
        assert!(writer.stats().bytes <= most, "after {round} commits: {:?}", writer.stats());
    }
    let found = writer.reader().get(&Question::new(Rank(0), "blob")).unwrap();
    assert_eq!(found, Value::from(vec![COMMITS as u8; BLOB]));
}

#[test]
fn a_guard_that_stays_is_never_overrun_and_holds_up_nobody() {
    let limits = Limits { budget: Budget::new(4 << 20), ..Limits::default() };
    let mut writer = writer(&limits);
    post(&mut writer, 1, "still", 11u32).unwrap();
    post(&mut writer, 0, "blob", vec![0u8; BLOB]).unwrap();
    let (stopped, id) = attach(&mut writer);
    let (other, _) = attach(&mut writer);
    let (blob, still) = (Question::new(Rank(0), "blob"), Question::new(Rank(1), "still"));
    let guard = stopped.pin().unwrap();
    let held = guard.get(&blob).unwrap();
    let early = guard.get(&still).unwrap();

    replace_often(&mut writer, 4 << 20);
    let misused = writer.reclaim();
    assert!(
        matches!(misused[..], [(reader, Misuse::HoldsBack { bytes })] if reader == id && bytes > 512 << 10),
        "{misused:?}"
    );
    assert!(held.bytes().iter().all(|byte| *byte == 0));
    assert_eq!(early.to_value().unwrap(), Value::from(11u32));
    let full = writer.stats();
    assert!(full.set_aside > 512 << 10, "{full:?}");

    // Its reads go on as copies; what is given by the job's information is read in place as before.
    catch_up(&stopped, &writer);
    assert!(matches!(guard.get(&blob), Err(Miss::Busy)) && matches!(guard.get(&still), Err(Miss::Busy)));
    assert_eq!(stopped.get(&blob).unwrap(), Value::from(vec![COMMITS as u8; BLOB]));
    assert!(guard.get(&Question::new(Rank::WILDCARD, keys::JOB_SIZE)).is_ok());
    let refused = std::thread::scope(|threads| threads.spawn(|| stopped.pin().map(drop)).join().unwrap());
    assert_eq!(refused, Err(PinError::HoldsBack));
    // Others take guards as before.
    catch_up(&other, &writer);
    assert_eq!(other.pin().unwrap().get(&blob).unwrap().bytes()[0], COMMITS as u8);

    drop(guard);
    writer.reclaim();
    assert_eq!(writer.stats().set_aside, 0);
    let guard = stopped.pin().unwrap();
    assert_eq!(guard.get(&blob).unwrap().bytes()[0], COMMITS as u8);
    drop(guard);
    replace_often(&mut writer, full.bytes);
    assert_eq!(writer.reclaim(), [], "it is named once each time");
}

#[test]
fn whatever_a_reader_writes_into_its_slots_harms_nobody() {
    for far in [false, true] {
        let limits = Limits { budget: Budget::new(4 << 20), ..Limits::default() };
        let mut writer = writer(&limits);
        post(&mut writer, 0, "blob", vec![0u8; BLOB]).unwrap();
        let handle = writer.make_reader_page().unwrap();
        let page = Mapping::reader_page(handle.as_fd()).unwrap();
        let slots = |value| (1..64).for_each(|line| page.words_mut().store(line * 8, value, Ordering::Relaxed));
        slots(if far { u64::MAX } else { 1 });
        replace_often(&mut writer, 4 << 20);
        let misused = writer.reclaim();
        assert_eq!((misused.len(), matches!(misused[0], (_, Misuse::Lie))), (1, far), "{misused:?}");
        // It pins whatever it likes, and opens its page itself.
        for value in [1, COMMITS.into(), u64::MAX, 2] {
            slots(value);
            (1..64).for_each(|line| page.words_mut().store(line * 8 + 1, 0, Ordering::Relaxed));
            replace_often(&mut writer, 4 << 20);
        }
        slots(0);
        writer.reclaim();
        assert_eq!((writer.stats().retired, writer.stats().set_aside, writer.stats().waiting_sets), (0, 0, 0));
        // It begins anew, and goes with all that it holds.
        slots(1);
        replace_often(&mut writer, 4 << 20);
        assert!(writer.stats().set_aside > 0);
        writer.reader_gone(handle.id());
        writer.reclaim();
        assert_eq!((writer.stats().retired, writer.stats().set_aside), (0, 0));
    }
}

#[test]
fn sets_that_a_reader_holds_are_replaced_as_often_as_need_be() {
    let limits = Limits { budget: Budget::new(64 << 20), ..Limits::default() };
    let mut writer = writer(&limits);
    let (stopped, _) = attach(&mut writer);
    post(&mut writer, 0, "blob", vec![7u8; BLOB]).unwrap();
    catch_up(&stopped, &writer);
    let guard = stopped.pin().unwrap();
    let held = guard.get(&Question::new(Rank(0), "blob")).unwrap();
    let mut moved = 0;
    let mut newest = 0;
    for round in 0..90 {
        // A small value next leaves a large block that is not needed any more.
        post(&mut writer, 0, "blob", vec![round as u8; (1 << 20) >> (round % 3 * 5)]).unwrap();
        let next = writer.words().oldest();
        moved += u64::from(next != newest);
        newest = next;
        assert!(limits.budget.used() <= 16 << 20, "{:?}", writer.stats());
    }
    assert!(moved > 20, "the records moved {moved} times only");
    assert!(held.bytes().iter().all(|byte| *byte == 7));
    drop(guard);
    writer.reclaim();
    assert_eq!((writer.stats().waiting_sets, writer.stats().set_aside), (0, 0));
}

#[test]
fn a_reader_that_is_gone_holds_nothing() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "k", 1u32).unwrap();
    let (reader, id) = attach(&mut writer);
    let _guard = reader.pin().unwrap();
    post(&mut writer, 0, "k", 2u32).unwrap();
    writer.reclaim();
    assert!(writer.stats().retired > 0);
    writer.reader_gone(id);
    writer.reclaim();
    assert_eq!(writer.stats().retired, 0);
}

#[test]
fn an_epoch_that_has_not_been_is_a_lie() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "k", 1u32).unwrap();
    let handle = writer.make_reader_page().unwrap();
    let page = Mapping::reader_page(handle.as_fd()).unwrap();
    page.words_mut().store(8, u64::MAX, Ordering::Relaxed);
    post(&mut writer, 0, "k", 2u32).unwrap();
    assert_eq!(writer.reclaim(), [(handle.id(), Misuse::Lie)]);
    assert!(writer.stats().set_aside > 0, "what a liar may have seen is not written");
    assert_eq!(writer.reclaim(), [], "it is named once");
    writer.reader_gone(handle.id());
    writer.reclaim();
    assert_eq!((writer.stats().retired, writer.stats().set_aside), (0, 0));
}

#[test]
fn guards_nest_and_slots_run_out_with_an_error() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "k", 1u32).unwrap();
    let (reader, _) = attach(&mut writer);
    let outer = reader.pin().unwrap();
    drop(reader.pin().unwrap());
    post(&mut writer, 0, "k", 2u32).unwrap();
    writer.reclaim();
    assert!(writer.stats().retired > 0, "the inner guard ended the outer one");
    drop(outer);
    writer.reclaim();
    assert_eq!(writer.stats().retired, 0);

    let reader = &reader;
    let (hold, end) = (std::sync::Barrier::new(63), std::sync::Barrier::new(63));
    std::thread::scope(|threads| {
        // This thread owns one of the 63 slots.
        for _ in 0..62 {
            threads.spawn(|| {
                let guard = reader.pin();
                hold.wait();
                end.wait();
                guard.map(drop).unwrap();
            });
        }
        hold.wait();
        let refused = threads.spawn(|| reader.pin().map(drop)).join().unwrap();
        end.wait();
        assert_eq!(refused, Err(PinError::NoSlot));
    });
    std::thread::scope(|threads| threads.spawn(|| reader.pin().map(drop)).join().unwrap()).unwrap();
    assert_eq!(writer.reader().pin().map(drop), Err(PinError::NoPage));
}

#[test]
fn bytes_that_last_survive_everything() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "posted", "text").unwrap();
    let (reader, _) = attach(&mut writer);
    let lasting = reader.lasting(&Question::new(Rank::WILDCARD, keys::TMPDIR)).unwrap().unwrap();
    assert!(reader.lasting(&Question::new(Rank(0), "posted")).unwrap().is_none());
    assert!(reader.lasting(&Question::new(Rank::WILDCARD, keys::JOB_SIZE)).unwrap().is_none());
    assert!(matches!(reader.lasting(&Question::new(Rank(0), "absent")), Err(Miss::NotFound)));
    let mut infos = infos();
    infos[3] = Info::new(keys::TMPDIR, "/tmp/y");
    writer.replace_info(job_info(&infos)).unwrap();
    catch_up(&reader, &writer);
    drop((reader, writer));
    assert_eq!(lasting.as_ref(), b"/tmp/x\0");
}

#[cfg(feature = "server")]
#[test]
fn large_segments_are_given_back_by_another_thread_whoever_lets_go_of_them_last() {
    use crate::sys::later::{self, tests::HANDED_OVER};
    use instanton_layout::words::Words;
    let mut writer = writer(&Limits::default());
    for n in 0..60u32 {
        post(&mut writer, 0, &format!("k{n}"), vec![n as u8; 100 << 10]).unwrap();
    }
    let sizes = |writer: &JobWriter| -> Vec<usize> {
        let all = writer.segments(&Have::default()).into_iter();
        let sizes = all.map(|(_, fd)| Mapping::read_only(fd).unwrap().words().len() * 8);
        sizes.filter(|size| *size >= later::LARGE).collect()
    };
    // A thread of another test may be the one that lets go of a segment last.
    let count = |sizes: &[usize]| HANDED_OVER.lock().unwrap().iter().filter(|(_, size)| sizes.contains(size)).count();
    let (large, begin, mut round) = (sizes(&writer), Instant::now(), 0);
    assert!(!large.is_empty());
    let before = count(&large);
    while count(&large) == before {
        post(&mut writer, 0, &format!("k{}", round % 60), vec![7u8; 100 + round % 1000]).unwrap();
        round += 1;
        assert!(begin.elapsed() < PATIENCE, "{:?}", writer.stats());
    }
    // A departure, which a thread is to read, leads to them still when their job is over.
    post(&mut writer, 0, "large", vec![7u8; 4 << 20]).unwrap();
    let departure = writer.departure(&[Rank(0)], false).unwrap();
    let large = sizes(&writer);
    let before = count(&large);
    drop((writer, departure));
    while count(&large) < before + large.len() {
        crossbeam_epoch::pin().flush();
        assert!(begin.elapsed() < PATIENCE, "{large:?}");
    }
}

#[test]
fn replaced_segments_count_for_as_long_as_somebody_has_them_mapped() {
    let limits = Limits { budget: Budget::new(1 << 30), ..Limits::default() };
    let mut writer = writer(&limits);
    let fill = |writer: &mut JobWriter| {
        for n in 0..60u32 {
            post(writer, 0, &format!("k{n}"), vec![n as u8; 100 << 10]).unwrap();
        }
        let all = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd).unwrap());
        let all: Vec<MappedSegment> = all.collect();
        for round in 0..1000 {
            post(writer, 0, &format!("k{}", round % 60), vec![7u8; 100 + round]).unwrap();
            if writer.stats().bytes < 4 << 20 {
                return all;
            }
        }
        panic!("{:?}", writer.stats());
    };
    // Those who map and never let go.
    let mut kept: Vec<Vec<MappedSegment>> = (0..3).map(|_| fill(&mut writer)).collect();
    assert!(limits.budget.used() > 3 * (6 << 20), "{}", limits.budget.used());
    // Any thread in an epoch of this process holds back what the writer itself lets go of.
    let begin = Instant::now();
    let mut falls_below = |most: u64| {
        while limits.budget.used() >= most {
            post(&mut writer, 0, "k0", vec![7u8; 200]).unwrap();
            assert!(begin.elapsed() < PATIENCE, "{} of {most}", limits.budget.used());
        }
    };
    let mut last = limits.budget.used();
    while kept.pop().is_some() {
        falls_below(last - (5 << 20));
        last = limits.budget.used();
    }
    falls_below(4 << 20);
}

#[test]
fn a_reader_that_maps_nothing_new_lets_go_of_what_was_replaced() {
    let limits = Limits { budget: Budget::new(1 << 30), ..Limits::default() };
    let mut writer = writer(&limits);
    for n in 0..60u32 {
        post(&mut writer, 0, &format!("k{n}"), vec![n as u8; 100 << 10]).unwrap();
    }
    let (reader, _) = attach(&mut writer);
    reader.unmap_replaced();
    assert!(!reader.is_behind(), "nothing was replaced");
    let newest = reader.have().modex;
    let mut shrunk = (0..60u32).cycle().take(1000);
    while writer.stats().bytes >= 4 << 20 {
        let n = shrunk.next().unwrap_or_else(|| panic!("{:?}", writer.stats()));
        post(&mut writer, 0, &format!("k{n}"), vec![7u8; 100 + n as usize]).unwrap();
    }
    assert_eq!(reader.have().modex, newest);
    assert!(limits.budget.used() > 6 << 20, "the reader has it: {}", limits.budget.used());
    reader.unmap_replaced();
    assert_eq!(reader.have().modex, 0);
    // Threads of other tests may be in an epoch.
    let begin = Instant::now();
    while limits.budget.used() >= 4 << 20 {
        post(&mut writer, 0, "k0", vec![7u8; 200]).unwrap();
        crossbeam_epoch::pin().flush();
        assert!(begin.elapsed() < PATIENCE, "{}", limits.budget.used());
    }
    catch_up(&reader, &writer);
    assert_eq!(reader.get(&Question::new(Rank(0), "k1")).unwrap(), Value::from(vec![7u8; 101]));
}

#[test]
fn a_large_segment_has_memory_for_what_is_in_it_and_a_little_more() {
    let mut writer = writer(&Limits::default());
    for n in 0..90u32 {
        post(&mut writer, 0, &format!("k{n}"), vec![n as u8; 100 << 10]).unwrap();
    }
    let blocks = |fd: std::os::fd::BorrowedFd<'_>| nix::sys::stat::fstat(fd).unwrap().st_blocks as u64 * 512;
    let (segments, stats) = (writer.segments(&Have::default()), writer.stats());
    let taken: u64 = segments.iter().map(|(_, fd)| blocks(*fd)).sum();
    let lengths: u64 = segments.iter().map(|(_, fd)| nix::sys::stat::fstat(*fd).unwrap().st_size as u64).sum();
    assert!(lengths - taken > 2 << 20, "{taken} of {lengths}: {stats:?}");
    let value = writer.reader().get(&Question::new(Rank(0), "k89")).unwrap();
    assert_eq!(value, Value::from(vec![89u8; 100 << 10]));
}

#[test]
fn a_small_change_by_which_much_would_be_written_anew_is_left_to_a_draft() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "large", vec![1u8; 500 << 10]).unwrap();
    let change = |size: usize| [Posted::new(Scope::GLOBAL, key("small"), Value::from(vec![2u8; size]))];
    writer.update_briefly(Rank(0), &change(1000)).unwrap();
    let refused = writer.update_briefly(Rank(0), &change(40 << 10));
    assert!(matches!(refused, Err(WriteError::TakesLong { bytes }) if bytes > 500 << 10), "{refused:?}");
    let value = |writer: &JobWriter, name| writer.reader().get(&Question::new(Rank(0), name)).unwrap();
    assert_eq!(value(&writer, "small"), Value::from(vec![2u8; 1000]));
    // A value that was seen everywhere becomes two values: one is copied.
    let local = [Posted::new(Scope::LOCAL, key("large"), Value::from(1u32))];
    assert!(matches!(writer.update_briefly(Rank(0), &local), Err(WriteError::TakesLong { .. })));
    for (change, name) in [(change(40 << 10), "small"), (local, "large")] {
        let expected = change[0].value.clone();
        let mut draft = writer.draft(Rank(0), change.to_vec()).unwrap();
        draft.compose().unwrap();
        writer.reserve(&mut draft).unwrap();
        draft.write().unwrap();
        writer.finish(draft).unwrap();
        assert_eq!(value(&writer, name), expected);
    }
    let there = writer.outbound_all(Rank(0)).unwrap();
    assert!(there.iter().any(|posted| posted.value == Value::from(vec![1u8; 500 << 10])), "{} entries", there.len());
}
