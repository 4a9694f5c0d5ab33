//! A whole conversation of a client on the stock library, as it is and damaged in every place.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use instanton::client::Address;
use instanton::data::{DataRange, Info, Key, Nspace, Pdata, Proc, Query, Rank, Scope, Status, Text, Value, keys};
use instanton::internal::message::Request;
use instanton::internal::wire::{Form, flex};
use instanton::server::{Accepted, Answer, Completion, Host, Infos, Published, Server, ServerConfig};

use crate::peer::{self, PATIENCE, Peer};
use crate::stock_door::{acknowledgement, dial, has, message, read_message, rest};

const OK: Status = Status::SUCCESS;
const FORMS: [Form; 4] = [Form::Plain, Form::Described, Form::PlainFixed, Form::DescribedFixed];
/// Bytes that the server may hold for the job; half of it for one process.
const JOB_MEMORY: u64 = 4 << 20;
/// Attributes of a fence, which is held twice, that leave little of it when two processes have them.
const HELD: usize = 980_000;

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

/// Packs of values: a count, and as many values; in a described form their types as well.
struct Packs {
    bytes: Vec<u8>,
    form: Form,
}

impl Packs {
    fn new(form: Form) -> Packs {
        Packs { bytes: Vec::new(), form }
    }

    fn command(self, command: u8) -> Packs {
        self.pack(ty::COMMAND, 1, &[command])
    }

    fn pack(mut self, ty: u8, count: usize, items: &[u8]) -> Packs {
        let form = self.form;
        if form.is_described() {
            self.bytes.extend(unsigned(form, ty::COUNT.into(), 2));
        }
        self.bytes.extend(signed(form, count as i32));
        if form.is_described() {
            self.bytes.extend(unsigned(form, ty.into(), 2));
        }
        self.bytes.extend(items);
        self
    }

    fn size(self, number: usize) -> Packs {
        let size = size(self.form, number);
        self.pack(ty::SIZE, 1, &size)
    }

    /// A number of 32 bits without a sign.
    fn number(self, ty: u8, number: u32) -> Packs {
        let number = unsigned(self.form, number.into(), 4);
        self.pack(ty, 1, &number)
    }

    fn status(self, status: i32) -> Packs {
        let status = signed(self.form, status);
        self.pack(ty::STATUS, 1, &status)
    }

    fn text(self, of: &str) -> Packs {
        let text = text(self.form, of);
        self.pack(ty::STRING, 1, &text)
    }

    fn byte(self, ty: u8, byte: u8) -> Packs {
        self.pack(ty, 1, &[byte])
    }

    /// The number of some things, and a pack of them.
    fn list(self, ty: u8, items: &[Vec<u8>]) -> Packs {
        let all = self.size(items.len());
        if items.is_empty() { all } else { all.pack(ty, items.len(), &items.concat()) }
    }

    fn buffer(self, packs: &Packs) -> Packs {
        let form = if self.form.is_described() { 2 } else { 1 };
        let whole = [&[form][..], &size(self.form, packs.bytes.len()), &packs.bytes].concat();
        self.pack(ty::BUFFER, 1, &whole)
    }
}

/// Types of values, by their numbers.
mod ty {
    pub const BOOL: u8 = 1;
    pub const STRING: u8 = 3;
    pub const SIZE: u8 = 4;
    /// Of the count of a described pack: INT32.
    pub const COUNT: u8 = 9;
    pub const UINT32: u8 = 14;
    pub const UINT64: u8 = 15;
    pub const STATUS: u8 = 20;
    pub const PROC: u8 = 22;
    pub const INFO: u8 = 24;
    pub const BUFFER: u8 = 26;
    pub const KVAL: u8 = 28;
    pub const SCOPE: u8 = 32;
    pub const RANGE: u8 = 33;
    pub const COMMAND: u8 = 34;
    pub const RANK: u8 = 40;
    pub const QUERY: u8 = 41;
}

/// An integer without a sign, of so many bytes where their number is fixed.
fn unsigned(form: Form, number: u64, width: usize) -> Vec<u8> {
    if form.is_fixed() {
        return number.to_be_bytes()[8 - width..].to_vec();
    }
    let mut room = [0; flex::MAX];
    let len = flex::put(&mut room, number);
    room[..len].to_vec()
}

/// An integer of 32 bits, the sign of which is at the low end where its length varies.
fn signed(form: Form, number: i32) -> Vec<u8> {
    if form.is_fixed() { number.to_be_bytes().to_vec() } else { unsigned(form, flex::fold(number.into()), 4) }
}

fn size(form: Form, number: usize) -> Vec<u8> {
    let tag: &[u8] = if form.is_fixed() { &[0, ty::UINT64] } else { &[] };
    [tag, &unsigned(form, number as u64, 8)].concat()
}

fn text(form: Form, text: &str) -> Vec<u8> {
    [&signed(form, text.len() as i32 + 1), text.as_bytes(), &[0]].concat()
}

fn name(form: Form, proc: &Proc) -> Vec<u8> {
    [text(form, &proc.nspace.to_string()), unsigned(form, proc.rank.0.into(), 4)].concat()
}

/// A type, and a value of it.
fn value(form: Form, ty: u8, value: &[u8]) -> Vec<u8> {
    [&unsigned(form, ty.into(), 2), value].concat()
}

/// An attribute: its key, no flags, and its value.
fn info(form: Form, key: &str, ty: u8, of: &[u8]) -> Vec<u8> {
    [text(form, key), unsigned(form, 0, 4), value(form, ty, of)].concat()
}

/// Words of a client: its first message, and those behind it.
struct Words {
    first: Vec<u8>,
    requests: Vec<Vec<u8>>,
}

/// Requests of a client in turn, and the beginning of each answer. Each answer has some bytes in it.
fn requests(proc: &Proc, form: Form) -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let own = [name(form, proc)];
    let nspace = &proc.nspace.to_string();
    let (new, asks) = (|| Packs::new(form), |command| Packs::new(form).command(command));
    let number = |number| value(form, ty::UINT32, &unsigned(form, number, 4));
    let entry = |key| new().pack(ty::KVAL, 1, &[text(form, key), number(7)].concat());
    let done = || new().status(0);
    let asked = |packs: Packs, answer: Packs, with: &[&[u8]]| (packs.bytes, answer.bytes, with.concat());
    let numbered = |key, of| [text(form, key), unsigned(form, 0, 4), number(of)].concat();
    let query = [signed(form, 1), text(form, "what"), size(form, 1), numbered("of", 3)].concat();
    vec![
        asked(asks(0), new().text(nspace), &[b"pmix.job.size\0"]),
        // For this node, and for others.
        asked(asks(2).byte(ty::SCOPE, 1).buffer(&entry("k")).byte(ty::SCOPE, 2).buffer(&entry("k")), done(), &[]),
        asked(asks(3).list(ty::PROC, &own).list(ty::INFO, &[info(form, "pmix.collect", ty::BOOL, &[1])]), done(), &[]),
        asked(
            asks(4).text(nspace).number(ty::RANK, proc.rank.0).list(ty::INFO, &[]).text("k"),
            done(),
            &[b"k\0", &number(7)],
        ),
        asked(asks(13).list(ty::STATUS, &[signed(form, -2001)]).list(ty::INFO, &[]), done(), &[]),
        asked(
            asks(12)
                .status(-2002)
                .byte(ty::RANGE, 3)
                .list(ty::INFO, &[info(form, "why", ty::STRING, &text(form, "because"))]),
            done(),
            &[],
        ),
        asked(
            asks(7).number(ty::UINT32, 1000).list(ty::STRING, &[text(form, "port")]).list(ty::INFO, &[]),
            done().size(1),
            &[b"port\0", &number(5)],
        ),
        asked(asks(6).number(ty::UINT32, 1000).list(ty::INFO, &[numbered("port", 5)]), done(), &[]),
        asked(asks(15).list(ty::QUERY, &[query]), done().size(1), &[b"of\0", &unsigned(form, 0, 4), &number(3)]),
        asked(
            asks(24)
                .text(&format!("group{}", proc.rank.0))
                .list(ty::PROC, &own)
                .list(ty::INFO, &[info(form, "pmix.grp.actxid", ty::BOOL, &[1])]),
            done().size(9),
            &[],
        ),
        asked(asks(5), done(), &[]),
    ]
}

impl Words {
    /// Words of a client of 4.2.2 with packs of that form; it would be of 3.2 where the length of integers is fixed.
    fn of(proc: &Proc, form: Form) -> Words {
        let whole = acknowledgement(proc);
        // Behind the encoding stands the form of its packs, and in front of its body the length of that.
        let at = whole.len() - b"v41\0\x01hash\0\0".len();
        let encoding: &[u8] = if form.is_fixed() { b"v3\0" } else { b"v41\0" };
        let described = if form.is_described() { 2 } else { 1 };
        let mut first = [&whole[..at], encoding, &[described], b"hash\0\0"].concat();
        let len = first.len() as u32 - 16;
        first[8..12].copy_from_slice(&len.to_ne_bytes());
        let requests = requests(proc, form).into_iter().enumerate();
        Words { first, requests: requests.map(|(turn, (body, ..))| message(101 + turn as u32, &body)).collect() }
    }

    /// Words that were captured.
    fn captured(mut bytes: &[u8]) -> Words {
        let mut next = |length: fn([u8; 4]) -> u32| {
            let len = length(*bytes.get(8..)?.first_chunk()?) as usize;
            let (message, rest) = bytes.split_at(16 + len);
            bytes = rest;
            Some(message.to_vec())
        };
        let first = next(u32::from_ne_bytes).unwrap();
        Words { first, requests: std::iter::from_fn(|| next(u32::from_be_bytes)).collect() }
    }

    /// The name of the process.
    fn proc(&self) -> Proc {
        // Behind the header, module and credential, and its kind.
        let named = &self.first[16 + b"native\0".len() + 4 + 8 + 1..];
        let end = named.iter().position(|byte| *byte == 0).unwrap();
        let rank = u32::from_be_bytes(*named[end + 1..].first_chunk().unwrap());
        Proc::new(Nspace::new(&named[..end]).unwrap(), Rank(rank))
    }
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

/// A server, and the first ranks of a job.
fn job<const N: usize>(nspace: &Nspace) -> (Server, [Proc; N]) {
    let config = ServerConfig { job_memory: JOB_MEMORY, ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(Obliging)).unwrap();
    let procs = std::array::from_fn(|rank| Proc::new(nspace.clone(), Rank(rank as u32)));
    server.register_nspace(nspace, N, &[Info::new(keys::JOB_SIZE, N as u32)]).wait().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    for proc in &procs {
        server.register_client(proc, uid, gid).wait().unwrap();
    }
    (server, procs)
}

/// Comes in by the first message of a client.
fn enter(address: &Address, first: &[u8]) -> TcpStream {
    let mut stream = dial(address);
    stream.write_all(first).unwrap();
    let mut welcome = [1; 8];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome, [0; 8]);
    stream
}

/// Talks to the server as a client that waits for each answer, and holds the answers against what they should be.
fn converse(address: &Address, form: Form) {
    let mut stream = enter(address, &Words::of(&address.proc, form).first);
    for (turn, (body, answer, with)) in requests(&address.proc, form).into_iter().enumerate() {
        let tag = 101 + turn as u32;
        stream.write_all(&message(tag, &body)).unwrap();
        let (found, said) = read_message(&mut stream);
        assert!(found == tag && said.starts_with(&answer), "{body:?} is answered by {said:?}");
        assert!(with.is_empty() && said.len() == answer.len() || !with.is_empty() && has(&said, &with), "{said:?}");
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
        // A client that closes before it is let in is not listened to.
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

/// Returns how many bytes may be in a request of the job now, when that is asked for the first time or the second.
fn room(server: &Server, proc: &Proc, time: u32) -> usize {
    // The events of the job that are kept for those who register late give way to these, which nobody is charged for: of
    // jobs that have one each, and come behind it by name.
    for number in 0..512 {
        let other = Proc::new(Nspace::new(format!("else{time}.{number}")).unwrap(), Rank(0));
        server.notify_event(Status(-2003), &other, DataRange::LOCAL, &[]).wait().unwrap();
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

/// Says the words of a client, damaged in many places, while others of its job hold nearly all that they may.
fn replay(stock: &Words, form: Form, damages: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) {
    let (server, [native, other, silent, before_it, rank, after_it]) = job(&stock.proc().nspace);
    let stock = stock.proc();
    assert_eq!(stock, rank);
    let address = peer::address(&server, &stock);
    let [mut good, mut other] = [native, other].map(|proc| hold(&server, &proc, &silent));
    assert_eq!(other.commit(Scope::GLOBAL, "turn", 0u32), OK);
    // Each has a group of its own, which outlives it. The information of the job is kept in that form.
    converse(&peer::address(&server, &before_it), form);
    converse(&address, form);
    let before = room(&server, &stock, 1);
    assert!((1 << 14..HELD).contains(&before), "{before} bytes are left");
    let (mut runs, mut answers) = (0, 0);
    for (first, rest) in damages {
        answers += say(&address, &first, &rest);
        runs += 1;
        assert_eq!(good.commit(Scope::GLOBAL, "turn", runs), OK, "after {}", rest.escape_ascii());
    }
    println!("{runs} conversations, {answers} answers");
    // How many depends on how far the server comes before it sees the end of each; the whole ones are counted by `converse`.
    assert!(answers > 0, "nothing is answered");
    assert_eq!(room(&server, &stock, 2), before, "nothing is charged any more");
    converse(&peer::address(&server, &after_it), form);
}

#[test]
fn a_conversation_that_is_damaged_anywhere_disturbs_nobody_and_leaves_nothing() {
    for form in FORMS {
        let words = Words::of(&Proc::new(Nspace::new("job").unwrap(), Rank(4)), form);
        let Words { first, requests } = &words;
        let all = requests.concat();
        let at_first = damaged(first).map(|bytes| (bytes, Vec::new()));
        let then = damaged(&all).map(|bytes| (first.clone(), bytes));
        // In another order, and some of them again.
        let mut seed = 1u64;
        let shuffled = (0..200).map(|_| {
            let other = (0..requests.len()).map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                requests[(seed >> 32) as usize % requests.len()].clone()
            });
            (first.clone(), other.collect::<Vec<_>>().concat())
        });
        replay(&words, form, at_first.chain(then).chain(shuffled));
    }
}

#[test]
fn packs_of_each_form_are_answered_in_that_form() {
    for form in FORMS {
        let (server, [proc]) = job(&Nspace::new("job").unwrap());
        converse(&peer::address(&server, &proc), form);
    }
}

const CAPTURED: [&[u8]; 2] = [include_bytes!("captured/client-4.2.2"), include_bytes!("captured/client-5.0.11")];

/// Says the words of a captured client, and waits for each answer.
fn say_captured(address: &Address, words: &Words) {
    let mut stream = enter(address, &words.first);
    for request in &words.requests {
        // A count of 1 stands in front of the command.
        let (tag, command) = (&request[4..8], request[17]);
        stream.write_all(request).unwrap();
        let (found, said) = read_message(&mut stream);
        assert_eq!(found.to_be_bytes(), tag, "to {}", request.escape_ascii());
        match command {
            0 => assert!(has(&said, b"pmix.job.size\0")),
            2 | 3 | 5 | 6 | 10 => assert!(said.starts_with(&[2, 0]), "{command}: {said:?}"),
            // The last one asks for what nobody posts.
            _ => assert!(said.len() > 1 && said[0] == 2, "{command}: {said:?}"),
        }
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), []);
}

#[test]
fn captured_clients_are_answered() {
    for captured in CAPTURED {
        let words = Words::captured(captured);
        assert!(words.requests.len() > 30, "{}", words.requests.len());
        let (server, [proc]) = job(&words.proc().nspace);
        say_captured(&peer::address(&server, &proc), &words);
    }
}

#[test]
fn captured_clients_that_are_damaged_disturb_nobody() {
    /// Damages that are left out between two.
    const STEP: usize = 23;
    for captured in CAPTURED {
        let words = Words::captured(captured);
        let (server, [proc]) = job(&words.proc().nspace);
        let native = Proc::new(Nspace::new("other").unwrap(), Rank(0));
        server.register_nspace(&native.nspace, 1, &[Info::new(keys::JOB_SIZE, 1u32)]).wait().unwrap();
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        server.register_client(&native, uid, gid).wait().unwrap();
        let (address, mut good) = (peer::address(&server, &proc), Peer::connect(&server, &native).unwrap());
        let all = words.requests.concat();
        let at_first = damaged(&words.first).map(|bytes| (bytes, Vec::new()));
        let then = damaged(&all).step_by(STEP).map(|bytes| (words.first.clone(), bytes));
        let mut answers = 0;
        for (turn, (first, rest)) in at_first.chain(then).enumerate() {
            answers += say(&address, &first, &rest);
            assert_eq!(good.commit(Scope::GLOBAL, "turn", turn as u32), OK, "after {}", rest.escape_ascii());
        }
        assert!(answers > 0, "nothing is answered");
        say_captured(&address, &words);
    }
}
