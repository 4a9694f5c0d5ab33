//! Variables of an environment, as the changes of a job leave them.
//!
//! A job's changes are gone through once. Each of its processes then gets each variable once, however often it was
//! changed.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::EnvSink;
use super::changes::Change;
use crate::data::{Info, Status};
use crate::trace;

/// Most changes of the environment of one job.
const MOST_CHANGES: usize = 8192;
/// Most bytes of a variable with its name: the kernel takes no longer one (`MAX_ARG_STRLEN`).
const LONGEST: usize = 128 << 10;

/// The variables that changes are about.
#[derive(Debug, Default)]
pub struct Variables(BTreeMap<String, Variable>);

/// New values of a variable; nothing stands for one that is not set.
#[derive(Debug)]
struct Variable {
    /// Where it was set.
    set: Option<Text>,
    /// Where it was not.
    unset: Option<Text>,
}

/// A value under construction, to both ends of which something may be added.
#[derive(Debug, Default)]
struct Text {
    front: VecDeque<u8>,
    /// True if the value that the variable had comes between the two.
    has_old: bool,
    back: Vec<u8>,
}

impl Variables {
    /// Reads the attributes that describe changes.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` when one describes none, or a variable becomes longer than the kernel takes, and
    /// `ERR_OUT_OF_RESOURCE` for more than [`MOST_CHANGES`].
    pub fn read(info: &[Info]) -> Result<Self, Status> {
        let mut all = Variables::default();
        for (change, number) in info.iter().filter_map(|info| Change::parse(info).transpose()).zip(1..) {
            let change = change.inspect_err(|_| trace!("an environment is described by no variables"))?;
            if number > MOST_CHANGES {
                trace!("an environment has more than {MOST_CHANGES} changes");
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
            let name = change.name();
            let variable = all.0.entry(name.to_owned()).or_insert_with(Variable::new);
            for text in [&mut variable.set, &mut variable.unset] {
                change.apply(text);
                if text.as_ref().is_some_and(|text| name.len() + text.len() > LONGEST) {
                    trace!("the variable {name} becomes longer than {LONGEST} bytes");
                    return Err(Status::ERR_BAD_PARAM);
                }
            }
        }
        Ok(all)
    }

    /// Changes an environment.
    pub fn apply(&self, env: &mut dyn EnvSink) {
        let mut gone: BTreeSet<&[u8]> = BTreeSet::new();
        for (name, variable) in &self.0 {
            let old = env.get(name);
            match if old.is_some() { &variable.set } else { &variable.unset } {
                Some(text) => env.set(name, &text.with(&old.unwrap_or_default())),
                None if old.is_some() => _ = gone.insert(name.as_bytes()),
                None => {}
            }
        }
        if !gone.is_empty() {
            env.retain(&mut |name| !gone.contains(name));
        }
    }
}

impl Variable {
    /// A variable that nothing has changed.
    fn new() -> Self {
        Variable { set: Some(Text { has_old: true, ..Text::default() }), unset: None }
    }
}

impl Change {
    /// Makes the change. A text that is put at an end takes as long as it is itself, however long the value.
    fn apply(&self, text: &mut Option<Text>) {
        match (self, &mut *text) {
            (Change::Unset(_), _) => *text = None,
            (Change::Prepend(_, value, separator), Some(text)) => {
                value.iter().chain([separator]).rev().for_each(|byte| text.front.push_front(*byte));
            }
            (Change::Append(_, value, separator), Some(text)) => text.back.extend([separator].into_iter().chain(value)),
            (Change::Add(..), Some(_)) => {}
            (Change::Set(_, value), _)
            | (Change::Add(_, value) | Change::Prepend(_, value, _) | Change::Append(_, value, _), None) => {
                *text = Some(Text { back: value.clone(), ..Text::default() });
            }
        }
    }
}

impl Text {
    /// Bytes of it, beside the value that the variable had.
    fn len(&self) -> usize {
        self.front.len() + self.back.len()
    }

    /// All of it, for a variable that had this value.
    fn with(&self, old: &[u8]) -> Vec<u8> {
        let (begin, end) = self.front.as_slices();
        [begin, end, if self.has_old { old } else { &[] }, &self.back].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Envar, Value, keys};
    use std::ffi::OsString;

    fn envar(key: &str, name: &str, value: &str) -> Info {
        let text = |text: &str| Some(crate::data::Text::new(text).unwrap());
        Info::new(key, Value::Envar(Envar { name: text(name), value: text(value), separator: b':' }))
    }

    fn changed(old: &[(&str, &str)], infos: &[Info]) -> Vec<String> {
        let mut env: BTreeMap<OsString, OsString> = old.iter().map(|(n, v)| (n.into(), v.into())).collect();
        Variables::read(infos).unwrap().apply(&mut env);
        env.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect()
    }

    #[test]
    fn an_environment_is_changed_in_every_way() {
        let infos = [
            envar(keys::SET_ENVAR, "A", "2"),
            envar(keys::ADD_ENVAR, "B", "2"),
            envar(keys::ADD_ENVAR, "F", "2"),
            envar(keys::PREPEND_ENVAR, "C", "2"),
            envar(keys::APPEND_ENVAR, "D", "2"),
            envar(keys::APPEND_ENVAR, "G", "2"),
            Info::new(keys::UNSET_ENVAR, "E"),
            Info::new(keys::JOB_SIZE, 3u32),
        ];
        let old = [("A", "1"), ("B", "1"), ("C", "1"), ("D", "1"), ("E", "1")];
        assert_eq!(changed(&old, &infos), ["A=2", "B=1", "C=2:1", "D=1:2", "F=2", "G=2"]);
    }

    #[test]
    fn changes_of_one_variable_are_made_in_their_order() {
        let [a, b] = [envar(keys::PREPEND_ENVAR, "A", "a"), envar(keys::APPEND_ENVAR, "A", "b")];
        let [set, add] = [keys::SET_ENVAR, keys::ADD_ENVAR].map(|key| envar(key, "A", "s"));
        let unset = Info::new(keys::UNSET_ENVAR, "A");
        for (changes, was_set, was_not) in [
            (vec![a.clone(), b.clone(), a.clone()], "A=a:a:1:b", "A=a:a:b"),
            (vec![b.clone(), a.clone()], "A=a:1:b", "A=a:b"),
            (vec![add.clone(), a.clone()], "A=a:1", "A=a:s"),
            (vec![a.clone(), set.clone(), b.clone()], "A=s:b", "A=s:b"),
            (vec![b.clone(), unset.clone(), add, a], "A=a:s", "A=a:s"),
            (vec![set, unset], "", ""),
        ] {
            assert_eq!(changed(&[("A", "1")], &changes).concat(), was_set);
            assert_eq!(changed(&[], &changes).concat(), was_not);
        }
    }

    #[test]
    fn many_changes_and_long_variables_are_refused() {
        let refused = |infos: &[Info]| Variables::read(infos).err();
        let many = |key, count, len| vec![envar(key, "A", &"x".repeat(len)); count];
        for key in [keys::PREPEND_ENVAR, keys::APPEND_ENVAR] {
            assert_eq!(refused(&many(key, MOST_CHANGES, 7)), None);
            assert_eq!(refused(&many(key, MOST_CHANGES + 1, 7)), Some(Status::ERR_OUT_OF_RESOURCE));
            assert_eq!(refused(&many(key, MOST_CHANGES, 40)), Some(Status::ERR_BAD_PARAM));
        }
        assert_eq!(refused(&many(keys::SET_ENVAR, 1, LONGEST)), Some(Status::ERR_BAD_PARAM));
        assert_eq!(refused(&[envar(keys::SET_ENVAR, "", "x")]), Some(Status::ERR_BAD_PARAM));
    }
}
