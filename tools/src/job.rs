//! The plan of a job: which rank runs what, and what the Standard's keys say of it.
//!
//! Everything runs on this machine, so that a rank's place on its node and in its job is one number. A run begins with
//! one job; its ranks may start further ones, which are numbered in the order in which they come.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
use instanton::data::{Channels, DataArray, Info, Nspace, Proc, Rank, Value, keys};
use instanton::internal::message::lines::LineFormat;
use instanton::internal::sys::hwloc::Place;
use instanton::launch::{App, AppSpec};
use nix::sys::sysinfo::sysinfo;

use crate::files::Files;
use crate::random;
use crate::session::Session;

/// The only node's number.
const NODE: u32 = 0;
/// The only session's number.
const SESSION: u32 = 1;

/// A job on this machine.
#[derive(Debug)]
pub struct Job {
    /// Its number in the run, from 1.
    pub number: u32,
    /// Its name.
    pub nspace: Nspace,
    /// The rank that has started it, if one has.
    pub parent: Option<Proc>,
    /// Number of ranks of other jobs that come before its own where all on this node are counted.
    pub before: u32,
    /// The guardian's process id, which users and tools know the run by.
    pub guardian: i32,
    /// Prefix of the names of all jobs of the run.
    family: String,
    /// The launcher's own name, as a server.
    pub server: Nspace,
    /// This node's name.
    pub node: String,
    /// Its applications in the order of their ranks.
    pub apps: Vec<App>,
    /// Its directories.
    pub session: Session,
    /// Its parent's wishes for its streams.
    pub wants: StreamOptions,
    /// Processors that we may use.
    slots: u32,
}

/// Tag in front of a line of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    #[default]
    None,
    /// The rank, with the job's number where that is not the first.
    Short,
    /// The job's name and the rank.
    Full,
    /// Namespace and rank as above, and the name of the machine and the process's number.
    Detailed,
}

impl Tags {
    /// The tag of a rank's stream.
    pub fn tag(self, job: &Job, rank: u32, pid: u32, stream: &str) -> String {
        let Job { number, nspace, node, .. } = job;
        match self {
            Tags::None => String::new(),
            Tags::Short if *number == 1 => format!("[{rank}]<{stream}>: "),
            Tags::Short => format!("[{number}.{rank}]<{stream}>: "),
            Tags::Full => format!("[{nspace},{rank}]<{stream}>: "),
            Tags::Detailed => format!("[{nspace},{rank}][{node}:{pid}]<{stream}>: "),
        }
    }
}

/// A parent's wishes for the streams of a job that it has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Streams that it will pull.
    pub output: Channels,
    /// The rank that it will push input to; a wildcard for all.
    pub input: Option<Rank>,
    /// Tag in front of each line.
    pub tags: Tags,
    /// Form of the line besides.
    pub format: LineFormat,
    /// True if both streams are one.
    pub is_merged: bool,
    /// Files that they go to.
    pub files: Files,
}

impl StreamOptions {
    /// Returns whether input is pushed to a rank.
    pub fn has_input(&self, rank: u32) -> bool {
        self.input.is_some_and(|input| input == Rank::WILDCARD || input == Rank(rank))
    }
}

impl Job {
    /// Plans what was asked for; `guardian` is that process's id.
    pub fn new(specs: Vec<AppSpec>, session: Session, guardian: i32) -> Result<Self> {
        let node =
            nix::sys::utsname::uname().context("this machine has no name")?.nodename().to_string_lossy().into_owned();
        let family = format!("instanton-{node}-{guardian}-{}", random::hex::<4>()?);
        Ok(Self {
            number: 1,
            nspace: Nspace::new(format!("{family}@1"))?,
            guardian,
            parent: None,
            before: 0,
            server: Nspace::new(format!("{family}@0"))?,
            family,
            apps: App::all(specs).context("the working directory is gone")?,
            node,
            session,
            wants: StreamOptions::default(),
            slots: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        })
    }

    /// Plans a further job of the same run.
    pub fn spawned(&self, number: u32, parent: Proc, before: u32, specs: Vec<AppSpec>) -> Result<Self> {
        Ok(Self {
            number,
            nspace: Nspace::new(format!("{}@{number}", self.family))?,
            parent: Some(parent),
            before,
            server: self.server.clone(),
            guardian: self.guardian,
            family: self.family.clone(),
            apps: App::all(specs).context("the working directory is gone")?,
            node: self.node.clone(),
            session: self.session.clone(),
            wants: StreamOptions::default(),
            slots: self.slots,
        })
    }

    /// Returns the prefix of the names of all jobs of the run, up to the `@`.
    pub fn family(&self) -> &str {
        &self.family
    }

    /// Its programs and their arguments, as they were typed.
    pub fn command_line(&self) -> Vec<u8> {
        let words = |app: &App| {
            let all = std::iter::once(&app.spec.program).chain(&app.spec.arguments);
            all.map(|word| word.as_encoded_bytes()).collect::<Vec<_>>().join(&b' ')
        };
        self.apps.iter().map(words).collect::<Vec<_>>().join(&b" : "[..])
    }

    /// Returns the number of its ranks.
    pub fn size(&self) -> u32 {
        self.apps.iter().map(|app| app.spec.ranks).sum()
    }

    /// A rank's full name.
    pub fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// Every rank with its application, in order.
    pub fn ranks(&self) -> impl Iterator<Item = (u32, &App)> {
        self.apps.iter().flat_map(|app| app.ranks().map(move |rank| (rank, app)))
    }

    /// Returns whether ranks have to share processors.
    pub fn is_oversubscribed(&self) -> bool {
        self.before + self.size() > self.slots
    }

    /// Returns a number of each application, as one text.
    pub fn per_app(&self, of: impl Fn(&App) -> u32, separator: &str) -> String {
        self.apps.iter().map(|app| of(app).to_string()).collect::<Vec<_>>().join(separator)
    }

    /// Other names of this machine.
    fn aliases(&self) -> String {
        let short = self.node.split_once('.').map(|(short, _)| short);
        short.into_iter().chain(["localhost", "127.0.0.1"]).collect::<Vec<_>>().join(",")
    }

    /// Returns its job information. `place` is the machine, and where on it we may run, as every rank may.
    pub fn infos(&self, place: Option<&Place>) -> Vec<Info> {
        let size = self.size();
        let everyone = (0..size).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
        let mut infos = vec![
            Info::new(keys::SESSION_ID, SESSION),
            Info::new(keys::SERVER_NSPACE, Value::string(&self.server)),
            Info::new(keys::SERVER_RANK, Rank(0)),
            Info::new(keys::JOBID, Value::string(&self.nspace)),
            Info::new(keys::UNIV_SIZE, size.max(self.slots)),
            Info::new(keys::JOB_SIZE, size),
            Info::new(keys::MAX_PROCS, size),
            Info::new(keys::JOB_NUM_APPS, self.apps.len() as u32),
            Info::new(keys::NPROC_OFFSET, Rank(self.before)),
            Info::new(keys::NUM_NODES, 1u32),
            Info::new(keys::NODE_SIZE, self.before + size),
            Info::new(keys::LOCAL_SIZE, size),
            Info::new(keys::LOCAL_PEERS, everyone.as_str()),
            Info::new(keys::LOCALLDR, Rank(0)),
            Info::new(keys::NODE_MAP, self.node.as_str()),
            Info::new(keys::PROC_MAP, everyone.as_str()),
            Info::new(keys::TMPDIR, path(self.session.top())),
            Info::new(keys::NSDIR, path(self.session.job(self.number))),
            // By slot, which are all here; in the words that Open MPI's launchers use.
            Info::new(
                keys::MAPBY,
                if self.is_oversubscribed() { "BYSLOT:OVERSUBSCRIBE" } else { "BYSLOT:NOOVERSUBSCRIBE" },
            ),
            Info::new(keys::RANKBY, "SLOT"),
            Info::new(keys::BINDTO, if place.is_some_and(|place| !place.cores.is_empty()) { "CORE" } else { "NONE" }),
            array(
                keys::NODE_INFO_ARRAY,
                vec![
                    Info::new(keys::NODEID, NODE),
                    Info::new(keys::HOSTNAME, self.node.as_str()),
                    Info::new(keys::HOSTNAME_ALIASES, self.aliases().as_str()),
                    Info::new(keys::NUM_SLOTS, self.slots),
                    Info::new(keys::MAX_PROCS, size.max(self.slots)),
                ],
            ),
            // We remove those directories; the ranks need not.
            Info::new(keys::TDIR_RMCLEAN, true),
        ];
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
        infos.extend(self.apps.iter().map(App::info));
        infos.extend(self.ranks().map(|(rank, app)| self.rank_info(rank, app, place)));
        infos
    }

    fn rank_info(&self, rank: u32, app: &App, place: Option<&Place>) -> Info {
        let on_node = self.before + rank;
        let short = |number: u32| u16::try_from(number).expect("no more ranks than MOST_RANKS");
        let mut infos = vec![
            Info::new(keys::RANK, Rank(rank)),
            Info::new(keys::GLOBAL_RANK, Rank(on_node)),
            Info::new(keys::APPNUM, app.number),
            Info::new(keys::APP_RANK, Rank(rank - app.first)),
            Info::new(keys::LOCAL_RANK, short(rank)),
            Info::new(keys::NODE_RANK, short(on_node)),
            Info::new(keys::NODEID, NODE),
            Info::new(keys::HOSTNAME, self.node.as_str()),
            Info::new(keys::PROCDIR, path(self.session.rank(self.number, rank))),
        ];
        let text = |key, text: &Option<String>| text.as_ref().map(|text| Info::new(key, text.as_str()));
        if let Some(core) = place.and_then(|place| place.core_of(on_node)) {
            infos.push(Info::new(keys::CPUSET, core.cpuset.as_str()));
            infos.push(Info::new(keys::LOCALITY_STRING, core.locality.as_str()));
        } else if let Some(place) = place {
            infos.extend(text(keys::CPUSET, &place.cpuset));
            infos.extend(text(keys::LOCALITY_STRING, &place.locality));
        }
        if let Some(place) = place {
            // If all may run in one package only, all are there.
            let is_one = place.locality.as_deref().is_some_and(|places| is_in_one(places, "SK"));
            infos.extend(is_one.then(|| Info::new(keys::PACKAGE_RANK, short(rank))));
        }
        array(keys::PROC_INFO_ARRAY, infos)
    }
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
    use super::*;
    use instanton::internal::sys::hwloc::Core;
    use instanton::store::{JobInfo, JobWriter, Limits, Question};

    fn job(sizes: &[u32]) -> Job {
        let spec = |&ranks| AppSpec {
            ranks,
            environment: Vec::new(),
            wdir: None,
            program: "prog".into(),
            name: None,
            is_numbered: false,
            arguments: vec!["a b".into()],
        };
        let mut job = Job::new(sizes.iter().map(spec).collect(), Session::named("/tmp/x".into()), 1).unwrap();
        job.slots = 4;
        job
    }

    /// Returns a function that looks up as a rank does, through a server's store.
    fn reads(job: &Job, place: Option<&Place>) -> impl Fn(Rank, &str) -> Option<Value> {
        let infos = job.infos(place);
        let info = JobInfo::from_infos(&job.nspace, job.size(), &infos, &job.node).unwrap();
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
            (keys::HOSTNAME, Value::string(&job.node)),
            (keys::PROCDIR, Value::string("/tmp/x/1/2")),
            (keys::CPUSET, Value::string("hwloc:0-3")),
            (keys::LOCALITY_STRING, Value::string("SK0:CR0-1:NM0-1")),
            (keys::PACKAGE_RANK, Value::Uint16(2)),
            (keys::HOSTNAME_ALIASES, Value::string(job.aliases())),
            (keys::NUM_SLOTS, Value::Uint32(4)),
        ] {
            assert_eq!(get(Rank(2), key), Some(value), "{key}");
        }
        for absent in [keys::NODE_OVERSUBSCRIBED, "OMPI_APP_SIZES", "OMPI_FIRST_RANKS"] {
            assert_eq!(get(Rank::WILDCARD, absent), None, "{absent}");
        }
    }

    #[test]
    fn ranks_are_bound_to_one_core_after_the_other() {
        let core = |unit: usize| Core {
            units: vec![unit],
            cpuset: format!("hwloc:{unit}"),
            locality: format!("SK0:CR{unit}:HT{unit}"),
        };
        let place = Place { xml: String::new(), cpuset: None, locality: None, cores: vec![core(0), core(1)] };
        let job = job(&[3]);
        let get = reads(&job, Some(&place));
        assert_eq!(get(Rank::WILDCARD, keys::BINDTO), Some(Value::string("CORE")));
        let cpusets = [0, 1, 2].map(|rank| get(Rank(rank), keys::CPUSET).unwrap());
        assert_eq!(cpusets, ["hwloc:0", "hwloc:1", "hwloc:0"].map(Value::string));
        assert_eq!(get(Rank(1), keys::LOCALITY_STRING), Some(Value::string("SK0:CR1:HT1")));
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
    fn a_spawned_job_knows_its_parent_and_comes_behind() {
        let first = job(&[2]);
        let (spec, parent) = (first.apps[0].spec.clone(), first.proc(1));
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
