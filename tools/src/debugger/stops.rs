//! Places at which the ranks of a job stop for a debugger, as an attribute for each: at their first instruction
//! (`PMIX_DEBUG_STOP_ON_EXEC`), in Init (`PMIX_DEBUG_STOP_IN_INIT`), and where their program likes
//! (`PMIX_DEBUG_STOP_IN_APP`). Its value chooses the ranks.
use instanton::data::{App, DataArray, Info, InfoList, Proc, Rank, Status, Value, keys};

use super::daemons;
use super::ranks::Ranks;

/// The attributes.
pub const KEYS: [&str; 3] = [keys::DEBUG_STOP_ON_EXEC, keys::DEBUG_STOP_IN_INIT, keys::DEBUG_STOP_IN_APP];

/// Name of the first place, as debuggers are told of ranks that have stopped there.
pub const ON_EXEC: &str = "exec";

/// Places at which ranks of a job stop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stops {
    infos: Vec<Info>,
    /// True if the debugger that they were for is gone.
    pub are_over: bool,
}

impl Stops {
    /// The places that these attributes name.
    pub fn new(infos: Vec<Info>) -> Self {
        Self { infos, are_over: false }
    }

    /// Places that were asked for by somebody who is gone.
    pub fn over() -> Self {
        Self { infos: Vec::new(), are_over: true }
    }

    /// Reads a spawn request: what is said of the job, or else which of its applications are to stop. Where all are to,
    /// that means no daemons among them: they are who releases the others.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a value that chooses no ranks in any way.
    pub fn read(job: &[Info], apps: &[App]) -> Result<Self, Status> {
        let mut infos = Vec::new();
        for key in KEYS {
            let chosen = match job.find(key) {
                Some(info) => match chosen(&info.value)? {
                    Value::Bool(true) if daemons::are_among(job, apps) => {
                        Some(ranks(apps, |app| !daemons::are_of(app)))
                    }
                    value => Some(value),
                },
                None => of_apps(key, apps)?,
            };
            infos.extend(chosen.map(|value| Info::new(key, value)));
        }
        Ok(Self::new(infos))
    }

    /// The attributes, as the job's processes find them among what is known of it.
    pub fn infos(&self) -> &[Info] {
        &self.infos
    }

    /// Returns whether a process stops at its first instruction.
    pub fn is_on_exec(&self, proc: &Proc) -> bool {
        self.infos.find(keys::DEBUG_STOP_ON_EXEC).is_some_and(|info| info.value.chooses(proc))
    }
}

/// A value as the ranks' libraries read it.
fn chosen(value: &Value) -> Result<Value, Status> {
    match value {
        Value::String(Some(text)) => {
            let text = text.to_string_lossy();
            Ok(Ranks::read(&text).map_err(|_| Status::ERR_BAD_PARAM)?.value())
        }
        Value::Undef => Ok(true.into()),
        Value::Bool(_) | Value::Proc(_) | Value::DataArray(_) => Ok(value.clone()),
        number => number.as_rank().map(|_| number.clone()).ok_or(Status::ERR_BAD_PARAM),
    }
}

/// The ranks of those applications that are to stop, if some are.
fn of_apps(key: &str, apps: &[App]) -> Result<Option<Value>, Status> {
    let is_told = |app: &App| app.info.find(key).map(|info| info.value.truth());
    if apps.iter().any(|app| is_told(app) == Some(None)) {
        return Err(Status::ERR_BAD_PARAM);
    }
    let stops = |app: &App| is_told(app) == Some(Some(true)) && app.maxprocs > 0;
    Ok(apps.iter().any(stops).then(|| ranks(apps, stops)))
}

/// The ranks of applications that are `chosen`.
fn ranks(apps: &[App], chosen: impl Fn(&App) -> bool) -> Value {
    let mut first = 0;
    let mut ranks = Vec::new();
    for app in apps {
        let next = first + u32::try_from(app.maxprocs).unwrap_or(0);
        if chosen(app) {
            ranks.extend((first..next).map(Rank));
        }
        first = next;
    }
    Value::DataArray(DataArray::of(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Nspace;

    fn app(maxprocs: i32, info: Vec<Info>) -> App {
        App { cmd: None, argv: vec![], env: vec![], cwd: None, maxprocs, info }
    }

    #[test]
    fn a_request_says_it_of_the_job_or_of_applications() {
        let on_exec = |stops: &Stops| -> Vec<u32> {
            let proc = |rank: &u32| Proc::new(Nspace::new("job").unwrap(), Rank(*rank));
            (0..5).filter(|rank| stops.is_on_exec(&proc(rank))).collect()
        };
        let set = |value: Value| Info { value, ..Info::new(keys::DEBUG_STOP_ON_EXEC, true) };
        let apps = [app(2, vec![]), app(2, vec![set(true.into())])];
        assert_eq!(on_exec(&Stops::read(&[], &apps).unwrap()), [2, 3]);
        for (value, ranks) in [
            (true.into(), vec![0, 1, 2, 3, 4]),
            (Value::Undef, vec![0, 1, 2, 3, 4]),
            (false.into(), vec![]),
            (Value::from("0,3-4"), vec![0, 3, 4]),
            (Rank(1).into(), vec![1]),
        ] {
            assert_eq!(on_exec(&Stops::read(&[set(value)], &apps).unwrap()), ranks);
        }
        let daemons = || Info::new(keys::DEBUGGER_DAEMONS, true);
        let among = [app(2, vec![daemons()]), app(2, vec![])];
        assert_eq!(on_exec(&Stops::read(&[set(true.into())], &among).unwrap()), [2, 3], "daemons stop for nobody");
        assert_eq!(on_exec(&Stops::read(&[set("0".into())], &among).unwrap()), [0], "but where they are named");
        assert_eq!(on_exec(&Stops::read(&[set(true.into()), daemons()], &apps).unwrap()), [0, 1, 2, 3, 4]);
        assert_eq!(Stops::read(&[set("some".into())], &apps), Err(Status::ERR_BAD_PARAM));
        assert_eq!(Stops::read(&[], &[app(1, vec![set(1.5f64.into())])]), Err(Status::ERR_BAD_PARAM));
    }
}
