//! Accounts of the processes and jobs that have come to this server, and of the users whom they belong to.
//!
//! The bytes that a job holds and its shared memory have limits of their own, and one together: the budget of the job,
//! which both draw on. Jobs that a job has led to, be it by others, draw on half of its budget together: who starts
//! jobs holds no more by that.
use std::collections::BTreeMap;

use crate::account::{Account, Charge};
use crate::data::{Nspace, Proc, Rank};
use crate::store::Budget;

/// Budgets of a job, for memory of both kinds.
#[derive(Debug)]
struct Budgets {
    own: Budget,
    /// Budget of all jobs that it leads to: half of its own, or the one that it draws on itself with its siblings.
    below: Option<Budget>,
}

/// Accounts by their owners; that of a job is under its wildcard rank.
#[derive(Debug)]
pub struct Accounts {
    limit: u64,
    /// Limit of a user.
    user_limit: u64,
    /// Shared memory of all jobs.
    shared: Budget,
    joint: BTreeMap<Nspace, Budgets>,
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
    /// No accounts; those of jobs and of users are opened with these limits, in bytes. Shared memory has no limit.
    pub fn new(limit: u64, user_limit: u64) -> Self {
        Accounts::sharing(Budget::new(u64::MAX), limit, user_limit)
    }

    /// [`new`](Self::new), of a server whose jobs have so much shared memory together.
    pub fn sharing(shared: Budget, limit: u64, user_limit: u64) -> Self {
        Accounts {
            limit,
            user_limit,
            shared,
            joint: BTreeMap::new(),
            open: BTreeMap::new(),
            users: BTreeMap::new(),
            tools: BTreeMap::new(),
            spawned: BTreeMap::new(),
            owing: Vec::new(),
        }
    }

    /// Shared memory that all jobs take.
    pub fn shared(&self) -> &Budget {
        &self.shared
    }

    /// Returns the shared memory that a job may take, as far as what it holds otherwise leaves that.
    pub fn shared_of(&mut self, nspace: &Nspace) -> Budget {
        let limit = self.limit.min(self.shared.limit());
        self.joint(nspace).part(limit)
    }

    /// Bytes that a job may take of both kinds of memory: half as much again as of either.
    fn joint_limit(&self) -> u64 {
        self.limit.saturating_add(self.limit / 2)
    }

    /// Returns the budget of a job.
    fn joint(&mut self, nspace: &Nspace) -> &Budget {
        let (limit, shared) = (self.joint_limit(), &self.shared);
        let open = || Budgets { own: shared.joint(limit), below: None };
        &self.joint.entry(nspace.clone()).or_insert_with(open).own
    }

    /// Bytes that a job, and those that it has led to, take of both kinds of memory.
    #[cfg(test)]
    pub fn joint_used(&mut self, nspace: &Nspace) -> u64 {
        self.joint(nspace).used()
    }

    /// Has a new job draw on what another one leaves to those that it leads to.
    pub fn descend(&mut self, nspace: &Nspace, from: &Nspace) {
        if self.joint.contains_key(nspace) {
            return;
        }
        self.joint(from);
        let limit = self.joint_limit();
        let Some(Budgets { own, below }) = self.joint.get_mut(from) else { return };
        let below = below.get_or_insert_with(|| own.joint_part(limit / 2)).clone();
        self.joint.insert(nspace.clone(), Budgets { own: below.joint_part(limit), below: Some(below) });
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
        let joint = self.joint(&proc.nspace).clone();
        let job = self.open.entry(whole).or_insert_with(|| Account::of_job_in(joint, user, &proc.nspace, limit));
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
        self.joint.remove(nspace);
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
    use crate::data::{Info, Key, Scope, keys};
    use crate::message::Posted;
    use crate::server::ctx::testing::proc;
    use crate::store::{JobInfo, JobWriter, Limits};

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

    /// A job with shared memory whose first rank posts all it can, a piece of such a size at a time.
    fn full_job(accounts: &mut Accounts, piece: usize) -> JobWriter {
        let nspace = proc("job", 0).nspace;
        let infos = [Info::new(keys::JOB_SIZE, 4u32), Info::new(keys::LOCAL_PEERS, "0-3")];
        let info = JobInfo::from_infos(&nspace, 4, &infos, "n0").unwrap();
        let limits = Limits { budget: accounts.shared_of(&nspace), ..Limits::default() };
        let mut writer = JobWriter::create(&nspace, info, &limits).unwrap();
        let mut posted = 0..;
        while post(&mut writer, 0, &format!("k{}", posted.next().unwrap()), piece) {}
        writer
    }

    fn post(writer: &mut JobWriter, rank: u32, key: &str, bytes: usize) -> bool {
        let entry = Posted { scope: Scope::GLOBAL, key: Key::new(key).unwrap(), value: vec![1u8; bytes].into() };
        writer.update(Rank(rank), &[entry]).is_ok()
    }

    #[test]
    fn a_job_and_its_shared_memory_have_a_limit_together_which_each_rank_has_a_share_of() {
        const MIB: u64 = 1 << 20;
        let mut accounts = Accounts::new(16 * MIB, u64::MAX);
        let [one, other] = [0, 1].map(|rank| accounts.of(&proc("job", rank), None));
        let mut writer = full_job(&mut accounts, 200 << 10);
        let shared = accounts.shared().used();
        assert!(shared > 10 * MIB, "{shared} bytes");
        // Of 24 MiB, a sixteenth is kept for shared memory.
        let hold = |account: &Account| {
            let held: Vec<Charge> = std::iter::from_fn(|| account.charge(Kind::Request, 64 << 10)).collect();
            (account.used(), held)
        };
        let (of_one, held) = hold(&one);
        let left = 24 * MIB - 24 * MIB / 16 - shared;
        assert!(of_one > left / 2 - MIB / 8 && of_one <= left / 2, "{of_one} of {left} bytes");
        let (of_other, _more) = hold(&other);
        assert!(of_other > left / 2 - MIB / 8 && of_other <= left / 2, "{of_other} of {left} bytes");
        // Ranks that have little are not refused it.
        assert!(post(&mut writer, 1, "k", 10 << 10));
        drop(held);
        assert!(one.charge(Kind::Request, 2 << 20).is_some());
        drop(writer);
        assert_eq!(accounts.shared().used(), 0);
        assert!(one.charge(Kind::Request, 8 << 20).is_some(), "half of what the job may");
    }

    #[test]
    fn a_limit_on_shared_memory_of_all_jobs_is_none_on_what_they_hold() {
        let mut accounts = Accounts::sharing(Budget::new(1 << 20), 16 << 20, u64::MAX);
        let nspace = proc("job", 0).nspace;
        assert_eq!((accounts.shared_of(&nspace).limit(), accounts.shared_of(&nspace).left()), (1 << 20, 1 << 20));
        let held = accounts.of(&proc("job", 0), None).charge(Kind::Request, 8 << 20);
        assert!(held.is_some());
        assert_eq!((accounts.shared_of(&nspace).left(), accounts.shared().used()), (1 << 20, 0));
    }

    #[test]
    fn what_a_job_holds_leaves_less_shared_memory() {
        let mut accounts = Accounts::new(16 << 20, u64::MAX);
        let held = [0, 1].map(|rank| accounts.of(&proc("job", rank), None).charge(Kind::Request, 7 << 20));
        assert!(held.iter().all(Option::is_some));
        let mut writer = full_job(&mut accounts, 200 << 10);
        assert!(accounts.shared().used() <= 10 << 20, "{} bytes", accounts.shared().used());
        assert!(post(&mut writer, 1, "k", 10 << 10), "ranks that have little are not refused it");
        drop(held);
        assert!(post(&mut writer, 0, "more", 2 << 20));
    }

    #[test]
    fn jobs_that_a_job_has_led_to_share_half_of_its_budget() {
        const MIB: u64 = 1 << 20;
        let mut accounts = Accounts::new(16 * MIB, u64::MAX);
        let root = accounts.of(&proc("job", 0), None);
        let name = |name: &str| proc(name, 0).nspace;
        accounts.descend(&name("child"), &name("job"));
        accounts.descend(&name("grandchild"), &name("child"));
        accounts.descend(&name("sibling"), &name("job"));
        let hold = |accounts: &mut Accounts, name: &str| -> Vec<Charge> {
            let each = (0..8).map(|rank| accounts.of(&proc(name, rank), None)).collect::<Vec<_>>();
            let all = each.iter().map(|account| std::iter::from_fn(|| account.charge(Kind::Request, 64 << 10)));
            all.flatten().collect()
        };
        let bytes = |charges: &Vec<Charge>| charges.len() as u64 * (64 << 10);
        let held = ["child", "grandchild", "sibling"].map(|name| hold(&mut accounts, name));
        let sum = held.iter().map(bytes).sum::<u64>();
        // Of 12 MiB, a sixteenth is kept.
        assert!(sum > 11 * MIB && sum <= 12 * MIB - 12 * MIB / 16, "{sum} bytes");
        assert!(accounts.shared_of(&name("grandchild")).left() < MIB / 8, "shared memory counts for the same");
        assert!(root.charge(Kind::Request, 5 << 20).is_some(), "they leave the other half");
        assert!(bytes(&hold(&mut accounts, "stranger")) > 15 * MIB, "others have their own");
        // Those that are left go on when the first one is over, and give back what they hold.
        accounts.forget(&name("job"));
        accounts.descend(&name("late"), &name("child"));
        assert!(bytes(&hold(&mut accounts, "late")) < MIB / 8);
        drop(held);
        assert!(bytes(&hold(&mut accounts, "late")) > 11 * MIB);
        assert_eq!((accounts.joint_used(&name("late")), root.used()), (0, 0));
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
