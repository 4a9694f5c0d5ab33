//! Versions of the protocol, as the first line of a process asks for one, and the commands of their answers.
use super::words::Words;

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// PMI-1, whose subversion is this.
    One(i64),
    /// PMI-2.
    Two,
}

impl Version {
    /// Reads the first line of a process; none where it asks for no version that is spoken here.
    pub fn asked_by(words: &Words<'_>) -> Option<Self> {
        match (words.number("pmi_version")?, words.number("pmi_subversion").unwrap_or(0)) {
            (1, minor) => Some(Version::One(minor.clamp(0, 2))),
            (2, _) => Some(Version::Two),
            _ => None,
        }
    }

    /// The answer to that line.
    pub fn response(self, is_in: bool) -> Vec<u8> {
        let (major, minor) = match self {
            Version::One(minor) => (1, minor),
            Version::Two => (2, 0),
        };
        let rc = if is_in { "0" } else { "-1" };
        format!("cmd=response_to_init pmi_version={major} pmi_subversion={minor} rc={rc}\n").into_bytes()
    }
}

/// The command of the answer to a command.
pub fn answer_of(version: Version, command: &[u8]) -> Vec<u8> {
    if version == Version::Two {
        return [command, b"-response"].concat();
    }
    let answer: &[u8] = match command {
        b"get_maxes" => b"maxes",
        b"get_universe_size" => b"universe_size",
        b"get_appnum" => b"appnum",
        b"get_my_kvsname" => b"my_kvsname",
        b"put" => b"put_result",
        b"get" => b"get_result",
        b"barrier_in" => b"barrier_out",
        b"publish_name" => b"publish_result",
        b"unpublish_name" => b"unpublish_result",
        b"lookup_name" => b"lookup_result",
        b"spawn" => b"spawn_result",
        b"finalize" => b"finalize_ack",
        b"create_kvs" => b"newkvs",
        b"destroy_kvs" => b"kvs_destroyed",
        b"getbyidx" => b"getbyidx_results",
        other => other,
    };
    answer.to_vec()
}
