//! Memory that is used again, and memory that is not.
use super::*;
use crate::sys::memory::Mapping;
use instanton_layout::sync::Ordering;
use instanton_layout::words::WordsMut;

const BLOB: usize = 64 << 10;

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

#[test]
fn a_guard_that_stays_is_never_overrun() {
    let mut writer = writer(&Limits { sets: 2, ..Limits::default() });
    post(&mut writer, 1, "still", 11u32).unwrap();
    post(&mut writer, 0, "blob", vec![0u8; BLOB]).unwrap();
    let (stopped, id) = attach(&mut writer);
    let (other, _) = attach(&mut writer);
    let question = Question::new(Rank(0), "blob");
    let guard = stopped.pin().unwrap();
    let held = guard.get(&question).unwrap();

    let mut round = 0u32;
    let refused = loop {
        round += 1;
        assert!(round < 1000, "nothing limits what a stopped reader holds back");
        match post(&mut writer, 0, "blob", vec![round as u8; BLOB]) {
            Ok(()) => {
                catch_up(&other, &writer);
                assert_eq!(other.get(&question).unwrap(), Value::from(vec![round as u8; BLOB]));
            }
            Err(error) => break error,
        }
        assert!(held.bytes().iter().all(|byte| *byte == 0));
    };
    assert!(matches!(refused, WriteError::Held { sets: 2, by: Some(by) } if by == id), "{refused}");
    assert_eq!(refused.status(), crate::data::Status::ERR_OUT_OF_RESOURCE);
    assert!(held.bytes().iter().all(|byte| *byte == 0));
    // Data that was committed before is there for everybody.
    catch_up(&other, &writer);
    assert_eq!(other.get(&question).unwrap(), Value::from(vec![(round - 1) as u8; BLOB]));
    assert_eq!(other.get(&Question::new(Rank(1), "still")).unwrap(), Value::from(11u32));
    let before = writer.stats();
    assert_eq!(before.waiting_sets, 2);

    drop(guard);
    post(&mut writer, 0, "blob", vec![1u8; BLOB]).unwrap();
    assert_eq!(writer.stats().waiting_sets, 0);
    assert!(writer.stats().bytes < before.bytes / 2, "{:?} after {before:?}", writer.stats());
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
    assert_eq!(writer.reclaim(), [handle.id()]);
    assert!(writer.stats().retired > 0, "what a liar may have seen is not written");
    writer.reader_gone(handle.id());
    assert_eq!(writer.reclaim(), []);
    assert_eq!(writer.stats().retired, 0);
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
