//! Information of a job, as a stock server tells it to one of its clients: attributes as a host would register them.
use super::error::JoinError;
use crate::data::{DataArray, DataType, Info, Key, Nspace, Proc, Rank, Status, Text, Value, keys};
use crate::stock::body::Body;
use crate::stock::requests::command;
use crate::wire::{Form, WireError};

/// The request for it.
pub fn request() -> Vec<u8> {
    super::commands::body(command::JOB_INFO, |_| Ok(())).expect("a command alone is short")
}

/// The request for all that is known of a job, as values.
pub fn request_values(nspace: &Nspace) -> Vec<u8> {
    super::commands::get(&Proc::new(nspace.clone(), Rank::WILDCARD), None, &[Info::new(keys::IMMEDIATE, true)])
        .expect("the name of a job is short")
}

/// Information of a job.
#[derive(Debug, Default, PartialEq)]
pub struct JobInfo {
    pub nspace: Option<Nspace>,
    /// Attributes for a registration.
    pub info: Vec<Info>,
}

impl JobInfo {
    /// Returns whether it is the information of a job, and not some of it.
    pub fn is_whole(&self) -> bool {
        self.info.iter().any(|info| info.key == keys::JOB_SIZE)
    }

    /// Completes what a server knows of the job of a tool, which is alone in it.
    pub fn of_tool(mut self, tool: &Proc, server: &Proc) -> Self {
        let size = tool.rank.0.saturating_add(1);
        let own = [
            Info::new(keys::JOB_SIZE, size),
            Info::new(keys::UNIV_SIZE, size),
            Info::new(keys::SERVER_NSPACE, Value::string(&server.nspace)),
            Info::new(keys::SERVER_RANK, server.rank),
        ];
        let missing = own.into_iter().filter(|own| self.info.iter().all(|info| info.key != own.key));
        let missing: Vec<Info> = missing.collect();
        self.info.extend(missing);
        self
    }

    /// Adds what the answer to [`request_values`] says of the job, which counts more.
    pub fn add(&mut self, known: Vec<Info>) {
        self.info.retain(|info| known.iter().all(|other| other.key != info.key));
        self.info.extend(known);
    }

    /// Returns the node that a rank runs on, where that is said.
    pub fn hostname_of(&self, rank: Rank) -> Option<Text> {
        let arrays = self.info.iter().filter(|info| info.key == keys::PROC_INFO_ARRAY);
        let mut of_rank = arrays
            .filter_map(|info| info.value.as_array())
            .filter(|array| array.infos().any(|info| info.key == keys::RANK && info.value == Value::ProcRank(rank)));
        let said = of_rank.find_map(|array| array.infos().find(|info| info.key == keys::HOSTNAME).cloned());
        let own = || self.info.iter().find(|info| info.key == keys::HOSTNAME).cloned();
        match said.or_else(own)?.value {
            Value::String(text) => text,
            _ => None,
        }
    }
}

/// Reads the answer for the own job.
///
/// # Errors
/// [`JoinError::Refused`] with the status that the server gives, [`JoinError::NotAvailable`] where it cannot be read.
pub fn read(bytes: &[u8], nspace: &Nspace) -> Result<JobInfo, JoinError> {
    let mut body = Body::new(bytes, Form::Plain);
    let unreadable = |error: WireError| {
        JoinError::NotAvailable(format!("the server's information about {nspace} cannot be read: {error}"))
    };
    if let Some(status) = refusal(bytes) {
        return Err(refused(nspace, status));
    }
    named(&mut body).map_err(unreadable)
}

/// Error of a server that gives no information about a job.
pub fn refused(nspace: &Nspace, status: Status) -> JoinError {
    let proc = Proc::new(nspace.clone(), Rank::WILDCARD);
    JoinError::Refused { proc, status, reason: "no information about its job" }
}

/// Returns the status that stands in place of an answer.
fn refusal(bytes: &[u8]) -> Option<Status> {
    let mut body = Body::new(bytes, Form::Plain);
    let status = body.one::<Status>(DataType::STATUS).ok()?;
    body.is_empty().then_some(status)
}

/// Reads a namespace, and its entries to the end.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn named(body: &mut Body<'_>) -> Result<JobInfo, WireError> {
    let nspace = body.one::<Option<Text>>(DataType::STRING)?.and_then(|name| Nspace::new(name).ok());
    Ok(JobInfo { nspace, info: entries(body)? })
}

/// Reads entries to the end.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn entries(body: &mut Body<'_>) -> Result<Vec<Info>, WireError> {
    let mut info = Vec::new();
    while !body.is_empty() {
        let (key, value) = body.entry()?;
        match value {
            Value::ByteObject(packed) if key == keys::PROC_BLOB => info.push(of_rank(&packed)?),
            value => info.push(Info { key, flags: 0, value }),
        }
    }
    Ok(info)
}

/// A rank and its entries, as an array.
fn of_rank(packed: &[u8]) -> Result<Info, WireError> {
    let (rank, entries) = process(packed)?;
    let entries = entries.into_iter().map(|(key, value)| Info { key, flags: 0, value });
    let all = std::iter::once(Info::new(keys::RANK, rank)).chain(entries).collect();
    Ok(Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(all)))
}

/// Reads a rank and its entries, which are packed in the form of all that comes from there.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn process(packed: &[u8]) -> Result<(Rank, Vec<(Key, Value)>), WireError> {
    let mut body = Body::new(packed, Form::Plain);
    let rank = body.one::<Rank>(DataType::PROC_RANK)?;
    let mut entries = Vec::new();
    while !body.is_empty() {
        entries.push(body.entry()?);
    }
    Ok((rank, entries))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::stock::body::Bodies;

    /// A job of that size, the first ranks of which are said to be on the node `here`.
    pub fn answer(nspace: &Nspace, size: u32, ranks: u32) -> Vec<u8> {
        let mut out = Bodies::new(Form::Plain);
        out.one(DataType::STRING, nspace).unwrap();
        out.entry(&Key::new(keys::JOB_SIZE).unwrap(), &Value::Uint32(size)).unwrap();
        for rank in 0..ranks {
            let mut of_rank = Bodies::new(Form::Plain);
            of_rank.one(DataType::PROC_RANK, &Rank(rank)).unwrap();
            of_rank.entry(&Key::new(keys::HOSTNAME).unwrap(), &Value::string("here")).unwrap();
            out.entry(&Key::new(keys::PROC_BLOB).unwrap(), &Value::ByteObject(of_rank.bytes)).unwrap();
        }
        out.bytes
    }

    #[test]
    fn an_answer_is_read_as_a_registration() {
        let nspace = Nspace::new("job").unwrap();
        let of = |rank: u32| {
            let entries = vec![Info::new(keys::RANK, Rank(rank)), Info::new(keys::HOSTNAME, "here")];
            Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(entries))
        };
        let bytes = answer(&nspace, 2, 2);
        let found = read(&bytes, &nspace).unwrap();
        let info = vec![Info::new(keys::JOB_SIZE, 2u32), of(0), of(1)];
        assert_eq!(found, JobInfo { nspace: Some(nspace.clone()), info });
        assert_eq!(found.hostname_of(Rank(1)), Some(Text::new("here").unwrap()));
        assert_eq!(found.hostname_of(Rank(2)), None);
        for cut in 0..bytes.len() {
            let _ = read(&bytes[..cut], &nspace);
        }
    }

    #[test]
    fn a_status_in_place_of_an_answer_is_a_refusal() {
        let mut out = Bodies::new(Form::Plain);
        out.one(DataType::STATUS, &Status::ERR_NOT_FOUND).unwrap();
        let refused = read(&out.bytes, &Nspace::new("job").unwrap());
        assert!(matches!(refused, Err(JoinError::Refused { status: Status::ERR_NOT_FOUND, .. })));
    }
}
