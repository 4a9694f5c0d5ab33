//! The attributes of a Get, read once.
use crate::data::{Info, Key, Nspace, Scope, Status, Text, Value, constants, keys};
use crate::store::info::known_keys::{Class, class_of};

/// The level of information that a Get asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InfoLevel {
    /// The level that follows from the rank and the key.
    #[default]
    Default,
    /// `PMIX_SESSION_INFO`: the session with the number in [`Directives::session`], else the job's own.
    Session,
    /// `PMIX_JOB_INFO`: the job.
    Job,
    /// `PMIX_APP_INFO`: the application with the number in [`Directives::app`], whatever the rank; else the rank's,
    /// else the asker's, else the only one.
    App,
    /// `PMIX_NODE_INFO`: the node with the number in [`Directives::node`] or the name in [`Directives::host`], whatever
    /// the rank; else the rank's; for no rank in particular, the own one.
    Node,
}

/// The attributes of a Get. [`Directives::NONE`] is a Get without any; taking an attribute in allocates only where the
/// attribute itself holds text.
#[derive(Clone, Debug, PartialEq)]
pub struct Directives {
    /// `PMIX_OPTIONAL`: only what this process has at hand.
    pub optional: bool,
    /// `PMIX_IMMEDIATE`: only what the server has at hand.
    pub immediate: bool,
    /// `PMIX_GET_REFRESH_CACHE`: not before the newest job information is mapped.
    pub refresh: bool,
    /// `PMIX_TIMEOUT`: seconds, 0 for ever.
    pub timeout: Option<i32>,
    /// `PMIX_DATA_SCOPE`: only what was posted with this scope.
    pub scope: Option<Scope>,
    /// The level of information.
    pub level: InfoLevel,
    /// True if an application, a node or a session is named. The key may say then that its level is meant.
    pub names_place: bool,
    /// `PMIX_SESSION_ID`.
    pub session: Option<u32>,
    /// `PMIX_APPNUM`.
    pub app: Option<u32>,
    /// `PMIX_NODEID`.
    pub node: Option<u32>,
    /// `PMIX_HOSTNAME`.
    pub host: Option<Text>,
    /// `PMIX_NSPACE` or `PMIX_JOBID`: another namespace than the process's.
    pub nspace: Option<Nspace>,
    /// `PMIX_GROUP_CONTEXT_ID`: what was given to that group.
    pub context: Option<u64>,
    /// `PMIX_GET_POINTER_VALUES`: the caller wants to look at the value where it lies.
    pub pointer_values: bool,
    /// `PMIX_GET_STATIC_VALUES`: the caller brings the room for the value.
    pub static_values: bool,
    /// Hints that mean nothing here; the host may know them.
    pub rest: Vec<Info>,
}

/// The keys as C gives them: bytes that need not be UTF-8.
mod known {
    use crate::data::keys;

    macro_rules! bytes {
        ($($key:ident)*) => {$( pub(super) const $key: &[u8] = keys::$key.as_bytes(); )*};
    }
    bytes! {
        OPTIONAL IMMEDIATE GET_REFRESH_CACHE GET_POINTER_VALUES GET_STATIC_VALUES TIMEOUT DATA_SCOPE SESSION_INFO JOB_INFO
        APP_INFO NODE_INFO SESSION_ID APPNUM NODEID HOSTNAME NSPACE JOBID GROUP_CONTEXT_ID
    }
}

impl Default for Directives {
    fn default() -> Self {
        Self::NONE
    }
}

impl Directives {
    /// A Get without attributes.
    pub const NONE: Directives = Directives {
        optional: false,
        immediate: false,
        refresh: false,
        timeout: None,
        scope: None,
        level: InfoLevel::Default,
        names_place: false,
        session: None,
        app: None,
        node: None,
        host: None,
        nspace: None,
        context: None,
        pointer_values: false,
        static_values: false,
        rest: Vec::new(),
    };

    /// A Get at a level, without naming a session, an application or a node.
    pub fn at(level: InfoLevel) -> Self {
        Self { level, ..Self::NONE }
    }

    /// A Get of the information about the session with a number.
    pub fn of_session(number: u32) -> Self {
        Self { session: Some(number), names_place: true, ..Self::at(InfoLevel::Session) }
    }

    /// A Get of the information about the application with a number.
    pub fn of_app(number: u32) -> Self {
        Self { app: Some(number), names_place: true, ..Self::at(InfoLevel::App) }
    }

    /// A Get of the information about the node with a number.
    pub fn of_node(number: u32) -> Self {
        Self { node: Some(number), names_place: true, ..Self::at(InfoLevel::Node) }
    }

    /// A Get of the information about the node with a name.
    pub fn of_host(name: Text) -> Self {
        Self { host: Some(name), names_place: true, ..Self::at(InfoLevel::Node) }
    }

    /// A Get of what was posted with a scope, or with GLOBAL.
    pub fn of_scope(scope: Scope) -> Self {
        Self { scope: Some(scope), ..Self::NONE }
    }

    /// [`Directives::NONE`], to be borrowed for as long as anybody likes.
    #[inline]
    pub fn none() -> &'static Directives {
        static NONE: Directives = Directives::NONE;
        &NONE
    }

    /// The directives of a Get with one attribute, which is true, as most have that have any; `None` where that
    /// attribute says more.
    pub fn lone(key: &[u8]) -> Option<&'static Directives> {
        macro_rules! lone {
            ($($key:ident: $member:ident = $value:expr;)*) => {
                match key {
                    $(known::$key => {
                        static LONE: Directives = {
                            let mut directives = Directives::NONE;
                            directives.$member = $value;
                            directives
                        };
                        Some(&LONE)
                    })*
                    _ => None,
                }
            };
        }
        lone! {
            OPTIONAL: optional = true;
            IMMEDIATE: immediate = true;
            GET_REFRESH_CACHE: refresh = true;
            GET_POINTER_VALUES: pointer_values = true;
            GET_STATIC_VALUES: static_values = true;
            SESSION_INFO: level = InfoLevel::Session;
            JOB_INFO: level = InfoLevel::Job;
            APP_INFO: level = InfoLevel::App;
            NODE_INFO: level = InfoLevel::Node;
        }
    }

    /// Reads a whole list.
    ///
    /// # Errors
    /// As [`Directives::take`].
    pub fn parse(info: &[Info]) -> Result<Directives, Status> {
        let mut directives = Directives::NONE;
        for item in info {
            directives.take(item.key.as_bytes(), item.flags, &item.value)?;
        }
        Ok(directives)
    }

    /// Takes in one attribute; `flags` are its `constants::info_directives`.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for an attribute that is unknown and required, `ERR_BAD_PARAM` for a value that is none.
    pub fn take(&mut self, key: &[u8], flags: u32, value: &Value) -> Result<(), Status> {
        match key {
            known::OPTIONAL => self.optional = truth(value)?,
            known::IMMEDIATE => self.immediate = truth(value)?,
            known::GET_REFRESH_CACHE => self.refresh = truth(value)?,
            known::GET_POINTER_VALUES => self.pointer_values = truth(value)?,
            known::GET_STATIC_VALUES => self.static_values = truth(value)?,
            known::TIMEOUT => self.timeout = Some(value.as_i32().ok_or(Status::ERR_BAD_PARAM)?),
            known::DATA_SCOPE => self.scope = Some(scope(value)?).filter(|s| *s != Scope::UNDEF),
            known::SESSION_INFO => self.set_level(InfoLevel::Session, value)?,
            known::JOB_INFO => self.set_level(InfoLevel::Job, value)?,
            known::APP_INFO => self.set_level(InfoLevel::App, value)?,
            known::NODE_INFO => self.set_level(InfoLevel::Node, value)?,
            known::SESSION_ID => self.session = Some(self.place(number(value)?)),
            known::APPNUM => self.app = Some(self.place(number(value)?)),
            known::NODEID => self.node = Some(self.place(number(value)?)),
            known::HOSTNAME => {
                let name = value.as_text().ok_or(Status::ERR_BAD_PARAM)?.clone();
                self.host = Some(self.place(name));
            }
            known::GROUP_CONTEXT_ID => self.context = Some(value.as_u64().ok_or(Status::ERR_BAD_PARAM)?),
            known::NSPACE | known::JOBID => self.nspace = Some(nspace(value)?).filter(|n| !n.as_bytes().is_empty()),
            _ => return self.unknown(key, flags, value),
        }
        Ok(())
    }

    /// Settles the level where an application, a node or a session is named without it: the key says whether that level
    /// is meant.
    #[cfg_attr(
        not(any(feature = "client", feature = "server")),
        allow(dead_code, reason = "only peers parse attributes")
    )]
    pub(crate) fn settle(&mut self, key: &[u8]) {
        if self.level == InfoLevel::Default && self.names_place {
            self.level = match class_of(key) {
                Some(Class::Session) if self.session.is_some() => InfoLevel::Session,
                Some(Class::App) if self.app.is_some() => InfoLevel::App,
                Some(Class::Node | Class::Placed) if self.node.is_some() || self.host.is_some() => InfoLevel::Node,
                _ => InfoLevel::Default,
            };
        }
    }

    /// Returns whether a session, an application or a node is named at the level that is asked for.
    #[inline(always)]
    pub(super) fn selects(&self) -> bool {
        match self.level {
            InfoLevel::Default | InfoLevel::Job => false,
            InfoLevel::Session => self.session.is_some(),
            InfoLevel::App => self.app.is_some(),
            InfoLevel::Node => self.node.is_some() || self.host.is_some(),
        }
    }

    /// The attributes again, for the server.
    pub fn to_infos(&self) -> Vec<Info> {
        let mut out = self.rest.clone();
        let mut flag = |given: bool, key| {
            if given {
                out.push(Info::new(key, true));
            }
        };
        flag(self.optional, keys::OPTIONAL);
        flag(self.immediate, keys::IMMEDIATE);
        flag(self.refresh, keys::GET_REFRESH_CACHE);
        flag(self.level == InfoLevel::Session, keys::SESSION_INFO);
        flag(self.level == InfoLevel::Job, keys::JOB_INFO);
        flag(self.level == InfoLevel::App, keys::APP_INFO);
        flag(self.level == InfoLevel::Node, keys::NODE_INFO);
        out.extend(self.timeout.map(|seconds| Info::new(keys::TIMEOUT, Value::Int(seconds))));
        out.extend(self.scope.map(|scope| Info::new(keys::DATA_SCOPE, scope)));
        out.extend(self.session.map(|id| Info::new(keys::SESSION_ID, id)));
        out.extend(self.app.map(|number| Info::new(keys::APPNUM, number)));
        out.extend(self.node.map(|id| Info::new(keys::NODEID, id)));
        out.extend(self.host.clone().map(|name| Info::new(keys::HOSTNAME, Value::String(Some(name)))));
        out
    }

    fn place<T>(&mut self, named: T) -> T {
        self.names_place = true;
        named
    }

    fn set_level(&mut self, level: InfoLevel, value: &Value) -> Result<(), Status> {
        if truth(value)? {
            self.level = level;
        }
        Ok(())
    }

    fn unknown(&mut self, key: &[u8], flags: u32, value: &Value) -> Result<(), Status> {
        if flags & constants::info_directives::INFO_REQD != 0 {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let key = Key::new(key).map_err(|_| Status::ERR_BAD_PARAM)?;
        self.rest.push(Info { key, flags, value: value.clone() });
        Ok(())
    }
}

fn truth(value: &Value) -> Result<bool, Status> {
    value.truth().ok_or(Status::ERR_BAD_PARAM)
}

/// Programs give numbers in whatever integer type they have.
fn number(value: &Value) -> Result<u32, Status> {
    value.as_u32().ok_or(Status::ERR_BAD_PARAM)
}

fn scope(value: &Value) -> Result<Scope, Status> {
    match value {
        Value::Scope(scope) => Ok(*scope),
        other => other.as_u16().and_then(|number| u8::try_from(number).ok()).map(Scope).ok_or(Status::ERR_BAD_PARAM),
    }
}

fn nspace(value: &Value) -> Result<Nspace, Status> {
    match value {
        Value::String(Some(text)) => Nspace::new(text).map_err(|_| Status::ERR_BAD_PARAM),
        Value::ProcNspace(nspace) => Ok(nspace.clone()),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were() {
        let info = vec![
            Info::new("site.hint", 7u32),
            Info::new(keys::OPTIONAL, true),
            Info::new(keys::NODE_INFO, true),
            Info::new(keys::TIMEOUT, Value::Int(3)),
            Info::new(keys::HOSTNAME, "node1"),
        ];
        let directives = Directives::parse(&info).unwrap();
        assert!(directives.optional && !directives.immediate);
        assert_eq!((directives.level, directives.timeout), (InfoLevel::Node, Some(3)));
        assert_eq!(directives.to_infos(), info);
    }

    #[test]
    fn a_lone_attribute_is_what_it_is_in_a_list() {
        let lone: Vec<_> =
            keys::all().filter_map(|(_, key, _)| Some((key, Directives::lone(key.as_bytes())?))).collect();
        assert_eq!(lone.len(), 9);
        for (key, directives) in lone {
            assert_eq!(Directives::parse(&[Info::new(key, true)]).as_ref(), Ok(directives), "{key}");
        }
    }

    #[test]
    fn an_attribute_without_a_type_is_true() {
        let with = |value| Directives::parse(&[Info { key: Key::new(keys::OPTIONAL).unwrap(), flags: 0, value }]);
        assert!(with(Value::Undef).unwrap().optional);
        assert!(!with(Value::Bool(false)).unwrap().optional);
        assert_eq!(with(Value::Timeval(crate::data::Timeval { sec: 0, usec: 0 })), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn what_is_required_and_unknown_is_refused() {
        let mut item = Info::new("site.hint", 7u32);
        assert!(Directives::parse(std::slice::from_ref(&item)).is_ok());
        item.flags = constants::info_directives::INFO_REQD;
        assert_eq!(Directives::parse(&[item]), Err(Status::ERR_NOT_SUPPORTED));
    }

    #[test]
    fn numbers_of_every_kind_are_taken_and_checked() {
        let timeout = |value| Directives::parse(&[Info::new(keys::TIMEOUT, value)]).map(|d| d.timeout);
        assert_eq!(timeout(Value::Uint64(5)), Ok(Some(5)));
        assert_eq!(timeout(Value::Size(1 << 40)), Err(Status::ERR_BAD_PARAM));
        assert_eq!(timeout(Value::string("5")), Err(Status::ERR_BAD_PARAM));
    }
}
