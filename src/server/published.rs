//! Published data, for a host that keeps it itself: what processes publish for others to look up by a key alone.
//!
//! A host hands each `publish`, `lookup` and `unpublish` on to its [`PublishedData`] and tells it of ends: of a process
//! ([`process_ended`](PublishedData::process_ended)) and of a namespace ([`namespace_ended`](PublishedData::namespace_ended)). Data goes
//! when its persistence says so; a look-up that waits goes with the process that waits.
//!
//! Who sees what follows from three things: the user, because nobody finds data of another user who has not given him or his group
//! access (`PMIX_ACCESS_PERMISSIONS`); the range it was published with; and the range of the look-up, where that names one: among several
//! of one key, the one of that very range comes first. "This node" is whoever asks this store. Two of one key in one range cannot be told apart: the second is refused with `ERR_DUPLICATE_KEY`.
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::host::{Accepted, Answer, Completion, Published};
use crate::data::constants::persistence;
use crate::data::{DataArray, DataRange, Info, InfoList, Key, Nspace, Pdata, Proc, Status, Text, Value, keys};

/// Most bytes that a store keeps: of data, as [`Value::size`] counts them, and of what it has to know of them.
const MAX_BYTES: usize = 256 << 20;
/// Most look-ups that wait at a time.
const MAX_WAITING: usize = 65536;

/// The attributes of a publication that are not published with it.
const ABOUT: [&str; 9] = [
    keys::RANGE,
    keys::PERSISTENCE,
    keys::USERID,
    keys::GRPID,
    keys::TIMEOUT,
    keys::EVENT_CUSTOM_RANGE,
    keys::ACCESS_PERMISSIONS,
    keys::ACCESS_USERIDS,
    keys::ACCESS_GRPIDS,
];

/// A store of published data. Every method may be called from any thread.
///
/// ```
/// use instanton::data::{Info, Nspace, Proc, Rank, Status, Text};
/// use instanton::server::{Completion, Published, PublishedData};
/// let (store, publisher) = (PublishedData::default(), Proc::new(Nspace::new("job@1")?, Rank(0)));
/// assert_eq!(store.publish(&publisher, &[Info::new("port", "17")]), Ok(()));
/// assert_eq!(store.publish(&publisher, &[Info::new("port", "18")]), Err(Status::ERR_DUPLICATE_KEY));
/// let (asker, key) = (Proc::new(Nspace::new("job@2")?, Rank(3)), Text::new("port")?);
/// let show = Completion::new(|found: Result<Published, Status>| assert_eq!(found.unwrap().1[0].value, "17".into()));
/// assert!(store.lookup(&asker, &[key], &[], show).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct PublishedData(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Under one key, in the order in which they came.
    items: HashMap<Key, Vec<Item>>,
    /// What all items take.
    bytes: usize,
    waiting: Vec<Waiting>,
}

/// What lies under a key.
#[derive(Debug)]
struct Item {
    value: Value,
    publisher: Proc,
    user: Option<u32>,
    range: DataRange,
    audience: Arc<Audience>,
    persistence: u8,
}

/// Who may see what was published.
#[derive(Debug)]
struct Audience {
    /// For `RANGE_CUSTOM`, these processes.
    procs: Vec<Proc>,
    /// Besides its own user, these users and groups.
    users: Vec<u32>,
    groups: Vec<u32>,
}

/// A look-up.
#[derive(Debug)]
struct Question {
    asker: Proc,
    user: Option<u32>,
    group: Option<u32>,
    range: Option<DataRange>,
    /// None for what no key can be.
    keys: Vec<Option<Key>>,
    /// How many of the keys must be there before it is answered.
    enough: usize,
}

/// A look-up that waits for more data.
#[derive(Debug)]
struct Waiting {
    question: Question,
    until: Option<Instant>,
    done: Completion<Published>,
}

/// Look-ups that are over, to be completed when the lock is free.
type Answers = Vec<(Completion<Published>, Result<Published, Status>)>;

impl PublishedData {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes all of `info` that does not say how to publish ([`Host::publish`](super::Host::publish)): all of it, or nothing.
    /// The default range is `RANGE_SESSION`, the default persistence `PERSIST_APP`.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without data or with a range or persistence that is none; `ERR_DUPLICATE_KEY` for a key that is published in that
    /// range already; `ERR_OUT_OF_RESOURCE` when the store is full.
    pub fn publish(&self, publisher: &Proc, info: &[Info]) -> Result<(), Status> {
        let range = range_of(info)?.unwrap_or(DataRange::SESSION);
        let persistence = match info.find(keys::PERSISTENCE).map(|info| &info.value) {
            None | Some(Value::Persist(persistence::PERSIST_INVALID)) => persistence::PERSIST_APP,
            Some(Value::Persist(known)) if *known <= persistence::PERSIST_SESSION => *known,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        };
        let (user, audience) = (id_of(info, keys::USERID), Arc::new(Audience::read(range, info)?));
        let of = |info: &Info| Item {
            value: info.value.clone(),
            publisher: publisher.clone(),
            user,
            range,
            audience: audience.clone(),
            persistence,
        };
        let data = info.iter().filter(|info| !ABOUT.iter().any(|about| info.key == *about));
        let new: Vec<(Key, Item)> = data.map(|info| (info.key.clone(), of(info))).collect();
        if new.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let mut state = self.lock();
        let bytes = new.iter().map(|(key, item)| item.bytes(key)).fold(0, usize::saturating_add);
        if state.bytes.saturating_add(bytes) > MAX_BYTES {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let mut keys = HashSet::new();
        let is_taken =
            |key, item: &Item| state.items.get(key).into_iter().flatten().any(|other| other.is_in_the_way_of(item));
        if new.iter().any(|(key, item)| !keys.insert(key) || is_taken(key, item)) {
            return Err(Status::ERR_DUPLICATE_KEY);
        }
        state.bytes += bytes;
        for (key, item) in new {
            state.items.entry(key).or_default().push(item);
        }
        let answers = state.answers();
        drop(state);
        complete(answers);
        Ok(())
    }

    /// Looks keys up ([`Host::lookup`](super::Host::lookup)). With `PMIX_WAIT` it waits until so many of them are there (0: all), for ever or
    /// for `PMIX_TIMEOUT` seconds: see [`expire`](PublishedData::expire). Success is to find all of
    /// them, a partial one (`ERR_PARTIAL_SUCCESS`) to find some.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when none is there and none is waited for; `ERR_BAD_PARAM` for attributes of other types;
    /// `ERR_OUT_OF_RESOURCE` when too many wait. `done` is not called then.
    pub fn lookup(&self, asker: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        let wait = number(info, keys::WAIT)?;
        let timeout = number(info, keys::TIMEOUT)?.filter(|seconds| *seconds > 0);
        let enough = match wait {
            None => 1,
            Some(0) => keys.len(),
            Some(count) => count.min(keys.len()),
        };
        let keys = keys.iter().map(|key| Key::new(key.as_bytes()).ok()).collect();
        let (user, group) = (id_of(info, keys::USERID), id_of(info, keys::GRPID));
        let question = Question { asker: asker.clone(), user, group, range: range_of(info)?, keys, enough };
        let mut state = self.lock();
        if let Some(found) = state.answer(&question) {
            drop(state);
            done.complete(Ok(found));
            return Ok(Answer::Later);
        }
        if wait.is_none() {
            return Err(Status::ERR_NOT_FOUND);
        }
        if state.waiting.len() == MAX_WAITING {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let until = timeout.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds as u64)));
        state.waiting.push(Waiting { question, until, done });
        Ok(Answer::Later)
    }

    /// Takes back what `publisher` has published under `keys`, or all of it without keys
    /// ([`Host::unpublish`](super::Host::unpublish)); with `PMIX_RANGE`, only what has that range. What is not there is no error.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a range that is none.
    pub fn unpublish(&self, publisher: &Proc, keys: &[Text], info: &[Info]) -> Result<(), Status> {
        let range = range_of(info)?;
        let named: HashSet<&[u8]> = keys.iter().map(Text::as_bytes).collect();
        let is_named = |key: &Key| named.is_empty() || named.contains(key.as_bytes());
        self.lock().remove(|key, item| {
            item.publisher == *publisher && is_named(key) && range.is_none_or(|range| range == item.range)
        });
        Ok(())
    }

    /// A process has ended: what it published for as long as it lives goes, and nobody waits there any more.
    pub fn process_ended(&self, proc: &Proc) {
        let mut state = self.lock();
        state.remove(|_, item| item.persistence == persistence::PERSIST_PROC && item.publisher == *proc);
        state.waiting.retain(|waiting| waiting.question.asker != *proc);
    }

    /// A namespace has ended, and its applications with it.
    pub fn namespace_ended(&self, nspace: &Nspace) {
        let mut state = self.lock();
        let passing = [persistence::PERSIST_PROC, persistence::PERSIST_APP];
        state.remove(|_, item| passing.contains(&item.persistence) && item.publisher.nspace == *nspace);
        state.waiting.retain(|waiting| waiting.question.asker.nspace != *nspace);
    }

    /// When the next look-up has waited long enough: the host calls [`expire`](PublishedData::expire) then.
    pub fn deadline(&self) -> Option<Instant> {
        self.lock().waiting.iter().filter_map(|waiting| waiting.until).min()
    }

    /// Ends the look-ups that have waited long enough, with `ERR_TIMEOUT`.
    pub fn expire(&self, now: Instant) {
        let over = |waiting: &mut Waiting| waiting.until.is_some_and(|until| until <= now);
        let late: Vec<Waiting> = self.lock().waiting.extract_if(.., over).collect();
        complete(late.into_iter().map(|waiting| (waiting.done, Err(Status::ERR_TIMEOUT))).collect());
    }
}

fn complete(answers: Answers) {
    answers.into_iter().for_each(|(done, answer)| done.complete(answer));
}

impl State {
    /// The answer to a question, if there is enough; what is read once is gone then.
    fn answer(&mut self, question: &Question) -> Option<Published> {
        let places: Vec<(&Key, usize)> =
            question.keys.iter().flatten().filter_map(|key| Some((key, self.find(key, question)?))).collect();
        if places.is_empty() || places.len() < question.enough {
            return None;
        }
        let found = places.iter().map(|(key, at)| self.items[*key][*at].shown(key)).collect();
        let status = if places.len() < question.keys.len() { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        // A key that is asked for twice has one place.
        for (key, at) in places.into_iter().collect::<HashSet<_>>() {
            self.read(key, at);
        }
        Some((status, found))
    }

    /// What is read once is gone.
    fn read(&mut self, key: &Key, at: usize) {
        let Some(items) =
            self.items.get_mut(key).filter(|items| items[at].persistence == persistence::PERSIST_FIRST_READ)
        else {
            return;
        };
        self.bytes -= items.remove(at).bytes(key);
        if items.is_empty() {
            self.items.remove(key);
        }
    }

    fn find(&self, key: &Key, question: &Question) -> Option<usize> {
        let items = self.items.get(key)?;
        let exact = items.iter().position(|item| item.is_for(question) && Some(item.range) == question.range);
        exact.or_else(|| items.iter().position(|item| item.is_for(question)))
    }

    /// Which of those who wait have enough by now, the longest waiting first.
    fn answers(&mut self) -> Answers {
        let mut answers = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match self.answer(&waiting.question) {
                Some(found) => answers.push((waiting.done, Ok(found))),
                None => self.waiting.push(waiting),
            }
        }
        answers
    }

    fn remove(&mut self, mut gone: impl FnMut(&Key, &Item) -> bool) {
        let bytes = &mut self.bytes;
        self.items.retain(|key, items| {
            for item in items.extract_if(.., |item| gone(key, item)) {
                *bytes -= item.bytes(key);
            }
            !items.is_empty()
        });
    }
}

impl Item {
    /// What it takes. Whom it is for counts for each item, as long as it takes to look through.
    fn bytes(&self, key: &Key) -> usize {
        let Audience { procs, users, groups } = &*self.audience;
        let audience = size_of_val(&procs[..]) + size_of_val(&users[..]) + size_of_val(&groups[..]);
        size_of::<Self>() + key.len() + self.value.size() + audience
    }

    fn shown(&self, key: &Key) -> Pdata {
        Pdata { proc: self.publisher.clone(), key: key.clone(), value: self.value.clone() }
    }

    /// Whether both, of one key, are in one range for the same user.
    fn is_in_the_way_of(&self, other: &Item) -> bool {
        let same_place = match self.range {
            DataRange::NAMESPACE => self.publisher.nspace == other.publisher.nspace,
            DataRange::PROC_LOCAL => self.publisher == other.publisher,
            DataRange::CUSTOM => {
                let (ours, theirs) = (&self.audience.procs, &other.audience.procs);
                ours.iter().any(|one| theirs.iter().any(|it| it.matches(one)))
            }
            _ => true,
        };
        self.range == other.range && self.user == other.user && same_place
    }

    fn is_for(&self, question: &Question) -> bool {
        let asker = &question.asker;
        let within = match self.range {
            DataRange::NAMESPACE => asker.nspace == self.publisher.nspace,
            DataRange::PROC_LOCAL => *asker == self.publisher,
            DataRange::CUSTOM => self.audience.procs.iter().any(|one| one.matches(asker)),
            // For the host itself.
            DataRange::RM => false,
            _ => true,
        };
        let may = |ids: &[u32], id: Option<u32>| id.is_some_and(|id| ids.contains(&id));
        let Audience { users, groups, .. } = &*self.audience;
        within && (self.user == question.user || may(users, question.user) || may(groups, question.group))
    }
}

impl Audience {
    fn read(range: DataRange, info: &[Info]) -> Result<Self, Status> {
        let procs = match range {
            DataRange::CUSTOM => {
                let custom = info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs());
                custom.ok_or(Status::ERR_BAD_PARAM)?
            }
            _ => Vec::new(),
        };
        // The lists stand together in an array, or by themselves.
        let all = info.find(keys::ACCESS_PERMISSIONS).and_then(|info| info.value.as_array());
        let given: Vec<&Info> = all.into_iter().flat_map(DataArray::infos).chain(info).collect();
        let ids = |key: &str| -> Result<Vec<u32>, Status> {
            let lists = given.iter().filter(|info| info.key == *key).map(|info| info.value.as_array());
            let lists = lists.collect::<Option<Vec<_>>>().ok_or(Status::ERR_BAD_PARAM)?;
            let ids = lists.into_iter().flat_map(|list| list.items()).map(Value::as_u32);
            ids.collect::<Option<Vec<_>>>().ok_or(Status::ERR_BAD_PARAM)
        };
        Ok(Audience { procs, users: ids(keys::ACCESS_USERIDS)?, groups: ids(keys::ACCESS_GRPIDS)? })
    }
}

/// The range that attributes name.
fn range_of(info: &[Info]) -> Result<Option<DataRange>, Status> {
    match info.find(keys::RANGE).map(|info| &info.value) {
        None | Some(Value::DataRange(DataRange::UNDEF)) => Ok(None),
        Some(Value::DataRange(range)) if *range <= DataRange::PROC_LOCAL => Ok(Some(*range)),
        Some(_) => Err(Status::ERR_BAD_PARAM),
    }
}

/// The user or the group of who asks, as the server has signed it.
fn id_of(info: &[Info], key: &str) -> Option<u32> {
    info.find(key)?.value.as_u32()
}

/// A number that is not negative.
fn number(info: &[Info], key: &str) -> Result<Option<usize>, Status> {
    let Some(given) = info.find(key) else { return Ok(None) };
    // Present without a number, as `PMIX_WAIT` may be: it is wished for.
    let number = if given.is_true() && given.value.as_i64().is_none() { Some(0) } else { given.value.as_i64() };
    number.and_then(|number| usize::try_from(number).ok()).ok_or(Status::ERR_BAD_PARAM).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rank;
    use std::sync::mpsc::{Receiver, channel};

    fn proc(job: &str, rank: u32) -> Proc {
        Proc::new(Nspace::new(job).unwrap(), Rank(rank))
    }

    fn with_range(range: DataRange, mut info: Vec<Info>) -> Vec<Info> {
        info.push(Info::new(keys::RANGE, range));
        info
    }

    fn data(key: &str, value: &str) -> Vec<Info> {
        vec![Info::new(key, value)]
    }

    fn ask(
        store: &PublishedData,
        asker: &Proc,
        keys: &[&str],
        info: &[Info],
    ) -> (Accepted, Receiver<Result<Published, Status>>) {
        let (sender, receiver) = channel();
        let keys: Vec<Text> = keys.iter().map(|key| Text::new(key).unwrap()).collect();
        let accepted = store.lookup(asker, &keys, info, Completion::new(move |found| drop(sender.send(found))));
        (accepted, receiver)
    }

    /// The values found at once, by the key's order; the status says whether they are all.
    fn found(store: &PublishedData, asker: &Proc, keys: &[&str], info: &[Info]) -> Result<Vec<String>, Status> {
        let (accepted, answer) = ask(store, asker, keys, info);
        accepted?;
        let (status, data) = answer.try_recv().expect("an answer at once")?;
        let all = data.len() == keys.len();
        assert_eq!(status, if all { Status::SUCCESS } else { Status::ERR_PARTIAL_SUCCESS });
        Ok(data.into_iter().map(|one| one.value.as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn what_is_published_is_found_and_what_is_not_is_not() {
        let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 1));
        assert_eq!(found(&store, &b, &["k"], &[]), Err(Status::ERR_NOT_FOUND));
        store.publish(&a, &[data("k", "1"), data("l", "2")].concat()).unwrap();
        assert_eq!(found(&store, &b, &["l", "none", "k"], &[]), Ok(vec!["2".into(), "1".into()]));
        assert_eq!(store.publish(&a, &[]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(store.publish(&a, &[data("n", "1"), data("n", "2")].concat()), Err(Status::ERR_DUPLICATE_KEY));
        assert_eq!(store.publish(&b, &[data("n", "1"), data("k", "2")].concat()), Err(Status::ERR_DUPLICATE_KEY));
        assert_eq!(found(&store, &b, &["n"], &[]), Err(Status::ERR_NOT_FOUND), "all or nothing");
    }

    #[test]
    fn nobody_else_takes_it_back() {
        let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("a", 1));
        store.publish(&a, &[data("k", "1"), data("l", "2"), data("m", "3")].concat()).unwrap();
        let k = [Text::new("k").unwrap()];
        store.unpublish(&b, &k, &[]).unwrap();
        assert!(found(&store, &b, &["k"], &[]).is_ok());
        store.unpublish(&a, &k, &with_range(DataRange::NAMESPACE, vec![])).unwrap();
        assert!(found(&store, &b, &["k"], &[]).is_ok(), "it has another range");
        store.unpublish(&a, &k, &[]).unwrap();
        assert_eq!(found(&store, &b, &["k"], &[]), Err(Status::ERR_NOT_FOUND));
        store.unpublish(&a, &[], &[]).unwrap();
        assert_eq!(found(&store, &b, &["l", "m"], &[]), Err(Status::ERR_NOT_FOUND));
        assert_eq!(store.lock().bytes, 0);
    }

    #[test]
    fn a_range_says_who_finds_it() {
        let publisher = proc("a", 0);
        let listed = Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(DataArray::of([proc("b", 7)])));
        let askers = [publisher.clone(), proc("a", 1), proc("b", 7), proc("b", 8)];
        for (range, expected) in [
            (DataRange::RM, [false; 4]),
            (DataRange::LOCAL, [true; 4]),
            (DataRange::NAMESPACE, [true, true, false, false]),
            (DataRange::SESSION, [true; 4]),
            (DataRange::GLOBAL, [true; 4]),
            (DataRange::CUSTOM, [false, false, true, false]),
            (DataRange::PROC_LOCAL, [true, false, false, false]),
        ] {
            let store = PublishedData::default();
            let info = with_range(range, [data("k", "1"), vec![listed.clone()]].concat());
            store.publish(&publisher, &info).unwrap();
            let sees = askers.each_ref().map(|asker| found(&store, asker, &["k"], &[]).is_ok());
            assert_eq!(sees, expected, "{range:?}");
        }
    }

    #[test]
    fn one_key_may_be_there_once_in_each_range() {
        let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
        let of = |range, value| with_range(range, data("k", value));
        store.publish(&a, &of(DataRange::NAMESPACE, "a's")).unwrap();
        store.publish(&b, &of(DataRange::NAMESPACE, "b's")).unwrap();
        store.publish(&b, &of(DataRange::GLOBAL, "all's")).unwrap();
        assert_eq!(store.publish(&a, &of(DataRange::GLOBAL, "x")), Err(Status::ERR_DUPLICATE_KEY));
        let look = |asker, range| found(&store, asker, &["k"], &with_range(range, vec![])).unwrap();
        assert_eq!(look(&a, DataRange::NAMESPACE), ["a's"]);
        assert_eq!(look(&b, DataRange::NAMESPACE), ["b's"]);
        assert_eq!(look(&a, DataRange::GLOBAL), ["all's"]);
    }

    #[test]
    fn very_much_is_published_in_little_time_and_found_again() {
        let (store, a) = (PublishedData::default(), proc("a", 0));
        let name = |number: u32| format!("k{number}");
        let many: Vec<Info> = (0..100_000).map(|number| Info::new(name(number).as_str(), number)).collect();
        store.publish(&a, &many).unwrap();
        assert_eq!(store.publish(&a, &many[50_000..50_001]), Err(Status::ERR_DUPLICATE_KEY));
        let (_, last) = ask(&store, &a, &["k99999", "none"], &[]);
        assert_eq!(last.recv().unwrap().unwrap().1[0].value, Value::from(99_999u32));
        store.process_ended(&a);
        store.namespace_ended(&a.nspace);
        assert_eq!(store.lock().bytes, 0);
    }

    #[test]
    fn what_is_known_of_data_takes_room_as_well() {
        let (store, a) = (PublishedData::default(), proc("a", 0));
        let audience = Value::DataArray(DataArray::of((0..10_000).map(|rank| proc("b", rank))));
        let listed = Info::new(keys::EVENT_CUSTOM_RANGE, audience);
        let publish = |keys: std::ops::Range<u32>| {
            let data = keys.map(|number| Info::new(format!("k{number}").as_str(), number)).chain([listed.clone()]);
            store.publish(&a, &with_range(DataRange::CUSTOM, data.collect()))
        };
        assert_eq!(publish(0..100), Ok(()));
        assert!(store.lock().bytes > 100 * 10_000 * size_of::<Proc>());
        assert_eq!(publish(100..5_000), Err(Status::ERR_OUT_OF_RESOURCE));
        let (_, last) = ask(&store, &proc("b", 9_999), &["k99"], &[]);
        assert_eq!(last.recv().unwrap().unwrap().1.len(), 1);
    }

    #[test]
    fn another_user_finds_nothing_and_is_in_nobodys_way() {
        let (store, a) = (PublishedData::default(), proc("a", 0));
        let user = |id: u32| Info::new(keys::USERID, id);
        store.publish(&a, &[data("k", "1"), vec![user(1)]].concat()).unwrap();
        assert_eq!(found(&store, &a, &["k"], &[user(2)]), Err(Status::ERR_NOT_FOUND));
        store.publish(&a, &[data("k", "2"), vec![user(2)]].concat()).unwrap();
        assert_eq!(found(&store, &a, &["k"], &[user(1)]).unwrap(), ["1"]);
    }

    #[test]
    fn other_users_find_what_they_are_given_access_to() {
        let (store, a) = (PublishedData::default(), proc("a", 0));
        let of = |user: u32, group: u32| [Info::new(keys::USERID, user), Info::new(keys::GRPID, group)];
        let list = |key: &str, ids: &[u32]| Info::new(key, Value::DataArray(DataArray::of(ids.iter().copied())));
        let publish = |key: &str, how: Info| store.publish(&a, &[&data(key, key)[..], &of(1, 10), &[how]].concat());
        let all = Value::infos(vec![list(keys::ACCESS_USERIDS, &[2, 3]), list(keys::ACCESS_GRPIDS, &[40])]);
        publish("both", Info::new(keys::ACCESS_PERMISSIONS, all)).unwrap();
        publish("user", list(keys::ACCESS_USERIDS, &[2])).unwrap();
        publish("group", list(keys::ACCESS_GRPIDS, &[40])).unwrap();
        let sees = |user, group| {
            let keys = ["both", "user", "group", keys::ACCESS_USERIDS];
            found(&store, &a, &keys, &of(user, group)).unwrap_or_default().join(" ")
        };
        let seen = [sees(1, 10), sees(2, 20), sees(3, 30), sees(4, 40), sees(4, 10)];
        assert_eq!(seen, ["both user group", "both user", "both", "both group", ""]);
        let nonsense = Info::new(keys::ACCESS_USERIDS, "root");
        assert_eq!(publish("nonsense", nonsense), Err(Status::ERR_BAD_PARAM));
    }

    #[test]
    fn what_is_published_without_directives_is_for_everybody_until_its_application_ends() {
        let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
        store.publish(&a, &data("k", "1")).unwrap();
        store.process_ended(&a);
        assert_eq!(found(&store, &b, &["k"], &[]).unwrap(), ["1"]);
        store.namespace_ended(&a.nspace);
        assert_eq!(found(&store, &b, &["k"], &[]), Err(Status::ERR_NOT_FOUND));
    }

    #[test]
    fn data_goes_when_its_persistence_says_so() {
        let store = PublishedData::default();
        let (a, b, other) = (proc("a", 0), proc("a", 1), proc("b", 0));
        let publish = |key: &str, persistence| {
            let how = Info::new(keys::PERSISTENCE, Value::Persist(persistence));
            store.publish(&a, &[data(key, key), vec![how]].concat()).unwrap();
        };
        publish("once", persistence::PERSIST_FIRST_READ);
        publish("proc", persistence::PERSIST_PROC);
        publish("app", persistence::PERSIST_APP);
        publish("session", persistence::PERSIST_SESSION);
        publish("ever", persistence::PERSIST_INDEF);
        let all = ["once", "proc", "app", "session", "ever"];
        assert_eq!(found(&store, &other, &all, &[]).unwrap(), all);
        assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[1..]);
        store.process_ended(&b);
        assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[1..]);
        store.process_ended(&a);
        assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[2..]);
        store.namespace_ended(&a.nspace);
        assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[3..]);
    }

    #[test]
    fn who_waits_is_answered_when_there_is_enough() {
        let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
        let wait = |count: i32| vec![Info::new(keys::WAIT, count)];
        let (_, one) = ask(&store, &b, &["k", "l"], &wait(1));
        let (_, all) = ask(&store, &b, &["k", "l"], &wait(0));
        store.publish(&a, &data("l", "2")).unwrap();
        let (status, found) = one.try_recv().unwrap().unwrap();
        assert_eq!((status, found.len()), (Status::ERR_PARTIAL_SUCCESS, 1), "not all of what was asked for");
        assert!(all.try_recv().is_err());
        store.publish(&a, &data("k", "1")).unwrap();
        let (status, found) = all.try_recv().unwrap().unwrap();
        assert_eq!((status, found.len()), (Status::SUCCESS, 2));
        assert!(store.lock().waiting.is_empty());
    }

    #[test]
    fn who_waits_too_long_or_dies_waits_no_more() {
        let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
        let limit = |seconds: i32| vec![Info::new(keys::WAIT, 1), Info::new(keys::TIMEOUT, seconds)];
        let (_, short) = ask(&store, &a, &["k"], &limit(1));
        let (_, long) = ask(&store, &b, &["k"], &limit(1000));
        let (_, ever) = ask(&store, &b, &["k"], &limit(0));
        store.expire(store.deadline().unwrap());
        assert_eq!(short.try_recv().unwrap().unwrap_err(), Status::ERR_TIMEOUT);
        store.process_ended(&b);
        assert!(long.recv().is_err() && ever.recv().is_err(), "the way back is dropped");
        assert_eq!(store.deadline(), None);
    }
}
