//! Completion of job information from the places of processes: sizes, peers, and the ranks within node, application and
//! session.
//!
//! This fills gaps only. A value that the host gave stands, even where it contradicts the maps; one that follows anyway
//! is not kept a second time.
use std::collections::HashSet;
use std::ops::Range;

use instanton_layout::info::{NONE, NameRun, TextForm};

use super::builder::JobInfoBuilder;
use super::column_builder::{Kind, Values};
use super::column_planner::{self, Facts};
use super::contradiction::{self, Told};
use super::entries::number;
use super::job_info::JobInfo;
use super::partition::{Parts, RankPartition};
use crate::data::maps::Form;
use crate::data::{BadBytes, DataType, Rank, Text, Value, keys};
use crate::store::error::BadJobInfo;
use crate::store::ids::MAX_RANKS;
use crate::store::texts::{self, Compare, LONG, VERY_LONG};
use crate::trace;

impl JobInfoBuilder {
    /// Completes it.
    ///
    /// # Errors
    /// [`BadJobInfo`] names the attribute that makes no sense.
    pub fn build(self) -> Result<JobInfo, BadJobInfo> {
        complete(self)
    }
}

/// Completes the job information that a host gave.
fn complete(mut job: JobInfoBuilder) -> Result<JobInfo, BadJobInfo> {
    job.processes.check()?;
    if let Some(at) = job.own_host.iter().position(|byte| *byte == 0) {
        return Err(BadBytes::Nul { what: "the name of this node", at }.into());
    }
    let values = job.processes.finish();
    let (size, ranks) = size(&job)?;
    let spoken_of = job.map.ranks;
    let apps = applications(&mut job, &values, ranks)?;
    let own_node = nodes(&mut job, &values, size, ranks)?;
    let map = std::mem::take(&mut job.map);
    let told = Told {
        nodes: map.nodes.max(map.placed_nodes),
        twice: map.twice,
        moved: map.moved,
        lost: map.lost(size, spoken_of),
        local_procs: job.local_procs,
    };
    let (placed, listed, proc_map) = map.into_parts();
    let nodes = RankPartition::of_map(placed, listed, job.nodes.len());
    let apps = RankPartition::new(apps, ranks, job.apps.len() as u32);
    let mut own_ranks = nodes.ranks(own_node);
    own_ranks.sort_unstable();
    let contradictions = contradiction::find(&mut job.nodes, told, (size, ranks), own_node, own_ranks.len() as u32);
    contradictions.iter().for_each(|found| trace!("{}: {found}", job.nspace));
    drop_derived_of_members(&mut job, &nodes, &apps, own_node);
    let offset = job.job.get(keys::NPROC_OFFSET).map(|value| number(keys::NPROC_OFFSET, value)).transpose()?;
    let offset = offset.unwrap_or(0);
    let known =
        Facts { nodes: &job.nodes, apps: job.apps.keys().copied().collect(), node_of: &nodes, app_of: &apps, offset };
    let plan = column_planner::plan(values, &mut job.processes.strings, &known, &own_ranks);
    let texts = [sums(&mut job, &nodes, size, own_node, &own_ranks), node_map(&mut job), proc_map];
    Ok(JobInfo {
        nspace: job.nspace,
        has_data: job.has_data,
        size,
        ranks,
        offset,
        own_node,
        job: job.job,
        sessions: job.sessions,
        nodes: job.nodes,
        apps: job.apps,
        nodes_of: nodes.build,
        apps_of: apps.build,
        own_ranks,
        columns: plan.columns,
        strings: plan.strings,
        own_strings: plan.own_strings,
        sparse: plan.sparse,
        sparse_strings: plan.sparse_strings,
        others: job.processes.others,
        texts,
        contradictions,
    })
}

/// The size of the job, as given, or as the maps and processes show; and how many ranks are spoken of.
fn size(job: &JobInfoBuilder) -> Result<(u32, u32), BadJobInfo> {
    let mapped = job.map.ranks;
    let named = job.processes.ranks;
    let given = job.job.get(keys::JOB_SIZE).map(|value| number(keys::JOB_SIZE, value)).transpose()?;
    let size = given.unwrap_or_else(|| mapped.max(named).max(job.local_procs));
    let ranks = size.max(mapped).max(named);
    if size > MAX_RANKS {
        return Err(BadJobInfo::Size { size });
    }
    if ranks > MAX_RANKS {
        return Err(BadJobInfo::Rank { rank: ranks - 1 });
    }
    Ok((size, ranks))
}

/// The index of each rank's application: as its process says, else by the sizes of the applications in order.
fn applications(job: &mut JobInfoBuilder, values: &[Values], ranks: u32) -> Result<Parts, BadJobInfo> {
    let given = column_planner::numbers(values, &job.processes.others, keys::APPNUM)?;
    let mut last = None;
    for (_, number) in given.iter().filter(|(_, number)| last.replace(*number) != Some(*number)) {
        job.apps.entry(number as u32).or_default();
    }
    if job.apps.is_empty() {
        let given = job.app.get(keys::APPNUM).map(|value| number(keys::APPNUM, value)).transpose()?;
        job.apps.entry(given.unwrap_or(0)).or_default();
    }
    if let Some((key, value)) = job.app.iter().find(|(key, _)| key.as_bytes() == keys::APPNUM.as_bytes()) {
        // A value that the host gives for no process in particular is found without one.
        job.job.put(key.clone(), value.clone());
    }
    let only = job.apps.len() == 1;
    let into = match job.apps.first_entry() {
        Some(first) if only => first.into_mut(),
        _ => &mut job.job,
    };
    job.app.iter().for_each(|(key, value)| into.put(key.clone(), value.clone()));
    let mut rest = ranks;
    let mut stretches = Vec::with_capacity(job.apps.len() + 1);
    for (index, entries) in (0u32..).zip(job.apps.values()) {
        let size = match entries.get(keys::APP_SIZE) {
            Some(value) => number(keys::APP_SIZE, value)?.min(rest),
            None if only => rest,
            None => 0,
        };
        stretches.push((index, size));
        rest -= size;
    }
    stretches.push((if only { 0 } else { NONE }, rest));
    let numbers: Vec<u32> = job.apps.keys().copied().collect();
    let mut last = (u64::MAX, NONE);
    let mut given = given.iter().map(|(rank, number)| {
        if last.0 != number {
            last = (number, numbers.binary_search(&(number as u32)).map_or(NONE, |index| index as u32));
        }
        (rank, last.1)
    });
    // Mostly what the processes say follows from the sizes.
    let (mut app, mut end, mut sized) = (NONE, 0, stretches.iter());
    let other = given.find(|(rank, said)| {
        while *rank >= end
            && let Some((member, len)) = sized.next()
        {
            (app, end) = (*member, end + len);
        }
        app != *said
    });
    let parts = Parts::Stretches(stretches);
    let Some(other) = other else { return Ok(parts) };
    let mut each = parts.each(ranks);
    [other].into_iter().chain(given).for_each(|(rank, app)| each[rank as usize] = app);
    Ok(Parts::Each(each))
}

/// Places each rank on its node: as its process says, else by the process map, else by the own node's list of peers.
/// Answers the index of the own node.
///
/// A name counts for more than a number: resource managers number nodes by other rules than their node map, and one
/// gives every process the number of the node that the server is on.
fn nodes(job: &mut JobInfoBuilder, values: &[Values], size: u32, ranks: u32) -> Result<u32, BadJobInfo> {
    let (map, entries) = (&mut job.map, &mut job.job);
    let mut as_mapped = map.nodes > 0;
    if !job.nodes.are_in_place(map.nodes) {
        (0..map.nodes).for_each(|place| as_mapped &= job.nodes.mapped(place) == place);
    }
    if !as_mapped {
        map.renumber(|place| job.nodes.mapped(place), entries);
    }
    map.placed.resize(ranks as usize, NONE);
    let numbers = column_planner::numbers(values, &job.processes.others, keys::NODEID)?;
    // Of each name the number that was said with it last, and the node.
    let mut known = vec![None; job.processes.strings.len()];
    for values in column_planner::host_names(values) {
        let mut numbered = numbers.iter();
        for (rank, name) in values.iter() {
            let number = numbered.of(rank).map(|number| number as u32);
            let node = if values.kind == Kind::Nodes {
                job.nodes.say_number(name as u32, number);
                name as u32
            } else {
                let known = &mut known[name as usize];
                let Some(text) = job.processes.strings.get(name) else { continue };
                match *known {
                    Some((said, node)) if said == number => node,
                    _ => known.insert((number, job.nodes.called(text, number))).1,
                }
            };
            map.set(rank, node, entries);
        }
    }
    job.nodes.renumber();
    if job.nodes.numbers().is_some() {
        map.keep_text(entries);
    }
    let mut named: Vec<_> = column_planner::host_names(values).map(|values| (values.kind, values.iter())).collect();
    let mut last = (u64::MAX, NONE);
    for (rank, number) in numbers.iter() {
        let is_name = |kind, name| kind == Kind::Nodes || job.processes.strings.get(name).is_some();
        let is_named = named.iter_mut().any(|(kind, names)| names.of(rank).is_some_and(|name| is_name(*kind, name)));
        if is_named {
            continue;
        }
        if last.0 != number {
            last = (number, job.nodes.numbered(number as u32));
        }
        map.set(rank, last.1, entries);
    }
    let peers = local_peers(job);
    let own = own_node(job, &peers)?;
    if job.local_procs == size || !peers.is_empty() {
        // The local ranks are said, or else all are here.
        let whole_job = peers.is_empty();
        for rank in 0..ranks {
            if job.map.placed[rank as usize] == NONE && (whole_job || peers.contains(&rank)) {
                job.map.set(rank, own, &mut job.job);
            }
        }
    }
    Ok(own)
}

fn local_peers(job: &JobInfoBuilder) -> HashSet<u32> {
    let list = job.own.get(keys::LOCAL_PEERS).and_then(Value::as_str).unwrap_or("");
    list.split(',').filter_map(|rank| rank.trim().parse().ok()).collect()
}

/// The node we are on: the one whose name the host says, the one of our peers, the one whose number it says, the one
/// with our name, the only one where some run here, or a new one.
fn own_node(job: &mut JobInfoBuilder, peers: &HashSet<u32>) -> Result<u32, BadJobInfo> {
    fn short(name: &[u8]) -> &[u8] {
        name.split(|b| *b == b'.').next().unwrap_or_default()
    }
    let said = job.own.get(keys::HOSTNAME).and_then(Value::as_text).map(|name| name.as_bytes().to_vec());
    let number = job.own.get(keys::NODEID).map(|value| number(keys::NODEID, value)).transpose()?;
    let by_name = |name: &Vec<u8>| job.nodes.find(name).or_else(|| job.nodes.find_short(short(name)));
    let of_peer = || peers.iter().filter_map(|rank| job.map.placed.get(*rank as usize)).find(|node| **node != NONE);
    let known = said.as_ref().and_then(by_name).or_else(|| of_peer().copied());
    let called = by_name(&job.own_host);
    let own = match (known, number, called) {
        (Some(index), _, _) => index,
        (None, Some(number), _) => job.nodes.numbered(number),
        (None, None, Some(index)) if said.is_none() => index,
        // A job of which nobody runs here may be all on another node.
        _ if job.nodes.len() == 1 && job.local_procs > 0 => 0,
        _ => job.nodes.of_name(said.as_ref().unwrap_or(&job.own_host)),
    };
    job.nodes.name_it(own, said.as_ref().unwrap_or(&job.own_host));
    let entries = job.nodes.entries(own);
    job.own.iter().for_each(|(key, value)| entries.put(key.clone(), value.clone()));
    Ok(own)
}

/// Drops values of nodes and applications that follow from the places of processes.
fn drop_derived_of_members(job: &mut JobInfoBuilder, nodes: &RankPartition, apps: &RankPartition, own_node: u32) {
    for (index, mut entries) in std::mem::take(&mut job.nodes.given) {
        if index != own_node {
            let (number, name) = (job.nodes.number(index), job.nodes.name(index));
            let size = nodes.size(index);
            entries.retain(|(key, value)| {
                let follows = if *key == keys::NODEID {
                    *value == Value::Uint32(number)
                } else if *key == keys::HOSTNAME {
                    name.is_some() && value.as_text().map(Text::as_bytes) == name.as_deref()
                } else if *key == keys::LOCAL_SIZE || *key == keys::NODE_SIZE {
                    size > 0 && *value == Value::Uint32(size)
                } else if *key == keys::LOCALLDR {
                    nodes.leader(index).is_some_and(|leader| *value == Value::ProcRank(Rank(leader)))
                } else if *key == keys::LOCAL_PEERS {
                    size > 0 && value.as_text().is_some_and(|text| nodes.list_is(index, text.as_bytes()))
                } else {
                    false
                };
                !follows
            });
        }
        if !entries.is_empty() {
            job.nodes.given.insert(index, entries);
        }
    }
    for (index, (number, entries)) in (0u32..).zip(&mut job.apps) {
        let (size, leader) = (apps.size(index), apps.leader(index));
        entries.retain(|(key, value)| {
            let follows = (*key == keys::APPNUM && *value == Value::Uint32(*number))
                || (*key == keys::APP_SIZE && *value == Value::Uint32(size))
                || (*key == keys::APPLDR && leader.is_some_and(|leader| *value == Value::ProcRank(Rank(leader))));
            !follows
        });
    }
}

/// Sizes and leaders of the job and the own node. Sizes and leaders of other nodes and of applications are computed
/// when they are read. Answers how the list of nodes is written then, if it is long.
fn sums(
    job: &mut JobInfoBuilder,
    nodes: &RankPartition,
    size: u32,
    own_node: u32,
    own_ranks: &[u32],
) -> Option<TextForm> {
    let nspace = job.nspace.to_string_lossy().into_owned();
    job.job.imply(keys::NSPACE, nspace.as_str());
    job.job.imply(keys::JOBID, nspace.as_str());
    // Of a job that is told of without data, nobody knows how large it is and where it runs.
    if !job.has_data {
        return None;
    }
    let in_use = nodes.in_use();
    let occupied = in_use.iter().map(|nodes| nodes.len() as u32).sum::<u32>().max(1);
    let listed = node_list(job, &in_use);
    let (number, name) =
        (job.nodes.number(own_node), job.nodes.name(own_node).and_then(|name| Text::new(&name[..]).ok()));
    let local_procs = job.local_procs;
    let own = job.nodes.entries(own_node);
    own.imply(keys::NODEID, number);
    name.into_iter().for_each(|name| own.imply(keys::HOSTNAME, name));
    if !own_ranks.is_empty() || local_procs == 0 {
        own.imply(keys::LOCAL_SIZE, own_ranks.len() as u32);
        // Of other jobs on the node only their hosts know.
        own.imply(keys::NODE_SIZE, own_ranks.len() as u32);
    }
    if let Some(leader) = own_ranks.first() {
        own.imply(keys::LOCALLDR, Rank(*leader));
        match nodes.list_len(own_node) > VERY_LONG {
            true => own.retain(|(key, value)| {
                let follows = || value.as_text().is_some_and(|text| nodes.list_is(own_node, text.as_bytes()));
                *key != keys::LOCAL_PEERS || !follows()
            }),
            false => own.imply(keys::LOCAL_PEERS, Value::String(Text::new(nodes.list(own_node)).ok())),
        }
    }
    let napps = job.apps.len() as u32;
    job.job.imply(keys::JOB_SIZE, size);
    job.job.imply(keys::MAX_PROCS, size);
    job.job.imply(keys::JOB_NUM_APPS, napps);
    job.job.imply(keys::NUM_NODES, occupied);
    let most = job.job.get(keys::MAX_PROCS).cloned();
    let session = &mut job.own_session().entries;
    // Names of one number, as the Standard has it.
    if let Some(slots) = session.get(keys::NUM_SLOTS).cloned() {
        session.imply(keys::UNIV_SIZE, slots);
    }
    session.imply(keys::UNIV_SIZE, size);
    if let Some(most) = session.get(keys::UNIV_SIZE).cloned() {
        session.imply(keys::MAX_PROCS, most.clone());
        session.imply(keys::NUM_SLOTS, most);
    }
    // As many as of the job, where the job has no other node or application.
    if let Some(most) = most {
        if job.nodes.len() == 1 {
            job.nodes.entries(own_node).imply(keys::MAX_PROCS, most.clone());
        }
        if napps == 1
            && let Some(only) = job.apps.values_mut().next()
        {
            only.imply(keys::MAX_PROCS, most);
            only.imply(keys::NUM_NODES, occupied);
        }
    }
    listed
}

/// The form in which a long node map is written when it is read, if it is nothing but the names of all nodes.
fn node_map(job: &mut JobInfoBuilder) -> Option<TextForm> {
    let value = job.job.get(keys::NODE_MAP)?;
    let text = value.as_bytes()?;
    let form = if text.starts_with(Form::Raw.opening()) { Form::Raw } else { Form::Plain };
    let form = texts::map_form(value.data_type(), text, form)?;
    let list = text.strip_prefix(Form::Raw.opening()).unwrap_or(text);
    let names = || job.nodes.names(0, job.nodes.len());
    let mut compare = Compare::of(list);
    if !job.nodes.are_the_map() || texts::names_len(names()) != list.len() {
        return None;
    }
    texts::names(names(), &mut compare);
    if !compare.is_same() {
        return None;
    }
    job.job.retain(|(key, _)| *key != keys::NODE_MAP);
    Some(form)
}

/// The list of the nodes that run something; one with gaps would be none. Answers how it is written when it is read, if
/// it is long.
fn node_list(job: &mut JobInfoBuilder, in_use: &[Range<u32>]) -> Option<TextForm> {
    let names = || in_use.iter().flat_map(|nodes| job.nodes.names(nodes.start, nodes.end));
    let is_name = |run: &NameRun<'_>| !run.is_nameless() && !run.before.contains(&0) && !run.after.contains(&0);
    if !names().all(|run| is_name(&run)) {
        return None;
    }
    let len = texts::names_len(names());
    let given = job.job.get(keys::NODE_LIST);
    let follows = given.is_none_or(|given| {
        given.as_text().is_some_and(|given| {
            let mut compare = Compare::of(given.as_bytes());
            texts::names(names(), &mut compare);
            compare.is_same()
        })
    });
    if follows && len > LONG {
        // One form for all nodes, another for those that run something.
        let form = u8::from(in_use.iter().map(|nodes| nodes.len() as u32).sum::<u32>() < job.nodes.len());
        job.job.retain(|(key, _)| *key != keys::NODE_LIST);
        return Some(TextForm { data_type: DataType::STRING.0, form, len: len as u64 + 1 });
    }
    if given.is_none() {
        let mut text = Vec::with_capacity(len);
        texts::names(names(), &mut text);
        job.job.imply(keys::NODE_LIST, Value::String(Text::new(text).ok()));
    }
    None
}
