//! Jobs that ranks start (`PMIx_Spawn`, `MPI_Comm_spawn`): what was asked for, as this launcher plans it.
//!
//! A request is one job with as many applications as it has. All of it starts, or nothing of it stays. Everything runs on this
//! machine and is forwarded to our output, and to who has asked for the job as far as that wants it. Attributes about mapping and binding
//! are hints that change nothing, and may be required where they are true of every job.
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use instanton::data::constants::iof_channel::{FWD_STDERR_CHANNEL, FWD_STDOUT_CHANNEL};
use instanton::data::{App, Info, InfoList, Nspace, Proc, Rank, Status, Text, Value, keys};
use instanton::message::lines::LineFormat;
use instanton::server::Completion;
use nix::errno::Errno;

use crate::args::AppSpec;
use crate::files::Files;
use crate::job::{Tags, Wants};
use crate::program::Lacks;

/// What a rank asks for, and the way back.
#[derive(Debug)]
pub struct Request {
    /// Who asks.
    pub parent: Proc,
    /// Attributes of the whole job.
    pub info: Vec<Info>,
    /// What is to run.
    pub apps: Vec<App>,
    /// Answered with the job's namespace when all of it runs.
    pub done: Completion<Nspace>,
}

/// What a required attribute may ask for: served here, or true of every job.
pub const SERVED: [&str; 37] = [
    keys::WDIR,
    keys::HOST,
    keys::SET_ENVAR,
    keys::ADD_ENVAR,
    keys::UNSET_ENVAR,
    keys::PREPEND_ENVAR,
    keys::APPEND_ENVAR,
    keys::PERSONALITY,
    keys::FWD_STDOUT,
    keys::FWD_STDERR,
    keys::FWD_STDIN,
    keys::STDIN_TGT,
    keys::IOF_TAG_OUTPUT,
    keys::TAG_OUTPUT,
    keys::IOF_TAG_FULLNAME_OUTPUT,
    keys::IOF_TAG_DETAILED_OUTPUT,
    keys::IOF_TIMESTAMP_OUTPUT,
    keys::TIMESTAMP_OUTPUT,
    keys::IOF_XML_OUTPUT,
    keys::IOF_MERGE_STDERR_STDOUT,
    keys::MERGE_STDERR_STDOUT,
    keys::IOF_OUTPUT_TO_FILE,
    keys::OUTPUT_TO_FILE,
    keys::IOF_OUTPUT_TO_DIRECTORY,
    keys::OUTPUT_TO_DIRECTORY,
    keys::IOF_FILE_ONLY,
    keys::OUTPUT_NOCOPY,
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
];

/// Attributes that change an environment.
const ENVIRONMENT: [&str; 5] =
    [keys::SET_ENVAR, keys::ADD_ENVAR, keys::UNSET_ENVAR, keys::PREPEND_ENVAR, keys::APPEND_ENVAR];

impl Request {
    /// The applications to plan; `node` is this machine's name, and `bound` says whether ranks are bound to cores.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for a required attribute that is not served, `ERR_JOB_FAILED_TO_MAP` where only other machines would do,
    /// `ERR_JOB_NO_EXE_SPECIFIED` and `ERR_BAD_PARAM` for what makes no application.
    pub fn specs(&self, node: &str, bound: bool) -> Result<Vec<AppSpec>, Status> {
        let infos = || self.apps.iter().flat_map(|app| &app.info).chain(&self.info);
        let is_served = |info: &Info| SERVED.iter().any(|key| info.key == *key) || is_true_anyway(info, bound);
        if infos().any(|info| info.is_required() && !is_served(info)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let hosts = infos().filter(|info| info.key == keys::HOST).filter_map(|info| info.value.as_str());
        if !hosts.into_iter().all(|hosts| hosts.split(',').any(|host| is_here(host, node))) {
            return Err(Status::ERR_JOB_FAILED_TO_MAP);
        }
        self.apps.iter().map(spec).collect()
    }

    /// What the server is to know of the job besides its plan: how the environment of its processes changes, and whether it is
    /// connected with its parent.
    pub fn said(&self) -> Vec<Info> {
        let infos = self.info.iter().chain(self.apps.iter().flat_map(|app| &app.info));
        let is_said = |info: &&Info| info.key == keys::COSPAWN_APP || ENVIRONMENT.iter().any(|key| info.key == *key);
        infos.filter(is_said).cloned().collect()
    }

    /// What its parent wants of its streams.
    pub fn wants(&self) -> Wants {
        let channel = |key, channel| if self.info.is_set(key) { channel } else { 0 };
        let rank = |info: &Info| match &info.value {
            Value::Bool(wanted) => wanted.then_some(Rank(0)),
            Value::Proc(proc) => Some(proc.rank),
            Value::ProcRank(rank) => Some(*rank),
            value => value.as_u32().map(Rank),
        };
        let given = |key| self.info.find(key).and_then(rank);
        let is_set = |key, older| self.info.is_set(key) || self.info.is_set(older);
        Wants {
            output: channel(keys::FWD_STDOUT, FWD_STDOUT_CHANNEL) | channel(keys::FWD_STDERR, FWD_STDERR_CHANNEL),
            input: given(keys::STDIN_TGT).or_else(|| given(keys::FWD_STDIN)),
            tags: match () {
                () if self.info.is_set(keys::IOF_TAG_DETAILED_OUTPUT) => Tags::Detailed,
                () if self.info.is_set(keys::IOF_TAG_FULLNAME_OUTPUT) => Tags::Full,
                () if is_set(keys::IOF_TAG_OUTPUT, keys::TAG_OUTPUT) => Tags::Short,
                () => Tags::None,
            },
            format: LineFormat::read(&self.info),
            is_merged: is_set(keys::IOF_MERGE_STDERR_STDOUT, keys::MERGE_STDERR_STDOUT),
            files: Files::read(&self.info),
        }
    }

    /// Whether its parent wants to hear of its end.
    pub fn tells_parent(&self) -> bool {
        self.info.is_set(keys::NOTIFY_COMPLETION) && !self.info.is_set(keys::EVENT_SILENT_TERMINATION)
    }
}

/// Whether an attribute asks for what is so for every job of the run: one machine, ranks in order, and all bound or none.
fn is_true_anyway(info: &Info, bound: bool) -> bool {
    let asked = info.value.as_str().unwrap_or_default().to_ascii_lowercase();
    match info.key.as_str().unwrap_or_default() {
        keys::MAPBY | keys::RANKBY => ["slot", "node"].contains(&asked.as_str()),
        keys::BINDTO => asked == if bound { "core" } else { "none" },
        _ => false,
    }
}

/// A host may have its slots behind a colon.
fn is_here(host: &str, node: &str) -> bool {
    let name = host.split(':').next().unwrap_or(host).trim();
    name == node || ["localhost", "127.0.0.1"].contains(&name) || node.split('.').next() == Some(name)
}

fn spec(app: &App) -> Result<AppSpec, Status> {
    let system = |text: &Text| OsString::from_vec(text.as_bytes().to_vec());
    let program = app.cmd.as_ref().or(app.argv.first()).ok_or(Status::ERR_JOB_NO_EXE_SPECIFIED)?;
    let setting = |text: &Text| {
        let (name, value) = text.as_bytes().split_at(text.as_bytes().iter().position(|byte| *byte == b'=')?);
        Some((OsString::from_vec(name.to_vec()), Some(OsString::from_vec(value[1..].to_vec()))))
    };
    Ok(AppSpec {
        ranks: u32::try_from(app.maxprocs).ok().filter(|ranks| *ranks > 0).ok_or(Status::ERR_BAD_PARAM)?,
        environment: app.env.iter().filter_map(setting).collect(),
        wdir: app.cwd.as_ref().map(|cwd| system(cwd).into()),
        program: system(program),
        arguments: app.argv.iter().skip(1).map(system).collect(),
    })
}

/// The status for what an application lacks.
pub fn lacks(what: &Lacks) -> Status {
    match what {
        Lacks::Directory(error) if is_missing(error) => Status::ERR_JOB_WDIR_NOT_FOUND,
        Lacks::Directory(_) => Status::ERR_JOB_WDIR_NOT_ACCESSIBLE,
        Lacks::Program(error) if is_missing(error) => Status::ERR_JOB_EXE_NOT_FOUND,
        Lacks::Program(_) => Status::ERR_JOB_APP_NOT_EXECUTABLE,
    }
}

fn is_missing(error: &io::Error) -> bool {
    [Errno::ENOENT, Errno::ENOTDIR].into_iter().any(|errno| error.raw_os_error() == Some(errno as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(info: Vec<Info>, edit: impl FnOnce(&mut App)) -> Request {
        let text = |text: &str| Text::new(text).unwrap();
        let mut app = App {
            cmd: Some(text("prog")),
            argv: vec![text("prog"), text("a b")],
            env: vec![text("A=1=2"), text("nothing")],
            cwd: Some(text("/tmp")),
            maxprocs: 3,
            info: vec![],
        };
        edit(&mut app);
        let parent = Proc::new(Nspace::new("job@1").unwrap(), Rank(0));
        Request { parent, info, apps: vec![app], done: Completion::new(|_| ()) }
    }

    #[test]
    fn an_application_is_taken_as_it_was_given() {
        let specs = request(vec![], |_| ()).specs("n", false).unwrap();
        assert_eq!(
            specs,
            [AppSpec {
                ranks: 3,
                environment: vec![("A".into(), Some("1=2".into()))],
                wdir: Some("/tmp".into()),
                program: "prog".into(),
                arguments: vec!["a b".into()],
            }]
        );
    }

    #[test]
    fn streams_are_wanted_as_is_said() {
        let wants = |infos: &[Info]| request(infos.to_vec(), |_| ()).wants();
        let both = [Info::new(keys::FWD_STDOUT, true), Info::new(keys::FWD_STDERR, true)];
        assert_eq!(wants(&both), Wants { output: FWD_STDOUT_CHANNEL | FWD_STDERR_CHANNEL, ..Wants::default() });
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
        let required = [(keys::MAPBY, "slot"), (keys::RANKBY, "NODE"), (keys::BINDTO, "none")];
        let required = required.map(|(key, value)| Info::new(key, value).required());
        assert!(request(required.to_vec(), |_| ()).specs("n", false).is_ok());
        assert!(request(required.to_vec(), |_| ()).specs("n", true).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |info: Vec<Info>, edit: fn(&mut App)| request(info, edit).specs("n.site", false).unwrap_err();
        assert_eq!(refused(vec![], |app| app.maxprocs = 0), Status::ERR_BAD_PARAM);
        assert_eq!(refused(vec![], |app| (app.cmd, app.argv) = (None, vec![])), Status::ERR_JOB_NO_EXE_SPECIFIED);
        assert_eq!(refused(vec![Info::new(keys::HOST, "other,more")], |_| ()), Status::ERR_JOB_FAILED_TO_MAP);
        assert_eq!(refused(vec![Info::new(keys::MAPBY, "core").required()], |_| ()), Status::ERR_NOT_SUPPORTED);
        for host in ["n", "n.site:2", "other,localhost"] {
            assert!(
                request(vec![Info::new(keys::HOST, host), Info::new(keys::MAPBY, "slot")], |_| ())
                    .specs("n.site", false)
                    .is_ok()
            );
        }
    }
}
