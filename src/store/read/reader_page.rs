//! The page on which a reader says which epochs it holds.
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use instanton_layout::header::{Header, Kind};

use crate::store::error::AttachError;
use crate::sys::memory::Mapping;
use crate::sys::pin::PinPage;

/// The page on which a process says which epochs it holds, made by the writer
/// ([`crate::store::JobWriter::make_reader_page`]).
pub struct ReaderPage {
    pub(in crate::store) job: u64,
    pub(super) page: Arc<PinPage>,
}

impl ReaderPage {
    /// Maps a page that the server sent. The descriptor can be closed afterwards.
    ///
    /// # Errors
    /// [`AttachError`] names what is wrong with it.
    pub fn map(fd: BorrowedFd<'_>) -> Result<Self, AttachError> {
        let mapping = match Mapping::reader_page(fd) {
            Ok(mapping) => mapping,
            // Segments can only be read: which one is it?
            Err(error) => match Mapping::read_only(fd).ok().map(|mapping| Header::read(&mapping.words())) {
                Some(Ok(header)) if header.kind != Kind::Page => return Err(AttachError::Unexpected(header.kind)),
                _ => return Err(error.into()),
            },
        };
        let header = Header::read(&mapping.words())?;
        if header.kind != Kind::Page || mapping.len() != instanton_layout::page::WORDS * 8 {
            return Err(AttachError::Unexpected(header.kind));
        }
        Ok(Self { job: header.job, page: Arc::new(PinPage::new(mapping).map_err(AttachError::Memory)?) })
    }
}
