//! Requests about processes: ending them, controlling them, cleaning up after them.
//!
//! A process registers a file for removal and then makes it, whatever the answer was. When the server dies at that very
//! moment, its host is about to end the process as well, but a file made in between would stay for ever. So a
//! registration that is lost with the server holds its caller for [`HELD`], longer than a host needs.
use nix::poll::poll;

use crate::data::{Info, Proc, keys};
use crate::message::{Infos, Request};
use crate::pending::{Callback, Pending};

use super::call::{infos, limit_in, nothing, taken};
use super::{Client, Error};

/// Time in milliseconds for which a process is held whose registration was lost.
const HELD: u16 = 1000;

impl Client {
    /// Asks the host to end processes (`PMIx_Abort`); no processes means the whole own namespace.
    ///
    /// # Errors
    /// The host's status.
    pub fn abort(&self, status: i32, message: Option<&[u8]>, procs: &[Proc]) -> Pending<(), Error> {
        let request = Request::Abort { status, message: message.map(<[u8]>::to_vec), procs: procs.to_vec() };
        self.prepare_request("PMIx_Abort", Ok(request), nothing)
    }

    /// Controls processes, or registers what is to be cleaned up after them (`PMIx_Job_control`); no targets means the
    /// whole own namespace.
    ///
    /// # Errors
    /// The host's status.
    pub fn job_control(&self, targets: &[Proc], directives: &[Info]) -> Pending<Infos, Error> {
        let registers = directives.iter().any(registers);
        let request = Request::JobControl { targets: targets.to_vec(), directives: directives.to_vec() };
        self.prepare("PMIx_Job_control", limit_in(directives), move |inner, callback: Callback<Infos, Error>| {
            let waiter = move |answer: Result<_, Error>| {
                hold_if_lost(registers, answer.as_ref().err());
                callback(taken(answer, infos));
            };
            let asked = inner.link.request("PMIx_Job_control", &request, Box::new(waiter));
            hold_if_lost(registers, asked.as_ref().err());
            asked
        })
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
