//! Daemons of a debugger: a job that runs beside the ranks of another, its target, and looks into them.
//!
//! There are as many on each node of the target (`PMIX_DEBUG_DAEMONS_PER_NODE`), or beside each of its ranks
//! (`PMIX_DEBUG_DAEMONS_PER_PROC`), as is asked for, or else as many as each application has, on those nodes in turn. An
//! application that leaves its number open (0) has one on each node, or as many as its mapping says (`ppr:N:node`).
//! They are no part of what the user runs: they hold no slot, are bound nowhere, and their failures do not count. They
//! find their target among what is known of their job, and which of its ranks are beside them by a query
//! (`PMIX_QUERY_LOCAL_PROC_TABLE`). They hear of its end, and have [a while](PATIENCE) for their own after it, or after
//! that of whoever has started them.
//!
//! A request may name daemons [among](are_among) other applications. They are processes of that job like any other, as
//! many as their application says, and stop for no debugger.
use std::time::Duration;

use instanton::data::{App, Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};

use crate::placement::{Kind, Mapping, Policy};

/// Time that daemons have for their end, after that of their target or of the debugger.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Attributes that make a job one of daemons.
pub const KEYS: [&str; 5] = [
    keys::DEBUGGER_DAEMONS,
    keys::DEBUG_TARGET,
    keys::DEBUG_JOB,
    keys::DEBUG_DAEMONS_PER_NODE,
    keys::DEBUG_DAEMONS_PER_PROC,
];

/// Keys that say how many there are.
const NUMBERS: [&str; 2] = [keys::DEBUG_DAEMONS_PER_NODE, keys::DEBUG_DAEMONS_PER_PROC];

/// Daemons that are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Daemons {
    /// The processes that they look into, if these are named.
    pub target: Option<Proc>,
    number: Number,
}

/// Number of daemons of each application.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    /// As its own, or so many on each node where it leaves that open.
    AsGiven(u16),
    PerNode(u16),
    PerProc(u16),
}

impl Daemons {
    /// Reads a spawn request; none where it is of other processes, or of others as well.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a target that is no process, and for numbers that are none. `ERR_NOT_SUPPORTED` for daemons
    /// among other applications, so many on each node or beside each process.
    pub fn read(job: &[Info], apps: &[App]) -> Result<Option<Self>, Status> {
        let find = |key| job.find(key).or_else(|| apps.iter().find_map(|app| app.info.find(key)));
        if are_among(job, apps) {
            let is_counted = NUMBERS.into_iter().any(|key| find(key).is_some());
            return if is_counted { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(None) };
        }
        if !find(keys::DEBUGGER_DAEMONS).is_some_and(Info::is_true) {
            return Ok(None);
        }
        let target = match (find(keys::DEBUG_TARGET), find(keys::DEBUG_JOB)) {
            (Some(info), _) => Some(target(&info.value)?),
            (None, Some(info)) => Some(target(&info.value)?),
            (None, None) => None,
        };
        let number = |info: &Info| {
            let number = info.value.as_u32().and_then(|number| u16::try_from(number).ok());
            number.filter(|number| *number > 0).ok_or(Status::ERR_BAD_PARAM)
        };
        let number = match (find(keys::DEBUG_DAEMONS_PER_NODE), find(keys::DEBUG_DAEMONS_PER_PROC)) {
            (Some(info), None) => Number::PerNode(number(info)?),
            (None, Some(info)) => Number::PerProc(number(info)?),
            (None, None) => Number::AsGiven(find(keys::MAPBY).and_then(on_each_node).unwrap_or(1)),
            (Some(_), Some(_)) => return Err(Status::ERR_BAD_PARAM),
        };
        Ok(Some(Self { target, number }))
    }

    /// The node of each daemon of an application that has `given` processes of its own; `nodes` are those of the ranks
    /// that the target has.
    pub fn homes(&self, nodes: &[u32], given: i32) -> Vec<u32> {
        let mut each = nodes.to_vec();
        each.sort_unstable();
        each.dedup();
        let times = |nodes: &[u32], number: u16| -> Vec<u32> {
            nodes.iter().flat_map(|node| std::iter::repeat_n(*node, number.into())).collect()
        };
        match self.number {
            Number::AsGiven(open) if given == 0 => times(&each, open),
            Number::AsGiven(_) => each.iter().copied().cycle().take(usize::try_from(given).unwrap_or(0)).collect(),
            Number::PerNode(number) => times(&each, number),
            Number::PerProc(number) => times(nodes, number),
        }
    }

    /// The attributes by which they find their target.
    pub fn infos(&self) -> Vec<Info> {
        let mut infos = vec![Info::new(keys::DEBUGGER_DAEMONS, true)];
        if let Some(target) = &self.target {
            infos.push(Info::new(keys::DEBUG_TARGET, target.clone()));
            infos.push(Info::new(keys::DEBUG_JOB, Value::string(&target.nspace)));
        }
        infos
    }

    /// Returns whether a job is the one that they look into.
    pub fn look_into(&self, nspace: &Nspace) -> bool {
        self.target.as_ref().is_some_and(|target| target.nspace == *nspace)
    }
}

/// Returns whether some applications of a request are daemons, and others are not.
pub fn are_among(job: &[Info], apps: &[App]) -> bool {
    job.find(keys::DEBUGGER_DAEMONS).is_none() && apps.iter().any(are_of) && !apps.iter().all(are_of)
}

/// Returns whether an application is one of daemons by its own word.
pub fn are_of(app: &App) -> bool {
    app.info.find(keys::DEBUGGER_DAEMONS).is_some_and(Info::is_true)
}

/// The number of processes on each node that a mapping says, if it does.
fn on_each_node(mapping: &Info) -> Option<u16> {
    let mut policy = Policy::default();
    policy.map_by(mapping.value.as_str()?).ok()?;
    match policy.mapping {
        Mapping::PerObject(number, Kind::Node) => u16::try_from(number).ok(),
        _ => None,
    }
}

/// A target: processes by their name, or a whole job by its namespace.
fn target(value: &Value) -> Result<Proc, Status> {
    match value {
        Value::Proc(proc) => Ok(proc.clone()),
        Value::ProcNspace(nspace) => Ok(Proc::new(nspace.clone(), Rank::WILDCARD)),
        Value::String(Some(name)) => {
            let nspace = Nspace::new(name.as_bytes()).map_err(|_| Status::ERR_BAD_PARAM)?;
            Ok(Proc::new(nspace, Rank::WILDCARD))
        }
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_is_asked_for() {
        let read = |infos: &[Info]| Daemons::read(&[&[Info::new(keys::DEBUGGER_DAEMONS, true)], infos].concat(), &[]);
        let of = |infos: &[Info], given| read(infos).unwrap().unwrap().homes(&[2, 0, 2], given);
        let homes = |infos: &[Info]| of(infos, 3);
        let (per_node, per_proc) = (keys::DEBUG_DAEMONS_PER_NODE, keys::DEBUG_DAEMONS_PER_PROC);
        assert_eq!(homes(&[]), [0, 2, 0]);
        assert_eq!(homes(&[Info::new(keys::MAPBY, "ppr:2:node")]), [0, 2, 0], "its own number counts");
        assert_eq!([&[], &[Info::new(keys::MAPBY, "slot")][..]].map(|infos| of(infos, 0)), [[0, 2], [0, 2]]);
        assert_eq!(of(&[Info::new(keys::MAPBY, "ppr:2:node")], 0), [0, 0, 2, 2]);
        assert!(of(&[], -1).is_empty());
        assert_eq!(homes(&[Info::new(per_node, 2u16)]), [0, 0, 2, 2]);
        assert_eq!(homes(&[Info::new(per_proc, 1u16)]), [2, 0, 2]);
        for bad in [Info::new(per_node, 0u16), Info::new(per_node, "1"), Info::new(keys::DEBUG_TARGET, true)] {
            assert_eq!(read(&[bad]), Err(Status::ERR_BAD_PARAM));
        }
        assert_eq!(read(&[Info::new(per_node, 1u16), Info::new(per_proc, 1u16)]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(Daemons::read(&[Info::new(per_node, 1u16)], &[]), Ok(None));
    }

    #[test]
    fn daemons_among_other_applications_make_no_daemons_of_these() {
        let daemons = |more: Option<Info>| [Info::new(keys::DEBUGGER_DAEMONS, true)].into_iter().chain(more).collect();
        let app = |info| App { cmd: None, argv: vec![], env: vec![], cwd: None, maxprocs: 2, info };
        let per_node = || Some(Info::new(keys::DEBUG_DAEMONS_PER_NODE, 1u16));
        let among = |more| [app(vec![]), app(daemons(more))];
        assert_eq!(Daemons::read(&[], &among(None)), Ok(None));
        assert_eq!(Daemons::read(&[], &among(per_node())), Err(Status::ERR_NOT_SUPPORTED));
        assert!(Daemons::read(&[], &[app(daemons(None)), app(daemons(per_node()))]).unwrap().is_some());
        assert!(Daemons::read(&daemons(None), &among(per_node())).unwrap().is_some(), "the job's word is for all");
    }

    #[test]
    fn a_target_is_processes_or_a_whole_job() {
        let nspace = Nspace::new("job@1").unwrap();
        let all = Proc::new(nspace.clone(), Rank::WILDCARD);
        for info in [Info::new(keys::DEBUG_TARGET, all.clone()), Info::new(keys::DEBUG_JOB, "job@1")] {
            let read = Daemons::read(&[Info::new(keys::DEBUGGER_DAEMONS, true), info], &[]).unwrap().unwrap();
            assert_eq!(read.target, Some(all.clone()));
            assert!(read.look_into(&nspace) && read.infos().find(keys::DEBUG_TARGET).is_some());
        }
    }
}
