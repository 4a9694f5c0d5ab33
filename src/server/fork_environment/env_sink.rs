//! Environments that `setup_fork` can change.
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

/// An environment under construction.
pub trait EnvSink {
    /// Sets a variable, replacing an older value.
    fn set(&mut self, name: &str, value: &[u8]);
    /// Returns the value of a variable, if it is set.
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
/// [`env_clear`](Command::env_clear) nothing is inherited, which a command does not tell: a host that clears the
/// environment of a command sets up a `Vec` and gives the command that.
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
