//! Registration: the host tells of its jobs, namespaces with their information and the processes that will run here.
//!
//! Each call takes what it was given to the control thread; `jobs` and `admission` do it there.
use super::Server;
use super::admission::remote_tool_came;
use crate::data::{Info, Nspace, Proc, Status};
use crate::pending::Pending;
use crate::store::{BadJobInfo, JobInfoBuilder};

impl Server {
    /// Tells of a namespace: how many of its processes run here, and its job information. A namespace that is
    /// registered already gets the new information.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` and its like for job information that makes no sense, or that speaks of more ranks than the
    /// namespace was first registered with: a job does not grow. One that is deregistered may come back larger.
    pub fn register_nspace(&self, nspace: &Nspace, nlocalprocs: usize, info: &[Info]) -> Pending<(), Status> {
        let mut job = self.job_info(nspace, nlocalprocs);
        let job = job.infos(info).map(|()| job);
        self.register_job(nspace, nlocalprocs, job)
    }

    /// Begins the information about a job of which `nlocalprocs` processes run here, for
    /// [`register_job`](Server::register_job): a host can tell of its processes without making an [`Info`] of
    /// everything.
    pub fn job_info(&self, nspace: &Nspace, nlocalprocs: usize) -> JobInfoBuilder {
        let local = u32::try_from(nlocalprocs).unwrap_or(u32::MAX);
        JobInfoBuilder::new(nspace, local, &self.config.hostname.to_string_lossy())
    }

    /// Tells of a namespace whose information has been put together, as [`register_nspace`](Server::register_nspace) does. Where
    /// that failed, the result is the status, and the trace has the reason.
    ///
    /// # Errors
    /// As [`register_nspace`](Server::register_nspace).
    pub fn register_job(
        &self,
        nspace: &Nspace,
        nlocalprocs: usize,
        job: Result<JobInfoBuilder, BadJobInfo>,
    ) -> Pending<(), Status> {
        let nspace = nspace.clone();
        self.command(move |router| {
            router.make_way(&nspace);
            router.jobs.register(&mut router.cx, &nspace, nlocalprocs, job)
        })
    }

    /// Forgets a namespace with its clients, after their clean-up.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn deregister_nspace(&self, nspace: &Nspace) -> Pending<(), Status> {
        let nspace = nspace.clone();
        self.post(move |router, callback| router.deregister_nspace(&nspace, callback))
    }

    /// Tells of a tool that another server of the same host has let in: processes here may meet it from now on, and ask for
    /// what it has posted.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a rank that there is no room for; `ERR_OUT_OF_RESOURCE`.
    pub fn add_remote_tool(&self, tool: &Proc) -> Pending<(), Status> {
        let tool = tool.clone();
        self.command(move |router| remote_tool_came(&mut router.cx, &mut router.jobs, &tool))
    }

    /// Tells that such a tool is gone.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn remove_remote_tool(&self, tool: &Proc) -> Pending<(), Status> {
        let tool = tool.clone();
        self.command(move |router| {
            router.remote_tool_left(&tool);
            Ok(())
        })
    }

    /// Tells of a process that will run here, before or after its namespace is registered. Only a peer with that user
    /// and group will be taken for it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for what is no single process.
    pub fn register_client(&self, proc: &Proc, uid: u32, gid: u32) -> Pending<(), Status> {
        let proc = proc.clone();
        self.command(move |router| {
            router.make_way(&proc.nspace);
            router.jobs.register_client(&mut router.cx, &proc, uid, gid)
        })
    }

    /// Forgets a process, after its clean-up. One that still runs counts as gone.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn deregister_client(&self, proc: &Proc) -> Pending<(), Status> {
        let proc = proc.clone();
        self.post(move |router, callback| router.deregister_client(&proc, callback))
    }

    /// The host's word that a process has ended, for those that the kernel does not show to the server.
    pub fn client_died(&self, proc: &Proc) {
        // A server that has ended waits for nobody.
        let _ = self.hear_out(proc).then(|_| ());
    }

    /// The same, with a result that comes once everything is carried out that the process has sent before its end: an
    /// abort has reached the host by then.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn hear_out(&self, proc: &Proc) -> Pending<(), Status> {
        let proc = proc.clone();
        self.post(move |router, done| router.last_words.has_died(proc, done))
    }
}
