//! Bodies of commands: packs in the plain form, the command's number first.
use super::node;
use crate::data::{App, DataType, Info, Key, Posted, Proc, Scope, Status, Text, keys};
use crate::stock::ack;
use crate::stock::body::Bodies;
use crate::stock::requests::command;
use crate::wire::{Form, WireError};

use DataType as T;

/// Variable that has a stock client take its information as values.
const AS_VALUES: &str = "PMIX_MCA_gds=hash";

/// Body of a command.
///
/// # Errors
/// `ERR_PACK_FAILURE` and its like for what the encoding cannot say.
pub fn body(command: u8, write: impl FnOnce(&mut Bodies) -> Result<(), WireError>) -> Result<Vec<u8>, Status> {
    let mut out = Bodies::new(Form::Plain);
    out.one(T::COMMAND, &command)?;
    write(&mut out)?;
    Ok(out.bytes)
}

/// Commits of a process, first without reserved keys, then with those alone where there are any. A server of 4.2
/// refuses them, and takes nothing that comes behind one: neither later values nor what is for other nodes.
pub fn commits(entries: &[Posted]) -> impl Iterator<Item = Result<Vec<u8>, Status>> {
    let has_reserved = entries.iter().any(|entry| entry.key.is_reserved());
    [false, true].into_iter().take(1 + usize::from(has_reserved)).map(|are_reserved| {
        body(command::COMMIT, |out| {
            for scope in [Scope::LOCAL, Scope::REMOTE] {
                let is_meant = |entry: &&Posted| {
                    entry.key.is_reserved() == are_reserved && [scope, Scope::GLOBAL].contains(&entry.scope)
                };
                let mut inner = Bodies::new(Form::Plain);
                let mut meant = entries.iter().filter(is_meant);
                meant.try_for_each(|entry| inner.entry(&entry.key, &entry.value).map(drop))?;
                if !inner.bytes.is_empty() {
                    out.one(T::SCOPE, &scope)?.buffer(&inner.bytes)?;
                }
            }
            Ok(())
        })
    })
}

/// The request for what is known of a process.
///
/// # Errors
/// As [`body`].
pub fn get(proc: &Proc, key: Option<&Key>, info: &[Info]) -> Result<Vec<u8>, Status> {
    body(command::GET, |out| {
        out.one(T::STRING, &proc.nspace)?.one(T::PROC_RANK, &proc.rank)?.infos(info)?;
        if let Some(key) = key {
            out.one(T::STRING, key)?;
        }
        Ok(())
    })
}

/// A list of texts: servers take each from a pack of its own.
pub fn texts<'a>(out: &'a mut Bodies, texts: &[Text]) -> Result<&'a mut Bodies, WireError> {
    out.one(T::SIZE, &texts.len())?;
    texts.iter().try_for_each(|text| out.one(T::STRING, text).map(drop))?;
    Ok(out)
}

/// An application whose processes take their information as this one does: an older server fails to connect jobs of two
/// kinds. Where this one has the node's segments as well, so may those of ours.
pub fn with_values(app: &App, has_segments: bool) -> App {
    let mut app = app.clone();
    let name = |set: &[u8]| set.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    let is_set = app.env.iter().any(|set| name(set.as_bytes()) == name(AS_VALUES.as_bytes()));
    if !is_set {
        app.env.extend(Text::new(AS_VALUES).ok());
        if has_segments {
            app.env.extend(Text::new(format!("{}={}", node::FOR_STOCK, ack::VALUES)).ok());
        }
    }
    app
}

/// The user that a publication is of.
pub fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Attributes without those that the server in this process adds for hosts of its own kind.
pub fn for_host(info: &[Info]) -> Vec<Info> {
    const OWN: [&str; 4] = [keys::EVENT_PROXY, keys::LOCAL_COLLECTIVE_STATUS, keys::USERID, keys::GRPID];
    info.iter().filter(|info| OWN.iter().all(|key| info.key != *key)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Value;

    #[test]
    fn what_is_set_for_stock_processes_keeps_none_of_ours_from_segments() {
        let env = |set: &str, has_segments| {
            let env = vec![Text::new(set).unwrap()];
            let app = App { cmd: None, argv: vec![], env, cwd: None, maxprocs: 1, info: vec![] };
            with_values(&app, has_segments).env.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(env("A=1", false), ["A=1", AS_VALUES]);
        assert_eq!(env("A=1", true), ["A=1", AS_VALUES, "INSTANTON_GDS_FOR_STOCK=hash"]);
        assert_eq!(env("PMIX_MCA_gds=ds21", true), ["PMIX_MCA_gds=ds21"]);
    }

    #[test]
    fn reserved_keys_are_committed_by_themselves() {
        let posted = |scope, key| Posted { scope, key: Key::new(key).unwrap(), value: Value::Uint32(7) };
        let (first, last) = (posted(Scope::GLOBAL, "first"), posted(Scope::REMOTE, "last"));
        let reserved = posted(Scope::GLOBAL, keys::CPUSET);
        let of = |entries: &[Posted]| commits(entries).map(Result::unwrap).collect::<Vec<_>>();
        let plain = of(&[first.clone(), last.clone()]);
        assert_eq!(plain.len(), 1);
        let both = of(&[first, reserved.clone(), last]);
        let nothing = of(&[]);
        assert_eq!(both, [plain, of(&[reserved])[1..].to_vec()].concat());
        assert_eq!((both.len(), nothing.len()), (2, 1));
        assert!(both[1].windows(keys::CPUSET.len()).filter(|bytes| *bytes == keys::CPUSET.as_bytes()).count() == 2);
    }
}
