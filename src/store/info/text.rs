//! Texts that follow from placement and lie nowhere: a reader counts one when it finds it, and writes it straight to
//! where it is wanted.
use std::mem::MaybeUninit;

use instanton_layout::Malformed;
use instanton_layout::info::{Group, Name};

use super::generation::Generation;
use crate::data::DataType;
use crate::data::archive::MAX_LEN;
use crate::store::texts::{self, FORMS, Fill, Sink};
use crate::store::value_cell::ValueCell;

/// A text that is computed.
#[derive(Clone, Copy)]
pub(in crate::store) enum Text {
    /// The name of a node, by its index.
    HostName,
    /// A packed name, which need not be looked for again.
    Name,
    /// The ranks of a node, by its index.
    LocalPeers,
    /// The ranks of a node that follow one another, which need not be looked for again.
    RanksInARow,
    NodeList,
    NodeMap,
    ProcMap,
}

impl Text {
    const ALL: [Self; 7] =
        [Self::HostName, Self::Name, Self::LocalPeers, Self::RanksInARow, Self::NodeList, Self::NodeMap, Self::ProcMap];

    /// The number of the text, with the node or the form that it is about.
    pub(in crate::store) fn of(self, index: u32) -> u64 {
        self.with(index.into())
    }

    /// The number of the text, with 56 bits of its own.
    pub(in crate::store) fn with(self, bits: u64) -> u64 {
        self as u64 | bits << 8
    }
}

impl Generation {
    /// Writes a computed text without its NUL.
    #[inline]
    fn write(&self, cell: &ValueCell, sink: &mut impl Sink) -> Result<(), Malformed> {
        let (words, index, word, what) = (self.words(), &self.index, cell.word, cell.scalar);
        let node = (what >> 8) as u32;
        match Text::ALL.get((what & 0xff) as usize) {
            Some(Text::Name) => {
                Name::unpack(word, what >> 8, cell.len - 1)?.write(&words, |piece, len| sink.put_short(piece, len))
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
    pub(in crate::store) fn write_text(&self, cell: &ValueCell, to: &mut [MaybeUninit<u8>]) -> Result<(), Malformed> {
        let mut fill = Fill { rest: to };
        let written = self.write(cell, &mut fill);
        let rest = fill.rest;
        let whole = rest.len() <= usize::from(cell.data_type() == DataType::STRING);
        match rest {
            [last] => {
                last.write(0);
            }
            rest => rest.fill(MaybeUninit::new(0)),
        }
        written.and(if whole { Ok(()) } else { Err(Malformed::Table) })
    }

    /// A computed text as a vector, with its NUL if it is a string.
    pub(in crate::store) fn text(&self, cell: &ValueCell) -> Result<Vec<u8>, Malformed> {
        // A damaged segment may claim any length.
        let mut text = Vec::new();
        let has_room = cell.len <= MAX_LEN && text.try_reserve_exact(cell.len).is_ok();
        if !has_room {
            return Err(Malformed::Table);
        }
        self.write(cell, &mut text)?;
        if cell.data_type() == DataType::STRING {
            text.push(0);
        }
        if text.len() == cell.len { Ok(text) } else { Err(Malformed::Table) }
    }
}
