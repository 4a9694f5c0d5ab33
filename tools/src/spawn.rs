//! Spawn requests (`PMIx_Spawn`, `MPI_Comm_spawn`), as this launcher plans them.
//!
//! A request is one job with as many applications as it has. All of it starts, or nothing of it stays. Everything runs
//! on this machine and is forwarded to our output, and to the job's parent as far as that wants it. Attributes about
//! mapping and binding are hints that change nothing, and may be required where they are true of every job.
use instanton::data::{App, Channels, DataArray, Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};
use instanton::internal::message::lines::LineFormat;
use instanton::launch::{self, AppSpec, TimeLimits};
use instanton::server::Completion;

use crate::files::Files;
use crate::job::{StreamOptions, Tags};

/// A rank's spawn request, and the way back to it.
#[derive(Debug)]
pub struct Request {
    /// The process that asks.
    pub parent: Proc,
    /// Attributes of the whole job.
    pub info: Vec<Info>,
    /// Applications to run.
    pub apps: Vec<App>,
    /// Answered with the job's namespace when all of it runs.
    pub done: Completion<Nspace>,
}

/// Attributes that are served when they are required, besides those that [every launcher](launch::SERVED) serves.
const MORE: [&str; 12] = [
    keys::FWD_STDIN,
    keys::STDIN_TGT,
    keys::IOF_TAG_DETAILED_OUTPUT,
    keys::IOF_OUTPUT_TO_FILE,
    keys::OUTPUT_TO_FILE,
    keys::IOF_OUTPUT_TO_DIRECTORY,
    keys::OUTPUT_TO_DIRECTORY,
    keys::IOF_FILE_ONLY,
    keys::IOF_FILE_PATTERN,
    keys::OUTPUT_NOCOPY,
    keys::DEBUG_STOP_IN_INIT,
    keys::DEBUG_STOP_IN_APP,
];

/// Keys by which processes stop for a debugger: their library in Init, or they themselves where they like.
pub const STOPS: [&str; 2] = [keys::DEBUG_STOP_IN_INIT, keys::DEBUG_STOP_IN_APP];

/// All attributes that are served, whatever they say.
pub fn served() -> Vec<&'static str> {
    launch::SERVED.iter().chain(&MORE).copied().collect()
}

impl Request {
    /// The applications to plan; `node` is this machine's name, and `bound` says whether ranks are bound to cores.
    ///
    /// # Errors
    /// As [`launch::read`]; `ERR_BAD_PARAM` for files without a name.
    pub fn specs(&self, node: &str, bound: bool) -> Result<Vec<AppSpec>, Status> {
        if !Files::are_named(&self.info) {
            return Err(Status::ERR_BAD_PARAM);
        }
        let serves = |info: &Info| MORE.iter().any(|key| info.key == *key) || is_true_anyway(info, bound);
        launch::read(&self.info, &self.apps, node, serves)
    }

    /// Information for the server about the job besides its plan: changes of its processes' environment, and whether it
    /// is connected with its parent.
    pub fn said(&self) -> Vec<Info> {
        let mut said = launch::environment(&self.info, &self.apps);
        let apart = |info: &[Info]| info.is_set(keys::COSPAWN_APP);
        let is_apart = apart(&self.info) || self.apps.iter().all(|app| apart(&app.info));
        said.extend(is_apart.then(|| Info::new(keys::COSPAWN_APP, true)));
        said.extend(STOPS.into_iter().filter_map(|key| Some(Info::new(key, self.stopped(key)?))));
        said
    }

    /// Returns the processes that are to stop: as is said of the job, or those of the applications of which it is said.
    fn stopped(&self, key: &str) -> Option<Value> {
        if let Some(of_job) = self.info.find(key) {
            return Some(of_job.value.clone());
        }
        let mut first = 0;
        let mut ranks = Vec::new();
        for app in &self.apps {
            let next = first + u32::try_from(app.maxprocs).unwrap_or(0);
            if app.info.is_set(key) {
                ranks.extend((first..next).map(Rank));
            }
            first = next;
        }
        (!ranks.is_empty()).then(|| Value::DataArray(DataArray::of(ranks)))
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

    /// Returns its parent's wishes for its streams.
    pub fn wants(&self) -> StreamOptions {
        let infos = self.infos();
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
                () => Tags::None,
            },
            format: LineFormat::read(&infos),
            is_merged: is_set(keys::IOF_MERGE_STDERR_STDOUT, keys::MERGE_STDERR_STDOUT),
            files: Files::read(&infos),
        }
    }

    /// Returns whether its parent wants to hear of its end.
    pub fn tells_parent(&self) -> bool {
        let infos = self.infos();
        infos.is_set(keys::NOTIFY_COMPLETION) && !infos.is_set(keys::EVENT_SILENT_TERMINATION)
    }
}

/// Returns whether an attribute asks for what is so for every job of the run: one machine, ranks in order, and all
/// bound or none.
fn is_true_anyway(info: &Info, bound: bool) -> bool {
    let asked = info.value.as_str().unwrap_or_default().to_ascii_lowercase();
    match info.key.as_str().unwrap_or_default() {
        keys::MAPBY | keys::RANKBY => ["slot", "node"].contains(&asked.as_str()),
        keys::BINDTO => asked == if bound { "core" } else { "none" },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Text;

    fn request(info: Vec<Info>) -> Request {
        let text = |text: &str| Text::new(text).unwrap();
        let app = App { cmd: Some(text("prog")), argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] };
        let parent = Proc::new(Nspace::new("job@1").unwrap(), Rank(0));
        Request { parent, info, apps: vec![app], done: Completion::new(|_| ()) }
    }

    #[test]
    fn streams_are_wanted_as_is_said() {
        let wants = |infos: &[Info]| request(infos.to_vec()).wants();
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
            (request.wants().output, request.wants().is_merged, request.tells_parent())
        };
        assert_eq!(of_app(request(vec![])), (Channels::STDOUT, true, true));
        let other = both.map(|key| Info::new(key, false));
        assert_eq!(of_app(request(other.to_vec())), (Channels::NONE, true, false));
        let silent = vec![Info::new(keys::EVENT_SILENT_TERMINATION, true)];
        assert!(!of_app(request(silent)).2, "it ends without a word");
        let required = [(keys::MAPBY, "slot"), (keys::RANKBY, "NODE"), (keys::BINDTO, "none")];
        let required = required.map(|(key, value)| Info::new(key, value).required());
        assert!(request(required.to_vec()).specs("n", false).is_ok());
        assert!(request(required.to_vec()).specs("n", true).is_err());
        let nameless = Info::new(keys::OUTPUT_TO_FILE, "");
        assert_eq!(request(vec![nameless]).specs("n", false).err(), Some(Status::ERR_BAD_PARAM));
    }
}
