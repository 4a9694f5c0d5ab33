//! A job that hangs explains itself: at the user's time limit, a while after an interrupt that has not ended it, and on
//! SIGQUIT, a table says which rank waits in which call for whom since when.
use std::time::Instant;

use instanton::data::{Activity, Nspace, RankSet, WaitReport};
use nix::sys::signal::Signal;

use super::hang::{AFTER_INTERRUPT, Hang};
use super::running::Running;
use crate::jobs::LiveJob;
use crate::see::{stacks, waiting};
use crate::server::Pmix;

impl Running {
    /// Notes a signal of the user, or of a caller's: an interrupt should end the job, and SIGQUIT asks what it is at.
    pub(super) fn heed(&mut self, caller: Option<u32>, signal: i32, pmix: &Pmix) {
        if signal == Signal::SIGQUIT as i32 {
            self.explain(caller, pmix, "SIGQUIT has come");
        } else if signal == Signal::SIGINT as i32 {
            let hang =
                caller.and_then(|caller| self.callers.get_mut(&caller)).map_or(&mut self.hang, |it| &mut it.hang);
            hang.due.get_or_insert((Instant::now() + AFTER_INTERRUPT, signal));
        }
    }

    /// Explains jobs that an interrupt should have ended by now.
    pub(super) fn explain_what_is_due(&mut self, now: Instant, pmix: &Pmix) {
        let of_callers = self.callers.iter_mut().map(|(number, caller)| (Some(*number), &mut caller.hang));
        let due = |(caller, hang): (_, &mut Hang)| Some((caller, hang.due.take_if(|(at, _)| *at <= now)?.1));
        let due: Vec<_> = of_callers.chain([(None, &mut self.hang)]).filter_map(due).collect();
        for (caller, signal) in due {
            if caller.map_or(self.jobs.anybody_runs(), |caller| !self.jobs.pids_below(caller).is_empty()) {
                self.explain(caller, pmix, &format!("{} has not ended all", crate::signals::name(signal)));
            }
        }
    }

    /// Shows the user the activity of all ranks, or a caller that of its own; `why` begins the line above the table.
    pub(super) fn explain(&self, caller: Option<u32>, pmix: &Pmix, why: &str) {
        let jobs: Vec<&LiveJob> = match caller {
            Some(caller) => self.jobs.below(caller).collect(),
            None => self.jobs.all().collect(),
        };
        let (mut report, is_whole) = pmix.waiting();
        report.rows.retain(|row| caller.is_none() || jobs.iter().any(|live| live.job.nspace == row.nspace));
        let pid = |nspace: &Nspace, rank: u32| {
            let number = self.jobs.number(nspace)?;
            self.jobs.who(number, rank).pid
        };
        let root = caller.unwrap_or(1);
        self.tell(root, &format!("{why}: {}", summary(&report)));
        // A caller's terminal is not ours.
        let width = if caller.is_none() { crate::see::width() } else { None };
        waiting::table(&report, width, pid).lines().for_each(|line| self.show(root, line));
        for live in &jobs {
            let ranks = self.jobs.awaiting_debugger(live.job.number);
            if let Some(line) = awaiting_debugger(&ranks, (jobs.len() > 1).then_some(live.job.number)) {
                self.tell(root, &line);
            }
        }
        if !is_whole {
            self.tell(root, "not every PMIx server of the run has answered; the table lacks its ranks");
        }
        let hang = caller.and_then(|caller| self.callers.get(&caller)).map_or(&self.hang, |caller| &caller.hang);
        if hang.shows_stacks {
            let mut processes = Vec::new();
            for info in jobs.iter().flat_map(|live| live.table()) {
                let title = match jobs.len() {
                    1 => format!("rank {}", info.proc.rank),
                    _ => format!("rank {} of {}", info.proc.rank, info.proc.nspace),
                };
                let group = stacks::group(nix::unistd::Pid::from_raw(info.pid));
                processes.extend(group.into_iter().map(|pid| (title.clone(), pid)));
            }
            stacks::all(&processes).iter().for_each(|line| self.show(root, line));
        }
    }
}

/// A line about ranks that wait for a debugger, if some do.
fn awaiting_debugger(ranks: &RankSet, job: Option<u32>) -> Option<String> {
    let (word, verb) = if ranks.len() == 1 { ("rank", "waits") } else { ("ranks", "wait") };
    let of = job.map(|job| format!(" of job {job}")).unwrap_or_default();
    (!ranks.is_empty()).then(|| format!("{word} {ranks}{of} {verb} for a debugger, as was asked for"))
}

/// The number of ranks that wait, and what they wait for in one clause.
fn summary(report: &WaitReport) -> String {
    let count = |activity: Activity| {
        report.rows.iter().filter(|row| row.activity == activity).map(|row| row.ranks.len()).sum::<u64>()
    };
    let parts = [
        (count(Activity::Waits), "waiting"),
        (count(Activity::Runs), "running"),
        (count(Activity::Absent), "never attached"),
        (count(Activity::Finalized), "finalized"),
        (count(Activity::Ended), "ended"),
    ];
    let said: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    match said.is_empty() {
        true => "no rank is known".into(),
        false => format!("ranks: {}", said.join(", ")),
    }
}
