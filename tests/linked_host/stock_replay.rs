//! A whole conversation of a client on the stock library, as it is and damaged in every place.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use instanton::client::Address;
use instanton::data::{DataRange, Info, Key, Nspace, Pdata, Proc, Query, Rank, Scope, Status, Text, Value, keys};
use instanton::internal::message::Request;
use instanton::internal::wire::flex;
use instanton::server::{Accepted, Answer, Completion, Host, Infos, Published, Server, ServerConfig};

use crate::peer::{self, PATIENCE, Peer};
use crate::stock_door::{acknowledgement, dial, has, message, read_message, rest};

const OK: Status = Status::SUCCESS;
/// Bytes that the server may hold for the job; half of it for one process.
const JOB_MEMORY: u64 = 4 << 20;
/// Attributes of a fence, which is held twice, that leave little of it when two processes have them.
const HELD: usize = 980_000;
/// The answer that is a good status alone.
const DONE: &[u8] = &[2, 0];

/// A host with an answer to everything.
struct Obliging;

impl Host for Obliging {
    fn publish(&self, _: &Proc, _: &[Info], _: Completion<()>) -> Accepted {
        Ok(Answer::Done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], _: &[Info], done: Completion<Published>) -> Accepted {
        let key = |key: &Text| Key::new(key.as_bytes()).ok();
        let found = |key| Pdata { proc: proc.clone(), key, value: Value::Uint32(5) };
        done.complete(Ok((OK, keys.iter().filter_map(key).map(found).collect())));
        Ok(Answer::Later)
    }

    fn query(&self, _: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        // The server has added whose question it is.
        let infos = queries.iter().filter_map(|query| query.qualifiers.first().cloned()).collect();
        done.complete(Ok((OK, infos)));
        Ok(Answer::Later)
    }

    fn group(&self, _: i64, _: &Nspace, _: &[Proc], _: &[Info], done: Completion<Infos>) -> Accepted {
        done.complete(Ok((OK, vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(9))])));
        Ok(Answer::Later)
    }
}

/// Packs of values in the plain form: a count, and as many values.
struct Packs(Vec<u8>);

impl Packs {
    fn command(command: u8) -> Packs {
        Packs(vec![2, command])
    }

    fn number(mut self, number: u64) -> Packs {
        self.0.push(2);
        self.0.extend(unsigned(number));
        self
    }

    /// A status.
    fn status(self, status: i32) -> Packs {
        self.number(signed(status))
    }

    fn text(mut self, of: &str) -> Packs {
        self.0.push(2);
        self.0.extend(text(of));
        self
    }

    fn byte(mut self, byte: u8) -> Packs {
        self.0.extend([2, byte]);
        self
    }

    /// The number of some things, and a pack of them.
    fn list(self, items: &[Vec<u8>]) -> Packs {
        let mut all = self.number(items.len() as u64);
        if !items.is_empty() {
            all.0.extend(unsigned(2 * items.len() as u64));
            all.0.extend(items.concat());
        }
        all
    }

    fn buffer(mut self, packs: &[u8]) -> Packs {
        self.0.extend([2, 1]);
        self.0.extend(unsigned(packs.len() as u64));
        self.0.extend(packs);
        self
    }
}

fn unsigned(number: u64) -> Vec<u8> {
    let mut room = [0; flex::MAX];
    let len = flex::put(&mut room, number);
    room[..len].to_vec()
}

/// The sign at the low end.
fn signed(number: i32) -> u64 {
    let positive = if number < 0 { !number } else { number };
    (positive as u64) << 1 | u64::from(number < 0)
}

fn text(text: &str) -> Vec<u8> {
    [unsigned(2 * (text.len() as u64 + 1)), text.as_bytes().to_vec(), vec![0]].concat()
}

fn name(proc: &Proc) -> Vec<u8> {
    [text(&proc.nspace.to_string()), unsigned(proc.rank.0.into())].concat()
}

/// An attribute: its key, no flags, the type and the value.
fn info(key: &str, ty: u8, value: &[u8]) -> Vec<u8> {
    [&text(key)[..], &[0, ty], value].concat()
}

/// Requests of a client in turn, and the beginning of each answer. Each answer has a text in it.
fn requests(proc: &Proc) -> Vec<(Vec<u8>, Vec<u8>, &'static [u8])> {
    const BOOL: u8 = 1;
    const STRING: u8 = 3;
    const UINT32: u8 = 14;
    let own = [name(proc)];
    let nspace = &proc.nspace.to_string();
    let entry = |key| [&[2][..], &text(key), &[UINT32], &unsigned(7)].concat();
    let done = || DONE.to_vec();
    let found = |packs: Packs| [DONE, &packs.0].concat();
    let asked = |packs: Packs, answer, with: &'static [u8]| (packs.0, answer, with);
    vec![
        asked(Packs::command(0), Packs(Vec::new()).text(nspace).0, b"pmix.job.size\0"),
        // For this node, and for others.
        asked(Packs::command(2).byte(1).buffer(&entry("k")).byte(2).buffer(&entry("k")), done(), b""),
        asked(Packs::command(3).list(&own).list(&[info("pmix.collect", BOOL, &[1])]), done(), b""),
        asked(Packs::command(4).text(nspace).number(proc.rank.0.into()).list(&[]).text("k"), done(), b"k\0\x0e\x07"),
        asked(Packs::command(13).list(&[unsigned(signed(-2001))]).list(&[]), done(), b""),
        asked(Packs::command(12).status(-2002).byte(3).list(&[info("why", STRING, &text("because"))]), done(), b""),
        asked(
            Packs::command(7).number(1000).list(&[text("port")]).list(&[]),
            found(Packs(Vec::new()).number(1)),
            b"port\0\x0e\x05",
        ),
        asked(Packs::command(6).number(1000).list(&[info("port", UINT32, &[5])]), done(), b""),
        asked(
            Packs::command(15).list(&[[&[2][..], &text("what"), &[1], &info("of", UINT32, &[3])].concat()]),
            found(Packs(Vec::new()).number(1)),
            b"of\0\x00\x0e\x03",
        ),
        asked(
            Packs::command(24).text(&format!("group{}", proc.rank.0)).list(&own).list(&[info(
                "pmix.grp.actxid",
                BOOL,
                &[1],
            )]),
            found(Packs(Vec::new()).list(&own).number(9)),
            b"",
        ),
        asked(Packs::command(5), done(), b""),
    ]
}

/// The messages of a client that is in.
fn requests_of(proc: &Proc) -> Vec<Vec<u8>> {
    requests(proc).into_iter().enumerate().map(|(turn, (body, ..))| message(101 + turn as u32, &body)).collect()
}

/// Bytes with each of them changed in turn, by all of its bits and by one, and cut at every length.
fn damaged(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let changed = move |by: fn(usize) -> u8| {
        (0..whole.len()).map(move |at| {
            let mut bytes = whole.to_vec();
            bytes[at] ^= by(at);
            bytes
        })
    };
    changed(|_| 0xff).chain(changed(|at| 1 << (at % 8))).chain((0..whole.len()).map(|len| whole[..len].to_vec()))
}

/// A server, and a job of six ranks.
fn job() -> (Server, [Proc; 6]) {
    let config = ServerConfig { job_memory: JOB_MEMORY, ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(Obliging)).unwrap();
    let procs = [0, 1, 2, 3, 4, 5].map(|rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank)));
    server.register_nspace(&procs[0].nspace, 6, &[Info::new(keys::JOB_SIZE, 6u32)]).wait().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    for proc in &procs {
        server.register_client(proc, uid, gid).wait().unwrap();
    }
    (server, procs)
}

/// Talks to the server as a client that waits for each answer, and holds the answers against what they should be.
fn converse(address: &Address) {
    let mut stream = dial(address);
    stream.write_all(&acknowledgement(&address.proc)).unwrap();
    let mut welcome = [1; 8];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome, [0; 8]);
    for (turn, (body, answer, with)) in requests(&address.proc).into_iter().enumerate() {
        let tag = 101 + turn as u32;
        stream.write_all(&message(tag, &body)).unwrap();
        let (found, said) = read_message(&mut stream);
        assert!(found == tag && said.starts_with(&answer), "{body:?} is answered by {said:?}");
        assert!(with.is_empty() && said.len() == answer.len() || !with.is_empty() && has(&said, with), "{said:?}");
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), []);
}

/// Says something, and waits for the server to close. Returns the number of answers.
fn say(address: &Address, first: &[u8], rest: &[u8]) -> usize {
    let mut stream: TcpStream = dial(address);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(first);
    if !rest.is_empty() {
        // Whoever closes before it is let in is not listened to.
        stream.read_exact(&mut [0; 8]).unwrap();
        let _ = stream.write_all(rest);
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    if let Err(error) = stream.read_to_end(&mut said) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the server closes");
    }
    let (mut answers, mut said) = (0, &said[..]);
    while let Some((header, rest)) = said.split_first_chunk::<16>() {
        let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
        answers += 1;
        said = rest.get(len..).unwrap_or_default();
    }
    answers
}

/// Comes in, and makes the server hold nearly all that it may for one process, waiting for one that never comes.
fn hold(server: &Server, proc: &Proc, silent: &Proc) -> Peer {
    let mut peer = Peer::connect(server, proc).unwrap();
    peer.start_fence(&[proc.clone(), silent.clone()], &[much(HELD)]);
    peer
}

fn much(bytes: usize) -> Info {
    Info::new("much", Value::string(vec![b'x'; bytes]))
}

/// Returns how many bytes may be in a request of the job now.
fn room(server: &Server, proc: &Proc) -> usize {
    // The events of the job that are kept for those who register late give way to these, which nobody is charged for.
    for _ in 0..512 {
        server.notify_event(Status(-2003), &server.proc(), DataRange::LOCAL, &[]).wait().unwrap();
    }
    let mut peer = Peer::connect(server, proc).unwrap();
    let mut fits =
        |bytes: usize| peer.status(Request::Fence { procs: vec![proc.clone()], info: vec![much(bytes)] }) == OK;
    let (mut fitting, mut over) = (0, HELD);
    while over - fitting > 1 {
        let middle = (fitting + over) / 2;
        if fits(middle) { fitting = middle } else { over = middle }
    }
    assert_eq!(peer.finalize(), OK);
    fitting
}

#[test]
fn a_conversation_that_is_damaged_anywhere_disturbs_nobody_and_leaves_nothing() {
    let (server, [native, other, silent, before_it, stock, after_it]) = job();
    let address = peer::address(&server, &stock);
    let [mut good, mut other] = [native, other].map(|proc| hold(&server, &proc, &silent));
    assert_eq!(other.commit(Scope::GLOBAL, "turn", 0u32), OK);
    // Each has a group of its own, which outlives it.
    converse(&peer::address(&server, &before_it));
    let before = room(&server, &stock);
    assert!((1 << 14..HELD).contains(&before), "{before} bytes are left");

    let (first, requests) = (acknowledgement(&stock), requests_of(&stock));
    let mut runs = 0;
    let mut answers = 0;
    let mut say = |first: &[u8], rest: &[u8]| {
        answers += say(&address, first, rest);
        runs += 1;
        assert_eq!(good.commit(Scope::GLOBAL, "turn", runs), OK, "after {}", rest.escape_ascii());
    };
    damaged(&first).for_each(|bytes| say(&bytes, &[]));
    damaged(&requests.concat()).for_each(|bytes| say(&first, &bytes));
    // In another order, and some of them again.
    let mut seed = 1u64;
    for _ in 0..200 {
        let other = (0..requests.len()).map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            requests[(seed >> 32) as usize % requests.len()].clone()
        });
        say(&first, &other.collect::<Vec<_>>().concat());
    }
    println!("{runs} conversations, {answers} answers");
    // How many depends on how far the server comes before it sees the end of each; the whole ones are counted by `converse`.
    assert!(answers > 0, "nothing is answered");
    converse(&peer::address(&server, &after_it));
    assert_eq!(room(&server, &stock), before, "nothing is charged any more");
}
