//! Process sets: names that the host gives to some processes.
//!
//! A set never changes. The processes of this node are told when there is a new one and when one is gone, and find
//! out about them by queries.
use std::collections::BTreeMap;

use super::ctx::Ctx;
use super::ctx::effect::Effect;
use super::ctx::event::{AfterRaise, Event, Origin};
use crate::data::{DataArray, DataRange, DataType, Info, Key, Nspace, Proc, Rank, Status, Text, Value, keys};

/// Room of the process sets, by their names.
#[derive(Debug, Default)]
pub struct ProcessSets(BTreeMap<Vec<u8>, Vec<Proc>>);

impl ProcessSets {
    /// Defines a set, and tells the processes here (`PROCESS_SET_DEFINE`).
    ///
    /// # Errors
    /// `ERR_EXISTS` for a name that is taken, `ERR_BAD_PARAM` for one that is none, or without members.
    pub fn define(&mut self, cx: &mut Ctx, name: Text, members: Vec<Proc>) -> Result<(), Status> {
        if name.as_bytes().is_empty() || name.as_bytes().contains(&b',') || members.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        if self.0.contains_key(name.as_bytes()) {
            return Err(Status::ERR_EXISTS);
        }
        let info = vec![
            Info::new(keys::PSET_NAME, Value::String(Some(name.clone()))),
            Info::new(keys::PSET_MEMBERS, list(&members)),
        ];
        self.0.insert(name.as_bytes().to_vec(), members);
        tell_all(cx, Status::PROCESS_SET_DEFINE, info);
        Ok(())
    }

    /// Forgets a set, and tells the processes here (`PROCESS_SET_DELETE`).
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` for a name that no set has.
    pub fn delete(&mut self, cx: &mut Ctx, name: Text) -> Result<(), Status> {
        self.0.remove(name.as_bytes()).ok_or(Status::ERR_NOT_FOUND)?;
        tell_all(cx, Status::PROCESS_SET_DELETE, vec![Info::new(keys::PSET_NAME, Value::String(Some(name)))]);
        Ok(())
    }

    /// The members of the set of that name.
    pub fn members(&self, name: &Nspace) -> Option<&[Proc]> {
        self.0.get(name.as_bytes()).map(Vec::as_slice)
    }

    /// The names of the sets that a process is in: as the host would give them with the key.
    pub fn of(&self, proc: &Proc, key: &Key) -> Option<Value> {
        if !proc.rank.is_process() {
            return None;
        }
        let has = |members: &[Proc]| members.iter().any(|member| member.matches(proc));
        let mut names = self.0.iter().filter(|(_, members)| has(members)).map(|(name, _)| Value::string(&name[..]));
        match key.as_str()? {
            keys::PSET_NAME => names.next(),
            keys::PSET_NAMES => {
                let names: Vec<Value> = names.collect();
                if names.is_empty() { None } else { DataArray::new(DataType::STRING, names).ok().map(Value::DataArray) }
            }
            _ => None,
        }
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the answer to a query for one of their keys; `set` is the one that the query names.
    /// Groups are listed as well.
    pub fn answer<'a>(
        &self,
        key: &str,
        set: Option<&Text>,
        groups: impl ExactSizeIterator<Item = &'a Nspace>,
    ) -> Option<Value> {
        let members_of = |set: &Text| self.0.get(set.as_bytes());
        match key {
            keys::QUERY_NUM_PSETS => Some(Value::Size((self.0.len() + groups.len()) as u64)),
            keys::QUERY_PSET_NAMES => {
                let groups = groups.map(|group| group.as_bytes());
                let names: Vec<&[u8]> = self.0.keys().map(|name| &name[..]).chain(groups).collect();
                // None is an answer, too, as it is with the number of them.
                Some(Value::string(names.join(&b',')))
            }
            keys::QUERY_PSET_MEMBERSHIP => set.and_then(members_of).map(|members| list(members)),
            _ => None,
        }
    }
}

fn list(members: &[Proc]) -> Value {
    Value::DataArray(DataArray::of(members.iter().cloned()))
}

/// Tells those who have registered for the event itself: to a default handler it would look like a failure, and some
/// programs end by it. The source is no process, as the host is none.
fn tell_all(cx: &mut Ctx, status: Status, mut info: Vec<Info>) {
    info.push(Info::new(keys::EVENT_NON_DEFAULT, true));
    let source = Proc::new(Nspace::new("").expect("a legal name"), Rank::UNDEF);
    let event = Event { status, source, range: DataRange::LOCAL, info, vote: None };
    cx.effect(Effect::Raise { event, origin: Origin::Library, then: AfterRaise::Nothing });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::InfoList;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::NoHost;

    fn name(name: &str) -> Text {
        Text::new(name).unwrap()
    }

    fn raised(test: &mut TestCtx) -> Vec<Status> {
        let code = |effect| match effect {
            Effect::Raise { event, .. } => {
                assert!(event.info.is_set(keys::EVENT_NON_DEFAULT), "no default handler hears of sets: {event:?}");
                assert_eq!(event.source, Proc::new(Nspace::new("").unwrap(), Rank::UNDEF), "the host is no process");
                event.status
            }
            other => panic!("{other:?}"),
        };
        test.effects().into_iter().map(code).collect()
    }

    #[test]
    fn a_set_is_defined_once_and_everybody_here_is_told_of_its_beginning_and_end() {
        let (mut test, mut sets) = (testing::ctx(NoHost), ProcessSets::default());
        let mut define = |test: &mut TestCtx, text| sets.define(&mut test.cx, name(text), vec![proc("job", 0)]);
        assert_eq!(define(&mut test, "a"), Ok(()));
        assert_eq!(define(&mut test, "a"), Err(Status::ERR_EXISTS));
        assert_eq!(define(&mut test, "a,b"), Err(Status::ERR_BAD_PARAM), "names stand in a list");
        assert_eq!(raised(&mut test), [Status::PROCESS_SET_DEFINE]);
        assert_eq!(sets.delete(&mut test.cx, name("a")), Ok(()));
        assert_eq!(sets.delete(&mut test.cx, name("a")), Err(Status::ERR_NOT_FOUND));
        assert_eq!(raised(&mut test), [Status::PROCESS_SET_DELETE]);
    }

    #[test]
    fn a_set_without_members_is_none() {
        let (mut test, mut sets) = (testing::ctx(NoHost), ProcessSets::default());
        assert_eq!(sets.define(&mut test.cx, name("a"), Vec::new()), Err(Status::ERR_BAD_PARAM));
        assert!(raised(&mut test).is_empty());
    }

    #[test]
    fn queries_find_sets_and_groups() {
        let (mut test, mut sets) = (testing::ctx(NoHost), ProcessSets::default());
        let group = Nspace::new("g").unwrap();
        sets.define(&mut test.cx, name("a"), vec![proc("job", 0), proc("job", 1)]).unwrap();
        let answer = |key, set: Option<&str>| sets.answer(key, set.map(name).as_ref(), [&group].into_iter());
        assert_eq!(answer(keys::QUERY_NUM_PSETS, None), Some(Value::Size(2)));
        assert_eq!(answer(keys::QUERY_PSET_NAMES, None), Some(Value::string("a,g")));
        let members = answer(keys::QUERY_PSET_MEMBERSHIP, Some("a")).unwrap();
        assert_eq!(members.as_procs(), Some(vec![proc("job", 0), proc("job", 1)]));
        assert_eq!(answer(keys::QUERY_PSET_MEMBERSHIP, Some("b")), None);
        sets.define(&mut test.cx, name("b"), vec![proc("job", 1)]).unwrap();
        let of = |rank, key: &str| sets.of(&proc("job", rank), &Key::new(key).unwrap());
        let names = DataArray::new(DataType::STRING, vec![Value::string("a"), Value::string("b")]).unwrap();
        assert_eq!(of(1, keys::PSET_NAMES), Some(names.into()));
        assert_eq!(of(1, keys::PSET_NAME), Some(Value::string("a")));
        assert_eq!((of(2, keys::PSET_NAME), of(1, keys::HOSTNAME)), (None, None));
        let whole = Proc::new(proc("job", 0).nspace, Rank::WILDCARD);
        assert_eq!(sets.of(&whole, &Key::new(keys::PSET_NAME).unwrap()), None);
    }
}
