//! Accounts of the processes and jobs that have come to this server.
use std::collections::BTreeMap;

use crate::account::Account;
use crate::data::{Nspace, Proc, Rank};

/// Accounts by their owners; that of a job is under its wildcard rank.
#[derive(Debug)]
pub struct Accounts {
    limit: u64,
    open: BTreeMap<Proc, Account>,
}

impl Accounts {
    /// No accounts; those of jobs are opened with this limit, in bytes.
    pub fn new(limit: u64) -> Self {
        Accounts { limit, open: BTreeMap::new() }
    }

    /// Returns the account of a process that is let in; it is opened where there is none yet.
    pub fn of(&mut self, proc: &Proc) -> Account {
        if let Some(account) = self.open.get(proc) {
            return account.clone();
        }
        let whole = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let limit = self.limit;
        let job = self.open.entry(whole).or_insert_with(|| Account::of_job(&proc.nspace, limit));
        let account = job.of_process(proc);
        self.open.insert(proc.clone(), account.clone());
        account
    }

    /// Forgets the accounts of a job that is over. Memory that is still held is given back when it is dropped.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.open.retain(|proc, _| proc.nspace != *nspace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Kind;
    use crate::server::ctx::testing::proc;

    #[test]
    fn processes_of_a_job_share_its_account_until_it_is_over() {
        let mut accounts = Accounts::new(100);
        let charges = [accounts.of(&proc("job", 0)), accounts.of(&proc("job", 1))].map(|a| a.charge(Kind::Request, 50));
        assert!(charges.iter().all(Option::is_some));
        assert!(accounts.of(&proc("job", 2)).charge(Kind::Request, 1).is_none());
        assert!(accounts.of(&proc("other", 0)).charge(Kind::Request, 50).is_some());
        accounts.forget(&proc("job", 0).nspace);
        assert!(accounts.of(&proc("job", 0)).charge(Kind::Request, 50).is_some(), "a job of that name begins anew");
        assert_eq!(accounts.open.len(), 4);
    }
}
