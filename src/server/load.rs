//! Load of the server, for who watches it: one step of the control thread that changes nothing, and looks at each peer
//! and each job once.
use std::collections::HashMap;

use super::ctx::Ctx;
use super::ctx::peers::Role;
use super::jobs::{Job, Jobs, Phase};
use crate::data::{JobLoad, Load, Nspace, Proc, SharedLoad};

/// Most jobs of a report.
const MOST_JOBS: usize = 4096;

/// Makes the report for a process: of all jobs that it may know of, or of the one that it asks about.
pub fn report(cx: &Ctx, jobs: &Jobs, asker: &Proc, about: Option<&[u8]>) -> Load {
    let mut taken: HashMap<&Nspace, u64> = HashMap::new();
    let mut peers = 0;
    for (_, entry) in cx.peers.iter().filter(|(_, entry)| entry.role != Role::Program) {
        peers += 1;
        *taken.entry(&entry.proc.nspace).or_default() += entry.requests.taken();
    }
    let is_meant = |nspace: &Nspace| about.is_none_or(|about| about == nspace.as_bytes());
    let visible = jobs.visible_to(cx, asker).into_iter().filter(|nspace| is_meant(nspace)).take(MOST_JOBS);
    let of = |nspace: &Nspace| Some(job(cx, nspace, jobs.get(nspace)?, taken.get(nspace).copied().unwrap_or(0)));
    Load { peers, requests: cx.meter.requests(), jobs: visible.filter_map(of).collect() }
}

fn job(cx: &Ctx, nspace: &Nspace, job: &Job, requests: u64) -> JobLoad {
    let account = cx.accounts.of_job(nspace);
    let is_attached = |phase: Phase| matches!(phase, Phase::Joined | Phase::Finalized);
    let shared = job.store.as_ref().map(|store| {
        let stats = store.stats();
        SharedLoad {
            bytes: stats.bytes,
            limit: cx.config.job_memory,
            live: stats.live,
            retired: stats.retired,
            set_aside: stats.set_aside,
            segments: stats.segments as u64,
            waiting_sets: stats.waiting_sets as u64,
            generation: stats.generation,
        }
    });
    JobLoad {
        nspace: nspace.clone(),
        size: job.store.as_ref().and_then(|store| store.size()),
        local: (job.clients.len() + job.departed.len()) as u64,
        attached: job.clients.values().filter(|client| is_attached(client.phase) && client.peer.is_some()).count()
            as u64,
        requests,
        held: account.map_or(0, |account| account.used()),
        held_limit: account.map_or(cx.config.job_memory, |account| account.limit()),
        kinds: account
            .map(|account| account.by_kind().map(|(kind, bytes)| (kind.to_string(), bytes)).collect())
            .unwrap_or_default(),
        shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Kind;
    use crate::data::Rank;
    use crate::server::ctx::testing::{self, proc};
    use crate::server::host::NoHost;

    #[test]
    fn a_job_is_told_with_its_requests_and_what_it_holds() {
        let mut test = testing::ctx(NoHost);
        let mut jobs = Jobs::default();
        jobs.add(&proc("job", 0).nspace, 2, &[Rank(0), Rank(1)]);
        let peer = test.connect(&proc("job", 0));
        let account = test.cx.accounts.of(&proc("job", 0), None);
        let _held = account.charge(Kind::Published, 100).unwrap();
        test.request(peer);
        test.request(peer);
        test.cx.meter.count("a get");
        let own = test.cx.own_name();
        let load = report(&test.cx, &jobs, &own, None);
        assert_eq!((load.peers, &load.requests[..]), (1, &[("a get".to_owned(), 1)][..]));
        let [job] = &load.jobs[..] else { panic!("{load:?}") };
        assert_eq!((job.local, job.requests, job.held), (2, 2, 100), "{job:?}");
        assert_eq!(job.kinds, [("published data".to_owned(), 100)]);
        assert_eq!(report(&test.cx, &jobs, &own, Some(b"other")).jobs, []);
        // A process of another user sees none of it.
        assert_eq!(report(&test.cx, &jobs, &proc("stranger", 0), None).jobs, []);
    }
}
