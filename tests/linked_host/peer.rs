//! A peer that speaks the protocol byte by byte, well or badly.
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use instanton::client::Address;
use instanton::data::Posted;
use instanton::data::{Info, Key, Proc, Rank, Scope, Status, Value};
use instanton::internal::control::frame::{self, HEADER, Header, Kind, MAX_BODY};
use instanton::internal::control::handshake::{Hello, Welcome};
use instanton::internal::message::{Push, Reply, Request};
use instanton::server::Server;

/// Limit on the wait for an answer that must come.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Peer {
    pub stream: UnixStream,
    pub proc: Proc,
    next: u64,
    replies: HashMap<u64, Reply>,
    pub pushes: Vec<Push>,
}

/// Returns the address that `setup_fork` gives to a process.
pub fn address(server: &Server, proc: &Proc) -> Address {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    server.setup_fork(proc, &mut env).unwrap();
    let (_, value) = env.iter().find(|(name, _)| name == "INSTANTON_SERVER").unwrap();
    value.to_str().unwrap().parse().unwrap()
}

pub fn hello(address: &Address) -> Hello {
    Hello { proc: address.proc.clone(), token: address.token, layout: 0, info: Vec::new() }
}

/// A connection on which nothing was said yet.
pub fn dial(address: &Address) -> UnixStream {
    let name = SocketAddr::from_abstract_name(&address.abstract_name).unwrap();
    let stream = UnixStream::connect_addr(&name).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub fn read_frame(stream: &mut UnixStream) -> io::Result<(Header, Vec<u8>)> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let header = Header::parse(&header, MAX_BODY).expect("the server sends frames");
    let mut body = vec![0; header.body];
    stream.read_exact(&mut body)?;
    Ok((header, body))
}

/// Says hello and reads the answer.
pub fn greet(stream: &mut UnixStream, hello: &Hello) -> io::Result<Welcome> {
    stream.write_all(&frame::encode(Kind::Hello, 0, 0, hello).unwrap())?;
    let (header, body) = read_frame(stream)?;
    assert_eq!(header.kind, Kind::Welcome);
    Ok(frame::decode(Kind::Welcome, &body).unwrap())
}

impl Peer {
    pub fn connect(server: &Server, proc: &Proc) -> Result<Peer, Status> {
        Peer::at(&address(server, proc))
    }

    pub fn at(address: &Address) -> Result<Peer, Status> {
        let mut stream = dial(address);
        match greet(&mut stream, &hello(address)).unwrap() {
            Welcome::Accepted { .. } => {
                let proc = address.proc.clone();
                Ok(Peer { stream, proc, next: 1, replies: HashMap::new(), pushes: Vec::new() })
            }
            Welcome::Refused { status, .. } => Err(status),
            other => panic!("{other:?}"),
        }
    }

    /// Asks without waiting.
    pub fn send(&mut self, request: Request) -> u64 {
        let number = self.next;
        self.next += 1;
        self.stream.write_all(&frame::encode(Kind::Request, number, 0, &request).unwrap()).unwrap();
        number
    }

    /// The answer to a question.
    pub fn answer(&mut self, number: u64) -> Reply {
        loop {
            if let Some(reply) = self.replies.remove(&number) {
                return reply;
            }
            self.take_in().expect("the answer comes");
        }
    }

    fn take_in(&mut self) -> io::Result<()> {
        let (header, body) = read_frame(&mut self.stream)?;
        match header.kind {
            Kind::Reply => _ = self.replies.insert(header.number, frame::decode(Kind::Reply, &body).unwrap()),
            Kind::Push => self.pushes.push(frame::decode(Kind::Push, &body).unwrap()),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    pub fn push(&mut self) -> Push {
        while self.pushes.is_empty() {
            self.take_in().expect("the push comes");
        }
        self.pushes.remove(0)
    }

    pub fn ask(&mut self, request: Request) -> Reply {
        let number = self.send(request);
        self.answer(number)
    }

    pub fn done(&mut self, number: u64) -> Status {
        match self.answer(number) {
            Reply::Done(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub fn status(&mut self, request: Request) -> Status {
        let number = self.send(request);
        self.done(number)
    }

    /// Returns whether an answer has come within a moment; for answers that must not come yet.
    pub fn has_answer(&mut self, number: u64) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let came = self.replies.contains_key(&number) || self.take_in().is_ok() && self.replies.contains_key(&number);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        came
    }

    pub fn commit(&mut self, scope: Scope, key: &str, value: impl Into<Value>) -> Status {
        let entry = Posted { scope, key: Key::new(key).unwrap(), value: value.into() };
        self.status(Request::Commit { entries: vec![entry] })
    }

    pub fn start_fence(&mut self, procs: &[Proc], info: &[Info]) -> u64 {
        self.send(Request::Fence { procs: procs.to_vec(), info: info.to_vec() })
    }

    pub fn start_get(&mut self, proc: &Proc, key: &str, info: &[Info]) -> u64 {
        self.send(Request::Get { proc: proc.clone(), key: Some(Key::new(key).unwrap()), info: info.to_vec() })
    }

    pub fn got(&mut self, number: u64) -> Result<Value, Status> {
        match self.answer(number) {
            Reply::Value(value) => Ok(value),
            Reply::Done(status) => Err(status),
            other => panic!("{other:?}"),
        }
    }

    pub fn get(&mut self, proc: &Proc, key: &str, info: &[Info]) -> Result<Value, Status> {
        let number = self.start_get(proc, key, info);
        self.got(number)
    }

    pub fn finalize(mut self) -> Status {
        self.status(Request::Finalize)
    }

    pub fn rank(&self) -> Rank {
        self.proc.rank
    }
}

impl Drop for Peer {
    /// Now, although a process that another test is just starting has a copy of the socket until it runs its own
    /// program.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Everybody fences; every status.
pub fn fence_all(peers: &mut [Peer], procs: &[Proc], info: &[Info]) -> Vec<Status> {
    let numbers: Vec<u64> = peers.iter_mut().map(|peer| peer.start_fence(procs, info)).collect();
    peers.iter_mut().zip(numbers).map(|(peer, number)| peer.done(number)).collect()
}
