//! Job information as values, for those who map nothing.
//!
//! It is read by any thread, for as long as that wants: a generation never changes. A look-up of a key for every rank
//! or node is planned once for all of them.
use std::ops::ControlFlow;
use std::sync::Arc;

use instanton_layout::Malformed;
use instanton_layout::info::{Group, Places};
use instanton_layout::key::HashedKey;

use super::key_plan::{KeyPlan, NODE, Planned};
use super::raw_value::RawValue;
use super::reader::JobReader;
use super::view::InfoView;
use crate::data::{DataArray, Info, Key, Rank, Value, keys};
use crate::store::error::ReadError;
use crate::store::info::known_keys::{self, Derived};
use crate::store::value_cell::ValueCell;

/// One generation of a job's information.
pub struct JobValues {
    view: Arc<InfoView>,
}

/// A key, with where its values are.
struct Sought {
    key: Key,
    plan: KeyPlan,
}

/// Callback for what is said of a rank, a node or an application; it says whether to go on.
type Each<'a> = &'a mut dyn FnMut(Vec<Info>) -> ControlFlow<()>;

impl JobReader {
    /// The generation of job information that is mapped now.
    pub fn values(&self) -> Option<JobValues> {
        Some(JobValues { view: self.maps().view.clone()? })
    }
}

impl JobValues {
    /// Processes of the job.
    pub fn ranks(&self) -> u32 {
        self.view.generation.index.ranks()
    }

    /// Values of the job and of its session, of the own node, and of the only application.
    ///
    /// # Errors
    /// When the segment is damaged.
    pub fn of_job(&self) -> Result<Vec<Info>, ReadError> {
        let mut all = Vec::new();
        self.view.all(Rank::WILDCARD, |key, value| {
            let key = Key::new(key).map_err(|_| ReadError::from(Malformed::Owner))?;
            all.push(Info { key, flags: 0, value: value.to_value()? });
            Ok(())
        })?;
        let said = |key: &str| all.iter().find(|info: &&Info| info.key == *key).map(|info| info.value.clone());
        if let Some(slots) = said(keys::UNIV_SIZE) {
            let id = said(keys::SESSION_ID).unwrap_or(Value::Uint32(0));
            let entries = vec![Info::new(keys::SESSION_ID, id), Info::new(keys::UNIV_SIZE, slots)];
            all.push(Info::new(keys::SESSION_INFO_ARRAY, DataArray::of_info(entries)));
        }
        Ok(all)
    }

    /// Gives what is said of each node; of the own one alone where the others are not wanted.
    ///
    /// # Errors
    /// When the segment is damaged.
    pub fn of_nodes(&self, others: bool, each: Each<'_>) -> Result<(), ReadError> {
        let own = self.view.generation.index.own_node();
        let nodes = if others { 0..self.view.generation.index.count(Group::Nodes) } else { own..own + 1 };
        let sought = self.sought(NODE, &known_keys::OF_NODE)?;
        self.of_each(&sought, nodes, |planned, node, found| self.view.of_node(planned, node, found), each)
    }

    /// Gives what is said of each application.
    ///
    /// # Errors
    /// When the segment is damaged.
    pub fn of_apps(&self, each: Each<'_>) -> Result<(), ReadError> {
        let sought = self.sought(Places::APPS, &known_keys::OF_APP)?;
        let apps = 0..self.view.generation.index.count(Group::Apps);
        self.of_each(&sought, apps, |planned, app, found| self.view.of_app(planned, app, found), each)
    }

    /// Gives what is said of each of these ranks.
    ///
    /// # Errors
    /// When the segment is damaged.
    pub fn of_ranks(&self, ranks: &mut dyn Iterator<Item = Rank>, each: Each<'_>) -> Result<(), ReadError> {
        let sought = self.sought(Places::PROCESSES, &known_keys::OF_PROCESS)?;
        let find = |planned: &Planned<'_>, rank, found: &mut _| {
            self.view.of_process(planned, Rank(rank), found)?;
            match (planned.plan.derived, &found) {
                (Some(Derived::HostName), None) => match self.view.node_of(Rank(rank))? {
                    Some((node, _)) => self.view.of_node(planned, node, found),
                    None => Ok(()),
                },
                _ => Ok(()),
            }
        };
        let known = self.ranks();
        self.of_each(&sought, ranks.map(|rank| rank.0).filter(|rank| *rank < known), find, each)
    }

    /// The keys that the places can have, given or computed.
    fn sought(&self, places: Places, computed: &[&str]) -> Result<Vec<Sought>, ReadError> {
        let mut sought: Vec<Sought> = Vec::new();
        for key in self.view.keys(&[computed])? {
            let plan = self.view.plan(&HashedKey::new(&key))?;
            let key = Key::new(key).map_err(|_| ReadError::from(Malformed::Owner))?;
            if plan.places.has(places) || computed.iter().any(|computed| key == **computed) {
                sought.push(Sought { key, plan });
            }
        }
        Ok(sought)
    }

    fn of_each(
        &self,
        sought: &[Sought],
        members: impl Iterator<Item = u32>,
        find: impl Fn(&Planned<'_>, u32, &mut Option<ValueCell>) -> Result<(), Malformed>,
        each: Each<'_>,
    ) -> Result<(), ReadError> {
        let hashed: Vec<HashedKey<'_>> = sought.iter().map(|sought| HashedKey::new(sought.key.as_bytes())).collect();
        for member in members {
            let mut said = Vec::new();
            for (Sought { key, plan }, hashed) in sought.iter().zip(&hashed) {
                let mut found = None;
                find(&Planned { key: hashed, plan }, member, &mut found)?;
                if let Some(cell) = found {
                    let value = RawValue::of_info(&self.view.generation, &cell).to_value()?;
                    said.push(Info { key: key.clone(), flags: 0, value });
                }
            }
            if each(said).is_break() {
                break;
            }
        }
        Ok(())
    }
}
