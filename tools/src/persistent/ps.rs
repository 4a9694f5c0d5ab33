//! `instanton ps`: the jobs of everything that is up.
use std::io::{self, Write};

use anyhow::{Context, Result};
use instanton::internal::message::lines::utc;
use instanton::printable;

use super::message::{JobRow, Reply, Request};
use super::orders::ask;
use super::place::{self, Kind};
use crate::args::Ps;
use crate::outcome::FAILURE;
use crate::say::say;

/// Head of the list.
const HEAD: [&str; 7] = ["IN", "JOB", "RANKS", "STATE", "SINCE", "NAMESPACE", "COMMAND"];

/// Shows jobs. Returns the status to exit with: a failure where nothing is up.
pub fn run(options: &Ps) -> Result<u8> {
    let wanted = options.target.wanted();
    let found = match wanted.as_deref() {
        None => place::launchers(Kind::Any, None),
        wanted => match place::enter(Kind::Any, wanted) {
            Ok(found) => vec![found],
            Err(line) => {
                say(&line);
                return Ok(FAILURE);
            }
        },
    };
    let mut rows = vec![HEAD.map(str::to_owned)];
    let is_any = !found.is_empty();
    for (place, socket) in found {
        // One that ends meanwhile has no jobs.
        let Ok(Reply::Jobs(jobs)) = ask(&place, &socket, &Request::Jobs) else { continue };
        let name = if place.name.is_empty() { place.pid.to_string() } else { place.name.clone() };
        rows.extend(jobs.iter().map(|job| row(&name, job)));
    }
    if !is_any {
        say("nothing is up; `instanton up` begins it");
        return Ok(FAILURE);
    }
    io::stdout().write_all(table(&rows).as_bytes()).context("cannot write")?;
    Ok(0)
}

fn row(place: &str, job: &JobRow) -> [String; 7] {
    let JobRow { number, nspace, ranks, state, since, command } = job;
    let command = printable(&String::from_utf8_lossy(command)).to_string();
    [place.into(), number.to_string(), ranks.to_string(), state.clone(), utc(*since), nspace.clone(), command]
}

/// Columns below each other, the last one as long as it is.
fn table(rows: &[[String; 7]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let job = JobRow {
            number: 12,
            nspace: "n@12".into(),
            ranks: 3,
            state: "running".into(),
            since: 0,
            command: b"sh -c 'a\nb'".to_vec(),
        };
        let rows = [HEAD.map(str::to_owned), row("up", &job)];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0].find("JOB"), lines[1].find("12"));
        assert_eq!(lines[0].find("NAMESPACE"), lines[1].find("n@12"));
    }
}
