//! What the attributes of a Get mean to the store: the one place that knows both.
use crate::data::Rank;
use crate::message::directives::{Directives, Scale};
use crate::store::{Level, Lookup, NodeSel};

impl Directives {
    /// The level at which these attributes look.
    #[inline]
    pub(crate) fn level(&self) -> Level<'_> {
        // Nearly always, and faster than a jump through a table.
        if self.scale == Scale::Default { Level::Default } else { self.level_named() }
    }

    fn level_named(&self) -> Level<'_> {
        match self.scale {
            Scale::Default => Level::Default,
            Scale::Session => Level::Session(self.session),
            Scale::Job => Level::Job,
            Scale::App => Level::App(self.app),
            Scale::Node => Level::Node(match (self.node, &self.host) {
                (Some(id), _) => NodeSel::Id(id),
                (None, Some(name)) => NodeSel::Name(name.as_bytes()),
                (None, None) => NodeSel::Own,
            }),
        }
    }

    /// A look-up with these attributes.
    #[inline]
    pub(crate) fn lookup<'a>(&'a self, asker: Rank, rank: Rank, key: &'a [u8]) -> Lookup<'a> {
        Lookup { rank, key, level: self.level(), scope: self.scope, asker }
    }
}
