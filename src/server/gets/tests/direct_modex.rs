//! Tests of direct modex: what other nodes are given, when, and in whose memory.
use super::*;

#[test]
fn another_node_that_names_a_key_and_a_time_waits_for_that_key() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let (sender, answers) = mpsc::channel();
    let waits = |seconds: i32| [Info::new(keys::REQUIRED_KEY, "k"), Info::new(keys::TIMEOUT, seconds)];
    let request = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, name: &'static str, info: &[Info]| {
        let sender = sender.clone();
        let done = Box::new(move |blob: Result<Blob, Status>| sender.send((name, blob.map(drop))).unwrap());
        gets.direct_modex.request(&mut test.cx, jobs, proc("job", 1), info, done);
        test.call_back();
    };
    let post = |test: &mut TestCtx, gets: &mut Gets, jobs: &mut Jobs, name: &str| {
        let entry = Posted { scope: Scope::REMOTE, key: key(name), value: Value::from(1u32) };
        jobs.commit(&mut test.cx, proc("job", 1), vec![entry]).unwrap();
        for effect in test.effects() {
            if let Effect::Posted { proc, keys } = effect {
                gets.posted(&mut test.cx, jobs, &proc, &keys);
            }
        }
        read_for_others(test, gets, jobs);
    };
    post(&mut test, &mut gets, &mut jobs, "first");
    request(&mut test, &mut gets, &jobs, "plain", &waits(5)[..1]);
    assert_eq!(answers.try_recv(), Ok(("plain", Ok(()))));
    request(&mut test, &mut gets, &jobs, "short", &waits(1));
    request(&mut test, &mut gets, &jobs, "long", &waits(0));
    post(&mut test, &mut gets, &mut jobs, "second");
    assert!(answers.try_recv().is_err());
    for deadline in test.advance(Duration::from_secs(2)) {
        let Deadline::DirectModex(number) = deadline else { panic!("{deadline:?}") };
        gets.direct_modex.expired(&mut test.cx, number);
    }
    test.call_back();
    assert_eq!(answers.try_recv(), Ok(("short", Err(Status::ERR_TIMEOUT))));
    post(&mut test, &mut gets, &mut jobs, "k");
    assert_eq!(answers.try_recv(), Ok(("long", Ok(()))));
    request(&mut test, &mut gets, &jobs, "there", &waits(0));
    read_for_others(&mut test, &mut gets, &mut jobs);
    assert_eq!(answers.try_recv(), Ok(("there", Ok(()))));
    // A request for a key that will not come learns of it.
    let absent = [Info::new(keys::REQUIRED_KEY, "absent"), Info::new(keys::TIMEOUT, 0)];
    request(&mut test, &mut gets, &jobs, "gone", &absent);
    gets.process_gone(&mut test.cx, &jobs, &proc("job", 1));
    test.call_back();
    assert_eq!(answers.try_recv(), Ok(("gone", Err(Status::ERR_NOT_FOUND))));
    assert_eq!(gets.open(), 0);
    assert!(!test.cx.awaited.has(&proc("job", 1)));
}

/// Has rank 1 post what is much for other nodes; returns the bytes of all that it has posted.
fn post_much(test: &mut TestCtx, jobs: &mut Jobs, name: &str) -> u64 {
    let entry = Posted { scope: Scope::GLOBAL, key: key(name), value: Value::from(vec![7u8; 1000]) };
    jobs.commit(&mut test.cx, proc("job", 1), vec![entry]).unwrap();
    jobs.store(&proc("job", 1).nspace).unwrap().outbound_bytes(&[Rank(1)], false)
}

#[test]
fn much_is_read_for_other_nodes_by_a_thread_and_again_for_those_that_come_later() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let (sender, answers) = mpsc::channel();
    let request = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs| {
        let sender = sender.clone();
        let done = Box::new(move |blob: Result<Blob, Status>| sender.send(blob.unwrap().len()).unwrap());
        gets.direct_modex.request(&mut test.cx, jobs, proc("job", 1), &[], done);
    };
    post_much(&mut test, &mut jobs, "one");
    request(&mut test, &mut gets, &jobs);
    request(&mut test, &mut gets, &jobs);
    let Some(Slice::Departure(number)) = test.cx.slices.pop_front() else { panic!("it is left to a slice") };
    gets.direct_modex.slice(&mut test.cx, &mut jobs, number);
    post_much(&mut test, &mut jobs, "other");
    request(&mut test, &mut gets, &jobs);
    test.call_back();
    assert!(test.cx.slices.is_empty() && answers.try_recv().is_err());
    let step = |test: &mut TestCtx, gets: &mut Gets, jobs: &mut Jobs| {
        test.run_offloaded();
        while let Some(ticket) = test.ticket() {
            match ticket {
                Ticket::Departed(number) => gets.direct_modex.departed(&mut test.cx, jobs, number),
                Ticket::BlobGone(nspace) => gets.direct_modex.blob_gone(&mut test.cx, jobs, &nspace),
                _ => {}
            }
        }
        test.call_back();
    };
    step(&mut test, &mut gets, &mut jobs);
    let first = [answers.try_recv().unwrap(), answers.try_recv().unwrap()];
    assert!(answers.try_recv().is_err(), "the third has come after what was read");
    let Some(Slice::Departure(number)) = test.cx.slices.pop_front() else { panic!("it is read again") };
    gets.direct_modex.slice(&mut test.cx, &mut jobs, number);
    step(&mut test, &mut gets, &mut jobs);
    assert!(first[0] == first[1] && answers.try_recv().unwrap() > first[0] + 1000);
    read_for_others(&mut test, &mut gets, &mut jobs);
    assert_eq!(gets.direct_modex.open(), 0);
}

/// Does all that there is to do about data for other nodes; returns how often a thread has read some.
fn read_for_others(test: &mut TestCtx, gets: &mut Gets, jobs: &mut Jobs) -> usize {
    let mut reads = 0;
    loop {
        if let Some(Slice::Departure(number)) = test.cx.slices.pop_front() {
            reads += 1;
            gets.direct_modex.slice(&mut test.cx, jobs, number);
            test.run_offloaded();
        }
        test.call_back();
        match test.ticket() {
            Some(Ticket::Departed(number)) => gets.direct_modex.departed(&mut test.cx, jobs, number),
            Some(Ticket::BlobGone(nspace)) => gets.direct_modex.blob_gone(&mut test.cx, jobs, &nspace),
            Some(_) => {}
            None if test.cx.slices.is_empty() => return reads,
            None => {}
        }
    }
}

#[test]
fn nodes_whose_copies_of_much_data_nobody_has_room_for_are_answered_one_after_the_other() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let (sender, answers) = mpsc::channel();
    let bytes = post_much(&mut test, &mut jobs, "k");
    for (reads, room) in [(2, 3 * bytes - 1), (1, 3 * bytes)] {
        test.cx.accounts = Accounts::new(room, u64::MAX);
        test.cx.accounts.of(&proc("job", 1), None);
        for _ in 0..2 {
            let sender = sender.clone();
            let done = Box::new(move |blob: Result<Blob, Status>| sender.send(blob.unwrap().len()).unwrap());
            gets.direct_modex.request(&mut test.cx, &jobs, proc("job", 1), &[], done);
        }
        assert_eq!(read_for_others(&mut test, &mut gets, &mut jobs), reads);
        assert_eq!(answers.try_iter().filter(|bytes| *bytes > 1000).count(), 2);
        assert_eq!((gets.direct_modex.open(), test.cx.accounts.charged()), (0, 0));
    }
}

#[test]
fn much_data_is_charged_while_the_host_holds_it_and_what_has_no_room_waits_for_that() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let (sender, answers) = mpsc::channel();
    let bytes = post_much(&mut test, &mut jobs, "k");
    test.cx.accounts = Accounts::new(2 * bytes, u64::MAX);
    test.cx.accounts.of(&proc("job", 1), None);
    let request = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs| {
        let sender = sender.clone();
        let done = Box::new(move |blob: Result<Blob, Status>| sender.send(blob).unwrap());
        gets.direct_modex.request(&mut test.cx, jobs, proc("job", 1), &[], done);
    };
    request(&mut test, &mut gets, &jobs);
    request(&mut test, &mut gets, &jobs);
    read_for_others(&mut test, &mut gets, &mut jobs);
    let blob = answers.try_recv().unwrap().unwrap();
    assert!(blob.len() > 1000 && test.cx.accounts.charged() == bytes);
    assert!(answers.try_recv().is_err(), "there is no room for a second copy");
    drop(blob);
    read_for_others(&mut test, &mut gets, &mut jobs);
    let taken = Vec::from(answers.try_recv().unwrap().unwrap());
    assert!(taken.len() > 1000 && test.cx.accounts.charged() == 0, "a copy that is taken over is charged to nobody");
    read_for_others(&mut test, &mut gets, &mut jobs);
    assert_eq!(gets.direct_modex.open(), 0);
    // A copy may outlive its job; without room and copies, it is an error.
    request(&mut test, &mut gets, &jobs);
    read_for_others(&mut test, &mut gets, &mut jobs);
    let blob = answers.try_recv().unwrap();
    request(&mut test, &mut gets, &jobs);
    gets.job_over(&mut test.cx, &jobs, &proc("job", 1).nspace);
    test.call_back();
    assert_eq!(answers.try_recv().unwrap().err(), Some(Status::ERR_NOT_FOUND));
    drop(blob);
    read_for_others(&mut test, &mut gets, &mut jobs);
    test.cx.accounts = Accounts::new(bytes, u64::MAX);
    test.cx.accounts.of(&proc("job", 1), None);
    request(&mut test, &mut gets, &jobs);
    read_for_others(&mut test, &mut gets, &mut jobs);
    assert_eq!(answers.try_recv().unwrap().err(), Some(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!((gets.direct_modex.open(), test.cx.accounts.charged()), (0, 0));
}

#[test]
fn another_node_is_answered_when_the_process_has_posted_or_the_job_turns_out_to_be_elsewhere() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let (sender, answers) = mpsc::channel();
    let request = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, of: Proc| {
        let sender = sender.clone();
        let done = Box::new(move |blob: Result<Blob, Status>| sender.send(blob.map(|blob| !blob.is_empty())).unwrap());
        gets.direct_modex.request(&mut test.cx, jobs, of, &[], done);
        test.call_back();
    };
    request(&mut test, &mut gets, &jobs, proc("job", 3));
    assert_eq!(answers.try_recv(), Ok(Err(Status::ERR_NOT_FOUND)), "it runs elsewhere");
    request(&mut test, &mut gets, &jobs, proc("job", 1));
    request(&mut test, &mut gets, &jobs, proc("later", 0));
    assert!(answers.try_recv().is_err());
    commit(&mut test, &mut jobs, &mut gets, 1, "k", Scope::GLOBAL);
    test.call_back();
    assert_eq!(answers.try_recv(), Ok(Ok(true)));
    let later = proc("later", 0).nspace;
    jobs.add(&later, 1, &[]);
    gets.job_registered(&mut test.cx, &jobs, &later);
    test.call_back();
    assert_eq!(answers.try_recv(), Ok(Err(Status::ERR_NOT_FOUND)));
}
