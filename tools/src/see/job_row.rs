//! Jobs as a launcher tells of them: rows in the answer to a query of its own.
use instanton::data::{DataArray, Info, InfoList, Value, keys};

/// The query key whose answer is a launcher's jobs: for each an array of attributes, in the order of their numbers.
pub const JOBS: &str = "instanton.jobs";

const NUMBER: &str = "instanton.job.number";
const STATE: &str = "instanton.state";

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// Its number.
    pub number: u32,
    /// Its namespace.
    pub nspace: String,
    /// Number of its ranks.
    pub ranks: u32,
    /// Its activity, in a word.
    pub state: String,
    /// Start of it, in seconds since 1970.
    pub since: u64,
    /// Its programs and their arguments.
    pub command: String,
}

impl JobRow {
    fn into_info(self) -> Info {
        let infos = vec![
            Info::new(keys::NSPACE, Value::string(&self.nspace)),
            Info::new(keys::JOB_SIZE, self.ranks),
            Info::new(keys::CMD_LINE, Value::string(self.command.replace('\0', " "))),
            Info::new(keys::EVENT_TIMESTAMP, Value::Time(i64::try_from(self.since).unwrap_or(i64::MAX))),
            Info::new(NUMBER, self.number),
            Info::new(STATE, Value::string(&self.state)),
        ];
        Info::new(keys::JOB_INFO_ARRAY, DataArray::of_info(infos))
    }

    fn from_infos(infos: &[Info]) -> Option<Self> {
        let text = |key| infos.find(key)?.value.as_text().map(|text| text.to_string_lossy().into_owned());
        let since = infos.find(keys::EVENT_TIMESTAMP).map(|info| &info.value);
        Some(Self {
            number: infos.find(NUMBER)?.value.as_u32()?,
            nspace: text(keys::NSPACE)?,
            ranks: infos.find(keys::JOB_SIZE)?.value.as_u32()?,
            state: text(STATE)?,
            since: if let Some(Value::Time(since)) = since { u64::try_from(*since).unwrap_or(0) } else { 0 },
            command: text(keys::CMD_LINE).unwrap_or_default(),
        })
    }
}

/// The answer of a launcher.
pub fn into_value(rows: impl IntoIterator<Item = JobRow>) -> Value {
    Value::DataArray(DataArray::of_info(rows.into_iter().map(JobRow::into_info).collect()))
}

/// Reads such an answer; rows that make no sense are left out.
pub fn from_value(value: &Value) -> Vec<JobRow> {
    arrays(value).iter().filter_map(|row| JobRow::from_infos(row)).collect()
}

/// The arrays of attributes in an array of them.
pub fn arrays(value: &Value) -> Vec<Vec<Info>> {
    let Value::DataArray(array) = value else { return Vec::new() };
    let inner = |info: &Info| match &info.value {
        Value::DataArray(inner) => Some(inner.infos().cloned().collect()),
        _ => None,
    };
    array.infos().filter_map(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_sent() {
        let row = JobRow {
            number: 3,
            nspace: "n@3".into(),
            ranks: 8,
            state: "running".into(),
            since: 1_700_000_000,
            command: "sleep 1000".into(),
        };
        let value = into_value([row.clone()]);
        assert_eq!(from_value(&value), [row]);
        assert_eq!(from_value(&Value::from(true)), []);
    }
}
