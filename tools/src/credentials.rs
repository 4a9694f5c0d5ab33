//! Credentials of ranks and tools: tokens that the server can tell to be its own, and those of munge.
//!
//! A process that asks for one gets a word that nobody can guess. A process that is shown the word can have it looked
//! at here, and learns whose it is. A token ends with its process.
//!
//! Where munge is asked for before tokens are, and its service runs, that makes the credential: it says the user and
//! nothing else, and any service of the machine can judge it. The service may take its time: a thread of its own waits
//! for it.
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use instanton::data::{Info, InfoList, Nspace, Proc, Rank, Status, keys};
use instanton::internal::sys::munge;
use instanton::server::{Accepted, Answer, Completion, Credential, Infos};
use nix::unistd::{getgid, getuid};

use crate::random;
use crate::threads::start_thread;

/// The kind of tokens (`PMIX_CRED_TYPE`).
const KIND: &str = "instanton";
/// The kind of munge's credentials, and how they begin.
const MUNGE: &str = "munge";
const OF_MUNGE: &[u8] = b"MUNGE:";
/// Most tokens that are known at a time; an older one gives way to a newer one of the same process.
const MOST: usize = 65536;
/// Most tokens of one process.
const MOST_OF_ONE: usize = 64;

/// Most threads that wait for munge's service at a time.
const MOST_THREADS: usize = 16;

/// The tokens that were given, and the threads that wait for munge's service.
#[derive(Debug, Default)]
pub struct Credentials {
    tokens: Mutex<Tokens>,
    /// Each thread has a clone.
    threads: Arc<()>,
}

#[derive(Debug, Default)]
struct Tokens {
    owners: BTreeMap<Vec<u8>, Proc>,
    of: BTreeMap<Proc, VecDeque<Vec<u8>>>,
}

impl Tokens {
    fn forget(&mut self, proc: &Proc) {
        for token in self.of.remove(proc).unwrap_or_default() {
            self.owners.remove(&token);
        }
    }
}

impl Credentials {
    /// Answers a process that asks for a credential.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn get(self: &Arc<Self>, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        check(directives)?;
        let of_kind = |kind: &str| vec![Info::new(keys::CRED_TYPE, kind)];
        if kinds(directives).find(|kind| [KIND, MUNGE].contains(kind)) != Some(MUNGE) {
            let token = self.make(proc, directives)?;
            done.complete(Ok((token, of_kind(KIND))));
            return Ok(Answer::Later);
        }
        let (tokens, proc, directives) = (self.clone(), proc.clone(), directives.to_vec());
        self.in_a_thread(move || {
            let made = munge::make().map(|made| (made, of_kind(MUNGE)));
            // Another kind will do, where one is named.
            let token = || tokens.make(&proc, &directives).map(|token| (token, of_kind(KIND)));
            done.complete(made.map_or_else(token, Ok));
        })
    }

    /// Answers a process that wants to know whose a credential is.
    ///
    /// # Errors
    /// As [`judge`](Self::judge).
    pub fn validate(&self, credential: &[u8], directives: &[Info], done: Completion<Infos>) -> Accepted {
        check(directives)?;
        let is_wanted = kinds(directives).next().is_none() || kinds(directives).any(|kind| kind == MUNGE);
        if !is_wanted || !credential.starts_with(OF_MUNGE) {
            let whose = self.judge(credential, directives)?;
            done.complete(Ok((Status::SUCCESS, whose)));
            return Ok(Answer::Later);
        }
        let credential = credential.to_vec();
        self.in_a_thread(move || {
            let owner = munge::judge(&credential).map_err(|_| Status::ERR_INVALID_CRED);
            let infos = |owner: munge::Owner| {
                vec![
                    Info::new(keys::USERID, owner.uid),
                    Info::new(keys::GRPID, owner.gid),
                    Info::new(keys::CRED_TYPE, MUNGE),
                ]
            };
            done.complete(owner.map(|owner| (Status::SUCCESS, infos(owner))));
        })
    }

    /// Makes a credential for a process.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` where another kind is wanted, `ERR_OUT_OF_RESOURCE` where there are too many.
    fn make(&self, proc: &Proc, directives: &[Info]) -> Result<Vec<u8>, Status> {
        check_kind(directives)?;
        let token = random::hex::<32>().map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        let token = format!("{KIND}:{token}").into_bytes();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let Tokens { owners, of } = &mut *tokens;
        if owners.len() >= MOST {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let own = of.entry(proc.clone()).or_default();
        if own.len() >= MOST_OF_ONE
            && let Some(oldest) = own.pop_front()
        {
            owners.remove(&oldest);
        }
        own.push_back(token.clone());
        owners.insert(token.clone(), proc.clone());
        Ok(token)
    }

    /// Says whose a credential is. All processes here are of one user.
    ///
    /// # Errors
    /// `ERR_INVALID_CRED` for one that was not made here, or whose process has ended; as [`make`](Self::make).
    fn judge(&self, token: &[u8], directives: &[Info]) -> Result<Vec<Info>, Status> {
        check_kind(directives)?;
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = tokens.owners.get(token).ok_or(Status::ERR_INVALID_CRED)?;
        Ok(vec![
            Info::new(keys::USERID, getuid().as_raw()),
            Info::new(keys::GRPID, getgid().as_raw()),
            Info::new(keys::PROCID, owner.clone()),
            Info::new(keys::CRED_TYPE, KIND),
        ])
    }

    /// Does what waits for munge's service.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` where many wait for it, or there is no thread to be had.
    fn in_a_thread(&self, work: impl FnOnce() + Send + 'static) -> Accepted {
        let own = self.threads.clone();
        if Arc::strong_count(&own) > MOST_THREADS + 1 {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let started = start_thread("munge", move || {
            work();
            drop(own);
        });
        started.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        Ok(Answer::Later)
    }

    /// The tokens of a process end with it.
    pub fn process_ended(&self, proc: &Proc) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).forget(proc);
    }

    /// The tokens of a job, or of an application of tools, end with it.
    pub fn namespace_ended(&self, nspace: &Nspace) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = tokens.of.range(Proc::new(nspace.clone(), Rank(0))..).map(|(proc, _)| proc);
        let procs: Vec<Proc> = of_it.take_while(|proc| proc.nspace == *nspace).cloned().collect();
        procs.iter().for_each(|proc| tokens.forget(proc));
    }
}

/// The kinds that a caller takes, the best first; none where all will do.
fn kinds(directives: &[Info]) -> impl Iterator<Item = &str> {
    let list = directives.find(keys::CRED_TYPE).and_then(|info| info.value.as_str());
    list.into_iter().flat_map(|list| list.split(',')).map(str::trim)
}

/// Refuses what is required and unknown.
fn check(directives: &[Info]) -> Result<(), Status> {
    const SERVED: [&str; 4] = [keys::CRED_TYPE, keys::USERID, keys::GRPID, keys::TIMEOUT];
    if directives.iter().any(|info| info.is_unserved(&SERVED)) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// Returns whether tokens are among the kinds that a caller takes.
fn check_kind(directives: &[Info]) -> Result<(), Status> {
    match kinds(directives).next().is_none() || kinds(directives).any(|kind| kind == KIND) {
        true => Ok(()),
        false => Err(Status::ERR_NOT_SUPPORTED),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_token_says_whose_it_is_until_its_process_ends() {
        let credentials = Credentials::default();
        let [a, b] = [0, 1].map(|rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank)));
        let kinds = |kinds: &str| [Info::new(keys::CRED_TYPE, kinds)];
        let credentials = Arc::new(credentials);
        let wish = [Info::new("site.wish", true).required()];
        let refused = [
            credentials.get(&a, &wish, Completion::new(|_| panic!("it is refused"))),
            credentials.validate(b"x", &wish, Completion::new(|_| panic!("it is refused"))),
        ];
        assert!(refused.iter().all(|refused| refused.as_ref().err() == Some(&Status::ERR_NOT_SUPPORTED)));
        let of_a = credentials.make(&a, &[]).unwrap();
        let of_b = credentials.make(&b, &kinds("munge, instanton")).unwrap();
        assert_eq!(credentials.make(&a, &kinds("munge")), Err(Status::ERR_NOT_SUPPORTED));
        let whose = |token: &[u8]| {
            credentials
                .judge(token, &[])
                .map(|infos| infos.find(keys::PROCID).unwrap().value.as_proc().cloned().unwrap())
        };
        assert_eq!((whose(&of_a), whose(&of_b)), (Ok(a.clone()), Ok(b.clone())));
        assert_eq!(whose(&of_a[1..]), Err(Status::ERR_INVALID_CRED));
        credentials.process_ended(&a);
        assert_eq!((whose(&of_a), whose(&of_b)), (Err(Status::ERR_INVALID_CRED), Ok(b.clone())));
        for _ in 0..MOST_OF_ONE {
            credentials.make(&b, &[]).unwrap();
        }
        assert_eq!(whose(&of_b), Err(Status::ERR_INVALID_CRED), "it has given way to newer ones");
        let of_a = credentials.make(&a, &[]).unwrap();
        let other = credentials.make(&Proc::new(Nspace::new("jobs").unwrap(), Rank(0)), &[]).unwrap();
        credentials.namespace_ended(&a.nspace);
        assert_eq!((whose(&of_a).err(), whose(&other).err()), (Some(Status::ERR_INVALID_CRED), None));
        assert_eq!(credentials.tokens.lock().unwrap().owners.len(), 1);
    }

    #[test]
    fn so_many_threads_wait_for_munge_and_no_more() {
        let credentials = Credentials::default();
        let (held, let_go) = mpsc::channel::<()>();
        let let_go = Arc::new(Mutex::new(let_go));
        let wait = || {
            let let_go = let_go.clone();
            credentials.in_a_thread(move || _ = let_go.lock().unwrap_or_else(PoisonError::into_inner).recv())
        };
        for _ in 0..MOST_THREADS {
            wait().unwrap();
        }
        assert_eq!(wait().unwrap_err(), Status::ERR_OUT_OF_RESOURCE);
        drop(held);
    }
}
