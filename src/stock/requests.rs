//! Requests of stock clients: the body of a message becomes the [`Request`] that a native client would send.
use super::body::{Body, DESCRIBED, PLAIN};
use crate::data::{Channels, DataRange, DataType, Info, Key, Nspace, Posted, Proc, Rank, Scope, Status, Text};
use crate::data::{Value, constants::fabric_operation, keys};
use crate::message::{Forward, GroupCall, Request};
use crate::wire::{Form, WireError, zlib};

/// Commands, by their numbers.
pub mod command {
    pub const JOB_INFO: u8 = 0;
    pub const ABORT: u8 = 1;
    pub const COMMIT: u8 = 2;
    pub const FENCE: u8 = 3;
    pub const GET: u8 = 4;
    pub const FINALIZE: u8 = 5;
    pub const PUBLISH: u8 = 6;
    pub const LOOKUP: u8 = 7;
    pub const UNPUBLISH: u8 = 8;
    pub const SPAWN: u8 = 9;
    pub const CONNECT: u8 = 10;
    pub const DISCONNECT: u8 = 11;
    pub const NOTIFY: u8 = 12;
    pub const REGISTER_EVENTS: u8 = 13;
    pub const DEREGISTER_EVENTS: u8 = 14;
    pub const QUERY: u8 = 15;
    pub const LOG: u8 = 16;
    pub const ALLOCATE: u8 = 17;
    pub const JOB_CONTROL: u8 = 18;
    pub const MONITOR: u8 = 19;
    pub const GET_CREDENTIAL: u8 = 20;
    pub const VALIDATE_CREDENTIAL: u8 = 21;
    pub const PULL_OUTPUT: u8 = 22;
    pub const PUSH_INPUT: u8 = 23;
    pub const GROUP_CONSTRUCT: u8 = 24;
    pub const GROUP_JOIN: u8 = 25;
    pub const GROUP_INVITE: u8 = 26;
    pub const GROUP_LEAVE: u8 = 27;
    pub const GROUP_DESTRUCT: u8 = 28;
    pub const STOP_OUTPUT: u8 = 29;
    pub const FABRIC_REGISTER: u8 = 30;
    pub const FABRIC_UPDATE: u8 = 31;
    pub const REFRESH_CACHE: u8 = 33;
    pub const SESSION_CONTROL: u8 = 35;
    pub const RESOLVE_PEERS: u8 = 37;
    pub const RESOLVE_NODES: u8 = 38;
}

/// A client's request.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// The information of its job.
    JobInfo,
    /// Something that the server answers, and the form of the answer.
    Request(Box<Request>, Answer),
    /// A command that is not served.
    NotSupported,
    /// Something that cannot be read: the status of its answer.
    Unreadable(Status),
}

impl Asked {
    /// Returns the bytes that its lists take here.
    pub fn kept_size(&self) -> usize {
        match self {
            Asked::Request(request, _) => request.kept_size(),
            Asked::JobInfo | Asked::NotSupported | Asked::Unreadable(_) => 0,
        }
    }
}

/// Form of the answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// There is none.
    None,
    /// The status.
    Status,
    /// The data of a process.
    Data(Proc, Option<Key>),
    /// All that is known of a process or a job.
    Everything,
    /// The processes of a namespace on a node.
    Peers(Nspace),
    /// The nodes of a namespace.
    Nodes,
    /// Published data.
    Published,
    /// A namespace, and what its job is told.
    Spawned,
    /// Information of the jobs of these processes.
    Connected(Vec<Proc>),
    /// Attributes.
    Infos,
    /// A credential, and attributes.
    Credential,
    /// The number of a pull.
    Pull(u64),
    /// Members and context of a group.
    Group(Vec<Proc>),
}

/// A sign of life, which nobody answers.
pub fn heartbeat() -> Asked {
    let (monitor, error) = (Info::new(keys::SEND_HEARTBEAT, true), Status::SUCCESS);
    let request = Request::Forward(Forward::Monitor { monitor, error, directives: Vec::new() });
    Asked::Request(Box::new(request), Answer::None)
}

/// From this number on, pulls are those of jobs that a tool has started: it expects their output unasked.
pub const UNASKED: u64 = 1 << 63;

/// Reads a request. `next_pull` is the number of the next pull of output that comes without one.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn read(bytes: &[u8], form: Form, next_pull: u64, room: usize) -> Result<Asked, WireError> {
    use DataType as T;
    let mut body = Body::new(bytes, form).with_room(room);
    let request = |request, answer| Ok(Asked::Request(Box::new(request), answer));
    let forward = |forwarded, answer| request(Request::Forward(forwarded), answer);
    match body.one::<u8>(T::COMMAND)? {
        command::JOB_INFO => Ok(Asked::JobInfo),
        command::ABORT => {
            let status = body.one::<Status>(T::STATUS)?.0;
            let message = body.one::<Option<Text>>(T::STRING)?.map(|text| text.as_bytes().to_vec());
            request(Request::Abort { status, message, procs: body.list(T::PROC)? }, Answer::Status)
        }
        command::COMMIT => request(Request::Commit { entries: posted(&mut body)? }, Answer::Status),
        command::FENCE => {
            let (procs, info) = (body.list(T::PROC)?, body.infos()?);
            request(Request::Fence { procs, info }, Answer::Status)
        }
        command::GET => {
            let proc = Proc::new(body.one::<Nspace>(T::STRING)?, body.one::<Rank>(T::PROC_RANK)?);
            let mut info = body.infos()?;
            // Clients of 4.2 that ask about their own node name none.
            info.retain(|info| info.key != keys::HOSTNAME || info.value != Value::String(None));
            let key = if body.is_empty() { None } else { body.one::<Option<Key>>(T::STRING)? };
            request(Request::Get { proc: proc.clone(), key: key.clone(), info }, Answer::Data(proc, key))
        }
        command::FINALIZE => request(Request::Finalize, Answer::Status),
        command::PUBLISH => {
            body.one::<u32>(T::UINT32)?;
            forward(Forward::Publish { info: body.infos()? }, Answer::Status)
        }
        command::LOOKUP => {
            body.one::<u32>(T::UINT32)?;
            let (keys, info) = (body.list(T::STRING)?, body.infos()?);
            forward(Forward::Lookup { keys, info }, Answer::Published)
        }
        command::UNPUBLISH => {
            body.one::<u32>(T::UINT32)?;
            let (keys, info) = (body.list(T::STRING)?, body.infos()?);
            forward(Forward::Unpublish { keys, info }, Answer::Status)
        }
        command::SPAWN => {
            let (job_info, apps) = (body.infos()?, body.list(T::APP)?);
            forward(Forward::Spawn { job_info, apps }, Answer::Spawned)
        }
        command::CONNECT => {
            let (procs, info) = (body.list::<Proc>(T::PROC)?, body.infos()?);
            request(Request::Connect { procs: procs.clone(), info }, Answer::Connected(procs))
        }
        command::DISCONNECT => {
            let (procs, info) = (body.list(T::PROC)?, body.infos()?);
            request(Request::Disconnect { procs, info }, Answer::Status)
        }
        command::NOTIFY => {
            let (status, range) = (body.one(T::STATUS)?, body.one::<DataRange>(T::DATA_RANGE)?);
            request(Request::Notify { status, range, info: body.infos()? }, Answer::Status)
        }
        command::REGISTER_EVENTS => {
            let (codes, info) = (body.list(T::STATUS)?, body.infos()?);
            request(Request::RegisterEvents { codes, info }, Answer::Status)
        }
        command::DEREGISTER_EVENTS => {
            let mut codes = Vec::new();
            while !body.is_empty() {
                codes.push(body.one(T::STATUS)?);
            }
            request(Request::DeregisterEvents { codes }, Answer::None)
        }
        command::QUERY => forward(Forward::Query { queries: body.list(T::QUERY)? }, Answer::Infos),
        command::LOG => {
            body.one::<u64>(T::TIME)?;
            let (data, directives) = (body.infos()?, body.infos()?);
            forward(Forward::Log { data, directives }, Answer::Status)
        }
        command::ALLOCATE => {
            let (directive, info) = (body.one(T::ALLOC_DIRECTIVE)?, body.infos()?);
            forward(Forward::Allocate { directive, info }, Answer::Infos)
        }
        command::JOB_CONTROL => {
            let (targets, directives) = (body.list(T::PROC)?, body.infos()?);
            request(Request::JobControl { targets, directives }, Answer::Infos)
        }
        command::MONITOR => {
            let (monitor, error) = (body.one::<Info>(T::INFO)?, body.one(T::STATUS)?);
            forward(Forward::Monitor { monitor, error, directives: body.infos()? }, Answer::Infos)
        }
        command::GET_CREDENTIAL => forward(Forward::GetCredential { directives: body.infos()? }, Answer::Credential),
        command::VALIDATE_CREDENTIAL => {
            let (credential, directives) = (body.one(T::BYTE_OBJECT)?, body.infos()?);
            forward(Forward::ValidateCredential { credential, directives }, Answer::Infos)
        }
        command::PULL_OUTPUT => {
            let (procs, directives) = (body.list(T::PROC)?, body.infos()?);
            let channels = body.one::<Channels>(T::IOF_CHANNEL)?;
            // Output comes back under the client's own number, which it gives to another pull when this one is over.
            let id = if body.is_empty() { 0 } else { body.size()? };
            let id = if id == 0 || id >= UNASKED { next_pull } else { id };
            request(Request::PullOutput { id, procs, channels, directives }, Answer::Pull(id))
        }
        command::STOP_OUTPUT => {
            body.infos()?;
            request(Request::StopOutput { id: body.size()? }, Answer::Status)
        }
        command::PUSH_INPUT => {
            let (targets, directives) = (body.list(T::PROC)?, body.infos()?);
            forward(Forward::Push { targets, directives, bytes: body.one(T::BYTE_OBJECT)? }, Answer::Status)
        }
        command::GROUP_CONSTRUCT => {
            let (group, procs) = (body.one::<Nspace>(T::STRING)?, body.list::<Proc>(T::PROC)?);
            let call = GroupCall::Construct { procs: procs.clone(), info: body.infos()? };
            request(Request::Group { group, call, seen: None }, Answer::Group(procs))
        }
        command::GROUP_JOIN => {
            let (group, answer) = (body.one::<Nspace>(T::STRING)?, body.one::<Status>(T::STATUS)?);
            let leader = if body.one::<bool>(T::BOOL)? { Some(body.one::<Proc>(T::PROC)?) } else { None };
            let accept = answer == Status::GROUP_INVITE_ACCEPTED;
            request(
                Request::Group { group, call: GroupCall::Join { leader, accept, info: Vec::new() }, seen: None },
                Answer::Status,
            )
        }
        command::GROUP_INVITE => {
            let (group, procs) = (body.one::<Nspace>(T::STRING)?, body.list::<Proc>(T::PROC)?);
            let (seconds, optional) = (body.one::<u32>(T::UINT32)?, body.one::<bool>(T::BOOL)?);
            let mut info = vec![Info::new(keys::GROUP_OPTIONAL, optional)];
            info.extend(Some(seconds).filter(|seconds| *seconds > 0).map(|seconds| Info::new(keys::TIMEOUT, seconds)));
            let context = body.one::<bool>(T::BOOL)?;
            info.extend(context.then(|| Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)));
            request(Request::Group { group, call: GroupCall::Invite { procs, info }, seen: None }, Answer::Status)
        }
        command::GROUP_LEAVE => {
            let group = body.one::<Nspace>(T::STRING)?;
            request(
                Request::Group { group, call: GroupCall::Leave { info: body.infos()? }, seen: None },
                Answer::Status,
            )
        }
        command::GROUP_DESTRUCT => {
            let group = body.one::<Nspace>(T::STRING)?;
            request(
                Request::Group { group, call: GroupCall::Destruct { info: of_destruct(body)? }, seen: None },
                Answer::Status,
            )
        }
        command::FABRIC_REGISTER => {
            let directives = body.infos()?;
            forward(Forward::Fabric { operation: fabric_operation::FABRIC_REQUEST_INFO, directives }, Answer::Infos)
        }
        command::FABRIC_UPDATE => {
            let directives = vec![Info::new(keys::FABRIC_INDEX, Value::Size(body.size()?))];
            forward(Forward::Fabric { operation: fabric_operation::FABRIC_UPDATE_INFO, directives }, Answer::Infos)
        }
        command::REFRESH_CACHE => {
            let proc = Proc::new(body.one::<Nspace>(T::STRING)?, body.one::<Rank>(T::PROC_RANK)?);
            let info = [keys::GET_REFRESH_CACHE, keys::IMMEDIATE].map(|key| Info::new(key, true)).to_vec();
            request(Request::Get { proc, key: None, info }, Answer::Everything)
        }
        command::SESSION_CONTROL => {
            let (session, directives) = (body.one::<u32>(T::UINT32)?, body.infos()?);
            forward(Forward::SessionControl { session, directives }, Answer::Infos)
        }
        command::RESOLVE_PEERS => {
            let (node, nspace) = (body.one::<Option<Text>>(T::STRING)?, body.one::<Nspace>(T::STRING)?);
            let mut info = vec![Info::new(keys::IMMEDIATE, true), Info::new(keys::NODE_INFO, true)];
            info.extend(node.map(|node| Info::new(keys::HOSTNAME, Value::String(Some(node)))));
            let proc = Proc::new(nspace.clone(), Rank::WILDCARD);
            let key = Key::new(keys::LOCAL_PEERS).ok();
            request(Request::Get { proc, key, info }, Answer::Peers(nspace))
        }
        command::RESOLVE_NODES => {
            let proc = Proc::new(body.one::<Nspace>(T::STRING)?, Rank::WILDCARD);
            let info = vec![Info::new(keys::IMMEDIATE, true)];
            request(Request::Get { proc, key: Key::new(keys::NODE_LIST).ok(), info }, Answer::Nodes)
        }
        _ => Ok(Asked::NotSupported),
    }
}

/// Most bytes that the compressed texts of one commit become, together: others wait meanwhile.
const MOST_INFLATED: usize = 1 << 20;

/// The entries of a commit: those for this node and those for others come one behind the other, and one that is for
/// both comes twice.
fn posted(body: &mut Body<'_>) -> Result<Vec<Posted>, WireError> {
    let mut entries: Vec<Posted> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut left = MOST_INFLATED;
    while !body.is_empty() {
        let scope = body.one::<Scope>(DataType::SCOPE)?;
        if !matches!(scope, Scope::LOCAL | Scope::REMOTE | Scope::GLOBAL) {
            return Err(WireError::Malformed("scope"));
        }
        let mut inner = buffer(body)?;
        while !inner.is_empty() {
            let (key, value) = inner.entry()?;
            let value = zlib::plain(value, &mut left);
            match places.get(&key).and_then(|at: &usize| entries.get_mut(*at)) {
                Some(known) if known.scope != scope => *known = Posted { scope: Scope::GLOBAL, key, value },
                Some(known) => known.value = value,
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push(Posted { scope, key, value });
                }
            }
        }
        body.reader = body.reader.clone().with_room(inner.reader.room());
    }
    Ok(entries)
}

/// The attributes of the end of a group, behind its members. Clients of 4.2 name none.
fn of_destruct(body: Body<'_>) -> Result<Vec<Info>, WireError> {
    let (mut newer, mut older) = (body.clone(), body);
    let with_members = newer.list::<Proc>(DataType::PROC).and_then(|_| newer.infos());
    match with_members {
        Ok(info) if newer.is_empty() => Ok(info),
        other => older.infos().ok().filter(|_| older.is_empty()).map_or(other, Ok),
    }
}

/// A buffer in a pack of its own: the form of what is in it, its length, and its bytes.
fn buffer<'a>(body: &mut Body<'a>) -> Result<Body<'a>, WireError> {
    use crate::wire::Record;
    if body.head(DataType::BUFFER)? != 1 {
        return Err(WireError::Malformed("pack of one element"));
    }
    let form = match u8::get(&mut body.reader)? {
        PLAIN => body.form().described(false),
        DESCRIBED => body.form().described(true),
        _ => return Err(WireError::Malformed("form of packs")),
    };
    let len = usize::get(&mut body.reader)?;
    let bytes = body.reader.raw(len as u64)?;
    Ok(Body::new(bytes, form).with_room(body.reader.room()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::data::{App, DataArray, Query};
    use crate::stock::body::Bodies;
    use crate::wire::Writer;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    /// A commit of entries by their scopes.
    fn commit_of(form: Form, parts: &[(Scope, &[&str])], value: &Value) -> Vec<u8> {
        let mut out = Bodies::new(form);
        out.one(DataType::COMMAND, &command::COMMIT).unwrap();
        for (scope, names) in parts {
            out.one(DataType::SCOPE, scope).unwrap();
            let mut inner = Bodies::new(Form::Plain);
            for name in *names {
                inner.entry(&key(name), value).unwrap();
            }
            let mut to = Writer::new(&mut out.bytes);
            to.head(form, DataType::BUFFER, 1).unwrap();
            to.raw(&[1]);
            to.number(inner.bytes.len() as u64);
            to.raw(&inner.bytes);
        }
        out.bytes
    }

    /// A commit of `both` for both, and `here` for this node.
    fn commit(form: Form) -> Vec<u8> {
        commit_of(form, &[(Scope::LOCAL, &["both", "here"]), (Scope::REMOTE, &["both"])], &Value::Uint32(7))
    }

    #[test]
    fn what_is_for_both_comes_once() {
        for form in [Form::Plain, Form::Described] {
            let posted = |name, scope| Posted { scope, key: key(name), value: Value::Uint32(7) };
            let entries = vec![posted("both", Scope::GLOBAL), posted("here", Scope::LOCAL)];
            let expected = Asked::Request(Box::new(Request::Commit { entries }), Answer::Status);
            assert_eq!(read(&commit(form), form, 1, usize::MAX), Ok(expected));
        }
    }

    #[test]
    fn a_compressed_text_is_taken_in_as_the_text() {
        let compressed = |len: usize| Value::CompressedString(zlib::compress(&vec![b'x'; len]).unwrap());
        let taken_in = |len| {
            let sent = commit_of(Form::Plain, &[(Scope::LOCAL, &["first", "next"])], &compressed(len));
            let Ok(Asked::Request(request, _)) = read(&sent, Form::Plain, 1, usize::MAX) else { panic!() };
            let Request::Commit { entries } = *request else { panic!() };
            entries.into_iter().map(|entry| entry.value).collect::<Vec<_>>()
        };
        let (most, text) = (MOST_INFLATED, |len| Value::string("x".repeat(len)));
        assert_eq!(taken_in(5000), [text(5000), text(5000)]);
        assert_eq!(taken_in(most / 2 + 1), [text(most / 2 + 1), compressed(most / 2 + 1)]);
        assert_eq!(taken_in(most + 1), [compressed(most + 1), compressed(most + 1)]);
    }

    #[test]
    fn output_comes_back_under_the_number_that_the_client_has_for_its_pull() {
        for form in [Form::Plain, Form::Described] {
            let pull = |own: Option<u64>| {
                let mut out = Bodies::new(form);
                out.one(DataType::COMMAND, &command::PULL_OUTPUT).unwrap();
                let procs = [Proc::new(Nspace::new("job").unwrap(), Rank(0))];
                out.list(DataType::PROC, &procs).unwrap().infos(&[]).unwrap();
                out.one(DataType::IOF_CHANNEL, &Channels::STDOUT).unwrap();
                if let Some(own) = own {
                    out.size(own).unwrap();
                }
                let Ok(Asked::Request(request, Answer::Pull(answered))) = read(&out.bytes, form, 9, usize::MAX) else {
                    panic!("a pull is read");
                };
                assert!(matches!(&*request, Request::PullOutput { id, .. } if *id == answered), "{request:?}");
                answered
            };
            assert_eq!((pull(Some(3)), pull(Some(0)), pull(None)), (3, 9, 9));
        }
    }

    #[test]
    fn what_would_take_more_memory_than_there_is_room_for_is_not_read() {
        const MANY: usize = 10_000;
        let mut out = Bodies::new(Form::Plain);
        let bits = DataArray::of(std::iter::repeat_n(true, MANY));
        out.one(DataType::COMMAND, &command::FENCE).unwrap();
        out.size(0).unwrap().size(1).unwrap().one(DataType::INFO, &Info::new("bits", bits)).unwrap();
        assert!(out.bytes.len() < 2 * MANY);
        let taken = MANY * size_of::<Value>();
        assert_eq!(read(&out.bytes, Form::Plain, 1, taken), Err(WireError::NoMemory));
        let fence = read(&out.bytes, Form::Plain, 1, taken + 1000).unwrap();
        assert!(fence.kept_size() >= taken);
        // Three entries, of which two are for this node and one for others, take their room from the same.
        let whole = commit(Form::Plain);
        let room = (0..1000).find(|room| read(&whole, Form::Plain, 1, *room).is_ok()).unwrap();
        assert!(room >= 3 * size_of::<Posted>() && room % 3 == 0, "{room}");
    }

    #[test]
    fn empty_texts_and_attributes_within_others_take_room_as_well() {
        const MANY: usize = 10_000;
        let text = |bytes| Text::new(bytes).unwrap();
        let query = |keys: usize, qualifiers| Query {
            keys: vec![text(""); keys],
            qualifiers: vec![Info::new("k", true); qualifiers],
        };
        let app = |argv: usize, info: usize| App {
            cmd: None,
            argv: vec![text(""); argv],
            env: Vec::new(),
            cwd: None,
            maxprocs: 1,
            info: vec![Info::new("k", true); info],
        };
        let mut bodies = Vec::new();
        for (keys, qualifiers) in [(MANY, 0), (1, MANY)] {
            let mut out = Bodies::new(Form::Plain);
            out.one(DataType::COMMAND, &command::QUERY).unwrap();
            bodies.push(out.list(DataType::QUERY, &[query(keys, qualifiers)]).unwrap().bytes.clone());
            let mut out = Bodies::new(Form::Plain);
            out.one(DataType::COMMAND, &command::SPAWN).unwrap().infos(&[]).unwrap();
            bodies.push(out.list(DataType::APP, &[app(keys, qualifiers)]).unwrap().bytes.clone());
        }
        for bytes in bodies {
            assert_eq!(read(&bytes, Form::Plain, 1, MANY * size_of::<Text>()), Err(WireError::NoMemory));
            let whole = read(&bytes, Form::Plain, 1, usize::MAX).unwrap();
            assert!(whole.kept_size() >= MANY * size_of::<Text>());
        }
    }

    #[test]
    fn no_cut_within_a_pack_is_read() {
        let whole = commit(Form::Plain);
        let read_whole = read(&whole, Form::Plain, 1, usize::MAX).unwrap();
        for len in 0..whole.len() {
            assert_ne!(
                read(&whole[..len], Form::Plain, 1, usize::MAX).ok().as_ref(),
                Some(&read_whole),
                "{len} bytes of it"
            );
        }
    }

    #[test]
    fn a_list_cannot_claim_what_is_not_there() {
        let mut out = Bodies::new(Form::Plain);
        out.one(DataType::COMMAND, &command::FENCE).unwrap().size(1 << 40).unwrap();
        assert!(matches!(read(&out.bytes, Form::Plain, 1, usize::MAX), Err(WireError::PastEnd { .. })));
    }

    #[test]
    fn requests_about_invitations_are_read() {
        let (group, leader) = (Nspace::new("g").unwrap(), Proc::new(Nspace::new("job").unwrap(), Rank(0)));
        let body = |number: u8, write: &dyn Fn(&mut Bodies)| {
            let mut out = Bodies::new(Form::Plain);
            out.one(DataType::COMMAND, &number).unwrap().one(DataType::STRING, &group).unwrap();
            write(&mut out);
            match read(&out.bytes, Form::Plain, 1, usize::MAX) {
                Ok(Asked::Request(request, Answer::Status)) => match *request {
                    Request::Group { group: of, call, .. } if of == group => call,
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        };
        let procs = vec![leader.clone()];
        let invited = body(command::GROUP_INVITE, &|out| {
            out.list(DataType::PROC, &procs).unwrap().one(DataType::UINT32, &5u32).unwrap();
            out.one(DataType::BOOL, &true).unwrap().one(DataType::BOOL, &true).unwrap();
        });
        let info = [
            Info::new(keys::GROUP_OPTIONAL, true),
            Info::new(keys::TIMEOUT, 5u32),
            Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true),
        ];
        assert_eq!(invited, GroupCall::Invite { procs: procs.clone(), info: info.to_vec() });
        for (status, accept) in [(Status::GROUP_INVITE_ACCEPTED, true), (Status::GROUP_INVITE_DECLINED, false)] {
            for named in [true, false] {
                let joined = body(command::GROUP_JOIN, &|out| {
                    out.one(DataType::STATUS, &status).unwrap().one(DataType::BOOL, &named).unwrap();
                    if named {
                        out.one(DataType::PROC, &leader).unwrap();
                    }
                });
                let leader = named.then(|| leader.clone());
                assert_eq!(joined, GroupCall::Join { leader, accept, info: Vec::new() });
            }
        }
        let left = body(command::GROUP_LEAVE, &|out| {
            out.infos(&[]).unwrap();
        });
        assert_eq!(left, GroupCall::Leave { info: Vec::new() });
    }

    #[test]
    fn the_end_of_a_group_is_read_with_its_members_and_as_clients_of_4_2_send_it_without() {
        let group = Nspace::new("g").unwrap();
        let procs = [0, 1].map(|rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank)));
        let limit = vec![Info::new(keys::TIMEOUT, 5i32)];
        for (members, info) in [(true, vec![]), (true, limit.clone()), (false, vec![]), (false, limit)] {
            let mut out = Bodies::new(Form::Plain);
            out.one(DataType::COMMAND, &command::GROUP_DESTRUCT).unwrap().one(DataType::STRING, &group).unwrap();
            if members {
                out.list(DataType::PROC, &procs).unwrap();
            }
            out.infos(&info).unwrap();
            match read(&out.bytes, Form::Plain, 1, usize::MAX) {
                Ok(Asked::Request(request, Answer::Status)) => {
                    let call = GroupCall::Destruct { info };
                    assert_eq!(*request, Request::Group { group: group.clone(), call, seen: None });
                }
                other => panic!("{other:?}"),
            }
        }
        // Message that a client of 5.0 sends of a group of which it knows no members.
        let seen = [2, 28, 2, 6, b'g', b'1', 0, 2, 0, 0, 2, 0];
        let asked = read(&seen, Form::Plain, 1, usize::MAX);
        assert!(matches!(asked, Ok(Asked::Request(_, Answer::Status))), "{asked:?}");
    }

    #[test]
    fn clients_of_4_2_that_name_no_node_mean_their_own() {
        let mut out = Bodies::new(Form::Plain);
        out.one(DataType::COMMAND, &command::GET).unwrap().one(DataType::STRING, &Nspace::new("job").unwrap()).unwrap();
        out.one(DataType::PROC_RANK, &Rank::WILDCARD).unwrap();
        let (level, node) = (Info::new(keys::NODE_INFO, true), Info::new(keys::HOSTNAME, Value::String(None)));
        out.infos(&[level.clone(), node]).unwrap().one(DataType::STRING, &key(keys::LOCAL_PEERS)).unwrap();
        let Ok(Asked::Request(request, _)) = read(&out.bytes, Form::Plain, 1, usize::MAX) else {
            panic!("it is a request")
        };
        assert!(matches!(&*request, Request::Get { info, .. } if *info == [level]), "{request:?}");
    }

    proptest! {
        /// Nothing that anybody sends is more than an error.
        #[test]
        fn any_bytes_are_read_or_refused(command in 0u8..48, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut body = vec![2, command];
            body.extend(bytes);
            let _ = read(&body, Form::Plain, 1, usize::MAX);
            let _ = crate::stock::ack::parse(&body);
        }
    }
}
