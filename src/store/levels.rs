//! Where a key of job information is looked for.
//!
//! By the rules of the Standard's levels (K4 to K6), and so that size keys and job-level data are found by a process rank, by
//! WILDCARD and by UNDEF alike. The table of keys tells first where a key can be at all. What the host gave comes before what
//! follows from placement ([`computed`](super::computed)).
use instanton_layout::Malformed;
use instanton_layout::info::{Column, Group, KeyEntry, NONE, Places, column};
use instanton_layout::record::{Owner, Query, Record};
use instanton_layout::words::Words;

use super::derived::{self, Class, Derived};
use super::encode::{RawValue, ReadError};
use super::info_view::InfoView;
use super::lookup::{Level, Lookup, NodeSel};
use crate::data::{DataType, Rank, keys};

/// A key that is looked for, and what is known of it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    query: &'a Query<'a>,
    entry: KeyEntry,
    derived: Option<Derived>,
    /// Where it can be at all, given or computed: nothing else is looked at.
    places: Places,
}

/// Where a value may be.
#[derive(Clone, Copy)]
enum Place {
    Process(Rank),
    Job,
    Session(u32),
    Node(Of),
    App(Of),
}

/// Which node, or which application.
#[derive(Clone, Copy)]
enum Of {
    Index(u32),
    /// The one of that process.
    Process(Rank),
}

/// The job's own session is the first.
const OWN_SESSION: Place = Place::Session(0);

impl InfoView {
    /// The value, if the host gave or implied one.
    #[inline]
    pub(super) fn find(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> Result<Option<RawValue<'_>>, Malformed> {
        let mut found = None;
        self.find_to(lookup, query, &mut found)?;
        Ok(found)
    }

    /// Puts the value into `found`, which is `None`, if the host gave or implied one.
    ///
    /// So do all that look in some place: to hand a value from one function to the next takes longer than to find it.
    pub(super) fn find_to<'a>(
        &'a self,
        lookup: &Lookup<'_>,
        query: &Query<'_>,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        let reserved = lookup.key.starts_with(b"pmix");
        let known = if reserved { derived::known(query.hash(), lookup.key) } else { None };
        let asked = self.asked(query, known.and_then(|known| known.derived))?;
        if asked.places == Places::default() {
            return Ok(());
        }
        let rank = lookup.rank;
        let is_in_job = |rank: Rank| rank.is_process() && rank.0 < self.index.ranks();
        let in_job = is_in_job(rank);
        let node = Place::Node(if in_job { Of::Process(rank) } else { Of::Index(self.index.own_node()) });
        let app = Place::App(match in_job {
            true => Of::Process(rank),
            false if is_in_job(lookup.asker) => Of::Process(lookup.asker),
            // Of anybody else the only one.
            false => Of::Index(if self.index.count(Group::Apps) == 1 { 0 } else { NONE }),
        });
        let (own, job) = (Place::Process(rank), Place::Job);
        let places: &[Place] = match lookup.level {
            Level::Default if in_job && !reserved => &[own],
            Level::Default if in_job => match known.map_or(Class::Job, |known| known.class) {
                Class::Job => &[own, job, OWN_SESSION, node, app],
                Class::Node => &[own, node, job, OWN_SESSION, app],
                Class::App => &[own, app, job, OWN_SESSION, node],
            },
            Level::Default if rank.is_process() => &[],
            Level::Default => &[job, OWN_SESSION, node, app],
            Level::Job => &[job],
            Level::Session(None) => &[OWN_SESSION],
            Level::Session(Some(id)) => &[Place::Session(self.by_number(Group::Sessions, id)?)],
            Level::App(None) => &[app],
            Level::App(Some(number)) => &[Place::App(Of::Index(self.by_number(Group::Apps, number)?))],
            Level::Node(NodeSel::Own) => &[node],
            Level::Node(NodeSel::Id(id)) => &[Place::Node(Of::Index(self.by_number(Group::Nodes, id)?))],
            Level::Node(NodeSel::Name(name)) => &[Place::Node(Of::Index(self.by_name(name)?))],
        };
        self.first(&asked, places, found)
    }

    #[inline(always)]
    fn asked<'a>(&self, query: &'a Query<'a>, derived: Option<Derived>) -> Result<Asked<'a>, Malformed> {
        let entry = self.index.keys.find(&self.words(), query)?;
        let mut places = entry.places.and(derived.map_or(Places::default(), Derived::places));
        if entry.column().is_some() {
            places = places.and(Places::PROCESSES);
        }
        Ok(Asked { query, entry, derived, places })
    }

    /// The value in the first of these places that has it.
    fn first<'a>(
        &'a self,
        asked: &Asked<'_>,
        places: &[Place],
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        for place in places {
            match *place {
                Place::Process(rank) if asked.places.has(Places::PROCESSES) => self.of_process(asked, rank, found)?,
                Place::Job if asked.places.has(Places::JOB) => self.of_job(asked, found)?,
                Place::Session(index) if asked.places.has(Places::SESSIONS) => self.of_session(asked, index, found)?,
                Place::Node(of) if asked.places.has(Places::NODES.and(Places::OWN_NODE)) => {
                    self.of_node(asked, of, found)?;
                }
                Place::App(of) if asked.places.has(Places::APPS) => self.of_app(asked, of, found)?,
                _ => continue,
            }
            if found.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// What the host gave of a process, or what follows for it alone.
    fn of_process<'a>(
        &'a self,
        asked: &Asked<'_>,
        rank: Rank,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        self.given(asked, rank, found)?;
        match asked.derived {
            Some(derived) if found.is_none() => self.derived_of_process(derived, rank, found),
            _ => Ok(()),
        }
    }

    /// What the host gave of a process.
    #[inline]
    fn given<'a>(&'a self, asked: &Asked<'_>, rank: Rank, found: &mut Option<RawValue<'a>>) -> Result<(), Malformed> {
        let (words, own) = (self.words(), self.own(rank.0));
        if asked.entry.places.has(Places::PROCESSES) {
            let record = match own {
                Some(own) => own.record,
                None => self.index.process_records().find(&words, rank.0.into())?,
            };
            self.in_record(asked, (Owner::Process, rank.0), record, found)?;
            if found.is_some() {
                return Ok(());
            }
        }
        let mut next = asked.entry.column();
        // A damaged chain could be endless.
        for _ in 0..self.index.columns() {
            let Some(index) = next else { break };
            let column = self.index.column(&words, index)?;
            let value = match own.and_then(|own| own.row) {
                Some(row) => column.value_in_row(&words, row, rank.0)?,
                None => column.value(&words, rank.0)?,
            };
            if let Some(value) = value {
                *found = Some(self.of_column(&column, value)?);
                break;
            }
            next = column.next();
        }
        Ok(())
    }

    #[inline(always)]
    fn of_column(&self, column: &Column, value: u64) -> Result<RawValue<'_>, Malformed> {
        let (words, data_type) = (self.words(), DataType(column.data_type));
        if column.flags & column::STRINGS == 0 {
            return Ok(RawValue::of_scalar(words.raw(), data_type, value));
        }
        let (at, len) = self.index.string(&words, value)?;
        if let Some(last) = len.checked_sub(1)
            && words.load(at + last / 8)? >> (last % 8 * 8) & 0xff != 0
        {
            // Without its NUL it is none, and a C program would read on.
            return Err(Malformed::Checksum);
        }
        Ok(RawValue::of_string(words.raw(), data_type, at, len))
    }

    #[inline]
    fn of_job<'a>(&'a self, asked: &Asked<'_>, found: &mut Option<RawValue<'a>>) -> Result<(), Malformed> {
        if asked.entry.places.has(Places::JOB) {
            self.in_record(asked, (Owner::Job, 0), Some(self.index.job_word()), found)?;
        }
        if let (Some(derived), None) = (asked.derived, &found) {
            *found = self.derived_of_job(derived);
        }
        Ok(())
    }

    #[inline]
    fn of_session<'a>(
        &'a self,
        asked: &Asked<'_>,
        index: u32,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        let record = match index {
            0 => self.own_session,
            _ => self.index.records(Group::Sessions).find(&self.words(), index.into())?,
        };
        self.in_record(asked, (Owner::Session, index), record, found)
    }

    /// Everything of the own node is in its record, what is computed of others, too.
    fn of_node<'a>(&'a self, asked: &Asked<'_>, of: Of, found: &mut Option<RawValue<'a>>) -> Result<(), Malformed> {
        let index = match of {
            Of::Index(index) => index,
            Of::Process(rank) => match self.node_of(rank)? {
                Some((node, _)) => node,
                None => return Ok(()),
            },
        };
        if index == self.index.own_node() {
            let word = self.index.own_node_word().filter(|_| asked.entry.places.has(Places::OWN_NODE));
            return self.in_record(asked, (Owner::Node, index), word, found);
        }
        if asked.entry.places.has(Places::NODES) {
            let record = self.index.records(Group::Nodes).find(&self.words(), index.into())?;
            self.in_record(asked, (Owner::Node, index), record, found)?;
        }
        match asked.derived {
            Some(derived) if found.is_none() => self.derived_of_node(derived, index, found),
            _ => Ok(()),
        }
    }

    fn of_app<'a>(&'a self, asked: &Asked<'_>, of: Of, found: &mut Option<RawValue<'a>>) -> Result<(), Malformed> {
        let index = match of {
            Of::Index(index) => index,
            Of::Process(rank) => match self.app_of(rank)? {
                Some((app, _)) => app,
                None => return Ok(()),
            },
        };
        if asked.entry.places.has(Places::APPS) {
            let record = self.index.records(Group::Apps).find(&self.words(), index.into())?;
            self.in_record(asked, (Owner::App, index), record, found)?;
        }
        match asked.derived {
            Some(derived) if found.is_none() => self.derived_of_app(derived, index, found),
            _ => Ok(()),
        }
    }

    /// The value that the record at a word has, if there is a record.
    #[inline]
    fn in_record<'a>(
        &'a self,
        asked: &Asked<'_>,
        (kind, owner): (Owner, u32),
        word: Option<u32>,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        let Some(word) = word else { return Ok(()) };
        let words = self.words();
        let record = Record::in_info(words, word as usize, kind, owner)?;
        words.once(word as usize, || record.check())?;
        if let Some(entry) = record.find_shared(asked.query, asked.entry.word)? {
            *found = Some(RawValue::of_entry(words.raw(), &entry));
        }
        Ok(())
    }

    fn by_number(&self, group: Group, number: u32) -> Result<u32, Malformed> {
        Ok(self.index.by_number(&self.words(), group, number)?.unwrap_or(NONE))
    }

    /// The node with that name, else the one that has it among its other names.
    fn by_name(&self, name: &[u8]) -> Result<u32, Malformed> {
        let words = self.words();
        if let Some(node) = self.index.names.find(&words, name)? {
            return Ok(node);
        }
        let query = Query::new(keys::HOSTNAME_ALIASES.as_bytes());
        let asked = self.asked(&query, None)?;
        let found = self.index.by_alias(&words, name, |node| {
            let mut found = None;
            self.first(&asked, &[Place::Node(Of::Index(node))], &mut found)?;
            let list = found.map(RawValue::to_bytes).unwrap_or_default();
            let list = list.strip_suffix(&[0]).unwrap_or(&list);
            Ok(list.split(|byte| *byte == b',').any(|alias| alias == name))
        })?;
        Ok(found.unwrap_or(NONE))
    }

    /// Gives `f` everything known of a process; for no process in particular, of the job, its session, the own node and the only
    /// application.
    pub(super) fn all(
        &self,
        rank: Rank,
        mut f: impl FnMut(Vec<u8>, RawValue<'_>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        if rank.is_process() && rank.0 >= self.index.ranks() {
            return Ok(());
        }
        let mut known: Vec<Vec<u8>> = Vec::new();
        for slot in 0..self.index.keys.part.len {
            if let Some((word, len)) = self.index.keys.key(&self.words(), slot)? {
                known.push(self.words().raw().to_vec(word, len)?);
            }
        }
        let computed = [&derived::OF_PROCESS[..], &derived::OF_NODE, &derived::OF_APP, &derived::OF_JOB];
        let computed = if rank.is_process() { &computed[..1] } else { &computed[1..] };
        for key in computed.iter().copied().flatten() {
            if !known.iter().any(|known| known == key.as_bytes()) {
                known.push(key.as_bytes().to_vec());
            }
        }
        for key in known {
            let query = Query::new(&key);
            let mut found = None;
            match rank.is_process() {
                false => self.find_to(&Lookup::new(rank, &key), &query, &mut found)?,
                true => {
                    let derived = derived::known(query.hash(), &key).and_then(|known| known.derived);
                    let places = [Place::Process(rank), Place::Node(Of::Process(rank))];
                    let named = derived == Some(Derived::HostName);
                    let places = if named { &places[..] } else { &places[..1] };
                    self.first(&self.asked(&query, derived)?, places, &mut found)?;
                }
            }
            if let Some(value) = found {
                f(key.clone(), value)?;
            }
        }
        Ok(())
    }
}
