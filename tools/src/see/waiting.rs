//! A report of who waits for whom, as a table.
use std::collections::BTreeSet;
use std::time::Duration;

use instanton::data::{Activity, Nspace, RankSet, WaitReport, Waiting};

use super::table;

/// Most processes whose ids are named in a row.
const NAMED: u64 = 4;

/// The header of the table.
const HEADER: [&str; 5] = ["JOB", "RANKS", "WAIT IN", "FOR", "SINCE"];

/// Writes a report as a table. `pid` is the process of a rank, where it is known.
pub fn table(report: &WaitReport, width: Option<u16>, pid: impl Fn(&Nspace, u32) -> Option<i32>) -> String {
    let jobs: BTreeSet<&Nspace> = report.rows.iter().map(|row| &row.nspace).collect();
    // One job needs no column to tell it from others.
    let first = usize::from(jobs.len() < 2);
    let cells = |row: &Waiting| {
        let cells = [row.nspace.to_string(), row.ranks.to_string(), at(row, &pid), awaited(row), since(row)];
        cells.into_iter().skip(first).collect()
    };
    let mut text = table::table(&HEADER[first..], report.rows.iter().map(cells), width);
    if report.is_cut {
        text += "and more than a report brings\n";
    }
    text
}

/// One row as part of a sentence, without its ranks.
pub fn words(row: &Waiting) -> String {
    match row.activity {
        Activity::Waits => format!("waits in {} for {} since {}", at(row, |_, _| None), awaited(row), since(row)),
        Activity::Runs => "waits in no call of PMIx".into(),
        Activity::Absent => "has not attached to its server".into(),
        Activity::Finalized => "has finalized".into(),
        Activity::Ended => "has ended".into(),
    }
}

/// The call, with what it is about; else what they do instead.
fn at(row: &Waiting, pid: impl Fn(&Nspace, u32) -> Option<i32>) -> String {
    match row.activity {
        Activity::Waits if row.subject.is_empty() => row.call.clone(),
        Activity::Waits => format!("{} of {}", row.call, row.subject),
        activity => {
            let pids: Vec<String> = match row.ranks.len() <= NAMED && activity != Activity::Ended {
                true => row.ranks.iter().filter_map(|rank| pid(&row.nspace, rank)).map(|pid| pid.to_string()).collect(),
                false => Vec::new(),
            };
            match pids.is_empty() {
                true => format!("- {}", activity.name()),
                false => format!("- {} (pid {})", activity.name(), pids.join(", ")),
            }
        }
    }
}

/// The ranks that a row waits for.
fn awaited(row: &Waiting) -> String {
    if row.activity != Activity::Waits {
        return "-".into();
    }
    let named = |(nspace, ranks): &(Nspace, RankSet)| {
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        match (*nspace == row.nspace, ranks.is_empty()) {
            (true, true) => "any rank".to_owned(),
            (true, false) => format!("{word} {ranks}"),
            (false, true) => format!("{nspace}, which is not registered"),
            (false, false) => format!("{word} {ranks} of {nspace}"),
        }
    };
    let mut all: Vec<String> = row.awaited.iter().map(named).collect();
    if row.is_elsewhere && row.awaited.is_empty() {
        all.push("ranks on other nodes".into());
    }
    match all.is_empty() {
        true if row.call == "look-up" => "who publishes it".into(),
        true => "the host".into(),
        false => all.join(" and "),
    }
}

/// Time since a row waits.
fn since(row: &Waiting) -> String {
    match row.activity {
        Activity::Waits => duration(row.since),
        _ => "-".into(),
    }
}

/// A time as people say it.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ranks: &str, activity: Activity) -> Waiting {
        Waiting::idle(Nspace::new("job@1").unwrap(), ranks.parse().unwrap(), activity)
    }

    #[test]
    fn a_table_says_who_waits_in_which_call_for_whom_since_when() {
        let (job, other) = (Nspace::new("job@1").unwrap(), Nspace::new("job@2").unwrap());
        let waits = |ranks: &str, call: &str, subject: &str, awaited: &[(&Nspace, &str)], seconds| Waiting {
            call: call.into(),
            subject: subject.into(),
            awaited: awaited.iter().map(|(nspace, ranks)| ((*nspace).clone(), ranks.parse().unwrap())).collect(),
            since: Duration::from_millis(seconds),
            ..row(ranks, Activity::Waits)
        };
        let rows = vec![
            waits("0-2", "fence", "", &[(&job, "3")], 3210),
            waits("4", "get", "a.key", &[(&other, "0,2")], 75_000),
            waits("5", "look-up", "port", &[], 4_000_000),
            waits("6", "spawn", "./a", &[], 0),
            Waiting { is_elsewhere: true, ..waits("7", "fence", "", &[], 0) },
            row("3", Activity::Runs),
            row("8-99", Activity::Absent),
        ];
        let pid = |_: &Nspace, rank: u32| Some(100 + rank as i32);
        let report = WaitReport { rows, is_cut: false };
        let text = "\
            RANKS  WAIT IN               FOR                       SINCE\n\
            0-2    fence                 rank 3                    3.2 s\n\
            4      get of a.key          ranks 0,2 of job@2        1 min 15 s\n\
            5      look-up of port       who publishes it          1 h 06 min\n\
            6      spawn of ./a          the host                  0.0 s\n\
            7      fence                 ranks on other nodes      0.0 s\n\
            3      - running (pid 103)   -                         -\n\
            8-99   - never attached      -                         -\n";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&table(&report, None, pid)), squeezed(text));
        assert!(table(&report, None, pid).starts_with("RANKS  WAIT IN "));
        let two = WaitReport {
            rows: vec![row("0", Activity::Runs), Waiting { nspace: other, ..row("0", Activity::Runs) }],
            is_cut: true,
        };
        let text = table(&two, None, pid);
        assert!(text.starts_with("JOB ") && text.ends_with("brings\n") && text.contains("job@2"), "{text}");
    }
}
