//! Sessions: the host registers information about them before and between their jobs, and the processes of a job that
//! names a session find it there.

use super::Server;
use crate::data::{Info, Status};
use crate::pending::{Callback, Pending};

impl Server {
    /// Tells of a session (`PMIx_server_register_session`). Namespaces that are registered later and name it, by
    /// `PMIX_SESSION_ID`, have what is said of it here and not by themselves. A session that is known stays as it is.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for the number that means all sessions.
    pub fn register_session(&self, session: u32, info: &[Info]) -> Pending<(), Status> {
        let info = info.to_vec();
        self.prepare(move |mailbox, callback: Callback<(), Status>| {
            if session == u32::MAX {
                return Err(Status::ERR_BAD_PARAM);
            }
            mailbox.post(move |router| {
                router.jobs.common.register_session(session, info);
                router.cx.finish(callback, Ok(()));
            })
        })
    }

    /// Forgets a session; namespaces that are registered keep what they have of it.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn deregister_session(&self, session: u32) -> Pending<(), Status> {
        self.command(move |router| {
            router.jobs.common.deregister_session(session);
            Ok(())
        })
    }
}
