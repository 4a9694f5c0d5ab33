//! Requests to the host for what processes of other nodes have posted: each once for all who ask at the time. A caller
//! that asks while one is under way finds in its answer what it seeks, or has the host asked anew: the process may have
//! posted that since.
//!
//! A caller that waits for a key that another node's process has yet to post has the host wait there for it. The node
//! of that process keeps so many such requests, of all who ask, and answers others at once. So each process that asks
//! has a few of them at a time about another one. Keys that it waits for beside those are found as well: all that the
//! other one has posted is asked for again after a pause, as long as somebody waits.
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::Until;
use crate::by_number::ByNumber;
use crate::data::Proc;
use crate::server::ctx::Ctx;
use crate::server::ctx::timers::{Deadline, TimerId};

/// Keys of one process that the host waits for, for each who asks.
pub const MOST_KEYS: usize = 8;
/// Pause before all is asked for again, for the first time; each is twice as long, up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Request to the host.
#[derive(Debug)]
struct Fetch {
    which: (Proc, Until),
    /// The process whose wait for a key this is.
    by: Option<Proc>,
}

/// A process that is asked for again.
#[derive(Debug)]
struct Again {
    pause: Duration,
    /// The end of the pause, while there is one, and its number.
    due: Option<(u64, TimerId)>,
}

/// All requests under way.
#[derive(Debug, Default)]
pub struct Fetches {
    by_number: ByNumber<u64, Fetch>,
    numbers: HashMap<(Proc, Until), u64>,
    /// Number of keys that the host waits for, by who asks and whom they are of.
    keys: BTreeMap<(Proc, Proc), usize>,
    again: BTreeMap<Proc, Again>,
}

impl Fetches {
    /// Returns whether this is asked for already.
    pub fn is_under_way(&self, proc: &Proc, until: &Until) -> bool {
        self.numbers.contains_key(&(proc.clone(), until.clone()))
    }

    /// Notes a request of that number, of a process that asks. Returns false where that has as many as it may.
    pub fn begin(&mut self, number: u64, by: Option<&Proc>, proc: &Proc, until: &Until) -> bool {
        let by = by.filter(|_| matches!(until, Until::Key(..))).cloned();
        if let Some(by) = &by {
            let keys = self.keys.entry((by.clone(), proc.clone())).or_default();
            if *keys >= MOST_KEYS {
                return false;
            }
            *keys += 1;
        }
        let which = (proc.clone(), until.clone());
        self.numbers.insert(which.clone(), number);
        self.by_number.insert(number, Fetch { which, by });
        true
    }

    /// A request has its answer. Returns what it was about; nothing where nobody waits for it any more.
    pub fn end(&mut self, number: u64) -> Option<Until> {
        let Fetch { which, by } = self.by_number.remove(&number)?;
        self.numbers.remove(&which);
        let (proc, until) = which;
        if let Some(by) = by {
            let pair = (by, proc);
            if let Some(keys) = self.keys.get_mut(&pair) {
                *keys -= 1;
                if *keys == 0 {
                    self.keys.remove(&pair);
                }
            }
        }
        Some(until)
    }

    /// Requests about these processes are of no use any more.
    pub fn forget(&mut self, is_meant: impl Fn(&Proc) -> bool) {
        let numbers: Vec<u64> = self.numbers.iter().filter(|((of, _), _)| is_meant(of)).map(|(_, all)| *all).collect();
        numbers.into_iter().for_each(|number| _ = self.end(number));
    }

    /// A process is asked for again after a pause of that number.
    pub fn ask_again(&mut self, cx: &mut Ctx, proc: &Proc, number: u64) {
        let again = self.again.entry(proc.clone()).or_insert(Again { pause: PAUSE, due: None });
        if again.due.is_none() {
            again.due = Some((number, cx.set_deadline(again.pause, Deadline::FetchAgain(number))));
            again.pause = LONGEST_PAUSE.min(again.pause * 2);
        }
    }

    /// The pause of that number is over. Returns the process that it was about.
    pub fn is_due(&mut self, number: u64) -> Option<Proc> {
        let is_it = |again: &Again| again.due.is_some_and(|(of, _)| of == number);
        let (proc, again) = self.again.iter_mut().find(|(_, again)| is_it(again))?;
        again.due = None;
        Some(proc.clone())
    }

    /// Nobody waits for anything of a process.
    pub fn nobody_waits(&mut self, cx: &mut Ctx, proc: &Proc) {
        if let Some(again) = self.again.remove(proc) {
            cx.timers.cancel(again.due.map(|(_, timer)| timer));
        }
    }

    /// Returns the number of all that is known of requests.
    pub fn len(&self) -> usize {
        self.by_number.len() + self.numbers.len() + self.keys.len() + self.again.len()
    }
}
