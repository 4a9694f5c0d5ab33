//! Placement of a job's ranks on nodes (`PMI_process_mapping`): blocks of first node, nodes and ranks a node, in rank
//! order, repeated until all ranks are placed.
use std::fmt::Write;

use crate::data::{InfoList, keys};
use crate::message::door::JobInformation;

/// Longest text that clients take.
const LONGEST: usize = 1023;

/// Some nodes in a row with as many ranks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: u32,
    nodes: u32,
    ranks: u32,
}

/// Returns the placement of a job as text; none where it cannot be known, or is longer than clients take.
pub fn of(job: &dyn JobInformation) -> Option<Vec<u8>> {
    let mut homes = vec![None; job.ranks() as usize];
    let mut node = 0;
    let mut has_own = false;
    let read = job.of_nodes(true, &mut |said| {
        let mut place = |rank: usize| homes.get_mut(rank).into_iter().for_each(|home| *home = Some(node));
        match said.find(keys::LOCAL_PEERS).and_then(|info| info.value.as_str()) {
            Some(list) => list.split(',').filter_map(|rank| rank.parse().ok()).for_each(place),
            // A long list of our own node stands elsewhere.
            None if !std::mem::replace(&mut has_own, true) => {
                job.local().iter().for_each(|rank| place(rank.0 as usize))
            }
            None => {}
        }
        node += 1;
        std::ops::ControlFlow::Continue(())
    });
    read.ok()?;
    text(&homes.into_iter().collect::<Option<Vec<u32>>>()?)
}

/// The text for these homes of ranks.
fn text(homes: &[u32]) -> Option<Vec<u8>> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in homes.chunk_by(|a, b| a == b) {
        let (node, ranks) = (run[0], run.len() as u32);
        match blocks.last_mut() {
            Some(last) if last.first + last.nodes == node && last.ranks == ranks => last.nodes += 1,
            _ => blocks.push(Block { first: node, nodes: 1, ranks }),
        }
    }
    // A round that is repeated stands once; the last one may be cut short.
    let round = (1..=blocks.len()).find(|&count| is_round(&blocks[..count], homes))?;
    let mut text = "(vector".to_owned();
    for Block { first, nodes, ranks } in &blocks[..round] {
        // It is written into memory.
        let _ = write!(text, ",({first},{nodes},{ranks})");
        if text.len() > LONGEST {
            return None;
        }
    }
    text.push(')');
    (text.len() <= LONGEST).then(|| text.into_bytes())
}

/// Returns whether these blocks, over and over, place the ranks so.
fn is_round(blocks: &[Block], homes: &[u32]) -> bool {
    let nodes = |block: &Block| block.first..block.first + block.nodes;
    let placed = blocks
        .iter()
        .cycle()
        .flat_map(|block| nodes(block).flat_map(|node| std::iter::repeat_n(node, block.ranks as usize)));
    homes.iter().copied().eq(placed.take(homes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_as_short_as_they_can_be() {
        for (homes, expected) in [
            (&[0, 0, 0, 0][..], "(vector,(0,1,4))"),
            (&[0, 0, 1, 1], "(vector,(0,2,2))"),
            (&[0, 1, 0, 1], "(vector,(0,2,1))"),
            (&[0, 1, 0], "(vector,(0,2,1))"),
            (&[0, 0, 1], "(vector,(0,1,2),(1,1,1))"),
            (&[1, 1, 0], "(vector,(1,1,2),(0,1,1))"),
            (&[0], "(vector,(0,1,1))"),
        ] {
            assert_eq!(text(homes).map(|text| String::from_utf8(text).unwrap()).as_deref(), Some(expected));
        }
        let odd: Vec<u32> = (0..1000).map(|rank| rank * rank % 7 * 3).collect();
        assert!(text(&odd).is_none_or(|text| text.len() <= LONGEST));
    }
}
