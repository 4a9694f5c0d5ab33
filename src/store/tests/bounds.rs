//! Memory stays within bounds however often things change.
//!
//! `INSTANTON_TEST_ROUNDS` multiplies how often.
use std::collections::HashSet;

use super::*;

fn rounds(few: u32) -> u32 {
    let factor = std::env::var("INSTANTON_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    few * factor
}

/// Records of two ranks change in every size there is, again and again. After the first times round, all that is needed
/// lies free already: not a byte more is ever taken.
#[test]
fn a_rank_that_commits_a_thousand_times_takes_no_more() {
    const PERIOD: u32 = 70;
    let mut writer = writer(&Limits::default());
    let (reader, _) = attach(&mut writer);
    let mut most = 0;
    for n in 0..rounds(1000) {
        let turn = (n % PERIOD) as usize;
        let sizes = [64, 4096, 100 + turn * 41, if turn.is_multiple_of(7) { 60_000 } else { 10 }];
        let entries = sizes.iter().enumerate().map(|(k, size)| {
            let put = [Scope::GLOBAL, Scope::GLOBAL, Scope::LOCAL, Scope::REMOTE][k];
            Posted::new(put, key(&format!("key{k}")), vec![n as u8; *size])
        });
        writer.update(Rank(n % 2), &entries.collect::<Vec<_>>()).unwrap();
        let bytes = writer.stats().bytes;
        assert!(bytes <= most || n < 4 * PERIOD, "{bytes} bytes after {n} commits, {most} before");
        most = most.max(bytes);
        if n % 100 == 0 {
            catch_up(&reader, &writer);
        }
        let _ = writer.take_outbound_new(Rank(n % 2)).unwrap();
    }
    println!("at most {most} bytes, in the end {:?}", writer.stats());
    assert!(most < 2 << 20, "{most}");
}

#[test]
fn large_jobs_that_end_under_a_guard_leave_nothing() {
    let limits = Limits { budget: Budget::new(8 << 20), ..Limits::default() };
    let (large, small) = (super::limits::large(100_000), job_info(&infos()));
    for round in 0..rounds(10) {
        for info in [&large, &small] {
            let mut writer = JobWriter::create(&nspace(), info.clone(), &limits).unwrap();
            let (reader, _) = attach(&mut writer);
            post(&mut writer, 0, "k", vec![round as u8; 5000]).unwrap();
            catch_up(&reader, &writer);
            let name = writer.reader().get(&Question::new(Rank(3), keys::HOSTNAME)).unwrap();
            let guard = reader.pin().unwrap();
            let held = guard.get(&Question::new(Rank(0), "k")).unwrap();
            drop(writer);
            assert_eq!(limits.budget.used(), 0, "the host's part ends with the job");
            assert!(held.bytes().iter().all(|byte| *byte == round as u8));
            assert_eq!(guard.get(&Question::new(Rank(3), keys::HOSTNAME)).unwrap().to_value().unwrap(), name);
        }
    }
}

#[test]
fn jobs_that_come_and_go_leave_nothing() {
    let limits = Limits { budget: Budget::new(8 << 20), ..Limits::default() };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let job = || {
        let mut writer = writer(&limits);
        let (reader, _) = attach(&mut writer);
        post(&mut writer, 0, "k", vec![1u8; 5000]).unwrap();
        catch_up(&reader, &writer);
        assert_eq!(reader.get(&Question::new(Rank(0), "k")).unwrap(), Value::from(vec![1u8; 5000]));
        drop(writer);
        assert_eq!(reader.get(&Question::new(Rank(0), "k")).unwrap(), Value::from(vec![1u8; 5000]));
    };
    let (before, rounds) = (descriptors(), rounds(2000));
    (0..rounds).for_each(|_| job());
    assert_eq!(limits.budget.used(), 0);
    // Other tests of this process open hundreds, too: doors with all their strangers.
    let after = descriptors();
    assert!(after < before + rounds as usize / 2, "{before} descriptors, then {after}");
}

#[test]
fn a_million_ranks_cost_a_directory() {
    let info = JobInfo::from_infos(&nspace(), 2, &[Info::new(keys::JOB_SIZE, 1_000_000u32)], "alpha").unwrap();
    let mut writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
    let job = writer.segments(&Have::default()).into_iter().find(|(id, _)| *id == SegmentId::Job).unwrap().1;
    assert!(nix::sys::stat::fstat(job).unwrap().st_size < 16 << 10);
    for rank in [0, 511, 512, 999_999] {
        post(&mut writer, rank, "k", rank).unwrap();
    }
    let (reader, _) = attach(&mut writer);
    for rank in [0, 511, 512, 999_999] {
        let value = get_all_ways(&reader, writer.reader(), &Question::new(Rank(rank), "k"));
        assert_eq!(value, Some(Value::from(rank)));
    }
    for rank in [1, 513, 5_000, 999_998, 1_000_000, 2_000_000] {
        assert_eq!(get_all_ways(&reader, writer.reader(), &Question::new(Rank(rank), "k")), None);
    }
    // Three pages of the rank table.
    assert_eq!(writer.stats().live, 3 * 4096 + 4 * 128);
}

/// The pages in which a rank's record lies that has a value of so many bytes.
fn pages_of(reader: &JobReader, rank: u32, size: usize) -> std::ops::RangeInclusive<usize> {
    let guard = reader.pin().unwrap();
    let value = guard.get(&Question::new(Rank(rank), "k")).unwrap();
    let address = value.bytes().as_ptr() as usize;
    (address - 64) / 4096..=(address + size - 1) / 4096
}

#[test]
fn what_fits_into_a_page_lies_in_one() {
    let mut writer = writer(&Limits::default());
    let sizes = [10usize, 700, 1500, 3300, 64, 1900, 900, 3500];
    let (reader, _) = attach(&mut writer);
    for (n, size) in sizes.iter().cycle().take(400).enumerate() {
        let rank = n as u32 % 4;
        post(&mut writer, rank, "k", vec![n as u8; *size]).unwrap();
        catch_up(&reader, &writer);
        assert_eq!(pages_of(&reader, rank, *size).count(), 1, "the head and the value of {size} bytes");
    }
}

/// A block that fits into a page, but not twice, takes no page of its own where that would leave much of it empty.
#[test]
fn pages_of_large_records_are_full() {
    const RANKS: u32 = 64;
    for size in (2000..4000).step_by(125) {
        let info = JobInfo::from_infos(&nspace(), 2, &[Info::new(keys::JOB_SIZE, RANKS)], "alpha").unwrap();
        let mut writer = JobWriter::create(&nspace(), info, &Limits::default()).unwrap();
        (0..RANKS).for_each(|rank| post(&mut writer, rank, "k", vec![1u8; size]).unwrap());
        let (reader, _) = attach(&mut writer);
        let pages = (0..RANKS).flat_map(|rank| {
            let pages = pages_of(&reader, rank, size);
            assert!(pages.clone().count() <= 2, "{size} bytes in {pages:?}");
            pages
        });
        let (pages, bytes) = (pages.collect::<HashSet<_>>().len() * 4096, RANKS as usize * (80 + size));
        assert!(bytes * 4 >= pages * 3, "{size} bytes each take {} bytes", pages / RANKS as usize);
    }
}
