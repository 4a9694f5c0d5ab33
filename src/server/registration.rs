//! Registration: the host tells of its jobs, namespaces with their information and the processes that will run here.
//!
//! Each call posts what it was given to the control thread; `jobs` and `admission` do it there.
use super::Server;
use crate::data::{Info, Nspace, Proc, Status};
use crate::store::{BadJobInfo, JobInfoBuilder};

impl Server {
    /// Tells of a namespace: how many of its processes run here, and its job information. A namespace that is
    /// registered already gets the new information.
    ///
    /// # Errors
    /// When the server has ended; `done` is not called then.
    pub fn register_nspace(
        &self,
        nspace: &Nspace,
        nlocalprocs: usize,
        info: &[Info],
        done: impl FnOnce(Result<(), Status>) + Send + 'static,
    ) -> Result<(), Status> {
        let mut job = self.job_info(nspace, nlocalprocs);
        let job = job.infos(info).map(|()| job);
        self.register_job(nspace, nlocalprocs, job, done)
    }

    /// [`register_nspace`](Server::register_nspace), waiting for the result.
    ///
    /// # Errors
    /// Errors that `done` would be called with, and those of every `_wait`.
    pub fn register_nspace_wait(&self, nspace: &Nspace, nlocalprocs: usize, info: &[Info]) -> Result<(), Status> {
        self.wait(|done| self.register_nspace(nspace, nlocalprocs, info, done))
    }

    /// Begins the information about a job of which `nlocalprocs` processes run here, for
    /// [`register_job`](Server::register_job): a host can tell of its processes without making an [`Info`] of
    /// everything.
    pub fn job_info(&self, nspace: &Nspace, nlocalprocs: usize) -> JobInfoBuilder {
        let local = u32::try_from(nlocalprocs).unwrap_or(u32::MAX);
        JobInfoBuilder::new(nspace, local, &self.config.hostname.to_string_lossy())
    }

    /// Tells of a namespace whose information has been put together, as [`register_nspace`](Server::register_nspace)
    /// does. Where that failed, `done` gets the status, and the trace the reason.
    ///
    /// # Errors
    /// When the server has ended; `done` is not called then.
    pub fn register_job(
        &self,
        nspace: &Nspace,
        nlocalprocs: usize,
        job: Result<JobInfoBuilder, BadJobInfo>,
        done: impl FnOnce(Result<(), Status>) + Send + 'static,
    ) -> Result<(), Status> {
        let nspace = nspace.clone();
        self.mailbox.post(move |router| {
            router.make_way(&nspace);
            let result = router.jobs.register(&mut router.cx, &nspace, nlocalprocs, job);
            router.cx.finish(done, result);
        })
    }

    /// [`register_job`](Server::register_job), waiting for the result.
    ///
    /// # Errors
    /// Errors that `done` would be called with, and those of every `_wait`.
    pub fn register_job_wait(
        &self,
        nspace: &Nspace,
        nlocalprocs: usize,
        job: Result<JobInfoBuilder, BadJobInfo>,
    ) -> Result<(), Status> {
        self.wait(|done| self.register_job(nspace, nlocalprocs, job, done))
    }

    /// Forgets a namespace with its clients, after their clean-up.
    ///
    /// # Errors
    /// When the server has ended; `done` is not called then.
    pub fn deregister_nspace(
        &self,
        nspace: &Nspace,
        done: impl FnOnce(Result<(), Status>) + Send + 'static,
    ) -> Result<(), Status> {
        let nspace = nspace.clone();
        self.mailbox.post(move |router| router.deregister_nspace(&nspace, Box::new(done)))
    }

    /// [`deregister_nspace`](Server::deregister_nspace), waiting for the result.
    ///
    /// # Errors
    /// Errors that `done` would be called with, and those of every `_wait`.
    pub fn deregister_nspace_wait(&self, nspace: &Nspace) -> Result<(), Status> {
        self.wait(|done| self.deregister_nspace(nspace, done))
    }

    /// Tells of a process that will run here, before or after its namespace is registered. Only a peer with that user
    /// and group will be taken for it.
    ///
    /// # Errors
    /// When the server has ended; `done` is not called then.
    pub fn register_client(
        &self,
        proc: &Proc,
        uid: u32,
        gid: u32,
        done: impl FnOnce(Result<(), Status>) + Send + 'static,
    ) -> Result<(), Status> {
        let proc = proc.clone();
        self.mailbox.post(move |router| {
            router.make_way(&proc.nspace);
            let result = router.jobs.register_client(&mut router.cx, &proc, uid, gid);
            router.cx.finish(done, result);
        })
    }

    /// [`register_client`](Server::register_client), waiting for the result.
    ///
    /// # Errors
    /// Errors that `done` would be called with, and those of every `_wait`.
    pub fn register_client_wait(&self, proc: &Proc, uid: u32, gid: u32) -> Result<(), Status> {
        self.wait(|done| self.register_client(proc, uid, gid, done))
    }

    /// Forgets a process, after its clean-up. One that still runs counts as gone.
    ///
    /// # Errors
    /// When the server has ended; `done` is not called then.
    pub fn deregister_client(
        &self,
        proc: &Proc,
        done: impl FnOnce(Result<(), Status>) + Send + 'static,
    ) -> Result<(), Status> {
        let proc = proc.clone();
        self.mailbox.post(move |router| router.deregister_client(&proc, Box::new(done)))
    }

    /// [`deregister_client`](Server::deregister_client), waiting for the result.
    ///
    /// # Errors
    /// Errors that `done` would be called with, and those of every `_wait`.
    pub fn deregister_client_wait(&self, proc: &Proc) -> Result<(), Status> {
        self.wait(|done| self.deregister_client(proc, done))
    }

    /// The host's word that a process has ended, for those that the kernel does not show to the server.
    pub fn client_died(&self, proc: &Proc) {
        let proc = proc.clone();
        // A server that has ended waits for nobody.
        let _ = self.mailbox.post(move |router| {
            router.client_died(&proc);
            router.process_left(&proc.nspace);
        });
    }
}
