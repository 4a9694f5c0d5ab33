//! Fence: meeting the other participants.
//!
//! The server counts them; nothing here waits but the caller. What they have committed is in shared memory when the fence
//! ends, partly in segments that this process has not mapped: they are asked for before the fence is called done, so that a
//! Get after it finds everything at hand.
use std::sync::Arc;

use crate::data::{Info, Proc};
use crate::message::Request;

use super::{Error, Inner, done};

impl Inner {
    pub(super) fn fence_nb(
        self: &Arc<Self>,
        procs: &[Proc],
        info: &[Info],
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        if !self.link.has_server() {
            return self.fence_alone(procs, then);
        }
        let request = Request::Fence { procs: procs.to_vec(), info: info.to_vec() };
        let inner = self.clone();
        self.link.request(
            "PMIx_Fence",
            &request,
            Box::new(move |answer| match done(answer) {
                Ok(()) => inner.clone().map_news(move || then(inner.posts.outcome())),
                Err(error) => then(Err(error)),
            }),
        )
    }

    /// A process without a server meets itself, and nobody else.
    fn fence_alone(
        self: &Arc<Self>,
        procs: &[Proc],
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if procs.iter().any(|proc| !proc.matches(&self.proc)) {
            return Err(Error::NoServer { call: "PMIx_Fence" });
        }
        self.link.run_later(move || then(Ok(())));
        Ok(())
    }
}
