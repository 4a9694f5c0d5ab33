//! Values that follow from where processes run: of processes, nodes, applications and the job.
use instanton_layout::Malformed;
use instanton_layout::info::Group;

use super::view::InfoView;
use crate::data::{DataType, Rank};
use crate::store::info::known_keys::Derived;
use crate::store::info::text::Text;
use crate::store::texts::{self, Count};
use crate::store::value_cell::ValueCell;

#[inline(always)]
fn scalar(data_type: DataType, value: u32) -> Option<ValueCell> {
    Some(ValueCell::of_scalar(data_type, value.into()))
}

impl InfoView {
    pub(super) fn derived_of_process(
        &self,
        derived: Derived,
        rank: Rank,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        let place = |place: Option<(u32, u32)>| place.map(|(_, place)| place);
        *found = match derived {
            Derived::Rank => scalar(DataType::PROC_RANK, rank.0),
            Derived::LocalRank | Derived::NodeRank => place(self.node_of(rank)?)
                .filter(|place| *place <= u16::MAX.into())
                .and_then(|place| scalar(DataType::UINT16, place)),
            Derived::AppRank => place(self.app_of(rank)?).and_then(|place| scalar(DataType::PROC_RANK, place)),
            Derived::GlobalRank => scalar(DataType::PROC_RANK, rank.0.saturating_add(self.generation.index.offset())),
            Derived::NodeNumber => match self.node_of(rank)? {
                Some((node, _)) => self.number(Group::Nodes, node)?.and_then(|n| scalar(DataType::UINT32, n)),
                None => None,
            },
            Derived::AppNumber => match self.app_of(rank)? {
                Some((app, _)) => self.number(Group::Apps, app)?.and_then(|n| scalar(DataType::UINT32, n)),
                None => None,
            },
            _ => None,
        };
        Ok(())
    }

    pub(super) fn derived_of_node(
        &self,
        derived: Derived,
        node: u32,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        if node >= self.generation.index.count(Group::Nodes) {
            return Ok(());
        }
        let words = self.words();
        let text = |word, what, len| ValueCell::of_text(DataType::STRING, word, what, len + 1);
        *found = match derived {
            Derived::NodeNumber => self.number(Group::Nodes, node)?.and_then(|n| scalar(DataType::UINT32, n)),
            Derived::HostName => self.generation.index.names.name(&words, node)?.map(|name| match name.pack() {
                Some((word, packed)) => text(word, Text::Name.with(packed), name.len()),
                None => text(0, Text::HostName.of(node), name.len()),
            }),
            Derived::LocalSize => {
                let size = self.generation.index.nodes.size(&words, node)?;
                if size > 0 { scalar(DataType::UINT32, size) } else { None }
            }
            Derived::LocalLeader => {
                let leader = self.generation.index.nodes.leader(&words, node)?;
                leader.and_then(|leader| scalar(DataType::PROC_RANK, leader))
            }
            Derived::LocalPeers => {
                let mut len = Count::default();
                match self.generation.index.nodes.in_a_row(&words, node)? {
                    Some((first, count)) => {
                        texts::ranks_in_a_row(first, count, &mut len);
                        Some(text(first as usize, Text::RanksInARow.of(count), len.0))
                    }
                    None => {
                        texts::ranks(&self.generation.index.nodes, &words, node, &mut len)?;
                        (len.0 > 0).then(|| text(0, Text::LocalPeers.of(node), len.0))
                    }
                }
            }
            _ => None,
        };
        Ok(())
    }

    pub(super) fn derived_of_app(
        &self,
        derived: Derived,
        app: u32,
        found: &mut Option<ValueCell>,
    ) -> Result<(), Malformed> {
        if app >= self.generation.index.count(Group::Apps) {
            return Ok(());
        }
        let (apps, words) = (&self.generation.index.apps, self.words());
        *found = match derived {
            Derived::AppNumber => self.number(Group::Apps, app)?.and_then(|n| scalar(DataType::UINT32, n)),
            Derived::AppSize => scalar(DataType::UINT32, apps.size(&words, app)?),
            Derived::AppLeader => apps.leader(&words, app)?.and_then(|leader| scalar(DataType::PROC_RANK, leader)),
            _ => None,
        };
        Ok(())
    }

    pub(super) fn derived_of_job(&self, derived: Derived) -> Option<ValueCell> {
        let (text, what) = match derived {
            Derived::NodeList => (self.generation.index.text(0)?, Text::NodeList),
            Derived::NodeMap => (self.generation.index.text(1)?, Text::NodeMap),
            Derived::ProcMap => (self.generation.index.text(2)?, Text::ProcMap),
            _ => return None,
        };
        Some(ValueCell::of_text(DataType(text.data_type), 0, what.of(text.form.into()), text.len as usize))
    }
}
