//! Event handlers: who is called for what, and in which order.
//!
//! Handlers form one list in the order of the Standard: the FIRST one, those for a single code, those for several
//! codes, those for every event (default handlers), the LAST one. Within a category a handler goes to the end
//! unless it asks for another place. A handler that is being registered has its place already but is not called
//! until the server knows of it.
//!
//! An event that no handler wants is kept for a while ([`Backlog`]), and is for the first one registered that does.
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::data::{DataRange, Info, InfoList, Key, Proc, Status, Text, Value, WATCH, keys};
use crate::message::backlog::Backlog;

use super::{Handler, Notice};

/// An event as it is delivered.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) status: Status,
    pub(super) source: Proc,
    pub(super) info: Vec<Info>,
    /// Number of the vote that its handlers take part in.
    pub(super) vote: Option<u64>,
    /// True if its source is not known to run on another node.
    pub(super) is_near: bool,
}

impl Event {
    pub(super) fn new(status: Status, source: Proc, info: Vec<Info>) -> Self {
        Event { status, source, info, vote: None, is_near: true }
    }

    fn skips_default_handlers(&self) -> bool {
        self.info.is_set(keys::EVENT_NON_DEFAULT)
    }

    fn affected(&self) -> Vec<Proc> {
        affected(&self.info)
    }
}

/// The handlers of a client.
#[derive(Default)]
pub(super) struct Handlers(Mutex<Registry>);

#[derive(Default)]
struct Registry {
    last_id: usize,
    /// In the order in which they are called.
    list: Vec<Entry>,
    /// Events that no handler has wanted.
    unwanted: Backlog<Event>,
}

struct Entry {
    id: usize,
    active: bool,
    place: Place,
    order: Order,
    name: Option<Text>,
    codes: Vec<Status>,
    source: Source,
    affected: Vec<Proc>,
    return_object: Option<Value>,
    once: bool,
    handler: Handler,
}

/// Place of a handler in the order of calls: categories, and within one the pinned ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    First,
    In(Category, Pin),
    Last,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    SingleCode,
    MultiCode,
    Default,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pin {
    Front,
    No,
    Back,
}

/// Source of the events that a handler wants.
enum Source {
    Any,
    /// The resource manager, which is no process.
    Manager,
    Own,
    Node,
    Namespace,
    Listed(Vec<Proc>),
}

/// Place that a handler asks for among those of its [`Place`].
enum Order {
    Append,
    Prepend,
    Before(Text),
    After(Text),
}

/// A handler that is called for an event.
#[derive(Clone)]
pub(super) struct Called {
    pub(super) id: usize,
    /// True if the handler wants no other event after this one.
    pub(super) once: bool,
    name: Option<Text>,
    return_object: Option<Value>,
    handler: Handler,
}

impl Called {
    /// The key under which later handlers see this one's status.
    pub(super) fn result_key(&self) -> Key {
        let name = self.name.as_ref().and_then(|name| Key::new(name).ok());
        name.unwrap_or_else(|| Key::new("unnamed").expect("a legal key"))
    }

    /// Returns the function to be called, and what it is told.
    pub(super) fn notice(&self, event: &Event, results: &[Info]) -> (Handler, Notice) {
        let mut info = event.info.clone();
        info.extend(self.name.clone().map(|name| Info::new(keys::EVENT_HDLR_NAME, name)));
        info.extend(self.return_object.clone().map(|object| Info::new(keys::EVENT_RETURN_OBJECT, object)));
        let (status, source) = (event.status, event.source.clone());
        (self.handler.clone(), Notice { handler: self.id, status, source, info, results: results.to_vec() })
    }
}

impl Handlers {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a handler its number and its place. Also says which of its codes nobody has registered yet: none of them
    /// when it is not the first for any, an empty list for the first default handler.
    pub(super) fn add(
        &self,
        codes: &[Status],
        info: &[Info],
        handler: Handler,
    ) -> Result<(usize, Option<Vec<Status>>), Status> {
        let mut entry = parse(codes, info, handler)?;
        let mut registry = self.lock();
        let exclusive = !matches!(entry.place, Place::In(_, Pin::No));
        if exclusive && registry.list.iter().any(|other| other.contends(&entry)) {
            return Err(Status::ERR_EVENT_REGISTRATION);
        }
        let news = registry.unknown(&entry.codes);
        registry.last_id += 1;
        entry.id = registry.last_id - 1;
        let id = entry.id;
        registry.insert(entry);
        Ok((id, news))
    }

    /// From now on it is called. Returns the events that have come before and nobody else has wanted, with the handler.
    pub(super) fn activate(&self, id: usize, me: &Proc) -> Vec<(Event, Called)> {
        let mut registry = self.lock();
        let Registry { list, unwanted, .. } = &mut *registry;
        let Some(entry) = list.iter_mut().find(|entry| entry.id == id) else { return Vec::new() };
        entry.active = true;
        let missed = unwanted.take(Instant::now(), |event| entry.wants(event, me));
        missed.into_iter().map(|event| (event, entry.called())).collect()
    }

    /// Takes a handler away, and says which of its codes nobody has registered any more, as [`Handlers::add`] does.
    pub(super) fn remove(&self, id: usize) -> Result<Option<Vec<Status>>, Status> {
        let mut registry = self.lock();
        let at = registry.list.iter().position(|entry| entry.id == id).ok_or(Status::ERR_BAD_PARAM)?;
        let entry = registry.list.remove(at);
        Ok(registry.unknown(&entry.codes))
    }

    /// Returns the registrations that all handlers together need: of codes, and of every event.
    pub(super) fn wanted(&self) -> Vec<Vec<Status>> {
        let registry = self.lock();
        let mut codes: Vec<Status> = registry.list.iter().flat_map(|entry| entry.codes.iter().copied()).collect();
        codes.sort_unstable_by_key(|code| code.0);
        codes.dedup();
        let all = registry.list.iter().any(|entry| entry.codes.is_empty()).then(Vec::new);
        Some(codes).filter(|codes| !codes.is_empty()).into_iter().chain(all).collect()
    }

    /// Returns whether a handler is still there.
    pub(super) fn has(&self, id: usize) -> bool {
        self.lock().list.iter().any(|entry| entry.id == id)
    }

    /// The handlers to be called for an event, in order; where there is none, it is kept. `is_near` is called only for
    /// those that want to know whether its source is near.
    pub(super) fn matching<N: FnOnce(&Proc) -> bool>(
        &self,
        event: &mut Event,
        me: &Proc,
        is_near: N,
    ) -> impl Iterator<Item = Called> + use<N> {
        let mut registry = self.lock();
        let mut is_near = Some(is_near);
        let mut look =
            |event: &mut Event| is_near.take().into_iter().for_each(|near| event.is_near = near(&event.source));
        if registry.list.iter().any(|entry| matches!(entry.source, Source::Node)) {
            look(event);
        }
        let wanted = registry.list.iter().filter(|entry| entry.wants(event, me));
        let called: Vec<_> = wanted.map(Entry::called).collect();
        if called.is_empty() && !event.info.is_set(keys::EVENT_DO_NOT_CACHE) {
            look(event);
            registry.keep(event);
        }
        called.into_iter()
    }

    /// Keeps an event for the next handler that is registered for it, unless it is kept already.
    pub(super) fn keep(&self, event: &Event) {
        let mut registry = self.lock();
        let is_same =
            |kept: &Event| kept.status == event.status && kept.source == event.source && kept.info == event.info;
        registry.unwanted.take(Instant::now(), is_same);
        registry.keep(event);
    }
}

impl Registry {
    /// Keeps an event that no handler has wanted.
    fn keep(&mut self, event: &Event) {
        self.unwanted.keep(event.clone(), &event.source, &event.info, Instant::now());
    }

    /// Returns those of these codes that no handler has.
    fn unknown(&self, codes: &[Status]) -> Option<Vec<Status>> {
        if codes.is_empty() {
            return (!self.list.iter().any(|entry| entry.codes.is_empty())).then(Vec::new);
        }
        let known = |code: &&Status| self.list.iter().any(|entry| entry.codes.contains(code));
        let news: Vec<Status> = codes.iter().filter(|code| !known(code)).copied().collect();
        (!news.is_empty()).then_some(news)
    }

    /// Gives a handler its place, and then those that are to come before or after it.
    fn insert(&mut self, entry: Entry) {
        let (mut todo, mut moved) = (vec![entry], Vec::new());
        while let Some(entry) = todo.pop() {
            moved.push(entry.id);
            let is_bound = |other: &mut Entry| {
                let name = match &other.order {
                    Order::Before(name) | Order::After(name) => Some(name),
                    Order::Append | Order::Prepend => None,
                };
                name.is_some()
                    && name == entry.name.as_ref()
                    && other.place == entry.place
                    && !moved.contains(&other.id)
            };
            todo.extend(self.list.extract_if(.., is_bound));
            let at = self.position(entry.place, &entry.order);
            self.list.insert(at, entry);
        }
    }

    fn position(&self, place: Place, order: &Order) -> usize {
        let (from, to) = (
            self.list.partition_point(|entry| entry.place < place),
            self.list.partition_point(|entry| entry.place <= place),
        );
        // A name that is not in the chain gives no order.
        let named = |name: &Text| (from..to).find(|at| self.list[*at].name.as_ref() == Some(name));
        match order {
            Order::Append => to,
            Order::Prepend => from,
            Order::Before(name) => named(name).unwrap_or(to),
            Order::After(name) => named(name).map_or(to, |at| at + 1),
        }
    }
}

impl Entry {
    fn called(&self) -> Called {
        Called {
            id: self.id,
            once: self.once,
            name: self.name.clone(),
            return_object: self.return_object.clone(),
            handler: self.handler.clone(),
        }
    }

    /// Returns whether both can be in one chain and want the same place there, which one alone can have.
    fn contends(&self, other: &Entry) -> bool {
        let shares = || self.codes.is_empty() || self.codes.iter().any(|code| other.codes.contains(code));
        self.place == other.place && (!matches!(self.place, Place::In(..)) || shares())
    }

    fn wants(&self, event: &Event, me: &Proc) -> bool {
        let code = match self.codes.is_empty() {
            true => !event.skips_default_handlers(),
            false => self.codes.contains(&event.status),
        };
        let source = match &self.source {
            Source::Any => true,
            Source::Manager => event.source.nspace.is_empty(),
            Source::Own => event.source == *me,
            Source::Node => event.is_near,
            Source::Namespace => event.source.nspace == me.nspace,
            Source::Listed(procs) => procs.iter().any(|proc| proc.matches(&event.source)),
        };
        self.active && code && source && (self.affected.is_empty() || self.wants_affected(&event.affected()))
    }

    /// An event that does not say whom it affects may affect anybody.
    fn wants_affected(&self, affected: &[Proc]) -> bool {
        affected.is_empty() || affected.iter().any(|proc| self.affected.iter().any(|mine| mine.matches(proc)))
    }
}

fn affected(info: &[Info]) -> Vec<Proc> {
    [procs_of(info, keys::EVENT_AFFECTED_PROC), procs_of(info, keys::EVENT_AFFECTED_PROCS)].concat()
}

/// The processes that an attribute names.
pub(super) fn procs_of(info: &[Info], key: &str) -> Vec<Proc> {
    info.find(key).and_then(|item| item.value.as_procs()).unwrap_or_default()
}

/// Reads the directives of a registration.
fn parse(codes: &[Status], info: &[Info], handler: Handler) -> Result<Entry, Status> {
    if let Some(unknown) = info.iter().find(|item| keys::name_of(&item.key).is_none() && item.key != WATCH) {
        crate::trace!("{:?} is no directive for an event handler", unknown.key);
        return Err(Status::ERR_BAD_PARAM);
    }
    let text = |key| info.find(key).and_then(|item| item.value.as_text()).cloned();
    let category = match codes {
        [] => Category::Default,
        [_] => Category::SingleCode,
        _ => Category::MultiCode,
    };
    let place = match () {
        () if info.is_set(keys::EVENT_HDLR_FIRST) => Place::First,
        () if info.is_set(keys::EVENT_HDLR_LAST) => Place::Last,
        () if info.is_set(keys::EVENT_HDLR_FIRST_IN_CATEGORY) => Place::In(category, Pin::Front),
        () if info.is_set(keys::EVENT_HDLR_LAST_IN_CATEGORY) => Place::In(category, Pin::Back),
        () => Place::In(category, Pin::No),
    };
    let order = match (text(keys::EVENT_HDLR_BEFORE), text(keys::EVENT_HDLR_AFTER)) {
        (Some(name), _) => Order::Before(name),
        (None, Some(name)) => Order::After(name),
        (None, None) if info.is_set(keys::EVENT_HDLR_PREPEND) => Order::Prepend,
        (None, None) => Order::Append,
    };
    let source = match info.find(keys::RANGE).map(|item| &item.value) {
        None => Source::Any,
        Some(Value::DataRange(range)) => match *range {
            DataRange::UNDEF | DataRange::SESSION | DataRange::GLOBAL => Source::Any,
            DataRange::RM => Source::Manager,
            DataRange::PROC_LOCAL => Source::Own,
            DataRange::LOCAL => Source::Node,
            DataRange::NAMESPACE => Source::Namespace,
            DataRange::CUSTOM => Source::Listed(procs_of(info, keys::EVENT_CUSTOM_RANGE)),
            _ => return Err(Status::ERR_BAD_PARAM),
        },
        Some(_) => return Err(Status::ERR_BAD_PARAM),
    };
    Ok(Entry {
        id: 0,
        active: false,
        place,
        order,
        name: text(keys::EVENT_HDLR_NAME),
        codes: codes.to_vec(),
        source,
        affected: affected(info),
        return_object: info.find(keys::EVENT_RETURN_OBJECT).map(|item| item.value.clone()),
        once: info.is_set(keys::EVENT_ONESHOT),
        handler,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Rank};
    use std::sync::Arc;

    const A: Status = Status(-7001);
    const B: Status = Status(-7002);

    fn proc(nspace: &str, rank: u32) -> Proc {
        Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
    }

    fn add(handlers: &Handlers, codes: &[Status], name: &str, mut info: Vec<Info>) -> Result<usize, Status> {
        info.push(Info::new(keys::EVENT_HDLR_NAME, name));
        let (id, _) = handlers.add(codes, &info, Arc::new(|_, _| {}))?;
        handlers.activate(id, &proc("job", 0));
        Ok(id)
    }

    fn names(handlers: &Handlers, status: Status, source: &Proc, info: Vec<Info>) -> String {
        let mut event = Event::new(status, source.clone(), info);
        let called = handlers.matching(&mut event, &proc("job", 0), |_| true);
        called.map(|called| called.name.unwrap().to_string()).collect::<Vec<_>>().join(" ")
    }

    fn set(key: &str) -> Vec<Info> {
        vec![Info::new(key, true)]
    }

    #[test]
    fn handlers_are_called_by_category_and_in_the_order_they_asked_for() {
        let handlers = Handlers::default();
        let named = |key: &str, name: &str| vec![Info::new(key, name)];
        add(&handlers, &[], "last", set(keys::EVENT_HDLR_LAST)).unwrap();
        add(&handlers, &[], "default", vec![]).unwrap();
        add(&handlers, &[A, B], "multi", vec![]).unwrap();
        add(&handlers, &[A], "one", vec![]).unwrap();
        add(&handlers, &[A], "front", set(keys::EVENT_HDLR_FIRST_IN_CATEGORY)).unwrap();
        add(&handlers, &[A], "back", set(keys::EVENT_HDLR_LAST_IN_CATEGORY)).unwrap();
        add(&handlers, &[A], "before", named(keys::EVENT_HDLR_BEFORE, "one")).unwrap();
        add(&handlers, &[A], "after", named(keys::EVENT_HDLR_AFTER, "one")).unwrap();
        add(&handlers, &[A], "prepended", set(keys::EVENT_HDLR_PREPEND)).unwrap();
        add(&handlers, &[A], "nowhere", named(keys::EVENT_HDLR_BEFORE, "multi")).unwrap();
        add(&handlers, &[B], "other", vec![]).unwrap();
        add(&handlers, &[A], "first", set(keys::EVENT_HDLR_FIRST)).unwrap();
        assert_eq!(
            names(&handlers, A, &proc("job", 1), vec![]),
            "first front prepended before one after nowhere back multi default last"
        );
        let quiet = set(keys::EVENT_NON_DEFAULT);
        assert_eq!(names(&handlers, B, &proc("job", 1), quiet), "other multi");
    }

    #[test]
    fn there_is_one_first_and_one_last() {
        let handlers = Handlers::default();
        let first = add(&handlers, &[A], "a", set(keys::EVENT_HDLR_FIRST)).unwrap();
        let again = || add(&handlers, &[B], "b", set(keys::EVENT_HDLR_FIRST));
        assert_eq!(again(), Err(Status::ERR_EVENT_REGISTRATION));
        handlers.remove(first).unwrap();
        assert!(again().is_ok());
        assert_eq!(handlers.remove(first), Err(Status::ERR_BAD_PARAM));
        // An attribute that hosts are told with an event is no obstacle to a registration.
        for key in [
            keys::EVENT_TERMINATE_SESSION,
            keys::EVENT_TERMINATE_JOB,
            keys::EVENT_TERMINATE_NODE,
            keys::EVENT_TERMINATE_PROC,
            keys::EVENT_SILENT_TERMINATION,
        ] {
            assert!(add(&handlers, &[A], key, set(key)).is_ok());
        }
        assert_eq!(add(&handlers, &[A], "c", vec![Info::new("site.hint", true)]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn who_comes_before_or_after_somebody_does_so_whoever_is_registered_first() {
        let named = |key: &str, name: &str| vec![Info::new(key, name)];
        let handlers = Handlers::default();
        add(&handlers, &[A], "z", named(keys::EVENT_HDLR_AFTER, "x")).unwrap();
        add(&handlers, &[A], "w", named(keys::EVENT_HDLR_BEFORE, "y")).unwrap();
        add(&handlers, &[A], "o", vec![]).unwrap();
        add(&handlers, &[A], "y", named(keys::EVENT_HDLR_BEFORE, "x")).unwrap();
        add(&handlers, &[A], "x", vec![]).unwrap();
        assert_eq!(names(&handlers, A, &proc("job", 1), vec![]), "o w y x z");
        // Of two that are each to be before the other, the first one is.
        let handlers = Handlers::default();
        add(&handlers, &[A], "a", named(keys::EVENT_HDLR_BEFORE, "b")).unwrap();
        add(&handlers, &[A], "b", named(keys::EVENT_HDLR_BEFORE, "a")).unwrap();
        assert_eq!(names(&handlers, A, &proc("job", 1), vec![]), "a b");
    }

    #[test]
    fn the_ends_of_a_category_belong_to_one_handler_of_each_event() {
        for key in [keys::EVENT_HDLR_FIRST_IN_CATEGORY, keys::EVENT_HDLR_LAST_IN_CATEGORY] {
            let handlers = Handlers::default();
            let taken = Err(Status::ERR_EVENT_REGISTRATION);
            assert!(add(&handlers, &[A], "a", set(key)).is_ok() && add(&handlers, &[B], "b", set(key)).is_ok());
            assert_eq!(add(&handlers, &[B], "c", set(key)), taken);
            assert!(add(&handlers, &[A, B], "d", set(key)).is_ok() && add(&handlers, &[], "e", set(key)).is_ok());
            assert_eq!((add(&handlers, &[B, A], "f", set(key)), add(&handlers, &[], "g", set(key))), (taken, taken));
        }
    }

    #[test]
    fn the_manager_is_nobodys_process_and_a_range_that_is_none_is_refused() {
        let handlers = Handlers::default();
        let range = |range: u8| vec![Info::new(keys::RANGE, DataRange(range))];
        add(&handlers, &[A], "manager", range(DataRange::RM.0)).unwrap();
        add(&handlers, &[A], "any", range(DataRange::GLOBAL.0)).unwrap();
        assert_eq!(names(&handlers, A, &proc("job", 1), vec![]), "any");
        assert_eq!(names(&handlers, A, &Proc::new(Nspace::new("").unwrap(), Rank::UNDEF), vec![]), "manager any");
        assert_eq!(add(&handlers, &[A], "none", range(99)), Err(Status::ERR_BAD_PARAM));
        assert_eq!(add(&handlers, &[A], "text", vec![Info::new(keys::RANGE, "far")]), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn the_server_is_told_of_a_code_once() {
        let handlers = Handlers::default();
        let add = |codes: &[Status]| handlers.add(codes, &[], Arc::new(|_, _| {})).unwrap();
        let (first, news) = add(&[A]);
        assert_eq!(news, Some(vec![A]));
        let (second, news) = add(&[A, B]);
        assert_eq!(news, Some(vec![B]));
        let (default, news) = add(&[]);
        assert_eq!(news, Some(vec![]));
        assert_eq!(add(&[]).1, None);
        assert_eq!((handlers.remove(default), handlers.remove(first)), (Ok(None), Ok(None)));
        assert_eq!(handlers.remove(second), Ok(Some(vec![A, B])));
    }

    #[test]
    fn an_event_that_nobody_wanted_waits_for_one_who_does() {
        let (handlers, me) = (Handlers::default(), proc("job", 0));
        let raise = |status, info: Vec<Info>| {
            handlers.matching(&mut Event::new(status, me.clone(), info), &me, |_| true).count()
        };
        raise(A, vec![Info::new("n", 1u32)]);
        raise(B, set(keys::EVENT_DO_NOT_CACHE));
        raise(A, set(keys::EVENT_NON_DEFAULT));
        let late = |codes: &[Status]| {
            let (id, _) = handlers.add(codes, &[], Arc::new(|_, _| {})).unwrap();
            handlers.activate(id, &me).len()
        };
        assert_eq!(late(&[]), 1, "a default handler, and the event that is for those");
        assert_eq!(late(&[B]), 0);
        assert_eq!(late(&[A]), 1, "what was delivered is not kept");
        assert_eq!(late(&[A]), 0);
        assert_eq!(raise(A, vec![]), 3);
    }

    #[test]
    fn a_handler_is_called_for_the_sources_and_the_affected_it_named() {
        let handlers = Handlers::default();
        let range = |range| Info::new(keys::RANGE, range);
        let procs = |list: Vec<Proc>| Value::DataArray(crate::data::DataArray::of(list));
        add(&handlers, &[A], "own", vec![range(DataRange::PROC_LOCAL)]).unwrap();
        add(&handlers, &[A], "job", vec![range(DataRange::NAMESPACE)]).unwrap();
        let listed = Info::new(keys::EVENT_CUSTOM_RANGE, procs(vec![proc("other", u32::MAX - 1)]));
        add(&handlers, &[A], "listed", vec![range(DataRange::CUSTOM), listed]).unwrap();
        add(&handlers, &[A], "hurt", vec![Info::new(keys::EVENT_AFFECTED_PROC, proc("job", 5))]).unwrap();
        assert_eq!(names(&handlers, A, &proc("job", 0), vec![]), "own job hurt");
        assert_eq!(names(&handlers, A, &proc("job", 1), vec![]), "job hurt");
        assert_eq!(names(&handlers, A, &proc("other", 3), vec![]), "listed hurt");
        let hurt = |rank| vec![Info::new(keys::EVENT_AFFECTED_PROCS, procs(vec![proc("job", rank)]))];
        assert_eq!(names(&handlers, A, &proc("job", 1), hurt(5)), "job hurt");
        assert_eq!(names(&handlers, A, &proc("job", 1), hurt(6)), "job");
    }
}
