//! A job that hangs explains itself: at the user's time limit, a while after an interrupt that has not ended it, and on
//! SIGQUIT, a table says which rank waits in which call for whom since when.
use std::time::Instant;

use instanton::data::{Activity, Nspace, WaitReport};
use nix::sys::signal::Signal;

use super::hang::AFTER_INTERRUPT;
use super::running::Running;
use crate::say::{say, show};
use crate::see::{stacks, waiting};
use crate::server::Pmix;

impl Running {
    /// Notes a signal of the user: an interrupt should end the job, and SIGQUIT asks what it is at.
    pub(super) fn heed(&mut self, signal: i32, pmix: &Pmix) {
        if signal == Signal::SIGQUIT as i32 {
            self.explain(pmix, "SIGQUIT has come");
        } else if signal == Signal::SIGINT as i32 && self.hang.due.is_none() {
            self.hang.due = Some((Instant::now() + AFTER_INTERRUPT, signal));
        }
    }

    /// Explains the job if an interrupt should have ended it by now.
    pub(super) fn explain_what_is_due(&mut self, now: Instant, pmix: &Pmix) {
        if let Some((_, signal)) = self.hang.due.take_if(|(at, _)| *at <= now)
            && self.jobs.anybody_runs()
        {
            self.explain(pmix, &format!("{} has not ended all", crate::signals::name(signal)));
        }
    }

    /// Shows the activity of all ranks; `why` begins the line above the table.
    pub(super) fn explain(&self, pmix: &Pmix, why: &str) {
        let (report, is_whole) = pmix.waiting();
        let pid = |nspace: &Nspace, rank: u32| {
            let number = self.jobs.number(nspace)?;
            self.jobs.who(number, rank).pid
        };
        say(&format!("{why}: {}", summary(&report)));
        waiting::table(&report, crate::see::width(), pid).lines().for_each(show);
        if !is_whole {
            say("not every PMIx server of the run has answered; the table lacks its ranks");
        }
        if self.hang.shows_stacks {
            let mut processes = Vec::new();
            for live in self.jobs.all() {
                for info in live.table() {
                    let title = match self.jobs.all().count() {
                        1 => format!("rank {}", info.proc.rank),
                        _ => format!("rank {} of {}", info.proc.rank, info.proc.nspace),
                    };
                    let group = stacks::group(nix::unistd::Pid::from_raw(info.pid));
                    processes.extend(group.into_iter().map(|pid| (title.clone(), pid)));
                }
            }
            stacks::all(&processes).iter().for_each(|line| show(line));
        }
    }
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
