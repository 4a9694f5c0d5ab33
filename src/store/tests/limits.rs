//! The host's limit is exact, and reaching it loses nothing.
use std::time::{Duration, Instant};

use super::*;
use crate::data::maps::{Form, ProcMap};

const PATIENCE: Duration = Duration::from_secs(60);

fn limited(bytes: u64) -> Limits {
    Limits { budget: Budget::new(bytes), ..Limits::default() }
}

#[test]
fn a_limit_holds_to_the_byte() {
    let used = {
        let limits = limited(u64::MAX);
        let _writer = writer(&limits);
        limits.budget.used()
    };
    let exact = limited(used);
    let create = |limits: &Limits| JobWriter::create(&nspace(), job_info(&infos()), limits);
    let first = create(&exact).unwrap();
    assert!(matches!(create(&exact), Err(WriteError::Budget { .. })), "two jobs share a budget");
    drop(first);
    assert_eq!(exact.budget.used(), 0);
    assert!(matches!(create(&limited(used - 1)), Err(WriteError::Budget { .. })));
    assert!(create(&exact).is_ok());
}

#[test]
fn a_job_may_have_less_than_all_jobs_together() {
    let all = Budget::new(1 << 20);
    let job = |bytes| Limits { budget: all.part(bytes), ..Limits::default() };
    let (mut one, mut other) = (writer(&job(256 << 10)), writer(&job(u64::MAX)));
    let fill = |writer: &mut JobWriter, most: u64| {
        let mut kept = 0..200;
        let refused = kept.find_map(|n| post(writer, 0, &format!("k{n}"), vec![1u8; 5000]).err()).unwrap();
        assert!(matches!(refused, WriteError::Budget { limit, .. } if limit == most), "{refused}");
    };
    fill(&mut one, 256 << 10);
    assert!(all.used() <= 512 << 10, "{} bytes", all.used());
    post(&mut other, 0, "k", 1u32).unwrap();
    // Some is kept for ranks that have posted little.
    fill(&mut other, 15 << 16);
    assert!(all.used() <= 1 << 20 && all.left() < 256 << 10);
    // A commit that the job itself has no room for takes nothing from the others.
    let before = all.used();
    assert!(post(&mut one, 1, "large", vec![1u8; 300 << 10]).is_err());
    assert_eq!(all.used(), before);
    drop(one);
    drop(other);
    assert_eq!(all.used(), 0);
}

/// Ranks without any rule: a few bytes of each.
pub(in crate::store) fn large(ranks: u32) -> JobInfo {
    let lists = (0..ranks / 20).map(|node| (0..20).map(move |nth| (nth * (ranks / 20) + node) * 7919 % ranks));
    let map = ProcMap::from_ranks(lists).unwrap().to_text(Form::Plain);
    let infos = [
        Info::new(keys::JOB_SIZE, ranks),
        Info::new(keys::NODE_MAP, format!("pmix:n[0-{}]", ranks / 20 - 1)),
        Info::new(keys::PROC_MAP, String::from_utf8(map).unwrap()),
    ];
    JobInfo::from_infos(&nspace(), 20, &infos, "n0").unwrap()
}

#[test]
fn a_large_job_is_refused_to_the_byte_and_changes_nothing() {
    let (info, more) = (large(100_000), large(99_980));
    let used = {
        let limits = limited(u64::MAX);
        let _writer = JobWriter::create(&nspace(), info.clone(), &limits).unwrap();
        limits.budget.used()
    };
    assert!(used > 300_000, "{used} bytes");
    let small = {
        let limits = limited(u64::MAX);
        let _writer = writer(&limits);
        limits.budget.used()
    };
    let limits = limited(small + used);
    let first = writer(&limits);
    let refused = JobWriter::create(&nspace(), info.clone(), &limited(used - 1)).map(drop).unwrap_err();
    assert!(matches!(refused, WriteError::Budget { .. }), "{refused}");
    assert_eq!(refused.status(), crate::data::Status::ERR_OUT_OF_RESOURCE);
    let mut second = JobWriter::create(&nspace(), info.clone(), &limits).unwrap();
    assert_eq!(limits.budget.used(), small + used);
    for _ in 0..3 {
        // There is room for one of them.
        let refused = second.replace_info(more.clone()).unwrap_err();
        assert_eq!(refused.status(), crate::data::Status::ERR_OUT_OF_RESOURCE);
        assert!(JobWriter::create(&nspace(), more.clone(), &limits).is_err());
        assert_eq!(limits.budget.used(), small + used, "nothing is kept of what was refused");
    }
    let node = |rank| second.reader().get(&Question::new(Rank(rank), keys::NODEID)).unwrap();
    assert_eq!((node(0), node(7919)), (Value::Uint32(0), Value::Uint32(1)));
    let job = first.reader().get(&Question::new(Rank(0), keys::HOSTNAME)).unwrap();
    assert_eq!(job, Value::from("alpha"));
    drop(second);
    assert_eq!(limits.budget.used(), small);
    assert!(JobWriter::create(&nspace(), info, &limits).is_ok(), "what was taken is free again");
}

#[test]
fn what_was_committed_stays_when_memory_runs_out() {
    let limits = limited(1 << 20);
    let mut writer = writer(&limits);
    let (reader, _) = attach(&mut writer);
    let mut posted = 0u32;
    let error = loop {
        match post(&mut writer, 0, &format!("k{posted}"), vec![posted as u8; 5000]) {
            Ok(()) => posted += 1,
            Err(error) => break error,
        }
        assert!(limits.budget.used() <= 1 << 20);
    };
    assert!(matches!(error, WriteError::Budget { .. }), "{error}");
    assert_eq!(error.status(), crate::data::Status::ERR_OUT_OF_RESOURCE);
    // Each commit writes the whole record anew, in a larger block.
    assert!(posted > 10, "{posted} blobs of 5000 bytes in 1 MiB");
    catch_up(&reader, &writer);
    for n in 0..posted {
        let name = format!("k{n}");
        let value = get_all_ways(&reader, writer.reader(), &Question::new(Rank(0), &name));
        assert_eq!(value, Some(Value::from(vec![n as u8; 5000])));
    }
    // A small one still finds room.
    post(&mut writer, 1, "small", 1u32).unwrap();
    assert_eq!(reader.get(&Question::new(Rank(1), "small")).unwrap(), Value::from(1u32));
    drop(writer);
    assert_eq!(limits.budget.used(), 0);
    assert_eq!(reader.get(&Question::new(Rank(1), "small")).unwrap(), Value::from(1u32), "readers outlive the writer");
}

#[test]
fn a_rank_that_posts_all_it_can_leaves_room_for_those_that_post_little() {
    let limits = limited(16 << 20);
    let mut writer = writer(&limits);
    let (reader, _) = attach(&mut writer);
    let mut posted = 0u32;
    let mut fill = |writer: &mut JobWriter| {
        // Room that is too small for a large value is enough for a smaller one.
        for bytes in [1 << 20, 100 << 10, 10 << 10] {
            while post(writer, 0, &format!("k{posted}"), vec![0u8; bytes]).is_ok() {
                posted += 1;
            }
        }
    };
    fill(&mut writer);
    assert!(limits.budget.used() > 12 << 20, "{} bytes", limits.budget.used());
    assert!(writer.stats().live > 6 << 20, "{:?}", writer.stats());
    for bytes in (0..16 << 10).step_by(512) {
        for rank in 1..4 {
            // The data that a rank has for its node goes to the other side, where it had it for all.
            for scope in [Scope::LOCAL, Scope::GLOBAL] {
                if scope == Scope::LOCAL && !writer.is_local(Rank(rank)) {
                    continue;
                }
                let entry = Posted::new(scope, key("k"), Value::from(vec![rank as u8; bytes]));
                writer.update(Rank(rank), &[entry]).unwrap_or_else(|e| panic!("{bytes} bytes of rank {rank}: {e}"));
            }
        }
        fill(&mut writer);
    }
    assert!(limits.budget.used() <= 16 << 20);
    catch_up(&reader, &writer);
    let found = get_all_ways(&reader, writer.reader(), &Question::new(Rank(3), "k"));
    assert_eq!(found, Some(Value::from(vec![3u8; (16 << 10) - 512])));
    drop(writer);
    assert_eq!((limits.budget.used(), limits.budget.left()), (0, 16 << 20));
}

/// Without limits they would take more: much of a large segment that is unused, and twice what is alive before it moves.
#[test]
fn values_of_all_sizes_are_replaced_for_ever_in_a_few_times_their_bytes() {
    let mut writer = writer(&limited(32 << 20));
    let (reader, _) = attach(&mut writer);
    let mut seed = 1u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (seed >> 33) as usize % below
    };
    let mut bytes = [0; 48];
    for round in 0..3000 {
        let at = draw(bytes.len());
        let most = [8, 100, 3_000, 20_000, 70_000, 300_000, 900_000][draw(7)];
        bytes[at] = 1 + draw(most);
        let begin = Instant::now();
        // Threads of other tests may be in an epoch, and hold back what the reader has let go of.
        while let Err(e) = post(&mut writer, at as u32 % 4, &format!("k{}", at / 4), vec![round as u8; bytes[at]]) {
            let alive = bytes.iter().sum::<usize>();
            assert!(begin.elapsed() < PATIENCE, "{e} in round {round}, {alive} are alive: {:?}", writer.stats());
            crossbeam_epoch::pin().flush();
        }
        catch_up(&reader, &writer);
        reader.unmap_replaced();
    }
}

#[test]
fn a_failed_commit_leaves_both_faces_as_they_were() {
    let limits = limited(256 << 10);
    let mut writer = writer(&limits);
    post(&mut writer, 0, "k", "old").unwrap();
    let before = writer.outbound_all(Rank(0)).unwrap();
    let commit = [
        Posted::new(Scope::LOCAL, key("k"), Value::from("new")),
        Posted::new(Scope::REMOTE, key("big"), Value::from(vec![0u8; 200 << 10])),
    ];
    assert!(matches!(writer.update(Rank(0), &commit), Err(WriteError::Budget { .. })));
    assert_eq!(writer.reader().get(&Question::new(Rank(0), "k")).unwrap(), Value::from("old"));
    assert_eq!(writer.outbound_all(Rank(0)).unwrap(), before);
}

#[test]
fn what_a_job_cannot_have_is_refused() {
    let mut writer = writer(&Limits::default());
    assert!(matches!(post(&mut writer, 4, "k", 1u32), Err(WriteError::Rank { ranks: 4, .. })));
    for rank in [Rank::WILDCARD, Rank::UNDEF] {
        assert!(matches!(writer.update(rank, &[]), Err(WriteError::Rank { .. })));
    }
    let internal = [Posted::new(Scope::INTERNAL, key("k"), Value::Undef)];
    assert!(matches!(writer.update(Rank(0), &internal), Err(WriteError::Scope { .. })));
    let mut more = infos();
    more[0] = Info::new(keys::JOB_SIZE, 5u32);
    assert!(matches!(writer.replace_info(job_info(&more)), Err(WriteError::Rank { .. })));
    let huge = [Info::new(keys::JOB_SIZE, u32::MAX)];
    assert!(matches!(JobInfo::from_infos(&nspace(), 1, &huge, "a"), Err(BadJobInfo::Size { size: u32::MAX })));
}

#[test]
fn job_information_of_another_namespace_is_refused() {
    let other = || JobInfo::from_infos(&Nspace::new("other").unwrap(), 2, &infos(), "alpha").unwrap();
    let is_refused = |outcome| matches!(outcome, Err(WriteError::Nspace { info, .. }) if info.as_bytes() == b"other");
    assert!(is_refused(JobWriter::create(&nspace(), other(), &Limits::default()).map(drop)));
    let mut writer = writer(&Limits::default());
    assert!(is_refused(writer.replace_info(other())));
    assert_eq!((writer.reader().nspace().unwrap(), writer.stats().generation), (nspace(), 1));
}

#[test]
fn values_that_no_record_holds_are_refused_before_they_are_copied() {
    let mut info = job_info(&infos());
    for name in ["one half", "other half"] {
        info.job.put(key(name), Value::ByteObject(vec![0; 1 << 31]));
    }
    let limits = Limits::default();
    let refused = JobWriter::create(&nspace(), info, &limits).map(drop).unwrap_err();
    assert!(matches!(refused, WriteError::TooLarge { bytes } if bytes > 1 << 32), "{refused}");
    assert_eq!(limits.budget.used(), 0);
}
