//! Places where a key of job information can be, and the order in which a look-up goes through them.
//!
//! By the rules of the Standard's levels, and so that size keys and job-level data are found by a process rank, by
//! WILDCARD and by UNDEF alike.
use instanton_layout::info::{Column, KeyEntry, Places};

use super::question::{Level, Lookup};
use crate::store::info::known_keys::{Class, Derived};

/// What is known of a key before anything is looked at.
#[derive(Clone, Copy)]
pub(super) struct KeyPlan {
    pub(super) entry: KeyEntry,
    /// The first column of it.
    pub(super) column: Option<Column>,
    pub(in crate::store) derived: Option<Derived>,
    /// Of reserved keys.
    pub(in crate::store) class: Option<Class>,
    /// Where it can be at all, given or computed: nothing else is looked at.
    pub(in crate::store) places: Places,
}

/// Any node's, the own one's included.
pub(super) const NODE: Places = Places::NODES.and(Places::OWN_NODE);

/// Where a key is looked for, in this order, if it is not among what is said of the process itself (see [`of_process_itself`]);
/// `class` is known of reserved keys.
pub(super) fn order(lookup: &Lookup<'_>, in_job: bool, class: Option<Class>) -> &'static [Places] {
    use Places as P;
    match (lookup.level, class) {
        (Level::Default, None) if in_job => &[],
        (Level::Default, Some(Class::Process | Class::Job | Class::Session)) if in_job => {
            &[P::JOB, P::SESSIONS, NODE, P::APPS]
        }
        (Level::Default, Some(Class::Node)) if in_job => &[NODE, P::JOB, P::SESSIONS, P::APPS],
        (Level::Default, Some(Class::App)) if in_job => &[P::APPS, P::JOB, P::SESSIONS, NODE],
        (Level::Default, _) if lookup.rank.is_process() => &[],
        (Level::Default, Some(Class::Process)) => &[P::JOB],
        (Level::Default, _) => &[P::JOB, P::SESSIONS, NODE, P::APPS],
        (Level::Job, _) => &[P::JOB],
        (Level::Session(_), _) => &[P::SESSIONS],
        (Level::App(_), _) => &[P::APPS],
        (Level::Node(_), _) => &[NODE],
    }
}

/// Whether a key is looked for first in what is said of the process.
#[inline(always)]
pub(super) fn of_process_itself(lookup: &Lookup<'_>, in_job: bool) -> bool {
    in_job && matches!(lookup.level, Level::Default)
}
