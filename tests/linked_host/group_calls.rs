//! Calls of clients in the tests of groups, and the events that they get.
use std::sync::{Arc, mpsc};

use instanton::client::{Chain, Client, Error, Infos, Notice};
use instanton::data::{DataArray, Info, InfoList, Nspace, Proc, Status, Value, keys};

use crate::host::Job;
use crate::peer;

pub const OK: Status = Status::SUCCESS;
pub const DIED: Status = Status::ERR_PROC_TERM_WO_SYNC;
pub const PARTIAL: Status = Status::ERR_PARTIAL_SUCCESS;
pub const ABORT: Status = Status::GROUP_CONSTRUCT_ABORT;

pub fn id(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

pub fn set(key: &str) -> Info {
    Info::new(key, true)
}

pub fn seconds(seconds: i32) -> Info {
    Info::new(keys::TIMEOUT, seconds)
}

pub fn client(job: &Job<'_>, rank: u32) -> Client {
    Client::connect(&peer::address(&job.server_of(rank), &job.proc(rank)), &[]).unwrap()
}

pub fn clients(job: &Job<'_>, ranks: u32) -> Vec<Client> {
    (0..ranks).map(|rank| client(job, rank)).collect()
}

pub fn procs(job: &Job<'_>, ranks: u32) -> Vec<Proc> {
    (0..ranks).map(|rank| job.proc(rank)).collect()
}

/// A call under way.
pub struct Call<T>(mpsc::Receiver<Result<T, Error>>);

impl<T: Send + 'static> Call<T> {
    pub fn start(call: impl FnOnce(Box<dyn FnOnce(Result<T, Error>) + Send>) -> Result<(), Error>) -> Self {
        let (tell, told) = mpsc::channel();
        call(Box::new(move |result| _ = tell.send(result))).unwrap();
        Call(told)
    }

    pub fn end(self) -> Result<T, Status> {
        self.0.recv().unwrap().map_err(|error| error.status())
    }
}

pub fn construct(client: &Client, group: &str, procs: &[Proc], info: &[Info]) -> Call<Infos> {
    Call::start(|done| client.group_construct(&id(group), procs, info).then(done))
}

pub fn destruct(client: &Client, group: &str) -> Call<()> {
    Call::start(|done| client.group_destruct(&id(group), &[]).then(done))
}

pub fn fence(client: &Client, proc: &Proc, info: &[Info]) -> Call<()> {
    Call::start(|done| client.fence(std::slice::from_ref(proc), info).then(done))
}

/// The status of a call that makes a group, and the ranks of the group's members.
pub fn made(call: Call<Infos>) -> (Status, Vec<u32>) {
    match call.end() {
        Ok((status, infos)) => (status, members(&infos)),
        Err(status) => (status, vec![]),
    }
}

pub fn members(infos: &[Info]) -> Vec<u32> {
    let array = infos.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_array());
    array.map_or(vec![], |array| array.items().iter().map(|item| item.as_proc().unwrap().rank.0).collect())
}

/// A handler that tells of each event, and answers it with `answer`.
pub fn handle(client: &Client, codes: &[Status], answer: Vec<Info>) -> mpsc::Receiver<(Status, Option<Proc>)> {
    let (tell, told) = mpsc::channel();
    let handler = move |notice: Notice, chain: Chain| {
        let whom = notice.info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_proc()).cloned();
        let status = answer.iter().find_map(|info| info.value.as_status()).unwrap_or(OK);
        _ = tell.send((notice.status, whom));
        chain.complete(status, answer.clone());
    };
    Call::start(|done| client.register_event_handler(codes, &[], Arc::new(handler)).then(done)).end().unwrap();
    told
}

/// Waits for an event about a process. Earlier ones, which are kept for handlers that come late, are passed over.
pub fn hears(heard: &mpsc::Receiver<(Status, Option<Proc>)>, event: Status, whom: &Proc) {
    while heard.recv().unwrap() != (event, Some(whom.clone())) {}
}

pub fn abort() -> Vec<Info> {
    vec![Info::new("decision", ABORT)]
}

pub fn given(value: u64) -> Info {
    let local = Info::new(keys::GROUP_LOCAL_CID, Value::Size(value));
    Info::new(keys::GROUP_INFO, DataArray::of_info(vec![local, Info::new("site.colour", value)]))
}

pub fn context(infos: &[Info]) -> u64 {
    infos.find(keys::GROUP_CONTEXT_ID).unwrap().value.as_u64().unwrap()
}
