//! The question that a look-up answers, in its borrowed form.
use instanton_layout::key::HashedKey;

use super::directives::{Directives, InfoLevel};
use crate::data::{Rank, keys};

/// Question of a look-up: a key, the rank that it is asked of, and the level.
///
/// ```
/// use instanton::data::{Rank, keys};
/// use instanton::store::{Directives, Question};
/// let of_node = Directives::of_node(3);
/// let question = Question::new(Rank::WILDCARD, keys::HOSTNAME).with(&of_node);
/// assert_eq!(question.key(), keys::HOSTNAME.as_bytes());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub(crate) nspace: &'a [u8],
    pub(crate) rank: Rank,
    pub(crate) key: HashedKey<'a>,
    pub(crate) directives: &'a Directives,
    pub(crate) asker: Rank,
}

impl<'a> Question<'a> {
    /// Asks for a key of a process; `WILDCARD` or `UNDEF` for the job itself. Of what processes have posted, only the
    /// server knows by key alone whose it is.
    #[inline]
    pub fn new(rank: Rank, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let key = HashedKey::new(key.as_ref());
        Self { nspace: &[], rank, key, directives: Directives::none(), asker: Rank::UNDEF }
    }

    /// Names the namespace. A store has only one and does not look at it; to a client, an empty one is its own.
    #[inline]
    #[must_use]
    pub fn in_nspace(self, nspace: &'a [u8]) -> Self {
        Self { nspace, ..self }
    }

    /// Names the level, and everything else that the attributes of a Get say.
    #[inline]
    #[must_use]
    pub fn with(self, directives: &'a Directives) -> Self {
        Self { directives, ..self }
    }

    /// Asks for the key of another process.
    #[inline]
    #[must_use]
    pub fn of_rank(self, rank: Rank) -> Self {
        Self { rank, ..self }
    }

    /// Names the process of the job that asks: its own application is meant where neither the rank nor the level names
    /// one.
    #[inline]
    #[must_use]
    pub fn asked_by(self, asker: Rank) -> Self {
        Self { asker, ..self }
    }

    /// The namespace; empty for the own of whoever is asked.
    #[inline]
    pub fn nspace(&self) -> &'a [u8] {
        self.nspace
    }

    /// The process, or `WILDCARD` or `UNDEF`.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key.bytes()
    }

    /// The attributes.
    #[inline]
    pub fn directives(&self) -> &'a Directives {
        self.directives
    }

    /// Returns whether the key is one of the Standard's.
    #[inline(always)]
    pub(crate) fn is_reserved(&self) -> bool {
        keys::is_reserved(self.key.bytes())
    }

    /// Returns whether no level is named: only then may a value be found that a process posted or keeps for itself.
    #[inline(always)]
    pub(crate) fn has_default_level(&self) -> bool {
        self.directives.level == InfoLevel::Default
    }
}
