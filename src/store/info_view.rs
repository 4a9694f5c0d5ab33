//! Look-ups in one generation of job information.
//!
//! This is where the rules say where a key is looked for: K4 to K6 of the Standard's levels, and that size keys and job-level data are
//! found by a process rank, by WILDCARD and by UNDEF alike. The table of keys tells first where a key can be at all. What
//! follows from placement (`RANK`, `LOCAL_PEERS`, ...) is computed, unless the host gave something else.
use std::sync::{Arc, OnceLock};

use instanton_layout::Malformed;
use instanton_layout::info::{Column, Group, Index, KeyEntry, NONE, Name, Places, Row, column};
use instanton_layout::record::{Owner, Query, Record};
use instanton_layout::sync::Ordering;
use instanton_layout::words::{RawWords, Words, WordsMut};

use super::derived::{self, Class, Derived};
use super::encode::{RawValue, ReadError};
use super::lookup::{Level, Lookup, NodeSel};
use super::placement::FORMS;
use super::texts::{self, Count, Fill, Sink};
use crate::data::{DataType, Rank, keys};
use crate::sys::memory::Mapping;

/// One generation, mapped.
pub(super) struct InfoView {
    pub(super) generation: u64,
    pub(super) mapping: Arc<Mapping>,
    pub(super) index: Index,
    /// Bits that say whose checksum has been found right: slots of the table of keys, columns, records by the place of their entry,
    /// the job's record, the own node's. Memory that costs nothing before it is touched.
    checked: Mapping,
    /// Where the bits of columns begin, of records of nodes, applications, sessions and processes, and of the last two.
    bits: [usize; 6],
    /// The record of the job's own session: the place of its entry in the table, and its word.
    own_session: Option<(u32, u32)>,
    /// The process that this one is, once it is known.
    own: OnceLock<Own>,
}

/// What a process looks up again and again, about itself.
struct Own {
    rank: u32,
    row: Option<Row>,
    node: Option<(u32, u32)>,
    app: Option<(u32, u32)>,
    /// The place of its record in the table, and its word.
    record: Option<(u32, u32)>,
}

/// A key that is looked for, and what is known of it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    query: &'a Query<'a>,
    entry: KeyEntry,
    derived: Option<Derived>,
    /// Where it can be at all, given or computed: nothing else is looked at.
    places: Places,
}

impl InfoView {
    pub(super) fn new(generation: u64, mapping: Arc<Mapping>) -> Result<Self, Malformed> {
        let index = Index::read(&mapping.words())?;
        let mut next = index.keys.part.len as usize;
        let records = [Group::Nodes, Group::Apps, Group::Sessions].map(|group| index.records(group).len());
        let counts = [index.columns(), records[0], records[1], records[2], index.process_records().len(), 2];
        let bits = counts.map(|count| {
            next += count as usize;
            next - count as usize
        });
        // A damaged head could claim more than there is: each of these takes at least 16 bytes of the segment.
        if next > mapping.len() / 16 || !index.keys.part.len.is_power_of_two() {
            return Err(Malformed::Table);
        }
        let checked = Mapping::private(next / 8 + 8).map_err(|_| Malformed::Table)?;
        let own_session = index.records(Group::Sessions).find(&mapping.words(), 0)?;
        Ok(Self { generation, mapping, index, checked, bits, own_session, own: OnceLock::new() })
    }

    /// Looks at every checksum that is not looked at when something is read.
    pub(super) fn verify(&self) -> Result<(), Malformed> {
        self.index.verify(&self.words())
    }

    /// Remembers which process this is, and maps what it will look up first: what all processes of the node read, and its own.
    pub(super) fn populate_own(&self, rank: Rank) -> Result<(), Malformed> {
        self.mapping.populate(0, self.index.front().min(FRONT));
        let words = self.words();
        if !rank.is_process() || rank.0 >= self.index.ranks() || self.own.get().is_some() {
            return Ok(());
        }
        let node = self.index.nodes.place(&words, rank.0)?;
        let app = self.index.apps.place(&words, rank.0)?;
        let record = self.index.process_records().find(&words, rank.0.into())?;
        let here = node.filter(|(node, _)| *node == self.index.own_node());
        let row = here.and_then(|(_, place)| self.index.row(place));
        if let Some((at, len)) = here.and_then(|(_, place)| self.index.row_bytes(place)) {
            self.mapping.populate(at, len);
        }
        if let Some((_, word)) = record {
            self.mapping.populate(word as usize * 8, 1);
        }
        // Whoever was faster found the same.
        let _ = self.own.set(Own { rank: rank.0, row, node, app, record });
        Ok(())
    }

    /// Bytes of a value, where they lie.
    pub(super) fn frozen(&self, at: usize, len: usize) -> Result<&[u8], Malformed> {
        self.mapping.frozen(self.generation, at, len)
    }

    #[inline(always)]
    fn words(&self) -> RawWords<'_> {
        self.mapping.words()
    }

    #[inline(always)]
    fn is_checked(&self, bit: usize) -> bool {
        self.checked.words().load(bit / 64).is_ok_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// Two threads at once may lose one of their bits: then something is checked once more.
    fn set_checked(&self, bit: usize) {
        let words = self.checked.words_mut();
        let old = words.load(bit / 64).unwrap_or(0);
        words.store(bit / 64, old | 1 << (bit % 64), Ordering::Relaxed);
    }

    #[inline(always)]
    fn own(&self, rank: u32) -> Option<&Own> {
        self.own.get().filter(|own| own.rank == rank)
    }

    #[inline(always)]
    fn record(&self, kind: Owner, owner: u32, word: usize, bit: usize) -> Result<Record<RawWords<'_>>, Malformed> {
        let record = Record::in_info(self.words(), word, kind, owner)?;
        if !self.is_checked(bit) {
            record.check()?;
            self.set_checked(bit);
        }
        Ok(record)
    }

    /// The value that a record has.
    #[inline(never)]
    fn in_record<'a>(
        &'a self,
        asked: &Asked<'_>,
        (kind, owner): (Owner, u32),
        word: usize,
        bit: usize,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        if let Some(entry) = self.record(kind, owner, word, bit)?.find(asked.query)? {
            *found = Some(RawValue::of_entry(self.words(), &entry));
        }
        Ok(())
    }

    /// The same of a record that a table leads to, if it does: the place of its entry there, and its word.
    #[inline]
    fn in_table<'a>(
        &'a self,
        asked: &Asked<'_>,
        whose: (Owner, u32),
        record: Option<(u32, u32)>,
        bits: usize,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        match record {
            Some((place, word)) => self.in_record(asked, whose, word as usize, bits + place as usize, found),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn asked<'a>(&self, query: &'a Query<'a>, derived: Option<Derived>) -> Result<Asked<'a>, Malformed> {
        let seen = |slot: u32| self.is_checked(slot as usize);
        let entry = self.index.keys.find(&self.words(), query, seen, |slot| self.set_checked(slot as usize))?;
        let mut places = entry.places.and(derived.map_or(Places::default(), Derived::places));
        if entry.column().is_some() {
            places = places.and(Places::PROCESSES);
        }
        Ok(Asked { query, entry, derived, places })
    }

    /// Node of a rank, and its place there.
    #[inline]
    pub(super) fn node_of(&self, rank: Rank) -> Result<Option<(u32, u32)>, Malformed> {
        match self.own(rank.0) {
            Some(own) => Ok(own.node),
            None => self.index.nodes.place(&self.words(), rank.0),
        }
    }

    /// Application of a rank, and its place there.
    #[inline]
    pub(super) fn app_of(&self, rank: Rank) -> Result<Option<(u32, u32)>, Malformed> {
        match self.own(rank.0) {
            Some(own) => Ok(own.app),
            None => self.index.apps.place(&self.words(), rank.0),
        }
    }

    pub(super) fn number(&self, group: Group, index: u32) -> Result<Option<u32>, Malformed> {
        self.index.number(&self.words(), group, index)
    }

    /// Ranks of the own node, in order.
    pub(super) fn own_ranks(&self) -> Result<Vec<Rank>, Malformed> {
        let mut ranks = Vec::new();
        let own = self.index.own_node();
        self.index.nodes.pieces(&self.words(), own, |first, count| ranks.extend((first..first + count).map(Rank)))?;
        Ok(ranks)
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
        if asked.entry.places.has(Places::PROCESSES) {
            let record = match self.own(rank.0) {
                Some(own) => own.record,
                None => self.index.process_records().find(&self.words(), rank.0.into())?,
            };
            self.in_table(asked, (Owner::Process, rank.0), record, self.bits[4], found)?;
            if found.is_some() {
                return Ok(());
            }
        }
        let words = self.words();
        let mut next = asked.entry.column();
        // A damaged chain could be endless.
        for _ in 0..self.index.columns() {
            let Some(index) = next else { break };
            let bit = self.bits[0] + index as usize;
            let seen = self.is_checked(bit);
            let column = self.index.column(&words, index, seen)?;
            if !seen {
                self.set_checked(bit);
            }
            let value = match self.own(rank.0).and_then(|own| own.row) {
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
            return Ok(RawValue::of_scalar(words, data_type, value));
        }
        let (at, len) = self.index.string(&words, value)?;
        if let Some(last) = len.checked_sub(1)
            && words.load(at + last / 8)? >> (last % 8 * 8) & 0xff != 0
        {
            // Without its NUL it is none, and a C program would read on.
            return Err(Malformed::Checksum);
        }
        Ok(RawValue::of_string(words, data_type, at, len))
    }

    #[inline(always)]
    fn scalar(&self, data_type: DataType, value: u32) -> Option<RawValue<'_>> {
        Some(RawValue::of_scalar(self.words(), data_type, value.into()))
    }

    fn derived_of_process<'a>(
        &'a self,
        derived: Derived,
        rank: Rank,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        let place = |place: Option<(u32, u32)>| place.map(|(_, place)| place);
        *found = match derived {
            Derived::Rank => self.scalar(DataType::PROC_RANK, rank.0),
            Derived::LocalRank | Derived::NodeRank => place(self.node_of(rank)?)
                .filter(|place| *place <= u16::MAX.into())
                .and_then(|place| self.scalar(DataType::UINT16, place)),
            Derived::AppRank => place(self.app_of(rank)?).and_then(|place| self.scalar(DataType::PROC_RANK, place)),
            Derived::GlobalRank => self.scalar(DataType::PROC_RANK, rank.0.saturating_add(self.index.offset())),
            Derived::NodeNumber => match self.node_of(rank)? {
                Some((node, _)) => self.number(Group::Nodes, node)?.and_then(|n| self.scalar(DataType::UINT32, n)),
                None => None,
            },
            Derived::AppNumber => match self.app_of(rank)? {
                Some((app, _)) => self.number(Group::Apps, app)?.and_then(|n| self.scalar(DataType::UINT32, n)),
                None => None,
            },
            _ => None,
        };
        Ok(())
    }

    #[inline]
    fn of_job<'a>(&'a self, asked: &Asked<'_>, found: &mut Option<RawValue<'a>>) -> Result<(), Malformed> {
        if asked.entry.places.has(Places::JOB) {
            self.in_record(asked, (Owner::Job, 0), self.index.job_word(), self.bits[5], found)?;
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
        self.in_table(asked, (Owner::Session, index), record, self.bits[3], found)
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
            return match self.index.own_node_word().filter(|_| asked.entry.places.has(Places::OWN_NODE)) {
                Some(word) => self.in_record(asked, (Owner::Node, index), word, self.bits[5] + 1, found),
                None => Ok(()),
            };
        }
        if asked.entry.places.has(Places::NODES) {
            let record = self.index.records(Group::Nodes).find(&self.words(), index.into())?;
            self.in_table(asked, (Owner::Node, index), record, self.bits[1], found)?;
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
            self.in_table(asked, (Owner::App, index), record, self.bits[2], found)?;
        }
        match asked.derived {
            Some(derived) if found.is_none() => self.derived_of_app(derived, index, found),
            _ => Ok(()),
        }
    }

    fn derived_of_node<'a>(
        &'a self,
        derived: Derived,
        node: u32,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        if node >= self.index.count(Group::Nodes) {
            return Ok(());
        }
        let words = self.words();
        let text = |word, what, len| RawValue::of_text(self, DataType::STRING, word, what, len + 1);
        *found = match derived {
            Derived::NodeNumber => self.number(Group::Nodes, node)?.and_then(|n| self.scalar(DataType::UINT32, n)),
            Derived::HostName => self.index.names.name(&words, node)?.map(|name| match name.pack() {
                Some((word, packed)) => text(word, Text::Name.with(packed), name.len()),
                None => text(0, Text::HostName.of(node), name.len()),
            }),
            Derived::LocalSize => {
                let (size, _) = self.index.nodes.size(&words, node)?;
                if size > 0 { self.scalar(DataType::UINT32, size) } else { None }
            }
            Derived::LocalLeader => {
                let (_, leader) = self.index.nodes.size(&words, node)?;
                leader.and_then(|leader| self.scalar(DataType::PROC_RANK, leader))
            }
            Derived::LocalPeers => {
                let mut len = Count::default();
                match self.index.nodes.in_a_row(&words, node)? {
                    Some((first, count)) => {
                        texts::ranks_in_a_row(first, count, &mut len);
                        Some(text(first as usize, Text::RanksInARow.of(count), len.0))
                    }
                    None => {
                        texts::ranks(&self.index.nodes, &words, node, &mut len)?;
                        (len.0 > 0).then(|| text(0, Text::LocalPeers.of(node), len.0))
                    }
                }
            }
            _ => None,
        };
        Ok(())
    }

    fn derived_of_app<'a>(
        &'a self,
        derived: Derived,
        app: u32,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        if app >= self.index.count(Group::Apps) {
            return Ok(());
        }
        let size = || self.index.apps.size(&self.words(), app);
        *found = match derived {
            Derived::AppNumber => self.number(Group::Apps, app)?.and_then(|n| self.scalar(DataType::UINT32, n)),
            Derived::AppSize => self.scalar(DataType::UINT32, size()?.0),
            Derived::AppLeader => size()?.1.and_then(|leader| self.scalar(DataType::PROC_RANK, leader)),
            _ => None,
        };
        Ok(())
    }

    fn derived_of_job(&self, derived: Derived) -> Option<RawValue<'_>> {
        let (text, what) = match derived {
            Derived::NodeList => (self.index.text(0)?, Text::NodeList),
            Derived::ProcMap => (self.index.text(2)?, Text::ProcMap),
            _ => return None,
        };
        Some(RawValue::of_text(self, DataType(text.data_type), 0, what.of(text.form.into()), text.len as usize))
    }

    /// Writes a computed text without what ends it.
    #[inline]
    fn write(&self, value: &RawValue<'_>, sink: &mut impl Sink) -> Result<(), Malformed> {
        let (words, index, (word, what)) = (self.words(), &self.index, value.what());
        let node = (what >> 8) as u32;
        match Text::ALL.get((what & 0xff) as usize) {
            Some(Text::Name) => {
                Name::unpack(word, what >> 8, value.len() - 1)?.write(&words, |piece, len| sink.put_short(piece, len))
            }
            Some(Text::RanksInARow) => {
                texts::ranks_in_a_row(word as u32, node, sink);
                Ok(())
            }
            Some(Text::HostName) => match index.names.name(&words, node)? {
                Some(name) => name.write(&words, |piece, len| sink.put_short(piece, len)),
                None => Err(Malformed::Table),
            },
            Some(Text::LocalPeers) => texts::ranks(&index.nodes, &words, node, sink),
            Some(Text::NodeList) => {
                let used = (node != 0).then_some(&index.nodes);
                texts::node_list(&index.names, used, &words, index.count(Group::Nodes), sink)
            }
            _ => {
                let form = *FORMS.get(node as usize).ok_or(Malformed::Table)?;
                texts::proc_map(&index.nodes, &words, index.count(Group::Nodes), form, sink)
            }
        }
    }

    /// Writes a computed text, with its NUL if it is a string. Every byte of `to` is written.
    pub(super) fn write_text(
        &self,
        value: &RawValue<'_>,
        to: &mut [std::mem::MaybeUninit<u8>],
    ) -> Result<(), Malformed> {
        let mut fill = Fill { to, at: 0 };
        let written = self.write(value, &mut fill);
        let rest = &mut fill.to[fill.at..];
        let whole = rest.len() <= usize::from(value.data_type() == DataType::STRING);
        rest.iter_mut().for_each(|byte| {
            byte.write(0);
        });
        written.and(if whole { Ok(()) } else { Err(Malformed::Table) })
    }

    /// The same as a vector.
    pub(super) fn text(&self, value: &RawValue<'_>) -> Result<Vec<u8>, Malformed> {
        let mut text = Vec::with_capacity(value.len());
        self.write(value, &mut text)?;
        if value.data_type() == DataType::STRING {
            text.push(0);
        }
        if text.len() == value.len() { Ok(text) } else { Err(Malformed::Table) }
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
            if let Some((word, len, _)) = self.index.keys.key(&self.words(), slot)? {
                known.push(self.words().to_vec(word, len)?);
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

/// At most so much of what all processes read is mapped at once: whoever put more there does not look it all up.
const FRONT: usize = 8 << 10;

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

/// A text that is computed.
#[derive(Clone, Copy)]
enum Text {
    /// Of a node; [`Name`] without looking for it again.
    HostName,
    Name,
    /// Of a node; where they follow one another, without looking for them again.
    LocalPeers,
    RanksInARow,
    NodeList,
    ProcMap,
}

impl Text {
    const ALL: [Self; 6] =
        [Self::HostName, Self::Name, Self::LocalPeers, Self::RanksInARow, Self::NodeList, Self::ProcMap];

    /// It, and of which node or in which form.
    fn of(self, index: u32) -> u64 {
        self.with(index.into())
    }

    /// It, and 56 bits that it means something by.
    fn with(self, bits: u64) -> u64 {
        self as u64 | bits << 8
    }
}
