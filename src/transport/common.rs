//! State that all doors of a server have in common: the account of those who have not said who they are, and the shares
//! of all processes.
use std::time::Instant;

use super::lobby::Lobby;
use super::shares::Shares;
use crate::account::Account;

/// State that the doors of a server have in common.
#[derive(Debug)]
pub struct Common {
    /// Account that those are charged to who have not said who they are.
    pub strangers: Account,
    /// Shares of the control thread's time.
    pub shares: Shares,
}

impl Default for Common {
    fn default() -> Self {
        Common { strangers: Lobby::account(), shares: Shares::new(Instant::now()) }
    }
}
