//! Meetings: requests to meet all of the job, each with an answer that may come in another way.
//!
//! There is one at a time, and it takes no memory. The caller that began it waits at the word of release (`fence.rs`),
//! and at the bell for an answer that comes as a message. A caller that gives up leaves the meeting under way, until it
//! is seen to be over.
use super::{Link, Way, lock};
use crate::client::Error;
use crate::client::answer::Answer;
use crate::client::outbox::{Meeting, Outbox};
use crate::control::frame::{self, FrameError, Kind};

/// The end of a meeting: the answer, where it came as a message, and none where the word has changed.
pub(in crate::client) type Met = Result<Option<Box<Answer>>, Error>;

impl Link {
    /// Sends a request to meet all. The bell rings when it is [answered](Link::met); whoever waits ends it by
    /// [`end_meeting`](Link::end_meeting) before there is another one. Returns whether the control thread is in an
    /// event handler.
    #[inline]
    pub(in crate::client) fn meet(&self, call: &'static str, frame: &mut [u8]) -> Result<bool, Error> {
        let Way::Socket(socket) = &self.way else { return Err(Error::NoServer { call }) };
        let mut outbox = lock(&self.outbox);
        outbox.post(call, socket, frame, true)?;
        outbox.meeting = Meeting::UnderWay(outbox.last);
        if outbox.has_unsent() {
            self.rest_waits();
        }
        Ok(outbox.in_handler)
    }

    /// The answer to the meeting, if it has come as a message or will not come.
    #[cold]
    pub(in crate::client) fn met(&self) -> Option<Met> {
        let mut outbox = lock(&self.outbox);
        match std::mem::take(&mut outbox.meeting) {
            Meeting::Answered(answer) => Some(answer.map(Some)),
            other => {
                outbox.meeting = other;
                None
            }
        }
    }

    /// Nobody waits for the meeting any more.
    #[inline]
    pub(in crate::client) fn end_meeting(&self) {
        let mut outbox = lock(&self.outbox);
        outbox.meeting = Meeting::None;
        self.bell.reset();
    }

    /// The caller who began the meeting, having seen so many releases, waits no more. Returns the answer where it has
    /// come meanwhile. Else the meeting stays under way, until [`settle_meeting`](Link::settle_meeting) says that it is
    /// over.
    #[cold]
    pub(in crate::client) fn give_up_meeting(&self, seen: u32) -> Option<Met> {
        let mut outbox = lock(&self.outbox);
        self.bell.reset();
        match std::mem::take(&mut outbox.meeting) {
            Meeting::Answered(answer) => return Some(answer.map(Some)),
            Meeting::UnderWay(number) => outbox.meeting = Meeting::GivenUp { number, seen },
            other => outbox.meeting = other,
        }
        None
    }

    /// Returns whether the meeting that was given up is over, and forgets it then: it was answered, or there were other
    /// releases than its caller has seen.
    #[cold]
    pub(in crate::client) fn settle_meeting(&self, releases: u32) -> bool {
        let mut outbox = lock(&self.outbox);
        let is_over = match outbox.meeting {
            Meeting::GivenUp { seen, .. } => seen != releases,
            Meeting::Over => true,
            _ => false,
        };
        if is_over {
            outbox.meeting = Meeting::None;
        }
        is_over
    }

    /// Returns whether a reply was that to the meeting, which is answered then.
    pub(in crate::client) fn answers_meeting(&self, number: u64, body: &[u8]) -> Result<bool, FrameError> {
        let mut outbox = lock(&self.outbox);
        if !outbox.meeting.is_of(number) {
            return Ok(false);
        }
        let answer = Answer { reply: frame::decode(Kind::Reply, body)?, descriptors: Vec::new() };
        self.end_of_meeting(&mut outbox, Ok(answer));
        Ok(true)
    }

    /// The answer to the meeting has come, be it that somebody waits for it or not any more.
    pub(super) fn end_of_meeting(&self, outbox: &mut Outbox, answer: Result<Answer, Error>) {
        match outbox.meeting {
            Meeting::UnderWay(_) => self.answer_meeting(outbox, answer.map(Box::new)),
            _ => outbox.meeting = Meeting::Over,
        }
    }

    /// Under the outbox's lock, so that whoever waits has not ended the meeting and begun another one meanwhile.
    fn answer_meeting(&self, outbox: &mut Outbox, answer: Result<Box<Answer>, Error>) {
        outbox.meeting = Meeting::Answered(answer);
        self.bell.ring();
    }

    /// No answer will come.
    pub(super) fn lose_meeting(&self, outbox: &mut Outbox, why: Error) {
        if matches!(outbox.meeting, Meeting::UnderWay(_)) {
            self.answer_meeting(outbox, Err(why));
        }
    }
}
