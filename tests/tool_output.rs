//! Output of processes on its way to tools that pull it: kept for late comers, waiting for slow readers, or dropped. A
//! tool that stops reading, or dies, stops no other.
mod processes;

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use instanton::client::{Client, Output};
use instanton::data::{Channels, Info, InfoList, Nspace, Proc, Rank, Status, keys};
use instanton::server::{Accepted, Answer, Completion, Host, Server, ServerConfig, ToolSupport};
use instanton::tool::Tool;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use processes::{role, start_alone};

const PATIENCE: Duration = Duration::from_secs(120);
/// Four of these are as much as a pull is sent before it has read anything.
const PIECE: usize = 64 << 10;
const OUT: Channels = Channels::STDOUT;

/// A host that forwards whatever is asked for, and remembers who has asked and who has stopped.
#[derive(Default)]
struct ForwardingHost {
    asked: Mutex<Vec<(Channels, Vec<Info>)>>,
    stopped: Mutex<Option<mpsc::Sender<Channels>>>,
}

impl Host for ForwardingHost {
    fn iof_pull(&self, _: &[Proc], directives: &[Info], channels: Channels, _: Completion<()>) -> Accepted {
        match (directives.is_set(keys::IOF_STOP), &*self.stopped.lock().unwrap()) {
            (true, Some(tell)) => {
                assert!(directives.find(keys::USERID).is_some());
                let _ = tell.send(channels);
            }
            (true, None) => {}
            (false, _) => self.asked.lock().unwrap().push((channels, directives.to_vec())),
        }
        Ok(Answer::Done)
    }
}

struct Node {
    server: Server,
    host: Arc<ForwardingHost>,
    stops: mpsc::Receiver<Channels>,
}

impl Node {
    fn start(name: &str) -> Self {
        let (tell, stops) = mpsc::channel();
        let host = Arc::new(ForwardingHost { stopped: Mutex::new(Some(tell)), ..ForwardingHost::default() });
        let tools = Some(ToolSupport::default());
        let nspace = Nspace::new(name).unwrap();
        let server = Server::start(ServerConfig { nspace, tools, ..ServerConfig::default() }, host.clone()).unwrap();
        Node { server, host, stops }
    }

    fn tool(&self) -> Tool {
        Tool::init(&[self.address()]).unwrap()
    }

    fn address(&self) -> Info {
        Info::new(keys::SERVER_URI, self.server.uri().unwrap().to_string().as_str())
    }

    fn says(&self, rank: u32, bytes: &[u8]) {
        self.server.iof_deliver(&rank_of_job(rank), OUT, bytes, &[]).wait().unwrap();
    }

    fn ends(&self, rank: u32) {
        let info = [Info::new(keys::IOF_COMPLETE, true)];
        self.server.iof_deliver(&rank_of_job(rank), OUT, &[], &info).wait().unwrap();
    }
}

fn rank_of_job(rank: u32) -> Proc {
    Proc::new(Nspace::new("talks@1").unwrap(), Rank(rank))
}

fn all() -> Proc {
    Proc { rank: Rank::WILDCARD, ..rank_of_job(0) }
}

/// Output that a pull hands over. Each piece waits until the test takes it.
struct Pulled {
    id: usize,
    pieces: mpsc::Receiver<Output>,
}

impl Pulled {
    /// Asks for standard output. There is room for `room` pieces between the handler and the test; with 0, the handler waits.
    fn begin(client: &Client, directives: &[Info], room: usize) -> Self {
        let (tell, pieces) = mpsc::sync_channel(room);
        let handler = Arc::new(move |output: Output| drop(tell.send(output)));
        Pulled { id: client.iof_pull(&[all()], OUT, directives, handler).wait().unwrap(), pieces }
    }

    fn next(&self) -> Output {
        let output = self.pieces.recv_timeout(PATIENCE).expect("more output");
        assert_eq!((output.pull, output.channel), (self.id, OUT));
        output
    }

    fn text(&self) -> String {
        String::from_utf8(self.next().bytes).unwrap()
    }

    /// Everything up to the end.
    fn rest(&self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let output = self.next();
            if output.bytes.is_empty() {
                assert!(output.info.is_set(keys::IOF_COMPLETE));
                return all;
            }
            all.extend(output.bytes);
        }
    }
}

fn size(key: &str, bytes: usize) -> Info {
    Info::new(key, bytes as u32)
}

#[test]
fn process() {
    match role().as_deref() {
        None => {}
        Some("pulls") => {
            let uri = std::env::var("URI").unwrap();
            let tool = Tool::init(&[Info::new(keys::SERVER_URI, uri.as_str())]).unwrap();
            let (say, said) = mpsc::channel();
            let handler = Arc::new(move |output: Output| say.send(output.bytes.len()).unwrap_or_default());
            let client = tool.primary();
            client.iof_pull(&[all()], OUT, &[], handler).wait().unwrap();
            println!("\nready");
            std::io::stdout().flush().unwrap();
            let bytes: usize = said.iter().take_while(|bytes| *bytes > 0).sum();
            println!("\nready {bytes}");
            tool.finalize(&[]).unwrap();
        }
        Some(other) => panic!("no such role: {other}"),
    }
}

/// A process that pulls and says so, and what it says then.
fn puller(node: &Node) -> (Child, impl Iterator<Item = String>) {
    let uri = node.server.uri().unwrap().to_string();
    let mut process = start_alone("pulls", &[("URI", &uri)]);
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = lines.filter_map(|line| line.strip_prefix("ready").map(|rest| rest.trim().to_owned()));
    assert_eq!(said.next().as_deref(), Some(""));
    (process, said)
}

#[test]
fn what_came_before_is_kept_for_the_first_who_pulls_it() {
    let node = Node::start("keeps@0");
    node.says(0, b"early ");
    node.server.iof_deliver(&rank_of_job(0), Channels::STDERR, b"other", &[]).wait().unwrap();
    node.says(1, b"words");
    node.ends(1);
    let (one, two) = (node.tool(), node.tool());
    let first = Pulled::begin(&one.primary(), &[], 100);
    assert_eq!(String::from_utf8(first.rest()).unwrap(), "early words");
    let second = Pulled::begin(&two.primary(), &[], 100);
    node.says(0, b"now");
    assert_eq!((first.text(), second.text()), ("now".into(), "now".into()), "and nothing twice");
    let asked = node.host.asked.lock().unwrap().clone();
    assert!(asked.len() == 2 && asked[0].0 == OUT && asked[0].1.find(keys::USERID).is_some(), "{asked:?}");
    // Of what nobody asks for, the last part stays.
    one.finalize(&[]).unwrap();
    two.finalize(&[]).unwrap();
    for number in 0..200u8 {
        node.says(0, &[number; PIECE]);
    }
    node.ends(0);
    let late = node.tool();
    let kept = Pulled::begin(&late.primary(), &[], 1000).rest();
    assert!(kept.len() > 3 << 20 && kept.len() <= 4 << 20, "{}", kept.len());
    assert!(kept[0] > 100 && kept[kept.len() - 1] == 199 && kept.is_sorted());
    late.finalize(&[]).unwrap();
}

#[test]
fn nobody_pulls_input_or_hears_itself() {
    let node = Node::start("refuses@0");
    let tool = node.tool();
    let client = tool.primary();
    let handler: instanton::client::OutputHandler = Arc::new(|_| ());
    let refused = client.iof_pull(&[all()], OUT | Channels::STDIN, &[], handler).then(|_| ()).unwrap_err();
    assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
    let (tell, told) = mpsc::channel();
    let me = tool.proc().clone();
    let handler = Arc::new(move |output: Output| drop(tell.send(output.source)));
    client.iof_pull(&[me.clone(), all()], OUT, &[], handler).wait().unwrap();
    node.server.iof_deliver(&me, OUT, b"mine", &[]).wait().unwrap();
    node.says(0, b"another's");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), rank_of_job(0));
    tool.finalize(&[]).unwrap();
}

/// Returns the output for a tool that reads nothing until all of twenty pieces have been delivered.
fn after_a_break(name: &str, directives: &[Info]) -> Vec<u8> {
    let node = Node::start(name);
    let tool = node.tool();
    let pulled = Pulled::begin(&tool.primary(), directives, 0);
    // Another one that reads misses nothing.
    let reader = node.tool();
    let reads = Pulled::begin(&reader.primary(), &[], 1000);
    for number in 1..=20u8 {
        node.says(3, &[number; PIECE]);
        assert_eq!(reads.next().bytes, [number; PIECE]);
    }
    node.ends(3);
    assert!(reads.rest().is_empty());
    let all = pulled.rest();
    node.says(3, b"goes on");
    assert_eq!(pulled.text(), "goes on");
    tool.finalize(&[]).unwrap();
    all.chunk_by(|a, b| a == b).map(|same| (same.len() / PIECE, same[0])).flat_map(|(n, byte)| vec![byte; n]).collect()
}

#[test]
fn what_a_slow_reader_has_no_room_for_is_dropped_as_it_wants() {
    let room = size(keys::IOF_CACHE_SIZE, 2 * PIECE);
    assert_eq!(after_a_break("all@0", &[]), (1..=20).collect::<Vec<u8>>(), "as much is there by default");
    assert_eq!(after_a_break("newest@0", std::slice::from_ref(&room)), [1, 2, 3, 4, 5, 6]);
    let oldest = Info::new(keys::IOF_DROP_OLDEST, true);
    assert_eq!(after_a_break("oldest@0", &[room, oldest]), [1, 2, 3, 4, 19, 20]);
}

#[test]
fn output_waits_for_company_where_that_is_asked_for() {
    let node = Node::start("buffers@0");
    let tool = node.tool();
    let client = tool.primary();
    let pulled = Pulled::begin(&client, &[size(keys::IOF_BUFFERING_SIZE, 8)], 100);
    for word in ["one", " two", " three", " four"] {
        node.says(0, word.as_bytes());
    }
    // Of each process its own.
    node.says(1, b"other");
    assert_eq!(pulled.text(), "one two three");
    client.iof_deregister(pulled.id).wait().unwrap();
    let mut rest = [pulled.text(), pulled.text()];
    rest.sort();
    assert_eq!(rest, [" four", "other"], "what is left comes with the end");
    assert_eq!(node.stops.recv_timeout(PATIENCE).unwrap(), OUT);

    let pulled =
        Pulled::begin(&client, &[size(keys::IOF_BUFFERING_SIZE, 1000), size(keys::IOF_BUFFERING_TIME, 1)], 100);
    let begin = Instant::now();
    node.says(0, b"in a ");
    node.says(0, b"second");
    let in_time = begin.elapsed() < Duration::from_secs(1);
    let first = pulled.text();
    assert!(first == "in a second" || !in_time && first + &pulled.text() == "in a second");
    node.says(0, b"last");
    node.ends(0);
    assert_eq!(pulled.rest(), b"last", "nothing waits for what cannot come");
    tool.finalize(&[]).unwrap();
}

#[test]
fn lines_are_tagged_on_request() {
    let node = Node::start("tags@0");
    let tool = node.tool();
    let pulled = Pulled::begin(&tool.primary(), &[Info::new(keys::IOF_TAG_OUTPUT, true)], 100);
    node.says(2, b"a\nb");
    node.says(2, b"c\n");
    assert_eq!((pulled.text(), pulled.text()), ("[1,2]<stdout>: a\n[1,2]<stdout>: b".into(), "c\n".into()));
    tool.finalize(&[]).unwrap();
}

#[test]
fn a_tool_that_is_stopped_stops_nobody_and_its_memory_is_bounded() {
    let node = Node::start("stopped@0");
    let (mut stopped, mut said) = puller(&node);
    let pid = Pid::from_raw(stopped.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    assert_eq!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(pid, Signal::SIGSTOP));
    // More than the server could queue for one peer before it cuts that off.
    for _ in 0..2000 {
        node.says(0, &[b'x'; PIECE]);
    }
    node.ends(0);
    assert_eq!(node.server.iof_flush(Duration::from_millis(1)).wait(), Err(Status::ERR_TIMEOUT));
    kill(pid, Signal::SIGCONT).unwrap();
    let got: usize = said.next().unwrap().parse().unwrap();
    assert!((4 << 20..=(4 << 20) + 6 * PIECE).contains(&got), "{got}");
    assert!(stopped.wait().unwrap().success());
    assert_eq!(node.server.iof_flush(PATIENCE).wait(), Ok(()));
    assert_eq!(node.stops.recv_timeout(PATIENCE).unwrap(), OUT, "the host is told that it is gone");
}

#[test]
fn a_tool_that_is_killed_in_the_middle_is_forgotten() {
    let node = Node::start("killed@0");
    let reader = node.tool();
    let reads = Pulled::begin(&reader.primary(), &[], 100);
    for round in 0..5 {
        let (mut victim, _) = puller(&node);
        thread::scope(|scope| {
            let (server, source) = (&node.server, rank_of_job(0));
            scope.spawn(move || {
                (0..500).for_each(|_| server.iof_deliver(&source, OUT, &[b'x'; 1000], &[]).wait().unwrap());
            });
            let mut seen = 0;
            while seen < 500_000 {
                seen += reads.next().bytes.len();
                if seen > 50_000 * round {
                    // It may have died already.
                    let _ = victim.kill();
                }
            }
        });
        assert_eq!(node.stops.recv_timeout(PATIENCE).unwrap(), OUT);
        victim.wait().unwrap();
    }
    // The output is acknowledged with the end at the latest.
    node.ends(0);
    assert_eq!((reads.rest(), node.server.iof_flush(PATIENCE).wait()), (Vec::new(), Ok(())));
    reader.finalize(&[]).unwrap();
}
