//! Manager of all nodes: it lets the nodes of a meeting meet, carries data and events between servers, and knows
//! which processes and nodes have ended.
//!
//! The n-th part that a node has in meetings of the same processes belongs to the n-th of them, however late it comes.
//! A meeting that lacks a node which has ended, or of which all participants have, fails for those who have come.
use std::collections::{BTreeMap, BTreeSet};

use super::bugs::Bug;
use super::host::{Ask, Body, Meeting, Part, Purpose, SharedHosts};
use super::machine::lock;
use super::random::Random;
use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};
use crate::server::ctx::event::Event;
use crate::server::host::{Completion, Infos};
use crate::server::router::Router;
use crate::server::{Blob, PublishedData};

/// Consequence of what the manager has heard.
pub enum Outcome {
    /// A server is given an answer.
    Answer(usize, &'static str, Box<dyn FnOnce() + Send>),
    /// A server is told something.
    Command(usize, &'static str, Box<dyn FnOnce(&mut Router) + Send>),
    /// A process is killed.
    Kill(Proc),
}

/// A meeting that some nodes have come to.
#[derive(Default)]
struct Gathering {
    parts: Vec<(usize, Part)>,
    come: BTreeSet<usize>,
    /// Status of one that was given up.
    verdict: Option<Status>,
}

/// The manager.
pub struct Manager {
    random: Random,
    hosts: SharedHosts,
    bug: Option<Bug>,
    /// Node of each rank of each namespace.
    placement: BTreeMap<Nspace, Vec<usize>>,
    nodes: usize,
    dead_nodes: BTreeSet<usize>,
    ended: BTreeSet<Proc>,
    meetings: BTreeMap<Meeting, Vec<Gathering>>,
    /// Parts that each node has had.
    parts: BTreeMap<(usize, Meeting), usize>,
    contexts: u64,
    published: PublishedData,
    /// Fetches under way, by number: node that asks, node that is asked, and the way back.
    fetches: BTreeMap<u64, (usize, usize, Completion<Vec<u8>>)>,
    last: u64,
    /// Consequences that nobody has taken.
    pub outcomes: Vec<Outcome>,
}

impl Manager {
    /// Creates the manager of some nodes, with a bug or without.
    pub fn new(random: Random, hosts: SharedHosts, nodes: usize, bug: Option<Bug>) -> Self {
        Manager {
            random,
            hosts,
            bug,
            placement: BTreeMap::new(),
            nodes,
            dead_nodes: BTreeSet::new(),
            ended: BTreeSet::new(),
            meetings: BTreeMap::new(),
            parts: BTreeMap::new(),
            contexts: 0,
            published: PublishedData::default(),
            fetches: BTreeMap::new(),
            last: 0,
            outcomes: Vec::new(),
        }
    }

    /// Places the ranks of a job on nodes.
    pub fn place(&mut self, nspace: &Nspace, nodes: Vec<usize>) {
        self.placement.insert(nspace.clone(), nodes);
    }

    fn answer<T: Send + 'static>(
        &mut self,
        node: usize,
        what: &'static str,
        done: Completion<T>,
        result: Result<T, Status>,
    ) {
        self.outcomes.push(Outcome::Answer(node, what, Box::new(move || done.complete(result))));
    }

    /// Acts on a request of a node's host.
    pub fn hears(&mut self, node: usize, ask: Ask) {
        match ask {
            Ask::Plain(what, done) => self.answer(node, what, done, Ok(())),
            Ask::Abort(proc, procs, done) => {
                let whole = [Proc::new(proc.nspace.clone(), Rank::WILDCARD)];
                let victims = self.each(if procs.is_empty() { &whole } else { &procs });
                self.answer(node, "abort", done, Ok(()));
                self.outcomes.extend(victims.into_iter().map(Outcome::Kill));
            }
            Ask::Meet(meeting, part) => self.meets(node, meeting, part),
            Ask::Modex(proc, done) => self.fetch(node, proc, done),
            Ask::Brought(number, result) => {
                if let Some((node, _, done)) = self.fetches.remove(&number) {
                    self.answer(node, "direct modex", done, result);
                }
            }
            Ask::Event(status, source, range, info, done) => {
                for other in (0..self.nodes).filter(|other| *other != node) {
                    let event = Event { status, source: source.clone(), range, info: info.clone(), vote: None };
                    let raise = move |router: &mut Router| router.notify_from_host(event, Box::new(|_| ()));
                    self.outcomes.push(Outcome::Command(other, "event", Box::new(raise)));
                }
                self.answer(node, "event", done, Ok(()));
            }
            Ask::Publish(proc, info, done) => {
                let result = self.published.publish(&proc, &info);
                self.answer(node, "publish", done, result);
            }
            Ask::Unpublish(proc, names, done) => {
                let result = self.published.unpublish(&proc, &names, &[]);
                self.answer(node, "unpublish", done, result);
            }
            Ask::Lookup(proc, names, info, done) => self.look_up(node, &proc, &names, &info, done),
            Ask::Spawn(done) => self.answer(node, "spawn", done, Err(Status::ERR_JOB_FAILED_TO_LAUNCH)),
            Ask::Infos(what, done) => self.answer(node, what, done, Ok((Status::ERR_NOT_FOUND, Vec::new()))),
        }
    }

    fn look_up(
        &mut self,
        node: usize,
        proc: &Proc,
        names: &[crate::data::Text],
        info: &[Info],
        done: Completion<crate::server::host::Published>,
    ) {
        let found = std::sync::Arc::new(std::sync::Mutex::new(None));
        let kept = found.clone();
        let keep = Completion::new(move |result| *lock(&kept) = Some(result));
        let result = self.published.lookup(proc, names, info, keep).err().map(Err).or_else(|| lock(&found).take());
        self.answer(node, "lookup", done, result.unwrap_or(Err(Status::ERR_NOT_FOUND)));
    }

    fn fetch(&mut self, node: usize, proc: Proc, done: Completion<Vec<u8>>) {
        let place = self.placement.get(&proc.nspace).and_then(|nodes| nodes.get(proc.rank.0 as usize)).copied();
        let Some(other) = place.filter(|other| !self.dead_nodes.contains(other)) else {
            return self.answer(node, "direct modex", done, Err(Status::ERR_NOT_FOUND));
        };
        self.last += 1;
        let (number, hosts) = (self.last, self.hosts.clone());
        self.fetches.insert(number, (node, other, done));
        let bring =
            move |result: Result<Blob, Status>| lock(&hosts).add(other, Ask::Brought(number, result.map(Vec::from)));
        let request = move |router: &mut Router| {
            router.gets.direct_modex.request(&mut router.cx, &router.jobs, proc, &[], Box::new(bring));
        };
        self.outcomes.push(Outcome::Command(other, "direct modex", Box::new(request)));
    }

    /// Returns single processes, wildcards expanded.
    fn each(&self, procs: &[Proc]) -> Vec<Proc> {
        let ranks = |proc: &Proc| match proc.rank {
            Rank::WILDCARD => (0..self.placement.get(&proc.nspace).map_or(0, Vec::len) as u32).collect(),
            Rank(rank) => vec![rank],
        };
        let each = procs
            .iter()
            .flat_map(|proc| ranks(proc).into_iter().map(|rank| Proc::new(proc.nspace.clone(), Rank(rank))));
        each.collect()
    }

    fn node_of(&self, proc: &Proc) -> Option<usize> {
        self.placement.get(&proc.nspace)?.get(proc.rank.0 as usize).copied()
    }

    fn meets(&mut self, node: usize, meeting: Meeting, part: Part) {
        let count = self.parts.entry((node, meeting.clone())).or_default();
        let at = *count;
        *count += 1;
        let gatherings = self.meetings.entry(meeting.clone()).or_default();
        while gatherings.len() <= at {
            gatherings.push(Gathering::default());
        }
        gatherings[at].come.insert(node);
        gatherings[at].parts.push((node, part));
        self.look_at(&meeting);
    }

    /// Ends those gatherings of a meeting that are complete, or cannot become so.
    fn look_at(&mut self, meeting: &Meeting) {
        let procs = self.each(&meeting.procs);
        let mut needed: BTreeSet<usize> = procs.iter().filter_map(|proc| self.node_of(proc)).collect();
        if self.bug == Some(Bug::MeetsTooFew) && needed.len() > 1 {
            needed.pop_last();
        }
        let is_over = |node: &usize| {
            let here = |proc: &&Proc| self.node_of(proc) == Some(*node);
            procs.iter().filter(here).all(|proc| self.ended.contains(proc))
        };
        let lost = |come: &BTreeSet<usize>| -> Option<Status> {
            needed.iter().filter(|node| !come.contains(node)).find_map(|node| match self.dead_nodes.contains(node) {
                true => Some(Status::ERR_LOST_CONNECTION),
                false => is_over(node).then_some(Status::ERR_PARTIAL_SUCCESS),
            })
        };
        let gatherings = self.meetings.get(meeting).map_or(&[][..], Vec::as_slice);
        let verdicts: Vec<(usize, Option<Status>)> = gatherings
            .iter()
            .enumerate()
            .filter(|(_, gathering)| !gathering.parts.is_empty())
            .filter_map(|(at, gathering)| match gathering.verdict.or_else(|| lost(&gathering.come)) {
                Some(status) => Some((at, Some(status))),
                None => gathering.come.is_superset(&needed).then_some((at, None)),
            })
            .collect();
        for (at, verdict) in verdicts {
            let Some(gathering) = self.meetings.get_mut(meeting).and_then(|gatherings| gatherings.get_mut(at)) else {
                continue;
            };
            gathering.verdict = verdict;
            let parts = std::mem::take(&mut gathering.parts);
            self.end(meeting.purpose, verdict, parts);
        }
    }

    /// Answers the parts of a gathering.
    fn end(&mut self, purpose: Purpose, verdict: Option<Status>, parts: Vec<(usize, Part)>) {
        let mut data: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut wants_context = false;
        let failed = verdict.or_else(|| parts.iter().find_map(|(_, part)| part.failed));
        for (node, part) in &parts {
            match &part.body {
                Body::Data(bytes, _) => data.push((*node, bytes.clone())),
                Body::Group(directives, _) => {
                    wants_context |= directives.is_set(keys::GROUP_ASSIGN_CONTEXT_ID);
                    let of_node = directives.find(keys::GROUP_ENDPT_DATA).and_then(|info| info.value.as_bytes());
                    data.extend(of_node.map(|bytes| (*node, bytes.to_vec())));
                }
                Body::Plain(_) => {}
            }
        }
        if self.bug == Some(Bug::LosesData) {
            data.pop();
        }
        if wants_context {
            self.contexts += 1;
        }
        for (node, part) in parts {
            self.contexts += u64::from(wants_context && self.bug == Some(Bug::NumbersGroupsApart));
            let context = self.contexts;
            self.random.shuffle(&mut data);
            let with_own = self.random.permille(500);
            let row = || data.iter().filter(|(of, _)| with_own || *of != node).flat_map(|(_, bytes)| bytes.clone());
            match part.body {
                Body::Data(_, done) => {
                    let result = verdict.map_or_else(|| Ok(row().collect()), Err);
                    self.answer(node, "fence", done, result);
                }
                // Nothing but the host brings these failures to other nodes.
                Body::Plain(done) => {
                    let what = if purpose == Purpose::Connect { "connect" } else { "disconnect" };
                    self.answer(node, what, done, failed.map_or(Ok(()), Err));
                }
                Body::Group(_, done) => {
                    let mut infos = Vec::new();
                    infos.extend(wants_context.then(|| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))));
                    let row: Vec<u8> = row().collect();
                    infos.extend((!row.is_empty()).then(|| Info::new(keys::GROUP_ENDPT_DATA, Value::from(row))));
                    let result: Result<Infos, Status> = verdict.map_or(Ok((Status::SUCCESS, infos)), Err);
                    self.answer(node, "group", done, result);
                }
            }
        }
    }

    /// Learns that a process has ended.
    pub fn process_ended(&mut self, proc: &Proc) {
        self.ended.insert(proc.clone());
        self.published.process_ended(proc);
        self.look_at_all();
    }

    /// Learns that a node has ended.
    pub fn node_ended(&mut self, node: usize) {
        self.dead_nodes.insert(node);
        let lost: Vec<u64> =
            self.fetches.iter().filter(|(_, (_, other, _))| *other == node).map(|(number, _)| *number).collect();
        for number in lost {
            if let Some((asker, _, done)) = self.fetches.remove(&number) {
                self.answer(asker, "direct modex", done, Err(Status::ERR_LOST_CONNECTION));
            }
        }
        self.look_at_all();
    }

    /// Learns that a job is over.
    pub fn job_over(&mut self, nspace: &Nspace) {
        self.published.namespace_ended(nspace);
    }

    fn look_at_all(&mut self) {
        let meetings: Vec<Meeting> = self.meetings.keys().cloned().collect();
        meetings.iter().for_each(|meeting| self.look_at(meeting));
    }

    /// Returns the number of requests that wait for an answer.
    pub fn waiting(&self) -> usize {
        let parts = self.meetings.values().flatten().map(|gathering| gathering.parts.len());
        parts.sum::<usize>() + self.fetches.len()
    }
}
