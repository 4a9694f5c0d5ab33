//! Seats: the node, and the object of it, that each rank is mapped to, before anything is bound.
//!
//! All nodes are alike: each has the whole machine's objects. Where nodes were given slots, one is filled after the
//! other, and what exceeds all slots is dealt out evenly; otherwise all nodes get the same number of ranks. The mapping
//! makes the seats in an order; the [`Order`] then numbers them.
use std::collections::{BTreeMap, VecDeque};

use super::machine::Kind;
use super::policy::{Mapping, Order, Policy, Turn};

/// Nodes that ranks are mapped to.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a> {
    /// Number of nodes.
    pub count: u32,
    /// Slots of each, where somebody said so; a node without one gets no rank.
    pub slots: Option<&'a [u32]>,
}

/// The seat of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    pub node: u32,
    /// Number of the object among those that are mapped to.
    pub object: usize,
}

impl Nodes<'_> {
    /// One node.
    #[cfg(test)]
    pub const ONE: Nodes<'static> = Nodes { count: 1, slots: None };

    /// The number of ranks on each node.
    fn shares(self, ranks: u32) -> Vec<u32> {
        let Some(slots) = self.slots else {
            let share = |node| u64::from(ranks) * node / u64::from(self.count);
            // The first nodes have one more, where it does not come out even.
            let mut shares: Vec<u32> =
                (0..u64::from(self.count)).map(|node| (share(node + 1) - share(node)) as u32).collect();
            shares.reverse();
            return shares;
        };
        let mut left = ranks;
        let mut shares: Vec<u32> = Vec::new();
        for &slots in slots {
            let share = slots.min(left);
            left -= share;
            shares.push(share);
        }
        let open: Vec<usize> = (0..slots.len()).filter(|node| slots[*node] > 0).collect();
        open.iter().cycle().take(left as usize).for_each(|node| shares[*node] += 1);
        shares
    }

    /// One node after the other, until each has its share.
    fn in_turn(self, ranks: u32) -> Vec<u32> {
        if self.slots.is_none() {
            return (0..ranks).map(|rank| rank % self.count).collect();
        }
        let mut left = self.shares(ranks);
        let mut all = Vec::new();
        while all.len() < ranks as usize {
            for (left, node) in left.iter_mut().zip(0..) {
                if *left > 0 {
                    *left -= 1;
                    all.push(node);
                }
            }
        }
        all
    }

    /// Nodes that may have ranks.
    fn open(self) -> Vec<u32> {
        (0..self.count).filter(|node| self.slots.is_none_or(|slots| slots[*node as usize] > 0)).collect()
    }
}

/// Seats so many ranks on nodes that have so many objects each.
///
/// # Errors
/// A line that says how many there is room for.
pub fn seats(policy: &Policy, ranks: u32, nodes: Nodes<'_>, objects: usize) -> Result<Vec<Seat>, String> {
    let mapped = match policy.mapping {
        Mapping::PerObject(number, kind) => {
            let (open, number) = (nodes.open(), number as usize);
            let most = number * objects * open.len();
            if ranks as usize > most {
                return Err(format!(
                    "ppr:{number}:{} makes room for {most} ranks here, and {ranks} are asked for; leave out -n",
                    kind.name()
                ));
            }
            let object = |rank: usize| rank / number;
            let seat = |rank| Seat { node: open[object(rank) / objects], object: object(rank) % objects };
            (0..ranks as usize).map(seat).collect()
        }
        Mapping::By(Kind::Node) => nodes.in_turn(ranks).into_iter().map(|node| Seat { node, object: 0 }).collect(),
        _ if policy.spans => {
            let open = nodes.open();
            let seat = |rank: usize| Seat { node: open[rank / objects % open.len()], object: rank % objects };
            (0..ranks as usize).map(seat).collect()
        }
        _ => {
            let on =
                |(share, node): (u32, u32)| (0..share as usize).map(move |rank| Seat { node, object: rank % objects });
            nodes.shares(ranks).into_iter().zip(0..).flat_map(on).collect()
        }
    };
    Ok(numbered(mapped, policy.order))
}

/// Puts seats into the order of their ranks.
fn numbered(mut seats: Vec<Seat>, order: Order) -> Vec<Seat> {
    /// Numbers each seat among those of the same key that come before it.
    fn count<K: Ord>(seats: &[Seat], key: impl Fn(&Seat) -> K) -> Vec<usize> {
        let mut known = BTreeMap::new();
        let mut next = |seat| {
            let count = known.entry(key(seat)).or_insert(0);
            *count += 1;
            *count
        };
        seats.iter().map(&mut next).collect()
    }
    let sort = |seats: Vec<Seat>, rounds: Vec<usize>| {
        let mut all: Vec<(usize, Seat)> = rounds.into_iter().zip(seats).collect();
        all.sort_by_key(|(round, seat)| (*round, seat.node, seat.object));
        all.into_iter().map(|(_, seat)| seat).collect()
    };
    match order {
        // Those objects are not the mapped ones: `numbered_over` goes through them.
        Order::Mapped | Order::Objects(..) => {}
        Order::Slot => seats.sort_by_key(|seat| seat.node),
        Order::Fill => seats.sort_by_key(|seat| (seat.node, seat.object)),
        Order::Node => {
            let rounds = count(&seats, |seat| seat.node);
            return sort(seats, rounds);
        }
        Order::Span => {
            let rounds = count(&seats, |seat| (seat.node, seat.object));
            return sort(seats, rounds);
        }
    }
    seats
}

/// Numbers seats over objects of another kind than those that are mapped to: one on each in turn. `overlapping` has, for
/// each of a node's objects of that kind, the mapped ones that share units with it.
pub fn numbered_over(seats: Vec<Seat>, turn: Turn, nodes: u32, overlapping: &[Vec<usize>]) -> Vec<Seat> {
    let of_node = |node| overlapping.iter().map(move |mapped| (node, mapped));
    let rounds: Vec<Vec<(u32, &Vec<usize>)>> = match turn {
        Turn::Node => (0..nodes).map(|node| of_node(node).collect()).collect(),
        Turn::Span => vec![(0..nodes).flat_map(of_node).collect()],
        Turn::Fill => (0..nodes).flat_map(of_node).map(|object| vec![object]).collect(),
    };
    // Seats of each node and mapped object, in the order in which they were mapped.
    let mut waiting: BTreeMap<(u32, usize), VecDeque<usize>> = BTreeMap::new();
    for (number, seat) in seats.iter().enumerate() {
        waiting.entry((seat.node, seat.object)).or_default().push_back(number);
    }
    let mut next = |node: u32, mapped: &[usize]| {
        let first = |object: &usize| Some((*waiting.get(&(node, *object))?.front()?, *object));
        let (number, object) = mapped.iter().filter_map(first).min()?;
        waiting.get_mut(&(node, object))?.pop_front();
        Some(seats[number])
    };
    let mut all = Vec::with_capacity(seats.len());
    for round in rounds {
        loop {
            let before = all.len();
            all.extend(round.iter().filter_map(|(node, mapped)| next(*node, mapped)));
            if all.len() == before {
                break;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Node and object of each rank, as `0.1`.
    fn seated(map: &str, order: &str, ranks: u32, nodes: Nodes<'_>, objects: usize) -> Result<String, String> {
        let mut policy = Policy::default();
        policy.map_by(map).unwrap();
        if !order.is_empty() {
            policy.rank_by(order).unwrap();
        }
        let seats = seats(&policy, ranks, nodes, objects)?;
        Ok(seats.iter().map(|seat| format!("{}.{}", seat.node, seat.object)).collect::<Vec<_>>().join(" "))
    }

    const THREE: Nodes<'static> = Nodes { count: 3, slots: None };

    #[test]
    fn nodes_get_blocks_of_one_size_or_what_their_slots_hold() {
        assert_eq!(seated("slot", "", 4, THREE, 1).unwrap(), "0.0 0.0 1.0 2.0");
        let slots = Nodes { slots: Some(&[1, 0, 2]), ..THREE };
        assert_eq!(seated("slot", "", 3, slots, 1).unwrap(), "0.0 2.0 2.0");
        assert_eq!(seated("slot", "", 5, slots, 1).unwrap(), "0.0 0.0 2.0 2.0 2.0");
        assert_eq!(seated("slot", "", 2, THREE, 1).unwrap(), "0.0 1.0");
    }

    #[test]
    fn nodes_are_gone_through_in_turn() {
        assert_eq!(seated("node", "", 4, THREE, 1).unwrap(), "0.0 1.0 2.0 0.0");
        let slots = Nodes { slots: Some(&[1, 0, 3]), ..THREE };
        assert_eq!(seated("node", "", 4, slots, 1).unwrap(), "0.0 2.0 2.0 2.0");
    }

    #[test]
    fn objects_are_gone_through_on_each_node_or_over_all_of_them() {
        let two = Nodes { count: 2, slots: None };
        assert_eq!(seated("package", "", 6, two, 2).unwrap(), "0.0 0.1 0.0 1.0 1.1 1.0");
        assert_eq!(seated("package:span", "", 6, two, 2).unwrap(), "0.0 0.1 1.0 1.1 0.0 0.1");
        assert_eq!(seated("ppr:2:package", "", 5, two, 2).unwrap(), "0.0 0.0 0.1 0.1 1.0");
        assert!(seated("ppr:1:package", "", 5, two, 2).unwrap_err().contains("room for 4 ranks"));
    }

    #[test]
    fn seats_are_numbered_in_their_order() {
        let two = Nodes { count: 2, slots: None };
        assert_eq!(seated("node", "slot", 4, two, 1).unwrap(), "0.0 0.0 1.0 1.0");
        assert_eq!(seated("slot", "node", 4, two, 1).unwrap(), "0.0 1.0 0.0 1.0");
        assert_eq!(seated("package", "fill", 6, two, 2).unwrap(), "0.0 0.0 0.1 1.0 1.0 1.1");
        assert_eq!(seated("package", "span", 6, two, 2).unwrap(), "0.0 0.1 1.0 1.1 0.0 1.0");
    }
}
