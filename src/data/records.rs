//! The small structures that a value can hold, one for each of the Standard's.
use rkyv::{Archive, Deserialize, Serialize};

use super::{DataType, Key, Proc, Text};

/// A `struct timeval`.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Timeval {
    /// Seconds.
    pub sec: i64,
    /// Microseconds.
    pub usec: i64,
}

/// A `pmix_envar_t`: an environment variable and the separator of its parts.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Envar {
    /// Name.
    pub name: Option<Text>,
    /// Value.
    pub value: Option<Text>,
    /// Separator, a byte; 0 for none.
    pub separator: u8,
}

/// A `pmix_proc_info_t`: a process and what became of it.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct ProcInfo {
    /// Name of the process.
    pub proc: Proc,
    /// Node that it runs on.
    pub hostname: Option<Text>,
    /// Program that it runs.
    pub executable: Option<Text>,
    /// Its process id.
    pub pid: i32,
    /// Its exit code, 0 while it runs.
    pub exit_code: i32,
    /// A `constants::proc_state`.
    pub state: u8,
}

/// A `pmix_regattr_t`: an attribute that somebody supports.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct RegAttr {
    /// The attribute's name, `PMIX_JOB_SIZE`.
    pub name: Option<Text>,
    /// Its key, `pmix.job.size`.
    pub key: Option<Key>,
    /// The type of its value.
    pub data_type: DataType,
    /// Description of its meaning, line by line.
    pub description: Vec<Text>,
}

/// A `pmix_node_pid_t`: an operating system's process on a node.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct NodePid {
    /// The node's name.
    pub hostname: Option<Text>,
    /// The node's number.
    pub nodeid: u32,
    /// The process id there.
    pub pid: i32,
}

/// A `pmix_regex2_t`: a map expression with its method beside it instead of in front.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Regex2 {
    /// Method by which `bytes` are to be read.
    pub method: Option<Text>,
    /// The expression.
    #[rkyv(with = super::archive::Bytes)]
    pub bytes: Vec<u8>,
}
