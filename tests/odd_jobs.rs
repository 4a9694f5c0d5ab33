//! Job information of odd jobs comes back as it was given, in type and value, whichever way it is read: by a client of
//! the library, by one that maps nothing, and by a C program on `libpmix.so.2`.
//!
//! Each reader posts what it was answered under names of its own, and the test compares that with what it
//! registered, so the values also make the way back. `INSTANTON_TEST_SEED` repeats a run,
//! `INSTANTON_TEST_JOBS` says how many jobs (12).
mod processes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use instanton::client::Client;
use instanton::data::constants::info_directives::INFO_PERSISTENT;
use instanton::data::{DataArray, DataType, Info, Key, Proc, Rank, Scope, Status, Value, arbitrary, keys};
use instanton::server::Server;
use processes::{Job, all_well, server};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The first ranks of every job run here and read: through shared memory, without it, and in C.
const READERS: u32 = 3;
const QUESTIONS: &str = "INSTANTON_TEST_QUESTIONS";

/// Subject of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Process(u32),
    Session,
    Job,
    App(u32),
    Node(u32),
}

impl About {
    /// Rank, level and number as `tests/peers/echo.c` reads them.
    fn question(self) -> [u32; 3] {
        match self {
            About::Process(rank) => [rank, 0, 0],
            About::Session => [Rank::WILDCARD.0, 1, 0],
            About::Job => [Rank::WILDCARD.0, 2, 0],
            About::App(number) => [Rank::WILDCARD.0, 3, number],
            About::Node(number) => [Rank::WILDCARD.0, 4, number],
        }
    }
}

/// A job, and what its host says about whom.
#[derive(Debug)]
struct Odd {
    nodes: Vec<Vec<u32>>,
    apps: Vec<u32>,
    given: BTreeMap<(About, Key), Value>,
}

/// Values that a C program can be handed as they are: no addresses, and nothing of hwloc's.
fn is_plain(value: &Value) -> bool {
    let foreign = [DataType::POINTER, DataType::TOPO, DataType::PROC_CPUSET];
    match value {
        Value::DataArray(array) => {
            !foreign.contains(&array.data_type()) && array.infos().all(|info| is_plain(&info.value)) && flat(array)
        }
        Value::Value(inner) => is_plain(inner),
        Value::Info(info) => is_plain(&info.value),
        other => is_flat(other.data_type()) && !foreign.contains(&other.data_type()),
    }
}

/// Arrays whose elements carry no further values, or whose further values have been looked at.
fn flat(array: &DataArray) -> bool {
    let ty = array.data_type();
    // Elements of no type have no size in C.
    ty == DataType::INFO || is_flat(ty) && (ty != DataType::UNDEF || array.is_empty())
}

fn is_flat(ty: DataType) -> bool {
    let holders =
        [DataType::VALUE, DataType::DATA_ARRAY, DataType::PDATA, DataType::QUERY, DataType::APP, DataType::INFO];
    !holders.contains(&ty)
}

/// The value as C hands it on: without the mark for the ownership of what an attribute points to, which is the caller's
/// own business, and without the NUL that ends every expression there.
fn as_in_c(value: Value) -> Value {
    let info = |info: Info| Info { flags: info.flags & !INFO_PERSISTENT, value: as_in_c(info.value), ..info };
    match value {
        Value::Info(inner) => info(*inner).into(),
        Value::Value(inner) => Value::Value(Box::new(as_in_c(*inner))),
        Value::DataArray(array) => {
            let ty = array.data_type();
            let items = array.into_items().into_iter().map(as_in_c).collect();
            DataArray::new(ty, items).expect("the same type").into()
        }
        Value::Regex(mut bytes) => {
            while bytes.pop_if(|last| *last == 0).is_some() {}
            Value::Regex(bytes)
        }
        other => other,
    }
}

/// Keys of programs, so that nothing else says what they are: short, odd, and as long as can be.
fn key() -> impl Strategy<Value = Key> {
    let bytes = prop_oneof![
        3 => "[a-d]",
        2 => "[a-z.]{1,20}",
        1 => "[ -~]{511}",
    ];
    bytes.prop_map(|text| Key::new(text).expect("a legal key"))
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => arbitrary::value().prop_filter("not for C", is_plain).prop_map(as_in_c),
        1 => Just(Value::String(None)),
        1 => Just(Value::from("")),
        1 => (0..100_000usize).prop_map(|len| Value::ByteObject((0..len).map(|at| at as u8).collect())),
    ]
}

/// Ranks strewn over nodes, some of which stay empty; the readers are on the first.
fn odd() -> impl Strategy<Value = Odd> {
    let placement = (1..6usize, prop::collection::vec(any::<prop::sample::Index>(), 0..20), 1..4usize);
    placement.prop_flat_map(|(node_count, places, app_count)| {
        let mut nodes = vec![Vec::new(); node_count];
        nodes[0].extend(0..READERS);
        for (rank, place) in (READERS..).zip(&places) {
            nodes[place.index(node_count)].push(rank);
        }
        let size = READERS + places.len() as u32;
        let mut apps = vec![size / app_count as u32; app_count];
        apps[0] += size % app_count as u32;
        let about = prop_oneof![
            4 => (0..size).prop_map(About::Process),
            1 => Just(About::Session),
            1 => Just(About::Job),
            1 => (0..app_count as u32).prop_map(About::App),
            2 => (0..node_count as u32).prop_map(About::Node),
        ];
        prop::collection::btree_map((about, key()), value(), 0..60).prop_map(move |given| Odd {
            nodes: nodes.clone(),
            apps: apps.clone(),
            given,
        })
    })
}

impl Odd {
    fn size(&self) -> u32 {
        self.apps.iter().sum()
    }

    /// Returns the host's registration, in an order that the seed decides.
    fn infos(&self, host: &str) -> Vec<Info> {
        let names: Vec<String> = (0..self.nodes.len())
            .map(|node| if node == 0 { host.to_owned() } else { format!("other{node}") })
            .collect();
        let ranks = |ranks: &Vec<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let map: Vec<String> = self.nodes.iter().map(ranks).collect();
        let mut infos = vec![
            Info::new(keys::JOB_SIZE, self.size()),
            Info::new(keys::NODE_MAP, names.join(",").as_str()),
            Info::new(keys::PROC_MAP, map.join(";").as_str()),
        ];
        let mut arrays: BTreeMap<About, Vec<Info>> = BTreeMap::new();
        for (number, size) in self.apps.iter().enumerate() {
            let head = vec![Info::new(keys::APPNUM, number as u32), Info::new(keys::APP_SIZE, *size)];
            arrays.insert(About::App(number as u32), head);
        }
        for ((about, key), value) in &self.given {
            let head = || match about {
                About::Process(rank) => vec![Info::new(keys::RANK, Rank(*rank))],
                About::Session => vec![Info::new(keys::SESSION_ID, 0u32)],
                About::Node(number) => {
                    vec![Info::new(keys::NODEID, *number), Info::new(keys::HOSTNAME, names[*number as usize].as_str())]
                }
                About::Job | About::App(_) => Vec::new(),
            };
            let info = Info { key: key.clone(), flags: 0, value: value.clone() };
            arrays.entry(*about).or_insert_with(head).push(info);
        }
        infos.extend(arrays.into_iter().map(|(about, members)| {
            let array = match about {
                About::Process(_) => keys::PROC_INFO_ARRAY,
                About::Session => keys::SESSION_INFO_ARRAY,
                About::Job => keys::JOB_INFO_ARRAY,
                About::App(_) => keys::APP_INFO_ARRAY,
                About::Node(_) => keys::NODE_INFO_ARRAY,
            };
            Info::new(array, DataArray::of_info(members))
        }));
        infos
    }

    /// All that was given, and for each key also those it was not given of.
    fn questions(&self) -> Vec<(About, Key)> {
        let strangers = self.given.keys().flat_map(|(_, key)| {
            let somebody = [About::Process(0), About::Session, About::Job, About::App(0), About::Node(0)];
            somebody.map(|about| (about, key.clone()))
        });
        let mut all: Vec<_> = self.given.keys().cloned().chain(strangers).collect();
        all.sort();
        all.dedup();
        all
    }
}

fn write_questions(questions: &[(About, Key)], path: &Path) {
    let bytes = questions.iter().flat_map(|(about, key)| {
        let [rank, level, number] = about.question();
        let head = [rank, level, number, key.as_bytes().len() as u32];
        head.into_iter().flat_map(u32::to_ne_bytes).chain(key.as_bytes().iter().copied()).collect::<Vec<u8>>()
    });
    std::fs::write(path, bytes.collect::<Vec<u8>>()).unwrap();
}

/// Does what `tests/peers/echo.c` does.
fn echo() {
    let bytes = std::fs::read(std::env::var_os(QUESTIONS).unwrap()).unwrap();
    let client = Client::init(&[]).unwrap();
    let mut rest = &bytes[..];
    for n in 0.. {
        let Some((head, tail)) = rest.split_at_checked(16) else { break };
        let word = |at: usize| u32::from_ne_bytes(head[4 * at..4 * at + 4].try_into().unwrap());
        let (key, tail) = tail.split_at(word(3) as usize);
        rest = tail;
        let info = match word(1) {
            // Nobody will post it: there is nothing to wait for.
            0 => vec![Info::new(keys::IMMEDIATE, true)],
            1 => vec![Info::new(keys::SESSION_INFO, true), Info::new(keys::SESSION_ID, word(2))],
            2 => vec![Info::new(keys::JOB_INFO, true)],
            3 => vec![Info::new(keys::APP_INFO, true), Info::new(keys::APPNUM, word(2))],
            _ => vec![Info::new(keys::NODE_INFO, true), Info::new(keys::NODEID, word(2))],
        };
        let proc = Proc::new(client.proc().nspace.clone(), Rank(word(0)));
        let answer = client.get(&proc, key, &info).unwrap_or_else(|error| Value::Status(error.status()));
        client.put(Scope::GLOBAL, format!("seen.{n}"), answer).unwrap();
    }
    client.commit().unwrap();
    client.finalize(&[]).unwrap();
}

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("echo") => echo(),
        Some(other) => panic!("no such role: {other}"),
    }
}

/// The C program and the library it runs on, if they are built.
fn c_reader() -> Option<(PathBuf, PathBuf)> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let (program, library) = (target.join("peers/pmix/echo"), Path::new(env!("CARGO_MANIFEST_DIR")).join("dist/lib"));
    (program.exists() && library.join("libpmix.so.2").exists()).then_some((program, library))
}

fn start_c(job: &Job<'_>, rank: u32, questions: &Path, (program, library): &(PathBuf, PathBuf)) -> Child {
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    job.server.setup_fork(&job.proc(rank), &mut env).unwrap();
    let mut command = Command::new(program);
    command.arg(questions).env_clear().envs(env).env("LD_LIBRARY_PATH", library);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn check(server: &Server, name: &str, odd: &Odd, c_reader: Option<&(PathBuf, PathBuf)>) {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let job = Job::register_as(server, name, READERS, &odd.infos(&host));
    let questions = odd.questions();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("questions-{}-{name}", std::process::id()));
    write_questions(&questions, &path);
    let file = path.to_str().unwrap();
    let mut readers = vec![
        job.start_with(0, "echo", &[(QUESTIONS, file), ("INSTANTON_SHM", "on")]),
        job.start_with(1, "echo", &[(QUESTIONS, file), ("INSTANTON_SHM", "off")]),
    ];
    readers.extend(c_reader.map(|c| start_c(&job, 2, &path, c)));
    let ranks = readers.len() as u32;
    all_well(readers);
    std::fs::remove_file(&path).unwrap();
    for (n, (about, key)) in questions.iter().enumerate() {
        let expected = odd.given.get(&(*about, key.clone())).cloned();
        for rank in 0..ranks {
            let seen = server.get(&job.proc(rank), format!("seen.{n}"), &[]).wait().unwrap();
            match &expected {
                Some(expected) => assert_eq!(&seen, expected, "rank {rank}: {about:?} {key}"),
                None => assert_eq!(seen, Value::Status(Status::ERR_NOT_FOUND), "rank {rank}: {about:?} {key}"),
            }
        }
    }
    server.deregister_nspace(&job.nspace).wait().unwrap();
}

#[test]
fn what_was_given_comes_back_every_way() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let any = u64::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
    let seed = number("INSTANTON_TEST_SEED").unwrap_or(any);
    println!("INSTANTON_TEST_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let c_reader = c_reader();
    if c_reader.is_none() {
        eprintln!("SKIPPED the C reader of what_was_given_comes_back_every_way: `make test` builds it");
    }
    let server = server();
    for turn in 0..number("INSTANTON_TEST_JOBS").unwrap_or(12) {
        let mut odd = odd().new_tree(&mut runner).unwrap().current();
        if turn == 0 {
            let blob = Value::ByteObject((0..10_000_000u32).map(|at| (at * 7) as u8).collect());
            odd.given.insert((About::Process(1), Key::new("large").unwrap()), blob);
        }
        check(&server, &format!("odd@{turn}"), &odd, c_reader.as_ref());
    }
}
