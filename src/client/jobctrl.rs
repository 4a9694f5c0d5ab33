//! Requests about processes: ending them, controlling them, cleaning up after them.
use std::sync::Arc;

use crate::data::{Info, Proc, Status};
use crate::message::{Reply, Request};

use super::{Error, Inner};

impl Inner {
    pub(super) fn abort_nb(
        &self,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        let request = Request::Abort { status, message: message.map(<[u8]>::to_vec), procs: procs.to_vec() };
        self.link.request("PMIx_Abort", &request, Box::new(move |answer| then(super::done(answer))))
    }

    pub(super) fn job_control_nb(
        self: &Arc<Self>,
        targets: &[Proc],
        directives: &[Info],
        then: impl FnOnce(Result<Vec<Info>, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        if directives.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let request = Request::JobControl { targets: targets.to_vec(), directives: directives.to_vec() };
        self.link.request(
            "PMIx_Job_control",
            &request,
            Box::new(move |answer| {
                then(match answer.map(|answer| answer.reply) {
                    Ok(Reply::Infos(Status::SUCCESS, infos)) => Ok(infos),
                    Ok(Reply::Done(Status::SUCCESS)) => Ok(Vec::new()),
                    Ok(Reply::Infos(status, _) | Reply::Done(status)) => Err(status.into()),
                    Ok(_) => Err(Status::ERR_COMM_FAILURE.into()),
                    Err(error) => Err(error),
                });
            }),
        )
    }
}
