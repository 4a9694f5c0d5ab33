use super::*;
use instanton::data::Rank;
use std::sync::mpsc::{Receiver, Sender, channel};

struct Test {
    meetings: Meetings,
    census: Census,
    said: Sender<(usize, Result<Met, Status>)>,
    heard: Receiver<(usize, Result<Met, Status>)>,
}

impl Test {
    fn new() -> Self {
        let ((said, heard), mut census) = (channel(), Census::default());
        census.place(&Nspace::new("job").unwrap(), vec![0, 1, 2, 2]);
        Self { meetings: Meetings::default(), census, said, heard }
    }

    fn come(&mut self, node: usize, data: &[u8], failed: Option<Status>) -> Vec<(usize, Result<Met, Status>)> {
        let data = data.to_vec();
        self.come_to(Kind::Fence, node, Part { data, failed, ..Part::default() })
    }

    fn come_to(&mut self, kind: Kind, node: usize, part: Part) -> Vec<(usize, Result<Met, Status>)> {
        self.come_of(&all(), kind, node, part)
    }

    fn come_of(&mut self, procs: &[Proc], kind: Kind, node: usize, part: Part) -> Vec<(usize, Result<Met, Status>)> {
        let said = self.said.clone();
        let answer: Answer = Box::new(move |result| said.send((node, result)).unwrap());
        let answers = self.meetings.come((kind, procs), &self.census, (node, part, answer));
        self.give(answers)
    }

    fn ends(&mut self, rank: u32) -> Vec<(usize, Result<Met, Status>)> {
        self.census.has_ended(&proc(rank));
        let answers = self.meetings.count(&self.census);
        self.give(answers)
    }

    fn begins_anew(&mut self, rank: u32, node: usize) {
        self.census.expect(&proc(rank));
        let answers = self.meetings.expect(&proc(rank).nspace, node);
        assert_eq!(self.give(answers), []);
    }

    fn give(&self, answers: Answers) -> Vec<(usize, Result<Met, Status>)> {
        answers.into_iter().for_each(|(answer, result)| answer(result));
        self.heard.try_iter().collect()
    }
}

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

fn all() -> Vec<Proc> {
    vec![Proc { rank: Rank::WILDCARD, ..proc(0) }]
}

#[test]
fn all_are_answered_when_the_last_has_come_and_the_next_meeting_waits() {
    let mut test = Test::new();
    assert_eq!(test.come(0, b"a", None), []);
    assert_eq!(test.come(2, b"b", None), []);
    assert_eq!(test.come(0, b"next", None), []);
    let met = test.come(1, b"c", None);
    assert_eq!(met.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 2, 1]);
    assert!(met.iter().all(|(_, result)| result.as_ref().unwrap().data == b"abc"));
    assert_eq!(test.meetings.open.len(), 1);
    test.come(1, b"", None);
    assert_eq!(test.come(2, b"", None).len(), 3);
    assert!(test.meetings.open.is_empty());
}

#[test]
fn a_failure_that_nobody_has_met_is_taken_back() {
    let mut test = Test::new();
    let (job, gone) = (Nspace::new("job").unwrap(), Status::ERR_PROC_TERM_WO_SYNC);
    test.come(1, b"!", Some(gone));
    let answers = test.meetings.expect(&job, 1);
    assert_eq!(test.give(answers), [(1, Err(gone))]);
    assert!(test.meetings.open.is_empty());
    test.come(0, b"a", None);
    assert_eq!(test.come(1, b"!", Some(gone)), [(0, Err(gone))]);
    let answers = test.meetings.expect(&job, 1);
    assert_eq!(test.give(answers), [], "somebody has been told");
}

#[test]
fn a_failure_that_a_process_of_its_node_knows_is_that_of_the_others_too() {
    let (mut test, gone) = (Test::new(), Status::ERR_PARTIAL_SUCCESS);
    // Of two ranks there one has come, and the other one is started anew before anybody else comes.
    assert_eq!(test.ends(3), []);
    let part = Part { data: b"!".to_vec(), failed: Some(gone), is_known: true, ..Part::default() };
    assert_eq!(test.come_to(Kind::Fence, 2, part), []);
    test.begins_anew(3, 2);
    assert_eq!([0, 1].map(|node| test.come(node, b"a", None)[0].clone()), [0, 1].map(|node| (node, Err(gone))));
    assert!(test.meetings.open.is_empty());
    assert_eq!([0, 1].map(|node| test.come(node, b"a", None).len()), [0, 0]);
    assert_eq!(test.come(2, b"c", None).len(), 3);
}

#[test]
fn ranks_that_were_all_started_anew_are_late_for_no_failed_meeting() {
    for are_all in [true, false] {
        let mut test = Test::new();
        assert_eq!([0, 1].map(|node| test.come(node, b"a", None).len()), [0, 0]);
        for rank in if are_all { 2..4 } else { 2..3 } {
            assert_eq!(test.ends(rank), [], "the other one may come, or the rank anew");
            test.begins_anew(rank, 2);
        }
        let answers = test.meetings.withdraw((&Kind::Fence, &all()), 0, &test.census);
        let late = Err(Status::ERR_TIMEOUT);
        assert_eq!(test.give(answers), [(0, late.clone()), (1, late.clone())]);
        assert_eq!(test.meetings.open.is_empty(), are_all);
        if !are_all {
            assert_eq!(test.come(2, b"late", None), [(2, late)]);
        }
        assert_eq!([0, 1].map(|node| test.come(node, b"a", None).len()), [0, 0]);
        assert_eq!(test.come(2, b"c", None).len(), 3);
    }
}

#[test]
fn a_failure_is_told_to_all_once_and_leaves_nothing() {
    let mut test = Test::new();
    let gone = Status::ERR_PROC_TERM_WO_SYNC;
    test.come(0, b"a", None);
    assert_eq!(test.come(1, b"!", Some(gone)), [(0, Err(gone))]);
    let all = Met { data: b"a!b".to_vec(), failed: Some(gone), ..Met::default() };
    assert_eq!(test.come(2, b"b", None), [(2, Err(gone)), (1, Ok(all))]);
    assert!(test.meetings.open.is_empty());
    test.come(0, b"a", None);
    test.census.lose(2);
    let (answers, gone) = (test.meetings.count(&test.census), Status::ERR_PARTIAL_SUCCESS);
    assert_eq!(test.give(answers), [(0, Err(gone))]);
    assert_eq!(test.come(1, b"b", None), [(1, Err(gone))]);
    assert!(test.meetings.open.is_empty());
    test.census = Test::new().census;
    test.come(0, b"a", None);
    let answers = test.meetings.forget(&Nspace::new("job").unwrap());
    assert_eq!(test.give(answers), [(0, Err(Status::EVENT_JOB_END))]);
}

#[test]
fn who_waits_for_a_tool_that_goes_has_lost_a_member_as_has_who_comes_later() {
    let (mut test, gone) = (Test::new(), Status::ERR_PARTIAL_SUCCESS);
    let name = Nspace::new("job").unwrap();
    test.come(0, b"a", None);
    test.census.forget(&name);
    let answers = test.meetings.tools_gone(&name);
    assert_eq!(test.give(answers), [(0, Err(gone))]);
    assert_eq!(test.come(1, b"b", None), [(1, Err(gone))]);
    assert!(test.meetings.open.is_empty());
}

#[test]
fn nobody_waits_for_a_node_on_which_nobody_is_left() {
    let (mut test, lost) = (Test::new(), Status::ERR_PARTIAL_SUCCESS);
    test.come(0, b"a", None);
    assert_eq!(test.ends(2), [], "another one may come there");
    assert_eq!(test.ends(3), [(0, Err(lost))]);
    assert_eq!(test.come(1, b"b", None), [(1, Err(lost))]);
    assert!(test.meetings.open.is_empty());
    assert_eq!(test.come(2, b"c", None), [(2, Err(lost))], "what was on its way is no part of the next meeting");
    assert!(test.meetings.open.is_empty());
    assert_eq!(test.come(0, b"a", None), [(0, Err(lost))]);
    // A node that comes anew is waited for in the next meeting, not in this one.
    test.begins_anew(3, 2);
    test.come(2, b"c", None);
    assert_eq!(test.come(1, b"b", None), [(1, Err(lost))]);
    test.come(0, b"a", None);
    assert_eq!(test.come(1, b"b", None).len(), 3);
    assert!(test.meetings.open.is_empty() && test.meetings.missed.is_empty());
}

#[test]
fn who_has_come_before_its_end_has_done_its_part() {
    let mut test = Test::new();
    test.come(1, b"b", None);
    assert_eq!(test.ends(1), []);
    test.come(0, b"a", None);
    assert!(test.come(2, b"c", None).iter().all(|(_, met)| met.is_ok()));
}

#[test]
fn a_group_is_made_and_ended_without_members_that_are_excused() {
    let group = Nspace::new("g").unwrap();
    let part = || Part { excuses: true, notifies: true, ..Part::default() };
    for operation in [GROUP_CONSTRUCT, GROUP_DESTRUCT] {
        let (mut test, kind) = (Test::new(), Kind::Group(operation, group.clone()));
        test.ends(1);
        test.come_to(kind.clone(), 0, part());
        let mut met = test.come_to(kind, 2, part());
        if operation == GROUP_CONSTRUCT {
            assert_eq!(met, [], "they are asked");
            let by = [0, 2, 3].map(proc);
            let answers = test.meetings.decide(&group, &[proc(1)], &by, &test.census);
            met = test.give(answers);
        }
        assert!(met.iter().all(|(_, met)| met.as_ref().unwrap().gone == [proc(1)]) && met.len() == 2);
        let asked = [0, 2, 3].map(proc).to_vec();
        let failed = MembersFailed { group: group.clone(), gone: vec![proc(1)], asked };
        let is_construct = operation == GROUP_CONSTRUCT;
        assert_eq!(test.meetings.take_failed(), is_construct.then_some(failed).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_leader_alone_is_asked_about_the_gone_and_waited_for_as_long_as_it_lives() {
    for lives in [true, false] {
        let (mut test, group) = (Test::new(), Nspace::new("g").unwrap());
        let kind = || Kind::Group(GROUP_CONSTRUCT, group.clone());
        let part = || Part { excuses: true, notifies: true, ..Part::default() };
        test.meetings.lead(&group, Some(proc(3)));
        test.ends(1);
        assert_eq!(test.come_to(kind(), 0, part()), []);
        assert_eq!(test.come_to(kind(), 2, part()), []);
        assert_eq!(test.meetings.take_failed()[0].asked, [proc(3)]);
        let (answers, others) = (test.meetings.decide(&group, &[proc(1)], &[proc(0)], &test.census), [proc(3)]);
        assert_eq!(test.give(answers), [], "nobody has asked it");
        let met = match lives {
            true => {
                let answers = test.meetings.decide(&group, &[proc(1)], &others, &test.census);
                test.give(answers)
            }
            false => test.ends(3),
        };
        assert_eq!(met.len(), 2);
        assert!(met.iter().all(|(_, met)| met.as_ref().unwrap().gone == [proc(1)]));
        assert!(test.meetings.open.is_empty() && test.meetings.leaders.is_empty());
    }
}

#[test]
fn members_learn_who_is_gone_when_the_end_of_their_group_fails() {
    let (mut test, group) = (Test::new(), Nspace::new("g").unwrap());
    test.ends(1);
    let failed = Some(Status::ERR_PROC_TERM_WO_SYNC);
    let met = test.come_to(Kind::Group(GROUP_DESTRUCT, group.clone()), 0, Part::default());
    assert_eq!(met, [(0, Ok(Met { gone: vec![proc(1)], failed, ..Met::default() }))]);
    let met = test.come_to(Kind::Group(GROUP_CONSTRUCT, group), 0, Part::default());
    assert_eq!(met, [(0, Err(Status::ERR_PROC_TERM_WO_SYNC))]);
}

#[test]
fn a_node_whose_time_is_over_ends_the_meeting_for_all() {
    let (mut test, late) = (Test::new(), Status::ERR_TIMEOUT);
    let withdraw = |test: &mut Test, node| {
        let answers = test.meetings.withdraw((&Kind::Fence, &all()), node, &test.census);
        test.give(answers)
    };
    test.come(0, b"a", None);
    test.come(1, b"b", None);
    assert_eq!(withdraw(&mut test, 2), [], "it has not come");
    assert_eq!(withdraw(&mut test, 1), [0, 1].map(|node| (node, Err(late))));
    assert_eq!(withdraw(&mut test, 1), [], "it waits no more");
    test.come(1, b"next", None);
    assert_eq!(test.come(2, b"c", None), [(2, Err(late))]);
    test.come(0, b"next", None);
    assert_eq!(test.come(2, b"next", None).len(), 3);
    assert!(test.meetings.open.is_empty());
}

#[test]
fn a_meeting_that_cannot_be_is_refused_to_all() {
    let (mut test, refused) = (Test::new(), Some(Status::ERR_NOT_SUPPORTED));
    test.come(0, b"a", None);
    let told = test.come_to(Kind::Fence, 1, Part { refused, ..Part::default() });
    assert_eq!(told, [0, 1].map(|node| (node, Err(Status::ERR_NOT_SUPPORTED))));
    assert_eq!(test.come(2, b"c", None), [(2, Err(Status::ERR_NOT_SUPPORTED))]);
    assert!(test.meetings.open.is_empty());
}

#[test]
fn a_meeting_of_a_group_goes_on_without_a_member_that_has_left_or_fails() {
    let group = Nspace::new("g").unwrap();
    let part = |excuses| Part { excuses, group: Some(group.clone()), ..Part::default() };
    let ends = || Kind::Group(GROUP_DESTRUCT, group.clone());
    for (kind, excuses, met) in
        [(ends(), false, Ok(())), (Kind::Fence, true, Ok(())), (Kind::Fence, false, Err(Status::GROUP_LEFT))]
    {
        let mut test = Test::new();
        test.come_to(kind.clone(), 0, part(excuses));
        let answers = test.meetings.leave(&group, &proc(1), &test.census);
        let mut told = test.give(answers);
        // It has not heard of that yet.
        told.extend(test.come_to(kind, 2, part(excuses)));
        let told: Vec<_> = told.into_iter().map(|(node, told)| (node, told.map(drop))).collect();
        assert_eq!(told, [(0, met), (2, met)]);
        assert!(test.meetings.open.is_empty());
    }
    let mut test = Test::new();
    test.come(0, b"a", None);
    let answers = test.meetings.leave(&group, &proc(1), &test.census);
    assert_eq!(test.give(answers), [], "a fence that names no group waits for it");
}

#[test]
fn nodes_that_hear_late_that_a_member_has_left_meet_those_that_know_it() {
    let (group, others) = (Nspace::new("g").unwrap(), [0, 2, 3].map(proc));
    let part = |failed| Part { group: Some(group.clone()), failed, ..Part::default() };
    let left = |node| vec![(node, Err(Status::GROUP_LEFT))];
    // The first names it still, and the second not.
    let mut test = Test::new();
    let answers = test.meetings.leave(&group, &proc(1), &test.census);
    assert_eq!(test.give(answers), []);
    assert_eq!(test.come_to(Kind::Fence, 0, part(None)), left(0));
    assert_eq!(test.come_of(&others, Kind::Fence, 2, part(None)), left(2));
    assert!(test.meetings.open.is_empty() && test.meetings.missed.is_empty());
    // One has failed already because of it.
    test.come_of(&others, Kind::Fence, 2, part(None));
    let told = test.come_to(Kind::Fence, 0, part(Some(Status::GROUP_LEFT)));
    assert_eq!(told[..1], left(2));
    assert!(test.meetings.open.is_empty() && told.len() == 2);
    // Both know it.
    test.come_of(&others, Kind::Fence, 2, part(None));
    assert!(test.come_of(&others, Kind::Fence, 0, part(None)).iter().all(|(_, met)| met.is_ok()));
    // It has come before it has left.
    let mut test = Test::new();
    test.come_to(Kind::Fence, 1, part(None));
    let answers = test.meetings.leave(&group, &proc(1), &test.census);
    assert_eq!(test.give(answers), []);
    test.come_to(Kind::Fence, 0, part(None));
    let met = test.come_of(&others, Kind::Fence, 2, part(None));
    assert!(met.len() == 3 && met.iter().all(|(_, met)| met.is_ok()) && test.meetings.open.is_empty());
}

#[test]
fn who_gives_a_group_up_ends_its_construction_for_all() {
    let (mut test, group, given_up) = (Test::new(), Nspace::new("g").unwrap(), Status::GROUP_CONSTRUCT_ABORT);
    let kind = || Kind::Group(GROUP_CONSTRUCT, group.clone());
    test.come_to(kind(), 0, Part::default());
    let answers = test.meetings.give_up(&group, &Proc { nspace: group.clone(), ..proc(0) }, &test.census);
    assert_eq!(test.give(answers), [], "a stranger says so");
    let answers = test.meetings.give_up(&group, &proc(0), &test.census);
    assert_eq!(test.give(answers), [(0, Err(given_up))]);
    assert_eq!(
        [1, 2].map(|node| test.come_to(kind(), node, Part::default())),
        [1, 2].map(|node| vec![(node, Err(given_up))])
    );
    assert!(test.meetings.open.is_empty());
}

#[test]
fn who_comes_again_in_the_place_of_a_member_is_none() {
    let (group, gone) = (Nspace::new("g").unwrap(), Status::ERR_PARTIAL_SUCCESS);
    let part = || Part { group: Some(group.clone()), ..Part::default() };
    let mut test = Test::new();
    for node in 0..3 {
        test.come_to(Kind::Group(GROUP_CONSTRUCT, group.clone()), node, part());
    }
    test.ends(1);
    test.begins_anew(1, 1);
    for node in [0, 2] {
        assert_eq!(test.come_to(Kind::Fence, node, part()), [(node, Err(gone))]);
    }
    // It is waited for where all are named by their own names, whoever comes first.
    test.come(1, b"b", None);
    test.come(0, b"a", None);
    assert_eq!(test.come(2, b"c", None).len(), 3);
    let excused = || Part { excuses: true, ..part() };
    test.come_to(Kind::Fence, 0, excused());
    assert!(test.come_to(Kind::Fence, 2, excused()).iter().all(|(_, met)| met.as_ref().unwrap().gone == [proc(1)]));
    let failed = Some(Status::ERR_PROC_TERM_WO_SYNC);
    for node in [0, 2] {
        let met = test.come_to(Kind::Group(GROUP_DESTRUCT, group.clone()), node, part());
        assert_eq!(met, [(node, Ok(Met { gone: vec![proc(1)], failed, ..Met::default() }))]);
    }
    assert!(test.meetings.open.is_empty() && test.meetings.missed.is_empty());
    // A group that is made afterwards has it as a member.
    for node in 0..3 {
        test.come_to(Kind::Group(GROUP_CONSTRUCT, group.clone()), node, part());
    }
    assert_eq!(test.come_to(Kind::Fence, 0, part()), []);
    let answers = test.meetings.forget(&proc(0).nspace);
    assert_eq!(test.give(answers), [(0, Err(Status::EVENT_JOB_END))]);
    assert!(test.meetings.made.is_empty());
}

#[test]
fn who_comes_again_first_does_not_meet_the_members_by_the_groups_name() {
    let (group, gone) = (Nspace::new("g").unwrap(), Status::ERR_PARTIAL_SUCCESS);
    let part = |excuses| Part { group: Some(group.clone()), excuses, ..Part::default() };
    for excuses in [false, true] {
        let mut test = Test::new();
        for node in 0..3 {
            test.come_to(Kind::Group(GROUP_CONSTRUCT, group.clone()), node, part(false));
        }
        // One of the group's fences is under way meanwhile.
        assert_eq!(test.come_to(Kind::Fence, 0, part(excuses)), []);
        let told = test.ends(1);
        assert_eq!(told, if excuses { vec![] } else { vec![(0, Err(gone))] });
        test.begins_anew(1, 1);
        assert_eq!(test.come(1, b"again", None), []);
        let is_right = |met: &Result<Met, Status>| match excuses {
            true => met.as_ref().is_ok_and(|met| met.gone == [proc(1)]),
            false => *met == Err(gone),
        };
        let told = test.come_to(Kind::Fence, 2, part(excuses));
        assert_eq!(told.len(), if excuses { 2 } else { 1 });
        assert!(told.iter().all(|(_, met)| is_right(met)), "{told:?}");
        // The next one is apart from who waits for all.
        let told = [0, 2].map(|node| test.come_to(Kind::Fence, node, part(excuses))).concat();
        assert!(told.len() == 2 && told.iter().all(|(_, met)| is_right(met)), "{told:?}");
        assert_eq!(test.come(0, b"a", None), []);
        let met = test.come(2, b"c", None);
        assert!(met.len() == 3 && met.iter().all(|(_, met)| met.as_ref().unwrap().data == b"againac"), "{met:?}");
        assert!(test.meetings.open.is_empty() && test.meetings.missed.is_empty());
    }
}

#[test]
fn nodes_that_have_heard_of_other_losses_meet_for_the_end_of_a_group() {
    let group = Nspace::new("g").unwrap();
    let mut test = Test::new();
    let mut told = Vec::new();
    for (node, procs) in [(0, all()), (1, vec![proc(0), proc(1)]), (2, vec![proc(0), proc(1), proc(2)])] {
        let (said, part) = (test.said.clone(), Part { group: Some(group.clone()), ..Part::default() });
        let answer: Answer = Box::new(move |result| said.send((node, result)).unwrap());
        let kind = Kind::Group(GROUP_DESTRUCT, group.clone());
        let answers = test.meetings.come((kind, &procs), &test.census, (node, part, answer));
        told.extend(test.give(answers));
    }
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|(_, met)| met == &Ok(Met::default())) && test.meetings.open.is_empty());
}

#[test]
fn who_is_late_for_the_end_of_a_group_that_has_failed_is_told_so_whomever_it_names() {
    let group = Nspace::new("g").unwrap();
    let part = || Part { group: Some(group.clone()), ..Part::default() };
    let construct = |test: &mut Test| {
        (0..3).for_each(|node| _ = test.come_to(Kind::Group(GROUP_CONSTRUCT, group.clone()), node, part()));
    };
    let ends = Kind::Group(GROUP_DESTRUCT, group.clone());
    let mut test = Test::new();
    construct(&mut test);
    test.ends(1);
    test.begins_anew(1, 1);
    let failed = Met { gone: vec![proc(1)], failed: Some(Status::ERR_PROC_TERM_WO_SYNC), ..Met::default() };
    assert_eq!(test.come_to(ends.clone(), 0, part()), [(0, Ok(failed.clone()))]);
    // Node 0 tries again without who is gone, as node 2 does that has heard of it before.
    let others = [proc(0), proc(2), proc(3)];
    assert_eq!(test.come_of(&others, ends.clone(), 0, part()), []);
    assert_eq!(test.come_of(&others, ends.clone(), 2, part()), [(2, Ok(failed))]);
    let told = test.come_of(&others, ends.clone(), 2, part());
    assert!(told.len() == 2 && told.iter().all(|(_, met)| *met == Ok(Met::default())), "{told:?}");
    assert!(test.meetings.open.is_empty());
    // A group of the same name owes nothing to the end of the one before.
    construct(&mut test);
    test.ends(1);
    test.begins_anew(1, 1);
    assert_eq!(test.come_to(ends.clone(), 0, part()).len(), 1);
    construct(&mut test);
    (0..2).for_each(|node| assert_eq!(test.come_to(ends.clone(), node, part()), []));
    assert_eq!(test.come_to(ends.clone(), 2, part()).len(), 3);
    assert!(test.meetings.open.is_empty());
}

#[test]
fn what_is_kept_for_those_who_come_late_is_bounded_and_a_job_has_its_own_room() {
    let (mut test, other) = (Test::new(), Nspace::new("other").unwrap());
    test.census.place(&other, vec![0, 1]);
    let others = vec![Proc::new(other.clone(), Rank::WILDCARD)];
    let come = |test: &mut Test, kind: Kind, procs: &[Proc], node, part| {
        let said = test.said.clone();
        let answer: Answer = Box::new(move |result| said.send((node, result)).unwrap());
        let answers = test.meetings.come((kind, procs), &test.census, (node, part, answer));
        test.give(answers)
    };
    let give_up = |test: &mut Test, kind: &Kind, procs: &[Proc]| {
        let answers = test.meetings.withdraw((kind, procs), 0, &test.census);
        assert_eq!(test.give(answers), [(0, Err(Status::ERR_TIMEOUT))]);
    };
    // Nobody of the other node comes to any of them; one has brought more than is kept.
    let data = vec![0; MOST_KEPT + 1];
    come(&mut test, Kind::Fence, &others, 0, Part { data, ..Part::default() });
    give_up(&mut test, &Kind::Fence, &others);
    let named = |number: u32| Nspace::new(format!("{number:0>200}")).unwrap();
    let last = 3 * remembered::MOST as u32 / 1000;
    for number in 0..=last {
        let (group, procs) = (named(number), [proc(0), proc(1)]);
        let constructs = Kind::Group(GROUP_CONSTRUCT, group.clone());
        test.meetings.lead(&group, Some(proc(0)));
        come(&mut test, constructs.clone(), &procs, 0, Part::default());
        give_up(&mut test, &constructs, &procs);
        let answers = test.meetings.leave(&group, &proc(0), &test.census);
        assert_eq!(test.give(answers), []);
    }
    let most = remembered::MOST / (ENTRY + 200);
    let Meetings { open, spent, left, leaders, .. } = &test.meetings;
    assert!(open.len() < most && spent.len() == open.len() && left.len() <= most && leaders.len() <= most);
    let late = Err(Status::ERR_TIMEOUT);
    let told = come(&mut test, Kind::Group(GROUP_CONSTRUCT, named(last)), &[proc(0), proc(1)], 1, Part::default());
    assert_eq!(told, [(1, late.clone())]);
    assert_eq!(come(&mut test, Kind::Fence, &others, 1, Part::default()), [(1, late)], "its job has had few of them");

    // Those of the same processes, and nodes that nobody is left on.
    for _ in 0..=2 * MOST_FAILED {
        test.come(0, b"a", None);
        give_up(&mut test, &Kind::Fence, &all());
    }
    assert_eq!(test.meetings.open[&(Kind::Fence, all())].len(), MOST_FAILED);
    test.census.has_ended(&proc(1));
    for number in 0..last {
        let constructs = Kind::Group(GROUP_CONSTRUCT, named(number));
        come(&mut test, constructs, &[proc(1), proc(2)], 2, Part::default());
    }
    assert!((1..=most).contains(&test.meetings.missed.len()));
    test.meetings.forget(&proc(0).nspace);
    test.meetings.forget(&other);
    let Meetings { open, spent, missed, left, leaders, .. } = &test.meetings;
    assert!(open.is_empty() && spent.is_empty() && missed.is_empty() && left.is_empty() && leaders.is_empty());
}

#[test]
fn a_failed_meeting_that_goes_under_another_name_is_kept_within_bounds_as_well() {
    let (mut test, group) = (Test::new(), Nspace::new("g").unwrap());
    test.come_to(Kind::Fence, 0, Part { group: Some(group.clone()), excuses: true, ..Part::default() });
    let answers = test.meetings.withdraw((&Kind::Fence, &all()), 0, &test.census);
    assert_eq!(test.give(answers), [(0, Err(Status::ERR_TIMEOUT))]);
    let answers = test.meetings.leave(&group, &proc(1), &test.census);
    assert_eq!(test.give(answers), []);
    assert_eq!((test.meetings.open.len(), test.meetings.spent.len()), (1, 1));
}
