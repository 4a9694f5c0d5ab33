//! JSON for programs: one document with the name and the version of its form, described in `docs/SCHEMAS.md`. Within a
//! version, members are added and never changed; a reader skips those that it does not know.
use anyhow::{Context, Result};
use instanton::data::{DataArray, DataType, Info, ProcInfo, Value, keys, names};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::out;

/// A document's name, version and contents.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    version: u32,
    #[serde(flatten)]
    contents: &'a T,
}

/// Version of every form so far.
const VERSION: u32 = 1;

/// Prints a document of that name (`ps`, `query`, ...), over several lines.
///
/// # Errors
/// When it cannot be written.
pub fn print(name: &str, contents: &impl Serialize) -> Result<()> {
    let document = Document { schema: &format!("instanton.{name}"), version: VERSION, contents };
    let text = serde_json::to_string_pretty(&document).context("cannot be written as JSON")?;
    out::write(&(text + "\n"))
}

/// A document of that name in one line.
///
/// # Errors
/// None, unless a number has no form in JSON.
pub fn line(name: &str, contents: &impl Serialize) -> Result<String> {
    let document = Document { schema: &format!("instanton.{name}"), version: VERSION, contents };
    Ok(serde_json::to_string(&document).context("cannot be written as JSON")? + "\n")
}

/// An attribute: its key, the name that the Standard has for it, and its value.
pub fn info(info: &Info) -> Json {
    let mut members = Map::new();
    members.insert("key".into(), text(info.key.as_bytes()));
    let name = info.key.as_str().and_then(keys::name_of).and_then(|name| name.to_str().ok());
    members.insert("name".into(), name.into());
    if let Json::Object(value) = value(&info.value) {
        members.extend(value);
    }
    members.into()
}

/// A value with its type. A value that has no form of its own is a text, as people read it.
pub fn value(value: &Value) -> Json {
    json!({ "type": type_of(value.data_type()), "value": plain(value) })
}

fn type_of(ty: DataType) -> Json {
    ty.name().map_or_else(|| format!("type {}", ty.0), str::to_owned).into()
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Undef | Value::String(None) => Json::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::String(Some(string)) => text(string.as_bytes()),
        Value::ProcNspace(nspace) => text(nspace.as_bytes()),
        Value::Float(number) => f64::from(*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Time(seconds) => (*seconds).into(),
        Value::Status(status) => json!({ "code": status.0, "name": status.name() }),
        Value::Proc(proc) => json!({ "namespace": text(proc.nspace.as_bytes()), "rank": proc.rank.0 }),
        Value::ProcRank(rank) => rank.0.into(),
        Value::ProcState(state) => names::PROC_STATE.text(*state).into(),
        Value::ProcInfo(about) => proc_info(about),
        Value::Info(attribute) => info(attribute),
        Value::DataArray(array) => plain_array(array),
        Value::Regattr(attribute) => json!({
            "name": attribute.name.as_ref().map(|name| text(name.as_bytes())),
            "key": attribute.key.as_ref().map(|key| text(key.as_bytes())),
            "type": type_of(attribute.data_type),
            "description": attribute.description.iter().map(|line| text(line.as_bytes())).collect::<Vec<_>>(),
        }),
        other => match (other.as_i64(), other.as_u64(), other.as_bytes()) {
            (Some(number), ..) => number.into(),
            (_, Some(number), _) => number.into(),
            (.., Some(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
            _ => other.to_string().into(),
        },
    }
}

fn plain_array(array: &DataArray) -> Json {
    json!({ "of": type_of(array.data_type()), "items": array.items().iter().map(plain).collect::<Vec<_>>() })
}

fn proc_info(about: &ProcInfo) -> Json {
    let named = |name: &Option<instanton::data::Text>| name.as_ref().map(|name| text(name.as_bytes()));
    json!({
        "namespace": text(about.proc.nspace.as_bytes()),
        "rank": about.proc.rank.0,
        "node": named(&about.hostname),
        "program": named(&about.executable),
        "pid": about.pid,
        "exit_code": about.exit_code,
        "state": names::PROC_STATE.text(about.state),
    })
}

/// Bytes as text: what is no UTF-8 is replaced.
fn text(bytes: &[u8]) -> Json {
    String::from_utf8_lossy(bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Proc, Rank, Status};

    #[test]
    fn values_keep_their_types_and_names() {
        let proc = Proc::new(Nspace::new("n@1").unwrap(), Rank(2));
        let inner = DataArray::of_info(vec![Info::new(keys::PROCID, proc), Info::new("my.key", 3u64)]);
        let shown = info(&Info::new(keys::PROC_INFO_ARRAY, inner));
        assert_eq!(shown["name"], "PMIX_PROC_INFO_ARRAY");
        assert_eq!((&shown["type"], &shown["value"]["of"]), (&"PMIX_DATA_ARRAY".into(), &"PMIX_INFO".into()));
        let items = &shown["value"]["items"];
        assert_eq!(items[0]["value"], json!({ "namespace": "n@1", "rank": 2 }));
        assert_eq!(
            (&items[1]["key"], &items[1]["name"], &items[1]["value"]),
            (&"my.key".into(), &Json::Null, &3.into())
        );
        assert_eq!(value(&Value::Status(Status::ERR_TIMEOUT))["value"]["name"], "PMIX_ERR_TIMEOUT");
        assert_eq!(value(&Value::ByteObject(vec![0, 255]))["value"], "00ff");
        assert_eq!(value(&Value::Undef)["value"], Json::Null);
    }
}
