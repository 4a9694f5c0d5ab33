//! Acts of ranks: the rounds of the plan, in its order, and something beside them now and then.
use std::time::Duration;

use super::client::{Client, Stage, Waiting};
use super::host::Purpose;
use super::model::{Collective, Expected};
use super::plan::{Deed, Naming, Round};
use super::posted::{KEYS, value_of};
use super::queue::Happening;
use super::world::World;
use crate::data::constants::group_operation::{GROUP_CONSTRUCT, GROUP_DESTRUCT};
use crate::data::{Info, Key, Nspace, Proc, Rank, Status, keys};
use crate::message::{GroupCall, Have, Posted, Reply, Request, group_results};

/// Longest time that a rank computes between two requests.
const THINKS: Duration = Duration::from_millis(30);
/// Time that a server gives a look-up at most that has no limit.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time that an answer may take beyond its limit: to the server, and back, and behind long commits that come before it,
/// with two steps of a thread each.
const SLACK: Duration = Duration::from_millis(500);

/// Part of a rank in a collective.
struct Meeting {
    collective: Collective,
    collects: bool,
    request: Request,
    limit: Option<u64>,
    /// True if the end is waited for at the job's word.
    at_word: bool,
}

impl World {
    /// Lets a rank do the next thing.
    pub fn act(&mut self, client: usize) {
        let me = &mut self.clients[client];
        if me.stage != Stage::In || me.is_blocked() {
            return;
        }
        if me.random.permille(400) {
            self.do_aside(client);
        } else {
            self.do_next(client);
        }
        let me = &self.clients[client];
        if me.stage == Stage::In && !me.is_blocked() {
            self.later(THINKS, Happening::Acts(client));
        }
    }

    /// Sends a request, and notes the answer that it should have.
    fn ask(
        &mut self,
        client: usize,
        request: Request,
        expected: Expected,
        limit: Option<Duration>,
        blocks: bool,
    ) -> u64 {
        self.clients[client].number += 1;
        let number = self.clients[client].number;
        let now = self.clock.passed();
        let stopped = self.nodes[self.clients[client].node].stopped_until.saturating_sub(now);
        let until = limit.map(|limit| now + limit + SLACK + stopped);
        let what = format!("{number}: {request:?}");
        let at_word = Reply::Done(Status::SUCCESS);
        let waiting = Waiting { what, expected, blocks, until, word: None, at_word };
        self.clients[client].waiting.insert(number, waiting);
        until.into_iter().for_each(|until| self.limit(client, number, until));
        let short = match &request {
            Request::Meet { seen, info } if info.is_empty() => Some((*seen, false)),
            Request::Meet { seen, info } => {
                Some((*seen, true)).filter(|_| info.len() == 1 && info[0].key == keys::COLLECT_DATA)
            }
            _ => None,
        };
        let way = match short {
            Some((seen, collects)) => Happening::Meets(client, number, seen, collects),
            None => Happening::Asks(client, number, request),
        };
        self.send(client, way);
        number
    }

    fn do_next(&mut self, client: usize) {
        let me = &mut self.clients[client];
        let proc = me.proc.clone();
        let next = self.plan.rounds.iter().skip(me.round).position(|round| round.members.contains(&proc));
        let Some(skipped) = next else { return self.say_goodbye(client) };
        let round = self.plan.rounds[me.round + skipped].clone();
        me.round += skipped + 1;
        match me.random.permille(self.plan.faults.skips) {
            true => self.is_left_out = true,
            false => self.meet(client, &round),
        }
    }

    fn say_goodbye(&mut self, client: usize) {
        // A request before the goodbye may have no answer any more.
        self.awaits_nothing(client);
        let limit = self.nodes[self.clients[client].node].reactor.router.cx.config.host_farewell_deadline;
        self.clients[client].stage = Stage::Leaving;
        self.ask(client, Request::Finalize, Expected::Goodbye, Some(limit), true);
    }

    /// Has a rank come to something that it does with others.
    fn meet(&mut self, client: usize, round: &Round) {
        let me = &mut self.clients[client];
        let limit = match self.plan.faults.limits_differ {
            true => me.random.permille(600).then(|| me.random.between(1, 4)),
            false => round.limit,
        };
        let Some(meeting) = meeting(me, round, limit) else {
            self.is_left_out = true;
            return;
        };
        let Meeting { collective, collects, request, limit, at_word } = meeting;
        let is_first = me.waiting.values().all(|one| !matches!(one.expected, Expected::Met(..)));
        let makes_tie = matches!(round.deed, Deed::Construct { .. } | Deed::Connect);
        let blocks = at_word || makes_tie || me.random.permille(850);
        let committed = me.committed;
        let at = self.model.comes(&self.clients[client].proc, &collective, collects, committed);
        let expected = Expected::Met(collective, at);
        let limit = limit.map(Duration::from_secs);
        let me = &self.clients[client];
        let store = self.nodes[me.node].reactor.router.jobs.store(&me.proc.nspace);
        let seen = store.filter(|_| at_word && is_first).map(|store| store.releases());
        let Some(seen) = seen else {
            self.ask(client, request, expected, limit, blocks);
            return;
        };
        let request = match request {
            Request::Group { group, call, .. } => Request::Group { group, call, seen: Some(seen) },
            request => Request::Meet { seen, info: request.attributes().to_vec() },
        };
        let at_word = match &request {
            Request::Group { group, call: GroupCall::Construct { procs, .. }, .. } => {
                Reply::Infos(Status::SUCCESS, group_results(group, None, procs))
            }
            _ => Reply::Done(Status::SUCCESS),
        };
        let number = self.ask(client, request, expected, limit, true);
        if let Some(one) = self.clients[client].waiting.get_mut(&number) {
            (one.word, one.at_word) = (Some(seen), at_word);
        }
    }

    /// Has a rank do something that needs nobody else.
    fn do_aside(&mut self, client: usize) {
        match self.clients[client].random.below(10) {
            0..=4 => self.commit(client),
            5..=8 => self.get(client),
            _ => self.map(client),
        }
    }

    fn commit(&mut self, client: usize) {
        let me = &mut self.clients[client];
        let mut entries = Vec::new();
        for (at, (name, scope)) in KEYS.iter().enumerate() {
            if me.random.permille(600) {
                me.committed[at] += 1;
                let key = Key::new(name).expect("a legal key");
                entries.push(Posted::new(*scope, key, value_of(me.committed[at])));
            }
        }
        self.model.commits(&me.proc, me.committed);
        self.send(client, Happening::Asks(client, 0, Request::Commit { entries }));
    }

    fn get(&mut self, client: usize) {
        let me = &mut self.clients[client];
        let job = self.plan.jobs.iter().find(|job| job.nspace == me.proc.nspace);
        let size = job.map_or(1, |job| job.placement.len()) as u64;
        let of = Proc::new(me.proc.nspace.clone(), Rank(me.random.below(size) as u32));
        let at = me.random.below(KEYS.len() as u64) as usize;
        let is_here = job.is_some_and(|job| job.placement[of.rank.0 as usize] == me.node);
        // The other one may wait for this one, in a fence.
        let limit = (!is_here || me.random.permille(300)).then(|| me.random.between(1, 3));
        let mut info: Vec<Info> = limit.map(|limit| Info::new(keys::TIMEOUT, limit as i32)).into_iter().collect();
        let only_known = me.random.permille(300);
        if only_known {
            let key = *me.random.pick(&[keys::OPTIONAL, keys::IMMEDIATE]);
            info.push(Info::new(key, true));
        }
        let limit = limit.map(Duration::from_secs).or(is_here.then_some(PATIENCE));
        let blocks = me.random.permille(700);
        let key = Some(Key::new(KEYS[at].0).expect("a legal key"));
        self.ask(client, Request::Get { proc: of.clone(), key, info }, Expected::Value(of, at), limit, blocks);
    }

    fn map(&mut self, client: usize) {
        let me = &mut self.clients[client];
        let nspace = me.random.pick(&self.plan.jobs).nspace.clone();
        let request = Request::Segments { nspace: nspace.clone(), have: Have::default() };
        self.ask(client, request, Expected::Segments(nspace), Some(Duration::ZERO), true);
    }
}

/// Returns what a rank asks in a round; nothing where that makes no sense for it.
fn meeting(me: &mut Client, round: &Round, limit: Option<u64>) -> Option<Meeting> {
    let mut members = round.members.clone();
    members.sort_unstable();
    let mut info: Vec<Info> = limit.map(|limit| Info::new(keys::TIMEOUT, limit as i32)).into_iter().collect();
    let of = |purpose, group: Option<&Nspace>| Collective { purpose, group: group.cloned(), members: members.clone() };
    let of_group = |group: &Nspace, call| Request::Group { group: group.clone(), call, seen: None };
    // A late answer would still make a group.
    let waits_at_word = limit.is_none() && members.iter().all(|member| member.nspace == me.proc.nspace);
    let waits_at_word = waits_at_word && me.random.permille(700);
    let procs = round.members.clone();
    let (collective, collects, request, at_word) = match &round.deed {
        Deed::Fence { collects, naming } => {
            info.extend(collects.then(|| Info::new(keys::COLLECT_DATA, true)));
            let procs = match naming {
                Naming::Word | Naming::Nothing => Vec::new(),
                Naming::Wildcard => vec![Proc::new(me.proc.nspace.clone(), Rank::WILDCARD)],
                Naming::List => procs,
                // A rank in no such group would wait for a namespace of that name.
                Naming::Group(group) if !me.groups.contains(group) => procs,
                Naming::Group(group) => vec![Proc::new(group.clone(), Rank::WILDCARD)],
            };
            (of(Purpose::Fence, None), *collects, Request::Fence { procs, info }, *naming == Naming::Word)
        }
        Deed::Construct { group, context } => {
            info.extend(context.then(|| Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)));
            let request = of_group(group, GroupCall::Construct { procs, info });
            (of(Purpose::Group(GROUP_CONSTRUCT), Some(group)), false, request, waits_at_word)
        }
        Deed::Destruct { group } if !me.groups.remove(group) => return None,
        Deed::Destruct { group } => {
            let request = of_group(group, GroupCall::Destruct { info });
            (of(Purpose::Group(GROUP_DESTRUCT), Some(group)), false, request, waits_at_word)
        }
        Deed::Connect => (of(Purpose::Connect, None), false, Request::Connect { procs, info }, false),
        Deed::Disconnect => (of(Purpose::Disconnect, None), false, Request::Disconnect { procs, info }, false),
    };
    Some(Meeting { collective, collects, request, limit, at_word })
}
