//! Sweeps: look-ups that one event is about, looked at again or ended so many at a time.
//!
//! Many thousands may wait for one process, or one may have asked as many. An event about them is kept as a sweep,
//! which goes through them in the order of the index. Sweeps about one job have their turns one after another, so what is
//! posted before a process ends is found by whoever waits for it; jobs take turns, look-up by look-up, so that the many
//! of one do not go before the few of another. Look-ups that come after an end know of it and are left out;
//! what is posted again before anybody has looked is looked at once.
use std::collections::{BTreeSet, VecDeque};

use super::question::Found;
use super::{ByProc, Gets, Until};
use crate::data::{Key, Nspace, Proc, Rank, Status};
use crate::server::ctx::Ctx;
use crate::server::ctx::slices::Slice;
use crate::server::jobs::Jobs;

/// Look-ups that one step is over with, where their answers are small.
pub const SLICE: usize = 256;
/// Look-ups after which others of the same step wait for a slice.
const FEW: usize = 32;
/// Bytes of an answer that count as one look-up.
const ANSWER: usize = 4 << 10;

/// Place in the index of look-ups.
#[derive(Clone, Debug)]
struct Place {
    proc: Proc,
    key: Option<Key>,
    number: u64,
}

impl Place {
    /// The first look-up behind this place.
    fn next(&self, index: &ByProc) -> Option<Place> {
        for (proc, by_key) in index.range::<Proc, _>(&self.proc..) {
            let is_of_it = *proc == self.proc;
            let from = if is_of_it { &self.key } else { &None };
            for (key, numbers) in by_key.range::<Option<Key>, _>(from..) {
                let after = if is_of_it && *key == self.key { self.number + 1 } else { 0 };
                if let Some(number) = numbers.range(after..).next() {
                    return Some(Place { proc: proc.clone(), key: key.clone(), number: *number });
                }
            }
        }
        None
    }
}

/// Look-ups that an event is about.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// Look-ups of one key of a process, or of anything of it.
    Key,
    /// All of a process.
    Proc,
    /// All of a namespace.
    Job,
}

/// Act that an event brings to each of them.
#[derive(Clone, Debug)]
pub enum Act {
    /// The look-up is looked at again.
    Look,
    /// The look-up is looked at again, and ends where this process has posted its key for other nodes alone or in vain.
    Posted(Proc),
    /// The look-up is looked at again, and ends, where nothing else is fetched for it. The data that the host has
    /// brought may be older than a look-up behind the number under which it was asked: that is fetched anew.
    Fetched { failed: Option<Status>, until: Until, asked: u64 },
    /// The look-up ends with this status.
    End(Status),
}

/// Look-ups that are gone through.
#[derive(Debug)]
enum Sweep {
    /// Look-ups behind a place, up to the number of the last one that is meant; unknown before it begins where that is
    /// whatever waits by then.
    Waiting { place: Place, reach: Reach, upto: Option<u64>, act: Act },
    /// Look-ups of a peer that is gone: nobody is answered.
    Forgotten(BTreeSet<u64>),
}

/// Sweeps under way.
#[derive(Debug, Default)]
pub struct Sweeps {
    /// By the job that they are about, that whose turn it is first.
    waiting: VecDeque<(Nspace, VecDeque<Sweep>)>,
    /// Keys of processes that were posted and not looked at since.
    posted: BTreeSet<(Proc, Option<Key>)>,
    has_slice: bool,
}

impl Sweeps {
    /// Adds what waits for a key of a process, or for anything of it: it was posted.
    pub fn posted(&mut self, of: &Proc, key: Option<Key>, by: &Proc) {
        if self.posted.insert((of.clone(), key.clone())) {
            let place = Place { proc: of.clone(), key, number: 0 };
            self.add(place, Reach::Key, None, Act::Posted(by.clone()));
        }
    }

    /// Adds what is about a process and has come by now, up to a number.
    pub fn of_proc(&mut self, proc: Proc, upto: u64, act: Act) {
        self.add(Place { proc, key: None, number: 0 }, Reach::Proc, Some(upto), act);
    }

    /// Adds what is about a namespace and has come by now, up to a number.
    pub fn of_job(&mut self, nspace: Nspace, upto: u64, act: Act) {
        self.add(Place { proc: Proc::new(nspace, Rank(0)), key: None, number: 0 }, Reach::Job, Some(upto), act);
    }

    fn add(&mut self, place: Place, reach: Reach, upto: Option<u64>, act: Act) {
        self.add_to(place.proc.nspace.clone(), Sweep::Waiting { place, reach, upto, act });
    }

    /// Adds the look-ups of a peer that is gone, the first of which was about that job.
    pub fn forget(&mut self, nspace: Nspace, numbers: BTreeSet<u64>) {
        self.add_to(nspace, Sweep::Forgotten(numbers));
    }

    fn add_to(&mut self, nspace: Nspace, sweep: Sweep) {
        match self.waiting.iter_mut().find(|(of, _)| *of == nspace) {
            Some((_, sweeps)) => sweeps.push_back(sweep),
            None => self.waiting.push_back((nspace, VecDeque::from([sweep]))),
        }
    }

    /// Returns the number of those under way.
    pub fn len(&self) -> usize {
        self.waiting.iter().map(|(_, sweeps)| sweeps.len()).sum()
    }
}

impl Gets {
    /// Goes through what was added: at once, or with the next slice where there is one to come.
    pub(super) fn sweep(&mut self, cx: &mut Ctx, jobs: &Jobs) {
        if self.sweeps.has_slice {
            return;
        }
        let mut left = SLICE;
        while left > 0
            && let Some((nspace, mut sweeps)) = self.sweeps.waiting.pop_front()
        {
            let Some(sweep) = sweeps.pop_front() else { continue };
            let cost = match sweep {
                Sweep::Waiting { place, reach, upto, act } => {
                    if upto.is_none() {
                        self.sweeps.posted.remove(&(place.proc.clone(), place.key.clone()));
                    }
                    let upto = upto.unwrap_or(self.last);
                    match place.next(&self.by_proc).filter(|next| is_within(&place, reach, next)) {
                        Some(next) => {
                            let is_meant = next.number <= upto;
                            let cost = if is_meant { self.act(cx, jobs, next.number, &act) } else { 1 };
                            let rest = Sweep::Waiting { place: next, reach, upto: Some(upto), act };
                            sweeps.push_front(rest);
                            cost
                        }
                        None => 0,
                    }
                }
                Sweep::Forgotten(mut numbers) => match numbers.pop_first() {
                    Some(number) => {
                        self.forget_one(cx, number);
                        sweeps.push_front(Sweep::Forgotten(numbers));
                        1
                    }
                    None => 0,
                },
            };
            if !sweeps.is_empty() {
                self.sweeps.waiting.push_back((nspace, sweeps));
            }
            left = left.saturating_sub(cost);
        }
        if SLICE - left > FEW || !self.sweeps.waiting.is_empty() {
            self.sweeps.has_slice = true;
            cx.slice(Slice::Gets);
        }
    }

    /// Goes on with what is under way.
    pub fn slice(&mut self, cx: &mut Ctx, jobs: &Jobs) {
        self.sweeps.has_slice = false;
        self.sweep(cx, jobs);
    }

    /// Does what an event means for one look-up. Returns its cost, in look-ups.
    fn act(&mut self, cx: &mut Ctx, jobs: &Jobs, number: u64, act: &Act) -> usize {
        let is_late = matches!(act, Act::Fetched { asked, .. } if number > *asked);
        if let (Act::Fetched { .. }, false, Some(wait)) = (act, is_late, self.waiting.get_mut(&number)) {
            wait.question.directives.refresh = false;
        }
        let Some(question) = self.waiting.get(&number).map(|wait| &wait.question) else { return 1 };
        let looks = !matches!(act, Act::End(_)) && !question.wants_newer(jobs);
        if looks {
            #[cfg(test)]
            super::tests::LOOKS.set(super::tests::LOOKS.get() + 1);
            if let Ok(found) = question.look(cx, jobs) {
                let cost = 1 + size(&found) / ANSWER;
                self.end_one(cx, number, Ok(found));
                return cost;
            }
        }
        let end = match act {
            Act::Look => None,
            Act::Posted(by) if question.proc != *by => None,
            Act::Posted(_) => {
                question.failure(jobs).or_else(|| question.is_hidden(jobs).then_some(Status::ERR_NOT_FOUND))
            }
            Act::Fetched { failed: None, until: Until::Posted, .. } if question.awaits_key().is_some() => {
                let (proc, hints) = (question.proc.clone(), question.directives.rest.clone());
                let by = question.asker.proc(cx);
                if let Some((key, seconds)) = question.awaits_key() {
                    self.fetch(cx, by.as_ref(), proc, (Some(key.clone()), Until::Key(key, seconds), hints));
                }
                None
            }
            Act::Fetched { failed, until, .. } => {
                let is_meant = match until {
                    Until::Now => question.is_at_once(),
                    Until::Posted => true,
                    Until::Key(key, seconds) => question.awaits_key().is_some_and(|of| of == (key.clone(), *seconds)),
                };
                if is_meant && is_late {
                    let until = if question.is_at_once() { Until::Now } else { until.clone() };
                    let what = (question.key.clone(), until, question.directives.rest.clone());
                    let (by, proc) = (question.asker.proc(cx), question.proc.clone());
                    self.fetch(cx, by.as_ref(), proc, what);
                    None
                } else {
                    is_meant.then_some(failed.unwrap_or(Status::ERR_NOT_FOUND))
                }
            }
            Act::End(status) => Some(*status),
        };
        if let Some(status) = end {
            self.end_one(cx, number, Err(status));
        }
        1
    }
}

/// Returns whether the place behind another one is still within what an event is about.
fn is_within(place: &Place, reach: Reach, next: &Place) -> bool {
    match reach {
        Reach::Key => next.proc == place.proc && next.key == place.key,
        Reach::Proc => next.proc == place.proc,
        Reach::Job => next.proc.nspace == place.proc.nspace,
    }
}

fn size(found: &Found) -> usize {
    match found {
        Found::One(value) => value.size(),
        // A thread copies it.
        Found::Long(_) => 0,
        Found::All(infos) => infos.iter().map(|info| info.value.size()).sum(),
    }
}
