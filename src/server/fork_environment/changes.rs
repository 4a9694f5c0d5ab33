//! Changes of an environment, as attributes describe them.
//!
//! On the node that a job is launched from, `setup_application` collects the variables of its programming library. The
//! host carries them to each node. There `setup_local_support` keeps them, and `setup_fork` makes the changes.
use crate::data::{Envar, Info, InfoList, Status, Text, Value, keys};

/// Variables of Open MPI, which its processes read wherever they run.
const OPEN_MPI: &[u8] = b"OMPI_MCA_";

/// A change of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a variable, whatever it was.
    Set(String, Vec<u8>),
    /// Sets a variable only where it is not set.
    Add(String, Vec<u8>),
    /// Puts a value in front of a variable's own, with that separator.
    Prepend(String, Vec<u8>, u8),
    /// Puts a value behind a variable's own, with that separator.
    Append(String, Vec<u8>, u8),
    /// Removes a variable.
    Unset(String),
}

impl Change {
    /// Reads an attribute; none where it is about something else than the environment.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` when its value is no variable.
    pub fn parse(info: &Info) -> Result<Option<Change>, Status> {
        let unset = |value: &Value| Ok(Change::Unset(name(value.as_text())?));
        let key = info.key.as_str().map(keys::canonical).unwrap_or_default();
        let change: fn(String, Vec<u8>, u8) -> Change = match key {
            keys::SET_ENVAR => |name, value, _| Change::Set(name, value),
            keys::ADD_ENVAR => |name, value, _| Change::Add(name, value),
            keys::PREPEND_ENVAR => Change::Prepend,
            keys::APPEND_ENVAR => Change::Append,
            keys::UNSET_ENVAR => return unset(&info.value).map(Some),
            _ => return Ok(None),
        };
        let Value::Envar(envar) = &info.value else { return Err(Status::ERR_BAD_PARAM) };
        let value = envar.value.as_ref().map(|value| value.as_bytes().to_vec()).unwrap_or_default();
        Ok(Some(change(name(envar.name.as_ref())?, value, envar.separator)))
    }

    /// The variable that it is about.
    pub fn name(&self) -> &str {
        match self {
            Change::Set(name, _) | Change::Add(name, _) | Change::Unset(name) => name,
            Change::Prepend(name, ..) | Change::Append(name, ..) => name,
        }
    }
}

/// Checks a variable's name.
fn name(text: Option<&Text>) -> Result<String, Status> {
    let name = text.and_then(|text| std::str::from_utf8(text.as_bytes()).ok()).unwrap_or_default();
    if name.is_empty() || name.contains('=') { Err(Status::ERR_BAD_PARAM) } else { Ok(name.into()) }
}

/// Collects the settings of an application's programming library from the environment `own`, when `info` asks for them
/// and the library is a known one.
pub fn for_application(
    info: &[Info],
    own: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Vec<Info> {
    let wanted = info.is_set(keys::SETUP_APP_ENVARS) || info.is_set(keys::SETUP_APP_ALL);
    let says = |key| info.find(key).and_then(|info| info.value.as_text()).map(Text::to_string_lossy);
    let open_mpi = [keys::MODEL_LIBRARY_NAME, keys::PERSONALITY]
        .into_iter()
        .filter_map(says)
        .any(|library| ["openmpi", "ompi"].iter().any(|name| library.to_ascii_lowercase().contains(name)));
    if !wanted || !open_mpi {
        return Vec::new();
    }
    let text = |text: std::ffi::OsString| Text::new(text.as_encoded_bytes()).ok();
    own.filter(|(name, _)| name.as_encoded_bytes().starts_with(OPEN_MPI))
        .map(|(name, value)| Envar { name: text(name), value: text(value), separator: 0 })
        .map(|envar| Info::new(keys::SET_ENVAR, Value::Envar(envar)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envar(key: &str, name: &str, value: &str) -> Info {
        let text = |text: &str| Some(Text::new(text).unwrap());
        Info::new(key, Value::Envar(Envar { name: text(name), value: text(value), separator: b':' }))
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for bad in
            [envar(keys::SET_ENVAR, "", "x"), envar(keys::SET_ENVAR, "A=B", "x"), Info::new(keys::SET_ENVAR, 1u32)]
        {
            assert_eq!(Change::parse(&bad), Err(Status::ERR_BAD_PARAM));
        }
    }

    #[test]
    fn only_settings_of_a_known_library_are_collected() {
        let own = || [("OMPI_MCA_btl", "self"), ("HOME", "/")].map(|(n, v)| (n.into(), v.into())).into_iter();
        let all = Info::new(keys::SETUP_APP_ALL, true);
        let library = Info::new(keys::MODEL_LIBRARY_NAME, "OpenMPI");
        let collected = for_application(&[all.clone(), library.clone()], own());
        assert_eq!(collected, [Info::new(keys::SET_ENVAR, collected[0].value.clone())]);
        assert_eq!(for_application(&[all], own()), []);
        assert_eq!(for_application(&[library], own()), []);
    }
}
