//! Requests to start a job, as whoever starts its processes reads them.
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::data::{self, DataArray, Info, InfoList, Rank, Status, Text, Value, keys};
use crate::sys::regular_file;

/// As many processes as one machine can number: a local rank is 16 bits wide.
pub const MOST_RANKS: u32 = 1 << 16;

/// The attributes of a request that are served by all who start processes: here, by the server's
/// [`setup_local_support`](crate::server::Server::setup_local_support), or because they are true of every job.
pub const SERVED: [&str; 35] = [
    keys::WDIR,
    keys::HOST,
    keys::HOSTFILE,
    keys::PREFIX,
    keys::SET_ENVAR,
    keys::ADD_ENVAR,
    keys::UNSET_ENVAR,
    keys::PREPEND_ENVAR,
    keys::APPEND_ENVAR,
    keys::FORKEXEC_AGENT,
    keys::PERSONALITY,
    keys::FWD_STDOUT,
    keys::FWD_STDERR,
    keys::IOF_TAG_OUTPUT,
    keys::TAG_OUTPUT,
    keys::IOF_TAG_FULLNAME_OUTPUT,
    keys::IOF_TIMESTAMP_OUTPUT,
    keys::TIMESTAMP_OUTPUT,
    keys::IOF_XML_OUTPUT,
    keys::IOF_MERGE_STDERR_STDOUT,
    keys::MERGE_STDERR_STDOUT,
    keys::SPAWNED,
    keys::PARENT_ID,
    keys::REQUESTOR_IS_CLIENT,
    keys::REQUESTOR_IS_TOOL,
    keys::USERID,
    keys::GRPID,
    keys::NOTIFY_COMPLETION,
    keys::EVENT_SILENT_TERMINATION,
    keys::COSPAWN_APP,
    keys::NON_PMI,
    keys::INDEX_ARGV,
    keys::TIMEOUT,
    keys::SPAWN_TIMEOUT,
    keys::JOB_TIMEOUT,
];

/// Most bytes of a file of hosts.
const LARGEST_HOSTFILE: u64 = 1 << 20;
/// Most bytes of a path, and of an agent's words: the kernel takes no longer path (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;
/// Most bytes that the applications of a request take beside its own: what is said of the job, each has a copy of.
const MOST_COPIED: usize = 64 << 20;
/// Bytes of a short allocation.
const ALLOCATION: usize = 32;

/// Folders below a prefix (`PMIX_PREFIX`), and the variables that they come first in.
const PREFIXED: [(&str, &str); 2] = [("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")];

/// Attributes that change an environment.
const ENVIRONMENT: [&str; 5] =
    [keys::SET_ENVAR, keys::ADD_ENVAR, keys::UNSET_ENVAR, keys::PREPEND_ENVAR, keys::APPEND_ENVAR];

/// One application: so many processes of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppSpec {
    /// Processes to start.
    pub ranks: u32,
    /// Variables to set, in this order; without a value, to take away.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// Directory to run in; our own unless given.
    pub wdir: Option<PathBuf>,
    /// Directories to look for the program in, as in `PATH`, where they are not those of the processes.
    pub path: Option<OsString>,
    /// The program as it was typed.
    pub program: OsString,
    /// Name of the processes, where it is not the program's: the first of their words.
    pub name: Option<OsString>,
    /// True if each process is called by its rank as well.
    pub is_numbered: bool,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Reads a request; `is_here` says whether a name of a host is of one that processes can be started on. Attributes that
/// are required must be among [`SERVED`], or `serves` says so.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` for a required attribute that nobody serves, `ERR_JOB_FAILED_TO_MAP` where only other machines
/// would do, or where a file of hosts names others or none; `ERR_NOT_FOUND` for such a file that cannot be read,
/// `ERR_JOB_INSUFFICIENT_RESOURCES` for more than [`MOST_RANKS`], `ERR_OUT_OF_RESOURCE` where the applications would
/// take too much beside the request's own bytes, `ERR_JOB_NO_EXE_SPECIFIED` and `ERR_BAD_PARAM` for what makes no
/// application.
pub fn read(
    job_info: &[Info],
    apps: &[data::App],
    is_here: impl Fn(&str) -> bool,
    serves: impl Fn(&Info) -> bool,
) -> Result<Vec<AppSpec>, Status> {
    let infos = || apps.iter().flat_map(|app| &app.info).chain(job_info);
    let is_served = |info: &Info| SERVED.iter().any(|key| info.key == *key) || serves(info);
    if infos().any(|info| info.is_required() && !is_served(info)) {
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    let mut hosts = infos().filter(|info| info.key == keys::HOST).filter_map(|info| info.value.as_str());
    if !hosts.all(|hosts| hosts.split(',').any(|host| is_here(host.split(':').next().unwrap_or(host).trim()))) {
        return Err(Status::ERR_JOB_FAILED_TO_MAP);
    }
    for file in infos().filter(|info| info.key == keys::HOSTFILE) {
        let hosts = hosts_in(file.value.as_str().ok_or(Status::ERR_BAD_PARAM)?)?;
        if hosts.is_empty() || !hosts.iter().all(|host| is_here(host)) {
            return Err(Status::ERR_JOB_FAILED_TO_MAP);
        }
    }
    let shared = Shared::read(job_info);
    shared.bound(apps)?;
    let specs = apps.iter().map(|app| AppSpec::read(app, &shared)).collect::<Result<Vec<_>, _>>()?;
    match specs.iter().map(|spec| u64::from(spec.ranks)).sum::<u64>() <= u64::from(MOST_RANKS) {
        true => Ok(specs),
        false => Err(Status::ERR_JOB_INSUFFICIENT_RESOURCES),
    }
}

/// Returns the changes of the processes' environment, for
/// [`setup_local_support`](crate::server::Server::setup_local_support).
pub fn environment(job_info: &[Info], apps: &[data::App]) -> Vec<Info> {
    let infos = job_info.iter().chain(apps.iter().flat_map(|app| &app.info));
    infos.filter(|info| ENVIRONMENT.iter().any(|key| info.key == *key)).cloned().collect()
}

/// The names in a file of hosts: the first word of each line, without a user's name in front. The rest of the line is
/// about slots, and a `#` begins a comment.
fn hosts_in(file: &str) -> Result<Vec<String>, Status> {
    let unreadable = |error: io::Error| {
        crate::trace!("the file of hosts {file} cannot be read: {error}");
        Status::ERR_NOT_FOUND
    };
    // Another kind of file might never end, or never begin; and one that grows meanwhile would as well.
    let opened = regular_file::open(Path::new(file)).map_err(unreadable)?;
    let text = io::read_to_string(opened.take(LARGEST_HOSTFILE + 1)).map_err(unreadable)?;
    if text.len() as u64 > LARGEST_HOSTFILE {
        return Err(unreadable(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    let name = |line: &str| {
        let word = line.split('#').next()?.split_whitespace().next()?;
        let host = word.rsplit('@').next().unwrap_or(word);
        Some(host.split(':').next().unwrap_or(host).to_owned())
    };
    Ok(text.lines().filter_map(name).collect())
}

/// Returns whether a name is this machine's; `node` is the one that it calls itself by.
pub fn is_named(name: &str, node: &str) -> bool {
    name == node || ["localhost", "127.0.0.1", "::1", "[::1]"].contains(&name) || node.split('.').next() == Some(name)
}

/// Limits on the time that the processes of a job take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLimits {
    /// Until all of them run.
    pub start: Option<Duration>,
    /// From then on until all have ended.
    pub run: Option<Duration>,
}

impl TimeLimits {
    /// Reads them in what is said of a job; 0 is no limit.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for what is no time.
    pub fn read(job_info: &[Info]) -> Result<Self, Status> {
        let limit = |key| -> Result<Option<Duration>, Status> {
            let Some(info) = job_info.find(key) else { return Ok(None) };
            let seconds = info.value.as_i64().and_then(|seconds| u32::try_from(seconds).ok());
            let limit = Duration::from_secs(seconds.ok_or(Status::ERR_BAD_PARAM)?.into());
            Ok((!limit.is_zero()).then_some(limit))
        };
        let start = [limit(keys::TIMEOUT)?, limit(keys::SPAWN_TIMEOUT)?].into_iter().flatten().min();
        Ok(Self { start, run: limit(keys::JOB_TIMEOUT)? })
    }
}

impl AppSpec {
    /// The first of a process's words: how it is called.
    pub fn name_of(&self, rank: u32) -> OsString {
        let mut name = self.name.as_ref().unwrap_or(&self.program).clone();
        if self.is_numbered {
            name.push(format!("-{rank}"));
        }
        name
    }

    /// An agent (`PMIX_FORKEXEC_AGENT`) is started in the place of the program, which is the first of
    /// its arguments after its own.
    fn read(app: &data::App, shared: &Shared<'_>) -> Result<Self, Status> {
        let system = |text: &Text| OsString::from_vec(text.as_bytes().to_vec());
        let program = app.cmd.as_ref().or(app.argv.first()).ok_or(Status::ERR_JOB_NO_EXE_SPECIFIED)?;
        let setting = |text: &Text| {
            let (name, value) = text.as_bytes().split_at(text.as_bytes().iter().position(|byte| *byte == b'=')?);
            Some((OsString::from_vec(name.to_vec()), Some(OsString::from_vec(value[1..].to_vec()))))
        };
        let mut words: Vec<OsString> = std::iter::once(program).chain(app.argv.iter().skip(1)).map(system).collect();
        let mut name = app.argv.first().filter(|name| *name != program).map(system);
        let mut is_numbered = shared.is_numbered || app.info.is_set(keys::INDEX_ARGV);
        if let Some(agent) = shared.agent(app)? {
            words.splice(0..0, agent.split_whitespace().map(OsString::from));
            // It finds the program by the word behind its own.
            (name, is_numbered) = (None, false);
        }
        let program = words.remove(0);
        let mut environment: Vec<_> = app.env.iter().filter_map(setting).collect();
        if let Some(prefix) = shared.prefix(app)? {
            for ((variable, folder), inherited) in PREFIXED.into_iter().zip(&shared.inherited) {
                let given = environment.iter().rev().find(|(name, _)| name == variable);
                let before = given.map_or_else(|| inherited.clone(), |(_, value)| value.clone());
                let mut value = OsString::from(format!("{prefix}/{folder}"));
                if let Some(before) = before.filter(|before| !before.is_empty()) {
                    value.push(":");
                    value.push(before);
                }
                environment.push((variable.into(), Some(value)));
            }
        }
        Ok(Self {
            ranks: u32::try_from(app.maxprocs).ok().filter(|ranks| *ranks > 0).ok_or(Status::ERR_BAD_PARAM)?,
            environment,
            wdir: app.cwd.as_ref().map(|cwd| system(cwd).into()),
            path: None,
            program,
            name,
            is_numbered,
            arguments: words,
        })
    }
}

/// Directives that each application of a request gets a copy of, unless it says so itself.
struct Shared<'a> {
    agent: Option<&'a Info>,
    prefix: Option<&'a Info>,
    is_numbered: bool,
    /// Our own values of the [`PREFIXED`] variables.
    inherited: [Option<OsString>; PREFIXED.len()],
}

impl<'a> Shared<'a> {
    fn read(job_info: &'a [Info]) -> Self {
        Self {
            agent: job_info.find(keys::FORKEXEC_AGENT),
            prefix: job_info.find(keys::PREFIX),
            is_numbered: job_info.is_set(keys::INDEX_ARGV),
            inherited: PREFIXED.map(|(variable, _)| std::env::var_os(variable)),
        }
    }

    /// The words of the agent that starts an application, if one does.
    fn agent<'b>(&'b self, app: &'b data::App) -> Result<Option<&'b str>, Status> {
        short_text(app.info.find(keys::FORKEXEC_AGENT).or(self.agent))
    }

    /// The prefix of an application, if it has one.
    fn prefix<'b>(&'b self, app: &'b data::App) -> Result<Option<&'b str>, Status> {
        let prefix = short_text(app.info.find(keys::PREFIX).or(self.prefix))?;
        if prefix == Some("") { Err(Status::ERR_BAD_PARAM) } else { Ok(prefix) }
    }

    /// Fails where the copies would take too much, before there is one.
    fn bound(&self, apps: &[data::App]) -> Result<(), Status> {
        let mut copied: usize = 0;
        for app in apps {
            if app.cwd.as_ref().is_some_and(|cwd| cwd.as_bytes().len() > LONGEST_PATH) {
                return Err(Status::ERR_BAD_PARAM);
            }
            copied = copied.saturating_add(self.copied(app)?);
            if copied > MOST_COPIED {
                crate::trace!("the applications of a request take more than {MOST_COPIED} bytes beside its own");
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
        }
        Ok(())
    }

    /// Bytes that an application takes of what is not its own, at most.
    fn copied(&self, app: &data::App) -> Result<usize, Status> {
        // Each word has an allocation of its own.
        let of_agent =
            |agent: &str| agent.len() + agent.split_whitespace().count() * (size_of::<OsString>() + ALLOCATION);
        let inherited = || self.inherited.iter().flatten().map(|value| value.len()).sum::<usize>();
        let of_prefix = |prefix: &str| PREFIXED.len() * (prefix.len() + ALLOCATION) + inherited();
        Ok(self.agent(app)?.map_or(0, of_agent) + self.prefix(app)?.map_or(0, of_prefix))
    }
}

/// The text of an attribute that is no longer than a path may be.
fn short_text(info: Option<&Info>) -> Result<Option<&str>, Status> {
    let Some(info) = info else { return Ok(None) };
    let text = info.value.as_str().filter(|text| text.len() <= LONGEST_PATH);
    text.ok_or(Status::ERR_BAD_PARAM).map(Some)
}

/// An application of a job.
#[derive(Debug)]
pub struct App {
    /// Its number.
    pub number: u32,
    /// Its first rank.
    pub first: u32,
    /// Application that was asked for.
    pub spec: AppSpec,
    /// Directory that its processes start in.
    pub wdir: PathBuf,
}

impl App {
    /// The applications of a job, one after the other.
    ///
    /// # Errors
    /// When the working directory of this process is gone, and one needs it.
    pub fn all(specs: Vec<AppSpec>) -> io::Result<Vec<App>> {
        let mut first = 0;
        let apps = (0..).zip(specs).map(|(number, spec)| {
            let wdir = match &spec.wdir {
                Some(wdir) if wdir.is_absolute() => wdir.clone(),
                Some(wdir) => std::env::current_dir()?.join(wdir),
                None => std::env::current_dir()?,
            };
            let app = App { number, first, spec, wdir };
            first += app.spec.ranks;
            Ok(app)
        });
        apps.collect()
    }

    /// Its ranks.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + use<> {
        self.first..self.first + self.spec.ranks
    }

    /// Returns the attribute that describes it with the Standard's keys (`PMIX_APP_INFO_ARRAY`).
    pub fn info(&self) -> Info {
        let words = std::iter::once(&self.spec.program).chain(&self.spec.arguments);
        let argv = words.map(OsString::as_os_str).collect::<Vec<_>>().join(OsStr::new(" "));
        // Text of the system holds no NUL.
        let text = |text: &OsStr| Value::string(text.as_bytes());
        let infos = vec![
            Info::new(keys::APPNUM, self.number),
            Info::new(keys::APP_SIZE, self.spec.ranks),
            Info::new(keys::APPLDR, Rank(self.first)),
            Info::new(keys::APP_ARGV, text(&argv)),
            Info::new(keys::WDIR, text(self.wdir.as_os_str())),
        ];
        Info::new(keys::APP_INFO_ARRAY, DataArray::of_info(infos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(edit: impl FnOnce(&mut data::App)) -> data::App {
        let text = |text: &str| Text::new(text).unwrap();
        let mut app = data::App {
            cmd: Some(text("prog")),
            argv: vec![text("prog"), text("a b")],
            env: vec![text("A=1=2"), text("nothing")],
            cwd: Some(text("/tmp")),
            maxprocs: 3,
            info: vec![],
        };
        edit(&mut app);
        app
    }

    fn read_as(info: Vec<Info>, edit: impl FnOnce(&mut data::App)) -> Result<AppSpec, Status> {
        read(&info, &[app(edit)], |host| is_named(host, "n.site"), |_| false).map(|mut specs| specs.remove(0))
    }

    #[test]
    fn an_application_is_taken_as_it_was_given() {
        let spec = AppSpec {
            ranks: 3,
            environment: vec![("A".into(), Some("1=2".into()))],
            wdir: Some("/tmp".into()),
            program: "prog".into(),
            arguments: vec!["a b".into()],
            ..AppSpec::default()
        };
        assert_eq!(read_as(vec![], |_| ()), Ok(spec));
    }

    #[test]
    fn an_agent_is_started_with_the_program_behind_its_own_arguments() {
        let agent = |words: &str| Info::new(keys::FORKEXEC_AGENT, words);
        let words = |spec: Result<AppSpec, Status>| {
            spec.map(|spec| std::iter::once(spec.program).chain(spec.arguments).collect::<Vec<_>>())
        };
        assert_eq!(
            words(read_as(vec![agent("not this")], |app| app.info = vec![agent(" env  X=1 ").required()])),
            Ok(["env", "X=1", "prog", "a b"].map(OsString::from).to_vec())
        );
        assert_eq!(words(read_as(vec![agent("env")], |_| ())).unwrap()[0], "env");
        assert_eq!(words(read_as(vec![Info::new(keys::FORKEXEC_AGENT, 1u32)], |_| ())), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn a_process_is_called_as_its_first_word_says() {
        let name = |info: Vec<Info>| {
            let named = |app: &mut data::App| app.argv[0] = Text::new("p").unwrap();
            read_as(info, named).map(|spec| (spec.program.clone(), spec.name_of(7)))
        };
        let numbered = || Info::new(keys::INDEX_ARGV, true);
        assert_eq!(name(vec![]), Ok(("prog".into(), "p".into())));
        assert_eq!(name(vec![numbered()]), Ok(("prog".into(), "p-7".into())));
        let agent = Info::new(keys::FORKEXEC_AGENT, "env");
        assert_eq!(name(vec![numbered(), agent]), Ok(("env".into(), "env".into())));
    }

    #[test]
    fn a_file_of_hosts_must_name_this_machine_and_no_other() {
        let file = std::env::temp_dir().join(format!("instanton-hosts-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read_as(vec![Info::new(keys::HOSTFILE, file.to_str().unwrap()).required()], |_| ()).map(drop)
        };
        assert_eq!(read("# ours\nn.site slots=4\n\n  me@localhost # again\n"), Ok(()));
        assert_eq!(read("n\nother slots=2\n"), Err(Status::ERR_JOB_FAILED_TO_MAP));
        assert_eq!(read("# nobody\n"), Err(Status::ERR_JOB_FAILED_TO_MAP));
        std::fs::remove_file(&file).unwrap();
        let missing = |name: &str| read_as(vec![Info::new(keys::HOSTFILE, name)], |_| ()).map(drop);
        assert_eq!(missing(file.to_str().unwrap()), Err(Status::ERR_NOT_FOUND));
        assert_eq!(missing("/dev/zero"), Err(Status::ERR_NOT_FOUND));
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(missing(file.to_str().unwrap()), Err(Status::ERR_NOT_FOUND));
        std::fs::write(file.with_extension("large"), vec![b'\n'; LARGEST_HOSTFILE as usize + 1]).unwrap();
        assert_eq!(missing(file.with_extension("large").to_str().unwrap()), Err(Status::ERR_NOT_FOUND));
        std::fs::remove_file(file.with_extension("large")).unwrap();
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_prefix_comes_first_in_the_paths() {
        let paths = |info: Vec<Info>, edit: fn(&mut data::App)| {
            let spec = read_as(info, edit)?;
            let of = |name: &str| spec.environment.iter().rev().find(|(known, _)| known == name)?.1.clone();
            Ok([of("PATH"), of("LD_LIBRARY_PATH")].map(|path| path.unwrap_or_default().into_string().unwrap()))
        };
        let prefix = |text: &str| vec![Info::new(keys::PREFIX, text)];
        let own =
            |app: &mut data::App| app.env = ["PATH=/x", "LD_LIBRARY_PATH="].map(|s| Text::new(s).unwrap()).to_vec();
        assert_eq!(paths(prefix("/opt/a"), own), Ok(["/opt/a/bin:/x".to_owned(), "/opt/a/lib".to_owned()]));
        let inherited = format!("/opt/a/bin:{}", std::env::var("PATH").unwrap());
        assert_eq!(paths(prefix("/opt/a"), |_| ()).unwrap()[0], inherited);
        assert_eq!(paths(prefix(""), own), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn what_each_application_would_copy_is_bounded_before_it_is_copied() {
        let read = |count: usize, info: &[Info], edit: fn(&mut data::App)| {
            let mut one = app(edit);
            one.maxprocs = 1;
            let apps = vec![one; count];
            read(info, &apps, |_| true, |_| false).map(|specs| specs.len())
        };
        let info = |key, len| [Info::new(key, "x".repeat(len).as_str())];
        let words = |count: usize| [Info::new(keys::FORKEXEC_AGENT, "x ".repeat(count).as_str())];
        for key in [keys::PREFIX, keys::FORKEXEC_AGENT] {
            assert_eq!(read(1, &info(key, LONGEST_PATH), |_| ()), Ok(1));
            assert_eq!(read(1, &info(key, LONGEST_PATH + 1), |_| ()), Err(Status::ERR_BAD_PARAM));
        }
        for long in [words(LONGEST_PATH / 2), info(keys::PREFIX, LONGEST_PATH)] {
            assert_eq!(read(100, &long, |_| ()), Ok(100));
            assert_eq!(read(14_000, &long, |_| ()), Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let in_long = |app: &mut data::App| app.cwd = Some(Text::new("x".repeat(LONGEST_PATH + 1)).unwrap());
        assert_eq!(read(1, &[], in_long), Err(Status::ERR_BAD_PARAM));
        assert_eq!(read(14_000, &[], |_| ()), Ok(14_000));
    }

    #[test]
    fn times_are_seconds_and_none_of_them_no_limit() {
        let read = |seconds: i32, key| TimeLimits::read(&[Info::new(keys::TIMEOUT, seconds), Info::new(key, 2)]);
        let limits = |start, run| Ok(TimeLimits { start, run });
        let two = Some(Duration::from_secs(2));
        assert_eq!(read(3, keys::SPAWN_TIMEOUT), limits(two, None));
        assert_eq!(read(1, keys::SPAWN_TIMEOUT), limits(Some(Duration::from_secs(1)), None));
        assert_eq!(read(0, keys::JOB_TIMEOUT), limits(None, two));
        assert_eq!(read(-1, keys::JOB_TIMEOUT), Err(Status::ERR_BAD_PARAM));
        assert_eq!(TimeLimits::read(&[Info::new(keys::JOB_TIMEOUT, "2")]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |info: Vec<Info>, edit: fn(&mut data::App)| read_as(info, edit).unwrap_err();
        assert_eq!(refused(vec![], |app| app.maxprocs = 0), Status::ERR_BAD_PARAM);
        assert_eq!(refused(vec![], |app| app.maxprocs = i32::MAX), Status::ERR_JOB_INSUFFICIENT_RESOURCES);
        assert_eq!(refused(vec![], |app| (app.cmd, app.argv) = (None, vec![])), Status::ERR_JOB_NO_EXE_SPECIFIED);
        assert_eq!(refused(vec![Info::new(keys::HOST, "other,more")], |_| ()), Status::ERR_JOB_FAILED_TO_MAP);
        assert_eq!(refused(vec![Info::new(keys::MAPBY, "core").required()], |_| ()), Status::ERR_NOT_SUPPORTED);
        for host in ["n", "n.site:2", "other,localhost"] {
            assert!(read_as(vec![Info::new(keys::HOST, host), Info::new(keys::MAPBY, "slot")], |_| ()).is_ok());
        }
    }
}
