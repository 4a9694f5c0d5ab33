//! Look-ups in job information, level by level.
//!
//! The cache is consulted first, and the table of keys tells then which places can have a key at all
//! ([`key_plan`](super::key_plan)). A value that the host gave comes before one that follows from placement
//! ([`computed`](super::computed)).
//!
//! Functions that look in one place put the value into `found`, which is `None`: handing a value from one function to
//! the next takes longer than finding it.
use instanton_layout::Malformed;
use instanton_layout::info::{Column, Group, Places, Row, column};
use instanton_layout::key::HashedKey;
use instanton_layout::record::{Owner, Record};
use instanton_layout::words::Words;

use super::directives::InfoLevel;
use super::key_plan::{KeyPlan, NODE, Planned, begins_with_process, order};
use super::lookup_cache::LookupCache;
use super::question::Question;
use super::raw_value::RawValue;
use super::view::InfoView;
use crate::data::{DataType, Rank, keys};
use crate::store::error::ReadError;
use crate::store::info::known_keys::{self, Class, Derived};
use crate::store::value_cell::ValueCell;

impl InfoView {
    /// The cache, if it may have the value of a reserved key: of the own process or none in particular, at a level
    /// without a number or name.
    #[inline(always)]
    fn cache_for(&self, question: &Question<'_>) -> Option<&LookupCache> {
        let own = self.own.get()?;
        let is_mine = question.rank.0 == own.rank || !question.rank.is_process();
        (is_mine && !question.directives.selects()).then_some(&own.cache)
    }

    /// The value, if this process has asked before.
    #[inline(always)]
    pub(super) fn recall(&self, question: &Question<'_>) -> Option<RawValue<'_>> {
        let cell = if question.is_reserved() { self.cache_for(question)?.find(question)? } else { return None };
        Some(RawValue::of_info(&self.generation, cell))
    }

    /// The value, if the host gave or implied one. It is recalled from then on.
    #[inline(always)]
    pub(super) fn look(&self, question: &Question<'_>, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        if !question.is_reserved() {
            // Most keys that processes post: nothing else needs to be known of them.
            let may_have = self.generation.index.keys.may_have(&question.key);
            return if may_have { self.find(question, found) } else { Ok(()) };
        }
        self.find(question, found)?;
        if let Some(cell) = *found
            && let Some(cache) = self.cache_for(question)
        {
            cache.keep(question, cell);
        }
        Ok(())
    }

    /// The value, if the host gave or implied one.
    #[inline]
    pub(super) fn find(&self, question: &Question<'_>, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        let made;
        let plan = match self.own.get().and_then(|own| own.cache.plan(&question.key)) {
            Some(plan) => plan,
            None => {
                made = self.plan(&question.key)?;
                &made
            }
        };
        if plan.places == Places::default() {
            return Ok(());
        }
        let planned = Planned { key: &question.key, plan };
        let in_job = self.is_in_job(question.rank);
        // The shortest way for what processes ask most: their own values, and those of their nodes.
        if begins_with_process(question, in_job) && plan.places.has(Places::PROCESSES) {
            self.of_process(&planned, question.rank, found)?;
            if found.is_some() {
                return Ok(());
            }
        }
        let mut places = order(question, in_job, plan.class);
        if let [NODE, others @ ..] = places
            && plan.places.has(NODE)
        {
            if let Some(node) = self.node_asked(question)? {
                self.of_node(&planned, node, found)?;
            }
            if found.is_some() {
                return Ok(());
            }
            places = others;
        }
        self.first(question, &planned, places, found)
    }

    #[inline(always)]
    fn is_in_job(&self, rank: Rank) -> bool {
        rank.is_process() && rank.0 < self.generation.index.ranks()
    }

    /// Makes the plan for a key, and keeps that of a reserved one.
    #[inline(never)]
    pub(super) fn plan(&self, key: &HashedKey<'_>) -> Result<KeyPlan, Malformed> {
        let reserved = keys::is_reserved(key.bytes());
        let known = if reserved { known_keys::known(key.hash(), key.bytes()) } else { None };
        let derived = known.and_then(|known| known.derived);
        let class = reserved.then(|| known.map_or(Class::Job, |known| known.class));
        let entry = self.generation.index.keys.find(&self.words(), key)?;
        let mut places = entry.places.and(derived.map_or(Places::default(), Derived::places));
        let column = entry.column().map(|index| self.generation.index.column(&self.words(), index)).transpose()?;
        if column.is_some() {
            places = places.and(Places::PROCESSES);
        }
        let plan = KeyPlan { entry, column, derived, class, places };
        if let Some(own) = self.own.get().filter(|_| reserved) {
            own.cache.keep_plan(key, plan);
        }
        Ok(plan)
    }

    /// The value in the first of these places that has it.
    #[inline(never)]
    fn first(
        &self,
        question: &Question<'_>,
        planned: &Planned<'_>,
        places: &[Places],
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        for place in places.iter().filter(|place| planned.plan.places.has(**place)) {
            match *place {
                Places::PROCESSES => self.of_process(planned, question.rank, found)?,
                Places::JOB => self.of_job(planned, found)?,
                Places::SESSIONS => self.of_session(planned, question, found)?,
                Places::APPS => {
                    if let Some(app) = self.app_asked(question)? {
                        self.of_app(planned, app, found)?;
                    }
                }
                _ => {
                    if let Some(node) = self.node_asked(question)? {
                        self.of_node(planned, node, found)?;
                    }
                }
            }
            if found.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// The node that is asked for.
    #[inline]
    fn node_asked(&self, question: &Question<'_>) -> Result<Option<u32>, Malformed> {
        let directives = question.directives;
        match (directives.node, &directives.host) {
            (Some(id), _) if directives.level == InfoLevel::Node => self.by_number(Group::Nodes, id),
            (None, Some(name)) if directives.level == InfoLevel::Node => self.by_name(name.as_bytes()),
            _ if self.is_in_job(question.rank) => Ok(self.node_of(question.rank)?.map(|(node, _)| node)),
            _ => Ok(Some(self.generation.index.own_node())),
        }
    }

    /// The application that is asked for.
    #[inline]
    fn app_asked(&self, question: &Question<'_>) -> Result<Option<u32>, Malformed> {
        let of = |rank| Ok(self.app_of(rank)?.map(|(app, _)| app));
        match question.directives.app {
            Some(number) if question.directives.level == InfoLevel::App => self.by_number(Group::Apps, number),
            _ if self.is_in_job(question.rank) => of(question.rank),
            _ if self.is_in_job(question.asker) => of(question.asker),
            // Of anybody else the only one.
            _ => Ok((self.generation.index.count(Group::Apps) == 1).then_some(0)),
        }
    }

    /// The value that the host gave of a process, or that follows for it alone.
    #[inline(never)]
    pub(super) fn of_process(
        &self,
        planned: &Planned<'_>,
        rank: Rank,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        if planned.plan.entry.places.has(Places::PROCESSES) || planned.plan.column.is_some() {
            self.given(planned, rank, found)?;
        }
        match planned.plan.derived {
            Some(derived) if found.is_none() => self.derived_of_process(derived, rank, found),
            _ => Ok(()),
        }
    }

    /// The value that the host gave of a process.
    #[inline]
    fn given(&self, planned: &Planned<'_>, rank: Rank, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        let (words, own) = (self.words(), self.own(rank.0));
        if planned.plan.entry.places.has(Places::PROCESSES) {
            let record = match own {
                Some(own) => own.record,
                None => self.generation.index.process_records().find(&words, rank.0.into())?,
            };
            self.in_record(planned, (Owner::Process, rank.0), record, found)?;
            if found.is_some() {
                return Ok(());
            }
        }
        let Some(column) = &planned.plan.column else { return Ok(()) };
        let row = own.and_then(|own| own.row);
        self.in_column(column, row, rank, found)?;
        match column.next() {
            Some(next) if found.is_none() => self.in_columns_from(next, row, rank, found),
            _ => Ok(()),
        }
    }

    /// The value of a process in the first of these columns of one key that has one.
    #[inline(never)]
    fn in_columns_from(
        &self,
        mut index: u32,
        row: Option<Row>,
        rank: Rank,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        // A damaged chain could be endless.
        for _ in 1..self.generation.index.columns() {
            let column = self.generation.index.column(&self.words(), index)?;
            self.in_column(&column, row, rank, found)?;
            match column.next() {
                Some(next) if found.is_none() => index = next,
                _ => break,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn in_column(
        &self,
        column: &Column,
        row: Option<Row>,
        rank: Rank,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        let words = self.words();
        let value = match row {
            Some(row) => column.value_in_row(&words, row, rank.0)?,
            None => column.value(&words, rank.0)?,
        };
        if let Some(value) = value {
            *found = Some(self.of_column(column, value)?);
        }
        Ok(())
    }

    #[inline(always)]
    fn of_column(&self, column: &Column, value: u64) -> Result<ValueCell, Malformed> {
        let (words, data_type) = (self.words(), DataType(column.data_type));
        if column.flags & column::STRINGS == 0 {
            return Ok(ValueCell::of_scalar(data_type, value));
        }
        let (at, len) = self.generation.index.string(&words, value)?;
        if let Some(last) = len.checked_sub(1)
            && words.load(at + last / 8)? >> (last % 8 * 8) & 0xff != 0
        {
            // Without its NUL it is none, and a C program would read on.
            return Err(Malformed::Checksum);
        }
        Ok(ValueCell::of_string(data_type, at, len))
    }

    #[inline(never)]
    fn of_job(&self, planned: &Planned<'_>, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        if planned.plan.entry.places.has(Places::JOB) {
            self.in_record(planned, (Owner::Job, 0), Some(self.generation.index.job_word()), found)?;
        }
        if let (Some(derived), None) = (planned.plan.derived, &found) {
            *found = self.derived_of_job(derived);
        }
        Ok(())
    }

    #[inline(never)]
    fn of_session(
        &self,
        planned: &Planned<'_>,
        question: &Question<'_>,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        let words = self.words();
        let index = match question.directives.session {
            Some(id) if question.directives.level == InfoLevel::Session => self.by_number(Group::Sessions, id)?,
            // The job's own is the first.
            _ => Some(0),
        };
        let record = match index {
            None => None,
            Some(0) => self.own_session,
            Some(index) => self.generation.index.records(Group::Sessions).find(&words, index.into())?,
        };
        self.in_record(planned, (Owner::Session, index.unwrap_or(0)), record, found)
    }

    /// A node. The record of the own node has also the values that are computed of others, but no very long list of its
    /// processes.
    #[inline(never)]
    pub(super) fn of_node(
        &self,
        planned: &Planned<'_>,
        node: u32,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        if node == self.generation.index.own_node() {
            let record = self.generation.index.own_node_word();
            let word = record.filter(|_| planned.plan.entry.places.has(Places::OWN_NODE));
            self.in_record(planned, (Owner::Node, node), word, found)?;
            return match planned.plan.derived {
                Some(Derived::LocalPeers) if found.is_none() && record.is_some() => {
                    self.derived_of_node(Derived::LocalPeers, node, found)
                }
                _ => Ok(()),
            };
        }
        if planned.plan.entry.places.has(Places::NODES) {
            let record = self.generation.index.records(Group::Nodes).find(&self.words(), node.into())?;
            self.in_record(planned, (Owner::Node, node), record, found)?;
        }
        match planned.plan.derived {
            Some(derived) if found.is_none() => self.derived_of_node(derived, node, found),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    pub(super) fn of_app(
        &self,
        planned: &Planned<'_>,
        app: u32,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        if planned.plan.entry.places.has(Places::APPS) {
            let record = self.generation.index.records(Group::Apps).find(&self.words(), app.into())?;
            self.in_record(planned, (Owner::App, app), record, found)?;
        }
        match planned.plan.derived {
            Some(derived) if found.is_none() => self.derived_of_app(derived, app, found),
            _ => Ok(()),
        }
    }

    /// The value that the record at a word has, or the one that it continues in, if there is a record.
    #[inline(never)]
    fn in_record(
        &self,
        planned: &Planned<'_>,
        (kind, owner): (Owner, u32),
        word: Option<u32>,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        let (words, mut word) = (self.words(), word);
        // A long record goes on in a second one, and in no third.
        for _ in 0..2 {
            let Some(at) = word else { break };
            let record = Record::in_info(words, at as usize, kind, owner)?;
            words.once(at as usize, move |_| record.check())?;
            if let Some(entry) = record.find_shared(planned.key, planned.plan.entry.word)? {
                *found = Some(ValueCell::of_entry(&entry));
                break;
            }
            word = record.base()?.map(|base| base.at.word);
        }
        Ok(())
    }

    #[cold]
    fn by_number(&self, group: Group, number: u32) -> Result<Option<u32>, Malformed> {
        self.generation.index.by_number(&self.words(), group, number)
    }

    /// The node with that name, else the one that has it among its other names.
    #[cold]
    fn by_name(&self, name: &[u8]) -> Result<Option<u32>, Malformed> {
        let words = self.words();
        if let Some(node) = self.generation.index.names.find(&words, name)? {
            return Ok(Some(node));
        }
        let key = HashedKey::new(keys::HOSTNAME_ALIASES.as_bytes());
        let planned = Planned { key: &key, plan: &self.plan(&key)? };
        self.generation.index.by_alias(&words, name, |node| {
            let mut found = None;
            self.of_node(&planned, node, &mut found)?;
            let list = found.map(|cell| RawValue::of_info(&self.generation, &cell).to_bytes()).unwrap_or_default();
            let list = list.strip_suffix(&[0]).unwrap_or(&list);
            Ok(list.split(|byte| *byte == b',').any(|alias| alias == name))
        })
    }

    /// The keys that the host has given anywhere, and these.
    pub(super) fn keys(&self, computed: &[&[&str]]) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut known: Vec<Vec<u8>> = Vec::new();
        for slot in 0..self.generation.index.keys.part.len {
            if let Some((word, len)) = self.generation.index.keys.key(&self.words(), slot)? {
                known.push(self.words().raw().to_vec(word, len)?);
            }
        }
        for key in computed.iter().copied().flatten() {
            if !known.iter().any(|known| known == key.as_bytes()) {
                known.push(key.as_bytes().to_vec());
            }
        }
        Ok(known)
    }

    /// Gives `f` everything known of a process; for no process in particular, of the job, its session, the own node and
    /// the only application.
    pub(in crate::store) fn all(
        &self,
        rank: Rank,
        mut f: impl FnMut(Vec<u8>, RawValue<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if rank.is_process() && rank.0 >= self.generation.index.ranks() {
            return Ok(());
        }
        let computed = [&known_keys::OF_PROCESS[..], &known_keys::OF_NODE, &known_keys::OF_APP, &known_keys::OF_JOB];
        let known = self.keys(if rank.is_process() { &computed[..1] } else { &computed[1..] })?;
        for key in known {
            let mut found = None;
            let question = Question::new(rank, &key);
            match rank.is_process() {
                false => self.find(&question, &mut found)?,
                true => {
                    let planned = Planned { key: &question.key, plan: &self.plan(&question.key)? };
                    let places: &[_] = match planned.plan.derived {
                        Some(Derived::HostName) => &[Places::PROCESSES, NODE],
                        _ => &[Places::PROCESSES],
                    };
                    self.first(&question, &planned, places, &mut found)?;
                }
            }
            if let Some(value) = found {
                f(key.clone(), RawValue::of_info(&self.generation, &value))?;
            }
        }
        Ok(())
    }
}
