//! State of the screen: two samples, what lies between them, and what the user has chosen to see.
use instanton::data::{Activity, JobLoad, WaitReport, Waiting};

use super::sample::{Sample, ServerSample};
use crate::see::jobs::Job;

/// The lower part of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Screen of waiting processes.
    #[default]
    Waits,
    /// Ranks of the chosen job.
    Ranks,
}

/// Action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Choose the next job.
    Next,
    /// Choose the one before.
    Before,
    /// Scroll the lower part by so many rows.
    Scroll(i32),
    /// See the other lower part.
    Switch,
    /// Stop or go on with new samples.
    Pause,
    /// Show the keys, or hide them.
    Help,
    /// End.
    Quit,
}

/// A job in the list.
pub struct Row<'a> {
    /// Its server.
    pub server: &'a ServerSample,
    /// The job.
    pub job: &'a Job,
    /// Its load, if it is told.
    pub load: Option<&'a JobLoad>,
    /// Requests a second, if two samples tell them.
    pub rate: Option<f64>,
    /// Number of its ranks that wait, if that is told.
    pub waiting: Option<u64>,
}

/// State of the screen.
#[derive(Debug, Default)]
pub struct State {
    now: Option<Sample>,
    before: Option<Sample>,
    /// Place of the chosen job in the list.
    pub chosen: usize,
    /// First row of the lower part.
    pub scrolled: usize,
    /// The lower part.
    pub view: View,
    /// True if new samples are not shown.
    pub is_paused: bool,
    /// True if the keys are shown.
    pub shows_help: bool,
}

impl State {
    /// Takes a sample in. The nodes of a run are one to who looks at its jobs.
    pub fn take(&mut self, sample: Sample) {
        if !self.is_paused {
            self.before = self.now.replace(sample.by_run());
            self.chosen = self.chosen.min(self.rows().len().saturating_sub(1));
        }
    }

    /// Does what the user wants; returns false at the end.
    pub fn act(&mut self, action: Action) -> bool {
        let last = self.rows().len().saturating_sub(1);
        match action {
            Action::Next => (self.chosen, self.scrolled) = ((self.chosen + 1).min(last), 0),
            Action::Before => (self.chosen, self.scrolled) = (self.chosen.saturating_sub(1), 0),
            Action::Scroll(rows) => self.scrolled = self.scrolled.saturating_add_signed(rows as isize),
            Action::Switch => {
                self.view = if self.view == View::Waits { View::Ranks } else { View::Waits };
                self.scrolled = 0;
            }
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Help => self.shows_help = !self.shows_help,
            Action::Quit => return false,
        }
        true
    }

    /// The servers of the last sample; none before the first.
    pub fn servers(&self) -> Option<&[ServerSample]> {
        self.now.as_ref().map(|sample| &sample.servers[..])
    }

    /// All jobs.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let servers = self.servers().unwrap_or_default();
        servers.iter().flat_map(|server| server.jobs.iter().map(move |job| self.row(server, job))).collect()
    }

    fn row<'a>(&'a self, server: &'a ServerSample, job: &'a Job) -> Row<'a> {
        let load = load_of(server, job);
        let before = self.earlier(server).and_then(|before| load_of(before, job));
        let rate = load.zip(before).and_then(|(now, before)| self.rate(now.requests, before.requests));
        let waiting = server.waiting.as_ref().map(|report| waits(report, job).map(|row| row.ranks.len()).sum());
        Row { server, job, load, rate, waiting }
    }

    /// The namespace of the chosen job.
    pub fn chosen_namespace(&self) -> Option<String> {
        self.rows().get(self.chosen).map(|row| row.job.namespace.clone())
    }

    /// Requests a second by kind, of all servers, the most frequent first; nothing where no server tells them.
    pub fn rates(&self) -> Vec<(String, f64)> {
        let mut rates: Vec<(String, f64)> = Vec::new();
        for server in self.servers().unwrap_or_default() {
            let earlier = self.earlier(server).and_then(|before| before.load.as_ref());
            for (kind, count) in server.load.iter().flat_map(|load| &load.requests) {
                let before = earlier.and_then(|load| load.requests.iter().find(|(other, _)| other == kind));
                let rate = self.rate(*count, before.map_or(0, |(_, count)| *count)).filter(|_| earlier.is_some());
                let rate = rate.unwrap_or(0.0);
                match rates.iter_mut().find(|(other, _)| other == kind) {
                    Some((_, sum)) => *sum += rate,
                    None => rates.push((kind.clone(), rate)),
                }
            }
        }
        rates.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rates
    }

    fn earlier(&self, server: &ServerSample) -> Option<&ServerSample> {
        self.before.as_ref()?.servers.iter().find(|before| before.server.is_same(&server.server))
    }

    /// Growth of a counter in a second. Processes that left took theirs along: that is no growth.
    fn rate(&self, now: u64, before: u64) -> Option<f64> {
        let seconds = self.now.as_ref()?.at.duration_since(self.before.as_ref()?.at).as_secs_f64();
        (seconds > 0.0).then(|| now.saturating_sub(before) as f64 / seconds)
    }
}

fn load_of<'a>(server: &'a ServerSample, job: &Job) -> Option<&'a JobLoad> {
    server.load.as_ref()?.jobs.iter().find(|load| load.nspace.as_bytes() == job.namespace.as_bytes())
}

/// Rows of those of a job that wait.
fn waits<'a>(report: &'a WaitReport, job: &'a Job) -> impl Iterator<Item = &'a Waiting> {
    report
        .rows
        .iter()
        .filter(|row| row.activity == Activity::Waits && row.nspace.as_bytes() == job.namespace.as_bytes())
}
