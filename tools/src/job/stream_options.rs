//! Options of a job's streams: where its output goes and in which form, and which rank has input.
use instanton::data::{Channels, Rank};
use instanton::internal::message::lines::LineFormat;

use crate::files::Files;

/// Tag in front of a line of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    #[default]
    None,
    /// The rank alone.
    Rank,
    /// The rank, with the job's number where that is not the first.
    Short,
    /// The job's name and the rank.
    Full,
    /// Namespace and rank as above, and the name of the machine and the process's number.
    Detailed,
}

/// Wishes for the streams of a job: those of the process that has started it, over those of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Streams that its parent will pull.
    pub output: Channels,
    /// The rank that has input; a wildcard for all. A parent pushes it, and the first job reads the command's own.
    pub input: Option<Rank>,
    /// Tag in front of each line.
    pub tags: Tags,
    /// Form of the line besides.
    pub format: LineFormat,
    /// True if both streams are one.
    pub is_merged: bool,
    /// True if a line is shown as it is written, in pieces.
    pub is_raw: bool,
    /// Files that they go to.
    pub files: Files,
}

impl StreamOptions {
    /// Returns whether input is pushed to a rank.
    pub fn has_input(&self, rank: u32) -> bool {
        self.input.is_some_and(|input| input == Rank::WILDCARD || input == Rank(rank))
    }

    /// These wishes, and those of `base` where they are silent.
    pub fn over(&self, base: &Self) -> Self {
        Self {
            tags: if self.tags == Tags::None { base.tags } else { self.tags },
            format: LineFormat {
                stamps: self.format.stamps || base.format.stamps,
                is_xml: self.format.is_xml || base.format.is_xml,
            },
            is_merged: self.is_merged || base.is_merged,
            is_raw: self.is_raw || base.is_raw,
            files: if self.files == Files::default() { base.files.clone() } else { self.files.clone() },
            ..self.clone()
        }
    }
}
