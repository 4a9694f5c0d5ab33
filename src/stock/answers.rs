//! Answers to stock clients: a reply of the server becomes the body of a message.
use std::sync::Arc;

use super::ack::Release;
use super::body::Bodies;
use super::job_info::Packed;
use super::requests::{Answer, command};
use crate::data::{Channels, DataType, Info, Nspace, Proc, Rank, Status, Text, Value, keys};
use crate::message::Reply;
use crate::wire::{Form, WireError};

/// A job, and its information as a client takes it, which begins with its name.
pub type Told = (Nspace, Option<Arc<Packed>>);

type Written = Result<Vec<u8>, WireError>;

/// First release that is told the members of a group that it constructs. Earlier ones take what comes behind the status
/// for the context.
const GROUPS_WITH_MEMBERS: Release = [4, 2, 4];
/// First release that is told attributes of it.
const GROUPS_BY_INFO: Release = [6, 0, 0];

/// First release whose clients end their connection at a longer message than this.
const SHORT_MESSAGES: Release = [6, 1, 0];
const LONGEST_OF_THESE: usize = 32 << 20;

/// A status alone, which every request that fails is answered with.
pub fn status(form: Form, status: Status) -> Written {
    let mut out = Bodies::new(form);
    out.one(DataType::STATUS, &plain(status))?;
    Ok(out.bytes)
}

/// Returns a status as clients are told it: what was done at once is done.
fn plain(status: Status) -> Status {
    if status == Status::OPERATION_SUCCEEDED { Status::SUCCESS } else { status }
}

/// The answer to a request of a client of that release. `jobs` are those whose information comes with it.
pub fn body(form: Form, release: Release, answer: Answer, reply: Reply, jobs: &[Told]) -> Written {
    let whole = whole(form, release, answer, reply, jobs)?;
    let is_taken = release < SHORT_MESSAGES || whole.len() <= LONGEST_OF_THESE;
    if is_taken { Ok(whole) } else { status(form, Status::ERR_OUT_OF_RESOURCE) }
}

fn whole(form: Form, release: Release, answer: Answer, reply: Reply, jobs: &[Told]) -> Written {
    use DataType as T;
    let mut out = Bodies::new(form);
    match (answer, reply) {
        (Answer::Data(proc, Some(key)), Reply::Value(value)) => {
            out.one(T::STATUS, &Status::SUCCESS)?;
            out.one(T::BYTE_OBJECT, &data(form, &proc, &[Info { key, flags: 0, value }])?)?;
        }
        (Answer::Data(proc, _), Reply::Infos(Status::SUCCESS, infos)) => {
            out.one(T::STATUS, &Status::SUCCESS)?;
            out.one(T::BYTE_OBJECT, &data(form, &proc, &infos)?)?;
        }
        (Answer::Everything, Reply::Infos(Status::SUCCESS, infos)) => {
            out.one(T::STATUS, &Status::SUCCESS)?.entries(&infos)?;
        }
        (Answer::Peers(nspace), Reply::Value(Value::String(list))) => {
            let list = list.as_ref().and_then(Text::as_str).unwrap_or_default();
            let rank = |text: &str| text.trim().parse().ok().map(|rank| Proc::new(nspace.clone(), Rank(rank)));
            let peers: Vec<Proc> = list.split(',').filter_map(rank).collect();
            out.one(T::STATUS, &Status::SUCCESS)?.list(T::PROC, &peers)?;
        }
        (Answer::Nodes, Reply::Value(Value::String(list))) => {
            out.one(T::STATUS, &Status::SUCCESS)?.one(T::STRING, &list)?;
        }
        (Answer::Published, Reply::Published(found, items)) => {
            out.one(T::STATUS, &found)?;
            // Releases before 7 leave aside what comes with less than everything; those from it on fail without it.
            if [Status::SUCCESS, Status::ERR_PARTIAL_SUCCESS].contains(&found) {
                out.published(&items)?;
            }
        }
        (Answer::Spawned, Reply::Done(result)) => {
            out.one(T::STATUS, &plain(result))?;
            match jobs.first() {
                Some(job) => out.bytes.extend(told(form, job)?),
                None => drop(out.one(T::STRING, &None::<Text>)?),
            }
        }
        (Answer::Connected(_), Reply::Done(Status::SUCCESS)) => {
            out.one(T::STATUS, &Status::SUCCESS)?;
            for job in jobs {
                out.one(T::BYTE_OBJECT, &told(form, job)?)?;
            }
        }
        (Answer::Infos, Reply::Infos(found, infos)) => {
            out.one(T::STATUS, &plain(found))?.infos(&infos)?;
        }
        (Answer::Infos, Reply::Done(done)) if plain(done) == Status::SUCCESS => {
            out.one(T::STATUS, &Status::SUCCESS)?.infos(&[])?;
        }
        (Answer::Credential, Reply::Credential(bytes, infos)) => {
            out.one(T::STATUS, &Status::SUCCESS)?.one(T::BYTE_OBJECT, &bytes)?.infos(&infos)?;
        }
        (Answer::Pull(id), Reply::Done(Status::SUCCESS)) => {
            out.one(T::STATUS, &Status::SUCCESS)?.size(id)?;
        }
        (Answer::Group(asked), Reply::Infos(made, infos)) => {
            let found = |key| infos.iter().find(|info| info.key == key);
            let members = found(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs()).unwrap_or(asked);
            let context = found(keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64());
            out.one(T::STATUS, &plain(made))?;
            if release >= GROUPS_WITH_MEMBERS {
                out.list(T::PROC, &members)?;
            }
            if release < GROUPS_BY_INFO {
                out.size(context.unwrap_or_default())?;
            } else {
                out.one(T::BOOL, &context.is_some())?;
                if let Some(context) = context {
                    out.size(context)?;
                }
                let own = [keys::GROUP_MEMBERSHIP, keys::GROUP_CONTEXT_ID, keys::GROUP_ID];
                let rest: Vec<Info> = infos.into_iter().filter(|info| own.iter().all(|key| info.key != *key)).collect();
                out.infos(&rest)?;
            }
        }
        (_, Reply::Done(done) | Reply::Infos(done, _)) => return status(form, done),
        // No request of this door has such a reply.
        (_, _) => return status(form, Status::ERR_NOT_SUPPORTED),
    }
    Ok(out.bytes)
}

/// Information of a job: its name alone where nothing is known.
fn told(form: Form, (nspace, packed): &Told) -> Written {
    let mut out = Bodies::new(form);
    match packed {
        Some(packed) => out.bytes.extend_from_slice(&packed.bytes),
        None => drop(out.one(DataType::STRING, nspace)?),
    }
    Ok(out.bytes)
}

/// Data of a process, as the contents of a byte object.
fn data(form: Form, proc: &Proc, entries: &[Info]) -> Written {
    let mut out = Bodies::new(form);
    out.one(DataType::PROC, proc)?.entries(entries)?;
    Ok(out.bytes)
}

/// An event.
pub fn event(form: Form, status: Status, source: &Proc, info: &[Info]) -> Written {
    let mut out = Bodies::new(form);
    out.one(DataType::COMMAND, &command::NOTIFY)?.one(DataType::STATUS, &status)?;
    out.one(DataType::PROC, source)?.infos(info)?;
    Ok(out.bytes)
}

/// Output of a process.
pub fn output(form: Form, pull: u64, source: &Proc, channel: Channels, bytes: Vec<u8>, info: &[Info]) -> Written {
    let mut out = Bodies::new(form);
    out.one(DataType::PROC, source)?.one(DataType::IOF_CHANNEL, &channel)?.size(pull)?;
    out.infos(info)?.one(DataType::BYTE_OBJECT, &bytes)?;
    Ok(out.bytes)
}
