//! What the host registers for every job there will be: its processes find it among the information of their own job.

use super::router::Router;
use crate::data::Info;
use crate::store::{BadJobInfo, JobInfoBuilder};

impl Router {
    /// From now on, every namespace that is registered has this too.
    pub(super) fn register_resources(&mut self, info: Vec<Info>) {
        self.deregister_resources(&info);
        self.resources.extend(info);
    }

    /// Whoever is registered from now on does not have it.
    pub(super) fn deregister_resources(&mut self, info: &[Info]) {
        self.resources.retain(|known| info.iter().all(|gone| gone.key != known.key));
    }

    /// What a host says of a namespace, and of all namespaces; its word on the one counts more.
    pub(super) fn with_resources(&self, mut info: JobInfoBuilder) -> Result<JobInfoBuilder, BadJobInfo> {
        info.unsaid(&self.resources)?;
        Ok(info)
    }
}
