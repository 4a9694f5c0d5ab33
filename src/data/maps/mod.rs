//! Map expressions: which nodes a job has (`NODE_MAP`), and which ranks each of them runs (`PROC_MAP`).
//!
//! A host writes them, mostly through `PMIx_generate_regex` and `PMIx_generate_ppn`, and every reader takes them apart
//! again. An expression names its method first:
//!
//! | text | what it is |
//! |---|---|
//! | `node1,node[2-4]` | a plain list |
//! | `raw:node1,node2` | the same, said explicitly |
//! | `pmix[node[1:1-4]]` | in brackets: what released libraries write, and what [`Form::Bracket`] writes; `1:` is the number of digits |
//! | `pmix:node[1-4]`, `pmix:2x(3);8,10-12` | behind a colon: what the Standard's text shows |
//! | `blob:` and binary data | compressed by another implementation: refused with `ERR_NOT_SUPPORTED` |
//!
//! Within any of them a list has the same grammar, and ranges may stand in any. Leading zeros, what stands before and
//! behind the digits, and the order of names are kept. Nothing is expanded while it is parsed: a map stays as many
//! ranges as were written and hands out names and ranks one by one, so an expression of a few bytes that stands for
//! billions costs nothing and is refused by [`Limits`].
//!
//! ```
//! use instanton::data::maps::{Form, NodeMap, ProcMap};
//! let nodes = NodeMap::from_names(["odin009.org", "odin010.org", "odin011.org"])?;
//! assert_eq!(nodes.to_text(Form::Bracket), b"pmix[odin[3:9-11].org]");
//! assert_eq!(nodes.to_text(Form::Colon), b"pmix:odin[009-011].org");
//! assert_eq!(NodeMap::parse(b"pmix:odin[009-011].org")?.name(1).unwrap(), b"odin010.org");
//!
//! let procs = ProcMap::parse(b"raw:0,1,2,3,4;5;6;7")?;
//! assert_eq!(procs.to_text(Form::Bracket), b"pmix[0-4;5;6;7]");
//! assert_eq!(procs.ranks(1).collect::<Vec<_>>(), [5]);
//! # Ok::<(), instanton::data::maps::MapError>(())
//! ```
mod element;
mod nodes;
mod procs;
mod row;
mod run;
mod scan;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter};

use super::Status;

pub use nodes::{NodeMap, check_node};
pub(crate) use procs::RangesOfNodes;
pub use procs::{ProcMap, RankRange};
pub(crate) use row::NameRow;

/// Form of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `node1,node2`: every name, every range of ranks, no method.
    Plain,
    /// `raw:node1,node2`.
    Raw,
    /// `pmix[node[1:1-2]]`, the form that every library reads.
    Bracket,
    /// `pmix:node[1-2]`, the Standard's.
    Colon,
}

impl Form {
    /// Returns the beginning of an expression of this form.
    pub(crate) fn opening(self) -> &'static [u8] {
        match self {
            Form::Plain => b"",
            Form::Raw => b"raw:",
            Form::Bracket => b"pmix[",
            Form::Colon => b"pmix:",
        }
    }

    /// Returns the end of an expression of this form.
    pub(crate) fn closing(self) -> &'static [u8] {
        if self == Form::Bracket { b"]" } else { b"" }
    }
}

/// Limits on the contents of a map. The defaults are far above any machine; a host that is larger can raise them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of an expression.
    pub text: usize,
    /// Nodes.
    pub nodes: usize,
    /// Bytes of a node's name.
    pub name: usize,
    /// Ranks on all nodes together.
    pub ranks: u64,
}

impl Limits {
    /// Bytes of an expression.
    pub const TEXT: usize = 64 << 20;
    /// Nodes.
    pub const NODES: usize = 1 << 20;
    /// Bytes of a node's name: `HOST_NAME_MAX` is 64, a domain name has at most 253.
    pub const NAME: usize = 255;
    /// Ranks on all nodes together.
    pub const RANKS: u64 = 1 << 28;

    /// For what was within limits already.
    const NONE: Limits = Limits { text: usize::MAX, nodes: usize::MAX, name: usize::MAX, ranks: u64::MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: Self::TEXT, nodes: Self::NODES, name: Self::NAME, ranks: Self::RANKS }
    }
}

/// Quantity that [`Limits`] limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the field of the same name")]
pub enum Limit {
    Text,
    Nodes,
    Name,
    Ranks,
}

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Text => "bytes of text",
            Limit::Nodes => "nodes",
            Limit::Name => "bytes in a node's name",
            Limit::Ranks => "ranks",
        })
    }
}

/// Reason why an expression is no map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Written by a method that only the library that wrote it can read.
    #[error("a map of the method `{method}`, which only its author can read")]
    Method {
        /// The method.
        method: &'static str,
    },
    /// The expression breaks the grammar.
    #[error("a map expression with {what} at byte {at}")]
    Syntax {
        /// Fault of the expression.
        what: &'static str,
        /// Place of the fault, counted from the beginning of the expression.
        at: usize,
    },
    /// The expression stands for more than was allowed.
    #[error("a map of more than {max} {limit}")]
    TooLarge {
        /// Quantity that is limited.
        limit: Limit,
        /// Largest quantity that it allows.
        max: u64,
    },
    /// The text cannot be the name of a node: empty, or with a byte that means something in expressions.
    #[error("`{}` cannot be the name of a node", .name.escape_ascii())]
    Name {
        /// The name.
        name: Vec<u8>,
    },
    /// The rank is one of the special ones.
    #[error("{rank} is the rank of no process")]
    Rank {
        /// The rank.
        rank: u32,
    },
}

impl MapError {
    /// The status for whoever passed the expression.
    pub fn status(&self) -> Status {
        match self {
            MapError::Method { .. } => Status::ERR_NOT_SUPPORTED,
            MapError::TooLarge { .. } => Status::ERR_OUT_OF_RESOURCE,
            MapError::Syntax { .. } | MapError::Name { .. } | MapError::Rank { .. } => Status::ERR_BAD_PARAM,
        }
    }
}
