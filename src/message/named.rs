//! Processes that the attributes of a call name.
use crate::data::{DataArray, Info, Key, Proc, Status, Value, keys};

/// Attributes that name processes.
const NAMING: [&str; 4] =
    [keys::EVENT_CUSTOM_RANGE, keys::EVENT_AFFECTED_PROC, keys::EVENT_AFFECTED_PROCS, keys::MONITOR_TARGET_PROCS];

/// Qualifier of a query (array of PROC): the processes that are meant by one name, where these are several. Servers
/// give it to hosts.
#[cfg(feature = "server")]
pub const MEANT: &str = "instanton.query.meant";

fn names_processes(info: &Info) -> bool {
    NAMING.iter().any(|key| info.key == *key)
}

/// Returns the namespaces of the processes that attributes name.
#[cfg(feature = "client")]
pub fn namespaces_named(info: &[Info]) -> impl Iterator<Item = crate::data::Nspace> {
    let named = info.iter().filter(|item| names_processes(item)).filter_map(|item| item.value.as_procs());
    named.flatten().map(|proc| proc.nspace)
}

/// Puts others in the place of the processes that attributes name. One process may become several.
///
/// # Errors
/// Those of `native`.
pub fn replace_named(info: &mut [Info], native: impl Fn(Vec<Proc>) -> Result<Vec<Proc>, Status>) -> Result<(), Status> {
    for item in info.iter_mut().filter(|item| names_processes(item)) {
        let Some(named) = item.value.as_procs() else { continue };
        let procs = native(named)?;
        item.value = match &procs[..] {
            [proc] if item.key == keys::EVENT_AFFECTED_PROC => Value::Proc(proc.clone()),
            _ => {
                if item.key == keys::EVENT_AFFECTED_PROC {
                    item.key = Key::new(keys::EVENT_AFFECTED_PROCS).expect("a legal key");
                }
                DataArray::of(procs).into()
            }
        };
    }
    Ok(())
}
