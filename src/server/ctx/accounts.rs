//! Accounts of the processes and jobs that have come to this server, and of the users whom they belong to.
use std::collections::BTreeMap;

use crate::account::{Account, Charge};
use crate::data::{Nspace, Proc, Rank};

/// Accounts by their owners; that of a job is under its wildcard rank.
#[derive(Debug)]
pub struct Accounts {
    limit: u64,
    /// Limit of a user.
    user_limit: u64,
    open: BTreeMap<Proc, Account>,
    /// Accounts of users, by number.
    users: BTreeMap<u32, Account>,
    /// Accounts that the tools of one user share, by user.
    tools: BTreeMap<u32, Account>,
    /// Charges for jobs that were started from others, by their namespaces.
    spawned: BTreeMap<Nspace, Charge>,
    /// Accounts of processes of jobs that are over, as long as something is charged to them.
    owing: Vec<Account>,
}

impl Default for Accounts {
    /// No accounts, and no limit.
    fn default() -> Self {
        Accounts::new(u64::MAX, u64::MAX)
    }
}

impl Accounts {
    /// No accounts; those of jobs and of users are opened with these limits, in bytes.
    pub fn new(limit: u64, user_limit: u64) -> Self {
        Accounts {
            limit,
            user_limit,
            open: BTreeMap::new(),
            users: BTreeMap::new(),
            tools: BTreeMap::new(),
            spawned: BTreeMap::new(),
            owing: Vec::new(),
        }
    }

    fn user(&mut self, uid: u32) -> &Account {
        let limit = self.user_limit;
        self.users.entry(uid).or_insert_with(|| Account::of_user(uid, limit))
    }

    /// Returns the account of a process that is let in; it is opened where there is none yet, and so is that of its job,
    /// which belongs to the user of the first process.
    pub fn of(&mut self, proc: &Proc, uid: Option<u32>) -> Account {
        if let Some(account) = self.open.get(proc) {
            return account.clone();
        }
        let whole = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let limit = self.limit;
        let user = uid.map(|uid| self.user(uid).clone());
        let job = self.open.entry(whole).or_insert_with(|| match &user {
            Some(user) => user.job_of(&proc.nspace, limit),
            None => Account::of_job(&proc.nspace, limit),
        });
        let account = job.of_process(proc);
        self.open.insert(proc.clone(), account.clone());
        account
    }

    /// Returns the account of a job, once a process of it has come.
    pub fn of_job(&self, nspace: &Nspace) -> Option<&Account> {
        self.open.get(&Proc::new(nspace.clone(), Rank::WILDCARD))
    }

    /// Returns the account of a tool, which shares that of its user with the user's other tools: each has a namespace of
    /// its own, and may have as many as it likes.
    pub fn of_tool(&mut self, proc: &Proc, uid: u32) -> Account {
        if let Some(account) = self.open.get(proc) {
            return account.clone();
        }
        let limit = self.limit;
        let user = self.user(uid).clone();
        let open = || user.job_of(format_args!("the tools of user {uid}"), limit);
        let account = self.tools.entry(uid).or_insert_with(open).of_process(proc);
        self.open.insert(proc.clone(), account.clone());
        account
    }

    /// Keeps the charge for a job that was started from another one, until it is over.
    pub fn keep_spawned(&mut self, nspace: Nspace, charge: Charge) {
        self.spawned.insert(nspace, charge);
    }

    /// Forgets the accounts of a job that is over. Memory that is still held is given back when it is dropped.
    pub fn forget(&mut self, nspace: &Nspace) {
        self.spawned.remove(nspace);
        let all = std::mem::take(&mut self.open).into_iter();
        let (over, open): (BTreeMap<_, _>, _) = all.partition(|(proc, _)| proc.nspace == *nspace);
        self.open = open;
        self.owing.extend(over.into_values());
        self.owing.retain(|account| account.used() > 0);
    }

    /// Returns the bytes charged to any account, those of a process counted for its job and its user once more.
    pub fn charged(&self) -> u64 {
        let all = self.open.values().chain(self.users.values()).chain(self.tools.values()).chain(&self.owing);
        all.map(Account::used).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Kind;
    use crate::server::ctx::testing::proc;

    #[test]
    fn what_a_job_that_is_over_still_holds_is_counted() {
        let mut accounts = Accounts::new(100, 1000);
        let charge = accounts.of(&proc("job", 0), Some(7)).charge(Kind::Request, 10);
        accounts.forget(&proc("job", 0).nspace);
        assert_eq!(accounts.charged(), 30, "of the process, of its job and of its user");
        drop(charge);
        assert_eq!(accounts.charged(), 0);
    }

    #[test]
    fn processes_of_a_job_share_its_account_until_it_is_over() {
        let mut accounts = Accounts::new(100, u64::MAX);
        let charges = [accounts.of(&proc("job", 0), None), accounts.of(&proc("job", 1), None)]
            .map(|a| a.charge(Kind::Request, 50));
        assert!(charges.iter().all(Option::is_some));
        assert!(accounts.of(&proc("job", 2), None).charge(Kind::Request, 1).is_none());
        assert!(accounts.of(&proc("other", 0), None).charge(Kind::Request, 50).is_some());
        accounts.forget(&proc("job", 0).nspace);
        assert!(
            accounts.of(&proc("job", 0), None).charge(Kind::Request, 50).is_some(),
            "a job of that name begins anew"
        );
        assert_eq!(accounts.open.len(), 4);
    }

    #[test]
    fn jobs_and_tools_of_a_user_have_a_limit_together() {
        let mut accounts = Accounts::new(100, 120);
        let one = accounts.of(&proc("one", 0), Some(7)).charge(Kind::Request, 50);
        let other = accounts.of(&proc("other", 0), Some(7)).charge(Kind::Request, 50);
        assert!(one.is_some() && other.is_some());
        assert!(accounts.of_tool(&proc("tool", 0), 7).charge(Kind::Request, 21).is_none());
        assert!(accounts.of(&proc("third", 0), Some(8)).charge(Kind::Request, 50).is_some());
        drop(one);
        assert!(accounts.of_tool(&proc("tool", 0), 7).charge(Kind::Request, 21).is_some());
    }

    #[test]
    fn a_job_that_was_started_from_another_is_charged_until_it_is_over() {
        let mut accounts = Accounts::new(100, 1000);
        let charge = accounts.of(&proc("job", 0), None).charge(Kind::Spawned, 40).unwrap();
        accounts.keep_spawned(proc("child", 0).nspace, charge);
        assert!(accounts.of(&proc("job", 0), None).charge(Kind::Spawned, 40).is_none());
        accounts.forget(&proc("child", 0).nspace);
        assert!(accounts.of(&proc("job", 0), None).charge(Kind::Spawned, 40).is_some());
    }

    #[test]
    fn tools_of_a_user_share_an_account_whatever_their_names() {
        let mut accounts = Accounts::new(100, u64::MAX);
        let tool = |accounts: &mut Accounts, name: &str, uid| accounts.of_tool(&proc(name, 0), uid);
        let charges = ["a", "b"].map(|name| tool(&mut accounts, name, 7).charge(Kind::Request, 50));
        assert!(charges.iter().all(Option::is_some));
        assert!(tool(&mut accounts, "c", 7).charge(Kind::Request, 1).is_none());
        assert!(tool(&mut accounts, "d", 8).charge(Kind::Request, 50).is_some());
        accounts.forget(&proc("a", 0).nspace);
        assert!(tool(&mut accounts, "a", 7).charge(Kind::Request, 1).is_none(), "what it holds is held");
        drop(charges);
        assert!(tool(&mut accounts, "a", 7).charge(Kind::Request, 50).is_some());
    }
}
