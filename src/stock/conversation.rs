//! Conversation with one client that is in: which requests wait for what, and what is said next.
//!
//! The answers to a spawn and to a connect take more than one request inside: they bring the information of jobs, with
//! that of their ranks.
use std::sync::Arc;

use super::ack::{Ack, Kind, Release};
use super::answers;
use super::frame;
use super::job_info::{For, Packed, Parts};
use super::requests::{self, Answer, Asked, UNASKED};
use crate::data::{Channels, Info, InfoList, Nspace, Proc, Rank, Status, keys};
use crate::message::door::{JobInformation, Making};
use crate::message::numbers::NumberMap;
use crate::message::{Forward, Push, Reply, Request, output};
use crate::trace;
use crate::wire::{Form, WireError};

/// Step that follows from a message.
#[derive(Debug)]
pub enum Step {
    /// Send the information of a job under that tag.
    JobInfo(u32, Arc<dyn JobInformation>),
    /// Pack the information of a job for an answer to the request of that number.
    Gather(u64, Nspace),
    /// Send a body under that tag.
    Send(u32, Vec<u8>),
    /// Ask the server.
    Ask(u64, Request),
}

/// Facts that are needed to read a message of a client.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    form: Form,
    next_pull: u64,
}

impl Reading {
    /// Reads a message, whose elements may take so many bytes here.
    ///
    /// # Errors
    /// [`WireError`] says what is wrong with its bytes; [`WireError::NoMemory`] where they take more.
    pub fn read(self, tag: u32, body: &[u8], room: usize) -> Result<Asked, WireError> {
        if tag == frame::HEARTBEAT {
            Ok(requests::heartbeat())
        } else {
            match requests::read(body, self.form, self.next_pull, room) {
                // A later release may have more types. Its own server answers so, too.
                Err(error @ WireError::UnknownType(_)) => Ok(Asked::Unreadable(error.status())),
                // A library may pass on any name that its program gives a group, or asks about.
                Err(WireError::Name(_)) => Ok(Asked::Unreadable(Status::ERR_BAD_PARAM)),
                read => read,
            }
        }
    }
}

/// Answer that is to be made and packed by any thread.
pub struct Packing {
    form: Form,
    release: Release,
    pending: Pending,
    answer: Making,
}

impl Packing {
    /// Returns the bytes that it has, more or less.
    pub fn bytes(&self) -> usize {
        self.answer.bytes
    }

    /// Returns the tag of the request.
    pub fn tag(&self) -> u32 {
        self.pending.tag
    }

    /// Makes and packs it.
    ///
    /// # Errors
    /// [`WireError`] when it cannot be packed.
    pub fn pack(self) -> Result<Vec<u8>, WireError> {
        let Pending { answer, gathered, .. } = self.pending;
        answers::body(self.form, self.release, answer, self.answer.make(), &gathered)
    }
}

/// Step that follows from an answer that is still to be made.
pub enum Next {
    Step(Option<Step>),
    /// The answer is to be packed.
    Pack(Packing),
}

/// A request that waits for its answer.
struct Pending {
    tag: u32,
    answer: Answer,
    /// Jobs whose information is still to be gathered; that of the last is under way.
    missing: Vec<Nspace>,
    /// Jobs with their information, where there is any.
    gathered: Vec<(Nspace, Option<Arc<Packed>>)>,
    /// Output of the job that it starts, to be pulled for the client, and how.
    forwarded: Option<(Channels, Vec<Info>)>,
}

/// Output that a tool wants of a job that it starts.
fn forwarded(job_info: &[Info]) -> Option<(Channels, Vec<Info>)> {
    let streams = [(keys::FWD_STDOUT, Channels::STDOUT), (keys::FWD_STDERR, Channels::STDERR | Channels::STDDIAG)];
    let wanted = streams.iter().filter(|(key, _)| job_info.is_set(key));
    let channels = wanted.fold(Channels::NONE, |all, (_, channels)| all | *channels);
    let how = || job_info.iter().filter(|info| info.key.as_bytes().starts_with(b"pmix.iof.")).cloned().collect();
    (!channels.is_empty()).then(|| (channels, how()))
}

/// A client that is in.
pub struct Conversation {
    proc: Proc,
    form: Form,
    /// Major number of the client's release.
    release: Release,
    /// True if it reads data of its job from files.
    reads_files: bool,
    /// Information of its job, until it is asked for.
    job_info: Option<Arc<dyn JobInformation>>,
    pending: NumberMap<u64, Pending>,
    /// Number of the last request.
    last: u64,
    /// Number of pulls of output so far.
    pulls: u64,
    /// True if it is a tool.
    is_tool: bool,
    /// Number of jobs that it has started whose output it wants.
    forwarded: u64,
}

impl Conversation {
    pub fn new(ack: &Ack, job_info: Option<Arc<dyn JobInformation>>) -> Self {
        let (proc, form, release, reads_files) = (ack.proc.clone(), ack.form, ack.release, ack.reads_files);
        let (pending, is_tool) = (NumberMap::default(), ack.kind != Kind::Client);
        Conversation { proc, form, release, reads_files, job_info, pending, last: 0, pulls: 0, is_tool, forwarded: 0 }
    }

    /// Form of its packs.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the parts of the information of a job that it is to be told.
    pub fn parts(&self, purpose: For) -> Parts {
        if self.reads_files && matches!(purpose, For::Answer(_)) { Parts::BesideFiles } else { Parts::All }
    }

    /// Returns the facts that are needed to read a message of the client.
    pub fn reading(&self) -> Reading {
        Reading { form: self.form, next_pull: self.pulls + 1 }
    }

    /// Takes in a request of the client.
    ///
    /// # Errors
    /// [`WireError`] when its answer cannot be packed.
    pub fn asked(&mut self, tag: u32, asked: Asked) -> Result<Option<Step>, WireError> {
        Ok(match asked {
            Asked::JobInfo => Some(match self.job_info.take() {
                Some(job) => Step::JobInfo(tag, job),
                None => Step::Send(tag, answers::status(self.form, Status::ERR_NOT_FOUND)?),
            }),
            Asked::NotSupported => Some(Step::Send(tag, answers::status(self.form, Status::ERR_NOT_SUPPORTED)?)),
            Asked::Unreadable(status) => {
                trace!("a request of {} cannot be read: {status}", self.proc);
                Some(Step::Send(tag, answers::status(self.form, status)?))
            }
            Asked::Request(request, Answer::None) => Some(Step::Ask(0, *request)),
            Asked::Request(mut request, mut answer) => {
                if let Request::Get { proc, .. } = &mut *request
                    && proc.nspace.is_empty()
                {
                    proc.nspace = self.proc.nspace.clone();
                    if let Answer::Peers(nspace) = &mut answer {
                        *nspace = proc.nspace.clone();
                    }
                }
                if let Answer::Pull(_) = answer {
                    self.pulls += 1;
                }
                let forwarded = match &*request {
                    Request::Forward(Forward::Spawn { job_info, .. }) if self.is_tool => forwarded(job_info),
                    _ => None,
                };
                let (missing, gathered) = (Vec::new(), Vec::new());
                Some(self.ask(Pending { tag, answer, missing, gathered, forwarded }, *request))
            }
        })
    }

    /// Refuses a request for which the account of its process, or of its job, has not enough left.
    ///
    /// # Errors
    /// [`WireError`] when nothing can be packed.
    pub fn refused(&self, tag: u32) -> Result<Step, WireError> {
        Ok(Step::Send(tag, answers::status(self.form, Status::ERR_OUT_OF_RESOURCE)?))
    }

    fn ask(&mut self, pending: Pending, request: Request) -> Step {
        self.last += 1;
        self.pending.insert(self.last, pending);
        Step::Ask(self.last, request)
    }

    /// Takes in a reply of the server.
    ///
    /// # Errors
    /// [`WireError`] when it cannot be packed.
    pub fn replied(&mut self, number: u64, reply: Reply) -> Result<Option<Step>, WireError> {
        let Some(mut pending) = self.pending.remove(&number) else {
            // A request without an answer has failed.
            trace!("a request of {} has failed: {reply:?}", self.proc);
            return Ok(None);
        };
        match (&pending.answer, reply) {
            (Answer::Spawned, Reply::Spawned(nspace)) => {
                pending.missing.push(nspace.clone());
                let Some((channels, directives)) = pending.forwarded.take() else {
                    return self.gather(number, pending).map(Some);
                };
                self.pending.insert(number, pending);
                let (id, procs) = (UNASKED + self.forwarded, vec![Proc::new(nspace, Rank::WILDCARD)]);
                self.forwarded += 1;
                Ok(Some(Step::Ask(number, Request::PullOutput { id, procs, channels, directives })))
            }
            // The job runs even if the server refuses its output.
            (Answer::Spawned, Reply::Done(_)) if !pending.missing.is_empty() => self.gather(number, pending).map(Some),
            (Answer::Connected(procs), Reply::Done(Status::SUCCESS)) => {
                let mut others: Vec<Nspace> = procs.iter().map(|proc| proc.nspace.clone()).collect();
                others.sort_unstable();
                others.dedup();
                others.retain(|nspace| *nspace != self.proc.nspace);
                pending.missing = others;
                self.gather(number, pending).map(Some)
            }
            (_, reply) => self.send(pending, reply).map(Some),
        }
    }

    /// Takes in a reply of the server that is still to be made.
    ///
    /// # Errors
    /// As [`replied`](Self::replied).
    pub fn replied_later(&mut self, number: u64, answer: Making) -> Result<Next, WireError> {
        let of = self.pending.get(&number).map(|pending| &pending.answer);
        Ok(match of {
            None | Some(Answer::Spawned | Answer::Connected(_)) => Next::Step(self.replied(number, answer.make())?),
            Some(_) => match self.pending.remove(&number) {
                Some(pending) => Next::Pack(Packing { form: self.form, release: self.release, pending, answer }),
                None => Next::Step(None),
            },
        })
    }

    /// Has the information of the next job packed, or answers where there is none left.
    fn gather(&mut self, number: u64, pending: Pending) -> Result<Step, WireError> {
        let Some(next) = pending.missing.last().cloned() else {
            return self.send(pending, Reply::Done(Status::SUCCESS));
        };
        self.pending.insert(number, pending);
        Ok(Step::Gather(number, next))
    }

    /// Takes in the information of a job that was to be [gathered](Step::Gather), where there is any.
    ///
    /// # Errors
    /// [`WireError`] when the answer cannot be packed.
    pub fn gathered(&mut self, number: u64, packed: Option<Arc<Packed>>) -> Result<Option<Step>, WireError> {
        let Some(mut pending) = self.pending.remove(&number) else { return Ok(None) };
        if let Some(nspace) = pending.missing.pop() {
            pending.gathered.push((nspace, packed));
        }
        self.gather(number, pending).map(Some)
    }

    fn send(&self, pending: Pending, reply: Reply) -> Result<Step, WireError> {
        let Pending { tag, answer, gathered, .. } = pending;
        let body = answers::body(self.form, self.release, answer, reply, &gathered)?;
        Ok(Step::Send(tag, body))
    }

    /// Takes in what the server says unasked: the message, and what the server is told when it is on its way.
    ///
    /// # Errors
    /// [`WireError`] when it cannot be packed.
    pub fn pushed(&self, push: Push) -> Result<(Step, Option<Step>), WireError> {
        Ok(match push {
            Push::Event { status, source, info, .. } => {
                (Step::Send(frame::EVENT, answers::event(self.form, status, &source, &info)?), None)
            }
            Push::Output { pull, source, channel, bytes, info } => {
                let cost = output::cost(bytes.len()) as u64;
                // A client has the number 0 for what it has not pulled itself.
                let known = if pull >= UNASKED { 0 } else { pull };
                let body = answers::output(self.form, known, &source, channel, bytes, &info)?;
                (Step::Send(frame::OUTPUT, body), Some(Step::Ask(0, Request::OutputTaken { id: pull, cost })))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{App, DataType, Text};
    use crate::stock::body::Bodies;
    use crate::stock::requests::command;

    const FORM: Form = Form::Plain;

    /// A peer of that kind that has asked for a job of whose output it wants some; the number of the request.
    fn has_asked(kind: Kind) -> (Conversation, u64) {
        let proc = Proc::new(Nspace::new("peer").unwrap(), Rank(0));
        let (info, credential) = (Vec::new(), None);
        let ack = Ack { kind, proc, form: FORM, reads_files: false, release: [5, 0, 11], info, credential };
        let mut peer = Conversation::new(&ack, None);
        let mut out = Bodies::new(FORM);
        let job_info = [Info::new(keys::FWD_STDOUT, true), Info::new(keys::IOF_TAG_OUTPUT, true)];
        let cmd = Text::new("true").ok();
        let app = App { cmd, argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] };
        out.one(DataType::COMMAND, &command::SPAWN).unwrap();
        out.infos(&job_info).unwrap().list(DataType::APP, &[app]).unwrap();
        let asked = requests::read(&out.bytes, FORM, 1, usize::MAX).unwrap();
        let Some(Step::Ask(number, _)) = peer.asked(100, asked).unwrap() else { panic!("a spawn is asked for") };
        (peer, number)
    }

    #[test]
    fn a_tool_gets_the_output_of_its_job_unasked() {
        let child = Nspace::new("child").unwrap();
        let (mut tool, number) = has_asked(Kind::Tool);
        let step = tool.replied(number, Reply::Spawned(child.clone())).unwrap();
        let Some(Step::Ask(again, Request::PullOutput { id, procs, channels, directives })) = step else {
            panic!("its output is pulled")
        };
        let source = Proc::new(child.clone(), Rank::WILDCARD);
        assert_eq!((again, &procs[..], channels), (number, &[source.clone()][..], Channels::STDOUT));
        assert!(directives.len() == 1 && directives.is_set(keys::IOF_TAG_OUTPUT), "{directives:?}");
        // The tool hears of its job, whatever the answer is.
        let step = tool.replied(number, Reply::Done(Status::ERR_OUT_OF_RESOURCE)).unwrap();
        assert!(matches!(step, Some(Step::Gather(of, nspace)) if of == number && nspace == child));
        let (channel, bytes, info) = (Channels::STDOUT, b"line\n".to_vec(), Vec::new());
        let pushed = Push::Output { pull: id, source: source.clone(), channel, bytes: bytes.clone(), info };
        let (Step::Send(tag, body), Some(Step::Ask(0, Request::OutputTaken { id: taken, .. }))) =
            tool.pushed(pushed).unwrap()
        else {
            panic!("output is sent, and the server hears of it")
        };
        let unasked = answers::output(FORM, 0, &source, channel, bytes, &[]).unwrap();
        assert_eq!((tag, body, taken), (frame::OUTPUT, unasked, id));
    }

    #[test]
    fn output_of_a_job_that_a_rank_starts_is_its_launchers() {
        let (mut rank, number) = has_asked(Kind::Client);
        let step = rank.replied(number, Reply::Spawned(Nspace::new("child").unwrap())).unwrap();
        assert!(matches!(step, Some(Step::Gather(..))));
    }
}
