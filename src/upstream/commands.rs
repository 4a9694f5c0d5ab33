//! Bodies of commands: packs in the plain form, the command's number first.
use crate::data::{App, DataType, Info, Key, Proc, Status, Text, keys};
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
/// kinds.
pub fn with_values(app: &App) -> App {
    let mut app = app.clone();
    let name = |set: &[u8]| set.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    let is_set = app.env.iter().any(|set| name(set.as_bytes()) == name(AS_VALUES.as_bytes()));
    if !is_set {
        app.env.extend(Text::new(AS_VALUES).ok());
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
