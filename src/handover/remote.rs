//! The reader's end: a reader that asks for what it lacks.
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::link::{LONGEST, Link, NO_TRUST, Trust};
use super::message::{self, TOKEN, Token, Wish};
use crate::data::Value;
#[cfg(feature = "named-segments")]
use crate::store::named::{Mapped, NameError};
use crate::store::{AttachError, Guard, Have, JobReader, Miss, PinError, Question, RawValue, ReaderPage};
use crate::sys::socket::{self, Door};

/// Time that a writer has for an answer, unless its reader says otherwise.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Times that a look-up is repeated because its record was being replaced.
const REPEATS: usize = 8;
/// Time between two looks whether the writer is still there.
const LOOK: Duration = Duration::from_secs(1);

/// The writer cannot be asked: everything that is mapped can still be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The connection has failed, now or before: the writer is gone, or has cut it. An error of the kind
    /// [`TimedOut`](io::ErrorKind::TimedOut) says that the answer has not come in time; the next one may.
    #[error("the writer cannot be asked: {0}")]
    Lost(io::Error),
    /// The writer refuses: the token is another one, or this user may not read.
    #[error("the writer refuses to answer: the token of the address is not its own, or this user may not read")]
    Refused,
    /// This process has no descriptors left for the segments: to be asked again when it has.
    #[error("this process has no room for the descriptors of segments")]
    NoDescriptors,
    /// The writer has something, but no room for what is asked for.
    #[error("the writer has no room for the page that guards need")]
    NoRoom,
    /// A segment that it has sent cannot be used.
    #[error("{0}")]
    Attach(#[from] AttachError),
    /// A segment that it has added cannot be read by its name.
    #[cfg(feature = "named-segments")]
    #[error("{0}")]
    Named(#[from] NameError),
}

/// A reader cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The text is no address.
    #[error("this is no address of a store: one begins with \"instanton-store:1:\", and has a name and a token")]
    Address,
    /// The address is of another version of this library.
    #[error("an address of version {0}; this library opens those of version {ours}", ours = message::ADDRESSES)]
    Version(u32),
    /// Another user listens there.
    #[error("user {0} listens there, who is not trusted")]
    Foreign(u32),
    /// Nobody is there, or the segments cannot be had.
    #[error("{0}")]
    Link(#[from] LinkError),
}

/// The reason why a reader has no value.
#[derive(Debug, thiserror::Error)]
pub enum RemoteMiss {
    /// There is none, or the reader cannot say. Never [`Miss::Unmapped`].
    #[error("{0}")]
    Miss(#[from] Miss),
    /// The value may be in a segment that cannot be had.
    #[error("{0}")]
    Link(#[from] LinkError),
}

/// End of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The writer has released those who wait.
    Released,
    /// The time was over first.
    TimedOut,
    /// The writer is gone: nobody will be released any more.
    WriterGone,
}

/// Reads a job's segments, and asks their writer for what was added since it was opened.
///
/// Threads share it. A look-up takes no lock and makes no system call, except for the one that leads to a segment which
/// is not mapped yet: that waits for the writer's answer, so it must not be made on the writer's own thread.
pub struct RemoteReader {
    pub(super) reader: JobReader,
    pub(super) source: Source,
}

/// The way to the writer of a reader's segments.
pub struct Source(pub(super) Way);

pub(super) enum Way {
    /// The writer is asked.
    Asked(Mutex<Link>),
    /// Its files have names.
    #[cfg(feature = "named-segments")]
    Named(Mapped),
}

/// A reader, and the way to the writer of its segments.
pub type Opened = (JobReader, Source);

impl RemoteReader {
    /// Opens an address ([`Listener::address`](super::Listener::address)). The writer has 30 s for each answer.
    ///
    /// # Errors
    /// [`OpenError`] says what there is instead of a store.
    pub fn open(address: &str) -> Result<Self, OpenError> {
        Self::open_within(address, PATIENCE)
    }

    /// The same, where the writer has that much time for each answer, from the first one on.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_within(address: &str, patience: Duration) -> Result<Self, OpenError> {
        let (reader, source) = Source::open(address, patience, |_| true)?;
        Ok(Self { reader, source })
    }

    /// Opens one end of a socket pair whose other end a listener has [adopted](super::Listener::adopt).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn over(stream: UnixStream) -> Result<Self, OpenError> {
        let (reader, source) = Source::begin(stream, [0; TOKEN], PATIENCE, NO_TRUST)?;
        Ok(Self { reader, source })
    }

    /// The reader of what is mapped now.
    pub fn reader(&self) -> &JobReader {
        &self.reader
    }

    /// Gives the writer that much time for each answer from now on (30 s before).
    pub fn set_patience(&self, patience: Duration) {
        match &self.source.0 {
            Way::Asked(link) => locked(link).patience = patience,
            #[cfg(feature = "named-segments")]
            Way::Named(_) => {}
        }
    }

    /// Maps everything that the writer has by now.
    ///
    /// # Errors
    /// [`LinkError`]; the reader goes on with what it has.
    pub fn refresh(&self) -> Result<(), LinkError> {
        self.source.refresh(&self.reader)
    }

    /// Looks a value up and gives it to `f` where it lies, as [`JobReader::read`] does.
    ///
    /// # Errors
    /// [`RemoteMiss`] says why there is no value.
    pub fn read<T>(&self, question: &Question<'_>, mut f: impl FnMut(&RawValue<'_>) -> T) -> Result<T, RemoteMiss> {
        self.repeat(|| self.reader.read(question, &mut f))
    }

    /// Looks a value up and copies it.
    ///
    /// # Errors
    /// [`RemoteMiss`] says why there is no value.
    pub fn get(&self, question: &Question<'_>) -> Result<Value, RemoteMiss> {
        self.repeat(|| self.reader.get(question))
    }

    #[inline]
    fn repeat<T>(&self, mut look: impl FnMut() -> Result<T, Miss>) -> Result<T, RemoteMiss> {
        match look() {
            Err(Miss::Unmapped(_) | Miss::Busy) => self.look_again(&mut look),
            found => Ok(found?),
        }
    }

    #[cold]
    fn look_again<T>(&self, look: &mut dyn FnMut() -> Result<T, Miss>) -> Result<T, RemoteMiss> {
        let mut repeats = 0;
        loop {
            self.refresh()?;
            match look() {
                Err(Miss::Unmapped(_) | Miss::Busy) if repeats < REPEATS => repeats += 1,
                Err(Miss::Unmapped(_)) => return Err(Miss::Busy.into()),
                found => return Ok(found?),
            }
        }
    }

    /// Takes a guard, under which [`Guard::get`] looks values up in place. A value that it finds [`Miss::Unmapped`] is
    /// there after [`refresh`](Self::refresh), with a guard that is taken then.
    ///
    /// # Errors
    /// [`PinError`] when the writer had no room for a page, or no slot is free on it.
    #[inline]
    pub fn pin(&self) -> Result<Guard<'_>, PinError> {
        self.reader.pin()
    }

    /// Looks a value up, and waits for it where nobody has stored it yet. It comes with the writer's next
    /// [`release`](crate::store::JobWriter::release) after it was stored.
    ///
    /// # Errors
    /// [`RemoteMiss`]: [`Miss::NotFound`] when the time is over, and [`LinkError::Lost`] when the writer is gone.
    pub fn get_when_there(&self, question: &Question<'_>, limit: Option<Duration>) -> Result<Value, RemoteMiss> {
        let begin = Instant::now();
        loop {
            let seen = self.reader.releases();
            match self.get(question) {
                Err(RemoteMiss::Miss(Miss::NotFound)) => {}
                found => return found,
            }
            let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
            match self.wait(seen, left) {
                Waited::Released => {}
                Waited::TimedOut => return Err(Miss::NotFound.into()),
                Waited::WriterGone => return Err(LinkError::Lost(io::ErrorKind::BrokenPipe.into()).into()),
            }
        }
    }

    /// Sleeps until the writer has released those who wait more often than `seen`
    /// ([`JobReader::releases`]), is gone, or the time is over.
    pub fn wait(&self, seen: u32, limit: Option<Duration>) -> Waited {
        let begin = Instant::now();
        loop {
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(begin.elapsed()));
            if self.reader.wait_for_release(seen, Some(left.min(LOOK))) {
                return Waited::Released;
            }
            if left < LOOK {
                return Waited::TimedOut;
            }
            if !self.source.is_up() {
                return Waited::WriterGone;
            }
        }
    }
}

impl Source {
    /// Opens an address, if the user that listens there is trusted. The writer has that much time for each answer.
    ///
    /// # Errors
    /// [`OpenError`] says what there is instead of a store.
    pub fn open(address: &str, patience: Duration, is_trusted: impl FnOnce(u32) -> bool) -> Result<Opened, OpenError> {
        Self::open_with(address, patience, is_trusted, NO_TRUST)
    }

    pub(super) fn open_with(
        address: &str,
        patience: Duration,
        is_trusted: impl FnOnce(u32) -> bool,
        trust: Trust,
    ) -> Result<Opened, OpenError> {
        let (name, token) = message::parse(address).ok_or_else(|| match message::version(address) {
            Some(version) if version != message::ADDRESSES => OpenError::Version(version),
            _ => OpenError::Address,
        })?;
        let until = Some(Instant::now() + patience.min(LONGEST));
        let stream = socket::connect(&Door::Abstract(name), until).map_err(LinkError::Lost)?;
        let user = socket::peer(&stream).map_err(LinkError::Lost)?.uid;
        if !is_trusted(user) {
            return Err(OpenError::Foreign(user));
        }
        Self::begin(stream, token, patience, trust)
    }

    fn begin(stream: UnixStream, token: Token, patience: Duration, trust: Trust) -> Result<Opened, OpenError> {
        let mut link = Link::new(stream, token, patience, trust);
        let page = match link.ask(Wish::Page, Have::default()) {
            Ok(page) => page.first().map(|page| ReaderPage::map(page.as_fd())).transpose(),
            // Without one there are no guards, and values are copied.
            Err(LinkError::NoRoom) => Ok(None),
            Err(error) => return Err(error.into()),
        };
        let page = page.map_err(LinkError::Attach)?;
        let segments = link.ask(Wish::Segments, Have::default())?;
        let parts = segments.iter().map(|segment| link.map(segment)).collect::<Result<_, _>>();
        let reader = JobReader::attach(parts.map_err(LinkError::Attach)?, page).map_err(LinkError::Attach)?;
        let this = Self(Way::Asked(Mutex::new(link)));
        this.refresh(&reader)?;
        Ok((reader, this))
    }

    /// Returns whether the writer is still there.
    fn is_up(&self) -> bool {
        match &self.0 {
            Way::Asked(link) => locked(link).is_up(),
            #[cfg(feature = "named-segments")]
            Way::Named(mapped) => mapped.is_up(),
        }
    }

    /// Maps everything that the writer of these segments has by now.
    ///
    /// # Errors
    /// [`LinkError`]; the reader goes on with what it has.
    pub fn refresh(&self, reader: &JobReader) -> Result<(), LinkError> {
        reader.unmap_replaced();
        let mut link = match &self.0 {
            Way::Asked(link) => locked(link),
            #[cfg(feature = "named-segments")]
            Way::Named(mapped) => return Ok(mapped.refresh(reader)?),
        };
        // Several messages where there are more segments than one brings.
        while reader.is_behind() {
            let before = reader.have();
            for segment in link.ask(Wish::Segments, before)? {
                reader.add(link.map(&segment)?)?;
            }
            if reader.have() == before {
                return Err(link.give_up(io::Error::other("it has less than its own segments say")));
            }
        }
        Ok(())
    }
}

fn locked(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}
