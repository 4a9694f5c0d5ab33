//! Data that leaves the node: read by another thread while its ranks go on.
use super::*;

/// Data that rank 0 posts in a round: one value that readers of this node see, and one that they do not.
fn posts(round: usize) -> [Posted; 2] {
    let value = |of: usize| Value::from(vec![of as u8; 1000 + 50 * round]);
    [Posted::new(Scope::GLOBAL, key("seen"), value(round)), Posted::new(Scope::REMOTE, key("unseen"), value(round + 7))]
}

fn in_order(mut entries: Vec<Posted>) -> Vec<Posted> {
    entries.sort_by(|a, b| a.key.as_bytes().cmp(b.key.as_bytes()));
    entries
}

#[test]
fn what_departs_is_what_was_there_whatever_its_rank_posts_meanwhile() {
    let mut writer = writer(&Limits::default());
    for rank in 0..2 {
        writer.update(Rank(rank), &posts(0)).unwrap();
    }
    let departure = writer.departure(&[Rank(0), Rank(1)], true).unwrap();
    // So often that blocks are used again, and records move to new segments.
    for round in 1..400 {
        writer.update(Rank(0), &posts(round)).unwrap();
    }
    let read = departure.read().unwrap();
    assert_eq!(read.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [Rank(0), Rank(1)]);
    assert!(read.into_iter().all(|(_, entries)| in_order(entries) == posts(0)));
    writer.end_departure(departure, true);
    assert!(in_order(writer.take_outbound_new(Rank(0)).unwrap()) == posts(399));
    assert_eq!(writer.take_outbound_new(Rank(1)).unwrap(), []);
}

#[test]
fn what_was_not_read_is_new_again_and_its_memory_is_used_again() {
    let mut writer = writer(&Limits::default());
    writer.update(Rank(0), &posts(9)).unwrap();
    let same_often = |writer: &mut JobWriter| (0..2000).for_each(|_| writer.update(Rank(0), &posts(9)).unwrap());
    same_often(&mut writer);
    let before = writer.stats().bytes;
    let departure = writer.departure(&[Rank(0)], true).unwrap();
    same_often(&mut writer);
    let held = writer.stats();
    assert!(held.bytes > before, "{held:?}");
    writer.end_departure(departure, false);
    let new = writer.take_outbound_new(Rank(0)).unwrap();
    assert_eq!(new.len(), 2);
    same_often(&mut writer);
    assert!(writer.stats().bytes <= held.bytes, "{:?} after {held:?}", writer.stats());
}
