//! Calls between the launcher and the process of a node, and the socket that they go through.
//!
//! Either end calls the other, and each call is answered once: the launcher calls the node's server, and that server's
//! upcalls are calls to the launcher. A frame is four bytes of length (little-endian) and an archive. Each end has a
//! thread that reads and does nothing that may block, and one that writes, so that no two ends wait for each other.
//! When the other end is gone, calls under way fail with `ERR_LOST_CONNECTION`.
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use instanton::data::{App, DataRange, Info, Nspace, Pdata, Proc, Query, Status, Text, archive};
use instanton::server::Blob;
use rkyv::with::Skip;
use rkyv::{Archive, Deserialize, Serialize};

use super::meetings::Kind;
use crate::threads::start_thread;

/// Longest frame; a fence that brings more fails.
const LONGEST: usize = 1 << 30;
/// Bit of the length of a frame that is an answer's number and bytes as they are: these may be many megabytes, and so
/// there is never a second copy of them, and they stay charged until they are written.
const PLAIN: u32 = 1 << 31;
/// Time for an answer that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A call of either end.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub enum Call {
    // The launcher calls a node's server.
    RegisterClients { procs: Vec<Proc>, uid: u32, gid: u32 },
    DeregisterClient(Proc),
    Support { nspace: Nspace, infos: Vec<Info> },
    Register { nspace: Nspace, local: u32, infos: Vec<Info> },
    SetUpFork(Proc),
    Died(Proc),
    Tool(Proc),
    ToolGone(Proc),
    Deregister(Nspace),
    Deliver { source: Proc, channels: u16, bytes: Vec<u8>, infos: Vec<Info> },
    Dmodex { proc: Proc, infos: Vec<Info> },
    DefineSet { name: Text, members: Vec<Proc> },
    DeleteSet(Text),
    Waiting,
    Load,
    Finish,
    // Either calls the other.
    Event { status: Status, source: Proc, range: DataRange, infos: Vec<Info> },
    // A node's server calls its host.
    Connected(Proc),
    Finalized(Proc),
    Lost(Proc, Status),
    Admitted(Proc),
    Awaited(Nspace),
    Abort { proc: Proc, status: i32, message: Option<Vec<u8>>, procs: Vec<Proc> },
    Fence { procs: Vec<Proc>, infos: Vec<Info>, data: Vec<u8> },
    Withdraw { kind: Kind, procs: Vec<Proc> },
    DirectModex { proc: Proc, infos: Vec<Info> },
    Publish { proc: Proc, infos: Vec<Info> },
    Lookup { proc: Proc, keys: Vec<Text>, infos: Vec<Info> },
    Unpublish { proc: Proc, keys: Vec<Text>, infos: Vec<Info> },
    Spawn { proc: Proc, infos: Vec<Info>, apps: Vec<App> },
    Connect { procs: Vec<Proc>, infos: Vec<Info> },
    Disconnect { procs: Vec<Proc>, infos: Vec<Info> },
    Query { proc: Proc, queries: Vec<Query> },
    Log { proc: Proc, data: Vec<Info>, infos: Vec<Info> },
    Control { proc: Proc, targets: Vec<Proc>, infos: Vec<Info> },
    IofPull { procs: Vec<Proc>, infos: Vec<Info>, channels: u16 },
    PushStdin { source: Proc, targets: Vec<Proc>, infos: Vec<Info>, bytes: Vec<u8> },
    Group { operation: i64, group: Nspace, procs: Vec<Proc>, infos: Vec<Info> },
    Allocate { proc: Proc, directive: u8, infos: Vec<Info> },
    Session { proc: Proc, session: u32, infos: Vec<Info> },
    Monitor { proc: Proc, monitor: Info, error: Status, infos: Vec<Info> },
    GetCredential { proc: Proc, infos: Vec<Info> },
    Validate { proc: Proc, credential: Vec<u8>, infos: Vec<Info> },
    CleanUp { proc: Proc, infos: Vec<Info> },
}

/// Answer to a call.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub enum Given {
    Nothing,
    Infos(Status, Vec<Info>),
    /// Never in an archive.
    Bytes(#[rkyv(with = Skip)] Blob),
    Name(Nspace),
    Published(Status, Vec<Pdata>),
    Credential(Vec<u8>, Vec<Info>),
    Variables(Vec<(Vec<u8>, Vec<u8>)>),
}

#[derive(Archive, Serialize, Deserialize, Debug)]
enum Frame {
    Call(u64, Call),
    Answer(u64, Result<Given, Status>),
}

/// The way back from a call.
pub type Reply = Box<dyn FnOnce(Result<Given, Status>) + Send>;

#[derive(Default)]
struct Open {
    last: u64,
    waiting: HashMap<u64, Reply>,
    is_gone: bool,
}

/// One end of the socket.
#[derive(Clone)]
pub struct Link {
    frames: Sender<Frame>,
    open: Arc<Mutex<Open>>,
    socket: Arc<UnixStream>,
}

impl Link {
    /// Takes a socket over: `serve` is called with each call of the other end, and `gone` when there is no other end any
    /// more.
    pub fn open(
        socket: UnixStream,
        serve: impl Fn(Call, Reply) + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let (frames, to_write) = mpsc::channel::<Frame>();
        let link = Self { frames, open: Arc::default(), socket: Arc::new(socket.try_clone()?) };
        let mut sink = socket.try_clone()?;
        start_thread("link-out", move || {
            while let Ok(frame) = to_write.recv() {
                if write(&mut sink, &frame).is_err() {
                    let _ = sink.shutdown(Shutdown::Both);
                    return;
                }
            }
        })?;
        let (answers, open) = (link.frames.clone(), link.open.clone());
        start_thread("link-in", move || {
            let mut source = BufReader::with_capacity(1 << 16, socket);
            while let Ok(frame) = read(&mut source) {
                match frame {
                    Frame::Call(number, call) => {
                        let answers = answers.clone();
                        serve(call, Box::new(move |result| drop(answers.send(Frame::Answer(number, result)))));
                    }
                    Frame::Answer(number, result) => {
                        let reply = lock(&open).waiting.remove(&number);
                        if let Some(reply) = reply {
                            reply(result);
                        }
                    }
                }
            }
            let waiting = {
                let mut open = lock(&open);
                open.is_gone = true;
                std::mem::take(&mut open.waiting)
            };
            waiting.into_values().for_each(|reply| reply(Err(Status::ERR_LOST_CONNECTION)));
            gone();
        })?;
        Ok(link)
    }

    /// Calls the other end.
    pub fn ask(&self, call: Call, reply: impl FnOnce(Result<Given, Status>) + Send + 'static) {
        let mut open = lock(&self.open);
        if open.is_gone {
            drop(open);
            return reply(Err(Status::ERR_LOST_CONNECTION));
        }
        open.last += 1;
        let number = open.last;
        open.waiting.insert(number, Box::new(reply));
        drop(open);
        // A writer that has ended has closed the socket, which the reader sees.
        let _ = self.frames.send(Frame::Call(number, call));
    }

    /// Calls the other end, and waits for the answer, but not for one that has stopped.
    pub fn ask_now(&self, call: Call) -> Result<Given, Status> {
        let (answer, answered) = mpsc::channel();
        self.ask(call, move |result| drop(answer.send(result)));
        match answered.recv_timeout(PATIENCE) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(Status::ERR_TIMEOUT),
            Err(RecvTimeoutError::Disconnected) => Err(Status::ERR_LOST_CONNECTION),
        }
    }

    /// Has the other end see that this one is gone.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(sink: &mut impl Write, frame: &Frame) -> io::Result<()> {
    if let Frame::Answer(number, Ok(Given::Bytes(bytes))) = frame {
        if bytes.len() > LONGEST {
            return write(sink, &Frame::Answer(*number, Err(Status::ERR_OUT_OF_RESOURCE)));
        }
        sink.write_all(&(bytes.len() as u32 | PLAIN).to_le_bytes())?;
        sink.write_all(&number.to_le_bytes())?;
        return sink.write_all(bytes);
    }
    let frame = archive::encode(frame).map_err(io::Error::other)?;
    sink.write_all(&(frame.len() as u32).to_le_bytes())?;
    sink.write_all(&frame)
}

fn read(source: &mut impl Read) -> io::Result<Frame> {
    let mut length = [0; 4];
    source.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let (is_plain, length) = (length & PLAIN != 0, (length & !PLAIN) as usize);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut number = [0; 8];
    if is_plain {
        source.read_exact(&mut number)?;
    }
    let mut bytes = vec![0; length];
    source.read_exact(&mut bytes)?;
    if is_plain {
        return Ok(Frame::Answer(u64::from_le_bytes(number), Ok(Given::Bytes(bytes.into()))));
    }
    archive::decode(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_bytes_go_as_they_are_and_others_encoded() {
        let bytes = Frame::Answer(7, Ok(Given::Bytes(vec![1, 2, 3].into())));
        let others = [Frame::Answer(8, Ok(Given::Nothing)), Frame::Answer(9, Err(Status::ERR_TIMEOUT))];
        let mut sent = Vec::new();
        for frame in std::iter::once(&bytes).chain(&others) {
            write(&mut sent, frame).unwrap();
        }
        assert_eq!(sent[..15], [3, 0, 0, 0x80, 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        let mut source = &sent[..];
        for frame in std::iter::once(bytes).chain(others) {
            assert_eq!(format!("{:?}", read(&mut source).unwrap()), format!("{frame:?}"));
        }
        assert!(read(&mut source).is_err());
    }

    #[test]
    fn calls_go_both_ways_and_fail_when_the_other_end_is_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (gone, is_gone) = mpsc::channel();
        let echo = |call, reply: Reply| match call {
            Call::Fence { data, .. } => reply(Ok(Given::Bytes(data.into()))),
            // Never answered.
            _ => drop(reply),
        };
        let one = Link::open(ours, echo, || ()).unwrap();
        let other = Link::open(theirs, echo, move || gone.send(()).unwrap()).unwrap();
        let fence = |data: &[u8]| Call::Fence { procs: vec![], infos: vec![], data: data.to_vec() };
        for link in [&one, &other] {
            assert!(matches!(link.ask_now(fence(b"x")), Ok(Given::Bytes(bytes)) if *bytes == *b"x"));
        }
        let (failed, fails) = mpsc::channel();
        other.ask(Call::Finish, move |result| failed.send(result.err()).unwrap());
        one.close();
        assert_eq!(fails.recv().unwrap(), Some(Status::ERR_LOST_CONNECTION));
        is_gone.recv().unwrap();
        assert_eq!(other.ask_now(fence(b"y")).err(), Some(Status::ERR_LOST_CONNECTION));
    }
}
