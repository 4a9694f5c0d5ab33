//! Ranks that a host has started anew, as the information of their job says it (`PMIX_REINCARNATION`), on any node.
//!
//! Each time that information comes anew and says so of a rank, all such ranks have a *renewal* in common, by its number.
//! A caller that has noted the number of renewals at some time can tell from it which ranks were started anew since.
use super::{Job, Jobs};
use crate::data::{Key, Nspace, Proc, Rank, keys};
use crate::store::Directives;

/// A rank that was started anew.
#[derive(Clone, Copy, Debug)]
pub struct Renewed {
    rank: Rank,
    /// Number of times that it was.
    incarnation: u32,
    /// The last renewal that it was in.
    renewal: u64,
}

impl Job {
    /// Notes the ranks that were started anew, by the information that it has now. Returns whether there are any.
    fn note_renewed(&mut self, renewal: u64) -> bool {
        let Some(store) = &self.store else { return false };
        let (key, mut is_news) = (Key::new(keys::REINCARNATION).expect("a legal key"), false);
        for rank in (0..store.size().unwrap_or(0)).map(Rank) {
            let value = store.get(Rank::UNDEF, rank, &key, &Directives::NONE).ok();
            let Some(incarnation) = value.and_then(|value| value.as_u32()).filter(|times| *times > 0) else { continue };
            let now = Renewed { rank, incarnation, renewal };
            match self.renewed.binary_search_by_key(&rank, |of| of.rank) {
                Ok(at) if self.renewed[at].incarnation == incarnation => continue,
                Ok(at) => self.renewed[at] = now,
                Err(at) => self.renewed.insert(at, now),
            }
            is_news = true;
        }
        is_news
    }
}

impl Jobs {
    /// A rank of a job was started anew.
    #[cfg(test)]
    pub fn renew(&mut self, proc: &Proc) {
        self.renewals += 1;
        let now = Renewed { rank: proc.rank, incarnation: 1, renewal: self.renewals };
        self.known.get_mut(&proc.nspace).expect("a job").renewed = vec![now];
    }

    /// The information of a job has come anew.
    pub(super) fn note_renewed(&mut self, nspace: &Nspace) {
        let next = self.renewals + 1;
        if self.known.get_mut(nspace).is_some_and(|job| job.note_renewed(next)) {
            self.renewals = next;
        }
    }

    /// Number of renewals so far.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }

    /// Returns whether a process was started anew after so many renewals.
    pub fn is_renewed(&self, proc: &Proc, since: u64) -> bool {
        let of = |job: &Job| {
            let at = job.renewed.binary_search_by_key(&proc.rank, |of| of.rank).ok()?;
            Some(job.renewed[at].renewal > since)
        };
        self.renewals > since && self.get(&proc.nspace).and_then(of) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Info, Value};
    use crate::server::NoHost;
    use crate::server::ctx::testing;
    use crate::store::JobInfoBuilder;

    #[test]
    fn ranks_are_renewed_when_the_information_says_so() {
        let (mut test, nspace) = (testing::ctx(NoHost), Nspace::new("job").unwrap());
        let mut jobs = Jobs::default();
        let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        jobs.register_client(&mut test.cx, &proc(0), 1, 1).unwrap();
        let mut says = |jobs: &mut Jobs, incarnations: [u32; 3]| {
            let mut info = JobInfoBuilder::new(&nspace, 1, "here");
            info.infos(&[Info::new(keys::JOB_SIZE, 3u32)]).unwrap();
            for (rank, incarnation) in incarnations.into_iter().enumerate() {
                let of = vec![Info::new(keys::RANK, Rank(rank as u32)), Info::new(keys::REINCARNATION, incarnation)];
                info.infos(&[Info::new(keys::PROC_INFO_ARRAY, Value::infos(of))]).unwrap();
            }
            jobs.register(&mut test.cx, &nspace, 1, Ok(info)).unwrap();
            let client = jobs.client_mut(&proc(0)).expect("registered");
            client.phase = crate::server::jobs::Phase::Joined;
        };
        says(&mut jobs, [0, 0, 0]);
        says(&mut jobs, [0, 0, 0]);
        assert_eq!(jobs.renewals(), 0);
        says(&mut jobs, [0, 1, 0]);
        says(&mut jobs, [0, 1, 0]);
        let since = |jobs: &Jobs, renewals| [0, 1, 2].map(|rank| jobs.is_renewed(&proc(rank), renewals));
        assert_eq!((jobs.renewals(), since(&jobs, 0)), (1, [false, true, false]));
        says(&mut jobs, [0, 2, 1]);
        assert_eq!((since(&jobs, 1), since(&jobs, 2)), ([false, true, true], [false; 3]));
    }
}
