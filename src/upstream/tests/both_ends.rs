//! This library at both ends: its own server with a door for stock clients, and processes that come in there.
use super::*;

/// A server with a door for stock clients, and the addresses at which two processes of a job find it.
pub fn server_of_two() -> (Server, [(StockAddress, Proc); 2]) {
    let (server, nspace) = (server_with_door(), Nspace::new("job").unwrap());
    let addresses = register(&server, [0, 1].map(|rank| Proc::new(nspace.clone(), Rank(rank))));
    (server, addresses)
}

pub fn server_with_door() -> Server {
    let config = ServerConfig { stock_clients: true, ..ServerConfig::default() };
    Server::start(config, Arc::new(NoHost)).unwrap()
}

/// Registers the processes of a job, and returns the addresses at which they find the server.
pub fn register<const N: usize>(server: &Server, procs: [Proc; N]) -> [(StockAddress, Proc); N] {
    let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    for proc in &procs {
        server.register_client(proc, uid, gid).wait().unwrap();
    }
    let peers: Vec<String> = procs.iter().map(|proc| proc.rank.0.to_string()).collect();
    let info = [Info::new(keys::JOB_SIZE, N as u32), Info::new(keys::LOCAL_PEERS, peers.join(",").as_str())];
    server.register_nspace(&procs[0].nspace, N, &info).wait().unwrap();
    procs.map(|proc| {
        let mut variables = BTreeMap::<OsString, OsString>::new();
        server.setup_fork(&proc, &mut variables).unwrap();
        let variable = |name: &str| variables.get(OsStr::new(name)).cloned();
        (StockAddress::from_variables(variable).unwrap().unwrap(), proc)
    })
}

pub fn enter((address, proc): &(StockAddress, Proc)) -> (Upstream, Client) {
    let (upstream, own, _) = Upstream::join(address, &Identity::Process(proc.clone()), true, None).unwrap();
    let client = Client::connect(&own, &[]).unwrap();
    (upstream, client)
}

#[test]
fn processes_meet_and_see_what_they_post() {
    let (_server, addresses) = server_of_two();
    let procs = [addresses[0].1.clone(), addresses[1].1.clone()];
    thread::scope(|scope| {
        for own in 0..2usize {
            let (address, procs) = (&addresses[own], &procs);
            scope.spawn(move || {
                let (_upstream, client) = enter(address);
                assert_eq!(
                    client.get(&Proc::new(procs[0].nspace.clone(), Rank::WILDCARD), keys::JOB_SIZE, &[]).unwrap(),
                    Value::Uint32(2)
                );
                for turn in 0..3u32 {
                    client.put(Scope::GLOBAL, "turn", Value::Uint32(10 * turn + own as u32)).unwrap();
                    client.commit().unwrap();
                    client.fence(&[], &[Info::new(keys::COLLECT_DATA, true)]).wait().unwrap();
                    let other = 1 - own;
                    let found = client.get(&procs[other], "turn", &[]).unwrap();
                    assert_eq!(found, Value::Uint32(10 * turn + other as u32));
                    // By a list of all that there are, as well as by none.
                    client.fence(procs, &[]).wait().unwrap();
                }
                let absent = client.get(&procs[1 - own], "never", &[Info::new(keys::IMMEDIATE, true)]);
                assert_eq!(absent.unwrap_err().status(), Status::ERR_NOT_FOUND);
                client.finalize(&[]).unwrap();
            });
        }
    });
}

#[test]
fn a_process_comes_in_on_ipv6_and_by_the_port_that_the_host_names() {
    let Ok(free) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        eprintln!("SKIPPED a_process_comes_in_on_ipv6_and_by_the_port_that_the_host_names: there is no IPv6 here");
        return;
    };
    let port = free.local_addr().unwrap().port();
    let ports = StockPorts { ipv4: None, ipv6: Some(port) };
    let config = || ServerConfig { stock_clients: true, stock_ports: ports, ..ServerConfig::default() };
    assert!(Server::start(config(), Arc::new(NoHost)).is_err(), "another one listens there");
    drop(free);
    let server = Server::start(config(), Arc::new(NoHost)).unwrap();
    let addresses = register(&server, [Proc::new(Nspace::new("job").unwrap(), Rank(0))]);
    assert_eq!(addresses[0].0.socket, SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
    let (_upstream, client) = enter(&addresses[0]);
    client.fence(&[], &[]).wait().unwrap();
}

#[test]
fn processes_of_two_jobs_meet_that_have_not_heard_of_each_other() {
    let server = server_with_door();
    let jobs = ["one", "other"].map(|name| Proc::new(Nspace::new(name).unwrap(), Rank(0)));
    let addresses = jobs.each_ref().map(|proc| register(&server, [proc.clone()]));
    let everybody = jobs.map(|proc| Proc::new(proc.nspace, Rank::WILDCARD));
    let [(_one, first), (_other, second)] = addresses.each_ref().map(|[address]| enter(address));
    let (sender, receiver) = mpsc::channel();
    for client in [&first, &second] {
        let sender = sender.clone();
        client.fence(&everybody, &[]).then(move |result| sender.send(result).unwrap()).unwrap();
    }
    for _ in 0..2 {
        receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    }
}

#[test]
fn an_event_for_the_node_reaches_its_other_process() {
    let (_server, addresses) = server_of_two();
    let [(_one, raiser), (_other, hearer)] = addresses.each_ref().map(enter);
    let code = Status(-7001);
    let (sender, receiver) = mpsc::channel();
    let handler = move |notice: Notice, _: Chain| sender.send(notice.source).unwrap();
    hearer.register_event_handler(&[code], &[], Arc::new(handler)).wait().unwrap();
    raiser.notify_event(code, &addresses[0].1, DataRange::LOCAL, &[]).wait().unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), addresses[0].1);
}
