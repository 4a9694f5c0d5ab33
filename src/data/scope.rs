//! Scope of a value that a process puts.
use super::constants::scope as number;
use rkyv::{Archive, Deserialize, Serialize};

/// A `pmix_scope_t`: who can read a value that a process has put.
///
/// ```
/// use instanton::data::{Scope, names};
/// assert_eq!(names::SCOPE.of(Scope::GLOBAL), c"SHARE ACROSS ALL NODES");
/// ```
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(pub u8);

impl Scope {
    /// No scope: job information, or any scope where one is asked for.
    pub const UNDEF: Scope = Scope(number::SCOPE_UNDEF);
    /// The processes of the same node.
    pub const LOCAL: Scope = Scope(number::LOCAL);
    /// The processes of other nodes.
    pub const REMOTE: Scope = Scope(number::REMOTE);
    /// All processes.
    pub const GLOBAL: Scope = Scope(number::GLOBAL);
    /// The process itself.
    pub const INTERNAL: Scope = Scope(number::INTERNAL);
    /// Deletes a value of scope `LOCAL`.
    pub const DEL_LOCAL: Scope = Scope(number::DEL_LOCAL);
    /// Deletes a value of scope `REMOTE`.
    pub const DEL_REMOTE: Scope = Scope(number::DEL_REMOTE);
    /// Deletes a value of scope `GLOBAL`.
    pub const DEL_GLOBAL: Scope = Scope(number::DEL_GLOBAL);
    /// Deletes a value of scope `INTERNAL`.
    pub const DEL_INTERNAL: Scope = Scope(number::DEL_INTERNAL);

    /// Returns whether a value that was put with this scope is one that a Get for the scope `asked` asks for. `GLOBAL` is
    /// both `LOCAL` and `REMOTE`.
    #[inline]
    pub fn answers(self, asked: Option<Scope>) -> bool {
        match asked {
            None | Some(Scope::UNDEF) => true,
            Some(asked) => self == asked || (self == Scope::GLOBAL && matches!(asked, Scope::LOCAL | Scope::REMOTE)),
        }
    }
}

impl From<Scope> for u64 {
    fn from(scope: Scope) -> u64 {
        scope.0.into()
    }
}
