//! Identity of a peer: whose the process at the other end of a connection is.
//!
//! The kernel says so of a socket on this machine, and nothing of one on another. The first message from there brings a
//! credential, which the munge service of this machine takes apart: it was made by the service of a machine with the same
//! key, for the user and the group that it names, and counts once. A thread of its own waits for that service; meanwhile
//! the connection is still one that has not said who it is.
//!
//! A credential counts for nothing where the other end is on this machine, whatever address it uses.
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use nix::sys::socket::{setsockopt, sockopt};

use super::{Done, StockListener};
use crate::data::Status;
use crate::message::door::{Arrival, Callers, Capabilities, User};
use crate::stock::ack::Ack;
use crate::stock::connection::{Breach, Stage};
use crate::stock::tools;
use crate::sys::{interfaces, munge, sock_diag};
use crate::trace;
use crate::transport::lobby::MAX_UNKNOWN;

/// Seconds of silence after which the machine of a peer is asked whether it is there, seconds between further
/// questions, and the number of those that nobody answers before the connection is lost.
const SILENCE: u32 = 30;
const BETWEEN: u32 = 10;
const UNANSWERED: u32 = 3;

/// Reason why a peer of another machine is not believed to be anybody.
#[derive(Debug, thiserror::Error)]
pub enum Unproven {
    #[error("it brings no credential of munge")]
    NoCredential,
    #[error("its address is of this machine, whose kernel does not know its socket")]
    OfThisMachine,
    #[error("the interfaces of this machine cannot be listed: {0}")]
    Interfaces(#[from] io::Error),
    #[error(transparent)]
    Unjudged(#[from] munge::Unjudged),
    #[error("too many credentials are being judged")]
    Crowd,
}

impl Unproven {
    fn status(&self) -> Status {
        match self {
            Unproven::Unjudged(munge::Unjudged::NoLibrary | munge::Unjudged::NoService(_)) => Status::ERR_NOT_SUPPORTED,
            Unproven::Interfaces(_) | Unproven::Crowd => Status::ERR_OUT_OF_RESOURCE,
            _ => Status::ERR_INVALID_CRED,
        }
    }
}

impl StockListener {
    /// Takes in who a peer says it is. The kernel says whose it is, or where it is on another machine, munge.
    pub(super) fn introduce(&mut self, id: u64, ack: Ack, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let (there, here) = (connection.stream.peer_addr()?, connection.stream.local_addr()?);
        match sock_diag::owner_of_other_end(there, here) {
            Ok(uid) => self.arrive(id, ack, User { uid, gid: None }, callers),
            Err(e) if e.kind() == io::ErrorKind::NotFound && !here.ip().is_loopback() => {
                self.judge(id, ack, there.ip(), callers);
            }
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    /// Asks the server whether a peer may come in, as this user.
    pub(super) fn arrive(&mut self, id: u64, mut ack: Ack, user: User, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (claim, info) = (tools::claim(&ack), std::mem::take(&mut ack.info));
        let pid = tools::pid(&info);
        let reads_files = ack.reads_files.then_some(ack.form);
        connection.stage = Stage::Asking(ack, user.uid);
        let capabilities = Capabilities {
            takes_job_info: true,
            takes_all_posted: true,
            reads_files,
            groups_by_events: true,
            ..Capabilities::default()
        };
        let arrival = Arrival { claim, capabilities, info, user: Some(user), pid, process: None };
        callers.arrived(self.peer_id(id), arrival);
        self.forget_settled();
    }

    /// Has the credential of a peer judged, which comes from this address.
    pub(super) fn judge(&mut self, id: u64, mut ack: Ack, there: IpAddr, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let credential = ack.credential.take();
        let is_there = credential.is_some();
        let credential = Arc::new(credential.unwrap_or_default());
        let wanted = Arc::downgrade(&credential);
        connection.stage = Stage::Judging { ack, _credential: credential };
        if !is_there {
            return self.judged(id, Err(Unproven::NoCredential), callers);
        }
        if self.judging >= MAX_UNKNOWN || !self.asker.is_there(&self.registry) {
            return self.judged(id, Err(Unproven::Crowd), callers);
        }
        self.judging += 1;
        self.asker.run(move || Some(Done::Judged(id, wanted.upgrade().map(|credential| verdict(there, &credential)))));
    }

    /// Takes in whose a peer is.
    pub(super) fn judged(&mut self, id: u64, verdict: Result<munge::Owner, Unproven>, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Stage::Judging { ack, .. } = &connection.stage else { return };
        match verdict {
            Ok(munge::Owner { uid, gid }) => {
                let ack = ack.clone();
                let kept = setsockopt(&connection.stream, sockopt::KeepAlive, &true)
                    .and_then(|()| setsockopt(&connection.stream, sockopt::TcpKeepIdle, &SILENCE))
                    .and_then(|()| setsockopt(&connection.stream, sockopt::TcpKeepInterval, &BETWEEN))
                    .and_then(|()| setsockopt(&connection.stream, sockopt::TcpKeepCount, &UNANSWERED));
                if let Err(e) = kept {
                    trace!("the end of the machine of connection {id} would not be noticed: {e}");
                }
                self.arrive(id, ack, User { uid, gid: Some(gid) }, callers);
            }
            Err(reason) => {
                let there = connection.stream.peer_addr();
                let there = there.map_or_else(|_| "another machine".to_owned(), |there| there.to_string());
                trace!("the peer at {there} that would be {} is refused: {reason}", ack.proc);
                self.refuse(id, reason.status(), callers);
            }
        }
    }
}

/// Judges a credential that has come from this address.
fn verdict(there: IpAddr, credential: &[u8]) -> Result<munge::Owner, Unproven> {
    if interfaces::has(there)? { Err(Unproven::OfThisMachine) } else { Ok(munge::judge(credential)?) }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_credential_counts_for_other_machines_alone() {
        let verdict = |there: [u8; 4]| verdict(Ipv4Addr::from(there).into(), b"MUNGE:AAAA:").unwrap_err();
        let here = verdict([127, 0, 0, 1]);
        assert!(matches!(here, Unproven::OfThisMachine), "{here}");
        assert_eq!(here.status(), Status::ERR_INVALID_CRED);
        let far = verdict([192, 0, 2, 1]);
        assert!(matches!(far, Unproven::Unjudged(_)), "{far}");
    }
}
