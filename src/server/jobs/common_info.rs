//! Information that the host registers for jobs to come: resources for all of them, and what the jobs of a session
//! have.
use std::collections::BTreeMap;

use crate::data::Info;
use crate::store::{BadJobInfo, JobInfoBuilder};

/// Information for jobs that will be registered.
#[derive(Debug, Default)]
pub struct CommonInfo {
    resources: Vec<Info>,
    sessions: BTreeMap<u32, Vec<Info>>,
}

impl CommonInfo {
    /// Gives every namespace that is registered from now on this information too.
    pub fn register_resources(&mut self, info: Vec<Info>) {
        self.deregister_resources(&info);
        self.resources.extend(info);
    }

    /// Forgets resources by their keys.
    pub fn deregister_resources(&mut self, info: &[Info]) {
        self.resources.retain(|known| info.iter().all(|gone| gone.key != known.key));
    }

    /// Keeps the information of a session; a session that is known stays as it is.
    pub fn register_session(&mut self, session: u32, info: Vec<Info>) {
        self.sessions.entry(session).or_insert(info);
    }

    /// Forgets a session.
    pub fn deregister_session(&mut self, session: u32) {
        self.sessions.remove(&session);
    }

    /// Adds to a job's information what is said of all jobs and of the sessions that it names; the host's word on
    /// the job itself counts more.
    ///
    /// # Errors
    /// When the resources are no job information.
    pub fn add_to(&self, mut info: JobInfoBuilder) -> Result<JobInfoBuilder, BadJobInfo> {
        info.unsaid(&self.resources)?;
        self.sessions.iter().for_each(|(session, known)| info.known_session(*session, known));
        Ok(info)
    }
}
