//! Requests about processes: ending them, controlling them, cleaning up after them.
//!
//! A process registers a file for removal and then makes it, whatever the answer was. When the server dies at that very
//! moment, its host is about to end the process as well, but a file made in between would stay for ever. So a
//! registration that is lost with the server holds its caller for [`HELD`], longer than a host needs.
use std::sync::Arc;

use nix::poll::poll;

use crate::data::{Info, Proc, keys};
use crate::message::{Infos, Request};

use super::forward::{infos, taken};
use super::{Error, Inner};

/// Time in milliseconds for which a process is held whose registration was lost.
const HELD: u16 = 1000;

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
        then: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        let registers = directives.iter().any(registers);
        let request = Request::JobControl { targets: targets.to_vec(), directives: directives.to_vec() };
        let asked = self.link.request(
            "PMIx_Job_control",
            &request,
            Box::new(move |answer| {
                hold_if_lost(registers, answer.as_ref().err());
                then(taken(answer, infos));
            }),
        );
        hold_if_lost(registers, asked.as_ref().err());
        asked
    }
}

/// Returns whether it names what is to be removed.
fn registers(directive: &Info) -> bool {
    directive.key == keys::REGISTER_CLEANUP || directive.key == keys::REGISTER_CLEANUP_DIR
}

fn hold_if_lost(registers: bool, error: Option<&Error>) {
    if registers && matches!(error, Some(Error::LostConnection)) {
        // This waits for the end of the process. A signal's handler may cut it short.
        let _ = poll(&mut [], HELD);
    }
}
