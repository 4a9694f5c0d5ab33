//! Damaged segments give errors, never wrong values, and never crash.
use std::collections::HashSet;
use std::sync::Arc;

use instanton_layout::sync::Ordering;
use instanton_layout::words::{Words, WordsMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::sys::memory::Mapping;

/// The words of every segment of a job, and all that can be asked of it.
struct Image {
    segments: Vec<Vec<u64>>,
    questions: Vec<(Rank, Key, Directives, Value)>,
}

fn image() -> Image {
    let mut writer = writer(&Limits::default());
    for rank in 0..4 {
        let posted = [
            Posted::new(Scope::GLOBAL, key("scalar"), Value::from(rank)),
            Posted::new(Scope::GLOBAL, key("text"), Value::from(format!("text of rank {rank}"))),
            Posted::new(Scope::GLOBAL, key("blob"), Value::from(vec![rank as u8; 100])),
            Posted::new(Scope::GLOBAL, key("array"), Value::from(DataArray::of([Rank(rank), Rank(9)]))),
        ];
        writer.update(Rank(rank), &posted).unwrap();
    }
    let reader = writer.reader();
    let mut questions = Vec::new();
    for rank in [Rank(0), Rank(1), Rank(2), Rank(3), Rank::WILDCARD, Rank::UNDEF] {
        for (key, _, value, _) in reader.all(rank).unwrap() {
            questions.push((rank, key, Directives::NONE, value));
        }
        let levels = [
            Directives::at(InfoLevel::Job),
            Directives::at(InfoLevel::Session),
            Directives::of_app(0),
            Directives::of_node(1),
            Directives::of_host(Text::new("beta").unwrap()),
            Directives::at(InfoLevel::Node),
        ];
        for (level, name) in levels.into_iter().flat_map(|level| keys::all().map(move |row| (level.clone(), row.1))) {
            if let Ok(value) = reader.get(&Question::new(rank, name).with(&level)) {
                questions.push((rank, key(name), level, value));
            }
        }
    }
    Image { segments: copies(&writer), questions }
}

/// The words of every segment of a job.
pub(in crate::store) fn copies(writer: &JobWriter) -> Vec<Vec<u64>> {
    let copy = |(_, fd)| {
        let mapping = Mapping::read_only(fd).unwrap();
        (0..mapping.words().len()).map(|at| mapping.words().load(at).unwrap()).collect()
    };
    writer.segments(&Have::default()).into_iter().map(copy).collect()
}

/// Attaches to copies of the segments; `None` if that is refused.
pub(in crate::store) fn attach_copies(segments: &[Vec<u64>]) -> Option<JobReader> {
    let part = |words: &Vec<u64>| {
        let mapping = Mapping::private(words.len() * 8).unwrap();
        words.iter().enumerate().for_each(|(at, word)| mapping.words_mut().store(at, *word, Ordering::Relaxed));
        MappedSegment::check(Arc::new(mapping)).ok()
    };
    JobReader::attach(segments.iter().map(part).collect::<Option<Vec<_>>>()?, None).ok()
}

fn interrogate(reader: &JobReader, questions: &[(Rank, Key, Directives, Value)]) -> usize {
    let answers = questions.iter().filter(|(rank, key, level, value)| {
        match reader.get(&Question::new(*rank, key).with(level)) {
            Ok(found) => assert_eq!(&found, value, "{key} of {rank} at {level:?}"),
            Err(_) => return false,
        }
        true
    });
    let count = answers.count();
    for rank in [Rank(0), Rank(3), Rank::WILDCARD] {
        let _ = reader.all(rank);
        let _ = (reader.node_of(rank), reader.app_of(rank), reader.is_local(rank), reader.own_node());
    }
    count
}

#[test]
fn a_true_copy_answers_everything() {
    let image = image();
    assert!(image.questions.len() > 60, "{}", image.questions.len());
    assert_eq!(interrogate(&attach_copies(&image.segments).unwrap(), &image.questions), image.questions.len());
}

/// Every single bit of the parts in use of every segment.
#[test]
fn no_single_bit_makes_a_wrong_value() {
    let image = image();
    let (mut refused, mut answered) = (0, 0);
    for segment in 0..image.segments.len() {
        let used = image.segments[segment].iter().rposition(|word| *word != 0).unwrap() + 1;
        // A stride that is odd and no divisor visits every bit position of the words in turn.
        for bit in (0..used * 64).step_by(7) {
            let mut segments = image.segments.clone();
            segments[segment].truncate(image.segments[segment].len());
            segments[segment][bit / 64] ^= 1 << (bit % 64);
            match attach_copies(&segments) {
                Some(reader) => answered += interrogate(&reader, &image.questions),
                None => refused += 1,
            }
        }
    }
    assert!(refused > 0 && answered > 0);
}

/// A slot of the table of keys tells of one key: nobody is told that others are gone, or wrong.
#[test]
fn a_damaged_key_costs_few_others() {
    let image = image();
    let info = image.segments.iter().position(|words| words[1] >> 32 == 2).unwrap();
    let (at, slots) = (image.segments[info][13] as u32 as usize, (image.segments[info][13] >> 32) as usize);
    let mut lost = 0;
    for bit in 0..slots * 3 * 64 {
        if bit % 5 != 0 {
            continue;
        }
        let mut segments = image.segments.clone();
        segments[info][at + bit / 64] ^= 1 << (bit % 64);
        let reader = attach_copies(&segments).expect("the rest is as it was");
        assert!(reader.verify().is_err());
        let answers = interrogate(&reader, &image.questions);
        let gone = |(_, key, ..): &&(Rank, Key, Directives, Value)| reader.get(&Question::new(Rank(0), key)).is_err();
        let keys: HashSet<&Key> = image.questions.iter().filter(gone).map(|(_, key, ..)| key).collect();
        assert!(answers * 2 > image.questions.len(), "bit {bit}: {answers} answers; without {keys:?}");
        lost += image.questions.len() - answers;
    }
    assert!(lost > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_survived(flips in vec((0..3usize, any::<prop::sample::Index>(), any::<u64>()), 1..6), cut in 0..4usize, by in 1..200usize) {
        let image = image();
        let mut segments = image.segments;
        for (segment, at, with) in flips {
            let used = segments[segment].iter().rposition(|word| *word != 0).unwrap() + 1;
            segments[segment][at.index(used)] ^= with;
        }
        if let Some(segment) = segments.get_mut(cut) {
            let len = segment.len().saturating_sub(by).max(1);
            segment.truncate(len);
        }
        if let Some(reader) = attach_copies(&segments) {
            interrogate(&reader, &image.questions);
        }
    }
}

#[test]
fn a_segment_of_another_version_is_refused_by_name() {
    let image = image();
    for segment in &image.segments {
        let mut words = segment.clone();
        words[1] += 1;
        let mapping = Mapping::private(words.len() * 8).unwrap();
        words.iter().enumerate().for_each(|(at, word)| mapping.words_mut().store(at, *word, Ordering::Relaxed));
        let error = MappedSegment::check(Arc::new(mapping)).err().unwrap();
        let other = format!("version {}", instanton_layout::header::VERSION + 1);
        assert!(error.to_string().contains(&other), "{error}");
    }
}

#[test]
fn damage_in_a_long_value_leaves_the_short_ones_alone() {
    let xml = "x".repeat(100_000);
    let of_node = vec![Info::new(keys::HOSTNAME, "alpha"), Info::new(keys::HWLOC_XML_V2, &xml[..])];
    let infos = [infos(), vec![about(keys::NODE_INFO_ARRAY, of_node)]].concat();
    let writer = JobWriter::create(&nspace(), job_info(&infos), &Limits::default()).unwrap();
    let (mut segments, long) = (copies(&writer), u64::from_le_bytes(*b"xxxxxxxx"));
    let get = |segments: &[Vec<u64>], key| attach_copies(segments).unwrap().get(&Question::new(Rank(0), key));
    assert_eq!(get(&segments, keys::HWLOC_XML_V2).unwrap(), Value::from(&xml[..]));
    let word = segments.iter_mut().flatten().filter(|word| **word == long).nth(5000).unwrap();
    *word += 1;
    for (key, value) in [(keys::HOSTNAME, "alpha"), (keys::LOCAL_PEERS, "0,1"), (keys::LOCAL_CPUSETS, "0-1:2-3")] {
        assert_eq!(get(&segments, key).unwrap(), Value::from(value));
    }
    assert!(matches!(get(&segments, keys::HWLOC_XML_V2), Err(Miss::Corrupt(_))));
}
