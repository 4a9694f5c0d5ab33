//! What follows from where processes are: sizes, peers, and the ranks within node, application and session.
//!
//! Everything here fills gaps. What the host gave stands, even where it contradicts the maps.
use instanton_layout::info::{NONE, Row, given};

use super::job_info::{BadJobInfo, Entries, Given, JobInfo, MAX_RANKS, Member, member, number, number_in, value_in};
use crate::data::{Info, Rank, Text, Value, keys};

/// Completes what a host gave.
pub(super) fn complete(mut job: Given<'_>) -> Result<JobInfo, BadJobInfo> {
    size(&mut job)?;
    let apps = applications(&mut job)?;
    let nodes = nodes(&mut job)?;
    rows(&mut job, &nodes, &apps)?;
    sums(&mut job, &nodes, &apps);
    Ok(job.info)
}

/// The size of the job: as given, or as the maps and processes show.
fn size(job: &mut Given<'_>) -> Result<(), BadJobInfo> {
    let ranges = job.proc_map.iter().flat_map(|map| map.nodes()).flatten();
    let mapped = ranges.map(|range| range.last.saturating_add(1)).max().unwrap_or(0);
    let named = job.processes.keys().next_back().map_or(0, |rank| rank + 1);
    let given = job.info.job.get(keys::JOB_SIZE).map(|value| number(keys::JOB_SIZE, value)).transpose()?;
    let size = given.unwrap_or_else(|| mapped.max(named).max(job.local_procs));
    let ranks = size.max(mapped).max(named);
    if ranks > MAX_RANKS {
        return Err(BadJobInfo::Rank { rank: ranks - 1, size });
    }
    job.info.size = size;
    job.info.rows = vec![Row::default(); ranks as usize];
    job.info.processes = vec![Default::default(); ranks as usize];
    Ok(())
}

/// The index of each rank's application: as its process says, else by the sizes of the applications in order.
fn applications(job: &mut Given<'_>) -> Result<Vec<u32>, BadJobInfo> {
    for infos in job.processes.values() {
        if let Some(number) = number_in(infos, keys::APPNUM)? {
            member(&mut job.info.apps, number);
        }
    }
    if job.info.apps.is_empty() {
        let given = job.app.get(keys::APPNUM).map(|value| number(keys::APPNUM, value)).transpose()?;
        let number = given.unwrap_or(0);
        member(&mut job.info.apps, number);
    }
    job.info.apps.sort_by_key(|app| app.number);
    if let [only] = &mut job.info.apps[..] {
        job.app.iter().for_each(|(key, value)| only.entries.put(key, value));
    } else {
        job.app.iter().for_each(|(key, value)| job.info.job.put(key, value));
    }
    let mut apps = Vec::with_capacity(job.info.rows.len());
    for (index, app) in job.info.apps.iter().enumerate() {
        let rest = job.info.rows.len() - apps.len();
        let size = match app.entries.get(keys::APP_SIZE) {
            Some(value) => number(keys::APP_SIZE, value)? as usize,
            None if job.info.apps.len() == 1 => rest,
            None => 0,
        };
        apps.extend(std::iter::repeat_n(index as u32, size.min(rest)));
    }
    apps.resize(job.info.rows.len(), if job.info.apps.len() == 1 { 0 } else { NONE });
    for (rank, infos) in &job.processes {
        if let Some(number) = number_in(infos, keys::APPNUM)? {
            let index = job.info.apps.binary_search_by_key(&number, |app| app.number);
            apps[*rank as usize] = index.map_or(NONE, |index| index as u32);
        }
    }
    Ok(apps)
}

/// The index of each rank's node: as its process says, else by the process map, else by the own node's list of peers.
///
/// A name counts for more than a number: resource managers number nodes by other rules than their node map, and one
/// gives every process the number of the node that the server is on.
fn nodes(job: &mut Given<'_>) -> Result<Vec<u32>, BadJobInfo> {
    let mut nodes = vec![NONE; job.info.rows.len()];
    if let Some(map) = job.proc_map.take() {
        for number in 0..map.len() {
            let index = job.node_mapped(number) as u32;
            map.ranks(number).for_each(|rank| nodes[rank as usize] = index);
        }
    }
    let processes = std::mem::take(&mut job.processes);
    let mut nameless = Vec::new();
    for (rank, infos) in &processes {
        let number = number_in(infos, keys::NODEID)?;
        match value_in(infos, keys::HOSTNAME).and_then(Value::as_text) {
            Some(name) => nodes[*rank as usize] = job.node_called(name.as_bytes().to_vec(), number) as u32,
            None => nameless.extend(number.map(|number| (*rank, number))),
        }
    }
    job.number_nodes();
    for (rank, number) in nameless {
        nodes[rank as usize] = job.node_numbered(number) as u32;
    }
    job.processes = processes;
    let peers = local_peers(job);
    let own = own_node(job, &nodes, &peers)?;
    job.info.own_node = own as u32;
    let whole_job = job.local_procs == job.info.size;
    for (rank, node) in nodes.iter_mut().enumerate().filter(|(_, node)| **node == NONE) {
        if whole_job || peers.contains(&(rank as u32)) {
            *node = own as u32;
        }
    }
    Ok(nodes)
}

fn local_peers(job: &Given<'_>) -> std::collections::HashSet<u32> {
    let list = job.own.get(keys::LOCAL_PEERS).and_then(Value::as_str).unwrap_or("");
    list.split(',').filter_map(|rank| rank.trim().parse().ok()).collect()
}

/// The node we are on: the one whose name the host says, the one of our peers, the one whose number it says, the one with
/// our name, the only one, or a new one.
fn own_node(job: &mut Given<'_>, nodes: &[u32], peers: &std::collections::HashSet<u32>) -> Result<usize, BadJobInfo> {
    let short = |name: &[u8]| name.split(|b| *b == b'.').next().unwrap_or_default().to_vec();
    let said = job.own.get(keys::HOSTNAME).and_then(Value::as_text).map(|name| name.as_bytes().to_vec());
    let number = job.own.get(keys::NODEID).map(|value| number(keys::NODEID, value)).transpose()?;
    let by_name = |name: &Vec<u8>| {
        let which =
            |is: &dyn Fn(&[u8]) -> bool| job.info.nodes.iter().position(|node| node.name.as_deref().is_some_and(is));
        which(&|node| node == name).or_else(|| which(&|node| short(node) == short(name)))
    };
    let of_peer = || peers.iter().filter_map(|rank| nodes.get(*rank as usize)).find(|node| **node != NONE);
    let known = said.as_ref().and_then(by_name).or_else(|| of_peer().map(|node| *node as usize));
    let called = by_name(&job.own_host);
    let own = match (known, number, called) {
        (Some(index), _, _) => index,
        (None, Some(number), _) => job.node_numbered(number),
        (None, None, Some(index)) if said.is_none() => index,
        _ if job.info.nodes.len() == 1 => 0,
        _ => job.node_of_name(said.clone().unwrap_or_else(|| job.own_host.clone())),
    };
    job.name_node(own, said.unwrap_or_else(|| job.own_host.clone()));
    let node = &mut job.info.nodes[own];
    job.own.iter().for_each(|(key, value)| node.entries.put(key, value));
    Ok(own)
}

/// One row a rank, and what is peculiar to it.
fn rows(job: &mut Given<'_>, nodes: &[u32], apps: &[u32]) -> Result<(), BadJobInfo> {
    let offset = job.info.job.get(keys::NPROC_OFFSET).map(|value| number(keys::NPROC_OFFSET, value)).transpose()?;
    let mut on_node = vec![0u32; job.info.nodes.len()];
    let mut in_app = vec![0; job.info.apps.len()];
    for (rank, row) in job.info.rows.iter_mut().enumerate() {
        let next = |counts: &mut Vec<u32>, index: u32| {
            let count = counts.get_mut(index as usize)?;
            *count += 1;
            Some(*count - 1)
        };
        let local = next(&mut on_node, nodes[rank]).and_then(|n| u16::try_from(n).ok());
        let app = next(&mut in_app, apps[rank]);
        *row = Row {
            record: 0,
            given: given::GLOBAL_RANK
                | local.map_or(0, |_| given::LOCAL_RANK | given::NODE_RANK)
                | app.map_or(0, |_| given::APP_RANK),
            node: nodes[rank],
            app: apps[rank],
            app_rank: app.unwrap_or(0),
            global_rank: (rank as u32).saturating_add(offset.unwrap_or(0)),
            local_rank: local.unwrap_or(0),
            node_rank: local.unwrap_or(0),
        };
    }
    for (rank, infos) in std::mem::take(&mut job.processes) {
        let row = &mut job.info.rows[rank as usize];
        let node = job.info.nodes.get(row.node as usize);
        let app = job.info.apps.get(row.app as usize);
        let mut entries = Entries::default();
        for info in infos {
            if !absorb(row, rank, node, app, info) {
                entries.put(&info.key, &info.value);
            }
        }
        job.info.processes[rank as usize] = entries;
    }
    Ok(())
}

/// Lets the row take a value, or says that it is peculiar: of another type than rows are read as, or against what they say.
fn absorb(row: &mut Row, rank: u32, node: Option<&Member>, app: Option<&Member>, info: &Info) -> bool {
    if !info.key.is_reserved() {
        return false;
    }
    if info.key == keys::RANK {
        info.value == Value::ProcRank(Rank(rank))
    } else if info.key == keys::NODEID {
        node.is_some_and(|node| info.value == Value::Uint32(node.number))
    } else if info.key == keys::APPNUM {
        app.is_some_and(|app| info.value == Value::Uint32(app.number))
    } else if info.key == keys::HOSTNAME {
        let name = info.value.as_text().map(|name| name.as_bytes());
        name.is_some() && node.and_then(|node| node.name.as_deref()) == name
    } else if info.key == keys::LOCAL_RANK {
        hold(&mut row.given, given::LOCAL_RANK, &mut row.local_rank, as_u16(&info.value))
    } else if info.key == keys::NODE_RANK {
        hold(&mut row.given, given::NODE_RANK, &mut row.node_rank, as_u16(&info.value))
    } else if info.key == keys::APP_RANK {
        hold(&mut row.given, given::APP_RANK, &mut row.app_rank, as_rank(&info.value))
    } else if info.key == keys::GLOBAL_RANK {
        hold(&mut row.given, given::GLOBAL_RANK, &mut row.global_rank, as_rank(&info.value))
    } else {
        false
    }
}

fn as_u16(value: &Value) -> Option<u16> {
    if let Value::Uint16(number) = value { Some(*number) } else { None }
}

fn as_rank(value: &Value) -> Option<u32> {
    if let Value::ProcRank(rank) = value { Some(rank.0) } else { None }
}

/// Puts a value into its place in a row; where it has another type, the row holds none.
fn hold<T>(given: &mut u32, bit: u32, place: &mut T, value: Option<T>) -> bool {
    match value {
        Some(value) => (*place, *given) = (value, *given | bit),
        None => *given &= !bit,
    }
    *given & bit != 0
}

/// Sizes and leaders of the job, its applications and nodes.
fn sums(job: &mut Given<'_>, nodes: &[u32], apps: &[u32]) {
    let info = &mut job.info;
    let mut on_node = vec![Vec::new(); info.nodes.len()];
    for (rank, node) in nodes.iter().enumerate() {
        if let Some(ranks) = on_node.get_mut(*node as usize) {
            ranks.push(rank as u32);
        }
    }
    let in_use = info.nodes.iter().zip(&on_node).filter(|(_, ranks)| !ranks.is_empty());
    // A list with gaps would be none.
    let names: Option<Vec<&[u8]>> = in_use.map(|(node, _)| node.name.as_deref()).collect();
    let names = names.and_then(|names| Text::new(names.join(&b","[..])).ok());
    let occupied = on_node.iter().filter(|ranks| !ranks.is_empty()).count().max(1) as u32;
    for (index, (node, ranks)) in info.nodes.iter_mut().zip(on_node).enumerate() {
        node.entries.imply(keys::NODEID, node.number);
        if let Some(name) = node.name.as_ref().and_then(|name| Text::new(name).ok()) {
            node.entries.imply(keys::HOSTNAME, name);
        }
        if ranks.is_empty() && (index as u32 != info.own_node || job.local_procs != 0) {
            continue;
        }
        let size = ranks.len() as u32;
        node.entries.imply(keys::LOCAL_SIZE, size);
        // Of other jobs on the node only their hosts know.
        node.entries.imply(keys::NODE_SIZE, size);
        if let Some(leader) = ranks.first() {
            let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
            node.entries.imply(keys::LOCAL_PEERS, list.join(","));
            node.entries.imply(keys::LOCALLDR, Rank(*leader));
        }
    }
    let mut sizes = vec![(0u32, None); info.apps.len()];
    for (rank, app) in apps.iter().enumerate() {
        if let Some((size, leader)) = sizes.get_mut(*app as usize) {
            *size += 1;
            leader.get_or_insert(rank as u32);
        }
    }
    for (app, (size, leader)) in info.apps.iter_mut().zip(sizes) {
        app.entries.imply(keys::APPNUM, app.number);
        app.entries.imply(keys::APP_SIZE, size);
        if let Some(leader) = leader {
            app.entries.imply(keys::APPLDR, Rank(leader));
        }
    }
    let (size, napps, nspace) = (info.size, info.apps.len() as u32, info.nspace.to_string_lossy().into_owned());
    info.job.imply(keys::JOB_SIZE, size);
    info.job.imply(keys::MAX_PROCS, size);
    info.job.imply(keys::JOB_NUM_APPS, napps);
    info.job.imply(keys::NUM_NODES, occupied);
    names.into_iter().for_each(|names| info.job.imply(keys::NODE_LIST, names));
    info.job.imply(keys::NSPACE, nspace.as_str());
    info.job.imply(keys::JOBID, nspace.as_str());
    job.own_session().entries.imply(keys::UNIV_SIZE, size);
}
