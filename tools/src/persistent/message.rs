//! Requests of callers to a launcher, and its answers: one byte that brings descriptors, and a frame; one frame comes
//! back.
//! A frame is four bytes of length (little-endian) and an archive. Between the two, a run sends the signals that its user
//! sends it, a byte each.
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use instanton::data::archive::{self, Wire};
use instanton::fd_passing;
use instanton::launch::AppSpec;
use rkyv::{Archive, Deserialize, Serialize};

use crate::environment::Environment;

/// Longest frame: an environment and a command line are below it.
const LONGEST: usize = 16 << 20;
/// Most bytes of all requests that are being read, as their frames announce them.
const MOST: usize = 64 << 20;

/// Bytes of the requests that are being read.
static BEING_READ: Mutex<usize> = Mutex::new(0);

/// A part of them.
struct Part(usize);

impl Part {
    fn take(bytes: usize) -> io::Result<Self> {
        let mut all = Self::all();
        if *all + bytes > MOST {
            return Err(io::Error::other("too much comes from others at the moment"));
        }
        *all += bytes;
        Ok(Part(bytes))
    }

    fn all() -> MutexGuard<'static, usize> {
        BEING_READ.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        *Self::all() -= self.0;
    }
}

/// Request of a caller.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub enum Request {
    /// A job, whose three streams come with it.
    Run(JobRequest),
    /// The end of a job, or a signal to it.
    Kill { job: u32, signal: Option<i32> },
    /// The death of a node.
    KillNode(u32),
    /// The end of everything.
    Down,
}

/// A job as its caller has read it: nothing in it depends on where it is read.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub struct JobRequest {
    /// The words of the run, of which the options of the whole job are read again.
    pub words: Vec<Vec<u8>>,
    apps: Vec<AppRequest>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directory that files are named from.
    pub directory: Vec<u8>,
}

#[derive(Archive, Serialize, Deserialize, Debug)]
struct AppRequest {
    ranks: u32,
    environment: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    wdir: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    program: Vec<u8>,
    is_numbered: bool,
    arguments: Vec<Vec<u8>>,
}

/// Answer of a launcher.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub enum Reply {
    /// The caller's job is over: the status to exit with, and lines for the user.
    Ended { code: u8, lines: Vec<String> },
    /// The order is done, or begun.
    Done,
    /// The order is not done, for this reason.
    Refused(String),
}

fn bytes(text: OsString) -> Vec<u8> {
    text.into_vec()
}

impl JobRequest {
    /// A request for these applications; `directory` is the caller's.
    pub fn new(words: Vec<OsString>, apps: Vec<AppSpec>, environment: Environment, directory: OsString) -> Self {
        let app = |spec: AppSpec| AppRequest {
            ranks: spec.ranks,
            environment: spec.environment.into_iter().map(|(name, value)| (bytes(name), value.map(bytes))).collect(),
            wdir: spec.wdir.map(|wdir| bytes(wdir.into_os_string())),
            path: spec.path.map(bytes),
            program: bytes(spec.program),
            is_numbered: spec.is_numbered,
            arguments: spec.arguments.into_iter().map(bytes).collect(),
        };
        Self {
            words: words.into_iter().map(bytes).collect(),
            apps: apps.into_iter().map(app).collect(),
            environment: environment.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            directory: bytes(directory),
        }
    }

    /// Takes out the applications and the environment.
    pub fn take(&mut self) -> (Vec<AppSpec>, Environment) {
        let text = OsString::from_vec;
        let app = |app: AppRequest| AppSpec {
            ranks: app.ranks,
            environment: app.environment.into_iter().map(|(name, value)| (text(name), value.map(text))).collect(),
            wdir: app.wdir.map(|wdir| text(wdir).into()),
            path: app.path.map(text),
            program: text(app.program),
            name: None,
            is_numbered: app.is_numbered,
            arguments: app.arguments.into_iter().map(text).collect(),
        };
        let environment = std::mem::take(&mut self.environment);
        let environment = environment.into_iter().map(|(name, value)| (text(name), text(value))).collect();
        (std::mem::take(&mut self.apps).into_iter().map(app).collect(), environment)
    }
}

/// Asks a launcher.
///
/// # Errors
/// The system's.
pub fn ask(socket: &UnixStream, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    fd_passing::send(socket, descriptors)?;
    write(socket, request)
}

/// Takes a caller's request, and the descriptors that it brings.
///
/// # Errors
/// As [`hear`].
pub fn take(socket: &UnixStream) -> io::Result<(Request, Vec<OwnedFd>)> {
    let descriptors = fd_passing::receive(socket)?;
    let length = length(socket)?;
    let _part = Part::take(length)?;
    Ok((body(socket, length)?, descriptors))
}

/// Answers a caller.
///
/// # Errors
/// The system's.
pub fn answer(socket: &UnixStream, reply: &Reply) -> io::Result<()> {
    write(socket, reply)
}

/// Waits for the launcher's answer.
///
/// # Errors
/// `UnexpectedEof` when there is no other end any more, `InvalidData` for what is no answer; the system's.
pub fn hear(socket: &UnixStream) -> io::Result<Reply> {
    read(socket)
}

fn write<T: Wire>(mut sink: &UnixStream, message: &T) -> io::Result<()> {
    let archive = archive::encode(message).map_err(io::Error::other)?;
    let mut frame = (archive.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&archive);
    sink.write_all(&frame)
}

fn read<T: Wire>(source: &UnixStream) -> io::Result<T> {
    let length = length(source)?;
    body(source, length)
}

fn length(mut source: &UnixStream) -> io::Result<usize> {
    let mut length = [0; 4];
    source.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST { Err(io::ErrorKind::InvalidData.into()) } else { Ok(length) }
}

fn body<T: Wire>(source: &UnixStream, length: usize) -> io::Result<T> {
    // No more memory than comes.
    let mut archive = Vec::new();
    source.take(length as u64).read_to_end(&mut archive)?;
    archive::decode(&archive).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn so_much_of_requests_is_read_at_a_time_and_no_more() {
        let halves: Vec<Part> = (0..2).map(|_| Part::take(MOST / 4).unwrap()).collect();
        assert!(Part::take(MOST / 2 + 1).is_err());
        drop(halves);
        assert!(Part::take(MOST / 2 + 1).is_ok(), "what was refused is not counted");
    }

    #[test]
    fn a_job_comes_as_it_was_asked_for() {
        let spec = AppSpec {
            ranks: 2,
            environment: vec![("A".into(), Some("1".into())), ("B".into(), None)],
            wdir: Some("/w".into()),
            path: Some("/p".into()),
            program: OsString::from_vec(vec![b'p', 0xff]),
            is_numbered: true,
            arguments: vec!["a b".into()],
            ..AppSpec::default()
        };
        let environment: Environment = [("HOME".into(), "/h".into())].into();
        let request = JobRequest::new(vec!["-n".into()], vec![spec.clone()], environment.clone(), "/here".into());
        let (ours, theirs) = UnixStream::pair().unwrap();
        ask(&ours, &Request::Run(request), &[ours.as_fd(), ours.as_fd(), ours.as_fd()]).unwrap();
        let (Request::Run(mut request), descriptors) = take(&theirs).unwrap() else { panic!("a run was asked for") };
        assert_eq!((descriptors.len(), &request.directory[..], request.words.len()), (3, &b"/here"[..], 1));
        assert_eq!(request.take(), (vec![spec], environment));
        answer(&theirs, &Reply::Ended { code: 3, lines: vec!["x".into()] }).unwrap();
        drop(theirs);
        assert!(matches!(hear(&ours), Ok(Reply::Ended { code: 3, .. })));
        assert_eq!(hear(&ours).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
