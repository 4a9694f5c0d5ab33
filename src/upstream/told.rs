//! Words of a stock server, for the plug-in that stands in it: read there as a client would read them.
use super::answers;
use super::job_info;
use crate::data::{DataType, Info, Key, Nspace, Rank, Text, Value, keys};
use crate::stock::body::Body;
use crate::store::{Datum, JobInfo, JobInfoBuilder};
use crate::wire::{Form, WireError, zlib};

/// Job information as a server tells it to its clients, sorted: that of the job, and that of its processes, whose entries
/// are still packed.
struct Told {
    nspace: Option<Nspace>,
    job: Vec<Info>,
    processes: Vec<Vec<u8>>,
}

impl Told {
    fn read(answer: &[u8]) -> Result<Told, WireError> {
        let mut body = Body::new(answer, Form::Plain);
        let nspace = body.one::<Option<Text>>(DataType::STRING)?.and_then(|name| Nspace::new(name).ok());
        let mut told = Told { nspace, job: Vec::new(), processes: Vec::new() };
        while !body.is_empty() {
            let (key, value) = body.entry()?;
            match value {
                Value::ByteObject(packed) if key == keys::PROC_BLOB => told.processes.push(packed),
                value => told.job.push(Info { key, flags: 0, value }),
            }
        }
        Ok(told)
    }
}

/// Reads what the server tells a process about its job, for the segments of it: as `job_info::read`, but one process
/// after the other, because a job may have very many.
///
/// # Errors
/// Says what cannot be understood; the information of another job, or some of it, is none.
pub fn job(answer: &[u8], nspace: &Nspace, local: u32, asker: Rank) -> Result<JobInfo, String> {
    let text = |error: WireError| error.to_string();
    let told = Told::read(answer).map_err(text)?;
    let is_whole = told.job.iter().any(|info| info.key == keys::JOB_SIZE);
    if told.nspace.as_ref() != Some(nspace) || !is_whole {
        return Err("the answer is not the information of the job".into());
    }
    let mut host = told.job.iter().find(|info| info.key == keys::HOSTNAME).map(|info| info.value.clone());
    for packed in &told.processes {
        let (rank, entries) = job_info::process(packed).map_err(text)?;
        if rank == asker {
            let said = entries.into_iter().find(|(key, _)| key == keys::HOSTNAME);
            host = said.map(|(_, value)| value).or(host);
            break;
        }
    }
    let host = host.and_then(|name| name.as_text().map(ToString::to_string)).unwrap_or_default();
    let bad = |error: crate::store::BadJobInfo| error.to_string();
    let mut builder = JobInfoBuilder::new(nspace, local, &host);
    builder.owned_infos(told.job).map_err(bad)?;
    for packed in told.processes {
        let (rank, entries) = job_info::process(&packed).map_err(text)?;
        let values = entries.iter().map(|(key, value): &(Key, Value)| (key.as_bytes(), Datum::from(value)));
        builder.process(rank.0, values).map_err(bad)?;
    }
    builder.build().map_err(bad)
}

/// Reads a packed value, as the process has put it.
pub fn value(packed: &[u8]) -> Option<Value> {
    let mut body = Body::new(packed, Form::Plain);
    let value = body.one::<Value>(DataType::VALUE).ok().filter(|_| body.is_empty())?;
    zlib::inflated(value, &mut answers::MAX_INFLATED.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{JobWriter, Limits};

    #[test]
    fn segments_say_what_a_process_is_told() {
        let nspace = Nspace::new("job").unwrap();
        let answer = job_info::tests::answer(&nspace, 4, 3);
        let info = job(&answer, &nspace, 2, Rank(1)).unwrap();
        let as_a_process = job_info::read(&answer, &nspace).unwrap();
        let as_a_process = JobInfo::from_infos(&nspace, 2, &as_a_process.info, "here").unwrap();
        let all = |info: JobInfo| {
            let writer = JobWriter::create(&nspace, info, &Limits::default()).unwrap();
            let of = |rank| writer.reader().all(rank).unwrap();
            (of(Rank::WILDCARD), [0, 1, 2, 3].map(|rank| of(Rank(rank))), writer.reader().job_size())
        };
        let (found, expected) = (all(info), all(as_a_process));
        assert_eq!(found.2, 4);
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_all_of_the_jobs_own_is_refused() {
        let nspace = Nspace::new("job").unwrap();
        let answer = job_info::tests::answer(&nspace, 4, 3);
        for cut in 0..answer.len() {
            // Whole words are left where an entry ends.
            if let Ok(info) = job(&answer[..cut], &nspace, 2, Rank(1)) {
                assert_eq!(info.size(), 4, "{cut}");
            }
        }
        for at in 0..answer.len() {
            let mut damaged = answer.clone();
            damaged[at] ^= 0xff;
            let _ = job(&damaged, &nspace, 2, Rank(1)).map(|info| JobWriter::create(&nspace, info, &Limits::default()));
            let _ = value(&damaged);
        }
        assert!(job(&answer, &Nspace::new("other").unwrap(), 2, Rank(1)).is_err());
        assert!(value(&[]).is_none() && value(&answer).is_none());
    }

    #[test]
    fn a_packed_value_is_read() {
        let mut packed = crate::stock::body::Bodies::new(Form::Plain);
        packed.one(DataType::VALUE, &Value::Uint32(7)).unwrap();
        assert_eq!(value(&packed.bytes), Some(Value::Uint32(7)));
        for value in [Value::string("text"), Value::from(vec![1u8; 300])] {
            let mut packed = crate::stock::body::Bodies::new(Form::Plain);
            packed.one(DataType::VALUE, &value).unwrap();
            assert_eq!(super::value(&packed.bytes), Some(value));
        }
    }
}
