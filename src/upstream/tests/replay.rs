//! A server that says what a stock server says, damaged in every place: whatever comes of it, a process learns it.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use instanton_layout::sync::{AtomicUsize, Ordering};

use super::*;
use crate::client::Client;
use crate::data::{App, Channels, Info, Key, Nspace, Pdata, Query, Rank, Scope, Status, Text, Value, keys};
use crate::message::Reply;
use crate::stock::answers as door;
use crate::stock::frame::{EVENT, HEADER, HEARTBEAT, Header, OUTPUT};
use crate::stock::requests::{Answer, command};
use crate::wire::{Form, zlib};

/// Limit on a conversation, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// The server's number of the client's pull of output.
const PULL: u64 = 7;

/// Place in all that the server says, and the bits that are changed there; where there are none, it breaks off.
#[derive(Clone, Copy, Debug)]
struct Damage {
    at: usize,
    by: Option<u8>,
}

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// The answer to a command.
fn answer(of: u8) -> Vec<u8> {
    let nspace = proc(3).nspace;
    let value = |key: &str| Info::new(key, vec![1u8; 3]);
    let told = |answer, reply| door::body(Form::Plain, [4, 2, 9], answer, reply, &[]).unwrap();
    let ok = Status::SUCCESS;
    match of {
        command::JOB_INFO => job_info::tests::answer(&nspace, 4, 2),
        command::GET => {
            // A text that cannot be one is left out.
            let not_one = Value::CompressedString(zlib::compress(&b"x\0".repeat(5000)).unwrap());
            let infos = vec![value("k"), Info::new("j", "text"), Info::new("not one", not_one)];
            told(Answer::Data(proc(0), None), Reply::Infos(ok, infos))
        }
        command::LOOKUP => {
            let item = Pdata { proc: proc(1), key: Key::new("port").unwrap(), value: Value::Uint32(3) };
            told(Answer::Published, Reply::Published(ok, vec![item]))
        }
        command::QUERY => told(Answer::Infos, Reply::Infos(ok, vec![value("q")])),
        command::PULL_OUTPUT => told(Answer::Pull(PULL), Reply::Done(ok)),
        command::GROUP_CONSTRUCT => {
            let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(9));
            told(Answer::Group(vec![proc(3), proc(0)]), Reply::Infos(ok, vec![context]))
        }
        command::SPAWN => {
            [told(Answer::Status, Reply::Done(ok)), job_info::tests::answer(&Nspace::new("child").unwrap(), 2, 1)]
                .concat()
        }
        _ => told(Answer::Status, Reply::Done(ok)),
    }
}

/// The server's end of a connection.
struct Impostor {
    stream: TcpStream,
    damage: Option<Damage>,
    said: Arc<AtomicUsize>,
    /// Number of signs of life that it has had.
    beats: Arc<AtomicUsize>,
    is_over: bool,
}

impl Impostor {
    /// Sends bytes. Those whose head is damaged are the last: who waits for another message would wait for ever.
    fn say(&mut self, head: &[u8], body: &[u8]) {
        if self.is_over {
            return;
        }
        let mut bytes = [head, body].concat();
        let begin = self.said.fetch_add(bytes.len(), Ordering::Relaxed);
        if let Some(Damage { at, by }) = self.damage
            && (begin..begin + bytes.len()).contains(&at)
        {
            match by {
                Some(by) => bytes[at - begin] ^= by,
                None => bytes.truncate(at - begin),
            }
            self.is_over = by.is_none() || at - begin < head.len();
        }
        // The client may be gone.
        let _ = self.stream.write_all(&bytes);
        if self.is_over {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    fn message(&mut self, tag: u32, body: &[u8]) {
        self.say(&Header { tag, len: body.len() }.bytes(), body);
    }

    /// Answers all that the client asks. An event and output come with the answer to a fence.
    fn serve(mut self) -> std::io::Result<()> {
        self.stream.read_exact(&mut [0; ACK])?;
        // The status is what the client waits for, and the index.
        self.say(&[0; 8], &[]);
        loop {
            let mut header = [0; HEADER];
            self.stream.read_exact(&mut header)?;
            let Header { tag, len } = Header::parse(&header);
            let mut body = vec![0; len];
            self.stream.read_exact(&mut body)?;
            if tag == HEARTBEAT {
                assert_eq!(body, []);
                self.beats.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let asked = body[1];
            if asked == command::FENCE {
                let event = door::event(Form::Plain, Status(-2001), &proc(0), &[Info::new("why", "because")]);
                self.message(EVENT, &event.unwrap());
                let line = b"a line\n".to_vec();
                let output = door::output(Form::Plain, PULL, &proc(0), Channels::STDOUT, line, &[]);
                self.message(OUTPUT, &output.unwrap());
            }
            self.message(tag, &answer(asked));
        }
    }
}

/// Does all that needs the stock server. Returns the number of calls that went well.
fn live(address: &StockAddress) -> usize {
    let Ok((mut upstream, own, _)) = Upstream::join(address, &process(), true, Some(Instant::now() + PATIENCE)) else {
        return 0;
    };
    let thread = upstream.thread.take();
    let went_well = Client::connect(&own, &[]).map_or(0, |client| {
        let text = |text: &str| Text::new(text).unwrap();
        let app =
            App { cmd: Some(text("x")), argv: Vec::new(), env: Vec::new(), cwd: None, maxprocs: 1, info: Vec::new() };
        let query = Query { keys: vec![text("q")], qualifiers: Vec::new() };
        let group = Nspace::new("group").unwrap();
        let results = [
            client.register_event_handler(&[Status(-2001)], &[], Arc::new(|_, chain| drop(chain))).wait().is_ok(),
            client.iof_pull(&[proc(0)], Channels::STDOUT, &[], Arc::new(drop)).wait().is_ok(),
            client.put(Scope::GLOBAL, "k", Value::Uint32(1)).is_ok(),
            client.commit().is_ok(),
            client.fence(&[], &[]).wait().is_ok(),
            client.get(&proc(0), "k", &[]).is_ok(),
            // Fetched data is fetched anew.
            client.fence(&[], &[Info::new(keys::COLLECT_DATA, true)]).wait().is_ok(),
            client.lookup(&["port"], &[]).wait().is_ok(),
            client.process_monitor(&Info::new(keys::SEND_HEARTBEAT, true), Status::SUCCESS, &[]).wait().is_ok(),
            client.query(&[query]).wait().is_ok(),
            client.group_construct(&group, &[proc(3), proc(0)], &[]).wait().is_ok(),
            client.spawn(&[], &[app]).wait().is_ok(),
            client.finalize(&[]).is_ok(),
        ];
        results.into_iter().filter(|is_ok| *is_ok).count()
    });
    drop(upstream);
    thread.map(JoinHandle::join).transpose().expect("the receiving thread ends well");
    went_well
}

/// A conversation: the calls that went well, and the bytes that the server has said.
fn converse(damage: Option<Damage>) -> (usize, usize) {
    let [said, beats] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let (counted, heard) = (said.clone(), beats.clone());
    let (address, server) = impostor(move |stream| {
        // News and an answer go one behind the other.
        stream.set_nodelay(true).unwrap();
        // It ends when the client has gone.
        let _ = Impostor { stream, damage, said: counted, beats: heard, is_over: false }.serve();
    });
    let (sender, receiver) = mpsc::channel();
    let client = std::thread::spawn(move || sender.send(live(&address)));
    let went_well = receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{damage:?}: {error}"));
    client.join().unwrap().unwrap();
    server.join().unwrap();
    assert!(damage.is_some() || beats.load(Ordering::Relaxed) == 1);
    (went_well, said.load(Ordering::Relaxed))
}

#[test]
fn a_server_that_is_damaged_anywhere_is_an_error_or_an_answer() {
    let (all, len) = converse(None);
    assert_eq!(all, 13);
    // Each byte is another one in turn; by a bit, and cut, at some.
    let damages =
        [(0..len).step_by(1), (0..len).step_by(8), (4..len).step_by(8)].into_iter().zip([Some(0xff), Some(1), None]);
    let (begin, mut runs, mut calls) = (Instant::now(), 0, 0);
    for (at, by) in damages.flat_map(|(places, by)| places.map(move |at| (at, by))) {
        calls += converse(Some(Damage { at, by })).0;
        runs += 1;
    }
    println!("{runs} conversations, {calls} calls went well, {:?}", begin.elapsed());
    assert!(calls > runs, "what is not damaged is taken");
}
