//! Answers of servers to one question, for people. The nodes of a run are shown as one: what all that know a key say of
//! it stands once, and what differs stands once for each node.
use instanton::data::{Info, Key, Status, Value};

use super::places::Server;
use super::tree;
use crate::say::say;

/// Answers of one server.
pub struct Answered {
    /// The server.
    pub server: Server,
    /// The name of its node, if it tells it.
    pub node: Option<String>,
    /// Its answers, or the reason why there are none.
    pub told: Result<(Status, Vec<Info>), String>,
}

impl Answered {
    /// Returns whether it knows an answer.
    pub fn is_known(&self) -> bool {
        self.told.as_ref().is_ok_and(|(_, infos)| infos.iter().any(|info| info.value != Value::Undef))
    }

    fn infos(&self) -> &[Info] {
        self.told.as_ref().map_or(&[], |(_, infos)| infos)
    }

    /// Values of a key.
    fn of(&self, key: &Key) -> Vec<&Info> {
        self.infos().iter().filter(|info| info.key == *key && info.value != Value::Undef).collect()
    }

    /// The name of its node, or else its number.
    pub fn node_words(&self) -> String {
        let number = || self.server.node().map(|node| format!("node {node}"));
        self.node.clone().or_else(number).unwrap_or_else(|| self.server.words())
    }
}

/// The answers to questions for these keys as a text: a key a line, with what is in arrays below it. Failures are said
/// besides.
pub fn text(keys: &[String], all: &[Answered]) -> String {
    let mut runs: Vec<Vec<&Answered>> = Vec::new();
    for answered in all {
        match &answered.told {
            Err(error) => say(&format!("{}: {error}", answered.server.words())),
            Ok(_) => match runs.iter_mut().find(|run| run[0].server.is_of_run(&answered.server)) {
                Some(run) => run.push(answered),
                None => runs.push(vec![answered]),
            },
        }
    }
    let is_one = runs.len() == 1 && all.iter().all(|answered| answered.told.is_ok());
    let title = |run: &[&Answered]| if is_one { String::new() } else { format!("{}:\n", run[0].server.words()) };
    runs.iter().map(|run| title(run) + &of_run(keys, run)).collect()
}

fn of_run(asked: &[String], run: &[&Answered]) -> String {
    let server = run[0].server.words();
    let mut keys: Vec<&Key> = Vec::new();
    for info in run.iter().flat_map(|answered| answered.infos()) {
        if !keys.contains(&&info.key) {
            keys.push(&info.key);
        }
    }
    if keys.is_empty() {
        let asked: Vec<String> = asked.iter().map(|key| tree::shown(key)).collect();
        let status = run[0].told.as_ref().map_or(Status::ERROR, |(status, _)| *status);
        return format!("{}: not told by {server} ({status})\n", asked.join(", "));
    }
    keys.into_iter().map(|key| of_key(key, run, &server)).collect()
}

fn of_key(key: &Key, run: &[&Answered], server: &str) -> String {
    let told: Vec<(&Answered, Vec<&Info>)> =
        run.iter().map(|answered| (*answered, answered.of(key))).filter(|(_, infos)| !infos.is_empty()).collect();
    let title = tree::shown(&key.to_string());
    match &told[..] {
        [] => format!("{title}: not told by {server}\n"),
        [(_, first), rest @ ..] if rest.iter().all(|(_, infos)| infos == first) => {
            first.iter().map(|info| tree::info(info, 0)).collect()
        }
        all => {
            let lines = |(answered, infos): &(&Answered, Vec<&Info>)| {
                let title = format!("{title} on {}", answered.node_words());
                infos.iter().map(|info| tree::below(&title, &info.value, 0)).collect::<String>()
            };
            all.iter().map(lines).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(server: &str, node: Option<&str>, infos: Vec<Info>) -> Answered {
        let server = Server::at(&format!("{server};instanton:x"));
        Answered { server, node: node.map(str::to_owned), told: Ok((Status::SUCCESS, infos)) }
    }

    #[test]
    fn nodes_of_a_run_are_shown_as_one_where_they_agree() {
        let infos = |local: u32| vec![Info::new("all", 4u32), Info::new("local", local)];
        let keys = ["all".to_owned(), "local".to_owned(), "rank".to_owned()];
        let first = || answered("a@0:0", Some("n0"), infos(2));
        let unknown = Info::new("rank", Value::Undef);
        let second = || answered("a@0:1", None, [infos(1), vec![Info::new("rank", "x")]].concat());
        assert_eq!(text(&keys, &[first(), second()]), "all: 4\nlocal on n0: 2\nlocal on node 1: 1\nrank: x\n");
        assert_eq!(text(&keys, &[first()]), "all: 4\nlocal: 2\n");
        let other = answered("b@0:0", Some("n0"), vec![unknown]);
        let seen = text(&keys, &[first(), other, second()]);
        let ended = "the server b@0:0:\nrank: not told by the server b@0:0\n";
        assert!(seen.starts_with("the server a@0:0:\nall: 4\n") && seen.ends_with(ended), "{seen}");
        let nothing = answered("a@0:0", None, Vec::new());
        assert!(text(&keys, &[nothing]).starts_with("all, local, rank: not told by the server a@0:0 ("));
    }
}
