//! Rules that must hold in every run.

/// A rule. For each there is a seeded [bug](super::bugs) that breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each request is answered once: checked with each message to a rank.
    AnsweredOnce,
    /// A limit is kept: checked with each step.
    LimitKept,
    /// A collective succeeds only when all have come to it: checked with each answer.
    AllHaveCome,
    /// Data committed before a collecting fence is there after it: checked with each answer, in the store of the
    /// node.
    DataThere,
    /// A value that is found was committed: checked with each answer.
    ValueCommitted,
    /// Nobody is given another job's segments, unless they are tied: checked with each answer.
    SegmentsOfTied,
    /// Members of a group learn the same of it: checked with each answer.
    GroupAgreed,
    /// Nobody waits when nothing more can happen: checked at the end.
    NobodyWaits,
    /// Nothing is left of jobs that are over, and nothing charged: checked at the end.
    NothingLeft,
}

/// A rule that does not hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule; none where something else is out of order.
    pub rule: Option<Rule>,
    /// The failure, for people.
    pub what: String,
}

impl Rule {
    /// Says that it does not hold.
    pub fn broken<T>(self, what: String) -> Result<T, Broken> {
        Err(Broken { rule: Some(self), what })
    }
}

impl<T: Into<String>> From<T> for Broken {
    fn from(what: T) -> Self {
        Broken { rule: None, what: what.into() }
    }
}
