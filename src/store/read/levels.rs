//! Where a key of job information is looked for.
//!
//! By the rules of the Standard's levels, and so that size keys and job-level data are found by a process rank, by
//! WILDCARD and by UNDEF alike. The table of keys tells first where a key can be at all. What the host gave comes before what
//! follows from placement ([`computed`](super::computed)).
use instanton_layout::Malformed;
use instanton_layout::info::{Column, Group, Places, Row, column};
use instanton_layout::record::{Owner, Query, Record};
use instanton_layout::words::Words;

use super::key_plan::{KeyPlan, NODE, of_process_itself, order};
use super::question::{Level, Lookup, NodeSel};
use super::raw_value::RawValue;
use super::view::InfoView;
use crate::data::{DataType, Rank, keys};
use crate::store::error::ReadError;
use crate::store::info::known_keys::{self, Class, Derived};
use crate::store::value_cell::ValueCell;

/// A key that is looked for, and what is known of it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    query: &'a Query<'a>,
    plan: &'a KeyPlan,
}

impl InfoView {
    /// The value, if this process has asked before.
    #[inline(always)]
    pub(super) fn recall(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> Option<RawValue<'_>> {
        if !keys::is_reserved(lookup.key) {
            return None;
        }
        let own = self.own.get()?;
        // Of another process nothing is.
        let may_be = lookup.rank.0 == own.rank || !lookup.rank.is_process();
        if may_be { own.cache.find(lookup, query).map(|cell| RawValue::of_info(&self.generation, cell)) } else { None }
    }

    /// Puts the value into `found` if the host gave or implied one: what this process has not asked before.
    #[inline(always)]
    pub(super) fn look(
        &self,
        lookup: &Lookup<'_>,
        query: &Query<'_>,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        if !keys::is_reserved(lookup.key) {
            // Most keys that processes post: nothing else needs to be known of them.
            return if self.generation.index.keys.may_have(query) {
                self.find_to(lookup, query, found)
            } else {
                Ok(())
            };
        }
        self.find_to(lookup, query, found)?;
        if let (Some(own), Some(value)) = (self.own.get(), &found) {
            own.cache.keep(Rank(own.rank), lookup, query, *value);
        }
        Ok(())
    }

    /// The value, if the host gave or implied one.
    #[inline]
    pub(super) fn find(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> Result<Option<ValueCell>, Malformed> {
        let mut found = None;
        self.find_to(lookup, query, &mut found)?;
        Ok(found)
    }

    /// Puts the value into `found`, which is `None`, if the host gave or implied one.
    ///
    /// So do all that look in some place: to hand a value from one function to the next takes longer than to find it.
    #[inline]
    pub(super) fn find_to(
        &self,
        lookup: &Lookup<'_>,
        query: &Query<'_>,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        let anew;
        let plan = match self.cache().and_then(|cache| cache.plan(query)) {
            Some(plan) => plan,
            None => {
                anew = self.meaning(query)?;
                &anew
            }
        };
        if plan.places == Places::default() {
            return Ok(());
        }
        let asked = Asked { query, plan };
        let in_job = self.is_in_job(lookup.rank);
        // The shortest way for what processes ask most: what is their own, and of their nodes.
        if of_process_itself(lookup, in_job) && plan.places.has(Places::PROCESSES) {
            self.of_process(&asked, lookup.rank, found)?;
            if found.is_some() {
                return Ok(());
            }
        }
        let mut places = order(lookup, in_job, plan.class);
        if let [NODE, others @ ..] = places
            && asked.plan.places.has(NODE)
        {
            if let Some(node) = self.node_asked(lookup)? {
                self.of_node(&asked, node, found)?;
            }
            if found.is_some() {
                return Ok(());
            }
            places = others;
        }
        self.first(&asked, lookup, places, found)
    }

    #[inline(always)]
    fn is_in_job(&self, rank: Rank) -> bool {
        rank.is_process() && rank.0 < self.generation.index.ranks()
    }

    /// What a key means: of a reserved one a process remembers it.
    #[inline(never)]
    fn meaning(&self, query: &Query<'_>) -> Result<KeyPlan, Malformed> {
        let reserved = keys::is_reserved(query.key());
        let known = if reserved { known_keys::known(query.hash(), query.key()) } else { None };
        let derived = known.and_then(|known| known.derived);
        let class = reserved.then(|| known.map_or(Class::Job, |known| known.class));
        let entry = self.generation.index.keys.find(&self.words(), query)?;
        let mut places = entry.places.and(derived.map_or(Places::default(), Derived::places));
        let column = entry.column().map(|index| self.generation.index.column(&self.words(), index)).transpose()?;
        if column.is_some() {
            places = places.and(Places::PROCESSES);
        }
        let plan = KeyPlan { entry, column, derived, class, places };
        if let Some(cache) = self.cache().filter(|_| reserved) {
            cache.keep_plan(query, plan);
        }
        Ok(plan)
    }

    /// The value in the first of these places that has it.
    #[inline(never)]
    fn first(
        &self,
        asked: &Asked<'_>,
        lookup: &Lookup<'_>,
        places: &[Places],
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        for place in places.iter().filter(|place| asked.plan.places.has(**place)) {
            match *place {
                Places::PROCESSES => self.of_process(asked, lookup.rank, found)?,
                Places::JOB => self.of_job(asked, found)?,
                Places::SESSIONS => self.of_session(asked, lookup.level, found)?,
                Places::APPS => {
                    if let Some(app) = self.app_asked(lookup)? {
                        self.of_app(asked, app, found)?;
                    }
                }
                _ => {
                    if let Some(node) = self.node_asked(lookup)? {
                        self.of_node(asked, node, found)?;
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
    fn node_asked(&self, lookup: &Lookup<'_>) -> Result<Option<u32>, Malformed> {
        match lookup.level {
            Level::Node(NodeSel::Id(id)) => self.by_number(Group::Nodes, id),
            Level::Node(NodeSel::Name(name)) => self.by_name(name),
            _ if self.is_in_job(lookup.rank) => Ok(self.node_of(lookup.rank)?.map(|(node, _)| node)),
            _ => Ok(Some(self.generation.index.own_node())),
        }
    }

    /// The application that is asked for.
    #[inline]
    fn app_asked(&self, lookup: &Lookup<'_>) -> Result<Option<u32>, Malformed> {
        let of = |rank| Ok(self.app_of(rank)?.map(|(app, _)| app));
        match lookup.level {
            Level::App(Some(number)) => self.by_number(Group::Apps, number),
            _ if self.is_in_job(lookup.rank) => of(lookup.rank),
            _ if self.is_in_job(lookup.asker) => of(lookup.asker),
            // Of anybody else the only one.
            _ => Ok((self.generation.index.count(Group::Apps) == 1).then_some(0)),
        }
    }

    /// What the host gave of a process, or what follows for it alone.
    #[inline(never)]
    fn of_process(&self, asked: &Asked<'_>, rank: Rank, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        if asked.plan.entry.places.has(Places::PROCESSES) || asked.plan.column.is_some() {
            self.given(asked, rank, found)?;
        }
        match asked.plan.derived {
            Some(derived) if found.is_none() => self.derived_of_process(derived, rank, found),
            _ => Ok(()),
        }
    }

    /// What the host gave of a process.
    #[inline]
    fn given(&self, asked: &Asked<'_>, rank: Rank, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        let (words, own) = (self.words(), self.own(rank.0));
        if asked.plan.entry.places.has(Places::PROCESSES) {
            let record = match own {
                Some(own) => own.record,
                None => self.generation.index.process_records().find(&words, rank.0.into())?,
            };
            self.in_record(asked, (Owner::Process, rank.0), record, found)?;
            if found.is_some() {
                return Ok(());
            }
        }
        let Some(column) = &asked.plan.column else { return Ok(()) };
        let row = own.and_then(|own| own.row);
        self.in_column(column, row, rank, found)?;
        match column.next() {
            Some(next) if found.is_none() => self.in_columns_from(next, row, rank, found),
            _ => Ok(()),
        }
    }

    /// What the first of these columns of one key that has a value of a process says.
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
    fn of_job(&self, asked: &Asked<'_>, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        if asked.plan.entry.places.has(Places::JOB) {
            self.in_record(asked, (Owner::Job, 0), Some(self.generation.index.job_word()), found)?;
        }
        if let (Some(derived), None) = (asked.plan.derived, &found) {
            *found = self.derived_of_job(derived);
        }
        Ok(())
    }

    #[inline(never)]
    fn of_session(&self, asked: &Asked<'_>, level: Level<'_>, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        let words = self.words();
        let index = match level {
            Level::Session(Some(id)) => self.by_number(Group::Sessions, id)?,
            // The job's own is the first.
            _ => Some(0),
        };
        let record = match index {
            None => None,
            Some(0) => self.own_session,
            Some(index) => self.generation.index.records(Group::Sessions).find(&words, index.into())?,
        };
        self.in_record(asked, (Owner::Session, index.unwrap_or(0)), record, found)
    }

    /// Everything of the own node is in its record, what is computed of others, too; but no very long list of its processes.
    #[inline(never)]
    fn of_node(&self, asked: &Asked<'_>, node: u32, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        if node == self.generation.index.own_node() {
            let record = self.generation.index.own_node_word();
            let word = record.filter(|_| asked.plan.entry.places.has(Places::OWN_NODE));
            self.in_record(asked, (Owner::Node, node), word, found)?;
            return match asked.plan.derived {
                Some(Derived::LocalPeers) if found.is_none() && record.is_some() => {
                    self.derived_of_node(Derived::LocalPeers, node, found)
                }
                _ => Ok(()),
            };
        }
        if asked.plan.entry.places.has(Places::NODES) {
            let record = self.generation.index.records(Group::Nodes).find(&self.words(), node.into())?;
            self.in_record(asked, (Owner::Node, node), record, found)?;
        }
        match asked.plan.derived {
            Some(derived) if found.is_none() => self.derived_of_node(derived, node, found),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn of_app(&self, asked: &Asked<'_>, app: u32, found: &mut Option<ValueCell>) -> Result<(), Malformed> {
        if asked.plan.entry.places.has(Places::APPS) {
            let record = self.generation.index.records(Group::Apps).find(&self.words(), app.into())?;
            self.in_record(asked, (Owner::App, app), record, found)?;
        }
        match asked.plan.derived {
            Some(derived) if found.is_none() => self.derived_of_app(derived, app, found),
            _ => Ok(()),
        }
    }

    /// The value that the record at a word has, or the one that it continues in, if there is a record.
    #[inline(never)]
    fn in_record(
        &self,
        asked: &Asked<'_>,
        (kind, owner): (Owner, u32),
        word: Option<u32>,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        let (words, mut word) = (self.words(), word);
        // What is long is in a second one, and in no third.
        for _ in 0..2 {
            let Some(at) = word else { break };
            let record = Record::in_info(words, at as usize, kind, owner)?;
            words.once(at as usize, move |_| record.check())?;
            if let Some(entry) = record.find_shared(asked.query, asked.plan.entry.word)? {
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
        let query = Query::new(keys::HOSTNAME_ALIASES.as_bytes());
        let asked = Asked { query: &query, plan: &self.meaning(&query)? };
        self.generation.index.by_alias(&words, name, |node| {
            let mut found = None;
            self.of_node(&asked, node, &mut found)?;
            let list = found.map(|cell| RawValue::of_info(&self.generation, cell).to_bytes()).unwrap_or_default();
            let list = list.strip_suffix(&[0]).unwrap_or(&list);
            Ok(list.split(|byte| *byte == b',').any(|alias| alias == name))
        })
    }

    /// Gives `f` everything known of a process; for no process in particular, of the job, its session, the own node and the only
    /// application.
    pub(in crate::store) fn all(
        &self,
        rank: Rank,
        mut f: impl FnMut(Vec<u8>, RawValue<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if rank.is_process() && rank.0 >= self.generation.index.ranks() {
            return Ok(());
        }
        let mut known: Vec<Vec<u8>> = Vec::new();
        for slot in 0..self.generation.index.keys.part.len {
            if let Some((word, len)) = self.generation.index.keys.key(&self.words(), slot)? {
                known.push(self.words().raw().to_vec(word, len)?);
            }
        }
        let computed = [&known_keys::OF_PROCESS[..], &known_keys::OF_NODE, &known_keys::OF_APP, &known_keys::OF_JOB];
        let computed = if rank.is_process() { &computed[..1] } else { &computed[1..] };
        for key in computed.iter().copied().flatten() {
            if !known.iter().any(|known| known == key.as_bytes()) {
                known.push(key.as_bytes().to_vec());
            }
        }
        for key in known {
            let query = Query::new(&key);
            let mut found = None;
            let lookup = Lookup::new(rank, &key);
            match rank.is_process() {
                false => self.find_to(&lookup, &query, &mut found)?,
                true => {
                    let asked = Asked { query: &query, plan: &self.meaning(&query)? };
                    let places: &[_] = match asked.plan.derived {
                        Some(Derived::HostName) => &[Places::PROCESSES, NODE],
                        _ => &[Places::PROCESSES],
                    };
                    self.first(&asked, &lookup, places, &mut found)?;
                }
            }
            if let Some(value) = found {
                f(key.clone(), RawValue::of_info(&self.generation, value))?;
            }
        }
        Ok(())
    }
}
