//! Job information: written to a segment once for each generation, and mapped by every process of the job.
//!
//! [`build`] turns what a host gave into the words of a segment. A [`generation::Generation`] is such a segment,
//! mapped; it writes the texts that follow from placement when they are read.
pub(super) mod build;
pub(super) mod checked;
pub(super) mod generation;
pub(super) mod known_keys;
pub(super) mod text;
