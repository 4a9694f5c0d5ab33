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

    /// Goes on with the files of the store that it takes the place of, if it is of as many processes: some may have been
    /// started that were told where these are.
    pub fn take_files(&mut self, nspace: &Nspace, former: JobStore) {
        if former.size == self.size {
            (self.files, self.has_tried_files) = (former.files, former.has_tried_files);
            self.renew_files(nspace);
        }
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

#[cfg(test)]
mod tests {
    use crate::account::Account;
    use crate::data::{Info, Nspace, Proc, Rank, Status, keys};
    use crate::message::door::{FileEntry, JobFacts, JobFiles, JobInformation, MakesJobFiles};
    use crate::server::NoHost;
    use crate::server::ctx::testing;
    use crate::server::jobs::Jobs;
    use crate::store::JobInfoBuilder;
    use crate::wire::Form;

    /// Files that say how many processes of the node they were made for.
    #[derive(Debug)]
    struct Counted(u32);

    impl JobFiles for Counted {
        fn variables(&self) -> Vec<(&'static str, Vec<u8>)> {
            vec![("LOCAL", vec![self.0 as u8])]
        }

        fn begin(&mut self, _: Form, _: &dyn JobInformation, _: &Account) -> Result<bool, Status> {
            Ok(false)
        }

        fn renew(&mut self, _: &dyn JobInformation) {}

        fn posted(&mut self, _: Rank, _: &[FileEntry<'_>]) {}
    }

    #[derive(Debug)]
    struct Counting;

    impl MakesJobFiles for Counting {
        fn make(&self, facts: &JobFacts<'_>) -> Option<Box<dyn JobFiles>> {
            Some(Box::new(Counted(facts.local)))
        }
    }

    #[test]
    fn files_stay_when_a_job_is_registered_again_before_anybody_has_come() {
        let (mut test, nspace) = (testing::ctx(NoHost), Nspace::new("job").unwrap());
        let mut jobs = Jobs { files: Some(Box::new(Counting)), ..Jobs::default() };
        let mut register = |jobs: &mut Jobs, size: u32, local: usize| {
            let mut info = JobInfoBuilder::new(&nspace, local as u32, "here");
            info.infos(&[Info::new(keys::JOB_SIZE, size)]).unwrap();
            jobs.register(&mut test.cx, &nspace, local, Ok(info)).unwrap();
            jobs.register_client(&mut test.cx, &Proc::new(nspace.clone(), Rank(0)), 1, 1).unwrap();
            let are_new = jobs.make_files(&nspace);
            (are_new, jobs.store(&nspace).unwrap().file_variables())
        };
        let of = |local: u8| vec![("LOCAL", vec![local])];
        assert_eq!(register(&mut jobs, 4, 1), (true, of(1)));
        assert_eq!(register(&mut jobs, 4, 1), (false, of(1)));
        // These have room for so many processes, and no more.
        assert_eq!(register(&mut jobs, 4, 2), (true, of(2)));
        assert_eq!(register(&mut jobs, 5, 2), (true, of(2)));
    }
}
