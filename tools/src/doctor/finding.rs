//! Findings: a fact, and what to do about it. Their ids are for programs and stay; their texts are for people.
use std::io::{self, IsTerminal, stdout};

use instanton::printable;
use serde::Serialize;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The finding is as it should be.
    Ok,
    /// Jobs run, but slower, or otherwise than one may think.
    Notice,
    /// Jobs cannot run, or do not do what they should.
    Problem,
}

/// A fact about this machine, or about a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The weight.
    pub level: Level,
    /// The subject that it is listed under.
    pub topic: &'static str,
    /// Name that stays from release to release.
    pub id: &'static str,
    /// The fact.
    pub text: String,
    /// Advice; the consequence, if any, where all is as it should be.
    pub advice: String,
}

impl Finding {
    /// Finding that all is as it should be.
    pub fn ok(topic: &'static str, id: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Ok, topic, id, text: text.into(), advice: advice.into() }
    }

    /// Finding that one should know of.
    pub fn notice(topic: &'static str, id: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Notice, ..Self::ok(topic, id, text, advice) }
    }

    /// Finding that must be mended.
    pub fn problem(topic: &'static str, id: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(topic, id, text, advice) }
    }
}

/// The report as a program reads it. Its version goes up when a field changes its meaning or goes.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: u32,
    problems: usize,
    notices: usize,
    findings: &'a [Finding],
}

/// Number of findings of a level.
pub fn count(findings: &[Finding], level: Level) -> usize {
    findings.iter().filter(|finding| finding.level == level).count()
}

/// The report for programs.
///
/// # Errors
/// None that a report of texts and numbers has.
pub fn json(findings: &[Finding]) -> io::Result<String> {
    let (problems, notices) = (count(findings, Level::Problem), count(findings, Level::Notice));
    let report = Report { schema: "instanton.doctor", version: 1, problems, notices, findings };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

/// Returns whether standard output shows colours, and wants them.
pub fn shows_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The report for people. Lines are broken where they would be longer than `width`.
pub fn text(findings: &[Finding], width: Option<u16>, colours: bool) -> String {
    const INDENT: usize = 11;
    let room = width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(INDENT).max(20));
    let mut text = String::new();
    let mut topic = "";
    for finding in findings {
        if finding.topic != topic {
            topic = finding.topic;
            text += &format!("{topic}\n");
        }
        let (word, colour) = match finding.level {
            Level::Ok => ("ok", 32),
            Level::Notice => ("notice", 33),
            Level::Problem => ("problem", 31),
        };
        let padded = format!("{word:7}");
        let shown = if colours { format!("\x1b[{colour}m{padded}\x1b[0m") } else { padded };
        let mut begin = format!("  {shown}  ");
        for line in broken(&finding.text, room) {
            text += &format!("{begin}{line}\n");
            begin = " ".repeat(INDENT);
        }
        let mut begin = format!("{}-> ", " ".repeat(INDENT - 3));
        for line in broken(&finding.advice, room) {
            text += &format!("{begin}{line}\n");
            begin = " ".repeat(INDENT);
        }
    }
    let (problems, notices) = (count(findings, Level::Problem), count(findings, Level::Notice));
    let of = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    text + &format!("{}, {}\n", of(problems, "problem"), of(notices, "notice"))
}

/// Lines of a text that are no longer than there is room for, where its words are not.
fn broken(text: &str, room: usize) -> Vec<String> {
    let text = ascii(&printable(text));
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= room) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Names of others in a text may be beyond what a locale shows.
fn ascii(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_ascii() { vec![c] } else { c.escape_default().collect() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("kernel", "kernel.memfd", "shared memory can be made", ""),
            Finding::problem("kernel", "kernel.x", "a call is refused \u{1b}[2J gr\u{f6}\u{df}e", "allow it"),
        ]
    }

    #[test]
    fn findings_are_listed_by_subject_with_what_to_do() {
        let expected = "kernel\n  ok       shared memory can be made\n  problem  a call is refused \\u{1b}[2J \
                        gr\\u{f6}\\u{df}e\n        -> allow it\n1 problem, 0 notices\n";
        assert_eq!(text(&findings(), None, false), expected);
        assert!(text(&findings(), None, true).contains("\x1b[31mproblem\x1b[0m"));
        assert!(text(&findings(), Some(40), false).lines().all(|line| line.len() <= 40));
    }

    #[test]
    fn the_report_for_programs_has_a_version() {
        let json: serde_json::Value = serde_json::from_str(&json(&findings()).unwrap()).unwrap();
        assert_eq!((json["version"].as_u64(), json["problems"].as_u64()), (Some(1), Some(1)));
        assert_eq!(
            (&json["findings"][1]["level"], &json["findings"][1]["id"]),
            (&"problem".into(), &"kernel.x".into())
        );
    }
}
