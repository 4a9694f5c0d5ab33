//! Spawn requests (`PMIx_Spawn`, `MPI_Comm_spawn`), as this launcher plans them.
//!
//! A request is one job with as many applications as it has. All of it starts, or nothing of it stays. Everything runs
//! on this machine and is forwarded to our output, and to the job's parent as far as that wants it. Attributes about
//! mapping and binding are read as the options of the command line are; one that is not understood is a hint that
//! changes nothing, unless it is required.
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Instant;

use instanton::data::{App, Channels, DataArray, Info, InfoList, Nspace, Proc, Rank, Status, Text, Value, keys};
use instanton::internal::message::lines::LineFormat;
use instanton::internal::pmi;
use instanton::launch::{self, AppSpec, TimeLimits};
use instanton::server::Completion;

use crate::args::Hosts;
use crate::debugger::daemons::Daemons;
use crate::debugger::stops::Stops;
use crate::files::Files;
use crate::job::{Job, ProcessSet, StreamOptions, Tags};
use crate::launch::placing::Part;
use crate::placement::{Binding, Mapping, Policy};
use crate::survival::Survival;
use crate::ties::Tells;

/// A rank's spawn request, and the way back to it.
#[derive(Debug)]
pub struct Request {
    /// The process that asks.
    pub parent: Proc,
    /// Attributes of the whole job.
    pub info: Vec<Info>,
    /// Applications to run.
    pub apps: Vec<App>,
    /// Time at which it was made.
    pub made: Instant,
    /// Daemons of a debugger that they are, once that is settled.
    pub daemons: Option<Daemons>,
    /// Answered with the job's namespace when all of it runs.
    pub done: Completion<Nspace>,
}

/// Attributes that are served when they are required, besides those that [every launcher](launch::SERVED) serves.
const MORE: [&str; 29] = [
    keys::FWD_STDIN,
    keys::STDIN_TGT,
    keys::IOF_TAG_DETAILED_OUTPUT,
    keys::IOF_RANK_OUTPUT,
    keys::IOF_OUTPUT_RAW,
    keys::IOF_OUTPUT_TO_FILE,
    keys::OUTPUT_TO_FILE,
    keys::IOF_OUTPUT_TO_DIRECTORY,
    keys::OUTPUT_TO_DIRECTORY,
    keys::IOF_FILE_ONLY,
    keys::IOF_FILE_PATTERN,
    keys::OUTPUT_NOCOPY,
    keys::DEBUG_STOP_ON_EXEC,
    keys::DEBUG_STOP_IN_INIT,
    keys::DEBUG_STOP_IN_APP,
    keys::DEBUGGER_DAEMONS,
    keys::DEBUG_TARGET,
    keys::DEBUG_JOB,
    keys::DEBUG_DAEMONS_PER_NODE,
    keys::DEBUG_DAEMONS_PER_PROC,
    keys::JOB_CONTINUOUS,
    keys::JOB_RECOVERABLE,
    keys::MAX_RESTARTS,
    keys::SPAWN_CHILD_SEP,
    keys::NOTIFY_JOB_EVENTS,
    keys::NOTIFY_PROC_TERMINATION,
    keys::NOTIFY_PROC_ABNORMAL_TERMINATION,
    keys::PSET_NAME,
    keys::SET_SESSION_CWD,
];

/// Attributes that say where processes run, served where what they say is known here.
const PLACEMENTS: [&str; 7] =
    [keys::MAPBY, keys::RANKBY, keys::BINDTO, keys::PPR, keys::CPU_LIST, keys::CPUS_PER_PROC, keys::NO_OVERSUBSCRIBE];
/// Most attributes of one job that say where its processes run, the last of all, and bytes of each: more is a hint that
/// nobody reads.
const MOST_PLACEMENTS: usize = 64;
const LONGEST_PLACEMENT: usize = 64 << 10;
/// Most process sets of one job, and most members of all of them: servers keep them one by one, and tell of each.
const MOST_SETS: usize = 1024;
const MOST_MEMBERS: usize = 1 << 18;

/// All attributes that are served, whatever they say.
pub fn served() -> Vec<&'static str> {
    launch::SERVED.iter().chain(&MORE).copied().collect()
}

/// The same, and those that are about placement.
pub fn supported() -> Vec<&'static str> {
    served().into_iter().chain(PLACEMENTS).collect()
}

impl Request {
    /// The applications to plan; `hosts` are those of the run, and `session` is its directory. Processes that are to
    /// run in that do so whatever else is said.
    ///
    /// # Errors
    /// As [`launch::read`]; `ERR_BAD_PARAM` for files without a name.
    pub fn specs(&self, hosts: &Hosts, session: &Path) -> Result<Vec<AppSpec>, Status> {
        if !Files::are_named(&self.info) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let serves = |info: &Info| MORE.iter().any(|key| info.key == *key) || is_placement(info);
        let mut specs = launch::read(&self.info, &self.apps, |host| hosts.first(host).is_some(), serves)?;
        let of_job = self.info.find(keys::SET_SESSION_CWD);
        for (spec, app) in specs.iter_mut().zip(&self.apps) {
            let wanted = app.info.find(keys::SET_SESSION_CWD).or(of_job);
            if wanted.is_some_and(Info::is_true) {
                spec.wdir = Some(session.to_owned());
            }
            if let Some(path) = app.info.find(pmi::PATH).and_then(|info| info.value.as_text()) {
                spec.path = Some(before_path(path, spec));
            }
        }
        Ok(specs)
    }

    /// The parts of the job that are placed together: all of it, or each application where these name hosts of their
    /// own. A node of a run on several has `all` slots where it is named without a number.
    ///
    /// # Errors
    /// `ERR_JOB_FAILED_TO_MAP` for numbers of slots that make no sense.
    pub fn parts(&self, hosts: &Hosts, all: u32) -> Result<Vec<Part>, Status> {
        let part = |app: &App| {
            let named = |key| app.info.find(key).or_else(|| self.info.find(key)).and_then(|info| info.value.as_str());
            // Names of others mean nothing, where one is ours.
            let list = named(keys::HOST).into_iter().flat_map(|list| list.split(','));
            let entries: Vec<&str> = list.filter(|entry| hosts.have(entry)).collect();
            let files: Vec<&Path> = named(keys::HOSTFILE).map(Path::new).into_iter().collect();
            let slots = if hosts.are_several() { hosts.slots(&entries, &files, all) } else { Ok(None) };
            let slots = slots.map_err(|_| Status::ERR_JOB_FAILED_TO_MAP)?;
            Ok(Part { ranks: u32::try_from(app.maxprocs).unwrap_or(0), slots })
        };
        let mut parts = self.apps.iter().map(part).collect::<Result<Vec<Part>, Status>>()?;
        if parts.iter().all(|part| part.slots == parts[0].slots) {
            let ranks = parts.iter().map(|part| part.ranks).sum();
            parts.truncate(1);
            parts.iter_mut().for_each(|part| part.ranks = ranks);
        }
        Ok(parts)
    }

    /// Settles which daemons of a debugger are asked for, if any are, and how many; `homes` gives the nodes of the ranks
    /// that a name is of. Returns the node of each.
    ///
    /// # Errors
    /// As [`Daemons::read`], and those of `homes`.
    pub fn settle_daemons(
        &mut self,
        homes: impl Fn(&Proc) -> Result<Vec<u32>, Status>,
    ) -> Result<Option<Vec<u32>>, Status> {
        self.daemons = Daemons::read(&self.info, &self.apps)?;
        let Some(daemons) = &self.daemons else { return Ok(None) };
        let nodes = daemons.target.as_ref().map_or_else(|| Ok(vec![0]), homes)?;
        let mut all = Vec::new();
        for app in &mut self.apps {
            let own = daemons.homes(&nodes, app.maxprocs);
            app.maxprocs = i32::try_from(own.len()).map_err(|_| Status::ERR_BAD_PARAM)?;
            all.extend(own);
        }
        Ok(Some(all))
    }

    /// The policy of placement: as the attributes say. Jobs that say nothing are bound as those of the run are, and share
    /// processors that are taken.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for an attribute that is required and says what is unknown here.
    pub fn policy(&self, run: &Policy) -> Result<Policy, Status> {
        let infos = self.infos();
        let is_place = |info: &Info| is_placement(info) && info.key != keys::NO_OVERSUBSCRIBE;
        let said: Vec<&Info> = infos.iter().filter(|info| is_place(info)).collect();
        let said = &said[said.len().saturating_sub(MOST_PLACEMENTS)..];
        let no_oversubscribe = infos.is_set(keys::NO_OVERSUBSCRIBE);
        let mut policy = Policy { by_thread: run.by_thread, no_oversubscribe, ..Policy::default() };
        if said.is_empty() {
            policy.binding = Binding { to: Some(run.binds()), overloads: true, ..run.binding };
            policy.per_rank = run.per_rank;
            return Ok(policy);
        }
        for info in said {
            let mut changed = policy.clone();
            let text = info.value.as_str().unwrap_or_default();
            let read = match info.key.as_str() {
                _ if text.len() > LONGEST_PLACEMENT => Err("it is too long".to_owned()),
                Some(keys::MAPBY) => changed.map_by(text),
                Some(keys::RANKBY) => changed.rank_by(text),
                // Open MPI has the word before it, for `npernode`.
                Some(keys::PPR) => changed.map_by(&format!("ppr:{}", text.trim_start_matches("ppr:"))),
                Some(keys::CPU_LIST) => changed.map_by(&format!("pe-list={text}")),
                Some(keys::CPUS_PER_PROC) => changed.map_by(&format!(":pe={}", info.value.as_u32().unwrap_or(0))),
                _ => changed.bind_to(text),
            };
            // There is nobody to read a file for.
            let is_read = read.is_ok() && !matches!(changed.mapping, Mapping::RankFile | Mapping::Sequence);
            match is_read {
                true => policy = changed,
                false if info.is_required() => return Err(Status::ERR_NOT_SUPPORTED),
                false => {}
            }
        }
        Ok(policy)
    }

    /// Information for the server about the job besides its plan: changes of its processes' environment, and whether it
    /// is connected with its parent.
    fn said(&self) -> Vec<Info> {
        let mut said = launch::environment(&self.info, &self.apps);
        said.extend(self.preput());
        said.extend(self.is_apart().then(|| Info::new(keys::COSPAWN_APP, true)));
        said
    }

    /// Returns what its processes are to find among what was put. Nothing of that can take the place of what we say.
    fn preput(&self) -> Option<Info> {
        let Value::DataArray(given) = &self.info.find(pmi::PREPUT)?.value else { return None };
        let given: Vec<Info> = given.infos().filter(|info| !info.key.is_reserved()).cloned().collect();
        Some(Info::new(pmi::PREPUT, DataArray::of_info(given)))
    }

    /// Returns whether it is to be a job apart from its parent's.
    fn is_apart(&self) -> bool {
        let apart = |info: &[Info]| info.is_set(keys::COSPAWN_APP);
        apart(&self.info) || self.apps.iter().all(|app| apart(&app.info))
    }

    /// Completes the plan of a job with its parent's wishes.
    ///
    /// # Errors
    /// As [`Survival::read`] and [`Stops::read`]; `ERR_OUT_OF_RESOURCE` for too many process sets.
    pub fn complete(&self, job: &mut Job) -> Result<(), Status> {
        let infos = self.infos();
        job.wants = wants(&infos);
        job.survival = Survival::read(&infos)?;
        job.stops = Stops::read(&self.info, &self.apps)?;
        job.daemons = self.daemons.clone();
        job.is_apart = self.is_apart();
        job.is_independent = job.is_apart || infos.is_set(keys::SPAWN_CHILD_SEP);
        job.is_non_pmi = infos.is_set(keys::NON_PMI);
        job.speaks_pmi = self.info.find(pmi::PREPUT).is_some();
        job.said = self.said();
        job.psets = self.psets()?;
        Ok(())
    }

    /// Returns the process sets of the job: those that are named for all of it, and for its applications.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` for more than [`MOST_SETS`], or with more than [`MOST_MEMBERS`].
    fn psets(&self) -> Result<Vec<ProcessSet>, Status> {
        fn names(info: &[Info]) -> impl Iterator<Item = &Text> {
            info.iter().filter(|info| info.key == keys::PSET_NAME).filter_map(|info| info.value.as_text())
        }
        let apps = self.apps.iter().map(|app| (u32::try_from(app.maxprocs).unwrap_or(0), names(&app.info)));
        let sets = ProcessSet::of_apps(names(&self.info), apps);
        match sets.len() > MOST_SETS || sets.iter().map(ProcessSet::size).sum::<usize>() > MOST_MEMBERS {
            true => Err(Status::ERR_OUT_OF_RESOURCE),
            false => Ok(sets),
        }
    }

    /// Returns the time that it may take.
    ///
    /// # Errors
    /// As [`TimeLimits::read`].
    pub fn limits(&self) -> Result<TimeLimits, Status> {
        TimeLimits::read(&self.info)
    }

    /// Attributes of the job. Attributes of an application hold for all, unless the job has others.
    fn infos(&self) -> Vec<Info> {
        let of_apps = self.apps.iter().flat_map(|app| &app.info);
        of_apps.chain(&self.info).cloned().collect()
    }

    /// Returns the events that its parent hears of: those that it wants, and, where it is a tool, the end of the job. Stock
    /// servers tell tools of that whatever they say, and the `prun` of PRRTE 3 says that it does not want it, and waits
    /// for it.
    pub fn tells(&self) -> Tells {
        let wanted = Tells::read(&self.infos());
        Tells { completion: wanted.completion || self.info.is_set(keys::REQUESTOR_IS_TOOL), ..wanted }
    }
}

/// Returns the wishes for the streams of a job that attributes have.
pub fn wants(infos: &[Info]) -> StreamOptions {
    let channel = |key, channel| if infos.is_set(key) { channel } else { Channels::NONE };
    let rank = |info: &Info| match &info.value {
        Value::Bool(wanted) => wanted.then_some(Rank(0)),
        Value::Proc(proc) => Some(proc.rank),
        Value::ProcRank(rank) => Some(*rank),
        value => value.as_u32().map(Rank),
    };
    let given = |key| infos.find(key).and_then(rank);
    let is_set = |key, older| infos.is_set(key) || infos.is_set(older);
    StreamOptions {
        output: channel(keys::FWD_STDOUT, Channels::STDOUT) | channel(keys::FWD_STDERR, Channels::STDERR),
        input: given(keys::STDIN_TGT).or_else(|| given(keys::FWD_STDIN)),
        tags: match () {
            () if infos.is_set(keys::IOF_TAG_DETAILED_OUTPUT) => Tags::Detailed,
            () if infos.is_set(keys::IOF_TAG_FULLNAME_OUTPUT) => Tags::Full,
            () if is_set(keys::IOF_TAG_OUTPUT, keys::TAG_OUTPUT) => Tags::Short,
            () if infos.is_set(keys::IOF_RANK_OUTPUT) => Tags::Rank,
            () => Tags::None,
        },
        format: LineFormat::read(infos),
        is_merged: is_set(keys::IOF_MERGE_STDERR_STDOUT, keys::MERGE_STDERR_STDOUT),
        is_raw: infos.is_set(keys::IOF_OUTPUT_RAW),
        files: Files::read(infos),
    }
}

/// Directories that a program is looked for in before those of its `PATH`.
fn before_path(path: &Text, spec: &AppSpec) -> OsString {
    let mut all = OsString::from_vec(path.as_bytes().to_vec());
    let own = spec.environment.iter().rev().find(|(name, _)| name == "PATH").and_then(|(_, value)| value.clone());
    if let Some(own) = own.or_else(|| std::env::var_os("PATH")).filter(|own| !own.is_empty()) {
        all.push(":");
        all.push(own);
    }
    all
}

/// Returns whether an attribute is about placement.
fn is_placement(info: &Info) -> bool {
    PLACEMENTS.iter().any(|key| info.key == *key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Kind;

    fn request(info: Vec<Info>) -> Request {
        let text = |text: &str| Text::new(text).unwrap();
        let app = App { cmd: Some(text("prog")), argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] };
        let parent = Proc::new(Nspace::new("job@1").unwrap(), Rank(0));
        Request { parent, info, apps: vec![app], made: Instant::now(), daemons: None, done: Completion::new(|_| ()) }
    }

    #[test]
    fn directories_that_are_given_come_before_those_of_the_path() {
        let path = |settings: &[&str]| {
            let mut request = request(vec![]);
            request.apps[0].env = settings.iter().map(|setting| Text::new(*setting).unwrap()).collect();
            request.apps[0].info = vec![Info::new(pmi::PATH, "/a:/b")];
            request.specs(&Hosts::new("n", 1), Path::new("/s")).unwrap()[0].path.clone().unwrap()
        };
        assert_eq!(path(&["PATH=/bin"]), "/a:/b:/bin");
        assert_eq!(path(&["PATH="]), "/a:/b");
        assert_eq!(path(&[]).to_str().unwrap(), format!("/a:/b:{}", std::env::var("PATH").unwrap()));
        assert_eq!(request(vec![]).specs(&Hosts::new("n", 1), Path::new("/s")).unwrap()[0].path, None);
    }

    #[test]
    fn hosts_are_those_of_the_job_or_of_each_application() {
        let two = Hosts::new("m", 2);
        let slots = |mut request: Request, of_apps: &[&str]| {
            let app = request.apps.remove(0);
            let of_app = |hosts: &&str| {
                let info = if hosts.is_empty() { vec![] } else { vec![Info::new(keys::HOST, *hosts)] };
                App { info, maxprocs: 2, ..app.clone() }
            };
            request.apps = of_apps.iter().map(of_app).collect();
            request.specs(&two, Path::new("/s"))?;
            let parts = request.parts(&two, 8)?;
            Ok(parts.into_iter().map(|part| (part.ranks, part.slots)).collect::<Vec<_>>())
        };
        let of_job = |hosts: &str| request(vec![Info::new(keys::HOST, hosts)]);
        assert_eq!(slots(request(vec![]), &["", ""]), Ok(vec![(4, None)]));
        assert_eq!(slots(of_job("m-n0"), &[""]), Ok(vec![(2, Some(vec![1, 0]))]));
        assert_eq!(slots(of_job("other,n1:3"), &["", ""]), Ok(vec![(4, Some(vec![0, 3]))]));
        assert_eq!(slots(of_job("m:*"), &[""]), Ok(vec![(2, Some(vec![8, 8]))]));
        let each = vec![(2, Some(vec![0, 1])), (2, Some(vec![1, 0]))];
        assert_eq!(slots(of_job("n0"), &["n1", ""]), Ok(each));
        assert_eq!(slots(of_job("m-n2"), &[""]), Err(Status::ERR_JOB_FAILED_TO_MAP));
        assert_eq!(slots(of_job("n0:x"), &[""]), Err(Status::ERR_JOB_FAILED_TO_MAP));
    }

    #[test]
    fn process_sets_of_a_job_are_bounded() {
        let sets = |names: usize, ranks: i32| {
            let mut request =
                request((0..names).map(|at| Info::new(keys::PSET_NAME, at.to_string().as_str())).collect());
            request.apps[0].maxprocs = ranks;
            request.psets().map(|sets| sets.len())
        };
        assert_eq!([sets(MOST_SETS, 256), sets(4, 65_536)], [Ok(MOST_SETS), Ok(4)]);
        let refused = Err(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!([sets(MOST_SETS + 1, 1), sets(MOST_SETS, 257), sets(3000, 65_000)], [refused; 3]);
    }

    #[test]
    fn streams_are_wanted_as_is_said() {
        let wants = |infos: &[Info]| wants(infos);
        let both = [Info::new(keys::FWD_STDOUT, true), Info::new(keys::FWD_STDERR, true)];
        assert_eq!(
            wants(&both),
            StreamOptions { output: Channels::STDOUT | Channels::STDERR, ..StreamOptions::default() }
        );
        let looks = |keys: &[&str]| {
            let wants = wants(&keys.iter().map(|key| Info::new(key, true)).collect::<Vec<_>>());
            (wants.tags, wants.format)
        };
        let plain = LineFormat::default();
        assert_eq!(looks(&[keys::TAG_OUTPUT]), (Tags::Short, plain));
        assert_eq!(looks(&[keys::IOF_TAG_OUTPUT, keys::IOF_TAG_DETAILED_OUTPUT]), (Tags::Detailed, plain));
        assert_eq!(looks(&[keys::IOF_TAG_FULLNAME_OUTPUT]), (Tags::Full, plain));
        let all = LineFormat { stamps: true, is_xml: true };
        assert_eq!(looks(&[keys::IOF_TIMESTAMP_OUTPUT, keys::IOF_XML_OUTPUT]), (Tags::None, all));
        let stdin = |value: Value| wants(&[Info { value, ..Info::new(keys::FWD_STDIN, true) }]).input;
        assert_eq!((stdin(true.into()), stdin(false.into())), (Some(Rank(0)), None));
        assert_eq!(stdin(Value::ProcRank(Rank::WILDCARD)), Some(Rank::WILDCARD));
        let target = Info::new(keys::STDIN_TGT, 2u32);
        assert_eq!(wants(&[target, Info::new(keys::FWD_STDIN, true)]).input, Some(Rank(2)));
        // Attributes of an application hold as well, where nothing else is said of the job.
        let (both, merge) = ([keys::FWD_STDOUT, keys::NOTIFY_COMPLETION], keys::MERGE_STDERR_STDOUT);
        let of_app = |mut request: Request| {
            request.apps[0].info = both.iter().chain([&merge]).map(|key| Info::new(key, true)).collect();
            let wants = wants(&request.infos());
            (wants.output, wants.is_merged, request.tells().completion)
        };
        assert_eq!(of_app(request(vec![])), (Channels::STDOUT, true, true));
        let other = both.map(|key| Info::new(key, false));
        assert_eq!(of_app(request(other.to_vec())), (Channels::NONE, true, false));
        let of_tool = [Info::new(keys::NOTIFY_COMPLETION, false), Info::new(keys::REQUESTOR_IS_TOOL, true)];
        assert!(request(of_tool.to_vec()).tells().completion, "as a tool hears of stock servers");
        assert!(!request(vec![]).tells().is_silent);
        assert!(request(vec![Info::new(keys::EVENT_SILENT_TERMINATION, true)]).tells().is_silent);
        let required = [(keys::MAPBY, "slot"), (keys::RANKBY, "NODE"), (keys::BINDTO, "none")];
        let required = required.map(|(key, value)| Info::new(key, value).required());
        assert!(request(required.to_vec()).specs(&Hosts::new("n", 1), Path::new("/s")).is_ok());
        let policy =
            |infos: &[Info]| request(infos.to_vec()).policy(&Policy { per_rank: Some(2), ..Policy::default() });
        assert_eq!(policy(&required).map(|policy| policy.binds()), Ok(None));
        let bound = policy(&[]).unwrap();
        assert_eq!((bound.binds(), bound.per_rank, bound.binding.overloads), (Some(Kind::Core), Some(2), true));
        let numa = [Info::new(keys::MAPBY, "numa:pe=2").required(), Info::new(keys::RANKBY, "moon")];
        assert_eq!(policy(&numa).map(|policy| policy.mapping), Ok(Mapping::By(Kind::Numa)));
        assert_eq!(policy(&[Info::new(keys::BINDTO, "moon").required()]), Err(Status::ERR_NOT_SUPPORTED));
        for text in ["2:package", "ppr:2:package"] {
            let each = policy(&[Info::new(keys::PPR, text).required()]).unwrap();
            assert_eq!(each.mapping, Mapping::PerObject(2, Kind::Package));
        }
        let listed = [Info::new(keys::CPU_LIST, "0-1,3").required(), Info::new(keys::CPUS_PER_PROC, 2u32).required()];
        let listed = policy(&listed).unwrap();
        assert_eq!((listed.mapping, listed.per_rank), (Mapping::Units(vec![0, 1, 3]), Some(2)));
        let refused = [Info::new(keys::PPR, "2").required(), Info::new(keys::CPUS_PER_PROC, 0u32).required()];
        assert_eq!(
            refused.map(|info| policy(&[info])),
            [Err(Status::ERR_NOT_SUPPORTED), Err(Status::ERR_NOT_SUPPORTED)]
        );
        let crowded = |value| policy(&[Info::new(keys::NO_OVERSUBSCRIBE, value)]).unwrap().no_oversubscribe;
        assert_eq!([true, false].map(crowded), [true, false]);
        let units = |numbers: &str| policy(&[Info::new(keys::MAPBY, format!("pe-list={numbers}").as_str())]).unwrap();
        assert_eq!(units("0-3,8").mapping, Mapping::Units(vec![0, 1, 2, 3, 8]));
        for too_much in ["0-65535,0", &["0-40000"; 2].join(","), &["0"; LONGEST_PLACEMENT].join(",")] {
            assert_eq!(units(too_much).mapping, Mapping::Slot);
        }
        let many = vec![Info::new(keys::MAPBY, "core"); MOST_PLACEMENTS];
        let read = policy(&[vec![Info::new(keys::MAPBY, "numa:pe=2")], many].concat()).unwrap();
        assert_eq!((read.mapping, read.per_rank), (Mapping::By(Kind::Core), None), "the last of them count");
        let inside = [Info::new(keys::SET_SESSION_CWD, true).required()];
        assert_eq!(
            request(inside.to_vec()).specs(&Hosts::new("n", 1), Path::new("/s")).unwrap()[0].wdir,
            Some("/s".into())
        );
        let nameless = Info::new(keys::OUTPUT_TO_FILE, "");
        assert_eq!(
            request(vec![nameless]).specs(&Hosts::new("n", 1), Path::new("/s")).err(),
            Some(Status::ERR_BAD_PARAM)
        );
    }
}
