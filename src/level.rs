//! What the attributes of a Get mean to the store: the one place that knows both.
use crate::data::Rank;
use crate::message::directives::{Directives, Scale};
use crate::store::{Class, Level, Lookup, NodeSel, class_of};

impl Directives {
    /// Settles the level where an application, a node or a session is named without it: the key says whether that is meant, and what is
    /// of another level is not asked for there.
    pub(crate) fn settle(&mut self, key: &[u8]) {
        if self.scale == Scale::Default && self.names_place {
            self.scale = match class_of(key) {
                Some(Class::Session) if self.session.is_some() => Scale::Session,
                Some(Class::App) if self.app.is_some() => Scale::App,
                Some(Class::Node) if self.node.is_some() || self.host.is_some() => Scale::Node,
                _ => Scale::Default,
            };
        }
    }

    /// The level at which these attributes look.
    #[inline(never)]
    fn level(&self) -> Level<'_> {
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
        let mut lookup = Lookup { rank, key, level: Level::Default, scope: self.scope, asker };
        if self.scale != Scale::Default {
            // Only then: most name none, and a level is not moved faster than it is told that there is none.
            lookup.level = self.level();
        }
        lookup
    }
}
