//! The environment of a process that is to find this server.
//!
//! `setup_fork` may run in a forked child of a threaded process. Everything it needs lies in one immutable block behind
//! an atomic pointer; the control thread replaces the block whenever a namespace comes or goes. A block shares with the
//! one before what has not changed ([`persistent_map`]).
//!
//! The variables that lead to a door come from the door ([`DoorVariables`]); this room knows no protocol.
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use super::ctx::Ctx;
use super::jobs::store::JobStore;
use super::jobs::{Job, Jobs};
use crate::data::{Info, Nspace, Proc, Status};
use crate::sys::cell::EpochCell;
use crate::trace;

mod changes;
mod env_sink;
mod persistent_map;
mod variables;

pub use changes::for_application;
pub use env_sink::EnvSink;
use persistent_map::PersistentMap;
use variables::Variables;

/// Version of the Standard's reference library whose variables these are.
const VERSION: &str = crate::stock::VERSION;

/// Variables that lead a process to a door.
pub trait DoorVariables: Send + Sync {
    /// Sets them for a process that is to show that token.
    fn set(&self, proc: &Proc, token: &[u8; 32], env: &mut dyn EnvSink);
}

/// Part of the environment that all processes of a server share.
#[derive(Default)]
pub struct Common {
    pub hostname: Vec<u8>,
    pub tmpdir: Vec<u8>,
    pub system_tmpdir: Vec<u8>,
    pub doors: Vec<Box<dyn DoorVariables>>,
}

/// Part of the environment that all processes of a job share.
#[derive(Clone)]
struct JobEnvironment {
    token: [u8; 32],
    changes: Arc<Variables>,
    /// Variables that lead to files with the job's data.
    files: Arc<[(&'static str, Vec<u8>)]>,
}

/// Everything that `setup_fork` needs.
#[derive(Clone, Default)]
struct Block {
    common: Arc<Common>,
    jobs: PersistentMap<JobEnvironment>,
}

/// Source of the environment of a server's processes; see [`Server::setup_fork`](super::Server::setup_fork).
#[derive(Clone)]
pub struct ForkEnvironment(Arc<EpochCell<Block>>);

impl fmt::Debug for ForkEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tokens stay out of traces.
        f.write_str("ForkEnvironment")
    }
}

impl ForkEnvironment {
    /// Does what [`Server::setup_fork`](super::Server::setup_fork) does.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when neither the namespace nor the client is registered.
    pub fn setup(&self, proc: &Proc, env: &mut dyn EnvSink) -> Result<(), Status> {
        let block = self.0.read();
        let job = block.jobs.get(&proc.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        let common = &block.common;
        job.changes.apply(env);
        env.retain(&mut |name| !is_left_over(name));
        env.set("PMIX_NAMESPACE", proc.nspace.as_bytes());
        env.set("PMIX_RANK", proc.rank.0.to_string().as_bytes());
        env.set("PMIX_VERSION", VERSION.as_bytes());
        env.set("PMIX_HOSTNAME", &common.hostname);
        env.set("PMIX_SERVER_TMPDIR", &common.tmpdir);
        env.set("PMIX_SYSTEM_TMPDIR", &common.system_tmpdir);
        common.doors.iter().for_each(|door| door.set(proc, &job.token, env));
        job.files.iter().for_each(|(name, value)| env.set(name, value));
        Ok(())
    }
}

/// Returns whether a variable leads to another server. `INSTANTON_TRACE`, what belongs to it, and `INSTANTON_SHM` are
/// the user's.
fn is_left_over(name: &[u8]) -> bool {
    let is_users = name.starts_with(b"INSTANTON_TRACE") || name == b"INSTANTON_SHM";
    let ours = name.starts_with(b"INSTANTON_") && !is_users;
    ours || name.starts_with(b"PMIX_SERVER_URI") || name.starts_with(b"PMIX_DSTORE_") || name == b"PMIX_KEEPALIVE_PIPE"
}

/// The room: keeps the block up to date.
pub struct ForkEnvironments {
    published: ForkEnvironment,
    /// Changes of the environment by job, where the host has asked for some.
    changes: HashMap<Nspace, Arc<Variables>>,
}

impl ForkEnvironments {
    /// Creates the environments of a server without jobs.
    pub fn new(common: Common) -> Self {
        let block = Block { common: Arc::new(common), jobs: PersistentMap::default() };
        ForkEnvironments { published: ForkEnvironment(Arc::new(EpochCell::new(block))), changes: HashMap::new() }
    }

    /// Returns what other threads read.
    pub fn published(&self) -> ForkEnvironment {
        self.published.clone()
    }

    /// Keeps the changes of the environment that the processes of a namespace get here.
    ///
    /// # Errors
    /// As [`Variables::read`].
    pub fn setup_local_support(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        nspace: &Nspace,
        info: &[Info],
    ) -> Result<(), Status> {
        let changes = Variables::read(info).inspect_err(|_| trace!("the environment of {nspace} is refused"))?;
        jobs.entry(cx, nspace)?;
        self.changes.insert(nspace.clone(), changes.into());
        self.publish(jobs, nspace);
        Ok(())
    }

    /// Publishes a namespace that has become known or was forgotten.
    pub fn publish(&mut self, jobs: &Jobs, nspace: &Nspace) {
        let job = jobs.get(nspace);
        if job.is_none() {
            self.changes.remove(nspace);
        }
        let changes = self.changes.get(nspace).cloned().unwrap_or_default();
        let files = |job: &Job| job.store.as_ref().map(JobStore::file_variables).unwrap_or_default().into();
        let job = job.map(|job| JobEnvironment { token: job.token, changes, files: files(job) });
        let with = |block: &Block| Block { common: block.common.clone(), jobs: block.jobs.with(nspace, job) };
        let Ok(()) = self.published.0.replace(|block| Ok::<_, Infallible>(with(block)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;
    use crate::data::{Envar, Rank, Text, Value, keys};
    use crate::server::NoHost;
    use crate::server::ctx::testing;

    /// A door whose variable names the process and the first byte of its token.
    struct OneVariable;

    impl DoorVariables for OneVariable {
        fn set(&self, proc: &Proc, token: &[u8; 32], env: &mut dyn EnvSink) {
            env.set("INSTANTON_SERVER", format!("{proc} {}", token[0]).as_bytes());
        }
    }

    fn environments() -> ForkEnvironments {
        let doors: Vec<Box<dyn DoorVariables>> = vec![Box::new(OneVariable)];
        ForkEnvironments::new(Common { hostname: b"node0".to_vec(), doors, ..Default::default() })
    }

    fn env(variables: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn variables_of_an_outer_launcher_go() {
        let (mut test, mut jobs, mut environments) = (testing::ctx(NoHost), Jobs::default(), environments());
        let proc = Proc::new(Nspace::new("job@1").unwrap(), Rank(3));
        let mut env = env(&[
            ("PATH", "/bin"),
            ("PMIX_SERVER_URI51", "x"),
            ("PMIX_DSTORE_21_BASE_PATH", "x"),
            ("PMIX_KEEPALIVE_PIPE", "7"),
            ("INSTANTON_SERVER", "old"),
            ("INSTANTON_TRACE", "stderr"),
            ("PMIX_RANK", "9"),
        ]);
        let before = env.clone();
        assert_eq!(environments.published().setup(&proc, &mut env), Err(Status::ERR_NOT_FOUND));
        assert_eq!(env, before);

        jobs.entry(&mut test.cx, &proc.nspace).unwrap().token = [5; 32];
        environments.publish(&jobs, &proc.nspace);
        environments.published().setup(&proc, &mut env).unwrap();
        let names: Vec<_> = env.keys().map(|name| name.to_str().unwrap()).collect();
        let expected = [
            "INSTANTON_SERVER",
            "INSTANTON_TRACE",
            "PATH",
            "PMIX_HOSTNAME",
            "PMIX_NAMESPACE",
            "PMIX_RANK",
            "PMIX_SERVER_TMPDIR",
            "PMIX_SYSTEM_TMPDIR",
            "PMIX_VERSION",
        ];
        assert_eq!(names, expected);
        assert_eq!(env[&OsString::from("INSTANTON_SERVER")], OsString::from(format!("{proc} 5")));
        assert_eq!(env[&OsString::from("PMIX_RANK")], "3");
    }

    #[test]
    fn changes_hold_until_their_job_is_forgotten() {
        let (mut test, mut jobs, mut environments) = (testing::ctx(NoHost), Jobs::default(), environments());
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let text = |text: &str| Some(Text::new(text).unwrap());
        let envar = Envar { name: text("A"), value: text("1"), separator: 0 };
        let set = [Info::new(keys::SET_ENVAR, Value::Envar(envar))];
        environments.setup_local_support(&mut test.cx, &mut jobs, &proc.nspace, &set).unwrap();
        let seen = |environments: &ForkEnvironments| {
            let mut env = env(&[]);
            environments.published().setup(&proc, &mut env).map(|()| env.contains_key(&OsString::from("A")))
        };
        assert_eq!(seen(&environments), Ok(true));

        jobs.remove(&mut test.cx, &proc.nspace);
        environments.publish(&jobs, &proc.nspace);
        assert_eq!(seen(&environments), Err(Status::ERR_NOT_FOUND));
        jobs.entry(&mut test.cx, &proc.nspace).unwrap();
        environments.publish(&jobs, &proc.nspace);
        assert_eq!(seen(&environments), Ok(false), "another job of that name has its own environment");
    }
}
