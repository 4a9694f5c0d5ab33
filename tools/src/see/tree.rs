//! Values for people: one line each, what is in an array indented below it.
use instanton::data::{Info, Value, keys, names};

use super::table::plain;

/// Spaces of a step inwards.
const STEP: usize = 2;

/// A key as it is shown: by its name where it has one.
pub fn shown(key: &str) -> String {
    keys::name_of(key).and_then(|name| name.to_str().ok()).unwrap_or(key).to_owned()
}

/// An attribute, and below it what is in its value.
pub fn info(info: &Info, depth: usize) -> String {
    below(&shown(&info.key.to_string()), &info.value, depth)
}

/// A value under a title, and below it what is in it.
pub fn below(title: &str, value: &Value, depth: usize) -> String {
    let indent = " ".repeat(depth * STEP);
    let title = plain(title);
    let Value::DataArray(array) = value else { return format!("{indent}{title}: {}\n", line(value)) };
    let mut text = match array.len() {
        0 => format!("{indent}{title}: nothing\n"),
        _ => format!("{indent}{title}:\n"),
    };
    for item in array.items() {
        match item {
            Value::Info(inner) => text += &info(inner, depth + 1),
            Value::DataArray(_) => text += &below("array", item, depth + 1),
            other => text += &format!("{indent}{:STEP$}{}\n", "", line(other)),
        }
    }
    text
}

/// A value in one line.
fn line(value: &Value) -> String {
    let text = match value {
        Value::String(Some(text)) => text.to_string_lossy().into_owned(),
        Value::String(None) => "(null)".into(),
        Value::ProcInfo(about) => {
            let node = about.hostname.as_ref().map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned());
            let program = about.executable.as_ref().map(|name| format!(", {}", name.to_string_lossy()));
            format!(
                "{} on {node}, pid {}, {}{}",
                about.proc,
                about.pid,
                names::PROC_STATE.text(about.state).to_lowercase(),
                program.unwrap_or_default()
            )
        }
        other => other.to_string(),
    };
    plain(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{DataArray, keys};

    #[test]
    fn arrays_are_shown_below_their_keys() {
        let inner = DataArray::of_info(vec![Info::new(keys::NSPACE, "n@1"), Info::new("my.key", 3u32)]);
        let outer = DataArray::of_info(vec![Info::new(keys::JOB_INFO_ARRAY, inner)]);
        let text = info(&Info::new(keys::QUERY_NAMESPACE_INFO, outer), 0);
        assert_eq!(text, "PMIX_QUERY_NAMESPACE_INFO:\n  PMIX_JOB_INFO_ARRAY:\n    PMIX_NSPACE: n@1\n    my.key: 3\n");
        assert_eq!(info(&Info::new("k", "a\nb"), 0), "k: a\\nb\n");
    }
}
