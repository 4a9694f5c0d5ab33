//! What follows from where processes run: of nodes, applications and processes, and texts that lie nowhere.
//!
//! A text is only counted when it is found. It is written when somebody copies it, straight to where it is wanted.
use std::mem::MaybeUninit;

use instanton_layout::Malformed;
use instanton_layout::info::{Group, Name};

use super::derived::Derived;
use super::encode::RawValue;
use super::info_view::InfoView;
use super::texts::{self, Count, FORMS, Fill, Sink};
use crate::data::{DataType, Rank};

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
    NodeMap,
    ProcMap,
}

impl Text {
    const ALL: [Self; 7] =
        [Self::HostName, Self::Name, Self::LocalPeers, Self::RanksInARow, Self::NodeList, Self::NodeMap, Self::ProcMap];

    /// It, and of which node or in which form.
    fn of(self, index: u32) -> u64 {
        self.with(index.into())
    }

    /// It, and 56 bits that it means something by.
    fn with(self, bits: u64) -> u64 {
        self as u64 | bits << 8
    }
}

impl InfoView {
    #[inline(always)]
    fn scalar(&self, data_type: DataType, value: u32) -> Option<RawValue<'_>> {
        Some(RawValue::of_scalar(self.words().raw(), data_type, value.into()))
    }

    pub(super) fn derived_of_process<'a>(
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

    pub(super) fn derived_of_node<'a>(
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
                let size = self.index.nodes.size(&words, node)?;
                if size > 0 { self.scalar(DataType::UINT32, size) } else { None }
            }
            Derived::LocalLeader => {
                let leader = self.index.nodes.leader(&words, node)?;
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

    pub(super) fn derived_of_app<'a>(
        &'a self,
        derived: Derived,
        app: u32,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        if app >= self.index.count(Group::Apps) {
            return Ok(());
        }
        let (apps, words) = (&self.index.apps, self.words());
        *found = match derived {
            Derived::AppNumber => self.number(Group::Apps, app)?.and_then(|n| self.scalar(DataType::UINT32, n)),
            Derived::AppSize => self.scalar(DataType::UINT32, apps.size(&words, app)?),
            Derived::AppLeader => apps.leader(&words, app)?.and_then(|leader| self.scalar(DataType::PROC_RANK, leader)),
            _ => None,
        };
        Ok(())
    }

    pub(super) fn derived_of_job(&self, derived: Derived) -> Option<RawValue<'_>> {
        let (text, what) = match derived {
            Derived::NodeList => (self.index.text(0)?, Text::NodeList),
            Derived::NodeMap => (self.index.text(1)?, Text::NodeMap),
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
            Some(Text::NodeMap) => {
                let form = FORMS.get(node as usize).ok_or(Malformed::Table)?;
                sink.put(form.opening());
                texts::node_list(&index.names, None, &words, index.count(Group::Nodes), sink)?;
                sink.put(form.closing());
                Ok(())
            }
            _ => {
                let form = *FORMS.get(node as usize).ok_or(Malformed::Table)?;
                texts::proc_map(&index.nodes, &words, index.count(Group::Nodes), form, sink)
            }
        }
    }

    /// Writes a computed text, with its NUL if it is a string. Every byte of `to` is written.
    #[inline(never)]
    pub(super) fn write_text(&self, value: &RawValue<'_>, to: &mut [MaybeUninit<u8>]) -> Result<(), Malformed> {
        let mut fill = Fill { rest: to };
        let written = self.write(value, &mut fill);
        let rest = fill.rest;
        let whole = rest.len() <= usize::from(value.data_type() == DataType::STRING);
        match rest {
            [last] => {
                last.write(0);
            }
            rest => rest.fill(MaybeUninit::new(0)),
        }
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
}
