//! One meeting: who has come and what they have brought, who is absent, and the answers that can be given by now.
use std::collections::{BTreeMap, BTreeSet};

use instanton::data::constants::group_operation::GROUP_CONSTRUCT;
use instanton::data::{Nspace, Proc, Status};

use super::super::census::Census;
use super::remembered::Remembered;
use super::{Answer, Answers, ENTRY, Key, Kind, MOST_KEPT, MembersFailed, Met};

/// A meeting.
#[derive(Default)]
pub struct Meeting {
    /// Its place in the order in which meetings began.
    pub number: u64,
    pub nodes: BTreeSet<usize>,
    pub come: BTreeSet<usize>,
    pub group: Option<Nspace>,
    /// Number of ends of processes before it, or before its group was made where one is named.
    pub since: u64,
    /// Number of ends of processes before it.
    pub begun: u64,
    /// Nodes that are absent, with their processes.
    pub absent: BTreeMap<usize, Vec<Proc>>,
    /// Nodes on which a process has come again that is no member.
    pub come_again: BTreeSet<usize>,
    pub excuses: bool,
    pub notifies: bool,
    /// Members that may give a group up because of one that is gone, and have not decided; by that one.
    pub undecided: BTreeMap<Proc, BTreeSet<Proc>>,
    pub data: Vec<u8>,
    pub wants_context: bool,
    pub failed: Option<Status>,
    /// True if it has failed because it cannot be.
    pub is_refused: bool,
    pub waiting: Vec<Waiting>,
    /// Nodes whose own part has failed.
    pub failures: Vec<Failed>,
}

/// A node whose own part has failed, and that waits for what the others bring.
pub struct Failed {
    pub node: usize,
    /// True if one of its processes has been told of the failure.
    pub is_known: bool,
    pub answer: Answer,
}

/// A node that waits for a meeting.
pub struct Waiting {
    pub node: usize,
    /// The processes, as it has named them.
    pub procs: Vec<Proc>,
    pub answer: Answer,
}

impl Meeting {
    pub fn have_all_come(&self) -> bool {
        self.nodes.iter().all(|node| self.come.contains(node) || self.absent.contains_key(node))
    }

    /// Returns whether nobody has still to come, or to decide.
    pub fn is_over(&self) -> bool {
        self.have_all_come() && (self.failed.is_some() || self.undecided.is_empty())
    }

    /// Returns whether it has failed and nobody waits for anything.
    pub fn is_spent(&self) -> bool {
        self.failed.is_some() && self.waiting.is_empty() && self.failures.is_empty()
    }

    /// Bytes of what is kept of it.
    pub fn bytes(&self) -> usize {
        let gone = self.absent.values().map(|gone| size_of_val(&gone[..])).sum::<usize>();
        ENTRY + size_of::<Self>() + gone + self.data.len()
    }

    /// Finds the nodes that are absent, and those who cannot decide any more.
    pub fn count(
        &mut self,
        (kind, procs): &Key,
        census: &Census,
        leaders: &Remembered<Nspace, Proc>,
        failed: &mut Vec<MembersFailed>,
    ) {
        self.undecided.retain(|_, undecided| {
            undecided.retain(|proc| census.is_left(proc));
            !undecided.is_empty()
        });
        let since = self.group.as_ref().filter(|_| !kind.makes_group()).map(|_| self.since);
        let deserted = census.deserted(procs, None);
        for (node, gone) in census.deserted(procs, since) {
            if self.come.contains(&node) || self.absent.contains_key(&node) {
                continue;
            }
            match kind {
                _ if !self.excuses => _ = self.failed.get_or_insert(kind.status_of_loss()),
                Kind::Group(GROUP_CONSTRUCT, group) if self.notifies => {
                    let mut asked = census.by_rank(procs);
                    asked.retain(|proc| census.is_left(proc));
                    if let Some(leader) = leaders.get(group).filter(|leader| asked.contains(leader)) {
                        asked = vec![leader.clone()];
                    }
                    self.undecided.extend(gone.iter().map(|proc| (proc.clone(), asked.iter().cloned().collect())));
                    failed.push(MembersFailed { group: group.clone(), gone: gone.clone(), asked });
                }
                _ => {}
            }
            self.absent.insert(node, gone);
            if !deserted.contains_key(&node) {
                self.come_again.insert(node);
            }
        }
        if self.failed.is_some() {
            // All who were late there are gone. A process that has one of their ranks by now is not late for it.
            let replaced = census.deserted(procs, Some(self.begun)).into_keys();
            self.come.extend(replaced.filter(|node| !self.absent.contains_key(node)));
        }
    }

    /// The answers that can be given by now.
    pub fn proceed(&mut self, kind: &Kind, last_context: &mut usize) -> Answers {
        let (have_all_come, is_over) = (self.have_all_come(), self.is_over());
        if !is_over && self.failed.is_none() {
            return Answers::new();
        }
        let context = (self.wants_context && self.failed.is_none()).then(|| {
            *last_context += 1;
            *last_context
        });
        let data = if have_all_come { std::mem::take(&mut self.data) } else { self.data.clone() };
        let gone = self.absent.values().flatten().cloned().collect();
        let met = Met { data, context, gone, failed: self.failed };
        let is_told = |_: &Status| self.is_refused || !kind.ends_group();
        let result = self.failed.filter(is_told).map_or_else(|| Ok(met.clone()), Err);
        let mut answers: Answers =
            self.waiting.drain(..).map(|Waiting { answer, .. }| (answer, result.clone())).collect();
        if have_all_come {
            answers.extend(self.failures.drain(..).map(|failed| (failed.answer, Ok(met.clone()))));
        }
        if self.is_spent() && self.data.len() > MOST_KEPT {
            // A node that comes now is told of the failure. That is worth more than what others have brought.
            self.data = Vec::new();
        }
        answers
    }
}
