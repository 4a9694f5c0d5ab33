//! Meetings: collectives that several nodes take part in, each of them once for all of its processes.
//!
//! A meeting is known by its operation and its processes. Nodes come in any order, and one may come to the next meeting
//! of the same processes before others have come to this one. When all have come, each is answered with what all have
//! brought. A node whose part has failed comes all the same; that, and the loss of a node, ends the meeting for the
//! others: who has come is told at once, and who is still to come, on arrival. The node itself is answered when all have
//! come, with what they brought: a node that nobody of a job is left on comes to its next meeting then.
use std::collections::{BTreeSet, HashMap};

use instanton::data::{Nspace, Proc, Status};

/// A collective operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// An operation of a group.
    Group(i64, Nspace),
}

/// Contribution of a node to a meeting.
#[derive(Default)]
pub struct Part {
    /// Its data.
    pub data: Vec<u8>,
    /// True if it asks for a number of the meeting's own.
    pub wants_context: bool,
    /// The failure of its part, if that has failed.
    pub failed: Option<Status>,
}

/// Contributions of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// The data of all, one after the other.
    pub data: Vec<u8>,
    /// The number, if somebody has asked for it.
    pub context: Option<usize>,
}

/// The way back to a node.
pub type Answer = Box<dyn FnOnce(Result<Met, Status>) + Send>;

/// Answers that are to be given, with no lock held.
pub type Answers = Vec<(Answer, Result<Met, Status>)>;

#[derive(Default)]
struct Meeting {
    nodes: BTreeSet<usize>,
    come: BTreeSet<usize>,
    data: Vec<u8>,
    wants_context: bool,
    failed: Option<Status>,
    waiting: Vec<Answer>,
    /// Nodes whose own part has failed.
    failures: Vec<(usize, Answer)>,
}

/// All meetings that are under way.
#[derive(Default)]
pub struct Meetings {
    open: HashMap<(Kind, Vec<Proc>), Vec<Meeting>>,
    last_context: usize,
}

impl Meetings {
    /// A node comes to a meeting of processes that run on these nodes, some of which may be lost.
    pub fn come(
        &mut self,
        kind: Kind,
        procs: &[Proc],
        (nodes, lost): (BTreeSet<usize>, Option<Status>),
        (node, part, answer): (usize, Part, Answer),
    ) -> Answers {
        let key = (kind, procs.to_vec());
        let queue = self.open.entry(key.clone()).or_default();
        let at = queue.iter().position(|meeting| !meeting.come.contains(&node)).unwrap_or_else(|| {
            queue.push(Meeting { nodes, ..Meeting::default() });
            queue.len() - 1
        });
        let meeting = &mut queue[at];
        meeting.come.insert(node);
        meeting.data.extend(part.data);
        meeting.wants_context |= part.wants_context;
        meeting.failed = meeting.failed.or(part.failed).or(lost);
        match part.failed {
            None => meeting.waiting.push(answer),
            Some(_) => meeting.failures.push((node, answer)),
        }
        let answers = meeting.proceed(&mut self.last_context);
        self.close(&key);
        answers
    }

    /// A node is lost: meetings that wait for it fail.
    pub fn lose(&mut self, node: usize, status: Status) -> Answers {
        let mut answers = Vec::new();
        for meeting in self.open.values_mut().flatten() {
            if meeting.nodes.contains(&node) && meeting.come.insert(node) {
                meeting.failed.get_or_insert(status);
                answers.extend(meeting.proceed(&mut self.last_context));
            }
        }
        let keys: Vec<_> = self.open.keys().cloned().collect();
        keys.iter().for_each(|key| self.close(key));
        answers
    }

    /// A namespace is over, and all meetings of its processes.
    pub fn forget(&mut self, nspace: &Nspace) -> Answers {
        let over = self.open.extract_if(|(_, procs), _| procs.iter().any(|proc| proc.nspace == *nspace));
        let waiting = over.flat_map(|(_, queue)| queue).flat_map(|meeting| {
            meeting.waiting.into_iter().chain(meeting.failures.into_iter().map(|(_, answer)| answer))
        });
        waiting.map(|answer| (answer, Err(Status::EVENT_JOB_END))).collect()
    }

    /// A process of this namespace comes again on a node: failures of that node count no more that nobody has met.
    pub fn expect(&mut self, nspace: &Nspace, node: usize) -> Answers {
        let mut answers = Answers::new();
        let of_job = self.open.iter_mut().filter(|((_, procs), _)| procs.iter().any(|proc| proc.nspace == *nspace));
        for (_, queue) in of_job {
            for meeting in queue.iter_mut().filter(|meeting| meeting.come.len() == meeting.failures.len()) {
                let status = meeting.failed.unwrap_or(Status::ERR_PROC_TERM_WO_SYNC);
                let own = meeting.failures.extract_if(.., |(other, _)| *other == node);
                answers.extend(own.map(|(_, answer)| (answer, Err(status))));
                meeting.come.remove(&node);
            }
            queue.retain(|meeting| !meeting.come.is_empty());
        }
        self.open.retain(|_, queue| !queue.is_empty());
        answers
    }

    /// Forgets the meetings of a key that all have come to.
    fn close(&mut self, key: &(Kind, Vec<Proc>)) {
        if let Some(queue) = self.open.get_mut(key) {
            queue.retain(|meeting| !meeting.come.is_superset(&meeting.nodes));
            if queue.is_empty() {
                self.open.remove(key);
            }
        }
    }
}

impl Meeting {
    /// The answers that can be given by now.
    fn proceed(&mut self, last_context: &mut usize) -> Answers {
        let have_all_come = self.come.is_superset(&self.nodes);
        let met = have_all_come.then(|| {
            let context = (self.wants_context && self.failed.is_none()).then(|| {
                *last_context += 1;
                *last_context
            });
            Met { data: std::mem::take(&mut self.data), context }
        });
        let mut answers = Answers::new();
        if let Some(result) = self.failed.map(Err).or_else(|| met.clone().map(Ok)) {
            answers.extend(std::mem::take(&mut self.waiting).into_iter().map(|answer| (answer, result.clone())));
        }
        if let Some(met) = met {
            answers.extend(self.failures.drain(..).map(|(_, answer)| (answer, Ok(met.clone()))));
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Rank;
    use std::sync::mpsc::{Receiver, Sender, channel};

    struct Test {
        meetings: Meetings,
        said: Sender<(usize, Result<Met, Status>)>,
        heard: Receiver<(usize, Result<Met, Status>)>,
    }

    impl Test {
        fn new() -> Self {
            let (said, heard) = channel();
            Self { meetings: Meetings::default(), said, heard }
        }

        fn come(&mut self, node: usize, data: &[u8], failed: Option<Status>) -> Vec<(usize, Result<Met, Status>)> {
            let all = [Proc::new(Nspace::new("job").unwrap(), Rank::WILDCARD)];
            let (said, data) = (self.said.clone(), data.to_vec());
            let answer: Answer = Box::new(move |result| said.send((node, result)).unwrap());
            let part = Part { data, wants_context: false, failed };
            let answers = self.meetings.come(Kind::Fence, &all, ([0, 1, 2].into(), None), (node, part, answer));
            self.give(answers)
        }

        fn give(&self, answers: Answers) -> Vec<(usize, Result<Met, Status>)> {
            answers.into_iter().for_each(|(answer, result)| answer(result));
            self.heard.try_iter().collect()
        }
    }

    #[test]
    fn all_are_answered_when_the_last_has_come_and_the_next_meeting_waits() {
        let mut test = Test::new();
        assert_eq!(test.come(0, b"a", None), []);
        assert_eq!(test.come(2, b"b", None), []);
        assert_eq!(test.come(0, b"next", None), []);
        let met = test.come(1, b"c", None);
        assert_eq!(met.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 2, 1]);
        assert!(met.iter().all(|(_, result)| result.as_ref().unwrap().data == b"abc"));
        assert_eq!(test.meetings.open.len(), 1);
        test.come(1, b"", None);
        assert_eq!(test.come(2, b"", None).len(), 3);
        assert!(test.meetings.open.is_empty());
    }

    #[test]
    fn a_failure_that_nobody_has_met_is_taken_back() {
        let mut test = Test::new();
        let (job, gone) = (Nspace::new("job").unwrap(), Status::ERR_PROC_TERM_WO_SYNC);
        test.come(1, b"!", Some(gone));
        let answers = test.meetings.expect(&job, 1);
        assert_eq!(test.give(answers), [(1, Err(gone))]);
        assert!(test.meetings.open.is_empty());
        test.come(0, b"a", None);
        assert_eq!(test.come(1, b"!", Some(gone)), [(0, Err(gone))]);
        let answers = test.meetings.expect(&job, 1);
        assert_eq!(test.give(answers), [], "somebody has been told");
    }

    #[test]
    fn a_failure_is_told_to_all_once_and_leaves_nothing() {
        let mut test = Test::new();
        let gone = Status::ERR_PROC_TERM_WO_SYNC;
        test.come(0, b"a", None);
        assert_eq!(test.come(1, b"!", Some(gone)), [(0, Err(gone))]);
        let all = Met { data: b"a!b".to_vec(), context: None };
        assert_eq!(test.come(2, b"b", None), [(2, Err(gone)), (1, Ok(all))]);
        assert!(test.meetings.open.is_empty());
        test.come(0, b"a", None);
        let answers = test.meetings.lose(2, gone);
        assert_eq!(test.give(answers), [(0, Err(gone))]);
        assert_eq!(test.come(1, b"b", None), [(1, Err(gone))]);
        assert!(test.meetings.open.is_empty());
        test.come(0, b"a", None);
        let answers = test.meetings.forget(&Nspace::new("job").unwrap());
        assert_eq!(test.give(answers), [(0, Err(Status::EVENT_JOB_END))]);
    }
}
