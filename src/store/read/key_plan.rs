//! Places where a key of job information can be, and the order in which a look-up goes through them.
//!
//! The order follows the Standard's levels. Size keys and job-level data are found by a process rank, by WILDCARD and
//! by UNDEF alike.
use instanton_layout::info::{Column, KeyEntry, Places};
use instanton_layout::key::HashedKey;

use super::directives::InfoLevel;
use super::question::Question;
use crate::store::info::known_keys::{Class, Derived};

/// The plan for look-ups of one key, whosoever's value is asked for.
#[derive(Clone, Copy)]
pub(super) struct KeyPlan {
    /// The key's entry in the table of keys.
    pub(super) entry: KeyEntry,
    /// The first column of the key.
    pub(super) column: Option<Column>,
    /// The value that is computed where the host gave none.
    pub(super) derived: Option<Derived>,
    /// The class of a reserved key.
    pub(super) class: Option<Class>,
    /// The places that can have the key, given or computed: no other is looked at.
    pub(super) places: Places,
}

/// A key and its plan, handed on as one.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) key: &'a HashedKey<'a>,
    pub(super) plan: &'a KeyPlan,
}

/// Records of nodes, the own one's included.
pub(super) const NODE: Places = Places::NODES.and(Places::OWN_NODE);

/// Returns whether a look-up begins with the values of the process itself.
#[inline(always)]
pub(super) fn begins_with_process(question: &Question<'_>, in_job: bool) -> bool {
    in_job && question.has_default_level()
}

/// The order of places, behind the values of the process itself ([`begins_with_process`]). `class` is that of a
/// reserved key.
pub(super) fn order(question: &Question<'_>, in_job: bool, class: Option<Class>) -> &'static [Places] {
    use Places as P;
    match (question.directives.level, class) {
        (InfoLevel::Default, None) if in_job => &[],
        (InfoLevel::Default, Some(Class::Process | Class::Job | Class::Session)) if in_job => {
            &[P::JOB, P::SESSIONS, NODE, P::APPS]
        }
        (InfoLevel::Default, Some(Class::Node | Class::Placed)) if in_job => &[NODE, P::JOB, P::SESSIONS, P::APPS],
        (InfoLevel::Default, Some(Class::App)) if in_job => &[P::APPS, P::JOB, P::SESSIONS, NODE],
        (InfoLevel::Default, _) if question.rank.is_process() => &[],
        (InfoLevel::Default, Some(Class::Process | Class::Placed)) => &[P::JOB],
        (InfoLevel::Default, _) => &[P::JOB, P::SESSIONS, NODE, P::APPS],
        (InfoLevel::Job, _) => &[P::JOB],
        (InfoLevel::Session, _) => &[P::SESSIONS],
        (InfoLevel::App, _) => &[P::APPS],
        (InfoLevel::Node, _) => &[NODE],
    }
}
