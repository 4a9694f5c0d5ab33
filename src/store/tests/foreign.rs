//! Drafts, batches, parts, moves and readers of another writer: an error, or nothing at all.
use super::*;

fn posted(name: &str) -> Vec<Posted> {
    vec![Posted::new(Scope::GLOBAL, key(name), 7u32)]
}

fn has(writer: &JobWriter, rank: u32, name: &str) -> bool {
    writer.reader().contains(&Question::new(Rank(rank), name)).unwrap()
}

fn composed(writer: &mut JobWriter, rank: u32, name: &str) -> Draft {
    let mut draft = writer.draft(Rank(rank), posted(name)).unwrap();
    draft.compose().unwrap();
    draft
}

#[test]
fn what_another_writer_has_begun_is_not_ended_here() {
    let limits = Limits::default();
    let (mut one, mut other) = (writer(&limits), writer(&limits));
    let refused = |error: &WriteError| matches!(error, WriteError::Foreign(_));
    let mut draft = composed(&mut one, 0, "a");
    assert!(refused(&other.reserve(&mut draft).unwrap_err()));
    one.reserve(&mut draft).unwrap();
    draft.write().unwrap();
    let (error, entries) = other.finish(draft).unwrap_err();
    assert!(refused(&error) && entries == posted("a"));
    assert_eq!(error.to_string(), "a draft of another writer");
    let mut draft = composed(&mut one, 0, "a");
    one.reserve(&mut draft).unwrap();
    assert_eq!(other.give_up(draft), posted("a"));

    let mut batch = one.batch().unwrap();
    one.prepare(&mut batch, Rank(2), posted("b")).unwrap();
    assert!(refused(&other.prepare(&mut batch, Rank(2), posted("b")).unwrap_err().0));
    assert!(refused(&other.publish_next(&mut batch).unwrap_err()));
    let part = |writer: &mut JobWriter| writer.draft_part(Rank(3), posted("c")).unwrap();
    let mut theirs = part(&mut other);
    theirs.compose().unwrap();
    assert!(refused(&one.reserve_part(&mut batch, &mut theirs).unwrap_err()));
    assert!(refused(&one.add(&mut batch, theirs).unwrap_err().0));
    let ours = part(&mut one);
    let mut their_batch = other.batch().unwrap();
    assert!(refused(&one.add(&mut their_batch, ours).unwrap_err().0));
    one.end_batch(their_batch);
    other.end_batch(batch);
    let departure = one.departure(&[Rank(0)], true).unwrap();
    other.end_departure(departure, false);

    for writer in [&mut one, &mut other] {
        assert!(!["a", "b", "c"].iter().any(|name| (0..4).any(|rank| has(writer, rank, name))), "nothing is seen");
        post(writer, 0, "d", 1u32).unwrap();
        assert!(has(writer, 0, "d"));
    }
}

#[test]
fn a_reader_of_another_writer_is_not_forgotten_here() {
    let limits = Limits::default();
    let (mut one, mut other) = (writer(&limits), writer(&limits));
    let ((reader, id), (_, others)) = (attach(&mut one), attach(&mut other));
    post(&mut one, 0, "card", vec![1u8; 100]).unwrap();
    catch_up(&reader, &one);
    let guard = reader.pin().unwrap();
    let held = guard.get(&Question::new(Rank(0), "card")).unwrap();
    assert_ne!(id, others);
    assert!(!one.reader_gone(others));
    for n in 2..100u8 {
        post(&mut one, 0, "card", vec![n; 100]).unwrap();
        one.reclaim();
    }
    assert_eq!(held.to_value().unwrap(), Value::from(vec![1u8; 100]));
    drop(guard);
    assert!(one.reader_gone(id) && !one.reader_gone(id));
}

#[test]
fn what_was_not_composed_or_written_is_stored_all_the_same() {
    let mut writer = writer(&Limits::default());
    let bare = writer.draft(Rank(0), posted("bare")).unwrap();
    writer.finish(bare).unwrap();
    let draft = composed(&mut writer, 0, "composed");
    writer.finish(draft).unwrap();
    let mut draft = composed(&mut writer, 1, "reserved");
    writer.reserve(&mut draft).unwrap();
    writer.finish(draft).unwrap();
    assert!(has(&writer, 0, "bare") && has(&writer, 0, "composed") && has(&writer, 1, "reserved"));

    let mut batch = writer.batch().unwrap();
    let bare = writer.draft_part(Rank(2), posted("bare")).unwrap();
    writer.add(&mut batch, bare).unwrap();
    let mut part = writer.draft_part(Rank(3), posted("reserved")).unwrap();
    part.compose().unwrap();
    writer.reserve_part(&mut batch, &mut part).unwrap();
    writer.add(&mut batch, part).unwrap();
    while let Some(published) = writer.publish_next(&mut batch).unwrap() {
        assert!(published.is_current);
    }
    writer.end_batch(batch);
    assert!(has(&writer, 2, "bare") && has(&writer, 3, "reserved"));
}

#[test]
fn a_part_that_counts_on_the_page_of_one_that_was_given_up_is_not_current() {
    let mut writer = writer(&Limits::default());
    let mut batch = writer.batch().unwrap();
    let mut first = writer.draft_part(Rank(2), posted("first")).unwrap();
    first.compose().unwrap();
    writer.reserve_part(&mut batch, &mut first).unwrap();
    writer.prepare(&mut batch, Rank(3), posted("second")).unwrap();
    writer.give_up_part(first);
    let published = writer.publish_next(&mut batch).unwrap().unwrap();
    assert!(!published.is_current && published.entries == posted("second"));
    writer.end_batch(batch);
    writer.update(Rank(3), &published.entries).unwrap();
    assert!(has(&writer, 3, "second") && !has(&writer, 2, "first"));
}

fn parts(writer: &JobWriter) -> Vec<MappedSegment> {
    writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd).unwrap()).collect()
}

#[test]
fn a_reader_is_of_one_job_alone() {
    let limits = Limits::default();
    let (one, other) = (writer(&limits), writer(&limits));
    let mixed = |segment: usize| {
        let mut mixed = parts(&one);
        mixed.push(parts(&other).remove(segment));
        JobReader::attach(mixed, None).map(drop).unwrap_err()
    };
    for segment in 0..parts(&other).len() {
        assert!(matches!(mixed(segment), AttachError::Foreign { .. }));
    }
    let twice = parts(&one).into_iter().chain(parts(&one)).collect();
    assert!(JobReader::attach(twice, None).unwrap().contains(&Question::new(Rank(1), keys::RANK)).unwrap());
}

#[test]
fn all_of_a_process_is_more_than_what_is_mapped() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "card", 7u32).unwrap();
    let job = parts(&writer).into_iter().filter(|part| part.id() == SegmentId::Job).collect();
    let reader = JobReader::attach(job, None).unwrap();
    for rank in [Rank(0), Rank(1), Rank::WILDCARD] {
        assert!(matches!(reader.all(rank), Err(Miss::Unmapped(_))), "{rank}");
        assert!(matches!(reader.infos(rank, None), Err(Miss::Unmapped(_))), "{rank}");
    }
    catch_up(&reader, &writer);
    for rank in [Rank(0), Rank(1), Rank::WILDCARD] {
        assert!(!reader.all(rank).unwrap().is_empty(), "{rank}");
    }
}
