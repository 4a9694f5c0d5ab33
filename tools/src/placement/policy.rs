//! Policies of placement, as the options of a run and the attributes of a spawn say them in words.
use std::path::PathBuf;

use super::machine::{Kind, numbers};
use crate::choice::choose;

/// Mapping of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Ranks one after the other, to the whole machine.
    #[default]
    Slot,
    /// To the objects of a kind, in turn.
    By(Kind),
    /// So many to each object of a kind.
    PerObject(u32, Kind),
    /// Onto these cores or hardware threads: each rank onto all of them, or in turn.
    Units(Vec<u32>),
    /// As a file says, a rank a line.
    Sequence,
    /// As a file says of each rank.
    RankFile,
}

/// Numbering of ranks that are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were mapped.
    #[default]
    Mapped,
    /// All of a node before those of the next.
    Slot,
    /// All of an object before those of the next.
    Fill,
    /// One rank of each node in turn.
    Node,
    /// One rank of each object of all nodes in turn.
    Span,
    /// One on each object of this kind in turn, whatever they were mapped to.
    Objects(Kind, Turn),
}

/// Objects among which one turn goes on until all ranks on them are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// Those of one node, before those of the next.
    #[default]
    Node,
    /// Those of all nodes.
    Span,
    /// A single one, before the next.
    Fill,
}

/// Binding of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The objects; none to run anywhere, and nothing where the mapping decides.
    pub to: Option<Option<Kind>>,
    /// True if ranks may share.
    pub overloads: bool,
    /// True if they run unbound where it cannot be done.
    pub if_supported: bool,
}

/// A policy of placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub mapping: Mapping,
    /// Cores, or hardware threads, that each rank is bound to.
    pub per_rank: Option<u32>,
    /// True if a hardware thread counts as a processor, instead of a core.
    pub by_thread: bool,
    /// True if the objects of all nodes are gone through as if they were of one.
    pub spans: bool,
    /// True if more ranks than slots are refused.
    pub no_oversubscribe: bool,
    /// File of a sequence or of ranks.
    pub file: Option<PathBuf>,
    /// True if each rank has one of the units that were listed, in their order.
    pub is_ordered: bool,
    pub order: Order,
    pub binding: Binding,
}

/// Marks between qualifiers: `prterun` has colons there, `mpirun` commas too.
const BETWEEN: [char; 2] = [':', ','];

/// Directives of a mapping, besides `ppr:` and `pe-list=`.
const DIRECTIVES: [&str; 13] = [
    "slot", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package", "socket", "node", "seq",
    "rankfile", "board",
];
/// Qualifiers of a mapping.
const QUALIFIERS: [&str; 12] = [
    "pe",
    "span",
    "oversubscribe",
    "nooversubscribe",
    "nolocal",
    "hwtcpus",
    "corecpus",
    "inherit",
    "noinherit",
    "file",
    "ordered",
    "overload-allowed",
];
/// Objects of a binding.
const OBJECTS: [&str; 9] = ["none", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package", "socket"];

/// The kind of a word that is one of the above.
fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "hwthread" => Kind::Thread,
        "core" => Kind::Core,
        "l1cache" => Kind::L1,
        "l2cache" => Kind::L2,
        "l3cache" => Kind::L3,
        "numa" => Kind::Numa,
        "package" | "socket" => Kind::Package,
        "node" => Kind::Node,
        _ => return None,
    })
}

/// A number that is more than nothing.
fn count(word: &str) -> Result<u32, String> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{word:?} is no number of processes or processors"))
}

impl Policy {
    /// Returns whether a file says where ranks are.
    pub fn reads_file(&self) -> bool {
        matches!(self.mapping, Mapping::Sequence | Mapping::RankFile)
    }

    /// Takes a mapping in: `core`, `ppr:2:package:pe=2`, `pe-list=0,2:ordered`, `:oversubscribe`.
    ///
    /// # Errors
    /// A line that names the word that is wrong.
    pub fn map_by(&mut self, text: &str) -> Result<(), String> {
        let (first, mut rest) = text.split_once(':').unwrap_or((text, ""));
        let lower = first.to_ascii_lowercase();
        if lower == "ppr" {
            let (number, object) = rest.split_once(':').unwrap_or((rest, ""));
            let (object, qualifiers) = object.split_once(BETWEEN).unwrap_or((object, ""));
            if object.is_empty() {
                return Err("ppr has a number and an object, as in ppr:2:package".to_owned());
            }
            rest = qualifiers;
            let object = choose("object", object, &OBJECTS_OF_PPR)?;
            self.mapping = Mapping::PerObject(count(number)?, kind(object).expect("one of a kind"));
        } else if let Some(list) = lower.strip_prefix("pe-list=") {
            let list = numbers(list).ok_or_else(|| format!("{first}: it is a list as in pe-list=0-3,8"))?;
            self.mapping = Mapping::Units(list);
        } else if !first.is_empty() {
            self.mapping = match choose("mapping", first, &DIRECTIVES)? {
                "slot" => Mapping::Slot,
                "seq" => Mapping::Sequence,
                "rankfile" => Mapping::RankFile,
                "board" => return Err("board: there is no such object; use package".to_owned()),
                word => Mapping::By(kind(word).expect("one of a kind")),
            };
        }
        // The name of a file may have colons and commas of its own, and is the last then.
        while !rest.is_empty() {
            if let (true, Some(name)) =
                (rest.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("file=")), rest.get(5..))
            {
                self.file = Some(name.into());
                break;
            }
            let (word, others) = rest.split_once(BETWEEN).unwrap_or((rest, ""));
            self.qualify(word)?;
            rest = others;
        }
        Ok(())
    }

    fn qualify(&mut self, qualifier: &str) -> Result<(), String> {
        let (word, value) = qualifier.split_once('=').map_or((qualifier, None), |(word, value)| (word, Some(value)));
        match (choose("qualifier", word, &QUALIFIERS)?, value) {
            ("pe", Some(value)) => self.per_rank = Some(count(value)?),
            ("pe", None) => return Err("pe has no number, as in pe=2".to_owned()),
            ("file", _) => return Err("file has no name, as in file=ranks".to_owned()),
            (word, Some(_)) => return Err(format!("{word} takes no value")),
            ("span", _) => self.spans = true,
            ("oversubscribe", _) => self.no_oversubscribe = false,
            ("nooversubscribe", _) => self.no_oversubscribe = true,
            ("hwtcpus", _) => self.by_thread = true,
            ("corecpus", _) => self.by_thread = false,
            ("ordered", _) => self.is_ordered = true,
            ("overload-allowed", _) => self.binding.overloads = true,
            ("nolocal", _) => return Err("nolocal: there is no machine but this one; leave it out".to_owned()),
            // Jobs inherit anyway.
            _ => {}
        }
        Ok(())
    }

    /// Takes an order in.
    ///
    /// # Errors
    /// A line that names the word that is wrong.
    pub fn rank_by(&mut self, text: &str) -> Result<(), String> {
        const ORDERS: [&str; 12] = [
            "slot", "node", "fill", "span", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package",
            "socket",
        ];
        let mut words = text.split(BETWEEN);
        let word = choose("order", words.next().unwrap_or_default(), &ORDERS)?;
        let mut turn = Turn::default();
        for qualifier in words {
            turn = match choose("qualifier", qualifier, &["span", "fill"])? {
                "span" => Turn::Span,
                _ => Turn::Fill,
            };
        }
        self.order = match word {
            "slot" => Order::Slot,
            "fill" => Order::Fill,
            "span" => Order::Span,
            "node" => Order::Node,
            word => Order::Objects(kind(word).expect("one of a kind"), turn),
        };
        Ok(())
    }

    /// Takes a binding in: `core`, `numa:overload`, `core:if-supported`.
    ///
    /// # Errors
    /// A line that names the word that is wrong.
    pub fn bind_to(&mut self, text: &str) -> Result<(), String> {
        let mut words = text.split(BETWEEN);
        let first = words.next().unwrap_or_default();
        if !first.is_empty() {
            self.binding.to = Some(kind(choose("binding", first, &OBJECTS)?));
        }
        for word in words {
            match choose("qualifier", word, &["overload-allowed", "if-supported", "no-overload"])? {
                "overload-allowed" => self.binding.overloads = true,
                "no-overload" => self.binding.overloads = false,
                _ => self.binding.if_supported = true,
            }
        }
        Ok(())
    }

    /// Returns whether each rank has all units of a list, as with prterun.
    pub fn shares_list(&self) -> bool {
        let is_said = self.binding.to.is_some() || self.per_rank.is_some();
        matches!(self.mapping, Mapping::Units(_)) && !self.is_ordered && !is_said
    }

    /// Returns what a processor is: a core, or a hardware thread where that was said, be it by mapping to them.
    pub fn processor(&self) -> Kind {
        match self.by_thread || self.mapping == Mapping::By(Kind::Thread) {
            true => Kind::Thread,
            false => Kind::Core,
        }
    }

    /// Returns what its ranks are bound to: as is said, or as the mapping needs it.
    pub fn binds(&self) -> Option<Kind> {
        let processor = self.processor();
        match (&self.mapping, self.binding.to) {
            (_, Some(to)) => to,
            (Mapping::Units(_) | Mapping::RankFile, None) => Some(processor),
            _ => self.per_rank.map(|_| processor),
        }
    }

    /// Returns whether it needs to know the machine.
    pub fn needs_machine(&self) -> bool {
        let goes_on = matches!(
            self.mapping,
            Mapping::Slot | Mapping::By(Kind::Node) | Mapping::PerObject(_, Kind::Node) | Mapping::Sequence
        );
        self.binds().is_some() || !goes_on
    }

    /// The words of Open MPI's launchers for its mapping, of which ours say whether slots are exceeded.
    pub fn words(&self) -> String {
        match &self.mapping {
            Mapping::Slot => "BYSLOT".to_owned(),
            Mapping::By(Kind::Node) => "BYNODE".to_owned(),
            Mapping::By(kind) => format!("BY{}", kind.word()),
            Mapping::PerObject(..) => "PPR".to_owned(),
            Mapping::Units(_) => "PELIST".to_owned(),
            Mapping::Sequence => "SEQ".to_owned(),
            Mapping::RankFile => "BYUSER".to_owned(),
        }
    }
}

/// Objects of `ppr:N:OBJECT`.
const OBJECTS_OF_PPR: [&str; 9] =
    ["node", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package", "socket"];
