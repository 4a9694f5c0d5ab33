//! Meetings: collectives that several nodes take part in, each of them once for all of its processes.
//!
//! A meeting is known by its operation and its processes. Nodes come in any order, and one may come to the next meeting
//! of the same processes before others have come to this one. When all have come, each is answered with what all have
//! brought. A node whose part has failed comes all the same; that ends the meeting for the others: who has come is told
//! at once, and who is still to come, on arrival. The node itself is answered when all have come, with what they
//! brought: a node that nobody of a job is left on comes to its next meeting then.
//!
//! A node that has not come, and on which nobody is left of those who take part, is *absent*: nobody waits for it. It
//! ends the meeting like a part that has failed, unless the others want to go on without members that are gone
//! ([`Part::excuses`]). What comes from it later all the same is a part that was on its way.
//!
//! Members of a group under construction that are absent may matter to others: its leader, or each of them where none
//! has declared itself, is asked, and the meeting is not over before all of these have decided, or are gone.
//!
//! Events of groups pass the hub as well. A member that has left its group is named no more by those who meet in the
//! group's name from then on, so meetings with it are known by the others from then on. The construction of a group that
//! one of its processes gives up is over for all.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use instanton::data::constants::group_operation::{GROUP_CONSTRUCT, GROUP_DESTRUCT};
use instanton::data::{Nspace, Proc, Status};

use super::census::Census;

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
    /// The reason why the whole meeting cannot be, for this node as well as the others.
    pub refused: Option<Status>,
    /// True if the others are to go on without members that are gone.
    pub excuses: bool,
    /// True if they are to hear of these.
    pub notifies: bool,
    /// The group that it is about.
    pub group: Option<Nspace>,
}

/// Contributions of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// The data of all, one after the other.
    pub data: Vec<u8>,
    /// The number, if somebody has asked for it.
    pub context: Option<usize>,
    /// The processes of nodes that are absent.
    pub gone: Vec<Proc>,
    /// The failure of the end of a group, which its members learn with those that are gone: they leave these out when
    /// they try again.
    pub failed: Option<Status>,
}

/// Members of a group under construction that are gone, and of which the others want to hear.
#[derive(Debug, PartialEq, Eq)]
pub struct MembersFailed {
    pub group: Nspace,
    pub gone: Vec<Proc>,
    /// The members who are asked: their leader, or all that are left.
    pub asked: Vec<Proc>,
}

/// The way back to a node.
pub type Answer = Box<dyn FnOnce(Result<Met, Status>) + Send>;

/// Answers that are to be given, with no lock held.
pub type Answers = Vec<(Answer, Result<Met, Status>)>;

/// Operation and processes of a meeting.
type Key = (Kind, Vec<Proc>);

#[derive(Default)]
struct Meeting {
    nodes: BTreeSet<usize>,
    come: BTreeSet<usize>,
    group: Option<Nspace>,
    /// Nodes that are absent, with their processes.
    absent: BTreeMap<usize, Vec<Proc>>,
    excuses: bool,
    notifies: bool,
    /// Members that may give a group up because of one that is gone, and have not decided; by that one.
    undecided: BTreeMap<Proc, BTreeSet<Proc>>,
    data: Vec<u8>,
    wants_context: bool,
    failed: Option<Status>,
    /// True if it has failed because it cannot be.
    is_refused: bool,
    waiting: Vec<Answer>,
    /// Nodes whose own part has failed.
    failures: Vec<(usize, Answer)>,
}

/// All meetings that are under way.
#[derive(Default)]
pub struct Meetings {
    open: HashMap<Key, Vec<Meeting>>,
    /// Nodes that were absent from meetings that are over.
    missed: HashMap<Key, BTreeSet<usize>>,
    failed: Vec<MembersFailed>,
    /// Members that have left their groups.
    left: HashMap<Nspace, BTreeSet<Proc>>,
    /// Leaders of groups under construction.
    leaders: HashMap<Nspace, Proc>,
    last_context: usize,
}

impl Kind {
    /// The outcome for the others when somebody is gone who has not come: that of the library on one node.
    fn status_of_loss(&self) -> Status {
        match self {
            Self::Fence | Self::Connect | Self::Disconnect => Status::ERR_PARTIAL_SUCCESS,
            Self::Group(..) => Status::ERR_PROC_TERM_WO_SYNC,
        }
    }

    fn ends_group(&self) -> bool {
        matches!(self, Self::Group(operation, _) if *operation == GROUP_DESTRUCT)
    }
}

impl Meetings {
    /// A node comes to a meeting of processes.
    pub fn come(
        &mut self,
        (kind, procs): (Kind, &[Proc]),
        census: &Census,
        (node, part, answer): (usize, Part, Answer),
    ) -> Answers {
        if let Kind::Group(GROUP_CONSTRUCT, group) = &kind {
            self.left.remove(group);
        }
        let left = part.group.as_ref().and_then(|group| self.left.get(group));
        let left = left.filter(|_| part.excuses || kind.ends_group());
        let procs = left.map_or_else(|| procs.to_vec(), |left| without(census, procs, |proc| left.contains(proc)));
        // Tools have no node but that at which they ask.
        let nodes = census.nodes_of(&procs).unwrap_or_else(|| [node].into());
        let key = (kind, procs);
        let is_late = self.missed.get(&key).is_some_and(|missed| missed.contains(&node));
        let queue = self.open.entry(key.clone()).or_default();
        let at = match queue.iter().position(|meeting| !meeting.come.contains(&node)) {
            Some(at) => at,
            None if is_late => {
                let status = part.failed.unwrap_or(key.0.status_of_loss());
                self.close(&key);
                return vec![(answer, Err(status))];
            }
            None => {
                queue.push(Meeting { nodes, group: part.group, ..Meeting::default() });
                queue.len() - 1
            }
        };
        let meeting = &mut queue[at];
        meeting.come.insert(node);
        meeting.absent.remove(&node);
        meeting.excuses |= part.excuses;
        meeting.notifies |= part.notifies;
        meeting.is_refused |= part.refused.is_some();
        meeting.data.extend(part.data);
        meeting.wants_context |= part.wants_context;
        meeting.failed = meeting.failed.or(part.failed).or(part.refused);
        match part.failed {
            None => meeting.waiting.push(answer),
            Some(_) => meeting.failures.push((node, answer)),
        }
        meeting.count(&key, census, &self.leaders, &mut self.failed);
        let answers = meeting.proceed(&key.0, &mut self.last_context);
        self.close(&key);
        answers
    }

    /// Processes have ended, or a node is lost: nobody waits for nodes that are absent from now on.
    pub fn count(&mut self, census: &Census) -> Answers {
        let mut answers = Answers::new();
        for (key, queue) in &mut self.open {
            for meeting in queue {
                meeting.count(key, census, &self.leaders, &mut self.failed);
                answers.extend(meeting.proceed(&key.0, &mut self.last_context));
            }
        }
        let keys: Vec<_> = self.open.keys().cloned().collect();
        keys.iter().for_each(|key| self.close(key));
        answers
    }

    /// A member has left a group. Meetings of the group go on without it where that is wanted, under the name of the
    /// others; those fail that still wait for its node.
    pub fn leave(&mut self, group: &Nspace, proc: &Proc, census: &Census) -> Answers {
        self.left.entry(group.clone()).or_default().insert(proc.clone());
        let node = census.nodes_of(std::slice::from_ref(proc)).and_then(|nodes| nodes.first().copied());
        let concerned = |(_, procs): &Key, queue: &mut Vec<Meeting>| {
            let is_of_group = |meeting: &Meeting| meeting.group.as_ref() == Some(group);
            queue.iter().any(is_of_group) && census.by_rank(procs).contains(proc)
        };
        let concerned: Vec<(Key, Vec<Meeting>)> = self.open.extract_if(concerned).collect();
        for (key, queue) in concerned {
            let procs = without(census, &key.1, |other| other == proc);
            for mut meeting in queue {
                let is_of_group = meeting.group.as_ref() == Some(group);
                let goes_on = is_of_group && (meeting.excuses || key.0.ends_group());
                if goes_on {
                    meeting.nodes = census.nodes_of(&procs).unwrap_or_default();
                } else if let Some(node) = node.filter(|node| is_of_group && !meeting.come.contains(node)) {
                    meeting.failed.get_or_insert(Status::GROUP_LEFT);
                    meeting.absent.insert(node, vec![proc.clone()]);
                }
                let named = if goes_on { procs.clone() } else { key.1.clone() };
                self.open.entry((key.0.clone(), named)).or_default().push(meeting);
            }
        }
        self.count(census)
    }

    /// A process gives up the construction of a group that it was to be in.
    pub fn give_up(&mut self, group: &Nspace, proc: &Proc, census: &Census) -> Answers {
        let constructs = Kind::Group(GROUP_CONSTRUCT, group.clone());
        let given_up = |key: &Key| key.0 == constructs && census.by_rank(&key.1).contains(proc);
        for (_, queue) in self.open.iter_mut().filter(|(key, _)| given_up(key)) {
            queue.iter_mut().for_each(|meeting| _ = meeting.failed.get_or_insert(Status::GROUP_CONSTRUCT_ABORT));
        }
        self.count(census)
    }

    /// A group under construction has this leader, or none.
    pub fn lead(&mut self, group: &Nspace, leader: Option<Proc>) {
        match leader {
            Some(leader) => _ = self.leaders.insert(group.clone(), leader),
            None => _ = self.leaders.remove(group),
        }
    }

    /// Members have decided about those that are gone.
    pub fn decide(&mut self, group: &Nspace, gone: &[Proc], by: &[Proc], census: &Census) -> Answers {
        let constructs = Kind::Group(GROUP_CONSTRUCT, group.clone());
        let of_group = self.open.iter_mut().filter(|((kind, _), _)| *kind == constructs);
        for meeting in of_group.flat_map(|(_, queue)| queue) {
            for (_, undecided) in meeting.undecided.iter_mut().filter(|(about, _)| gone.contains(about)) {
                undecided.retain(|proc| !by.contains(proc));
            }
        }
        self.count(census)
    }

    /// A group was made by invitation.
    pub fn made(&mut self, group: &Nspace) {
        self.left.remove(group);
    }

    /// Takes the members of groups that are found to be gone.
    pub fn take_failed(&mut self) -> Vec<MembersFailed> {
        std::mem::take(&mut self.failed)
    }

    /// A namespace is over, and all meetings of its processes.
    pub fn forget(&mut self, nspace: &Nspace) -> Answers {
        let involves = |(_, procs): &Key| procs.iter().any(|proc| proc.nspace == *nspace);
        self.missed.retain(|key, _| !involves(key));
        self.leaders.retain(|_, leader| leader.nspace != *nspace);
        self.left.retain(|_, left| {
            left.retain(|proc| proc.nspace != *nspace);
            !left.is_empty()
        });
        let over = self.open.extract_if(|key, _| involves(key));
        let waiting = over.flat_map(|(_, queue)| queue).flat_map(|meeting| {
            meeting.waiting.into_iter().chain(meeting.failures.into_iter().map(|(_, answer)| answer))
        });
        waiting.map(|answer| (answer, Err(Status::EVENT_JOB_END))).collect()
    }

    /// A process of this namespace comes again on a node: failures of that node count no more that nobody has met. It is
    /// missed by no meeting that has failed because of it.
    pub fn expect(&mut self, nspace: &Nspace, node: usize) -> Answers {
        let mut answers = Answers::new();
        let involves = |(_, procs): &Key| procs.iter().any(|proc| proc.nspace == *nspace);
        self.missed.retain(|key, missed| {
            let is_left = !involves(key) || !missed.remove(&node);
            is_left || !missed.is_empty()
        });
        for (_, queue) in self.open.iter_mut().filter(|(key, _)| involves(key)) {
            for meeting in queue.iter_mut().filter(|meeting| meeting.failed.is_some()) {
                meeting.come.extend(meeting.absent.remove(&node).map(|_| node));
            }
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

    /// Forgets the meetings of a key that nobody is to come to any more.
    fn close(&mut self, key: &Key) {
        let Some(queue) = self.open.get_mut(key) else { return };
        for meeting in queue.extract_if(.., |meeting| meeting.is_over()) {
            if let Kind::Group(GROUP_CONSTRUCT, group) = &key.0 {
                self.leaders.remove(group);
            }
            if let (Kind::Group(GROUP_DESTRUCT, group), None) = (&key.0, meeting.failed) {
                self.left.remove(group);
            }
            if !meeting.absent.is_empty() {
                self.missed.entry(key.clone()).or_default().extend(meeting.absent.into_keys());
            }
        }
        if queue.is_empty() {
            self.open.remove(key);
        }
    }
}

/// Processes by their ranks, without some.
fn without(census: &Census, procs: &[Proc], is_out: impl Fn(&Proc) -> bool) -> Vec<Proc> {
    census.by_rank(procs).into_iter().filter(|proc| !is_out(proc)).collect()
}

impl Meeting {
    fn have_all_come(&self) -> bool {
        self.nodes.iter().all(|node| self.come.contains(node) || self.absent.contains_key(node))
    }

    /// Returns whether nobody has still to come, or to decide.
    fn is_over(&self) -> bool {
        self.have_all_come() && (self.failed.is_some() || self.undecided.is_empty())
    }

    /// Finds the nodes that are absent, and those who cannot decide any more.
    fn count(
        &mut self,
        (kind, procs): &Key,
        census: &Census,
        leaders: &HashMap<Nspace, Proc>,
        failed: &mut Vec<MembersFailed>,
    ) {
        self.undecided.retain(|_, undecided| {
            undecided.retain(|proc| census.is_left(proc));
            !undecided.is_empty()
        });
        for (node, gone) in census.deserted(procs) {
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
        }
    }

    /// The answers that can be given by now.
    fn proceed(&mut self, kind: &Kind, last_context: &mut usize) -> Answers {
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
        let mut answers: Answers = self.waiting.drain(..).map(|answer| (answer, result.clone())).collect();
        if have_all_come {
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
        census: Census,
        said: Sender<(usize, Result<Met, Status>)>,
        heard: Receiver<(usize, Result<Met, Status>)>,
    }

    impl Test {
        fn new() -> Self {
            let ((said, heard), mut census) = (channel(), Census::default());
            census.place(&Nspace::new("job").unwrap(), vec![0, 1, 2, 2]);
            Self { meetings: Meetings::default(), census, said, heard }
        }

        fn come(&mut self, node: usize, data: &[u8], failed: Option<Status>) -> Vec<(usize, Result<Met, Status>)> {
            let data = data.to_vec();
            self.come_to(Kind::Fence, node, Part { data, failed, ..Part::default() })
        }

        fn come_to(&mut self, kind: Kind, node: usize, part: Part) -> Vec<(usize, Result<Met, Status>)> {
            let said = self.said.clone();
            let answer: Answer = Box::new(move |result| said.send((node, result)).unwrap());
            let answers = self.meetings.come((kind, &all()), &self.census, (node, part, answer));
            self.give(answers)
        }

        fn ends(&mut self, rank: u32) -> Vec<(usize, Result<Met, Status>)> {
            self.census.has_ended(&proc(rank));
            let answers = self.meetings.count(&self.census);
            self.give(answers)
        }

        fn begins_anew(&mut self, rank: u32, node: usize) {
            self.census.expect(&proc(rank));
            let answers = self.meetings.expect(&proc(rank).nspace, node);
            assert_eq!(self.give(answers), []);
        }

        fn give(&self, answers: Answers) -> Vec<(usize, Result<Met, Status>)> {
            answers.into_iter().for_each(|(answer, result)| answer(result));
            self.heard.try_iter().collect()
        }
    }

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn all() -> Vec<Proc> {
        vec![Proc { rank: Rank::WILDCARD, ..proc(0) }]
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
        let all = Met { data: b"a!b".to_vec(), failed: Some(gone), ..Met::default() };
        assert_eq!(test.come(2, b"b", None), [(2, Err(gone)), (1, Ok(all))]);
        assert!(test.meetings.open.is_empty());
        test.come(0, b"a", None);
        test.census.lose(2);
        let (answers, gone) = (test.meetings.count(&test.census), Status::ERR_PARTIAL_SUCCESS);
        assert_eq!(test.give(answers), [(0, Err(gone))]);
        assert_eq!(test.come(1, b"b", None), [(1, Err(gone))]);
        assert!(test.meetings.open.is_empty());
        test.census = Test::new().census;
        test.come(0, b"a", None);
        let answers = test.meetings.forget(&Nspace::new("job").unwrap());
        assert_eq!(test.give(answers), [(0, Err(Status::EVENT_JOB_END))]);
    }

    #[test]
    fn nobody_waits_for_a_node_on_which_nobody_is_left() {
        let (mut test, lost) = (Test::new(), Status::ERR_PARTIAL_SUCCESS);
        test.come(0, b"a", None);
        assert_eq!(test.ends(2), [], "another one may come there");
        assert_eq!(test.ends(3), [(0, Err(lost))]);
        assert_eq!(test.come(1, b"b", None), [(1, Err(lost))]);
        assert!(test.meetings.open.is_empty());
        assert_eq!(test.come(2, b"c", None), [(2, Err(lost))], "what was on its way is no part of the next meeting");
        assert!(test.meetings.open.is_empty());
        assert_eq!(test.come(0, b"a", None), [(0, Err(lost))]);
        // Whoever comes anew is waited for in the next meeting, not in this one.
        test.begins_anew(3, 2);
        test.come(2, b"c", None);
        assert_eq!(test.come(1, b"b", None), [(1, Err(lost))]);
        test.come(0, b"a", None);
        assert_eq!(test.come(1, b"b", None).len(), 3);
        assert!(test.meetings.open.is_empty() && test.meetings.missed.is_empty());
    }

    #[test]
    fn who_has_come_before_its_end_has_done_its_part() {
        let mut test = Test::new();
        test.come(1, b"b", None);
        assert_eq!(test.ends(1), []);
        test.come(0, b"a", None);
        assert!(test.come(2, b"c", None).iter().all(|(_, met)| met.is_ok()));
    }

    #[test]
    fn a_group_is_made_and_ended_without_members_that_are_excused() {
        let group = Nspace::new("g").unwrap();
        let part = || Part { excuses: true, notifies: true, ..Part::default() };
        for operation in [GROUP_CONSTRUCT, GROUP_DESTRUCT] {
            let (mut test, kind) = (Test::new(), Kind::Group(operation, group.clone()));
            test.ends(1);
            test.come_to(kind.clone(), 0, part());
            let mut met = test.come_to(kind, 2, part());
            if operation == GROUP_CONSTRUCT {
                assert_eq!(met, [], "they are asked");
                let by = [0, 2, 3].map(proc);
                let answers = test.meetings.decide(&group, &[proc(1)], &by, &test.census);
                met = test.give(answers);
            }
            assert!(met.iter().all(|(_, met)| met.as_ref().unwrap().gone == [proc(1)]) && met.len() == 2);
            let asked = [0, 2, 3].map(proc).to_vec();
            let failed = MembersFailed { group: group.clone(), gone: vec![proc(1)], asked };
            let is_construct = operation == GROUP_CONSTRUCT;
            assert_eq!(test.meetings.take_failed(), is_construct.then_some(failed).into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_leader_alone_is_asked_about_the_gone_and_waited_for_as_long_as_it_lives() {
        for lives in [true, false] {
            let (mut test, group) = (Test::new(), Nspace::new("g").unwrap());
            let kind = || Kind::Group(GROUP_CONSTRUCT, group.clone());
            let part = || Part { excuses: true, notifies: true, ..Part::default() };
            test.meetings.lead(&group, Some(proc(3)));
            test.ends(1);
            assert_eq!(test.come_to(kind(), 0, part()), []);
            assert_eq!(test.come_to(kind(), 2, part()), []);
            assert_eq!(test.meetings.take_failed()[0].asked, [proc(3)]);
            let (answers, others) = (test.meetings.decide(&group, &[proc(1)], &[proc(0)], &test.census), [proc(3)]);
            assert_eq!(test.give(answers), [], "nobody has asked it");
            let met = match lives {
                true => {
                    let answers = test.meetings.decide(&group, &[proc(1)], &others, &test.census);
                    test.give(answers)
                }
                false => test.ends(3),
            };
            assert_eq!(met.len(), 2);
            assert!(met.iter().all(|(_, met)| met.as_ref().unwrap().gone == [proc(1)]));
            assert!(test.meetings.open.is_empty() && test.meetings.leaders.is_empty());
        }
    }

    #[test]
    fn members_learn_who_is_gone_when_the_end_of_their_group_fails() {
        let (mut test, group) = (Test::new(), Nspace::new("g").unwrap());
        test.ends(1);
        let failed = Some(Status::ERR_PROC_TERM_WO_SYNC);
        let met = test.come_to(Kind::Group(GROUP_DESTRUCT, group.clone()), 0, Part::default());
        assert_eq!(met, [(0, Ok(Met { gone: vec![proc(1)], failed, ..Met::default() }))]);
        let met = test.come_to(Kind::Group(GROUP_CONSTRUCT, group), 0, Part::default());
        assert_eq!(met, [(0, Err(Status::ERR_PROC_TERM_WO_SYNC))]);
    }

    #[test]
    fn a_meeting_that_cannot_be_is_refused_to_all() {
        let (mut test, refused) = (Test::new(), Some(Status::ERR_NOT_SUPPORTED));
        test.come(0, b"a", None);
        let told = test.come_to(Kind::Fence, 1, Part { refused, ..Part::default() });
        assert_eq!(told, [0, 1].map(|node| (node, Err(Status::ERR_NOT_SUPPORTED))));
        assert_eq!(test.come(2, b"c", None), [(2, Err(Status::ERR_NOT_SUPPORTED))]);
        assert!(test.meetings.open.is_empty());
    }

    #[test]
    fn a_meeting_of_a_group_goes_on_without_a_member_that_has_left_or_fails() {
        let group = Nspace::new("g").unwrap();
        let part = |excuses| Part { excuses, group: Some(group.clone()), ..Part::default() };
        let ends = || Kind::Group(GROUP_DESTRUCT, group.clone());
        for (kind, excuses, met) in
            [(ends(), false, Ok(())), (Kind::Fence, true, Ok(())), (Kind::Fence, false, Err(Status::GROUP_LEFT))]
        {
            let mut test = Test::new();
            test.come_to(kind.clone(), 0, part(excuses));
            let answers = test.meetings.leave(&group, &proc(1), &test.census);
            let mut told = test.give(answers);
            // It has not heard of that yet.
            told.extend(test.come_to(kind, 2, part(excuses)));
            let told: Vec<_> = told.into_iter().map(|(node, told)| (node, told.map(drop))).collect();
            assert_eq!(told, [(0, met), (2, met)]);
            assert!(test.meetings.open.is_empty());
        }
        let mut test = Test::new();
        test.come(0, b"a", None);
        let answers = test.meetings.leave(&group, &proc(1), &test.census);
        assert_eq!(test.give(answers), [], "a fence that names no group waits for it");
    }

    #[test]
    fn who_gives_a_group_up_ends_its_construction_for_all() {
        let (mut test, group, given_up) = (Test::new(), Nspace::new("g").unwrap(), Status::GROUP_CONSTRUCT_ABORT);
        let kind = || Kind::Group(GROUP_CONSTRUCT, group.clone());
        test.come_to(kind(), 0, Part::default());
        let answers = test.meetings.give_up(&group, &Proc { nspace: group.clone(), ..proc(0) }, &test.census);
        assert_eq!(test.give(answers), [], "a stranger says so");
        let answers = test.meetings.give_up(&group, &proc(0), &test.census);
        assert_eq!(test.give(answers), [(0, Err(given_up))]);
        assert_eq!(
            [1, 2].map(|node| test.come_to(kind(), node, Part::default())),
            [1, 2].map(|node| vec![(node, Err(given_up))])
        );
        assert!(test.meetings.open.is_empty());
    }
}
