//! Activities of processes: rows of a server's report, and how they travel in the answer to a query.
//!
//! The answer is an array of arrays of attributes, one for each [row](Waiting): whoever knows nothing of it can still
//! print it. Attributes that a reader does not know are skipped, so that later servers may say more.
use std::time::Duration;

use super::{DataArray, Info, InfoList, Nspace, RankSet, Value, keys};

/// The query key whose answer is a report of what processes of this node are at and whom they wait for, as far as the
/// asker may know: jobs of its own user, for root and the server's user all. `PMIX_NSPACE` restricts it to one.
pub const WAITING: &str = "instanton.waiting";

/// The attribute of a registration of event handlers by which a tool of root, or of the server's user, sees every event
/// that passes the server, whoever it is for, and the beginnings and ends of jobs and processes.
pub const WATCH: &str = "instanton.watch";

const RANKS: &str = "instanton.ranks";
const STATE: &str = "instanton.state";
const CALL: &str = "instanton.call";
const SUBJECT: &str = "instanton.subject";
const MILLISECONDS: &str = "instanton.ms";
const AWAITED: &str = "instanton.awaits";
const PARTICIPANTS: &str = "instanton.participants";
const ELSEWHERE: &str = "instanton.elsewhere";
const CUT: &str = "instanton.cut";

/// Activity of a process, as far as a server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// They wait in a call.
    Waits,
    /// They are attached and wait for nothing that the server knows of.
    Runs,
    /// They never attached.
    Absent,
    /// They have said that they are done.
    Finalized,
    /// Their processes have ended.
    Ended,
}

impl Activity {
    const ALL: [(Activity, &'static str); 5] = [
        (Activity::Waits, "waits"),
        (Activity::Runs, "running"),
        (Activity::Absent, "never attached"),
        (Activity::Finalized, "finalized"),
        (Activity::Ended, "ended"),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(activity, _)| *activity == self).map_or("", |(_, name)| name)
    }
}

/// A row of the report: processes of one namespace that are at the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Their namespace.
    pub nspace: Nspace,
    /// Their ranks.
    pub ranks: RankSet,
    /// Their activity.
    pub activity: Activity,
    /// The call that they wait in ("fence", "get", "connect", "group construct", "look-up", ...); empty for none.
    pub call: String,
    /// The key, the group or the program that the call is about; empty for none.
    pub subject: String,
    /// Time since the first of them began to wait; zero where they do not.
    pub since: Duration,
    /// The processes that they wait for; of a collective, those of this node.
    pub awaited: Vec<(Nspace, RankSet)>,
    /// All who take part in the collective, if others run on other nodes and their ranks are known. Reports of these
    /// nodes say who of them is missing.
    pub participants: Vec<(Nspace, RankSet)>,
    /// True if they wait for other nodes, or for the host to bring what those say.
    pub is_elsewhere: bool,
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitReport {
    /// Those who wait come first, the longest waiting before the others.
    pub rows: Vec<Waiting>,
    /// True if there is more than a report brings.
    pub is_cut: bool,
}

impl Waiting {
    /// A row of processes that wait for nobody.
    pub fn idle(nspace: Nspace, ranks: RankSet, activity: Activity) -> Self {
        let (call, subject) = (String::new(), String::new());
        let (awaited, participants) = (Vec::new(), Vec::new());
        Self {
            nspace,
            ranks,
            activity,
            call,
            subject,
            since: Duration::ZERO,
            awaited,
            participants,
            is_elsewhere: false,
        }
    }

    fn into_info(self) -> Info {
        let name = |nspace: &Nspace| Value::string(nspace.as_bytes());
        let mut infos = vec![
            Info::new(keys::NSPACE, name(&self.nspace)),
            Info::new(RANKS, Value::string(self.ranks.to_string())),
            Info::new(STATE, Value::string(self.activity.name())),
        ];
        if self.activity == Activity::Waits {
            infos.push(Info::new(CALL, Value::string(&self.call)));
            infos.push(Info::new(MILLISECONDS, u64::try_from(self.since.as_millis()).unwrap_or(u64::MAX)));
            infos.push(Info::new(ELSEWHERE, self.is_elsewhere));
        }
        if !self.subject.is_empty() {
            infos.push(Info::new(SUBJECT, Value::string(&self.subject)));
        }
        for (key, procs) in [(AWAITED, &self.awaited), (PARTICIPANTS, &self.participants)] {
            let array = |(nspace, ranks): &(Nspace, RankSet)| {
                let procs =
                    vec![Info::new(keys::NSPACE, name(nspace)), Info::new(RANKS, Value::string(ranks.to_string()))];
                Info::new(key, DataArray::of_info(procs))
            };
            infos.extend(procs.iter().map(array));
        }
        Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(infos))
    }

    fn from_infos(infos: &[Info]) -> Option<Self> {
        let text = |key| infos.find(key).and_then(|info| info.value.as_str()).map(str::to_owned);
        let (nspace, ranks) = procs(infos)?;
        let state = text(STATE)?;
        let named = |key: &str| {
            let all = infos.iter().filter(|info| info.key == *key).filter_map(|info| match &info.value {
                Value::DataArray(array) => procs(&array.infos().cloned().collect::<Vec<_>>()),
                _ => None,
            });
            all.collect()
        };
        Some(Waiting {
            nspace,
            ranks,
            activity: Activity::ALL.iter().find(|(_, name)| *name == state)?.0,
            call: text(CALL).unwrap_or_default(),
            subject: text(SUBJECT).unwrap_or_default(),
            since: Duration::from_millis(infos.find(MILLISECONDS).and_then(|info| info.value.as_u64()).unwrap_or(0)),
            awaited: named(AWAITED),
            participants: named(PARTICIPANTS),
            is_elsewhere: infos.is_set(ELSEWHERE),
        })
    }
}

/// Processes of one namespace.
fn procs(infos: &[Info]) -> Option<(Nspace, RankSet)> {
    let nspace = Nspace::new(infos.find(keys::NSPACE)?.value.as_text()?.as_bytes()).ok()?;
    Some((nspace, infos.find(RANKS)?.value.as_str()?.parse().ok()?))
}

impl WaitReport {
    /// Adds another server's report.
    pub fn add(&mut self, other: WaitReport) {
        self.rows.extend(other.rows);
        self.is_cut |= other.is_cut;
        self.sort();
    }

    /// Brings the rows into their order.
    pub fn sort(&mut self) {
        self.rows.sort_by(|a, b| {
            let key = |row: &Waiting| (row.activity, std::cmp::Reverse(row.since));
            let first = |row: &Waiting| row.ranks.ranges().first().map(|range| *range.start());
            (&a.nspace, key(a), first(a)).cmp(&(&b.nspace, key(b), first(b)))
        });
    }

    /// The report as the answer to a query.
    pub fn into_value(self) -> Value {
        let mut rows: Vec<Info> = self.rows.into_iter().map(Waiting::into_info).collect();
        if self.is_cut {
            rows.push(Info::new(CUT, true));
        }
        Value::DataArray(DataArray::of_info(rows))
    }

    /// Reads such an answer; none where it is something else. Rows that make no sense are left out.
    pub fn from_value(value: &Value) -> Option<Self> {
        let Value::DataArray(array) = value else { return None };
        let rows = array.infos().filter_map(|info| match &info.value {
            Value::DataArray(row) => Waiting::from_infos(&row.infos().cloned().collect::<Vec<_>>()),
            _ => None,
        });
        Some(WaitReport { rows: rows.collect(), is_cut: array.infos().any(|info| info.key == CUT && info.is_true()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_back_as_it_was_sent() {
        let nspace = |name: &str| Nspace::new(name).unwrap();
        let waits = Waiting {
            nspace: nspace("job@1"),
            ranks: [0, 1, 2].into_iter().collect(),
            activity: Activity::Waits,
            call: "get".into(),
            subject: "a.key".into(),
            since: Duration::from_millis(2500),
            awaited: vec![(nspace("job@1"), [3].into_iter().collect()), (nspace("other"), RankSet::default())],
            participants: vec![(nspace("job@1"), RankSet::from(0..=7)), (nspace("other"), RankSet::from(0..=0))],
            is_elsewhere: true,
        };
        let runs = Waiting::idle(waits.nspace.clone(), [3].into_iter().collect(), Activity::Runs);
        let mut report = WaitReport { rows: vec![runs, waits.clone()], is_cut: true };
        report.sort();
        assert_eq!(report.rows[0], waits);
        assert_eq!(WaitReport::from_value(&report.clone().into_value()), Some(report));
        assert_eq!(WaitReport::from_value(&WaitReport::default().into_value()), Some(WaitReport::default()));
        assert_eq!(WaitReport::from_value(&Value::from(true)), None);
    }
}
