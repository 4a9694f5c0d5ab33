//! Records that move to new segments a little at a time.
use super::*;

const KEYS: usize = 40;

fn value(round: usize, name: usize, len: usize) -> Value {
    Value::from(vec![(round + name) as u8; len])
}

/// A writer whose two ranks have posted much, of which little is left.
fn scattered() -> JobWriter {
    let mut writer = writer(&Limits::default());
    writer.move_by_steps();
    for (round, len) in [(1, 200 << 10), (2, 30 << 10)] {
        for name in 0..KEYS {
            for rank in 0..2 {
                let posted = |scope, name: String| Posted::new(scope, key(&name), value(round, name.len(), len));
                let posts = [posted(Scope::GLOBAL, format!("k{name}")), posted(Scope::REMOTE, format!("h{name}"))];
                writer.update(Rank(rank), &posts).unwrap();
            }
        }
    }
    writer
}

fn check(writer: &JobWriter, reader: &JobReader) {
    catch_up(reader, writer);
    for name in 0..KEYS {
        let name = format!("k{name}");
        for rank in 0..2 {
            let found = reader.get(&Question::new(Rank(rank), &name)).unwrap();
            assert!(found == value(2, name.len(), 30 << 10), "{name} of {rank}");
        }
    }
}

#[test]
fn records_move_a_little_at_a_time_and_ranks_go_on_meanwhile() {
    let mut writer = scattered();
    let (reader, _) = attach(&mut writer);
    assert!(writer.is_to_move(), "{:?}", writer.stats());
    let before = writer.stats();
    let (mut moves, mut posted) = (0, 0u32);
    loop {
        let mut ranks = match writer.next_move().unwrap() {
            NextMove::Ranks(ranks) => ranks,
            NextMove::More => continue,
            NextMove::Nothing => break,
        };
        moves += 1;
        // Both go on with something new: what moves of them is moved once more.
        if moves <= 3 {
            (0..2).for_each(|rank| post(&mut writer, rank, "new", moves).unwrap());
            posted = moves;
        }
        ranks.compose().unwrap();
        writer.reserve_move(&mut ranks).unwrap();
        check(&writer, &reader);
        ranks.write().unwrap();
        writer.finish_move(ranks).unwrap();
        check(&writer, &reader);
        assert!(moves < 100);
    }
    assert!(moves > 4 && !writer.is_to_move(), "{moves}");
    let new = reader.get(&Question::new(Rank(1), "new")).unwrap();
    assert_eq!(new, Value::from(posted));
    let there = writer.outbound_all(Rank(0)).unwrap();
    assert_eq!(there.len(), 2 * KEYS + 1);
    assert!(
        there.iter().filter(|of| of.scope == Scope::REMOTE).all(|of| of.value.as_bytes().unwrap().len() == 30 << 10)
    );
    assert!(writer.stats().bytes < before.bytes / 2, "{:?} after {before:?}", writer.stats());
    // And once more from there.
    post(&mut writer, 0, "new", 77u32).unwrap();
    check(&writer, &reader);
}

#[test]
fn a_move_that_is_given_up_leaves_everything_as_it_was() {
    let mut writer = scattered();
    let (reader, _) = attach(&mut writer);
    for steps in 0..3 {
        let mut ranks = loop {
            match writer.next_move().unwrap() {
                NextMove::Ranks(ranks) => break ranks,
                NextMove::More => {}
                NextMove::Nothing => panic!("nothing moves"),
            }
        };
        if steps > 0 {
            ranks.compose().unwrap();
            writer.reserve_move(&mut ranks).unwrap();
        }
        if steps > 1 {
            ranks.write().unwrap();
        }
        writer.give_up_move(ranks);
        check(&writer, &reader);
    }
}

fn move_one(writer: &mut JobWriter, mut ranks: Move) {
    ranks.compose().unwrap();
    writer.reserve_move(&mut ranks).unwrap();
    ranks.write().unwrap();
    writer.finish_move(ranks).unwrap();
}

/// Moves what can be moved now.
fn move_all(writer: &mut JobWriter) {
    loop {
        match writer.next_move().unwrap() {
            NextMove::Ranks(ranks) => move_one(writer, ranks),
            NextMove::More => {}
            NextMove::Nothing => break,
        }
    }
}

#[test]
fn a_draft_and_a_batch_keep_the_old_segments_and_come_to_their_end() {
    let mut writer = scattered();
    let (reader, _) = attach(&mut writer);
    let change = vec![Posted::new(Scope::GLOBAL, key("drafted"), Value::from(5u32))];
    let mut draft = writer.draft(Rank(0), change).unwrap();
    draft.compose().unwrap();
    writer.reserve(&mut draft).unwrap();
    draft.write().unwrap();
    // Another one brings the first record of its rank, with a block in the segments that are left.
    let change = vec![Posted::new(Scope::GLOBAL, key("first"), Value::from(6u32))];
    let mut first = writer.draft(Rank(3), change).unwrap();
    first.compose().unwrap();
    writer.reserve(&mut first).unwrap();
    first.write().unwrap();
    move_all(&mut writer);
    assert!(!writer.is_up_to_date(&draft) && writer.is_up_to_date(&first) && writer.is_to_move());
    writer.finish(first).unwrap();
    writer.finish(draft).unwrap();
    let batch = writer.batch().unwrap();
    move_all(&mut writer);
    assert!(!writer.is_to_move(), "while data of others is prepared nothing moves");
    writer.end_batch(batch);
    move_all(&mut writer);
    check(&writer, &reader);
    assert!(!writer.is_to_move());
    assert_eq!(reader.get(&Question::new(Rank(0), "drafted")).unwrap(), Value::from(5u32));
    assert_eq!(reader.get(&Question::new(Rank(3), "first")).unwrap(), Value::from(6u32));
}

/// Ranks that always have a draft under way would keep them for ever.
#[test]
fn drafts_that_are_begun_after_a_move_do_not_keep_the_old_segments() {
    let mut writer = scattered();
    let (reader, _) = attach(&mut writer);
    let before = writer.stats().bytes;
    // Hidden data moves first.
    loop {
        match writer.next_move().unwrap() {
            NextMove::Ranks(begun) if !begun.is_hidden => break writer.give_up_move(begun),
            NextMove::Ranks(begun) => move_one(&mut writer, begun),
            NextMove::More => {}
            NextMove::Nothing => panic!("nothing moves"),
        }
    }
    let mut drafts: Vec<Draft> = [0, 3]
        .into_iter()
        .map(|rank| writer.draft(Rank(rank), vec![Posted::new(Scope::GLOBAL, key("new"), Value::from(rank))]).unwrap())
        .collect();
    for draft in &mut drafts {
        draft.compose().unwrap();
        writer.reserve(draft).unwrap();
        draft.write().unwrap();
    }
    move_all(&mut writer);
    assert!(!writer.is_to_move() && writer.stats().bytes < before / 2, "{:?} after {before}", writer.stats());
    drafts.into_iter().for_each(|draft| _ = writer.finish(draft).unwrap());
    check(&writer, &reader);
    for rank in [0, 3] {
        assert_eq!(reader.get(&Question::new(Rank(rank), "new")).unwrap(), Value::from(rank));
    }
}

#[test]
fn a_draft_of_records_that_have_moved_is_stored_all_the_same() {
    let mut writer = scattered();
    let (reader, _) = attach(&mut writer);
    // The rank table has moved when the draft begins, and leads it to records in segments that come after that.
    let mut ranks = loop {
        match writer.next_move().unwrap() {
            NextMove::Ranks(ranks) => break ranks,
            NextMove::More => {}
            NextMove::Nothing => panic!("nothing moves"),
        }
    };
    let change = vec![Posted::new(Scope::GLOBAL, key("drafted"), Value::from(5u32))];
    let mut draft = writer.draft(Rank(0), change).unwrap();
    ranks.compose().unwrap();
    writer.reserve_move(&mut ranks).unwrap();
    ranks.write().unwrap();
    writer.finish_move(ranks).unwrap();
    move_all(&mut writer);
    draft.compose().unwrap();
    writer.reserve(&mut draft).unwrap();
    draft.write().unwrap();
    assert!(!writer.is_up_to_date(&draft));
    writer.finish(draft).unwrap();
    move_all(&mut writer);
    check(&writer, &reader);
    assert_eq!(reader.get(&Question::new(Rank(0), "drafted")).unwrap(), Value::from(5u32));
}
