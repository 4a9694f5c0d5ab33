//! Seeded bugs: twins of a run with one fault each, which must break a rule. A rule whose twin passes proves nothing.
//!
//! The faults stand for those of servers. They are planted in what surrounds a server, which is that of production here
//! as everywhere: its door, its host and the manager.
use super::posted::value_of;
use super::rules::Rule;
use crate::message::Reply;
use crate::message::door::Outgoing;

/// Version that no rank ever commits.
const UNHEARD_OF: u64 = 1 << 32;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Every answer is sent twice.
    AnswersTwice,
    /// Answers are lost.
    LosesAnswers,
    /// Nodes do not wait for the last one of those that meet.
    MeetsTooFew,
    /// Data of a node are lost where nodes meet.
    LosesData,
    /// A look-up finds another value.
    InventsValues,
    /// All jobs count as tied to each other.
    TiesStrangers,
    /// Each node gives a group a context id of its own.
    NumbersGroupsApart,
    /// A server keeps jobs that are over.
    KeepsJobs,
}

/// Bugs, each with a rule that it breaks.
pub const TWINS: [(Bug, Rule); 9] = [
    (Bug::AnswersTwice, Rule::AnsweredOnce),
    (Bug::LosesAnswers, Rule::LimitKept),
    (Bug::LosesAnswers, Rule::NobodyWaits),
    (Bug::MeetsTooFew, Rule::AllHaveCome),
    (Bug::LosesData, Rule::DataThere),
    (Bug::InventsValues, Rule::ValueCommitted),
    (Bug::TiesStrangers, Rule::SegmentsOfTied),
    (Bug::NumbersGroupsApart, Rule::GroupAgreed),
    (Bug::KeepsJobs, Rule::NothingLeft),
];

impl Bug {
    /// Returns the messages that a server with this bug sends in place of one.
    pub fn garble(self, message: Outgoing) -> Vec<Outgoing> {
        match (self, message.made()) {
            (Bug::AnswersTwice, Outgoing::Reply { number, reply, descriptors }) => {
                let again = Outgoing::Reply { number, reply: reply.clone(), descriptors: Vec::new() };
                vec![Outgoing::Reply { number, reply, descriptors }, again]
            }
            (Bug::LosesAnswers, Outgoing::Reply { .. }) => Vec::new(),
            (Bug::InventsValues, Outgoing::Reply { number, reply: Reply::Value(_), descriptors }) => {
                vec![Outgoing::Reply { number, reply: Reply::Value(value_of(UNHEARD_OF)), descriptors }]
            }
            (_, message) => vec![message],
        }
    }
}
