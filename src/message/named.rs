//! Processes that the attributes of a call name.
use crate::data::{DataArray, Info, Key, Proc, Status, Value, keys};

/// Attributes that name processes.
const NAMING: [&str; 3] = [keys::EVENT_CUSTOM_RANGE, keys::EVENT_AFFECTED_PROC, keys::EVENT_AFFECTED_PROCS];

/// Puts others in the place of the processes that attributes name. One process may become several.
///
/// # Errors
/// Those of `native`.
pub fn replace_named(info: &mut [Info], native: impl Fn(Vec<Proc>) -> Result<Vec<Proc>, Status>) -> Result<(), Status> {
    for item in info.iter_mut().filter(|item| NAMING.iter().any(|key| item.key == *key)) {
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
