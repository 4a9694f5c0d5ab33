//! Whole jobs: processes that put, commit, fence and get through a real server, with shared memory and without.
mod processes;
#[path = "processes/ranks.rs"]
mod ranks;

use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use instanton::client::{Client, Directives, Error, Found};
use instanton::data::constants::info_directives;
use instanton::data::{DataArray, DataType, Info, Nspace, Proc, Rank, Scope, Status, Value, keys};
use instanton::store::Question;
use processes::{Job, all_well, server};
use ranks::{collect, key, posted, rank_of, size};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("exchange") => exchange(),
        Some("silent") => silent(),
        Some("late") => late(),
        Some("fork") => forked(),
        Some("strangers") => strangers(),
        Some("misses") => misses(),
        Some("threads") => threads(),
        Some("environment") => environment(),
        Some("itself") => itself(),
        Some("qualifies") => qualifies(),
        Some(other) => panic!("no such role: {other}"),
    }
}

fn exchange() {
    let client = Client::init(&[]).unwrap();
    let (me, size) = (client.proc().rank.0, size(&client));
    for round in 0..4 {
        for (name, value) in posted(me, round) {
            client.put(Scope::GLOBAL, key(name), value).unwrap();
        }
        client.put(Scope::REMOTE, "remote", Value::Int(1)).unwrap();
        client.put(Scope::LOCAL, "local", Value::Int(2)).unwrap();
        client.commit().unwrap();
        client.fence(&[], &collect()).wait().unwrap();
        for rank in 0..size {
            for (name, value) in posted(rank, round) {
                let found = client.get(&rank_of(&client, rank), name, &[]);
                assert_eq!(found.unwrap(), value, "{name} of rank {rank} in round {round}");
            }
            let optional = [Info::new(keys::OPTIONAL, true)];
            let get = |name: &str| client.get(&rank_of(&client, rank), name, &optional);
            assert_eq!(get("local").unwrap(), Value::Int(2));
            assert_eq!(get("remote").is_ok(), rank == me, "REMOTE data is hidden on this node");
            assert_eq!(get(keys::LOCAL_RANK).unwrap(), Value::Uint16(rank as u16));
        }
        client.fence(&[], &[]).wait().unwrap();
    }
    if let Ok(guard) = client.pin() {
        let (peer, me) =
            (guard.get(&Question::new(Rank(size - 1), "blob")), guard.get(&Question::new(Rank(me), "blob")));
        let len = posted(0, 3).last().and_then(|(_, value)| value.as_bytes().map(<[u8]>::len)).unwrap();
        assert_eq!((peer.unwrap().bytes().len(), me.unwrap().bytes().len()), (len, len));
    } else {
        assert_eq!(std::env::var("INSTANTON_SHM").unwrap(), "off");
    }
    let everything = client.get_all(&rank_of(&client, size - 1), &[]).wait().unwrap();
    let known: Vec<String> = everything.as_array().unwrap().infos().map(|item| item.key.to_string()).collect();
    assert!(["text", "local", keys::RANK].iter().all(|name| known.iter().any(|key| key == name)), "{known:?}");
    client.finalize(&[]).unwrap();
    assert!(!client.is_initialized());
}

#[test]
fn ranks_see_what_ranks_posted() {
    let server = server();
    Job::register(&server, "exchange@1", 4).run("exchange", true);
    Job::register(&server, "exchange@2", 4).run("exchange", false);
}

/// After the fence, a thread that may make no system call but write and exit.
fn silent() {
    let client = Arc::new(Client::init(&[]).unwrap());
    let (me, size) = (client.proc().rank.0, size(&client));
    for (name, value) in posted(me, 3) {
        client.put(Scope::GLOBAL, key(name), value).unwrap();
    }
    client.store_internal(&rank_of(&client, 0), key("pmix.loc"), Value::Uint16(7)).unwrap();
    client.commit().unwrap();
    client.fence(&[], &collect()).wait().unwrap();
    let reader = client.clone();
    let mut room = vec![MaybeUninit::uninit(); 100_000];
    let mut read = move |rank, key: &str, directives: &Directives| {
        let copy = |found: Found<'_>| match found {
            Found::Shared(raw) => raw.copy_to(&mut room[..raw.len()]),
            _ => 0,
        };
        reader.get_with(Question::new(rank, key).with(directives), copy)
    };
    let round = move |read: &mut dyn FnMut(Rank, &str, &Directives) -> Result<usize, Error>| {
        let none = Directives::default();
        let optional = Directives { optional: true, ..Directives::default() };
        let immediate = Directives { immediate: true, ..Directives::default() };
        for rank in (0..size).map(Rank) {
            for key in [keys::JOB_SIZE, keys::LOCAL_PEERS, keys::UNIV_SIZE, keys::NODE_SIZE] {
                read(Rank::WILDCARD, key, &none).unwrap();
            }
            for key in [keys::HOSTNAME, keys::LOCAL_RANK, keys::NODEID, "number", "text", "blob", "proc"] {
                read(rank, key, &none).unwrap();
            }
            read(Rank(0), "pmix.loc", &none).unwrap();
            for directives in [&optional, &immediate] {
                let absent = read(rank, "no such key", directives).unwrap_err();
                assert_eq!(absent.status(), Status::ERR_NOT_FOUND);
            }
            assert!(read(rank, keys::CREDENTIAL, &none).is_err());
            assert!(read(Rank::WILDCARD, "pmix.no.such", &none).is_err());
        }
    };
    let (end, write) = nix::unistd::pipe().unwrap();
    let write = write.into_raw_fd();
    std::thread::spawn(move || {
        // The first look at anything makes the thread's own notes.
        read(Rank::WILDCARD, keys::JOB_SIZE, &Directives::default()).unwrap();
        forbid_system_calls();
        (0..200).for_each(|_| round(&mut read));
        // SAFETY: writes one byte of a live array; ends this thread alone, which holds nothing that anybody waits for.
        unsafe {
            libc::write(write, [1u8].as_ptr().cast(), 1);
            libc::syscall(libc::SYS_exit, 0);
        }
    });
    let mut byte = [0];
    std::fs::File::from(end).read_exact(&mut byte).unwrap();
    client.finalize(&[]).unwrap();
}

/// From now on the kernel kills this process when the calling thread makes a system call other than write and exit.
fn forbid_system_calls() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump_if = |k: libc::c_long, jt: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt,
        jf: 0,
        k: k as u32,
    };
    let mut program = [
        // The number of the call is the first word of what a filter is given.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump_if(libc::SYS_write, 2),
        jump_if(libc::SYS_exit, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `filter` refers to `program`, which lives through both calls; the kernel copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

#[test]
fn after_the_fence_a_get_makes_no_system_call() {
    let server = server();
    Job::register(&server, "silent@1", 4).run("silent", true);
}

/// Rank 0 asks before rank 1 posts.
fn late() {
    let client = Client::init(&[]).unwrap();
    if client.proc().rank.0 == 0 {
        let (tell, told) = mpsc::channel();
        let forever = [Info::new(keys::TIMEOUT, Value::Int(0))];
        client
            .get_pending(&rank_of(&client, 1), "late", &forever)
            .then(move |value| tell.send(value).unwrap())
            .unwrap();
        let early = client.get(&rank_of(&client, 1), "late", &[Info::new(keys::IMMEDIATE, true)]);
        assert_eq!(early.unwrap_err().status(), Status::ERR_NOT_FOUND);
        // Rank 1 posts once this fence is over.
        client.fence(&[], &[]).wait().unwrap();
        assert_eq!(client.get(&rank_of(&client, 1), "late", &forever).unwrap(), Value::Int(1));
        assert_eq!(told.recv().unwrap().unwrap(), Value::Int(1));
    } else {
        client.fence(&[], &[]).wait().unwrap();
        client.put(Scope::GLOBAL, "late", Value::Int(1)).unwrap();
        client.commit().unwrap();
    }
    client.finalize(&[Info::new(keys::EMBED_BARRIER, true)]).unwrap();
}

#[test]
fn a_get_waits_for_what_is_not_posted_yet() {
    let server = server();
    Job::register(&server, "late@1", 2).run("late", true);
    Job::register(&server, "late@2", 2).run("late", false);
}

fn misses() {
    let client = Client::init(&[]).unwrap();
    let get = |rank, name: &str, info: &[Info]| client.get(&rank_of(&client, rank), name, info);
    let status = |result: Result<Value, Error>| result.unwrap_err().status();
    client.commit().unwrap();
    client.fence(&[], &[]).wait().unwrap();
    let misses = || {
        let begin = Instant::now();
        assert_eq!(status(get(1, "k", &[Info::new(keys::OPTIONAL, true)])), Status::ERR_NOT_FOUND);
        assert_eq!(status(get(1, "k", &[Info::new(keys::IMMEDIATE, true)])), Status::ERR_NOT_FOUND);
        assert_eq!(status(get(1, keys::CREDENTIAL, &[])), Status::ERR_NOT_FOUND);
        assert_eq!(status(get(77, keys::HOSTNAME, &[])), Status::ERR_NOT_FOUND);
        begin.elapsed()
    };
    // The quickest of some: a busy machine may keep any of them from running.
    let quickest = (0..20).map(|_| misses()).min().unwrap();
    assert!(quickest < Duration::from_millis(1500), "none of these waits");
    assert_eq!(status(get(1, "k", &[Info::new(keys::TIMEOUT, Value::Int(1))])), Status::ERR_TIMEOUT);
    let mut required = Info::new("site.hint", 1u32);
    required.flags = instanton::data::constants::info_directives::INFO_REQD;
    assert_eq!(status(get(1, "k", &[required])), Status::ERR_NOT_SUPPORTED);
    let begin = Instant::now();
    assert_eq!(status(get(1, "k", &[])), Status::ERR_TIMEOUT);
    assert!(begin.elapsed() >= Duration::from_millis(1900), "this one does");
    // A rank that has left takes part in nothing: all stay until all have waited.
    client.fence(&[], &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
}

#[test]
fn what_nobody_posts_is_not_waited_for_in_vain() {
    let server = server();
    Job::register(&server, "misses@1", 2).run("misses", true);
    Job::register(&server, "misses@2", 2).run("misses", false);
}

/// A forked child finds itself uninitialised, and the parent's connection and memory go on.
fn forked() {
    let client = Client::init(&[]).unwrap();
    client.put(Scope::GLOBAL, "k", Value::Int(1)).unwrap();
    client.commit().unwrap();
    client.fence(&[], &[]).wait().unwrap();
    // SAFETY: the child calls nothing but the client's refusals, which take no lock, and ends itself.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let me = client.proc().clone();
            let refused = !client.is_initialized()
                && matches!(client.get(&me, "k", &[]), Err(Error::NotInitialized))
                && matches!(client.fence(&[], &[]).wait(), Err(Error::NotInitialized))
                && matches!(client.finalize(&[]), Err(Error::NotInitialized));
            drop(client);
            // SAFETY: ends the process without running what belongs to the parent.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) }
        }
        nix::unistd::ForkResult::Parent { child } => {
            let end = nix::sys::wait::waitpid(child, None).unwrap();
            assert_eq!(end, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
    }
    client.fence(&[], &[]).wait().unwrap();
    assert_eq!(client.get(&rank_of(&client, 1), "k", &[]).unwrap(), Value::Int(1));
    client.finalize(&[]).unwrap();
}

#[test]
fn a_forked_child_is_not_initialised() {
    let server = server();
    Job::register(&server, "fork@1", 2).run("fork", true);
}

/// Processes of two namespaces meet and read each other.
fn strangers() {
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let all: Vec<Proc> =
        ["strange@1", "strange@2"].map(|name| Proc::new(Nspace::new(name).unwrap(), Rank::WILDCARD)).into();
    client.put(Scope::GLOBAL, "name", Value::from(me.to_string())).unwrap();
    client.commit().unwrap();
    client.fence(&all, &collect()).wait().unwrap();
    for proc in all.iter().flat_map(|job| (0..2).map(|rank| Proc::new(job.nspace.clone(), Rank(rank)))) {
        assert_eq!(client.get(&proc, "name", &[]).unwrap(), Value::from(proc.to_string()));
        assert_eq!(client.get(&proc, keys::LOCAL_RANK, &[]).unwrap(), Value::Uint16(proc.rank.0 as u16));
    }
    client.fence(&all, &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
}

#[test]
fn two_namespaces_meet() {
    let server = server();
    for shared in [true, false] {
        let jobs = ["strange@1", "strange@2"].map(|name| Job::register(&server, name, 2));
        all_well(jobs.iter().flat_map(|job| (0..2).map(|rank| job.start(rank, "strangers", shared))).collect());
        jobs.iter().for_each(|job| server.deregister_nspace(&job.nspace).wait().unwrap());
    }
}

#[test]
fn the_trace_says_what_is_otherwise() {
    let server = server();
    let job = Job::register(&server, "trace@1", 1);
    let file = std::env::temp_dir().join(format!("instanton-trace-{}", std::process::id()));
    // Left by a run that was interrupted, whose number this process has now.
    let _ = std::fs::remove_file(&file);
    let variables = [("INSTANTON_SHM", "off"), ("INSTANTON_TRACE", file.to_str().unwrap())];
    all_well(vec![job.start_with(0, "exchange", &variables)]);
    let trace = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let line = trace.lines().find(|line| line.contains("INSTANTON_SHM")).unwrap_or_else(|| panic!("{trace}"));
    assert!(line.starts_with("instanton client "), "{line}");
    assert_eq!(trace.matches("INSTANTON_SHM").count(), 1, "it is said once: {trace}");
}

/// Reads what the others post while they post it, without meeting them.
fn threads() {
    let client = Client::init(&[]).unwrap();
    let (me, size) = (client.proc().rank.0, size(&client));
    let whole = |value: Value| match value {
        Value::ByteObject(bytes) => {
            let round = bytes[0];
            assert_eq!(bytes.len(), 16 + usize::from(round) * 37);
            assert!(bytes.iter().all(|byte| *byte == round), "a value of two rounds");
            round
        }
        other => panic!("{other:?}"),
    };
    std::thread::scope(|scope| {
        for rank in (0..size).filter(|rank| *rank != me) {
            let client = &client;
            scope.spawn(move || {
                let forever = [Info::new(keys::TIMEOUT, Value::Int(0))];
                let mut last = 0;
                while last < 250 {
                    let round = whole(client.get(&rank_of(client, rank), "k", &forever).unwrap());
                    assert!(round >= last, "round {round} after {last}");
                    last = round;
                }
            });
        }
        for round in 0..=250u8 {
            let value = Value::ByteObject(vec![round; 16 + usize::from(round) * 37]);
            client.put(Scope::GLOBAL, "k", value).unwrap();
            client.commit().unwrap();
        }
    });
    client.fence(&[], &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
}

#[test]
fn threads_read_whole_values_while_they_change() {
    let server = server();
    Job::register(&server, "threads@1", 3).run("threads", true);
    Job::register(&server, "threads@2", 3).run("threads", false);
}

fn environment() {
    let wanted = std::env::var("WANTED").unwrap();
    let status = Client::init(&[]).map_or_else(|error| error.status(), |_| Status::SUCCESS);
    assert_eq!(status.name().unwrap(), wanted);
}

#[test]
fn the_environment_must_be_meant_for_this_process() {
    let server = server();
    let job = Job::register(&server, "environment@1", 2);
    let with = |name, value, wanted| job.start_with(0, "environment", &[(name, value), ("WANTED", wanted)]);
    all_well(vec![
        with("OTHER", "x", "PMIX_SUCCESS"),
        with("PMIX_RANK", "1", "PMIX_ERR_SERVER_NOT_AVAIL"),
        with("PMIX_RANK", "x", "PMIX_ERR_SERVER_NOT_AVAIL"),
        with("PMIX_NAMESPACE", "other@1", "PMIX_ERR_SERVER_NOT_AVAIL"),
        with("PMIX_SERVER_URI41", "outer.0;tcp4://127.0.0.1:1", "PMIX_ERR_SERVER_NOT_AVAIL"),
        // Of another release, which has the door for stock clients as well.
        with("INSTANTON_SERVER", "2;x", "PMIX_SUCCESS"),
        processes::start_alone("environment", &[("WANTED", "PMIX_ERR_UNREACH")]),
        processes::start_alone("environment", &[("WANTED", "PMIX_ERR_SERVER_NOT_AVAIL"), ("PMIX_RANK", "0")]),
    ]);
}

/// Asks the keys that a process may ask of itself under any host.
fn itself() {
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let get = |proc: &Proc, key: &str| client.get(proc, key, &[]).map_err(|error| error.status());
    let server = client.server().unwrap().clone();
    assert_eq!(get(&me, keys::SERVER_NSPACE), Ok(Value::string(server.nspace.as_bytes())));
    assert_eq!(get(&me, keys::SERVER_RANK), Ok(Value::ProcRank(server.rank)));
    let uri = get(&me, keys::SERVER_URI).unwrap();
    let uri: instanton::server::Uri = uri.as_text().unwrap().as_str().unwrap().parse().unwrap();
    assert_eq!(uri.server, server);
    assert_eq!(get(&rank_of(&client, 1 - me.rank.0), keys::SERVER_URI), Err(Status::ERR_NOT_FOUND), "of itself alone");
    let nobody = |rank| Proc::new(Nspace::new("").unwrap(), rank);
    assert_eq!(get(&nobody(Rank::INVALID), keys::RANK), Ok(Value::ProcRank(me.rank)));
    assert_eq!(get(&nobody(Rank::UNDEF), keys::PROCID), Ok(Value::Proc(me.clone())));
    assert_eq!(get(&nobody(Rank::UNDEF), keys::VERSION_NUMERIC), Ok(Value::Uint32(0x60100)));
    let names = [0, 1].map(|rank| Value::Proc(rank_of(&client, rank))).to_vec();
    let here = DataArray::new(DataType::PROC, names).unwrap();
    assert_eq!(get(&rank_of(&client, Rank::WILDCARD.0), keys::LOCAL_PROCS), Ok(here.into()));
    // A process's own numbers are nobody's where no process is named.
    for key in [keys::APPNUM, keys::LOCAL_RANK, keys::RANK] {
        assert!(get(&me, key).is_ok(), "{key}");
        assert_eq!(get(&rank_of(&client, Rank::WILDCARD.0), key), Err(Status::ERR_NOT_FOUND), "{key}");
    }
    client.finalize(&[]).unwrap();
}

#[test]
fn a_process_knows_itself_and_its_server() {
    let server = server();
    Job::register(&server, "itself@1", 2).run("itself", true);
    Job::register(&server, "itself@2", 2).run("itself", false);
}

/// One key, and three values of it.
fn qualifies() {
    let client = Client::init(&[]).unwrap();
    let qualifier = |by: u64| Info { flags: info_directives::INFO_QUALIFIER, ..Info::new("site.by", Value::Size(by)) };
    for key_name in [keys::GROUP_LOCAL_CID, "site.value"] {
        for by in [1u64, 2] {
            let value = Info::new(key_name, Value::Size(100 * u64::from(client.proc().rank.0) + by));
            let both = DataArray::of_info(vec![value, qualifier(by)]);
            client.put(Scope::GLOBAL, keys::QUALIFIED_VALUE, both.into()).unwrap();
        }
        client.put(Scope::GLOBAL, key_name, Value::Size(7)).unwrap();
    }
    client.commit().unwrap();
    client.fence(&[], &collect()).wait().unwrap();
    for rank in 0..size(&client) {
        for key_name in [keys::GROUP_LOCAL_CID, "site.value"] {
            let get = |info: &[Info]| client.get(&rank_of(&client, rank), key_name, info).unwrap();
            assert_eq!(get(&[]), Value::Size(7));
            assert_eq!(get(&[qualifier(2)]), Value::Size(100 * u64::from(rank) + 2));
            assert_eq!(get(&[qualifier(1)]), Value::Size(100 * u64::from(rank) + 1));
            let others = [qualifier(3), Info::new(keys::OPTIONAL, true)];
            let none = client.get(&rank_of(&client, rank), key_name, &others);
            assert_eq!(none.unwrap_err().status(), Status::ERR_NOT_FOUND);
        }
    }
    let nothing = DataArray::of_info(vec![qualifier(1)]);
    let refused = client.put(Scope::GLOBAL, keys::QUALIFIED_VALUE, nothing.into());
    assert_eq!(refused.unwrap_err().status(), Status::ERR_BAD_PARAM);
    client.finalize(&[]).unwrap();
}

#[test]
fn qualifiers_tell_values_of_one_key_apart() {
    let server = server();
    Job::register(&server, "qualifies@1", 2).run("qualifies", true);
    Job::register(&server, "qualifies@2", 2).run("qualifies", false);
}
