//! Requests that the host answers for clients: publishing, spawning, connecting, queries and the rest, with hosts that
//! do it, refuse it, cannot do it, and never answer.
use std::sync::{Arc, Mutex, mpsc};

use instanton::Pending;
use instanton::client::{Client, Error};
use instanton::data::constants::{fabric_operation, resource_block_directive};
use instanton::data::{App, Info, InfoList, Key, Nspace, Pdata, Proc, Query, Rank, Scope, Status, Text, Value, keys};
use instanton::internal::message::{Forward, Reply, Request};
use instanton::server::{
    Accepted, Answer, Completion, Credential, Host, Infos, NoHost, Published, Server, ServerConfig,
};

use crate::peer::{self, PATIENCE, Peer};

const OK: Status = Status::SUCCESS;

fn ids() -> (u32, u32) {
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

fn proc(name: &str, rank: u32) -> Proc {
    Proc::new(nspace(name), Rank(rank))
}

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

/// Policy of a host for the requests that it gets.
#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Serve,
    Refuse,
    Ignore,
}

/// A host that keeps what is published, and a list of what it was asked.
struct RecordingHost {
    policy: Policy,
    asked: Arc<Mutex<Vec<String>>>,
    published: Mutex<Vec<Pdata>>,
    /// Requests that it has never answered.
    kept: Mutex<Vec<Box<dyn Send>>>,
}

impl RecordingHost {
    fn new(policy: Policy) -> (Self, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::default();
        (
            RecordingHost { policy, asked: Arc::clone(&asked), published: Mutex::default(), kept: Mutex::default() },
            asked,
        )
    }

    fn answer<T: Send + 'static>(&self, what: String, done: Completion<T>, answer: T) -> Accepted {
        self.asked.lock().unwrap().push(what);
        match self.policy {
            Policy::Serve => _ = std::thread::spawn(move || done.complete(Ok(answer))),
            Policy::Refuse => return Err(Status::ERR_NO_PERMISSIONS),
            Policy::Ignore => self.kept.lock().unwrap().push(Box::new(done)),
        }
        Ok(Answer::Later)
    }
}

fn names(info: &[Info]) -> String {
    info.iter().map(|info| info.key.to_string()).collect::<Vec<_>>().join(",")
}

/// Attributes of which the request names one.
fn echo(info: &[Info]) -> Infos {
    (OK, info.to_vec())
}

impl Host for RecordingHost {
    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        assert_eq!(info.find(keys::USERID).unwrap().value, Value::Uint32(ids().0));
        assert_eq!(info.find(keys::GRPID).unwrap().value, Value::Uint32(ids().1));
        let of = |info: &Info| Pdata { proc: proc.clone(), key: info.key.clone(), value: info.value.clone() };
        let mut published = self.published.lock().unwrap();
        published.extend(info.iter().filter(|info| !info.key.is_reserved()).map(of));
        self.answer(format!("publish {proc} {}", names(info)), done, ())
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], _: &[Info], done: Completion<Published>) -> Accepted {
        let wanted = |one: &&Pdata| keys.iter().any(|key| key.as_bytes() == one.key.as_bytes());
        let found: Vec<Pdata> = self.published.lock().unwrap().iter().filter(wanted).cloned().collect();
        let status = match found.len() {
            0 => Status::ERR_NOT_FOUND,
            n if n < keys.len() => Status::ERR_PARTIAL_SUCCESS,
            _ => OK,
        };
        self.answer(format!("lookup {proc} {}", keys.len()), done, (status, found))
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], _: &[Info], done: Completion<()>) -> Accepted {
        let gone = |one: &Pdata| keys.iter().any(|key| key.as_bytes() == one.key.as_bytes());
        self.published.lock().unwrap().retain(|one| !gone(one) && !keys.is_empty());
        self.answer(format!("unpublish {proc} {}", keys.len()), done, ())
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        assert_eq!(job_info.find(keys::PARENT_ID).unwrap().value, Value::from(proc.clone()));
        assert!(job_info.is_set(keys::SPAWNED) && job_info.is_set(keys::REQUESTOR_IS_CLIENT));
        let dirs: Vec<String> = apps.iter().map(|app| app.cwd.as_ref().unwrap().to_string_lossy().into()).collect();
        self.answer(format!("spawn {proc} {}", dirs.join(",")), done, nspace("child"))
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        self.answer(format!("connect {procs:?} {}", names(info)), done, ())
    }

    fn disconnect(&self, procs: &[Proc], _: &[Info], done: Completion<()>) -> Accepted {
        self.answer(format!("disconnect {procs:?}"), done, ())
    }

    fn query(&self, _: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        let what = queries.iter().flat_map(|query| &query.keys).map(|key| key.to_string_lossy()).collect::<String>();
        let infos = vec![Info::new(keys::QUERY_SPAWN_SUPPORT, "hosts")];
        self.answer(format!("query {what}"), done, (Status::QUERY_PARTIAL_SUCCESS, infos))
    }

    fn log(&self, _: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        self.answer(format!("log {} {}", names(data), names(directives)), done, ())
    }

    fn allocate(&self, _: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        self.answer(format!("allocate {directive}"), done, echo(data))
    }

    fn monitor(
        &self,
        _: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.answer(format!("monitor {} {}", monitor.key, error.0), done, echo(directives))
    }

    fn get_credential(&self, _: &Proc, _: &[Info], done: Completion<Credential>) -> Accepted {
        self.answer("credential".into(), done, (b"papers".to_vec(), vec![]))
    }

    fn validate_credential(&self, _: &Proc, credential: &[u8], _: &[Info], done: Completion<Infos>) -> Accepted {
        let status = if credential == b"papers" { OK } else { Status::ERR_INVALID_CRED };
        self.answer("validate".into(), done, (status, vec![Info::new(keys::USERID, 7u32)]))
    }

    fn push_stdin(&self, _: &Proc, targets: &[Proc], _: &[Info], bytes: &[u8], done: Completion<()>) -> Accepted {
        self.answer(format!("push {targets:?} {}", bytes.len()), done, ())
    }

    fn fabric(&self, _: &Proc, operation: i64, directives: &[Info], done: Completion<Infos>) -> Accepted {
        self.answer(format!("fabric {operation}"), done, echo(directives))
    }

    fn session_control(&self, _: &Proc, session: u32, directives: &[Info], done: Completion<Infos>) -> Accepted {
        self.answer(format!("session {session}"), done, echo(directives))
    }

    fn resource_block(
        &self,
        _: &Proc,
        directive: u8,
        block: &Text,
        _: &[instanton::data::ResourceUnit],
        _: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        self.answer(format!("block {directive} {}", block.to_string_lossy()), done, ())
    }
}

/// A server with jobs of one process each.
fn server(host: impl Host, jobs: &[&str]) -> Server {
    let server = Server::start(ServerConfig::default(), Arc::new(host)).unwrap();
    for name in jobs {
        server.register_nspace(&nspace(name), 1, &[Info::new(keys::JOB_SIZE, 1u32)]).wait().unwrap();
        server.register_client(&proc(name, 0), ids().0, ids().1).wait().unwrap();
    }
    server
}

fn client(server: &Server, name: &str) -> Client {
    Client::connect(&peer::address(server, &proc(name, 0)), &[]).unwrap()
}

fn app() -> App {
    App { cmd: Some(text("prog")), argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] }
}

/// Result of each request.
type Outcomes = Vec<(&'static str, Result<(), Status>)>;

/// Everything that a host answers, once.
fn everything(client: &Client) -> Outcomes {
    fn told<T>(result: Result<T, Error>) -> Result<(), Status> {
        result.map(drop).map_err(|error| error.status())
    }
    fn told_infos(result: Result<Infos, Error>) -> Result<(), Status> {
        result.map_err(|error| error.status())?.0.ok()
    }
    let me = [client.proc().clone()];
    let size = [Info::new(keys::ALLOC_NUM_NODES, 1u64)];
    let query = [Query { keys: vec![text("site.key")], qualifiers: vec![] }];
    // Heartbeats and files are the library's own business.
    let load = Info::new("site.load", true);
    let deregister = resource_block_directive::RESOURCE_BLOCK_REMOVE;
    vec![
        ("publish", told(client.publish(&[Info::new("svc", "port")]).wait())),
        ("lookup", told(client.lookup(&["svc"], &[]).wait())),
        ("unpublish", told(client.unpublish(&["svc"], &[]).wait())),
        ("spawn", told(client.spawn(&[], &[app()]).wait())),
        ("connect", told(client.connect_to(&me, &[]).wait())),
        ("log", told(client.log(&[Info::new(keys::LOG_STDERR, "x")], &[]).wait())),
        ("query", told(client.query(&query).wait().map(|_| ()))),
        ("allocate", told_infos(client.allocation_request(1, &size).wait())),
        ("monitor", told_infos(client.process_monitor(&load, Status(-5), &[]).wait())),
        ("credential", told(client.get_credential(&[]).wait())),
        ("validate", told_infos(client.validate_credential(b"papers", &[]).wait())),
        ("push", told(client.iof_push(&me, b"in", &[]).wait())),
        ("fabric", told_infos(client.fabric(fabric_operation::FABRIC_REQUEST_INFO, &[]).wait())),
        ("session", told_infos(client.session_control(3, &[]).wait())),
        ("block", told(client.resource_block(deregister, &text("b"), &[], &[]).wait())),
    ]
}

#[test]
fn a_host_that_is_willing_is_asked_for_everything() {
    let (host, asked) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job"]);
    let client = client(&server, "job");
    for (what, outcome) in everything(&client) {
        assert_eq!(outcome, Ok(()), "{what}");
    }
    let asked = asked.lock().unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!(asked[0], "publish job:0 svc,pmix.euid,pmix.egid");
    assert_eq!(asked[3], format!("spawn job:0 {}", here.display()));
    assert_eq!(asked[5], "log pmix.log.stderr pmix.log.source,pmix.euid,pmix.egid");
    assert_eq!(asked.len(), 15);
}

#[test]
fn a_host_that_refuses_is_believed() {
    let (host, _) = RecordingHost::new(Policy::Refuse);
    let server = server(host, &["job"]);
    for (what, outcome) in everything(&client(&server, "job")) {
        assert_eq!(outcome, Err(Status::ERR_NO_PERMISSIONS), "{what}");
    }
}

#[test]
fn what_a_host_cannot_do_is_not_supported() {
    let server = server(NoHost, &["job"]);
    for (what, outcome) in everything(&client(&server, "job")) {
        let expected = if what == "connect" { Ok(()) } else { Err(Status::ERR_NOT_SUPPORTED) };
        assert_eq!(outcome, expected, "{what}");
    }
}

/// A call of a client with some processes.
type WithProcs = fn(&Client, &[Proc], &[Info]) -> Pending<(), Error>;

/// Processes connect as under Slurm, whose plug-in answers that it does not support that.
#[test]
fn processes_of_one_node_connect_without_a_host() {
    let server = server(NoHost, &["job", "other"]);
    let (one, two) = (client(&server, "job"), client(&server, "other"));
    let both = [proc("job", 0), proc("other", 0)];
    let all = |f: WithProcs| {
        let told = |client| f(client, &both, &[]).wait().map_err(|error| error.status());
        std::thread::scope(|threads| {
            let second = threads.spawn(|| told(&two));
            (told(&one), second.join().unwrap())
        })
    };
    assert_eq!(all(Client::connect_to), (Ok(()), Ok(())));
    assert_eq!(all(Client::disconnect_from), (Ok(()), Ok(())));
    // But for what is required and the library does not know.
    let unknown = [Info::new("site.wish", true).required()];
    assert_eq!(one.connect_to(&[proc("job", 0)], &unknown).wait().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    let known = [Info::new(keys::TIMEOUT, 60).required()];
    assert_eq!(one.connect_to(&[proc("job", 0)], &known).wait().map_err(|error| error.status()), Ok(()));
    let far = [proc("job", 0), proc("elsewhere", 0)];
    assert_eq!(one.connect_to(&far, &[]).wait().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    let (host, asked) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job", "other"]);
    let client = client(&server, "job");
    let status = |result: Result<(), Error>| result.unwrap_err().status();
    assert_eq!(status(client.publish(&[]).wait()), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.lookup(&[""; 0], &[]).wait().map(drop)), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.spawn(&[], &[]).wait().map(drop)), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.spawn(&[], &[App { cmd: None, ..app() }]).wait().map(drop)), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.connect_to(&[], &[]).wait()), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.connect_to(&[proc("other", 0)], &[]).wait()), Status::ERR_NOT_A_MEMBER);
    assert_eq!(status(client.connect_to(&[proc("job", 0), proc("job", 9)], &[]).wait()), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.disconnect_from(&[proc("job", 0)], &[]).wait()), Status::ERR_INVALID_OPERATION);
    assert_eq!(status(client.query(&[]).wait().map(drop)), Status::ERR_BAD_PARAM);
    let twice = [Info::new(keys::PROCID, proc("job", 0)), Info::new(keys::RANK, Rank(0))];
    let about_two = Query { keys: vec![text(keys::LOCAL_RANK)], qualifiers: twice.to_vec() };
    assert_eq!(status(client.query(&[about_two]).wait().map(drop)), Status::ERR_BAD_PARAM);
    assert_eq!(status(client.log(&[], &[]).wait()), Status::ERR_BAD_PARAM);
    assert_eq!(*asked.lock().unwrap(), [] as [&str; 0]);
    let alone = Client::singleton().unwrap();
    for (what, outcome) in everything(&alone) {
        let nobody = match what {
            "credential" => Status::ERR_NOT_SUPPORTED,
            "validate" => Status::ERR_INVALID_CRED,
            _ => Status::ERR_UNREACH,
        };
        assert_eq!(outcome, Err(nobody), "{what}");
    }
}

#[test]
fn a_lookup_brings_what_there_is() {
    let (host, _) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job", "other"]);
    let (one, two) = (client(&server, "job"), client(&server, "other"));
    one.publish(&[Info::new("a", 1u32), Info::new("b", "two"), Info::new(keys::PERSISTENCE, Value::Persist(1))])
        .wait()
        .unwrap();
    let (status, found) = two.lookup(&["a", "b", "c"], &[]).wait().unwrap();
    assert_eq!(status, Status::ERR_PARTIAL_SUCCESS);
    let value = |name: &str, value: Value| Pdata { proc: proc("job", 0), key: Key::new(name).unwrap(), value };
    assert_eq!(found, [value("a", Value::Uint32(1)), value("b", Value::from("two"))]);
    one.unpublish_all(&[]).wait().unwrap();
    assert_eq!(two.lookup(&["a"], &[]).wait().unwrap(), (Status::ERR_NOT_FOUND, vec![]));
}

#[test]
fn nobody_waits_for_a_host_that_never_answers_but_the_one_who_asked() {
    let (host, asked) = RecordingHost::new(Policy::Ignore);
    let server = server(host, &["job", "other"]);
    let client = client(&server, "other");
    let (tell, told) = mpsc::channel();
    client
        .publish(&[Info::new("a", 1u32)])
        .then(move |result| tell.send(result.map_err(|e| e.status())).unwrap())
        .unwrap();
    // Another one asks, and is gone in the middle.
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    peer.send(Request::Forward(Forward::Unpublish { keys: vec![], info: vec![] }));
    assert_eq!(peer.commit(Scope::REMOTE, "k", 1u32), OK);
    drop(peer);
    server.client_died(&proc("job", 0));
    // Everything else goes on.
    client.fence(&[], &[]).wait().unwrap();
    assert_eq!(*asked.lock().unwrap(), ["publish other:0 a,pmix.euid,pmix.egid", "unpublish job:0 0"]);
    assert!(told.try_recv().is_err());
    server.finalize();
    assert_eq!(told.recv().unwrap(), Err(Status::ERR_LOST_CONNECTION));
}

#[test]
fn a_participant_that_dies_ends_a_connect_for_the_others() {
    let (host, asked) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job", "other"]);
    let both = [proc("job", 0), proc("other", 0)];
    let dying = Peer::connect(&server, &proc("other", 0)).unwrap();
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let connect = peer.send(Request::Connect { procs: both.to_vec(), info: vec![] });
    assert!(!peer.has_answer(connect));
    drop(dying);
    server.client_died(&proc("other", 0));
    assert_eq!(peer.done(connect), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(peer.status(Request::Connect { procs: both.to_vec(), info: vec![] }), Status::ERR_PARTIAL_SUCCESS);
    let limit = vec![Info::new(keys::TIMEOUT, 1i32)];
    let alone = vec![proc("job", 0), proc("elsewhere", 0)];
    assert_eq!(peer.status(Request::Connect { procs: alone, info: limit }), OK, "nobody else is here");
    assert_eq!(*asked.lock().unwrap(), ["connect [elsewhere:0, job:0] "]);
}

#[test]
fn connects_of_different_processes_go_on_at_once_whichever_each_begins_first() {
    let (host, asked) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job", "other", "child"]);
    let all = ["job", "other", "child"].map(|name| proc(name, 0));
    let [mut one, mut two, mut three] = all.clone().map(|proc| Peer::connect(&server, &proc).unwrap());
    let connect = |procs: &[Proc]| Request::Connect { procs: procs.to_vec(), info: vec![] };
    let (of_two, of_all) = (connect(&all[..2]), connect(&all));
    let waits = [one.send(of_two.clone()), one.send(of_all.clone())];
    let waits_of_two = two.send(of_all.clone());
    assert!(!waits.iter().any(|number| one.has_answer(*number)) && !two.has_answer(waits_of_two));
    assert_eq!(two.status(of_two), OK);
    assert_eq!(one.done(waits[0]), OK);
    assert!(!one.has_answer(waits[1]) && !two.has_answer(waits_of_two));
    assert_eq!(three.status(of_all), OK);
    assert_eq!([one.done(waits[1]), two.done(waits_of_two)], [OK; 2]);
    assert_eq!(*asked.lock().unwrap(), ["connect [job:0, other:0] ", "connect [child:0, job:0, other:0] "]);
}

#[test]
fn connected_jobs_read_each_others_memory() {
    let (host, asked) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job", "other", "child"]);
    let both = [proc("job", 0), proc("other", 0)];
    let segments = |peer: &mut Peer, name: &str| {
        peer.ask(Request::Segments { nspace: nspace(name), have: instanton::internal::message::Have::default() })
    };
    let may = |peer: &mut Peer, name: &str| match segments(peer, name) {
        Reply::Segments { .. } => true,
        Reply::Done(Status::ERR_NO_PERMISSIONS) => false,
        other => panic!("{other:?}"),
    };
    let mut one = Peer::connect(&server, &both[0]).unwrap();
    let mut two = Peer::connect(&server, &both[1]).unwrap();
    assert!(may(&mut one, "job") && !may(&mut one, "other") && !may(&mut two, "job"));
    for request in [
        Request::Connect { procs: both.to_vec(), info: vec![] },
        Request::Connect { procs: vec![both[1].clone(), both[0].clone()], info: vec![] },
    ] {
        let waits = one.send(request.clone());
        assert_eq!(two.status(request), OK);
        assert_eq!(one.done(waits), OK);
        assert!(may(&mut one, "other") && may(&mut two, "job") && !may(&mut one, "child"));
    }
    let disconnect = Request::Disconnect { procs: both.to_vec(), info: vec![] };
    let waits = one.send(disconnect.clone());
    assert_eq!(two.status(disconnect.clone()), OK);
    assert_eq!(one.done(waits), OK);
    assert!(!may(&mut one, "other") && !may(&mut two, "job"));
    assert_eq!(one.status(disconnect), Status::ERR_INVALID_OPERATION);
    assert_eq!(asked.lock().unwrap().len(), 3, "once for each meeting");

    let spawn =
        Request::Forward(Forward::Spawn { job_info: vec![], apps: vec![App { cwd: Some(text("/")), ..app() }] });
    // Unless it is to be a job apart.
    let apart = Request::Forward(Forward::Spawn {
        job_info: vec![Info::new(keys::COSPAWN_APP, true)],
        apps: vec![App { cwd: Some(text("/")), ..app() }],
    });
    assert_eq!(two.ask(apart), Reply::Spawned(nspace("child")));
    let of_app = vec![Info::new(keys::COSPAWN_APP, true)];
    let apart = App { cwd: Some(text("/")), info: of_app, ..app() };
    let apart = Request::Forward(Forward::Spawn { job_info: vec![], apps: vec![apart.clone(), apart] });
    assert_eq!(two.ask(apart), Reply::Spawned(nspace("child")));
    assert_eq!(one.ask(spawn), Reply::Spawned(nspace("child")));
    assert!(may(&mut one, "child") && !may(&mut two, "child"));
    server.deregister_nspace(&nspace("child")).wait().unwrap();
    assert!(!may(&mut one, "child"));
}

#[test]
fn a_connected_client_reads_the_other_job() {
    let (host, _) = RecordingHost::new(Policy::Serve);
    let server = server(host, &["job", "other"]);
    let (one, two) = (client(&server, "job"), client(&server, "other"));
    two.put(instanton::data::Scope::GLOBAL, Key::new("card").unwrap(), Value::from("here")).unwrap();
    two.commit().unwrap();
    let both = [proc("job", 0), proc("other", 0)];
    std::thread::scope(|threads| {
        threads.spawn(|| two.connect_to(&both, &[]).wait().unwrap());
        one.connect_to(&both, &[]).wait().unwrap();
    });
    let immediate = [Info::new(keys::IMMEDIATE, true)];
    assert_eq!(one.get(&proc("other", 0), "card", &immediate).unwrap(), Value::from("here"));
    let optional = [Info::new(keys::OPTIONAL, true)];
    let job = Proc::new(nspace("other"), Rank::WILDCARD);
    assert_eq!(one.get(&job, keys::JOB_SIZE, &optional).unwrap(), Value::Uint32(1));
}

/// Requests that a host has taken over and not answered.
enum Taken {
    Connect(Completion<()>),
    Fetch(Vec<Info>, Completion<Vec<u8>>),
}

/// A host that leaves its answers to the test.
struct ChannelHost(mpsc::Sender<Taken>);

impl Host for ChannelHost {
    fn connect(&self, _: &[Proc], _: &[Info], done: Completion<()>) -> Accepted {
        self.0.send(Taken::Connect(done)).unwrap();
        Ok(Answer::Later)
    }

    fn direct_modex(&self, _: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.0.send(Taken::Fetch(info.to_vec(), done)).unwrap();
        Ok(Answer::Later)
    }
}

#[test]
fn a_time_limit_ends_a_look_up_on_another_node_and_the_host_does_not_see_it() {
    let (tell, told) = mpsc::channel();
    let server = server(ChannelHost(tell), &[]);
    let job = nspace("job");
    server.register_nspace(&job, 1, &[Info::new(keys::JOB_SIZE, 2u32)]).wait().unwrap();
    server.register_client(&proc("job", 0), ids().0, ids().1).wait().unwrap();
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let limited = peer.start_get(&proc("job", 1), "k", &[Info::new(keys::TIMEOUT, 1)]);
    let Taken::Fetch(info, done) = told.recv().unwrap() else { panic!("not asked to fetch") };
    assert_eq!(info, [Info::new(keys::REQUIRED_KEY, "k")], "two clocks would race");
    assert_eq!(peer.got(limited), Err(Status::ERR_TIMEOUT));
    // A late answer is for requests that have come since, but that it has nothing for them may be over by now.
    let patient = peer.start_get(&proc("job", 1), "k", &[]);
    assert!(!peer.has_answer(patient));
    done.complete(Err(Status::ERR_NOT_FOUND));
    let Taken::Fetch(_, done) = told.recv().unwrap() else { panic!("not asked anew") };
    assert!(!peer.has_answer(patient));
    done.complete(Err(Status::ERR_NOT_FOUND));
    assert_eq!(peer.got(patient), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn an_answer_after_the_end_of_a_job_is_not_for_the_next_of_its_name() {
    let (tell, told) = mpsc::channel();
    let server = server(ChannelHost(tell), &[]);
    let both = [proc("job", 0), proc("other", 0)];
    let register = || {
        for proc in &both {
            server.register_nspace(&proc.nspace, 1, &[Info::new(keys::JOB_SIZE, 2u32)]).wait().unwrap();
            server.register_client(proc, ids().0, ids().1).wait().unwrap();
        }
        both.clone().map(|proc| Peer::connect(&server, &proc).unwrap())
    };
    let [mut one, mut two] = register();
    one.start_get(&proc("job", 1), "k", &[]);
    let Taken::Fetch(_, _never) = told.recv().unwrap() else { panic!("not asked to fetch") };
    for peer in [&mut one, &mut two] {
        peer.send(Request::Connect { procs: both.to_vec(), info: vec![] });
    }
    let Taken::Connect(connect) = told.recv().unwrap() else { panic!("not asked to connect") };
    both.iter().for_each(|proc| server.deregister_nspace(&proc.nspace).wait().unwrap());
    connect.complete(Ok(()));

    let [mut one, _two] = register();
    let segments = Request::Segments { nspace: nspace("other"), have: instanton::internal::message::Have::default() };
    assert_eq!(one.status(segments), Status::ERR_NO_PERMISSIONS);
    one.start_get(&proc("job", 1), "k", &[]);
    let again = told.recv_timeout(PATIENCE);
    assert!(matches!(again, Ok(Taken::Fetch(..))), "the host is not asked again");
}
