//! A server that says exactly what a test wants it to say, byte for byte where it must be.
#![allow(dead_code, reason = "every test uses its own part of it")]
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use instanton::client::{Address, Client};
use instanton::data::{Info, Nspace, Proc, Rank, Status, keys};
use instanton::internal::control::frame::{self, HEADER, Header, Kind, MAX_BODY};
use instanton::internal::control::handshake::{Hello, Welcome};
use instanton::internal::message::{DescriptorKind, Push, Reply, Request};
use instanton::internal::sys::socket;
use instanton::store::{Have, JobInfo, JobWriter, Limits, SegmentId};
use instanton_layout::sync::{AtomicU32, Ordering};

/// Longer than anything here takes; a test that waits for ever fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn nspace() -> Nspace {
    Nspace::new("scripted@1").unwrap()
}

pub fn proc(rank: u32) -> Proc {
    Proc::new(nspace(), Rank(rank))
}

/// The listening end.
pub struct Scripted {
    listener: UnixListener,
    pub address: Address,
}

impl Scripted {
    pub fn listen() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("instanton-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let address = Address {
            proc: proc(0),
            uid: nix::unistd::geteuid().as_raw(),
            abstract_name: name,
            path: None,
            token: [7; 32],
            stock_uri: String::new(),
        };
        Scripted { listener, address }
    }

    /// The next client, before its handshake.
    pub fn accept(&self) -> Peer {
        let (socket, _) = self.listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { socket }
    }

    /// The next client, accepted without shared memory.
    pub fn welcome(&self) -> Peer {
        self.welcome_with(&[], &[])
    }

    pub fn welcome_with(&self, parts: &[DescriptorKind], descriptors: &[BorrowedFd<'_>]) -> Peer {
        let mut peer = self.accept();
        peer.hello();
        let welcome = Welcome::Accepted {
            server: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
            uri: "server.0;instanton:scripted".into(),
            proc: proc(0),
            parts: parts.to_vec(),
        };
        peer.send(&frame::encode(Kind::Welcome, 0, descriptors.len(), &welcome).unwrap(), descriptors);
        peer
    }
}

/// The server's end of a connection.
pub struct Peer {
    pub socket: UnixStream,
}

impl Peer {
    fn frame(&mut self) -> (Header, Vec<u8>) {
        let mut head = [0; HEADER];
        self.socket.read_exact(&mut head).unwrap();
        let header = Header::parse(&head, MAX_BODY).unwrap();
        let mut body = vec![0; header.body];
        self.socket.read_exact(&mut body).unwrap();
        (header, body)
    }

    pub fn hello(&mut self) -> Hello {
        let (header, body) = self.frame();
        assert_eq!(header.kind, Kind::Hello);
        frame::decode(Kind::Hello, &body).unwrap()
    }

    pub fn request(&mut self) -> (u64, Request) {
        let (header, body) = self.frame();
        (header.number, frame::request_in(header.kind, &body).unwrap())
    }

    pub fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let sent = socket::send(&self.socket, bytes, descriptors).unwrap();
        self.socket.write_all(&bytes[sent..]).unwrap();
    }

    pub fn reply(&mut self, number: u64, reply: &Reply) {
        self.send(&frame::encode(Kind::Reply, number, 0, reply).unwrap(), &[]);
    }

    pub fn done(&mut self, number: u64) {
        self.reply(number, &Reply::Done(Status::SUCCESS));
    }

    pub fn push(&mut self, push: &Push) {
        self.send(&frame::encode(Kind::Push, 0, 0, push).unwrap(), &[]);
    }

    /// Answers a request for segments out of `job`.
    pub fn segments(&mut self, number: u64, have: &Have, job: &JobWriter) {
        let segments = job.segments(have);
        let parts: Vec<DescriptorKind> = segments.iter().map(|(id, _)| part(*id)).collect();
        let descriptors: Vec<_> = segments.iter().map(|(_, descriptor)| *descriptor).collect();
        self.send(
            &frame::encode(Kind::Reply, number, descriptors.len(), &Reply::Segments { parts }).unwrap(),
            &descriptors,
        );
    }

    /// Answers everything with success until the client has gone, and gives back what was asked.
    pub fn agree(mut self) -> Vec<Request> {
        let mut asked = Vec::new();
        loop {
            let mut byte = [0; 1];
            if nix::sys::socket::recv(
                std::os::fd::AsRawFd::as_raw_fd(&self.socket),
                &mut byte,
                nix::sys::socket::MsgFlags::MSG_PEEK,
            ) == Ok(0)
            {
                return asked;
            }
            let (number, request) = self.request();
            self.done(number);
            asked.push(request);
        }
    }
}

pub fn part(id: SegmentId) -> DescriptorKind {
    match id {
        SegmentId::Job => DescriptorKind::Job,
        SegmentId::Info(generation) => DescriptorKind::Info(generation),
        SegmentId::Modex(number) => DescriptorKind::Modex(number),
    }
}

/// A job of four processes on this node.
pub fn job() -> JobWriter {
    JobWriter::create(&nspace(), job_info("/tmp/x"), &Limits::default()).unwrap()
}

pub fn job_info(tmpdir: &str) -> JobInfo {
    let infos = [
        Info::new(keys::JOB_SIZE, 4u32),
        Info::new(keys::NODE_MAP, "alpha"),
        Info::new(keys::PROC_MAP, "0,1,2,3"),
        Info::new(keys::JOBID, "the.job"),
        Info::new(keys::TMPDIR, tmpdir),
    ];
    JobInfo::from_infos(&nspace(), 4, &infos, "alpha").unwrap()
}

/// A client without shared memory, and the server's end of its connection.
pub fn connected() -> (Client, Peer) {
    let server = Scripted::listen();
    let address = server.address.clone();
    let client = thread::spawn(move || Client::connect(&address, &[]).unwrap());
    let peer = server.welcome();
    (client.join().unwrap(), peer)
}

/// Finalizes a client, of which its server hears nothing else from when it [agrees](Peer::agree) to everything.
pub fn finalize(client: Client, agrees: JoinHandle<Vec<Request>>) {
    client.finalize(&[]).unwrap();
    drop(client);
    assert_eq!(agrees.join().unwrap(), [Request::Finalize]);
}

/// A client of `job`, and the server's end of its connection.
pub fn client_of(job: &JobWriter) -> (Client, Peer) {
    let server = Scripted::listen();
    thread::scope(|scope| {
        let segments = job.segments(&Have::default());
        let parts: Vec<DescriptorKind> = segments.iter().map(|(id, _)| part(*id)).collect();
        let server = &server;
        let address = &server.address;
        let client = scope.spawn(move || Client::connect(address, &[]).unwrap());
        let descriptors: Vec<_> = segments.iter().map(|(_, descriptor)| descriptor.as_fd()).collect();
        let peer = server.welcome_with(&parts, &descriptors);
        (client.join().unwrap(), peer)
    })
}
