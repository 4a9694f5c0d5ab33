//! Files of a job: what this server sees of its data, for peers that look into files.
use super::JobStore;
use crate::account::Account;
use crate::data::{Nspace, Rank, Scope, Status};
use crate::message::Posted;
use crate::message::door::{FileEntry, JobFiles};
use crate::store::Origin;
use crate::trace;
use crate::wire::Form;

impl JobStore {
    /// Keeps the files in which some peers will look, nothing of which is written yet. Returns whether there are some.
    pub fn keep_files(&mut self, files: Option<Box<dyn JobFiles>>) -> bool {
        self.has_tried_files = true;
        self.files = files;
        self.files.is_some()
    }

    /// Returns whether there are files, or cannot be any.
    pub fn has_tried_files(&self) -> bool {
        self.has_tried_files
    }

    /// Returns the variables that lead a process to the files.
    pub fn file_variables(&self) -> Vec<(&'static str, Vec<u8>)> {
        self.files.as_ref().map(|files| files.variables()).unwrap_or_default()
    }

    /// Has everything in the files that a peer looks for there, which reads values in that form.
    ///
    /// # Errors
    /// A status when there are no files for it.
    pub fn write_files(&mut self, nspace: &Nspace, form: Form, account: &Account) -> Result<(), Status> {
        let information = self.information(nspace).ok_or(Status::ERR_NOT_FOUND)?;
        let Some(files) = &mut self.files else { return Err(Status::ERR_NOT_SUPPORTED) };
        if files.begin(form, &*information, account)? {
            for rank in self.posted.keys() {
                let Ok(all) = self.writer.reader().all(*rank) else {
                    trace!("what rank {rank} of {nspace} has posted cannot be read");
                    continue;
                };
                let posted = all.iter().filter(|(.., origin)| *origin == Origin::Modex);
                let entries: Vec<FileEntry<'_>> = posted.map(|(key, _, value, _)| (key, Some(value))).collect();
                files.posted(*rank, &entries);
            }
        }
        Ok(())
    }

    /// The host has replaced what it has said.
    pub(super) fn renew_files(&mut self, nspace: &Nspace) {
        if self.files.is_none() {
            return;
        }
        if let (Some(information), Some(files)) = (self.information(nspace), &mut self.files) {
            files.renew(&*information);
        }
    }

    /// Entries are stored.
    pub(super) fn file(&mut self, rank: Rank, entries: &[Posted]) {
        let local = self.is_local(rank);
        let Some(files) = &mut self.files else { return };
        let seen = |posted: &Posted| !(local && posted.scope == Scope::REMOTE);
        let entries: Vec<FileEntry<'_>> =
            entries.iter().map(|posted| (&posted.key, seen(posted).then_some(&posted.value))).collect();
        files.posted(rank, &entries);
    }
}
