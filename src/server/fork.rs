//! The environment of a process that is to find this server.
//!
//! `setup_fork` may run in a forked child of a threaded process. Everything it needs lies in one immutable block, which the
//! control thread replaces whenever a namespace comes or goes. It shares with the one before what has not changed.
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;
use std::sync::Arc;

use super::pieces::Pieces;
use super::setup::Change;
use crate::control::address::{self, Address};
use crate::control::rendezvous::Uri;
use crate::data::{Nspace, Proc, Status};
use crate::sys::cell::EpochCell;

/// The version of the Standard's reference library whose variables these are.
const VERSION: &str = "4.2.2";

/// An environment under construction.
pub trait EnvSink {
    /// Sets a variable, replacing an older value.
    fn set(&mut self, name: &str, value: &[u8]);
    /// The value of a variable, if it is set.
    fn get(&self, name: &str) -> Option<Vec<u8>>;
    /// Removes every variable whose name `keep` does not want.
    fn retain(&mut self, keep: &mut dyn FnMut(&[u8]) -> bool);
}

impl EnvSink for BTreeMap<OsString, OsString> {
    fn set(&mut self, name: &str, value: &[u8]) {
        self.insert(name.into(), OsString::from_vec(value.to_vec()));
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        BTreeMap::get(self, OsStr::new(name)).map(|value| value.as_bytes().to_vec())
    }

    fn retain(&mut self, keep: &mut dyn FnMut(&[u8]) -> bool) {
        BTreeMap::retain(self, |name, _| keep(name.as_bytes()));
    }
}

impl EnvSink for Vec<(OsString, OsString)> {
    fn set(&mut self, name: &str, value: &[u8]) {
        Vec::retain(self, |(n, _)| n != name);
        self.push((name.into(), OsString::from_vec(value.to_vec())));
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_bytes().to_vec())
    }

    fn retain(&mut self, keep: &mut dyn FnMut(&[u8]) -> bool) {
        Vec::retain(self, |(name, _)| keep(name.as_bytes()));
    }
}

/// The environment that the command's process will have: what the command sets, and what it inherits. After
/// [`env_clear`](Command::env_clear) nothing is inherited, which a command does not tell: a host that clears the environment of a
/// command sets up a `Vec` and gives the command that.
impl EnvSink for Command {
    fn set(&mut self, name: &str, value: &[u8]) {
        self.env(name, OsStr::from_bytes(value));
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        match self.get_envs().find(|(known, _)| *known == name) {
            Some((_, value)) => value.map(|value| value.as_bytes().to_vec()),
            None => std::env::var_os(name).map(OsStringExt::into_vec),
        }
    }

    fn retain(&mut self, keep: &mut dyn FnMut(&[u8]) -> bool) {
        let set = self.get_envs().filter_map(|(name, value)| value.map(|_| name.to_owned()));
        let all: BTreeSet<OsString> = set.chain(std::env::vars_os().map(|(name, _)| name)).collect();
        for name in all.iter().filter(|name| !keep(name.as_bytes())) {
            self.env_remove(name);
        }
    }
}

/// What is the same for every process of this server.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    pub uid: u32,
    pub abstract_name: String,
    pub path: Option<String>,
    pub hostname: Vec<u8>,
    pub tmpdir: Vec<u8>,
    pub system_tmpdir: Vec<u8>,
    /// Where tools reach the server.
    pub uri: Option<Uri>,
}

#[derive(Default)]
struct Block {
    common: Arc<Common>,
    jobs: Pieces<OfJob>,
}

/// What is the same for every process of a job.
#[derive(Clone, Debug)]
pub(super) struct OfJob {
    pub token: [u8; 32],
    pub environment: Arc<[Change]>,
}

/// The block, and who replaces it.
pub(super) struct Forks(EpochCell<Block>);

/// What the environment of a server's processes is made from; see [`Server::setup_fork`](super::Server::setup_fork).
#[derive(Clone, Debug)]
pub struct ForkEnvironment(pub(super) Arc<Forks>);

impl ForkEnvironment {
    /// The same as [`Server::setup_fork`](super::Server::setup_fork).
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when neither the namespace nor the client is registered.
    pub fn setup(&self, proc: &Proc, env: &mut dyn EnvSink) -> Result<(), Status> {
        self.0.setup(proc, env)
    }
}

impl fmt::Debug for Forks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tokens stay out of traces.
        f.write_str("Forks")
    }
}

impl Default for Forks {
    fn default() -> Self {
        Forks(EpochCell::new(Block::default()))
    }
}

impl Forks {
    /// Publishes what is to be known of a job, or that there is none.
    pub(super) fn publish(&self, common: Arc<Common>, nspace: &Nspace, job: Option<OfJob>) {
        let Ok(()) = self.0.replace(|block| Ok::<_, Infallible>(Block { common, jobs: block.jobs.with(nspace, job) }));
    }

    pub(super) fn setup(&self, proc: &Proc, env: &mut dyn EnvSink) -> Result<(), Status> {
        let block = self.0.read();
        let job = block.jobs.get(&proc.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        let common = &block.common;
        let address = Address {
            proc: proc.clone(),
            uid: common.uid,
            abstract_name: common.abstract_name.clone(),
            path: common.path.clone(),
            token: job.token,
            stock_uri: String::new(),
        };
        job.environment.iter().for_each(|change| change.apply(env));
        env.retain(&mut |name| !is_left_over(name));
        env.set("PMIX_NAMESPACE", proc.nspace.as_bytes());
        env.set("PMIX_RANK", proc.rank.0.to_string().as_bytes());
        env.set("PMIX_VERSION", VERSION.as_bytes());
        env.set("PMIX_HOSTNAME", &common.hostname);
        env.set("PMIX_SERVER_TMPDIR", &common.tmpdir);
        env.set("PMIX_SYSTEM_TMPDIR", &common.system_tmpdir);
        env.set(address::VARIABLE, address.to_string().as_bytes());
        Ok(())
    }
}

/// Whether a variable leads to another server. `INSTANTON_TRACE` and `INSTANTON_SHM` are the user's.
fn is_left_over(name: &[u8]) -> bool {
    let ours = name.starts_with(b"INSTANTON_") && name != b"INSTANTON_TRACE" && name != b"INSTANTON_SHM";
    ours || name.starts_with(b"PMIX_SERVER_URI") || name.starts_with(b"PMIX_DSTORE_") || name == b"PMIX_KEEPALIVE_PIPE"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rank;

    #[test]
    fn variables_of_an_outer_launcher_go() {
        let forks = Forks::default();
        let job = Nspace::new("job@1").unwrap();
        let proc = Proc::new(job.clone(), Rank(3));
        let mut env: BTreeMap<OsString, OsString> = [
            ("PATH", "/bin"),
            ("PMIX_SERVER_URI51", "x"),
            ("PMIX_DSTORE_21_BASE_PATH", "x"),
            ("PMIX_KEEPALIVE_PIPE", "7"),
            ("INSTANTON_SERVER", "old"),
            ("INSTANTON_TRACE", "stderr"),
            ("PMIX_RANK", "9"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        let before = env.clone();
        assert_eq!(forks.setup(&proc, &mut env), Err(Status::ERR_NOT_FOUND));
        assert_eq!(env, before);

        let common = Common { abstract_name: "instanton-x".into(), hostname: b"node0".to_vec(), ..Default::default() };
        let environment = Vec::new().into();
        forks.publish(Arc::new(common), &job, Some(OfJob { token: [5; 32], environment }));
        forks.setup(&proc, &mut env).unwrap();
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
        let address: Address = env[&OsString::from("INSTANTON_SERVER")].to_str().unwrap().parse().unwrap();
        assert_eq!((address.proc, address.token), (proc, [5; 32]));
        assert_eq!(env[&OsString::from("PMIX_RANK")], "3");
    }
}
