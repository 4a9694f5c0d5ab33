//! Job information as the words of an info segment.
use instanton_layout::info::{Contents, Member as Built, SharedKeys, build};
use instanton_layout::record::{self, Keys, Owner};

use super::encode::Encode;
use super::job_info::{Entries, JobInfo, Member};
use super::write_error::WriteError;

/// The words of generation `generation`.
pub(super) fn info_words(info: &JobInfo, job: u64, generation: u64) -> Result<Vec<u64>, WriteError> {
    let mut keys = SharedKeys::default();
    let job_record = encode(Owner::Job, 0, &info.job, &mut keys)?;
    // The own node first: what a process reads first lies together.
    let contents = Contents {
        size: info.size,
        rows: info.rows.clone(),
        own_node: info.own_node,
        job: job_record,
        groups: [
            members(Owner::Node, &info.nodes, &mut keys)?,
            members(Owner::App, &info.apps, &mut keys)?,
            members(Owner::Session, &info.sessions, &mut keys)?,
        ],
        processes: (0u32..)
            .zip(&info.processes)
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(rank, entries)| Ok((rank, encode(Owner::Process, rank, entries, &mut keys)?)))
            .collect::<Result<_, WriteError>>()?,
        keys,
    };
    build(contents, job, generation).ok_or(WriteError::TooLarge { bytes: u64::from(u32::MAX) * 8 })
}

fn members<'a>(kind: Owner, members: &'a [Member], keys: &mut impl Keys) -> Result<Vec<Built<'a>>, WriteError> {
    (0u32..)
        .zip(members)
        .map(|(index, member)| {
            let record = encode(kind, index, &member.entries, keys)?;
            Ok(Built { number: member.number, name: member.name.as_deref(), record })
        })
        .collect()
}

fn encode(kind: Owner, owner: u32, entries: &Entries, keys: &mut impl Keys) -> Result<Vec<u64>, WriteError> {
    let encoded = entries
        .iter()
        .map(|(key, value)| Encode::new(0, key, value).map_err(|error| WriteError::value(key, error)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(record::build(kind, owner, encoded.iter().map(Encode::item), keys))
}
