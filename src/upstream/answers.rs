//! Answers of a stock server: the body of a message becomes what a host answers.
use super::job_info::{self, JobInfo};
use crate::data::{DataArray, DataType, Info, Pdata, Posted, Proc, Scope, Status, Value, keys};
use crate::server::{Credential, Infos, Published};
use crate::stock::body::Body;
use crate::wire::{Form, WireError, zlib};

use DataType as T;

/// First release with the newer answer to a group construct.
const GROUPS_BY_INFO: u32 = 6;
/// Context id that servers of releases before 4.2.4 give a group without one.
const NO_CONTEXT: usize = usize::MAX;
/// Most bytes that the compressed values of one answer become, together.
pub const MAX_INFLATED: usize = 256 << 20;

/// Reads the status of an answer, and with `read` what follows if it is a good one.
///
/// # Errors
/// The status, and `ERR_UNPACK_FAILURE` and its like for bytes that cannot be read.
pub fn read<'a, V>(
    bytes: &'a [u8],
    read: impl FnOnce(Status, &mut Body<'a>) -> Result<V, WireError>,
) -> Result<V, Status> {
    let mut body = Body::new(bytes, Form::Plain);
    let status = body.one::<Status>(T::STATUS)?;
    match status {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(read(Status::SUCCESS, &mut body)?),
        // Some of what was asked for comes with it.
        Status::ERR_PARTIAL_SUCCESS if !body.is_empty() => Ok(read(status, &mut body)?),
        failed => Err(failed),
    }
}

pub fn nothing(_: Status, _: &mut Body<'_>) -> Result<(), WireError> {
    Ok(())
}

/// Attributes, where some follow.
pub fn infos(status: Status, body: &mut Body<'_>) -> Result<Infos, WireError> {
    Ok((status, if body.is_empty() { Vec::new() } else { body.infos()? }))
}

pub fn published(status: Status, body: &mut Body<'_>) -> Result<Published, WireError> {
    Ok((status, body.list::<Pdata>(T::PDATA)?))
}

pub fn credential(_: Status, body: &mut Body<'_>) -> Result<Credential, WireError> {
    Ok((body.one(T::BYTE_OBJECT)?, body.infos()?))
}

/// The namespace of a job that was started, and what the job is told.
pub fn spawned(_: Status, body: &mut Body<'_>) -> Result<JobInfo, WireError> {
    job_info::named(body)
}

/// Jobs that the caller is connected with now.
pub fn connected(_: Status, body: &mut Body<'_>) -> Result<Vec<JobInfo>, WireError> {
    let mut jobs = Vec::new();
    while !body.is_empty() {
        let packed = body.one::<Vec<u8>>(T::BYTE_OBJECT)?;
        jobs.push(job_info::named(&mut Body::new(&packed, Form::Plain))?);
    }
    Ok(jobs)
}

/// The server's number of a pull of output.
pub fn pull(_: Status, body: &mut Body<'_>) -> Result<u64, WireError> {
    if body.is_empty() { Ok(0) } else { body.one(T::SIZE) }
}

/// Members and context of a group, in the form of the server's release. Where that is not known, the answer shows it:
/// nothing comes behind the context in the older forms. Before 4.2.4, there is the context alone.
pub fn group(major: u32, status: Status, body: &mut Body<'_>) -> Result<Infos, WireError> {
    if body.is_empty() {
        return Ok((status, Vec::new()));
    }
    let mut alone = body.clone();
    if let Ok(context) = alone.one::<usize>(T::SIZE)
        && alone.is_empty()
    {
        let context = (context != NO_CONTEXT).then(|| Value::Size(context as u64));
        return Ok((status, context.into_iter().map(|context| Info::new(keys::GROUP_CONTEXT_ID, context)).collect()));
    }
    let members: Vec<Value> = body.list::<Proc>(T::PROC)?.into_iter().map(Value::Proc).collect();
    let mut found = Vec::new();
    let by_info = match major {
        0 => {
            let mut rest = body.clone();
            rest.one::<usize>(T::SIZE).is_err() || !rest.is_empty()
        }
        major => major >= GROUPS_BY_INFO,
    };
    let has_context = if by_info { body.one(T::BOOL)? } else { true };
    if has_context && !body.is_empty() {
        let context = body.one::<usize>(T::SIZE)?;
        found.push(Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context as u64)));
    }
    if !members.is_empty() {
        let members = DataArray::new(T::PROC, members).map_err(|_| WireError::Malformed("members"))?;
        found.push(Info::new(keys::GROUP_MEMBERSHIP, members));
    }
    if by_info && !body.is_empty() {
        found.extend(body.infos()?);
    }
    Ok((status, found))
}

/// Entries that a process has posted, and values that are said of it: everything that follows, of whichever process it
/// is.
pub fn data(_: Status, body: &mut Body<'_>) -> Result<Vec<(Proc, Vec<Info>)>, WireError> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let packed = body.one::<Vec<u8>>(T::BYTE_OBJECT)?;
        let mut inner = Body::new(&packed, Form::Plain);
        let proc = inner.one::<Proc>(T::PROC)?;
        all.push((proc, job_info::entries(&mut inner)?));
    }
    Ok(all)
}

/// Entries of processes as their own servers would bring them: what is compressed comes out of it, because no server
/// compresses what it hands on to its own clients.
pub fn posted(found: Vec<(Proc, Vec<Info>)>) -> Vec<(Proc, Vec<Posted>)> {
    let mut left = MAX_INFLATED;
    let mut plain = |Info { key, value, .. }: Info| {
        let value = zlib::inflated(value, &mut left)?;
        Some(Posted { scope: Scope::GLOBAL, key, value })
    };
    found.into_iter().map(|(proc, entries)| (proc, entries.into_iter().filter_map(&mut plain).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Key, Nspace, Rank};
    use crate::message::Reply;
    use crate::stock::ack::Release;
    use crate::stock::answers as door;
    use crate::stock::body::Bodies;
    use crate::stock::requests::Answer;

    const OLD: Release = [4, 2, 9];

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn told(release: Release, answer: Answer, reply: Reply) -> Vec<u8> {
        door::body(Form::Plain, release, answer, reply, &[]).unwrap()
    }

    /// The stock door of a server here is the other side of each answer.
    #[test]
    fn answers_are_read_as_the_door_writes_them() {
        let infos = vec![Info::new("x", 7u32)];
        let bytes = told(OLD, Answer::Infos, Reply::Infos(Status::SUCCESS, infos.clone()));
        assert_eq!(read(&bytes, super::infos), Ok((Status::SUCCESS, infos.clone())));
        let bytes = told(OLD, Answer::Data(proc(1), None), Reply::Infos(Status::SUCCESS, infos.clone()));
        assert_eq!(read(&bytes, data), Ok(vec![(proc(1), infos.clone())]));
        let item = Pdata { proc: proc(2), key: Key::new("k").unwrap(), value: Value::Uint32(3) };
        for found in [Status::SUCCESS, Status::ERR_PARTIAL_SUCCESS] {
            let bytes = told(OLD, Answer::Published, Reply::Published(found, vec![item.clone()]));
            assert_eq!(read(&bytes, published), Ok((found, vec![item.clone()])));
        }
        let bytes = told(OLD, Answer::Status, Reply::Done(Status::ERR_TIMEOUT));
        assert_eq!(read(&bytes, nothing), Err(Status::ERR_TIMEOUT));
    }

    #[test]
    fn a_group_is_read_in_the_form_of_the_release() {
        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(9));
        let other = Info::new("other", 7u32);
        for (release, known) in [(OLD, 4), ([6, 1, 1], 6), (OLD, 0), ([6, 1, 1], 0)] {
            for infos in [vec![], vec![context.clone()], vec![context.clone(), other.clone()], vec![other.clone()]] {
                let reply = Reply::Infos(Status::SUCCESS, infos.clone());
                let bytes = told(release, Answer::Group(vec![proc(0), proc(1)]), reply);
                let (_, found) = read(&bytes, |status, body| group(known, status, body)).unwrap();
                // The older form always has a context, and nothing else.
                let expected: Vec<Info> = match (release[0], infos.contains(&context)) {
                    (6, _) => infos,
                    (_, true) => vec![context.clone()],
                    (_, false) => vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(0))],
                };
                let (members, rest): (Vec<Info>, Vec<Info>) =
                    found.into_iter().partition(|info| info.key == keys::GROUP_MEMBERSHIP);
                assert_eq!(rest, expected, "{release:?} as {known}");
                assert_eq!(members[0].value.as_procs(), Some(vec![proc(0), proc(1)]));
            }
        }
    }

    #[test]
    fn an_answer_that_is_too_long_for_a_release_is_a_status() {
        let long = vec![Info::new("x", vec![0u8; 32 << 20])];
        for (release, is_taken) in [(OLD, true), ([5, 0, 11], true), ([6, 0, 0], true), ([6, 1, 1], false)] {
            let bytes = told(release, Answer::Data(proc(1), None), Reply::Infos(Status::SUCCESS, long.clone()));
            let expected = if is_taken { Ok(vec![(proc(1), long.clone())]) } else { Err(Status::ERR_OUT_OF_RESOURCE) };
            assert!(read(&bytes, data) == expected, "{release:?}");
        }
    }

    /// Its client would take the number of the members for the context.
    #[test]
    fn before_4_2_4_a_group_is_its_context_alone() {
        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(9));
        let reply = |infos: &[Info]| Reply::Infos(Status::SUCCESS, infos.to_vec());
        for release in [[3, 2, 3], [4, 1, 2], [4, 2, 2], [4, 2, 3]] {
            let bytes = told(release, Answer::Group(vec![proc(0), proc(1)]), reply(std::slice::from_ref(&context)));
            let mut body = Body::new(&bytes, Form::Plain);
            assert_eq!((body.one(T::STATUS), body.one(T::SIZE)), (Ok(Status::SUCCESS), Ok(9usize)));
            assert!(body.is_empty());
            let found = read(&bytes, |status, body| group(release[0], status, body));
            assert_eq!(found, Ok((Status::SUCCESS, vec![context.clone()])));
        }
        let mut none = Bodies::new(Form::Plain);
        none.one(T::STATUS, &Status::SUCCESS).unwrap().one(T::SIZE, &NO_CONTEXT).unwrap();
        assert_eq!(read(&none.bytes, |status, body| group(4, status, body)), Ok((Status::SUCCESS, Vec::new())));
    }

    #[test]
    fn compressed_values_of_an_answer_become_no_more_together_than_one_may() {
        let zeros = zlib::compress(&vec![0; MAX_INFLATED / 4]).unwrap();
        let entry = |key: &str| Info::new(key, Value::CompressedByteObject(zeros.clone()));
        let of = |rank| (proc(rank), vec![entry("a"), entry("b")]);
        let counts = posted(vec![of(0), of(1), of(2)]).into_iter().map(|(_, entries)| entries.len());
        assert_eq!(counts.collect::<Vec<_>>(), [2, 2, 0]);
    }

    #[test]
    fn cut_answers_are_refused() {
        let bytes = told(OLD, Answer::Data(proc(1), None), Reply::Infos(Status::SUCCESS, vec![Info::new("x", 7u32)]));
        // Two bytes are a good status and nothing behind it.
        for cut in (0..bytes.len()).filter(|cut| *cut != 2) {
            assert!(read(&bytes[..cut], data).is_err(), "{cut}");
        }
    }
}
