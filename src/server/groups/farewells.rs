//! Farewells: the groups of a member that has died hear of it, and those whose last member here it was are forgotten.
//!
//! A job may be in tens of thousands of groups. They are gone through in slices, by name.
use super::floor::Floor;
use super::message::Message;
use crate::data::{Nspace, Proc};
use crate::message::numbers::NumberMap;
use crate::server::ctx::slices::Slice;

/// Groups and places of members that are gone through in one slice.
const SLICE: usize = 512;

/// A process that has died.
#[derive(Debug)]
struct Farewell {
    proc: Proc,
    /// The last group of its job that has heard of it.
    after: Option<Nspace>,
}

/// Processes that have died, and of which not all groups have heard.
#[derive(Debug, Default)]
pub struct Farewells {
    under_way: NumberMap<u64, Farewell>,
    last: u64,
}

impl Farewells {
    /// A process has died.
    pub fn begin(&mut self, floor: &mut Floor<'_>, proc: &Proc) {
        self.go_on(floor, Farewell { proc: proc.clone(), after: None });
    }

    /// Goes through some more groups of one.
    pub fn slice(&mut self, floor: &mut Floor<'_>, number: u64) {
        if let Some(farewell) = self.under_way.remove(&number) {
            self.go_on(floor, farewell);
        }
    }

    fn go_on(&mut self, floor: &mut Floor<'_>, mut farewell: Farewell) {
        let mut left = SLICE;
        while let Some((id, places)) = floor.registry.next_of(&farewell.proc.nspace, farewell.after.as_ref()) {
            if left == 0 {
                self.last += 1;
                self.under_way.insert(self.last, farewell);
                return floor.cx.slice(Slice::Farewell(self.last));
            }
            left = left.saturating_sub(1 + places);
            let others = floor.registry.to_notify(&id, &farewell.proc);
            floor.tell(&id, &farewell.proc, others, &Message::MemberFailed, (None, None));
            floor.registry.member_gone(floor.jobs, &id, &farewell.proc);
            farewell.after = Some(id);
        }
    }
}
