//! Processes that collectives of several nodes wait for, by the reports of all their servers together.
//!
//! A server knows of its own processes alone whether they have come. One where somebody has come says whom it waits for
//! there. Where nobody has come, all of its processes that take part are missing. A server that tells nothing has nobody
//! missing.
use std::collections::{BTreeMap, BTreeSet};

use instanton::data::{Activity, Nspace, RankSet, WaitReport, Waiting};

type Procs = BTreeMap<Nspace, RankSet>;

/// Names in each row whom its collective waits for on all nodes, as far as these reports tell. Reports of other runs may
/// be among them.
pub fn name_missing(reports: &mut [&mut WaitReport]) {
    let mut all: BTreeMap<String, Vec<(Nspace, RankSet)>> = BTreeMap::new();
    for row in reports.iter().flat_map(|report| &report.rows) {
        if let Some(collective) = collective(row) {
            all.entry(collective).or_insert_with(|| row.participants.clone());
        }
    }
    if all.is_empty() {
        return;
    }
    let mut missing: BTreeMap<&String, Procs> = BTreeMap::new();
    for report in reports.iter() {
        let (mut here, mut come) = (Procs::new(), BTreeSet::new());
        for row in &report.rows {
            if row.activity != Activity::Ended {
                add(&mut here, &row.nspace, &row.ranks);
            }
            if let Some((known, _)) = collective(row).and_then(|collective| all.get_key_value(&collective)) {
                let missing = missing.entry(known).or_default();
                row.awaited.iter().for_each(|(nspace, ranks)| add(missing, nspace, ranks));
                come.insert(known);
            }
        }
        for (collective, participants) in all.iter().filter(|(collective, _)| !come.contains(collective)) {
            for (nspace, ranks) in participants {
                if let Some(here) = here.get(nspace) {
                    add(missing.entry(collective).or_default(), nspace, &ranks.intersection(here));
                }
            }
        }
    }
    for row in reports.iter_mut().flat_map(|report| &mut report.rows) {
        let Some(missing) = collective(row).and_then(|collective| missing.get(&collective)) else { continue };
        let missing: Vec<(Nspace, RankSet)> = missing.clone().into_iter().collect();
        if missing != row.awaited {
            row.is_elsewhere = true;
            row.awaited = missing;
        }
    }
}

/// Text that tells a collective from others; none for a row that is no collective of several nodes.
fn collective(row: &Waiting) -> Option<String> {
    let Waiting { call, subject, participants, .. } = row;
    (!participants.is_empty()).then(|| format!("{call} {subject:?} {participants:?}"))
}

fn add(procs: &mut Procs, nspace: &Nspace, ranks: &RankSet) {
    if !ranks.is_empty() {
        let known = procs.entry(nspace.clone()).or_default();
        *known = known.union(ranks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ranks: &str, activity: Activity) -> Waiting {
        Waiting::idle(Nspace::new("job").unwrap(), ranks.parse().unwrap(), activity)
    }

    /// Ranks that wait in a fence of these, for those of their node.
    fn fence(ranks: &str, of: &str, awaited: &str) -> Waiting {
        let procs = |ranks: &str| (Nspace::new("job").unwrap(), ranks.parse().unwrap());
        Waiting {
            call: "fence".into(),
            participants: vec![procs(of)],
            awaited: if awaited.is_empty() { Vec::new() } else { vec![procs(awaited)] },
            is_elsewhere: awaited.is_empty(),
            ..row(ranks, Activity::Waits)
        }
    }

    /// The ranks that each row that waits is said to wait for, beside whether they are on other nodes.
    fn named(nodes: Vec<Vec<Waiting>>) -> Vec<(String, String, bool)> {
        let mut reports: Vec<WaitReport> = nodes.into_iter().map(|rows| WaitReport { rows, is_cut: false }).collect();
        name_missing(&mut reports.iter_mut().collect::<Vec<_>>());
        let waits = reports.into_iter().flat_map(|report| report.rows).filter(|row| row.activity == Activity::Waits);
        let ranks =
            |row: &Waiting| row.awaited.iter().map(|(_, ranks)| ranks.to_string()).collect::<Vec<_>>().join(";");
        waits.map(|row| (row.ranks.to_string(), ranks(&row), row.is_elsewhere)).collect()
    }

    fn expected(rows: &[(&str, &str, bool)]) -> Vec<(String, String, bool)> {
        rows.iter().map(|(ranks, awaited, elsewhere)| ((*ranks).into(), (*awaited).into(), *elsewhere)).collect()
    }

    #[test]
    fn a_node_where_nobody_has_come_misses_all_that_take_part() {
        let nodes = vec![
            vec![fence("0-1", "0-2,4", "")],
            vec![row("2", Activity::Runs), row("3", Activity::Absent)],
            vec![row("4", Activity::Finalized), row("5", Activity::Runs)],
        ];
        assert_eq!(named(nodes), expected(&[("0-1", "2,4", true)]));
    }

    #[test]
    fn a_node_where_some_have_come_says_who_has_not() {
        let nodes = vec![
            vec![fence("0", "0-5", "1"), row("1", Activity::Runs)],
            // One that has ended is waited for no more: its server knows.
            vec![fence("2", "0-5", "3"), row("3", Activity::Runs), row("6", Activity::Runs)],
            vec![row("4", Activity::Ended), row("5", Activity::Absent)],
        ];
        assert_eq!(named(nodes), expected(&[("0", "1,3,5", true), ("2", "1,3,5", true)]));
        let nodes = vec![vec![fence("0-1", "0-3", "")], vec![fence("2", "0-3", "3"), row("3", Activity::Runs)]];
        assert_eq!(named(nodes), expected(&[("0-1", "3", true), ("2", "3", false)]));
    }

    #[test]
    fn collectives_of_other_processes_or_names_are_others() {
        let group = |name: &str, ranks: &str| Waiting { subject: name.into(), ..fence(ranks, "0-3", "") };
        let nodes = vec![
            vec![fence("0-1", "0-3", ""), fence("0", "0,2", ""), group("a", "1")],
            vec![fence("2-3", "0-3", ""), group("b", "3"), row("2-3", Activity::Runs)],
        ];
        let names = [("0-1", "", true), ("0", "2", true), ("1", "2-3", true), ("2-3", "", true), ("3", "0-1", true)];
        assert_eq!(named(nodes), expected(&names));
    }

    #[test]
    fn who_is_not_told_of_is_not_named() {
        assert_eq!(named(vec![vec![fence("0-1", "0-3", "")], vec![]]), expected(&[("0-1", "", true)]));
        let get = Waiting { is_elsewhere: true, ..row("0", Activity::Waits) };
        assert_eq!(named(vec![vec![get], vec![row("1", Activity::Runs)]]), expected(&[("0", "", true)]));
    }
}
