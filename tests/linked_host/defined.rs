//! Definitions of a host for its jobs: process sets, resources, environments; and the server's answers about them.
use std::ffi::OsString;
use std::sync::{Arc, Mutex, mpsc};

use instanton::client::{Chain, Client, Notice, Output, OutputHandler};
use instanton::data::{
    Channels, DataArray, DataRange, DataType, Envar, Info, InfoList, Nspace, Proc, Query, Rank, Status, Text, Value,
    keys,
};
use instanton::server::{Accepted, Answer, Completion, Host, Infos, NoHost, Server, ServerConfig};

use crate::host::Cluster;
use crate::jobs::ids;
use crate::peer;

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

fn query(keys: &[&str], qualifiers: Vec<Info>) -> Query {
    Query { keys: keys.iter().map(|key| text(key)).collect(), qualifiers }
}

#[test]
fn versions_are_known_beside_what_else_is_asked() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let client = Client::connect(&peer::address(&job.server_of(0), &job.proc(0)), &[]).unwrap();
    let version = query(&[keys::QUERY_STABLE_ABI_VERSION], vec![]);
    let (status, alone) = client.query(std::slice::from_ref(&version)).wait().unwrap();
    assert_eq!(status, Status::SUCCESS);
    let (status, infos) = client.query(&[version, query(&[keys::QUERY_NAMESPACES], vec![])]).wait().unwrap();
    assert_eq!(status, Status::SUCCESS, "{infos:?}");
    assert_eq!(infos, [alone[0].clone(), Info::new(keys::QUERY_NAMESPACES, "job")]);
}

#[test]
fn a_process_set_is_told_of_and_found() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let server = job.server_of(0);
    let client = Client::connect(&peer::address(&server, &job.proc(0)), &[]).unwrap();
    let (tell, told) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let handler = move |notice: Notice, chain: Chain| {
        let name = notice.info.find(keys::PSET_NAME).unwrap().value.clone();
        tell.send((notice.status, name)).unwrap();
        chain.complete(Status::SUCCESS, vec![]);
    };
    let codes = [Status::PROCESS_SET_DEFINE, Status::PROCESS_SET_DELETE];
    // They come from the host, which is no process.
    let of_manager = [Info::new(keys::RANGE, DataRange::RM)];
    client
        .register_event_handler(&codes, &of_manager, Arc::new(handler))
        .then(move |id| ready.send(id.is_ok()).unwrap())
        .unwrap();
    assert!(is_ready.recv().unwrap());

    let names = query(&[keys::QUERY_PSET_NAMES, keys::QUERY_NUM_PSETS], vec![]);
    let (status, infos) = client.query(std::slice::from_ref(&names)).wait().unwrap();
    assert_eq!((status, &infos[0].value, &infos[1].value), (Status::SUCCESS, &Value::from(""), &Value::Size(0)));
    assert_eq!(server.define_process_set(&text(""), &[job.proc(1)]).wait(), Err(Status::ERR_BAD_PARAM));
    assert_eq!(server.define_process_set(&text("ocean"), &[]).wait(), Err(Status::ERR_BAD_PARAM));
    server.define_process_set(&text("ocean"), &[job.proc(1)]).wait().unwrap();
    server.define_process_set(&text("ice"), &[job.all()]).wait().unwrap();
    assert_eq!(server.define_process_set(&text("ice"), &[job.proc(0)]).wait(), Err(Status::ERR_EXISTS));
    assert_eq!(told.recv().unwrap(), (Status::PROCESS_SET_DEFINE, Value::from("ocean")));

    let (status, infos) = client.query(&[names]).wait().unwrap();
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(
        infos,
        [Info::new(keys::QUERY_PSET_NAMES, "ice,ocean"), Info::new(keys::QUERY_NUM_PSETS, Value::Size(2))]
    );
    let members = query(&[keys::QUERY_PSET_MEMBERSHIP], vec![Info::new(keys::PSET_NAME, "ocean")]);
    let (_, infos) = client.query(&[members]).wait().unwrap();
    let Value::DataArray(array) = &infos[0].value else { panic!("{infos:?}") };
    assert_eq!(array.items(), [Value::from(job.proc(1))]);

    // The host has given no rank the key.
    let of = |rank, key: &str| client.get(&job.proc(rank), key, &[]);
    let both = DataArray::new(DataType::STRING, vec![Value::from("ice"), Value::from("ocean")]).unwrap();
    assert_eq!(of(1, keys::PSET_NAMES).unwrap(), Value::DataArray(both));
    assert_eq!(of(0, keys::PSET_NAME).unwrap(), Value::from("ice"));

    let unknown = query(&[keys::QUERY_PSET_MEMBERSHIP], vec![Info::new(keys::PSET_NAME, "land")]);
    assert_eq!(client.query(&[unknown]).wait().unwrap_err().status(), Status::ERR_NOT_FOUND, "alone: nothing to free");

    server.delete_process_set(&text("ocean")).wait().unwrap();
    assert_eq!(server.delete_process_set(&text("ocean")).wait(), Err(Status::ERR_NOT_FOUND));
    assert_eq!(told.recv().unwrap(), (Status::PROCESS_SET_DEFINE, Value::from("ice")));
    assert_eq!(told.recv().unwrap(), (Status::PROCESS_SET_DELETE, Value::from("ocean")));
}

#[test]
fn the_name_of_a_group_stands_for_its_members_wherever_a_process_is_named() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let clients = [0, 1].map(|rank| Client::connect(&peer::address(&job.server_of(0), &job.proc(rank)), &[]).unwrap());
    let (group, members) = (Nspace::new("group").unwrap(), [job.proc(1), job.proc(0)]);
    let made = clients.each_ref().map(|client| {
        let (tell, told) = mpsc::channel();
        client.group_construct(&group, &members, &[]).then(move |made| tell.send(made.is_ok()).unwrap()).unwrap();
        told
    });
    assert!(made.iter().all(|told| told.recv().unwrap()));
    let [client, other] = &clients;
    let of_group = |rank| Proc::new(group.clone(), rank);
    let asked = query(&[keys::QUERY_PSET_MEMBERSHIP], vec![Info::new(keys::PSET_NAME, "group")]);
    assert_eq!(client.query(&[asked]).wait().unwrap().1[0].value.as_procs(), Some(members.to_vec()));
    let asked = query(&[keys::LOCAL_RANK], vec![Info::new(keys::PROCID, of_group(Rank(0)))]);
    assert_eq!(client.query(&[asked]).wait().unwrap().1[0].value, Value::Uint16(1));
    client.store_internal(&of_group(Rank(0)), "noted", Value::from(7u32)).unwrap();
    assert_eq!(client.get(&job.proc(1), "noted", &[]).unwrap(), Value::from(7u32));
    // Those who hear of an event hear of processes.
    let (tell, told) = mpsc::channel();
    let handler = move |notice: Notice, chain: Chain| {
        tell.send(notice.info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_procs())).unwrap();
        chain.complete(Status::SUCCESS, vec![]);
    };
    let wanted = Info::new(keys::EVENT_AFFECTED_PROC, of_group(Rank(0)));
    other.register_event_handler(&[Status(-7000)], &[wanted], Arc::new(handler)).wait().unwrap();
    for rank in [Rank(1), Rank(0)] {
        let affected = Info::new(keys::EVENT_AFFECTED_PROC, of_group(rank));
        client.notify_event(Status(-7000), client.proc(), DataRange::LOCAL, &[affected]).wait().unwrap();
    }
    assert_eq!(told.recv().unwrap(), Some(vec![job.proc(1)]), "the other member is of no interest");
}

#[test]
fn the_name_of_a_set_stands_for_its_members_in_events() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let server = job.server_of(0);
    server.define_process_set(&text("ocean"), &[job.all()]).wait().unwrap();
    server.define_process_set(&text("ice"), &[job.proc(1)]).wait().unwrap();
    let [raiser, other] = [0, 1].map(|rank| Client::connect(&peer::address(&server, &job.proc(rank)), &[]).unwrap());
    let (tell, told) = mpsc::channel();
    let hears = |client: &Client, name: &'static str, code: i32, wanted: &[Info]| {
        let tell = tell.clone();
        let handler = move |notice: Notice, chain: Chain| {
            tell.send((name, notice.status.0)).unwrap();
            chain.complete(Status::SUCCESS, vec![]);
        };
        client.register_event_handler(&[Status(code)], wanted, Arc::new(handler)).wait().unwrap();
    };
    let all_of = |set: &str| Proc::new(Nspace::new(set).unwrap(), Rank::WILDCARD);
    let custom = |set: &str| Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of([all_of(set)]));
    let raise = |code: i32, range: DataRange, info: &[Info]| {
        raiser.notify_event(Status(code), raiser.proc(), range, info).wait().unwrap();
    };
    // Each member hears of an event once, the one that raises it included.
    [-7001, -7002].iter().for_each(|code| hears(&raiser, "raiser", *code, &[]));
    raise(-7001, DataRange::CUSTOM, &[custom("ice")]);
    raise(-7001, DataRange::CUSTOM, &[custom("ocean")]);
    raise(-7002, DataRange::PROC_LOCAL, &[]);
    assert_eq!([0; 2].map(|_| told.recv().unwrap()), [("raiser", -7001), ("raiser", -7002)]);
    // Handlers hear of events of members, and of what affects members.
    let of = |set: &str| [Info::new(keys::RANGE, DataRange::CUSTOM), custom(set)];
    hears(&other, "of ice", -7003, &of("ice"));
    hears(&other, "of ocean", -7003, &of("ocean"));
    let affected = |proc: Proc| [Info::new(keys::EVENT_AFFECTED_PROC, proc)];
    hears(&other, "affected", -7004, &affected(all_of("ice")));
    raise(-7003, DataRange::LOCAL, &[]);
    raise(-7004, DataRange::LOCAL, &affected(job.proc(0)));
    raise(-7004, DataRange::LOCAL, &affected(job.proc(1)));
    hears(&other, "last", -7005, &[]);
    raise(-7005, DataRange::LOCAL, &[]);
    let heard = [0; 3].map(|_| told.recv().unwrap());
    assert_eq!(heard, [("of ocean", -7003), ("affected", -7004), ("last", -7005)]);
}

#[test]
fn what_the_host_does_not_answer_the_server_may_know() {
    let cluster = Cluster::new(1);
    let (job, other) = (cluster.job("job", &[0]), cluster.job("other", &[0, 0]));
    let client = Client::connect(&peer::address(&job.server_of(0), &job.proc(0)), &[]).unwrap();
    let (status, infos) = client.query(&[query(&[keys::QUERY_NAMESPACES], vec![])]).wait().unwrap();
    assert_eq!((status, infos), (Status::SUCCESS, vec![Info::new(keys::QUERY_NAMESPACES, "job,other")]));
    let of_other = vec![Info::new(keys::NSPACE, "other")];
    let wanted = query(&[keys::JOB_SIZE, keys::QUERY_LOCAL_PROC_TABLE, "site.unknown"], of_other);
    let (status, infos) = client.query(&[wanted]).wait().unwrap();
    assert_eq!((status, &infos[0].value), (Status::ERR_PARTIAL_SUCCESS, &Value::Uint32(2)));
    assert_eq!(infos[2], Info::new("site.unknown", Value::Undef));
    let Value::DataArray(table) = &infos[1].value else { panic!("{infos:?}") };
    let procs: Vec<Proc> = table
        .items()
        .iter()
        .map(|item| match item {
            Value::ProcInfo(info) => info.proc.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(procs, [other.proc(0), other.proc(1)]);
    // Of a node, an application or a session where that is said.
    let of_node = |more: Vec<Info>| {
        let qualifiers = [vec![Info::new(keys::NSPACE, "other"), Info::new(keys::NODE_INFO, true)], more].concat();
        client.query(&[query(&[keys::JOB_SIZE, keys::LOCAL_PEERS], qualifiers)]).wait().map_err(|error| error.status())
    };
    let (status, infos) = of_node(vec![Info::new(keys::HOSTNAME, "n0")]).unwrap();
    let values = [Value::Undef, Value::from("0,1")];
    assert_eq!(
        (status, infos.into_iter().map(|info| info.value).collect::<Vec<_>>()),
        (Status::ERR_PARTIAL_SUCCESS, values.to_vec())
    );
    assert_eq!(of_node(vec![Info::new(keys::NODEID, 5u32)]), Err(Status::ERR_NOT_SUPPORTED), "there is none");
    let nonsense = query(&["site.unknown"], vec![]);
    assert_eq!(client.query(&[nonsense]).wait().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}

/// A host that knows of the job `b` only, and leaves out what it does not know.
struct PartialHost(Mutex<usize>);

impl Host for PartialHost {
    fn query(&self, _: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        *self.0.lock().unwrap() += 1;
        let known = queries.iter().filter(|query| query.qualifiers.contains(&Info::new(keys::NSPACE, "b")));
        let keys = known.flat_map(|query| &query.keys);
        let infos = keys.map(|key| Info::new(key.as_str().unwrap(), "of b")).collect();
        done.complete(Ok((Status::ERR_PARTIAL_SUCCESS, infos)));
        Ok(Answer::Later)
    }
}

#[test]
fn answers_come_in_the_order_of_the_queries_whoever_knows_them() {
    let host = Arc::new(PartialHost(Mutex::new(0)));
    let server = Server::start(ServerConfig::default(), host.clone()).unwrap();
    let proc = Proc::new("b".try_into().unwrap(), Rank(0));
    server.register_nspace(&proc.nspace, 1, &[Info::new(keys::JOB_SIZE, 1u32)]).wait().unwrap();
    let (uid, gid) = ids();
    server.register_client(&proc, uid, gid).wait().unwrap();
    let client = Client::connect(&peer::address(&server, &proc), &[]).unwrap();
    let of = |name: &str| vec![Info::new(keys::NSPACE, name)];
    let version = keys::QUERY_STABLE_ABI_VERSION;
    let ask = |queries: &[Query]| {
        let (status, infos) = client.query(queries).wait().unwrap();
        let told = infos.iter().map(|info| format!("{}={}", info.key, info.value.as_str().unwrap_or("?")));
        (status, told.collect::<Vec<_>>().join(" "))
    };
    let of_a = query(&["site.one", keys::QUERY_NUM_PSETS], of("a"));
    let (status, told) = ask(&[of_a, query(&[version, "site.one"], of("b"))]);
    let expected = format!("site.one=? {}=? {version}=1.0 site.one=of b", keys::QUERY_NUM_PSETS);
    assert_eq!((status, told), (Status::ERR_PARTIAL_SUCCESS, expected));
    assert_eq!(*host.0.lock().unwrap(), 2, "by one key, one at a time");
    let (_, told) = ask(&[query(&["site.one"], of("a")), query(&["site.two"], of("b"))]);
    assert_eq!((told.as_str(), *host.0.lock().unwrap()), ("site.one=? site.two=of b", 3));
}

#[test]
fn resources_reach_every_job_that_comes_later() {
    let server = Server::start(ServerConfig::default(), Arc::new(NoHost)).unwrap();
    let register = |name: &str, info: &[Info]| {
        let all = Proc::new(name.try_into().unwrap(), Rank::WILDCARD);
        server.register_nspace(&all.nspace, 0, &[&[Info::new(keys::JOB_SIZE, 1u32)], info].concat()).wait().unwrap();
        server.get(&all, keys::CLUSTER_ID, &[]).wait()
    };
    let resource = [Info::new(keys::CLUSTER_ID, "big")];
    server.register_resources(&resource).then(|_| ()).unwrap();
    assert_eq!(register("one", &[]), Ok(Value::from("big")));
    assert_eq!(register("two", &[Info::new(keys::CLUSTER_ID, "small")]), Ok(Value::from("small")));
    server.deregister_resources(&resource).then(|_| ()).unwrap();
    assert_eq!(register("three", &[]), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn a_session_is_found_by_the_jobs_that_name_it() {
    let server = Server::start(ServerConfig::default(), Arc::new(NoHost)).unwrap();
    let register = |name: &str, info: &[Info]| {
        let all = Proc::new(name.try_into().unwrap(), Rank::WILDCARD);
        server.register_nspace(&all.nspace, 0, &[&[Info::new(keys::JOB_SIZE, 1u32)], info].concat()).wait().unwrap();
        let get = |key| server.get(&all, key, &[Info::new(keys::SESSION_INFO, true)]).wait();
        (get(keys::ALLOCATED_NODELIST), get(keys::UNIV_SIZE))
    };
    let of_session = |nodes: &str| [Info::new(keys::ALLOCATED_NODELIST, nodes), Info::new(keys::UNIV_SIZE, 64u32)];
    let named = Info::new(keys::SESSION_ID, 7u32);
    server.register_session(7, &of_session("a,b")).then(|_| ()).unwrap();
    server.register_session(7, &of_session("c")).then(|_| ()).unwrap();
    server.register_session(8, &of_session("d")).then(|_| ()).unwrap();
    let (known, size) = (Ok(Value::from("a,b")), Ok(Value::Uint32(64)));
    assert_eq!(register("one", std::slice::from_ref(&named)), (known.clone(), size.clone()));
    let own = [named.clone(), Info::new(keys::ALLOCATED_NODELIST, "b")];
    let array = Info::new(keys::SESSION_INFO_ARRAY, Value::infos(own.to_vec()));
    assert_eq!(register("two", &[array]), (Ok(Value::from("b")), size), "the job's own word counts more");
    assert_eq!(register("three", &[]), (Err(Status::ERR_NOT_FOUND), Ok(Value::Uint32(1))));
    server.deregister_session(7).then(|_| ()).unwrap();
    assert_eq!(register("four", &[named]).0, Err(Status::ERR_NOT_FOUND));
    assert_eq!(server.register_session(u32::MAX, &[]).then(|_| ()), Err(Status::ERR_BAD_PARAM));
}

#[test]
fn processes_find_what_their_application_was_set_up_with() {
    let server = Server::start(ServerConfig::default(), Arc::new(NoHost)).unwrap();
    let proc = Proc::new("job".try_into().unwrap(), Rank(0));
    let envar = |name: &str| Envar { name: Some(text(name)), value: Some(text("1")), separator: 0 };
    let info = [Info::new(keys::SET_ENVAR, Value::Envar(envar("SITE")))];
    server.setup_local_support(&proc.nspace, &info).wait().unwrap();
    let bad = [Info::new(keys::SET_ENVAR, Value::Envar(envar("")))];
    assert_eq!(server.setup_local_support(&proc.nspace, &bad).wait(), Err(Status::ERR_BAD_PARAM));
    server.register_nspace(&proc.nspace, 1, &[]).wait().unwrap();
    let mut env: Vec<(OsString, OsString)> = vec![("SITE".into(), "0".into())];
    server.setup_fork(&proc, &mut env).unwrap();
    assert!(env.contains(&("SITE".into(), "1".into())));
    server.deregister_nspace(&proc.nspace).wait().unwrap();
    let (tell, told) = mpsc::channel();
    server.collect_inventory().then(move |inventory| tell.send(inventory).unwrap()).unwrap();
    assert!(told.recv().unwrap().unwrap().find(keys::HOSTNAME).is_some());
}

/// A host that forwards whatever output is asked for.
struct ForwardingHost;

impl Host for ForwardingHost {
    fn iof_pull(&self, procs: &[Proc], _: &[Info], _: Channels, _: Completion<()>) -> Accepted {
        if procs[0].rank == Rank(9) { Err(Status::ERR_NO_PERMISSIONS) } else { Ok(Answer::Done) }
    }
}

#[test]
fn output_reaches_those_who_asked_for_it() {
    let server = Server::start(ServerConfig::default(), Arc::new(ForwardingHost)).unwrap();
    let job = |rank: u32| Proc::new("job".try_into().unwrap(), Rank(rank));
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    server.register_nspace(&job(0).nspace, 1, &[Info::new(keys::JOB_SIZE, 1u32)]).wait().unwrap();
    server.register_client(&job(0), uid, gid).wait().unwrap();
    let client = Client::connect(&peer::address(&server, &job(0)), &[]).unwrap();
    let (tell, told) = mpsc::channel();
    let handler: OutputHandler = Arc::new(move |output: Output| tell.send(output).unwrap());
    let pull = |proc: Proc, channels: Channels| client.iof_pull(&[proc], channels, &[], handler.clone()).wait();
    let (stdout, stderr) = (Channels::STDOUT, Channels::STDERR);
    assert_eq!(pull(job(0), Channels::NONE).unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert_eq!(pull(job(9), stdout).unwrap_err().status(), Status::ERR_NO_PERMISSIONS);
    let id = pull(job(Rank::WILDCARD.0), stdout).unwrap();
    let deliver = |rank: u32, channel: Channels, bytes: &[u8]| {
        server.iof_deliver(&job(rank), channel, bytes, &[]).then(|_| ()).unwrap();
    };
    deliver(3, stderr, b"not this");
    deliver(3, stdout, b"this");
    let expected = Output { pull: id, source: job(3), channel: stdout, bytes: b"this".to_vec(), info: vec![] };
    assert_eq!(told.recv().unwrap(), expected);
    client.iof_deregister(id).wait().unwrap();
    assert_eq!(client.iof_deregister(id).then(|_| ()).unwrap_err().status(), Status::ERR_BAD_PARAM);
    deliver(3, stdout, b"too late");
    client.fence(&[], &[]).wait().unwrap();
    assert!(told.try_recv().is_err());
}
