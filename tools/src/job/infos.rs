//! Job information: what the Standard's keys say of a job and its ranks.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use instanton::data::{DataArray, DataType, Info, InfoList, Rank, Value, keys};
use instanton::internal::sys::hwloc::Place;
use instanton::launch::App;
use nix::sys::sysinfo::sysinfo;

use super::{Job, SESSION};
use crate::placement::Kind;

impl Job {
    /// Other names of the machine, where it is one node.
    fn aliases(&self) -> Option<String> {
        let [node] = &self.nodes[..] else { return None };
        let short = node.split_once('.').map(|(short, _)| short);
        Some(short.into_iter().chain(["localhost", "127.0.0.1"]).collect::<Vec<_>>().join(","))
    }

    /// Returns how its ranks are mapped, in the words of Open MPI's launchers.
    fn mapped_by(&self) -> String {
        let more = if self.is_oversubscribed() { "OVERSUBSCRIBE" } else { "NOOVERSUBSCRIBE" };
        format!("{}:{more}", self.placement.policy.words())
    }

    /// Returns what its ranks are bound to, in the words of Open MPI's launchers.
    fn bound_to(&self) -> &'static str {
        let is_bound = self.placement.spots.iter().any(|spot| !spot.units.is_empty());
        self.placement.policy.binds().filter(|_| is_bound).map_or("NONE", Kind::word)
    }

    /// Returns its job information for a node. `place` is the machine, and where on it we may run, as every rank may.
    pub fn infos(&self, place: Option<&Place>, node: u32) -> Vec<Info> {
        let size = self.size();
        let (here, session) = (self.ranks_on(node), self.session.of_node(node));
        let list = |ranks: &[u32]| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let used = self.used_nodes();
        let names: Vec<&str> = used.iter().map(|node| self.nodes[*node as usize].as_str()).collect();
        let ranks: Vec<String> = used.iter().map(|node| list(self.ranks_on(*node))).collect();
        let mut infos = vec![
            Info::new(keys::SESSION_ID, SESSION),
            Info::new(keys::SERVER_NSPACE, Value::string(&self.server)),
            Info::new(keys::SERVER_RANK, Rank(0)),
            Info::new(keys::JOBID, Value::string(&self.nspace)),
            Info::new(keys::UNIV_SIZE, self.universe()),
            Info::new(keys::RM_NAME, "instanton"),
            Info::new(keys::RM_VERSION, env!("CARGO_PKG_VERSION")),
            Info::new(keys::JOB_SIZE, size),
            Info::new(keys::MAX_PROCS, size),
            Info::new(keys::JOB_NUM_APPS, self.apps.len() as u32),
            Info::new(keys::NPROC_OFFSET, Rank(self.before)),
            Info::new(keys::NUM_NODES, used.len() as u32),
            Info::new(keys::NODE_SIZE, self.size_on(node)),
            Info::new(keys::LOCAL_SIZE, here.len() as u32),
            Info::new(keys::NODE_MAP, names.join(",").as_str()),
            Info::new(keys::PROC_MAP, ranks.join(";").as_str()),
            Info::new(keys::TMPDIR, path(session.top())),
            Info::new(keys::NSDIR, path(session.job(self.number))),
            Info::new(keys::MAPBY, self.mapped_by().as_str()),
            Info::new(keys::RANKBY, "SLOT"),
            Info::new(keys::BINDTO, self.bound_to()),
            // We remove those directories; the ranks need not.
            Info::new(keys::TDIR_RMCLEAN, true),
        ];
        // The same keys mean another thing at the level of the session: all of the run's nodes, with ranks or without.
        let of_session = [(keys::SESSION_ID, SESSION), (keys::NUM_NODES, self.nodes.len() as u32)];
        let of_session = of_session.map(|(key, number)| Info::new(key, number)).to_vec();
        infos.push(array(keys::SESSION_INFO_ARRAY, of_session));
        // A node without ranks has no representation (Standard, PMIX_PROC_MAP): Open MPI takes an empty list for peers.
        if let Some(first) = here.first() {
            infos.push(Info::new(keys::LOCAL_PEERS, list(here).as_str()));
            infos.push(Info::new(keys::LOCALLDR, Rank(*first)));
        }
        infos.extend(used.iter().zip(0u32..).map(|(node, number)| {
            let here = self.ranks_on(*node).len() as u32;
            let mut infos = vec![
                Info::new(keys::NODEID, number),
                Info::new(keys::HOSTNAME, self.nodes[*node as usize].as_str()),
                Info::new(keys::NUM_SLOTS, self.slots_on(*node)),
                Info::new(keys::MAX_PROCS, here.max(self.slots_on(*node))),
            ];
            infos.extend(self.aliases().map(|aliases| Info::new(keys::HOSTNAME_ALIASES, aliases.as_str())));
            array(keys::NODE_INFO_ARRAY, infos)
        }));
        if let Some(parent) = &self.parent {
            infos.push(Info::new(keys::SPAWNED, true));
            infos.push(Info::new(keys::PARENT_ID, parent.clone()));
        }
        if let Ok(memory) = sysinfo() {
            infos.push(Info::new(keys::AVAIL_PHYS_MEMORY, Value::Uint64(memory.ram_total())));
        }
        // Its presence counts to Open MPI, not its truth.
        if self.is_oversubscribed() {
            infos.push(Info::new(keys::NODE_OVERSUBSCRIBED, true));
        }
        if let Some(place) = place {
            infos.push(Info::new(keys::HWLOC_XML_V2, place.xml.as_str()));
        }
        if self.apps.len() > 1 {
            infos.push(Info::new("OMPI_APP_SIZES", self.per_app(|app| app.spec.ranks, ",").as_str()));
            infos.push(Info::new("OMPI_FIRST_RANKS", self.per_app(|app| app.first, ",").as_str()));
        }
        infos.extend(self.survival.infos());
        infos.extend(self.apps.iter().map(App::info));
        let placed = self.placement.infos();
        infos.extend(cpusets(here, place, &placed).map(|sets| Info::new(keys::LOCAL_CPUSETS, sets.as_str())));
        let mut placed = placed.into_iter();
        infos.extend(self.ranks().map(|(rank, app)| {
            let number = used.binary_search(&self.node_of(rank)).unwrap_or(0) as u32;
            self.rank_info(rank, (app, number), place, placed.next().unwrap_or_default())
        }));
        infos
    }

    /// `number` is that of its node in the job's `PMIX_NODE_MAP`.
    fn rank_info(&self, rank: u32, (app, number): (&App, u32), place: Option<&Place>, placed: Vec<Info>) -> Info {
        let (node, local) = (self.node_of(rank), self.local_rank(rank));
        let short = |number: u32| u16::try_from(number).expect("no more ranks than MOST_RANKS");
        let mut infos = vec![
            Info::new(keys::RANK, Rank(rank)),
            Info::new(keys::GLOBAL_RANK, Rank(self.before + rank)),
            Info::new(keys::APPNUM, app.number),
            Info::new(keys::APP_RANK, Rank(rank - app.first)),
            Info::new(keys::LOCAL_RANK, short(local)),
            Info::new(keys::NODE_RANK, short(self.node_rank(rank))),
            Info::new(keys::NODEID, number),
            Info::new(keys::HOSTNAME, self.node_name(rank)),
            Info::new(keys::PROCDIR, path(self.session.of_node(node).rank(self.number, rank))),
            Info::new(keys::REINCARNATION, self.reincarnation(rank)),
        ];
        let sets = self.psets.iter().filter(|set| set.contains(rank)).map(|set| &set.name);
        let sets: Vec<Value> = sets.map(|name| Value::String(Some(name.clone()))).collect();
        if let Some(first) = sets.first().cloned() {
            infos.push(Info::new(keys::PSET_NAME, first));
            infos.extend(DataArray::new(DataType::STRING, sets).ok().map(|names| Info::new(keys::PSET_NAMES, names)));
        }
        let text = |key, text: &Option<String>| text.as_ref().map(|text| Info::new(key, text.as_str()));
        if let (Some(place), true) = (place, placed.is_empty()) {
            infos.extend(text(keys::CPUSET, &place.cpuset));
            infos.extend(text(keys::LOCALITY_STRING, &place.locality));
            // If all may run in one package only, all are there.
            let is_one = place.locality.as_deref().is_some_and(|places| is_in_one(places, "SK"));
            infos.extend(is_one.then(|| Info::new(keys::PACKAGE_RANK, short(local))));
        }
        infos.extend(placed);
        array(keys::PROC_INFO_ARRAY, infos)
    }
}

/// The processors of each of a node's ranks, in their order, behind colons; nothing where those of one are unknown.
/// The names of the library that each has in front (`hwloc:`) would have colons themselves.
fn cpusets(here: &[u32], place: Option<&Place>, placed: &[Vec<Info>]) -> Option<String> {
    let of = |rank: &u32| {
        let bound = placed.get(*rank as usize).and_then(|infos| infos.find(keys::CPUSET));
        let bound = bound.and_then(|info| info.value.as_str());
        let set = bound.or_else(|| place?.cpuset.as_deref())?;
        Some(set.rsplit(':').next().unwrap_or(set).to_owned())
    };
    let sets: Vec<String> = here.iter().map(of).collect::<Option<_>>()?;
    (!sets.is_empty()).then(|| sets.join(":"))
}

/// Returns whether a locality string names just one part of the machine of a kind: `SK0`, and not `SK0-1`.
fn is_in_one(places: &str, kind: &str) -> bool {
    let mut lists = places.split(':').filter_map(|place| place.strip_prefix(kind));
    lists.next().is_some_and(|list| list.parse::<u32>().is_ok()) && lists.next().is_none()
}

fn array(key: &str, infos: Vec<Info>) -> Info {
    Info::new(key, DataArray::of_info(infos))
}

/// Text of the system, which holds no NUL.
fn path(text: impl AsRef<OsStr>) -> Value {
    Value::string(text.as_ref().as_bytes())
}

#[cfg(test)]
mod tests {
    use instanton::data::Text;
    use instanton::launch::AppSpec;
    use instanton::store::{Directives, JobInfo, JobWriter, Limits, Question};

    use super::*;
    use crate::job::{Placement, ProcessSet, Simulated};
    use crate::placement::{Machine, Nodes, Policy, place};
    use crate::session::Session;

    fn job(sizes: &[u32]) -> Job {
        let spec =
            |&ranks| AppSpec { ranks, program: "prog".into(), arguments: vec!["a b".into()], ..AppSpec::default() };
        let mut job = Job::new(sizes.iter().map(spec).collect(), 1, Session::named("/tmp/x".into()), 1).unwrap();
        job.slots = 4;
        job
    }

    /// Returns a function that looks up as a rank does, through a server's store.
    fn reads(job: &Job, place: Option<&Place>) -> impl Fn(Rank, &str) -> Option<Value> {
        let infos = job.infos(place, 0);
        let info = JobInfo::from_infos(&job.nspace, job.size(), &infos, &job.nodes[0]).unwrap();
        let limits = Limits::default();
        let store = JobWriter::create(&job.nspace, info, &limits).unwrap();
        move |rank, key| store.reader().get(&Question::new(rank, key)).ok()
    }

    #[test]
    fn what_open_mpi_cannot_do_without_is_there_with_its_exact_type() {
        let job = job(&[3]);
        let place = Place {
            xml: "<xml/>".into(),
            cpuset: Some("hwloc:0-3".into()),
            locality: Some("SK0:CR0-1:NM0-1".into()),
            cores: Vec::new(),
        };
        let get = reads(&job, Some(&place));
        for (key, value) in [
            (keys::JOB_SIZE, Value::Uint32(3)),
            (keys::MAX_PROCS, Value::Uint32(3)),
            (keys::LOCAL_SIZE, Value::Uint32(3)),
            (keys::NODE_SIZE, Value::Uint32(3)),
            (keys::UNIV_SIZE, Value::Uint32(4)),
            (keys::NPROC_OFFSET, Value::ProcRank(Rank(0))),
            (keys::AVAIL_PHYS_MEMORY, Value::Uint64(sysinfo().unwrap().ram_total())),
            (keys::NUM_NODES, Value::Uint32(1)),
            (keys::JOB_NUM_APPS, Value::Uint32(1)),
            (keys::LOCAL_PEERS, Value::string("0,1,2")),
            (keys::LOCALLDR, Value::ProcRank(Rank(0))),
            (keys::LOCAL_CPUSETS, Value::string("0-3:0-3:0-3")),
            (keys::TMPDIR, Value::string("/tmp/x")),
            (keys::NSDIR, Value::string("/tmp/x/1")),
            (keys::HWLOC_XML_V2, Value::string("<xml/>")),
            (keys::MAPBY, Value::string("BYSLOT:NOOVERSUBSCRIBE")),
            (keys::RANKBY, Value::string("SLOT")),
            (keys::BINDTO, Value::string("NONE")),
        ] {
            assert_eq!(get(Rank::WILDCARD, key), Some(value), "{key}");
        }
        for (key, value) in [
            (keys::LOCAL_RANK, Value::Uint16(2)),
            (keys::NODE_RANK, Value::Uint16(2)),
            (keys::APP_RANK, Value::ProcRank(Rank(2))),
            (keys::GLOBAL_RANK, Value::ProcRank(Rank(2))),
            (keys::APPNUM, Value::Uint32(0)),
            (keys::NODEID, Value::Uint32(0)),
            (keys::HOSTNAME, Value::string(&job.nodes[0])),
            (keys::PROCDIR, Value::string("/tmp/x/1/2")),
            (keys::CPUSET, Value::string("hwloc:0-3")),
            (keys::LOCALITY_STRING, Value::string("SK0:CR0-1:NM0-1")),
            (keys::PACKAGE_RANK, Value::Uint16(2)),
            (keys::HOSTNAME_ALIASES, Value::string(job.aliases().unwrap())),
            (keys::NUM_SLOTS, Value::Uint32(4)),
            (keys::REINCARNATION, Value::Uint32(0)),
            (keys::RM_NAME, Value::string("instanton")),
            (keys::RM_VERSION, Value::string(env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(get(Rank(2), key), Some(value), "{key}");
        }
        for absent in [keys::NODE_OVERSUBSCRIBED, "OMPI_APP_SIZES", "OMPI_FIRST_RANKS"] {
            assert_eq!(get(Rank::WILDCARD, absent), None, "{absent}");
        }
    }

    #[test]
    fn the_session_has_all_nodes_and_a_job_those_that_it_uses() {
        let spec = AppSpec { ranks: 1, program: "prog".into(), ..AppSpec::default() };
        let job = Job::new(vec![spec], 3, Session::named("/tmp/x".into()), 1).unwrap();
        let info = JobInfo::from_infos(&job.nspace, 1, &job.infos(None, 0), &job.nodes[0]).unwrap();
        let store = JobWriter::create(&job.nspace, info, &Limits::default()).unwrap();
        let of_session = Directives::parse(&[Info::new(keys::SESSION_INFO, true)]).unwrap();
        let nodes =
            |directives| store.reader().get(&Question::new(Rank::WILDCARD, keys::NUM_NODES).with(directives)).ok();
        assert_eq!(nodes(&of_session), Some(Value::Uint32(3)));
        assert_eq!(nodes(Directives::none()), Some(Value::Uint32(1)));
    }

    #[test]
    fn a_node_without_ranks_of_a_job_has_no_peers() {
        let spec = AppSpec { ranks: 1, program: "prog".into(), ..AppSpec::default() };
        let job = Job::new(vec![spec], 2, Session::named("/tmp/x".into()), 1).unwrap();
        let peers = |node: u32| {
            let info = JobInfo::from_infos(&job.nspace, 1 - node, &job.infos(None, node), &job.nodes[node as usize]);
            let store = JobWriter::create(&job.nspace, info.unwrap(), &Limits::default()).unwrap();
            store.reader().get(&Question::new(Rank::WILDCARD, keys::LOCAL_PEERS)).ok()
        };
        assert_eq!([peers(0), peers(1)], [Some(Value::string("0")), None]);
    }

    #[test]
    fn jobs_are_counted_node_by_node_and_number_the_nodes_that_they_use() {
        let spec = |ranks| AppSpec { ranks, program: "prog".into(), ..AppSpec::default() };
        let on = |nodes: &[u32]| Placement::unbound(nodes.to_vec());
        let mut first = Job::new(vec![spec(3)], 3, Session::named("/tmp/x".into()), 1).unwrap();
        first.place(on(&[0, 2, 2]), Vec::new());
        let mut child = first.spawned(2, first.proc(0), 3, vec![spec(3)]).unwrap();
        child.place(on(&[1, 2, 2]), [0, 1, 2].map(|node| first.size_on(node)).to_vec());
        let read = |rank: u32, key: &str| {
            let infos = child.infos(None, 2);
            let info = JobInfo::from_infos(&child.nspace, 2, &infos, &child.nodes[2]).unwrap();
            let store = JobWriter::create(&child.nspace, info, &Limits::default()).unwrap();
            store.reader().get(&Question::new(Rank(rank), key)).ok()
        };
        assert_eq!(read(Rank::WILDCARD.0, keys::NODE_SIZE), Some(Value::Uint32(4)));
        assert_eq!([0, 1, 2].map(|rank| read(rank, keys::NODE_RANK)), [0, 2, 3].map(|rank| Some(Value::Uint16(rank))));
        assert_eq!([0, 1, 2].map(|rank| read(rank, keys::NODEID)), [0, 1, 1].map(|node| Some(Value::Uint32(node))));
        assert_eq!(read(1, keys::GLOBAL_RANK), Some(Value::ProcRank(Rank(4))), "ranks of a run are numbered as one");
    }

    #[test]
    fn ranks_know_the_sets_that_their_applications_are_in() {
        let mut job = job(&[2, 1, 1]);
        let text = |name: &str| Text::new(name).unwrap();
        let (a, b) = (text("a"), text("b"));
        job.psets = ProcessSet::of_apps([], [(2, vec![&a]), (1, vec![]), (1, vec![&b, &a, &a])]);
        let sets: Vec<_> = job.psets.iter().map(|set| (set.name.clone(), set.ranks().collect::<Vec<_>>())).collect();
        assert_eq!(sets, [(a, vec![0, 1, 3]), (b, vec![3])]);
        let get = reads(&job, None);
        assert_eq!(get(Rank(1), keys::PSET_NAME), Some(Value::string("a")));
        assert_eq!(get(Rank(2), keys::PSET_NAMES), None);
        let names = ["a", "b"].map(Value::string).to_vec();
        assert_eq!(get(Rank(3), keys::PSET_NAMES), DataArray::new(DataType::STRING, names).ok().map(Value::DataArray));
    }

    #[test]
    fn ranks_that_are_bound_are_told_where() {
        let machine = Machine::synthetic(&[(Kind::Package, 2), (Kind::Core, 2)]);
        let mut policy = Policy::default();
        policy.map_by("package").unwrap();
        policy.bind_to("core").unwrap();
        let mut job = job(&[3]);
        let spots = place(&policy, &machine, Nodes::ONE, 3, &[], None).unwrap();
        job.placement = Placement { policy, machine: Some(machine.into()), spots };
        let get = reads(&job, None);
        assert_eq!(get(Rank::WILDCARD, keys::BINDTO), Some(Value::string("CORE")));
        assert_eq!(get(Rank::WILDCARD, keys::MAPBY), Some(Value::string("BYPACKAGE:NOOVERSUBSCRIBE")));
        let of = |key| [0, 1, 2].map(|rank| get(Rank(rank), key).unwrap());
        assert_eq!(of(keys::CPUSET), ["hwloc:0", "hwloc:2", "hwloc:1"].map(Value::string));
        assert_eq!(of(keys::PACKAGE_RANK), [0, 0, 1].map(Value::Uint16));
        assert_eq!(get(Rank(1), keys::LOCALITY_STRING), Some(Value::string("SK1:CR2:HT2:NM0")));
        assert!(job.placement.processors(1).is_empty(), "the machine is not there");
    }

    #[test]
    fn one_part_is_told_from_several() {
        for (places, one) in [("SK0:NM0", true), ("SK12", true), ("SK0-1:NM0", false), ("SK0,2", false), ("NM0", false)]
        {
            assert_eq!(is_in_one(places, "SK"), one, "{places}");
        }
    }

    #[test]
    fn several_applications_are_told_apart() {
        let job = job(&[2, 3]);
        let get = reads(&job, None);
        assert_eq!(get(Rank::WILDCARD, "OMPI_APP_SIZES"), Some(Value::string("2,3")));
        assert_eq!(get(Rank::WILDCARD, "OMPI_FIRST_RANKS"), Some(Value::string("0,2")));
        assert_eq!(get(Rank::WILDCARD, keys::NODE_OVERSUBSCRIBED), Some(Value::Bool(true)));
        assert_eq!(get(Rank::WILDCARD, keys::HWLOC_XML_V2), None);
        assert_eq!(get(Rank(4), keys::APPNUM), Some(Value::Uint32(1)));
        assert_eq!(get(Rank(4), keys::APP_RANK), Some(Value::ProcRank(Rank(2))));
        assert_eq!(get(Rank(4), keys::APP_SIZE), Some(Value::Uint32(3)));
        assert_eq!(get(Rank(4), keys::LOCAL_RANK), Some(Value::Uint16(4)));
        assert_eq!(get(Rank(4), keys::APP_ARGV), Some(Value::string("prog a b")));
    }

    #[test]
    fn simulated_nodes_have_the_slots_that_were_given_and_the_session_has_all_of_them() {
        let mut first = job(&[2]);
        first.simulated_slots = Simulated { given: Some(vec![1, 3, 0]), all: Some(4) };
        let spawned = first.spawned(2, first.proc(0), 2, vec![first.apps[0].spec.clone()]).unwrap();
        assert_eq!([0, 1, 2, 3].map(|node| spawned.slots_on(node)), [1, 3, 0, 4]);
        first.simulated_slots.all = Some(16);
        assert_eq!((first.universe(), spawned.universe()), (16, 4));
        let info = JobInfo::from_infos(&first.nspace, 2, &first.infos(None, 0), &first.nodes[0]).unwrap();
        let store = JobWriter::create(&first.nspace, info, &Limits::default()).unwrap();
        let of_node = Directives::parse(&[Info::new(keys::NODE_INFO, true), Info::new(keys::NODEID, 0u32)]).unwrap();
        let slots =
            |directives| store.reader().get(&Question::new(Rank::WILDCARD, keys::NUM_SLOTS).with(directives)).unwrap();
        assert_eq!((slots(&of_node), slots(Directives::none())), (Value::Uint32(1), Value::Uint32(16)));
    }

    #[test]
    fn a_spawned_job_knows_its_parent_and_comes_behind() {
        let first = job(&[2]);
        let (spec, parent) = (first.apps[0].spec.clone(), first.proc(1));
        let many = first.spawned(3, parent.clone(), 2, vec![spec.clone(), spec.clone(), spec.clone()]).unwrap();
        assert_eq!((many.size(), many.universe()), (6, 4), "one number in a session");
        let child = first.spawned(2, parent.clone(), 2, vec![spec]).unwrap();
        let get = reads(&child, None);
        assert_eq!(get(Rank::WILDCARD, keys::PARENT_ID), Some(parent.into()));
        assert_eq!(get(Rank::WILDCARD, keys::SPAWNED), Some(Value::Bool(true)));
        assert_eq!(get(Rank::WILDCARD, keys::LOCAL_SIZE), Some(Value::Uint32(2)));
        assert_eq!(get(Rank::WILDCARD, keys::NODE_SIZE), Some(Value::Uint32(4)));
        assert_eq!(get(Rank(1), keys::LOCAL_RANK), Some(Value::Uint16(1)));
        assert_eq!(get(Rank(1), keys::NODE_RANK), Some(Value::Uint16(3)));
        assert_eq!(get(Rank(1), keys::PROCDIR), Some(Value::string("/tmp/x/2/1")));
        let name = first.nspace.to_string().replace("@1", "@2");
        assert_eq!(child.nspace.to_string(), name);
    }

    #[test]
    fn names_are_of_the_form_that_open_mpi_takes_apart() {
        let name = job(&[1]).nspace.to_string();
        assert!(name.starts_with("instanton-") && name.ends_with("@1"), "{name}");
        assert_ne!(name, job(&[1]).nspace.to_string());
    }
}
