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
//! ([`Part::excuses`]). A part that comes from it later all the same was on its way.
//!
//! Members of a group under construction that are absent may matter to others: its leader, or each of them where none
//! has declared itself, is asked, and the meeting is not over before all of these have decided, or are gone.
//!
//! A member of a group that has died is one no more, though a process was started anew in its place: a node with no other
//! member is absent from the group's meetings. From then on the group's fences are apart from those of the same ranks, so
//! that the new process meets none of them by mistake.
//!
//! A node whose time limit has passed ends the meeting for all, like one whose part has failed. A node that has not come
//! to a meeting which has failed is late for it, unless its processes have all ended since the meeting began: who was
//! started anew in their place comes to the next.
//!
//! Events of groups pass the hub as well. A member that has left its group is named no more by those who meet in the
//! group's name from then on, so meetings with it are known by the others from then on. The construction of a group that
//! one of its processes gives up is over for all.
//!
//! Facts that are kept for those who come late, when nobody waits any more, are [remembered](remembered) within bounds:
//! meetings that have failed, nodes that were absent from others, groups that were made, members that have left and
//! leaders.
mod meeting;
mod remembered;

use std::collections::{BTreeSet, HashMap, HashSet};

use instanton::data::constants::group_operation::{GROUP_CONSTRUCT, GROUP_DESTRUCT};
use instanton::data::{Nspace, Proc, Status};
use instanton::server::Operation;
use rkyv::{Archive, Deserialize, Serialize};

use super::census::Census;
use meeting::{Failed, Meeting, Waiting};
use remembered::{Remembered, about};

/// Most bytes of what was brought that are kept when nobody waits any more.
const MOST_KEPT: usize = 64 << 10;
/// Bytes of an entry in a table, beside what it names.
const ENTRY: usize = 256;
/// Most failed meetings of the same processes that are kept for those who come late.
const MOST_FAILED: usize = 256;

/// A collective operation.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// An operation of a group.
    Group(i64, Nspace),
    /// A fence by the name of a group in which the rank of a lost member was started anew. The hub finds that out: no
    /// node says it.
    OfMembers(Nspace),
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
    /// True if a process of the node has been told of that failure.
    pub is_known: bool,
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

/// Answers that are to be given, with the state's lock not held.
pub type Answers = Vec<(Answer, Result<Met, Status>)>;

/// Operation and processes of a meeting.
type Key = (Kind, Vec<Proc>);

/// A group that was made by a meeting or by invitation.
struct Made {
    /// Number of ends of processes before.
    since: u64,
    /// The namespaces of its members that are not over.
    of: BTreeSet<Nspace>,
}

/// All meetings that are under way.
#[derive(Default)]
pub struct Meetings {
    open: HashMap<Key, Vec<Meeting>>,
    /// Keys of failed meetings that nobody waits for: they tell those who come late.
    spent: Remembered<Key, ()>,
    /// Nodes that were absent from meetings that are over.
    missed: Remembered<Key, BTreeSet<usize>>,
    failed: Vec<MembersFailed>,
    /// Groups that were made.
    made: Remembered<Nspace, Made>,
    /// Members that have left their groups.
    left: Remembered<Nspace, BTreeSet<Proc>>,
    /// Leaders of groups under construction.
    leaders: Remembered<Nspace, Proc>,
    /// Number of the last meeting that was begun.
    last: u64,
    last_context: usize,
}

impl From<&Operation> for Kind {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::Fence => Self::Fence,
            Operation::Connect => Self::Connect,
            Operation::Disconnect => Self::Disconnect,
            Operation::Construct(group) => Self::Group(GROUP_CONSTRUCT, group.clone()),
            Operation::Destruct(group) => Self::Group(GROUP_DESTRUCT, group.clone()),
        }
    }
}

impl Kind {
    /// The outcome for the others when somebody is gone who has not come: that of the library on one node.
    fn status_of_loss(&self) -> Status {
        match self {
            Self::Fence | Self::OfMembers(_) | Self::Connect | Self::Disconnect => Status::ERR_PARTIAL_SUCCESS,
            Self::Group(..) => Status::ERR_PROC_TERM_WO_SYNC,
        }
    }

    fn makes_group(&self) -> bool {
        matches!(self, Self::Group(operation, _) if *operation == GROUP_CONSTRUCT)
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
        let named = procs;
        let left = part.group.as_ref().and_then(|group| self.left.get(group));
        let procs = left.map_or_else(|| procs.to_vec(), |left| without(census, procs, |proc| left.contains(proc)));
        // It may not have heard of that yet.
        let missed: Vec<Proc> = match left.filter(|_| !part.excuses && !kind.ends_group()) {
            Some(left) => census.by_rank(named).into_iter().filter(|proc| left.contains(proc)).collect(),
            None => Vec::new(),
        };
        let Some(nodes) = census.nodes_of(&procs) else {
            // A tool of theirs is gone.
            let status = part.failed.unwrap_or(kind.status_of_loss());
            return vec![(answer, Err(status))];
        };
        let key = self.key_of(kind, procs, part.group.as_ref(), node, census);
        let is_late = self.missed.get(&key).is_some_and(|missed| missed.contains(&node));
        let queue = self.open.entry(key.clone()).or_default();
        let awaits = |meeting: &Meeting| {
            let is_other = meeting.group.is_some() && part.group.is_none() && meeting.absent.contains_key(&node);
            !meeting.come.contains(&node) && !is_other
        };
        let at = match queue.iter().position(awaits) {
            Some(at) => at,
            None if is_late => {
                let status = part.failed.unwrap_or(key.0.status_of_loss());
                self.close(&key);
                return vec![(answer, Err(status))];
            }
            None => {
                let made = part.group.as_ref().and_then(|group| self.made.get(group));
                let since = made.filter(|_| !key.0.makes_group()).map_or(census.ends(), |made| made.since);
                self.last += 1;
                let begun = census.ends();
                queue.push(Meeting { number: self.last, nodes, group: part.group, since, begun, ..Meeting::default() });
                queue.len() - 1
            }
        };
        let meeting = &mut queue[at];
        let has_come = |proc: &Proc| census.node_of(proc).is_some_and(|node| meeting.come.contains(&node));
        if !missed.iter().all(has_come) {
            meeting.failed.get_or_insert(Status::GROUP_LEFT);
        }
        meeting.come.insert(node);
        meeting.absent.remove(&node);
        meeting.excuses |= part.excuses;
        meeting.notifies |= part.notifies;
        meeting.is_refused |= part.refused.is_some();
        meeting.data.extend(part.data);
        meeting.wants_context |= part.wants_context;
        meeting.failed = meeting.failed.or(part.failed).or(part.refused);
        match part.failed {
            None => meeting.waiting.push(Waiting { node, procs: named.to_vec(), answer }),
            Some(_) => meeting.failures.push(Failed { node, is_known: part.is_known, answer }),
        }
        meeting.count(&key, census, &self.leaders, &mut self.failed);
        let answers = meeting.proceed(&key.0, &mut self.last_context);
        self.close(&key);
        answers
    }

    /// The name of a meeting. Nodes meet for the end of a group whomever they name: some may not have heard of a member that
    /// is gone, and wait for it still. A fence of a group whose ranks are not its members' alone any more has a name of
    /// its own, unless the node is late for one that began before.
    fn key_of(&self, kind: Kind, procs: Vec<Proc>, group: Option<&Nspace>, node: usize, census: &Census) -> Key {
        let key = (kind, procs);
        if let (Kind::Fence, Some(group)) = (&key.0, group) {
            let is_late = |meeting: &Meeting| meeting.group.as_ref() == Some(group) && !meeting.come.contains(&node);
            let has_others = |made: &Made| census.has_begun_anew(&key.1, made.since);
            let is_apart = self.made.get(group).is_some_and(has_others)
                && !self.open.get(&key).is_some_and(|queue| queue.iter().any(is_late));
            return if is_apart { (Kind::OfMembers(group.clone()), key.1) } else { key };
        }
        if !key.0.ends_group() {
            return key;
        }
        // One that has failed is the first that it is late for.
        let awaits = |meeting: &&Meeting| !meeting.come.contains(&node);
        let of_group = self.open.iter().filter(|((kind, _), _)| *kind == key.0);
        let first = |(other, queue): (&Key, &Vec<Meeting>)| Some((queue.iter().find(awaits)?.number, other.clone()));
        of_group.filter_map(first).min_by_key(|(number, _)| *number).map_or(key, |(_, other)| other)
    }

    /// The time limit of a node has passed that waits for a meeting: it is over for all. One that is answered already has
    /// ended well, or has failed.
    pub fn withdraw(&mut self, (kind, procs): (&Kind, &[Proc]), node: usize, census: &Census) -> Answers {
        let waits = |waiting: &Waiting| waiting.node == node && waiting.procs == procs;
        let mut concerned = HashSet::new();
        let is_it = |of: &Kind| of == kind || *kind == Kind::Fence && matches!(of, Kind::OfMembers(_));
        for (key, queue) in self.open.iter_mut().filter(|(key, _)| is_it(&key.0)) {
            for meeting in queue.iter_mut().filter(|meeting| meeting.waiting.iter().any(waits)) {
                meeting.failed.get_or_insert(Status::ERR_TIMEOUT);
                concerned.insert(key.clone());
            }
        }
        self.count_in(census, |key| concerned.contains(key))
    }

    /// Processes have ended, or a node is lost: nobody waits for nodes that are absent from now on.
    pub fn count(&mut self, census: &Census) -> Answers {
        self.count_in(census, |_| true)
    }

    /// Counts in those meetings that something concerns.
    fn count_in(&mut self, census: &Census, is_concerned: impl Fn(&Key) -> bool) -> Answers {
        let (mut answers, mut ended) = (Answers::new(), Vec::new());
        for (key, queue) in self.open.iter_mut().filter(|(key, _)| is_concerned(key)) {
            let mut is_ended = false;
            for meeting in queue {
                let was_spent = meeting.is_spent();
                meeting.count(key, census, &self.leaders, &mut self.failed);
                answers.extend(meeting.proceed(&key.0, &mut self.last_context));
                is_ended |= meeting.is_over() || meeting.is_spent() && !was_spent;
            }
            ended.extend(is_ended.then(|| key.clone()));
        }
        ended.iter().for_each(|key| self.close(key));
        answers
    }

    /// A member has left a group. Meetings of the group are those of the others from now on. They go on without it where
    /// that is wanted, and fail where its node has not come: for all, also for those who come later and leave it out.
    pub fn leave(&mut self, group: &Nspace, proc: &Proc, census: &Census) -> Answers {
        self.left.put(about(std::slice::from_ref(proc)), group, |left| {
            let mut left = left.unwrap_or_default();
            left.insert(proc.clone());
            let bytes = ENTRY + group.as_bytes().len() + left.len() * size_of::<Proc>();
            (left, bytes)
        });
        let node = census.nodes_of(std::slice::from_ref(proc)).and_then(|nodes| nodes.first().copied());
        let concerned = |(_, procs): &Key, queue: &mut Vec<Meeting>| {
            let is_of_group = |meeting: &Meeting| meeting.group.as_ref() == Some(group);
            queue.iter().any(is_of_group) && census.by_rank(procs).contains(proc)
        };
        let concerned: Vec<(Key, Vec<Meeting>)> = self.open.extract_if(concerned).collect();
        let mut named_now = HashSet::new();
        for (key, queue) in concerned {
            self.spent.remove(&key);
            let procs = without(census, &key.1, |other| other == proc);
            for mut meeting in queue {
                let is_of_group = meeting.group.as_ref() == Some(group);
                if is_of_group {
                    let goes_on = meeting.excuses || key.0.ends_group();
                    if !goes_on && node.is_some_and(|node| !meeting.come.contains(&node)) {
                        meeting.failed.get_or_insert(Status::GROUP_LEFT);
                    }
                    meeting.nodes = census.nodes_of(&procs).unwrap_or_default();
                }
                let named = if is_of_group { procs.clone() } else { key.1.clone() };
                let key = (key.0.clone(), named);
                named_now.insert(key.clone());
                self.open.entry(key).or_default().push(meeting);
            }
        }
        let answers = self.count_in(census, |key| named_now.contains(key));
        named_now.iter().for_each(|key| self.close(key));
        answers
    }

    /// A process gives up the construction of a group that it was to be in.
    pub fn give_up(&mut self, group: &Nspace, proc: &Proc, census: &Census) -> Answers {
        let constructs = Kind::Group(GROUP_CONSTRUCT, group.clone());
        let given_up = |key: &Key| key.0 == constructs && census.by_rank(&key.1).contains(proc);
        for (_, queue) in self.open.iter_mut().filter(|(key, _)| given_up(key)) {
            queue.iter_mut().for_each(|meeting| _ = meeting.failed.get_or_insert(Status::GROUP_CONSTRUCT_ABORT));
        }
        self.count_in(census, |key| key.0 == constructs)
    }

    /// A group under construction has this leader, or none.
    pub fn lead(&mut self, group: &Nspace, leader: Option<Proc>) {
        match leader {
            Some(leader) => {
                let bytes = ENTRY + group.as_bytes().len();
                self.leaders.put(about(std::slice::from_ref(&leader)), group, |_| (leader.clone(), bytes));
            }
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
        self.count_in(census, |key| key.0 == constructs)
    }

    /// A group was made of these, by invitation, who were its members after so many ends of processes.
    pub fn made(&mut self, group: &Nspace, members: &[Proc], since: u64) {
        self.left.remove(group);
        self.note_made(group, members, since);
    }

    fn note_made(&mut self, group: &Nspace, members: &[Proc], since: u64) {
        // Nobody is late for the end of the one before.
        let ends = Kind::Group(GROUP_DESTRUCT, group.clone());
        let is_over = |(kind, _): &Key, queue: &Vec<Meeting>| *kind == ends && queue.iter().all(Meeting::is_spent);
        let over: Vec<Key> = self.open.extract_if(|key, queue| is_over(key, queue)).map(|(key, _)| key).collect();
        over.iter().for_each(|key| _ = self.spent.remove(key));
        let of: BTreeSet<Nspace> = members.iter().map(|proc| proc.nspace.clone()).collect();
        let bytes = ENTRY + group.as_bytes().len() + of.len() * size_of::<Nspace>();
        self.made.put(about(members), group, |_| (Made { since, of }, bytes));
    }

    /// Takes the members of groups that are found to be gone.
    pub fn take_failed(&mut self) -> Vec<MembersFailed> {
        std::mem::take(&mut self.failed)
    }

    /// A namespace is over, and all meetings of its processes.
    pub fn forget(&mut self, nspace: &Nspace) -> Answers {
        self.end(nspace, |_| Status::EVENT_JOB_END)
    }

    /// The last tool of a namespace is gone, which no host has said to be over: whoever waits has lost a member.
    pub fn tools_gone(&mut self, nspace: &Nspace) -> Answers {
        self.end(nspace, Kind::status_of_loss)
    }

    fn end(&mut self, nspace: &Nspace, status: impl Fn(&Kind) -> Status) -> Answers {
        let involves = |(_, procs): &Key| procs.iter().any(|proc| proc.nspace == *nspace);
        self.missed.retain(|key, _| !involves(key));
        self.leaders.retain(|_, leader| leader.nspace != *nspace);
        self.made.retain(|_, made| {
            made.of.remove(nspace);
            !made.of.is_empty()
        });
        self.left.retain(|_, left| {
            left.retain(|proc| proc.nspace != *nspace);
            !left.is_empty()
        });
        self.spent.retain(|key, ()| !involves(key));
        let over = self.open.extract_if(|key, _| involves(key));
        let mut answers = Answers::new();
        for ((kind, _), queue) in over {
            for meeting in queue {
                let waiting = meeting.waiting.into_iter().map(|waiting| waiting.answer);
                let all = waiting.chain(meeting.failures.into_iter().map(|failed| failed.answer));
                answers.extend(all.map(|answer| (answer, Err(status(&kind)))));
            }
        }
        answers
    }

    /// A process of this namespace comes again on a node: failures of that node count no more that nobody knows of, there
    /// or elsewhere. It is missed by no meeting that has failed because of it.
    pub fn expect(&mut self, nspace: &Nspace, node: usize) -> Answers {
        let mut answers = Answers::new();
        let is_awaited = |kind: &Kind| !matches!(kind, Kind::OfMembers(_));
        let involves = |(kind, procs): &Key| is_awaited(kind) && procs.iter().any(|proc| proc.nspace == *nspace);
        self.missed.retain(|key, missed| {
            let is_left = !involves(key) || !missed.remove(&node);
            is_left || !missed.is_empty()
        });
        for (_, queue) in self.open.iter_mut().filter(|(key, _)| involves(key)) {
            for meeting in queue.iter_mut().filter(|meeting| meeting.absent.contains_key(&node)) {
                match meeting.failed {
                    Some(_) => meeting.come.extend(meeting.absent.remove(&node).map(|_| node)),
                    // It goes on without those who were there before.
                    None => _ = meeting.come_again.insert(node),
                }
            }
            for meeting in queue.iter_mut().filter(|meeting| meeting.come.len() == meeting.failures.len()) {
                let status = meeting.failed.unwrap_or(Status::ERR_PROC_TERM_WO_SYNC);
                for failed in meeting.failures.extract_if(.., |failed| failed.node == node && !failed.is_known) {
                    answers.push((failed.answer, Err(status)));
                    meeting.come.remove(&node);
                }
            }
            queue.retain(|meeting| !meeting.come.is_empty());
        }
        self.open.retain(|_, queue| !queue.is_empty());
        let open = &self.open;
        self.spent.retain(|key, ()| open.contains_key(key));
        answers
    }

    /// Forgets the meetings of a key that nobody is to come to any more, and of those that nobody waits for the oldest
    /// where they are many.
    fn close(&mut self, key: &Key) {
        let Some(queue) = self.open.get_mut(key) else { return self.spent.remove(key).unwrap_or_default() };
        let over: Vec<Meeting> = queue.extract_if(.., |meeting| meeting.is_over()).collect();
        let spent = queue.iter().filter(|meeting| meeting.is_spent()).count();
        let mut too_many = spent.saturating_sub(MOST_FAILED);
        queue.retain(|meeting| {
            let goes = meeting.is_spent() && too_many > 0;
            too_many -= usize::from(goes);
            !goes
        });
        if queue.is_empty() {
            self.open.remove(key);
            self.spent.remove(key);
        } else if queue.iter().all(Meeting::is_spent) {
            let bytes = bytes_of(key) + queue.iter().map(Meeting::bytes).sum::<usize>();
            for forgotten in self.spent.put(about(&key.1), key, |_| ((), bytes)) {
                self.open.remove(&forgotten);
                if let Kind::Group(GROUP_CONSTRUCT, group) = &forgotten.0 {
                    self.leaders.remove(group);
                }
            }
        } else {
            self.spent.remove(key);
        }
        for meeting in over {
            match (&key.0, meeting.failed) {
                (Kind::Group(GROUP_CONSTRUCT, group), failed) => {
                    self.leaders.remove(group);
                    if failed.is_none() {
                        self.note_made(group, &key.1, meeting.since);
                    }
                }
                (Kind::Group(GROUP_DESTRUCT, group), None) => {
                    self.left.remove(group);
                    self.made.remove(group);
                }
                _ => {}
            }
            let mut missed = meeting.absent.into_keys().filter(|node| !meeting.come_again.contains(node)).peekable();
            if missed.peek().is_some() {
                self.missed.put(about(&key.1), key, |before| {
                    let mut all = before.unwrap_or_default();
                    all.extend(missed);
                    (all, bytes_of(key))
                });
            }
        }
    }
}

/// Bytes of what is kept of a key, in three tables.
fn bytes_of((kind, procs): &Key) -> usize {
    let name = if let Kind::Group(_, group) | Kind::OfMembers(group) = kind { group.as_bytes().len() } else { 0 };
    ENTRY + 3 * (name + size_of_val(&procs[..]))
}

/// Processes by their ranks, without some.
fn without(census: &Census, procs: &[Proc], is_out: impl Fn(&Proc) -> bool) -> Vec<Proc> {
    census.by_rank(procs).into_iter().filter(|proc| !is_out(proc)).collect()
}

#[cfg(test)]
mod tests;
