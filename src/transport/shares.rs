//! Shares: the time of the control thread that each process has had of late, and who lets others go first.
//!
//! A turn of a connection is short, and turns go round. That alone would leave one that always has something to ask
//! with most of the time. So the time that a process takes is counted over two short windows. A process that has taken
//! much, and more than twice as much as anybody else, is *held* for four times as long as its last turns took, provided
//! that others are served meanwhile: they keep four fifths of the time. A process that is alone is never held. A hold
//! is no shorter for time in which the control thread has waited for a processor, as it does on a machine that has more
//! to do than it can: others were not served then either.
//!
//! A few arrivals at fences count little, whoever they end the fence for: the last of many does the work of all. All
//! else counts with the [processor time](crate::sys::stopwatch) that it takes, that of its answer included.
//!
//! Time of threads for a process counts as its own, and so do its answers, but an event counts for its raiser. A
//! held process is not sent much meanwhile.
//!
//! All connections of one process count together, by whatever doors they come, and so do all tools of a user. Those that
//! have not said who they are count as one process, and so do the processes of all jobs that a job has led to: who starts
//! jobs gets no more time by that. A share has a *head* then, which the time counts for and which is held.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use instanton_layout::sync::{AtomicBool, Ordering};

use crate::account::Descent;
use crate::data::Proc;
use crate::message::Request;
use crate::message::numbers::NumberMap;
use crate::sys::process;

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(8);
/// Time in two windows that nobody is held for.
const FREE: Duration = Duration::from_millis(1);
/// Time that is counted without a look at the clock.
const UNSETTLED: Duration = Duration::from_micros(100);
/// Time, arrivals at fences and connections up to which a turn is cheap.
const CHEAP: (Duration, usize, usize) = (Duration::from_micros(50), 4, 2);
/// Time that it may take besides for each process that a collective has ended for.
const ENDING: Duration = Duration::from_micros(30);
/// Time that an arrival in a cheap turn is counted with.
const JOINT: Duration = Duration::from_micros(2);
/// Time that others have for each unit of time that a held process has taken.
const OTHERS: u32 = 4;

/// Number of a process among those that have connections.
pub type Owner = u64;

/// All connections that have not said who they are.
pub const STRANGERS: Owner = 0;

/// Time that one process has taken, or several that count as one.
#[derive(Debug, Default)]
struct Share {
    proc: Option<Proc>,
    /// The jobs whose processes it is the head of.
    descent: Option<Descent>,
    /// The share that its time counts for, where that is not itself.
    head: Option<Owner>,
    /// True for that of all tools of a user, which stays when none is left: others come.
    is_of_tools: bool,
    /// Connections of its process, or processes that it is the head of.
    connections: usize,
    /// Time that is not in a window yet.
    unsettled: Duration,
    /// Number of the latest window in which it was served, its time in that, and in the one before.
    window: u64,
    used: Duration,
    used_before: Duration,
    /// Number of its own turns, now and when it was settled last.
    turns: u64,
    settled: u64,
    /// Number of the turns of others when it was settled last, and whether they had one before that turn.
    others: u64,
    are_others_served: bool,
    /// Connections that wait for the end of a hold, each behind the number of its door.
    waiting: VecDeque<(u8, u64)>,
    is_held: bool,
}

impl Share {
    /// Returns the time taken in a window and the one before.
    fn used_by(&self, window: u64) -> Duration {
        match window - self.window {
            0 => self.used + self.used_before,
            1 => self.used,
            _ => Duration::ZERO,
        }
    }

    fn use_in(&mut self, window: u64, time: Duration) {
        if window > self.window {
            self.used_before = if window == self.window + 1 { self.used } else { Duration::ZERO };
            (self.window, self.used) = (window, Duration::ZERO);
        }
        self.used += time;
    }
}

/// Shares of all processes, which the doors of a server have in common. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Shares(Arc<Common>);

#[derive(Debug)]
struct Common {
    table: Mutex<Table>,
    /// True if a process is held, or a door has not taken connections yet that have waited. Only the control thread
    /// changes it, and all others that look are before it in time.
    has_held: AtomicBool,
}

/// Shares by process.
#[derive(Debug)]
struct Table {
    start: Instant,
    numbers: HashMap<Proc, Owner>,
    /// Numbers of the tools of each user.
    tools: BTreeMap<u32, Owner>,
    /// Numbers of heads, by the jobs whose processes they stand for.
    descents: BTreeMap<Descent, Owner>,
    shares: NumberMap<Owner, Share>,
    last: Owner,
    /// Number of all turns.
    turns: u64,
    held: Vec<Hold>,
    /// Tells for how long the control thread has waited for processors so far, where that is known.
    waited: fn() -> Option<Duration>,
    /// Connections of each door whose holds are over.
    released: BTreeMap<u8, VecDeque<u64>>,
}

/// Hold of a process.
#[derive(Debug)]
struct Hold {
    owner: Owner,
    until: Instant,
    /// Time that the control thread had waited for processors when that was looked at last.
    waited: Option<Duration>,
}

impl Hold {
    /// Makes it longer by the time that the control thread has waited for processors meanwhile.
    fn lengthen(&mut self, waited: Option<Duration>) {
        let before = std::mem::replace(&mut self.waited, waited);
        self.until += waited.zip(before).map_or(Duration::ZERO, |(waited, before)| waited.saturating_sub(before));
    }
}

/// Requests of one turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Arrivals at fences: the last of many does the work of all.
    pub joint: usize,
    /// Requests of the process's own.
    pub own: usize,
}

impl Asked {
    /// Returns whether these are a few arrivals and nothing else.
    pub fn is_joint(self) -> bool {
        self.own == 0 && (1..=CHEAP.1).contains(&self.joint)
    }

    /// Returns the time that the arrivals are counted with, where they are cheap.
    pub fn joint_time(self) -> Duration {
        JOINT * self.joint as u32
    }

    /// Counts a request.
    pub fn count(&mut self, request: &Request) {
        match request {
            Request::Fence { .. } | Request::Meet { .. } => self.joint += 1,
            _ => self.own += 1,
        }
    }
}

impl Shares {
    /// Nobody has taken anything yet.
    pub fn new(now: Instant) -> Self {
        let table = Table {
            start: now,
            numbers: HashMap::new(),
            tools: BTreeMap::new(),
            descents: BTreeMap::new(),
            shares: NumberMap::from_iter([(STRANGERS, Share::default())]),
            last: STRANGERS,
            turns: 0,
            held: Vec::new(),
            waited: process::thread_wait,
            released: BTreeMap::new(),
        };
        Shares(Arc::new(Common { table: Mutex::new(table), has_held: AtomicBool::new(false) }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut table);
        self.0.has_held.store(!table.held.is_empty() || !table.released.is_empty(), Ordering::Relaxed);
        result
    }

    /// Returns whether a process may be held, or connections wait whose hold is over.
    fn has_held(&self) -> bool {
        self.0.has_held.load(Ordering::Relaxed)
    }

    /// Returns the number of a process that has one connection more, and whose job another one has led to where a
    /// descent is given.
    pub fn join(&self, proc: &Proc, descent: Option<Descent>) -> Owner {
        self.with(|table| table.join(proc, descent))
    }

    /// Returns the number of the tools of a user, of which there is one connection more: a tool takes what name it likes.
    pub fn join_tools(&self, uid: u32) -> Owner {
        self.with(|table| table.join_tools(uid))
    }

    /// Returns the number of a process that has connections.
    pub fn owner(&self, proc: &Proc) -> Option<Owner> {
        self.with(|table| table.numbers.get(proc).copied())
    }

    /// Counts a connection less.
    pub fn leave(&self, owner: Owner) {
        self.with(|table| table.leave(owner));
    }

    /// Returns whether a process is held.
    pub fn is_held(&self, owner: Owner) -> bool {
        let is_held = |table: &mut Table| table.head_mut(owner).is_some_and(|(_, share)| share.is_held);
        self.has_held() && self.with(is_held)
    }

    /// Has a connection of a door wait for the end of its process's hold.
    pub fn wait(&self, owner: Owner, door: u8, connection: u64) {
        self.with(|table| {
            if let Some((_, share)) = table.head_mut(owner) {
                share.waiting.push_back((door, connection));
            }
        });
    }

    /// Returns the time at which the next hold ends.
    pub fn next_release(&self) -> Option<Instant> {
        if self.has_held() { self.with(|table| table.next_release()) } else { None }
    }

    /// Returns the time at which a door has connections to take whose hold is over, if there will be some.
    pub fn next_turn(&self, door: u8) -> Option<Instant> {
        let next = |table: &mut Table| match table.released.contains_key(&door) {
            true => Some(Instant::now()),
            false => table.next_release(),
        };
        if self.has_held() { self.with(next) } else { None }
    }

    /// Ends the holds that are over, and takes the connections of a door that have waited for that.
    pub fn release(&self, now: Instant, door: u8) -> VecDeque<u64> {
        if self.has_held() { self.with(|table| table.release(now, door)) } else { VecDeque::new() }
    }

    /// Counts a turn, behind time of another process.
    pub fn begin(&self, owner: Owner, (other, time): (Owner, Duration)) {
        self.with(|table| {
            table.spend(other, time);
            table.begin(owner);
        });
    }

    /// Returns whether so much time for these requests is not put down to their process, if collectives have ended for so
    /// many by that.
    pub fn is_cheap(&self, owner: Owner, asked: Asked, time: Duration, ended: usize) -> bool {
        let limit = CHEAP.0 + ENDING * ended as u32;
        let connections = || self.with(|table| table.shares.get(&owner).map_or(0, |share| share.connections));
        asked.is_joint() && time <= limit && owner != STRANGERS && connections() <= CHEAP.2
    }

    /// Counts time that a process has taken.
    pub fn spend(&self, owner: Owner, time: Duration) {
        if !time.is_zero() {
            self.with(|table| table.spend(owner, time));
        }
    }
}

impl Table {
    fn new_owner(&mut self) -> Owner {
        self.last += 1;
        self.last
    }

    fn join(&mut self, proc: &Proc, descent: Option<Descent>) -> Owner {
        let owner = match self.numbers.get(proc) {
            Some(owner) => *owner,
            None => {
                let owner = self.new_owner();
                let head = descent.map(|descent| self.join_head(descent));
                self.numbers.insert(proc.clone(), owner);
                self.shares.insert(owner, Share { proc: Some(proc.clone()), head, ..Share::default() });
                owner
            }
        };
        self.shares.entry(owner).or_default().connections += 1;
        owner
    }

    /// Returns the number of the head of a process that is new.
    fn join_head(&mut self, descent: Descent) -> Owner {
        let head = match self.descents.get(&descent) {
            Some(head) => *head,
            None => self.new_owner(),
        };
        self.descents.insert(descent, head);
        let share = self.shares.entry(head).or_default();
        share.descent = Some(descent);
        share.connections += 1;
        head
    }

    /// The share that a process's time counts for, with its number.
    fn head_mut(&mut self, owner: Owner) -> Option<(Owner, &mut Share)> {
        let head = self.shares.get(&owner)?.head.unwrap_or(owner);
        self.shares.get_mut(&head).map(|share| (head, share))
    }

    fn join_tools(&mut self, uid: u32) -> Owner {
        let owner = match self.tools.get(&uid) {
            Some(owner) => *owner,
            None => self.new_owner(),
        };
        self.tools.insert(uid, owner);
        let share = self.shares.entry(owner).or_default();
        share.connections += 1;
        share.is_of_tools = true;
        owner
    }

    fn leave(&mut self, owner: Owner) {
        let Some(share) = self.shares.get_mut(&owner).filter(|_| owner != STRANGERS) else { return };
        share.connections -= 1;
        if share.connections > 0 || share.is_of_tools {
            return;
        }
        self.turns -= share.turns;
        share.proc.take().into_iter().for_each(|proc| _ = self.numbers.remove(&proc));
        share.descent.into_iter().for_each(|descent| _ = self.descents.remove(&descent));
        let head = share.head;
        self.shares.remove(&owner);
        self.held.retain(|hold| hold.owner != owner);
        head.into_iter().for_each(|head| self.leave(head));
    }

    fn next_release(&self) -> Option<Instant> {
        self.held.iter().map(|hold| hold.until).min()
    }

    fn release(&mut self, now: Instant, door: u8) -> VecDeque<u64> {
        let is_over = |hold: &Hold| hold.until <= now;
        if self.held.iter().any(is_over) {
            let waited = (self.waited)();
            self.held.iter_mut().filter(|hold| is_over(hold)).for_each(|hold| hold.lengthen(waited));
        }
        while let Some(over) = self.held.iter().position(is_over) {
            let Hold { owner, .. } = self.held.swap_remove(over);
            let Some(share) = self.shares.get_mut(&owner) else { continue };
            share.is_held = false;
            for (door, connection) in std::mem::take(&mut share.waiting) {
                self.released.entry(door).or_default().push_back(connection);
            }
        }
        self.released.remove(&door).unwrap_or_default()
    }

    fn begin(&mut self, owner: Owner) {
        if let Some((_, share)) = self.head_mut(owner) {
            share.turns += 1;
            self.turns += 1;
        }
    }

    fn spend(&mut self, owner: Owner, time: Duration) {
        let Some((head, share)) = self.head_mut(owner) else { return };
        share.unsettled += time;
        if share.unsettled >= UNSETTLED {
            self.settle(head, Instant::now());
        }
    }

    /// Puts the time of a head, or of a process that has none, into its window, and holds it where that is too much.
    #[cold]
    fn settle(&mut self, owner: Owner, now: Instant) {
        let window = (now.saturating_duration_since(self.start).as_micros() / WINDOW.as_micros()) as u64;
        let turns = self.turns;
        let Some(share) = self.shares.get_mut(&owner) else { return };
        let time = std::mem::take(&mut share.unsettled);
        share.use_in(window, time);
        if share.settled != share.turns {
            let others = turns - share.turns;
            share.are_others_served = std::mem::replace(&mut share.others, others) != others;
            share.settled = share.turns;
        }
        let used = share.used_by(window);
        if share.is_held {
            // The consequences of a turn are counted behind it, and others are not served while they are worked at.
            let hold = self.held.iter_mut().find(|hold| hold.owner == owner);
            return hold.into_iter().for_each(|hold| hold.until += (OTHERS + 1) * time);
        }
        if used <= FREE || !share.are_others_served {
            return;
        }
        let most = self.shares.iter().filter(|(other, _)| **other != owner).map(|(_, share)| share.used_by(window));
        if used <= 2 * most.max().unwrap_or_default() {
            return;
        }
        self.held.push(Hold { owner, until: now + OTHERS * time, waited: (self.waited)() });
        if let Some(share) = self.shares.get_mut(&owner) {
            share.is_held = true;
        }
    }
}

#[cfg(test)]
impl Shares {
    /// Has the control thread wait for processors as this says.
    pub fn wait_as(&self, waited: fn() -> Option<Duration>) {
        self.with(|table| table.waited = waited);
    }

    /// Returns the time that is not in a window yet.
    pub fn unsettled(&self, owner: Owner) -> Duration {
        self.with(|table| table.shares[&owner].unsettled)
    }

    /// Counts a turn that takes no time.
    pub fn begin_turn(&self, owner: Owner) {
        self.with(|table| table.begin(owner));
    }
}

#[cfg(test)]
mod tests;
