//! Accounts: the bytes that each process, each job and each user makes a server hold.
//!
//! A server serves strangers' programs, for days. Memory that a request makes it hold is charged beforehand: to the
//! account of the process that asked, and through that to the accounts of its job and its user. The [`Charge`] lies
//! beside the bytes. Dropping it gives them back, so that no way out can forget to, and a process that dies gives back
//! what died with it.
//!
//! Jobs have accounts of their own: what one holds, those of other users never lack; jobs of one user have a limit
//! together besides. A job's shared memory has a limit apart, and both have one together: the [budget](Budget) that they
//! draw on. A process may hold half of what its job may, or half of what shared memory has left of that where it is less,
//! so that one process alone cannot starve the others of its job. A process that is over a limit gets
//! `ERR_OUT_OF_RESOURCE`, and a trace line names the process, the kind and the amount.
use std::fmt;
use std::sync::Arc;

use instanton_layout::sync::{AtomicU64, Ordering};

use crate::store::Budget;
use crate::trace;

/// Kind of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request that has not come in whole.
    Input,
    /// A request that waits for its answer.
    Request,
    /// Answers and pushes that the process has not read.
    Output,
    /// Attributes that a collective keeps for its host, and data that it carries.
    Collective,
    /// Paths to remove after the process or its job.
    Cleanup,
    /// An event kept for those who register late.
    Event,
    /// A pull of output, and output that waits for its reader.
    Pull,
    /// Answers that are put together.
    Answer,
    /// Data that others can look up.
    Published,
    /// A connection: its descriptor, and what the kernel and the door keep of it.
    Connection,
    /// Descriptors that the process has not taken.
    Descriptors,
    /// A monitor, with its timer.
    Monitor,
    /// A job that the process has started, as its host keeps the request.
    Spawned,
    /// Files with the job's data.
    Files,
}

impl Kind {
    /// All of them, in order.
    #[cfg(feature = "server")]
    const ALL: [Kind; KINDS] = [
        Kind::Input,
        Kind::Request,
        Kind::Output,
        Kind::Collective,
        Kind::Cleanup,
        Kind::Event,
        Kind::Pull,
        Kind::Answer,
        Kind::Published,
        Kind::Connection,
        Kind::Descriptors,
        Kind::Monitor,
        Kind::Spawned,
        Kind::Files,
    ];
}

/// Number of kinds.
const KINDS: usize = 14;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Input => "an incomplete request",
            Kind::Request => "a waiting request",
            Kind::Output => "unread answers",
            Kind::Collective => "data of a collective",
            Kind::Cleanup => "paths to clean up",
            Kind::Event => "a kept event",
            Kind::Pull => "output to be read",
            Kind::Answer => "answers to a query",
            Kind::Published => "published data",
            Kind::Connection => "a connection",
            Kind::Descriptors => "descriptors to be taken",
            Kind::Monitor => "a monitor",
            Kind::Spawned => "a request to start a job",
            Kind::Files => "files with its data",
        })
    }
}

/// Jobs that one job has led to, at whatever distance, as long as one of them has an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Descent(usize);

#[cfg(test)]
impl Descent {
    /// A descent of no job, for tests.
    pub fn numbered(number: usize) -> Descent {
        Descent(number)
    }
}

/// Owner of an account.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Job,
    Process,
    Other,
}

/// Account of a process, a job or a user. Clones are the same account.
#[derive(Clone, Debug)]
pub struct Account(Arc<Ledger>);

#[derive(Debug)]
struct Ledger {
    owner: Box<str>,
    limit: u64,
    /// A counter: no other memory is published by it, so relaxed order is enough.
    used: AtomicU64,
    /// Account of its job, of a process; of its user, of a job.
    above: Option<Account>,
    is_process: bool,
    /// Budget that a job draws on, as its shared memory does.
    joint: Option<Budget>,
    /// Bytes by kind, of a job: counters as well.
    by_kind: Option<Box<[AtomicU64; KINDS]>>,
}

impl Ledger {
    /// Counts bytes of a kind that were taken, or given back.
    fn count(&self, kind: Kind, bytes: u64, is_taken: bool) {
        let Some(by_kind) = &self.by_kind else { return };
        let counter = &by_kind[kind as usize];
        match is_taken {
            true => counter.fetch_add(bytes, Ordering::Relaxed),
            false => counter.fetch_sub(bytes, Ordering::Relaxed),
        };
    }
}

impl Account {
    /// Opens the account of a job.
    pub fn of_job(owner: impl fmt::Display, limit: u64) -> Account {
        Account::open(&owner, limit, None, Owner::Job)
    }

    /// Opens the account of a job that draws on a budget, as its shared memory does, and belongs to a user where one is
    /// known.
    pub fn of_job_in(joint: Budget, user: Option<Account>, owner: impl fmt::Display, limit: u64) -> Account {
        Account::open_in(Some(joint), &owner, limit, user, Owner::Job)
    }

    /// Opens the account of a user, whom [jobs](Self::job_of) belong to.
    pub fn of_user(uid: u32, limit: u64) -> Account {
        Account::open(&format_args!("user {uid}"), limit, None, Owner::Other)
    }

    /// Opens the account of a job of this user.
    pub fn job_of(&self, owner: impl fmt::Display, limit: u64) -> Account {
        Account::open(&owner, limit, Some(self.clone()), Owner::Job)
    }

    /// Opens the account of a process of this job.
    pub fn of_process(&self, owner: impl fmt::Display) -> Account {
        Account::open(&owner, self.0.limit / 2, Some(self.clone()), Owner::Process)
    }

    /// The account of the job, of its process or of the job itself.
    pub fn of_its_job(&self) -> &Account {
        self.0.above.as_ref().filter(|_| self.0.is_process).unwrap_or(self)
    }

    /// The jobs that its job draws on a budget with, where another one has led to them.
    #[cfg(feature = "server")]
    pub fn descent(&self) -> Option<Descent> {
        self.of_its_job().0.joint.as_ref()?.shared_with().map(Descent)
    }

    /// Opens an account that nothing is refused to, for the server's own program and for those who hold nothing yet.
    pub fn unlimited() -> Account {
        Account::open(&"", u64::MAX, None, Owner::Other)
    }

    fn open(name: &dyn fmt::Display, limit: u64, above: Option<Account>, owner: Owner) -> Account {
        Account::open_in(None, name, limit, above, owner)
    }

    fn open_in(
        joint: Option<Budget>,
        name: &dyn fmt::Display,
        limit: u64,
        above: Option<Account>,
        owner: Owner,
    ) -> Account {
        Account(Arc::new(Ledger {
            owner: name.to_string().into_boxed_str(),
            limit,
            used: AtomicU64::new(0),
            above,
            is_process: owner == Owner::Process,
            joint,
            by_kind: (owner == Owner::Job).then(|| Box::new([const { AtomicU64::new(0) }; KINDS])),
        }))
    }

    /// The most bytes that may be charged.
    #[cfg(feature = "server")]
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes that are charged to a job, for each kind of which there are some; of others, nothing.
    #[cfg(feature = "server")]
    pub fn by_kind(&self) -> impl Iterator<Item = (Kind, u64)> {
        let counters = self.0.by_kind.iter().flat_map(|by_kind| by_kind.iter());
        let counted = Kind::ALL.into_iter().zip(counters.map(|counter| counter.load(Ordering::Relaxed)));
        counted.filter(|(_, bytes)| *bytes > 0)
    }

    /// Bytes that are charged.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Charges so many bytes, given back when the charge is dropped; none when that is over the limit of
    /// the process, of its job or of its user.
    #[must_use]
    pub fn charge(&self, kind: Kind, bytes: usize) -> Option<Charge> {
        let bytes = bytes as u64;
        let Err(full) = self.take(bytes) else {
            self.count(kind, bytes, true);
            return Some(Charge { account: self.clone(), kind, bytes });
        };
        let Account(ledger) = self;
        trace!(
            "{}: {bytes} bytes of {kind} are refused: {} of {} bytes of {}{} are in use",
            ledger.owner,
            full.used,
            full.limit,
            full.owner,
            if full.with_shared { " and its shared memory" } else { "" }
        );
        None
    }

    /// Bytes that may still be charged: none of the process, its job and its user has less left.
    #[cfg(feature = "server")]
    pub fn room(&self) -> u64 {
        let left = |account: &Account| {
            let left = account.limit_now().saturating_sub(account.used());
            account.0.joint.as_ref().map_or(left, |joint| left.min(joint.own_left()))
        };
        self.chain().map(left).min().unwrap_or(0)
    }

    /// Returns whether so many bytes more are within the limit of this account.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes as u64) <= self.0.limit
    }

    /// Charges so many bytes even where that is over the limit: for the little that is promised to everybody.
    pub fn force(&self, kind: Kind, bytes: usize) -> Charge {
        let bytes = bytes as u64;
        for Account(ledger) in self.chain() {
            ledger.used.fetch_add(bytes, Ordering::Relaxed);
            ledger.joint.iter().for_each(|joint| joint.force_own(bytes));
        }
        self.count(kind, bytes, true);
        Charge { account: self.clone(), kind, bytes }
    }

    /// Counts bytes of a kind for the job.
    fn count(&self, kind: Kind, bytes: u64, is_taken: bool) {
        self.chain().for_each(|account| account.0.count(kind, bytes, is_taken));
    }

    /// Takes from this account and from those above it, or from none.
    ///
    /// # Errors
    /// Names what has not enough.
    fn take(&self, bytes: u64) -> Result<(), Full<'_>> {
        let most = self.limit_now();
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        let taken = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.map_err(|used| Full { used, limit: most, owner: &self.0.owner, with_shared: false })?;
        let joint = self.0.joint.as_ref();
        let above = match joint.filter(|joint| !joint.take_own(bytes)) {
            Some(joint) => {
                Err(Full { used: joint.used(), limit: joint.limit(), owner: &self.0.owner, with_shared: true })
            }
            None => self.0.above.as_ref().map_or(Ok(()), |above| {
                above.take(bytes).inspect_err(|_| joint.into_iter().for_each(|joint| joint.give_own_back(bytes)))
            }),
        };
        above.inspect_err(|_| _ = self.0.used.fetch_sub(bytes, Ordering::Relaxed))
    }

    /// The most that may be charged now: of a process half of what its job's shared memory leaves, where that is less
    /// than half of what its job may.
    fn limit_now(&self) -> u64 {
        let job = self.0.above.as_ref().filter(|_| self.0.is_process);
        let left = job.and_then(|job| Some(job.0.joint.as_ref()?.own_left().saturating_add(job.used()) / 2));
        left.map_or(self.0.limit, |left| self.0.limit.min(left))
    }

    fn give_back(&self, kind: Kind, bytes: u64) {
        self.count(kind, bytes, false);
        for Account(ledger) in self.chain() {
            ledger.used.fetch_sub(bytes, Ordering::Relaxed);
            ledger.joint.iter().for_each(|joint| joint.give_own_back(bytes));
        }
    }

    fn chain(&self) -> impl Iterator<Item = &Account> {
        std::iter::successors(Some(self), |account| account.0.above.as_ref())
    }
}

/// Account, or budget of a job, that has not enough for a charge.
struct Full<'a> {
    used: u64,
    limit: u64,
    owner: &'a str,
    with_shared: bool,
}

/// Bytes that are held, given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    kind: Kind,
    bytes: u64,
}

impl Charge {
    /// Bytes that it may grow by.
    #[cfg(feature = "server")]
    pub fn room(&self) -> u64 {
        self.account.room()
    }

    /// Charges or gives back what is missing to so many bytes. Returns false, and leaves it as it was, where that is
    /// over a limit.
    #[must_use]
    pub fn resize(&mut self, kind: Kind, bytes: usize) -> bool {
        let (before, bytes) = (self.bytes, bytes as u64);
        match bytes.checked_sub(before) {
            Some(0) => return true,
            Some(more) => {
                let Some(mut more) = self.account.charge(kind, more as usize) else { return false };
                // This one holds them from now on, whatever they were asked for as.
                if kind != self.kind {
                    self.account.count(kind, more.bytes, false);
                    self.account.count(self.kind, more.bytes, true);
                }
                more.bytes = 0;
            }
            None => self.account.give_back(self.kind, before - bytes),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.give_back(self.kind, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_held_by_process_and_job_until_it_is_dropped() {
        let job = Account::of_job("job", 100);
        let process = job.of_process("job:0");
        let charge = process.charge(Kind::Request, 30).unwrap();
        assert_eq!((process.used(), job.used()), (30, 30));
        drop(charge);
        assert_eq!((process.used(), job.used()), (0, 0));
    }

    #[test]
    fn a_process_has_half_of_its_job_and_a_refusal_takes_nothing() {
        let job = Account::of_job("job", 100);
        let (greedy, other) = (job.of_process("job:0"), job.of_process("job:1"));
        assert!(greedy.charge(Kind::Input, 51).is_none());
        let half = greedy.charge(Kind::Input, 50).unwrap();
        let rest = other.charge(Kind::Input, 40).unwrap();
        assert!(other.charge(Kind::Input, 11).is_none(), "the job is over");
        assert_eq!((other.used(), job.used()), (40, 90));
        drop((half, rest));
        assert_eq!(job.used(), 0);
    }

    #[test]
    fn a_charge_grows_and_shrinks_as_far_as_there_is_room() {
        let job = Account::of_job("job", 100);
        let mut charge = job.charge(Kind::Pull, 10).unwrap();
        #[cfg(feature = "server")]
        assert_eq!((charge.room(), job.of_process("job:0").room()), (90, 50));
        assert!(charge.resize(Kind::Pull, 100) && !charge.resize(Kind::Pull, 101));
        assert_eq!(job.used(), 100);
        assert!(charge.resize(Kind::Pull, 5));
        assert_eq!(job.used(), 5);
        drop(charge);
        assert_eq!((job.used(), Arc::strong_count(&job.0)), (0, 1));
    }

    #[test]
    fn what_one_job_holds_another_does_not_lack() {
        let (greedy, other) = (Account::of_job("greedy", 10), Account::of_job("other", 10));
        let _all = greedy.charge(Kind::Output, 10).unwrap();
        assert!(other.charge(Kind::Output, 10).is_some());
    }

    #[test]
    fn jobs_of_one_user_have_a_limit_together_besides() {
        let user = Account::of_user(7, 15);
        let [one, other] = ["one", "other"].map(|job| user.job_of(job, 10));
        let held = one.of_process("one:0").charge(Kind::Output, 5).unwrap();
        let more = other.charge(Kind::Output, 10).unwrap();
        assert!(one.charge(Kind::Output, 1).is_none(), "the user is over");
        assert_eq!((one.used(), other.used(), user.used()), (5, 10, 15));
        assert_eq!((one.of_its_job().used(), one.of_process("one:1").of_its_job().used()), (5, 5));
        drop((held, more));
        assert_eq!((one.used(), user.used()), (0, 0));
    }

    #[cfg(feature = "server")]
    #[test]
    fn a_job_counts_what_it_holds_by_kind() {
        let job = Account::of_job("job", 100);
        let process = job.of_process("job:0");
        let mut request = process.charge(Kind::Request, 10).unwrap();
        let output = process.force(Kind::Output, 20);
        assert!(request.resize(Kind::Request, 15));
        assert_eq!(job.by_kind().collect::<Vec<_>>(), [(Kind::Request, 15), (Kind::Output, 20)]);
        drop(output);
        assert!(request.resize(Kind::Request, 1));
        assert_eq!(job.by_kind().collect::<Vec<_>>(), [(Kind::Request, 1)]);
        assert_eq!((process.by_kind().count(), job.limit()), (0, 100));
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }

    #[test]
    fn what_is_promised_is_charged_beyond_the_limit() {
        let job = Account::of_job("job", 10);
        let charge = job.of_process("job:0").force(Kind::Request, 20);
        assert_eq!(job.used(), 20);
        drop(charge);
        assert_eq!(job.used(), 0);
    }

    #[test]
    fn sums_that_overflow_are_over_the_limit() {
        let all = Account::unlimited();
        let _half = all.charge(Kind::Request, usize::MAX).unwrap();
        assert!(all.charge(Kind::Request, usize::MAX).is_none());
    }
}
