//! Invitations to groups that pass the hub: their leaders and guests, for when the node of one is lost.
//!
//! The server of a guest that has died answers for it, and that of a leader calls an election. When a node is lost, its
//! server is lost as well, and the hub says it in its place: a guest there does not come, and an invitation of a leader
//! there ends for its guests, because only that server knew how far it had come.
//!
//! A guest may die once it has accepted, and be started anew before its leader hears of that and makes the group with
//! it: that group has lost a member. A guest that has accepted after it was started anew is one.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use instanton::data::{Nspace, Proc};

use super::census::Census;

/// Each invitation that is open, by group and leader.
#[derive(Default)]
pub struct Invitations(HashMap<(Nspace, Proc), Invitation>);

/// An open invitation.
#[derive(Default)]
struct Invitation {
    guests: BTreeSet<Proc>,
    /// Number of ends of processes before it, and before the acceptance of each guest that has ended since.
    since: u64,
    accepted: BTreeMap<Proc, u64>,
}

/// Consequence of the loss of a node for an invitation.
#[derive(Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its leader is lost, and these guests are not.
    Leader { group: Nspace, leader: Proc, guests: Vec<Proc> },
    /// A guest is lost.
    Guest { group: Nspace, guest: Proc, leader: Proc },
}

impl Invitations {
    /// A leader has invited these.
    pub fn invite(&mut self, group: &Nspace, leader: &Proc, guests: Vec<Proc>, census: &Census) {
        let new = || Invitation { since: census.ends(), ..Invitation::default() };
        self.0.entry((group.clone(), leader.clone())).or_insert_with(new).guests.extend(guests);
    }

    /// A guest accepts.
    pub fn accept(&mut self, group: &Nspace, guest: &Proc, census: &Census) {
        for (_, invitation) in self.0.iter_mut().filter(|((of, _), _)| of == group) {
            if census.is_left(guest) && census.end_of(guest).is_some_and(|end| end > invitation.since) {
                invitation.accepted.insert(guest.clone(), census.ends());
            }
        }
    }

    /// A process leads in place of one that has died.
    pub fn follow(&mut self, group: &Nspace, leader: &Proc) {
        let led: Vec<_> = self.0.extract_if(|(of, _), _| of == group).collect();
        for (_, mut invitation) in led {
            let of_leader = self.0.entry((group.clone(), leader.clone()));
            let of_leader =
                of_leader.or_insert_with(|| Invitation { since: invitation.since, ..Invitation::default() });
            of_leader.since = of_leader.since.min(invitation.since);
            of_leader.guests.append(&mut invitation.guests);
            of_leader.accepted.append(&mut invitation.accepted);
        }
    }

    /// A guest does not come.
    pub fn decline(&mut self, group: &Nspace, guest: &Proc) {
        self.0.retain(|(of, _), Invitation { guests, .. }| {
            let is_out = of == group && guests.remove(guest);
            !is_out || !guests.is_empty()
        });
    }

    /// A leader has given the group up for these guests; for all of them where none is named.
    pub fn dismiss(&mut self, group: &Nspace, leader: &Proc, guests: &[Proc]) {
        let key = (group.clone(), leader.clone());
        let Some(invitation) = self.0.get_mut(&key) else { return };
        guests.iter().for_each(|guest| _ = invitation.guests.remove(guest));
        if invitation.guests.is_empty() || guests.is_empty() {
            self.0.remove(&key);
        }
    }

    /// A group is complete. Returns the number of ends of processes before it had its members: one that has ended since is
    /// lost to it.
    pub fn complete(&mut self, group: &Nspace, leader: &Proc, members: &[Proc], census: &Census) -> u64 {
        let Some(invitation) = self.0.remove(&(group.clone(), leader.clone())) else { return census.ends() };
        let is_lost = |proc: &Proc| {
            let since = invitation.accepted.get(proc).copied().unwrap_or(invitation.since);
            census.end_of(proc).is_some_and(|end| end > since)
        };
        if members.iter().any(is_lost) { invitation.since } else { census.ends() }
    }

    /// A namespace is over.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.0.retain(|(_, leader), _| leader.nspace != *nspace);
    }

    /// A node is lost. Returns what comes of that.
    pub fn lose(&mut self, node: usize, census: &Census) -> Vec<Lost> {
        let is_there = |proc: &Proc| census.node_of(proc) == Some(node);
        let led = self.0.extract_if(|(_, leader), _| is_there(leader));
        let mut lost: Vec<Lost> = led
            .map(|((group, leader), Invitation { guests, .. })| {
                let guests = guests.into_iter().filter(|guest| *guest != leader && !is_there(guest)).collect();
                Lost::Leader { group, leader, guests }
            })
            .collect();
        for ((group, leader), Invitation { guests, .. }) in &mut self.0 {
            guests.retain(|guest| {
                let is_lost = is_there(guest);
                if is_lost {
                    lost.push(Lost::Guest { group: group.clone(), guest: guest.clone(), leader: leader.clone() });
                }
                !is_lost
            });
        }
        self.0.retain(|_, invitation| !invitation.guests.is_empty());
        lost.retain(|lost| !matches!(lost, Lost::Leader { guests, .. } if guests.is_empty()));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Rank;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    #[test]
    fn guests_and_leaders_are_lost_with_their_node() {
        let (mut census, mut invitations) = (Census::default(), Invitations::default());
        census.place(&proc(0).nspace, vec![0, 1, 1, 2]);
        let [one, other, done] = ["one", "other", "done"].map(|name| Nspace::new(name).unwrap());
        let all = || vec![proc(0), proc(1), proc(2), proc(3)];
        invitations.invite(&one, &proc(0), all(), &census);
        invitations.invite(&other, &proc(1), all(), &census);
        invitations.invite(&done, &proc(1), all(), &census);
        invitations.complete(&done, &proc(1), &all(), &census);
        invitations.dismiss(&one, &proc(0), &[proc(2)]);
        invitations.decline(&one, &proc(3));
        let mut lost = invitations.lose(1, &census);
        lost.sort_by_key(|lost| matches!(lost, Lost::Guest { .. }));
        let led = Lost::Leader { group: other.clone(), leader: proc(1), guests: vec![proc(0), proc(3)] };
        assert_eq!(lost, [led, Lost::Guest { group: one.clone(), guest: proc(1), leader: proc(0) }]);
        assert_eq!(invitations.lose(1, &census), []);
        invitations.follow(&one, &proc(3));
        let led = Lost::Leader { group: one.clone(), leader: proc(3), guests: vec![proc(0)] };
        assert_eq!(invitations.lose(2, &census), [led]);
        invitations.invite(&one, &proc(3), vec![proc(3)], &census);
        assert_eq!(invitations.lose(2, &census), [], "nobody else is invited");
        invitations.invite(&one, &proc(0), vec![proc(3)], &census);
        invitations.forget(&proc(0).nspace);
        assert!(invitations.0.is_empty());
    }
    #[test]
    fn a_guest_that_has_ended_since_its_invitation_is_lost_unless_it_has_accepted_anew() {
        for accepts_anew in [false, true] {
            let (mut census, mut invitations) = (Census::default(), Invitations::default());
            census.place(&proc(0).nspace, vec![0, 1, 1, 2]);
            census.has_ended(&proc(3));
            let (group, members) = (Nspace::new("group").unwrap(), [0, 1, 2].map(proc));
            invitations.invite(&group, &proc(0), members.to_vec(), &census);
            invitations.accept(&group, &proc(1), &census);
            census.has_ended(&proc(1));
            // On its way meanwhile.
            invitations.accept(&group, &proc(1), &census);
            census.expect(&proc(1));
            if accepts_anew {
                invitations.accept(&group, &proc(1), &census);
            }
            let since = invitations.complete(&group, &proc(0), &members, &census);
            assert_eq!(since, if accepts_anew { 2 } else { 1 });
        }
    }
}
