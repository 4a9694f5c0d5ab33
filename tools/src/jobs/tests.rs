//! Tests of jobs: their processes by name, their ends, and chains of spawns.
use super::*;
use crate::session::Session;
use instanton::data::constants::proc_state::PROC_STATE_KILLED_BY_CMD;
use instanton::launch::AppSpec;

fn jobs() -> Jobs {
    let spec = |ranks| AppSpec { ranks, program: "p".into(), ..AppSpec::default() };
    let first = Job::new(vec![spec(2)], 1, Session::named("/tmp/x".into()), 1).unwrap();
    let mut jobs = Jobs::default();
    jobs.add(first, Tells::default());
    let (number, before) = jobs.next(1).unwrap();
    let second = jobs.first().spawned(number, jobs.first().proc(0), before, vec![spec(1)]).unwrap();
    jobs.add(second, Tells { completion: true, ..Tells::default() });
    for (job, rank, pid) in [(1, 0, 10), (1, 1, 11), (2, 0, 20)] {
        jobs.started(job, rank, Pid::from_raw(pid));
    }
    jobs
}

fn ended(jobs: &mut Jobs, pid: i32, end: End) -> Option<ProcessEnd> {
    let proc = jobs.reaped(Pid::from_raw(pid), end)?.1;
    jobs.ended(&proc)
}

fn all_of(jobs: &Jobs, job: u32) -> Proc {
    Proc::new(jobs.get(job).unwrap().job.nspace.clone(), Rank::WILDCARD)
}

#[test]
fn daemons_of_a_debugger_have_no_home_on_a_node_that_is_down() {
    let jobs = jobs();
    let homes = |name: &Proc, up: &[u32]| jobs.homes(name, up);
    assert_eq!(homes(&all_of(&jobs, 1), &[0, 1]), Ok(vec![0, 0]));
    assert_eq!(homes(&jobs.first().proc(1), &[0]), Ok(vec![0]));
    for (name, up) in [(all_of(&jobs, 1), 1), (jobs.first().proc(1), 1), (jobs.first().proc(2), 0)] {
        assert_eq!(homes(&name, &[up]), Err(Status::ERR_NOT_FOUND));
    }
}

#[test]
fn ranks_that_wait_for_a_debugger_do_so_until_its_word() {
    let mut jobs = jobs();
    let awaiting = |jobs: &Jobs| jobs.awaiting_debugger(1).to_string();
    let [zero, one] = [0, 1].map(|rank| jobs.first().proc(rank));
    jobs.awaits_word(&zero);
    jobs.awaits_word(&one);
    jobs.awaits_word(&Proc::new(Nspace::new("other").unwrap(), Rank(0)));
    assert_eq!(awaiting(&jobs), "0-1");
    assert!(jobs.let_go(Some(&[one])).is_empty(), "it is not stopped");
    assert_eq!(awaiting(&jobs), "0");
    ended(&mut jobs, 10, End::Code(0)).unwrap();
    assert!(jobs.awaiting_debugger(1).is_empty());
}

#[test]
fn processes_are_found_by_name() {
    let jobs = jobs();
    let pids = |procs: &[Proc]| jobs.named(procs).map(|found| found.into_iter().map(Pid::as_raw).collect::<Vec<_>>());
    assert_eq!(pids(&[all_of(&jobs, 1)]), Ok(vec![10, 11]));
    assert_eq!(pids(&[jobs.first().proc(1), all_of(&jobs, 2)]), Ok(vec![11, 20]));
    assert_eq!(pids(&[jobs.first().proc(2)]), Err(Status::ERR_NOT_FOUND));
    assert_eq!(pids(&[Proc::new(Nspace::new("other").unwrap(), Rank::WILDCARD)]), Err(Status::ERR_NOT_FOUND));
    let of_rank = |rank| pids(&[Proc::new(jobs.first().nspace.clone(), rank)]);
    assert_eq!(of_rank(Rank::LOCAL_PEERS), Ok(vec![10, 11]));
    assert_eq!([Rank::UNDEF, Rank::INVALID].map(of_rank), [(); 2].map(|()| Err(Status::ERR_BAD_PARAM)));
}

#[test]
fn who_is_named_again_is_meant_once() {
    let jobs = jobs();
    let named = [jobs.first().proc(1), all_of(&jobs, 1), jobs.first().proc(1), all_of(&jobs, 2), all_of(&jobs, 2)];
    assert_eq!(jobs.named(&named), Ok([10, 11, 20].map(Pid::from_raw).to_vec()));
}

#[test]
fn a_chain_of_spawns_has_one_ancestor() {
    let mut jobs = jobs();
    let (own, spawned) = (jobs.first().proc(0), jobs.get(2).unwrap().job.proc(0));
    let (number, before) = jobs.next(1).unwrap();
    let spec = AppSpec { ranks: 1, program: "p".into(), ..AppSpec::default() };
    let third = jobs.first().spawned(number, spawned.clone(), before, vec![spec]).unwrap();
    let last = third.proc(0);
    jobs.add(third, Tells::default());
    assert_eq!([&own, &spawned, &last].map(|proc| jobs.ancestor(proc)), [&own; 3]);
    let other = jobs.first().proc(1);
    assert_eq!(jobs.ancestor(&other), &other);
}

#[test]
fn a_job_is_over_with_its_last_process() {
    let mut jobs = jobs();
    assert_eq!(jobs.next(3), Some((3, 3)));
    ended(&mut jobs, 10, End::Code(0)).unwrap();
    assert!(!jobs.is_over(1) && !jobs.is_over(2));
    let child = ended(&mut jobs, 20, End::Code(3)).unwrap();
    assert!(jobs.is_over(2) && child.is_failure());
    assert_eq!((child.status(), child.who.job, child.is_dismissed), (Status::ERR_EXIT_NONZERO_TERM, 2, false));
    assert_eq!(jobs.forget(2).unwrap().status(), Status::ERR_JOB_NON_ZERO_TERM);
    assert_eq!(jobs.next(3), Some((3, 2)), "numbers of jobs are not used again, places on the node are");
    assert!(ended(&mut jobs, 12, End::Code(0)).is_none(), "an orphan");
    assert!(!ended(&mut jobs, 11, End::Code(0)).unwrap().is_failure() && jobs.is_over(1));
    assert!(jobs.forget(1).is_none() && jobs.get(1).is_some());
    assert_eq!(jobs.next(MOST_RANKS), None);
}

#[test]
fn a_job_is_not_over_before_its_last_process_is_heard_out() {
    let mut jobs = jobs();
    let (_, proc) = jobs.reaped(Pid::from_raw(20), End::Code(0)).unwrap();
    assert!(!jobs.is_over(2) && jobs.anybody_is_awaited());
    jobs.set_initialised(&proc, true);
    assert!(jobs.ended(&proc).unwrap().is_failure(), "its Init was heard after its end");
    assert!(jobs.is_over(2) && !jobs.anybody_is_awaited());
}

#[test]
fn a_job_whose_time_is_over_or_that_leaves_without_a_word_says_so() {
    let mut jobs = jobs();
    let second = jobs.get(2).unwrap().job.proc(0);
    jobs.set_initialised(&second, true);
    assert!(ended(&mut jobs, 20, End::Code(0)).unwrap().is_initialised);
    assert_eq!(jobs.get(2).unwrap().status(), Status::ERR_JOB_TERM_WO_SYNC);
    assert_eq!(jobs.late(1).len(), 2);
    assert_eq!(jobs.get(1).unwrap().status(), Status::ERR_TIMEOUT);
    assert_eq!(jobs.late(2), []);
}

#[test]
fn who_was_dismissed_has_not_failed() {
    let mut jobs = jobs();
    jobs.dismiss(&[Pid::from_raw(20)]);
    assert!(ended(&mut jobs, 20, End::Signal(9)).unwrap().is_dismissed);
    assert!(jobs.get(2).unwrap().is_dismissed() && !jobs.get(1).unwrap().is_dismissed());
    assert_eq!(jobs.get(2).unwrap().status(), Status::ERR_JOB_KILLED_BY_CMD);
    assert_eq!(jobs.get(2).unwrap().table().next().unwrap().state, PROC_STATE_KILLED_BY_CMD);
}
