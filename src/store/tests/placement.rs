//! Values that follow from maps, and those that do not because the host said otherwise.
use super::*;

fn reader_of(infos: &[Info], local: u32, host: &str) -> JobWriter {
    let info = JobInfo::from_infos(&nspace(), local, infos, host).unwrap();
    JobWriter::create(&nspace(), info, &Limits::default()).unwrap()
}

fn get(writer: &JobWriter, rank: impl Into<Option<u32>>, key: &str) -> Value {
    let rank = rank.into().map_or(Rank::WILDCARD, Rank);
    writer.reader().get(&Question::new(rank, key)).unwrap_or_else(|miss| panic!("{key} of {rank}: {miss}"))
}

#[test]
fn a_host_that_says_nothing_still_has_a_job() {
    let writer = reader_of(&[], 3, "here");
    assert_eq!(get(&writer, None, keys::JOB_SIZE), Value::from(3u32));
    assert_eq!(get(&writer, None, keys::LOCAL_PEERS), Value::from("0,1,2"));
    assert_eq!(get(&writer, 2, keys::HOSTNAME), Value::from("here"));
    assert_eq!(get(&writer, None, keys::NODE_LIST), Value::from("here"));
    assert_eq!(get(&writer, 2, keys::LOCAL_RANK), Value::from(2u16));
    assert_eq!(get(&writer, None, keys::LOCALLDR), Value::from(Rank(0)));
    assert_eq!(get(&writer, None, keys::MAX_PROCS), Value::from(3u32));
    assert_eq!(get(&writer, None, keys::UNIV_SIZE), Value::from(3u32));
    assert_eq!(get(&writer, None, keys::JOB_NUM_APPS), Value::from(1u32));
}

#[test]
fn most_processes_of_the_only_node_and_application_are_those_of_the_job() {
    let most = |writer: &JobWriter, level| {
        let question = Question::new(Rank::WILDCARD, keys::MAX_PROCS).with(&level);
        writer.reader().get(&question).ok()
    };
    let given = [Info::new(keys::MAX_PROCS, 8u32), Info::new(keys::UNIV_SIZE, 16u32)];
    let writer = reader_of(&given, 3, "here");
    assert_eq!(most(&writer, Directives::at(InfoLevel::Job)), Some(Value::from(8u32)));
    assert_eq!(most(&writer, Directives::at(InfoLevel::Node)), Some(Value::from(8u32)));
    assert_eq!(most(&writer, Directives::at(InfoLevel::App)), Some(Value::from(8u32)));
    assert_eq!(
        most(&writer, Directives::at(InfoLevel::Session)),
        Some(Value::from(16u32)),
        "another name of UNIV_SIZE"
    );

    let two = [Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::NODE_MAP, "a,b"), Info::new(keys::PROC_MAP, "0;1")];
    let writer = reader_of(&two, 1, "a");
    assert_eq!(most(&writer, Directives::at(InfoLevel::Node)), None, "only the host knows");
}

#[test]
fn the_slots_of_a_session_are_the_size_of_its_universe() {
    let of_session = |writer: &JobWriter, key| {
        let question = Question::new(Rank::WILDCARD, key);
        writer.reader().get(&question.with(&Directives::at(InfoLevel::Session))).ok()
    };
    let session = |key| about(keys::SESSION_INFO_ARRAY, vec![Info::new(keys::SESSION_ID, 5u32), Info::new(key, 77u32)]);
    for given in [vec![session(keys::NUM_SLOTS)], vec![session(keys::UNIV_SIZE)]] {
        let writer = reader_of(&given, 2, "here");
        for key in [keys::NUM_SLOTS, keys::UNIV_SIZE, keys::MAX_PROCS] {
            assert_eq!(of_session(&writer, key), Some(Value::from(77u32)), "{key}");
        }
        assert_eq!(get(&writer, None, keys::UNIV_SIZE), Value::from(77u32));
    }
    let of_app = |writer: &JobWriter| {
        let question = Question::new(Rank::WILDCARD, keys::NUM_NODES);
        writer.reader().get(&question.with(&Directives::at(InfoLevel::App))).ok()
    };
    let two = [Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::NODE_MAP, "a,b"), Info::new(keys::PROC_MAP, "0;1")];
    assert_eq!(of_app(&reader_of(&two, 1, "a")), Some(Value::from(2u32)));
}

#[test]
fn of_several_applications_each_has_a_number() {
    let app = || about(keys::APP_INFO_ARRAY, vec![Info::new(keys::APP_SIZE, 1u32)]);
    let writer = reader_of(&[app()], 1, "here");
    assert_eq!(get(&writer, 0, keys::APP_SIZE), Value::from(1u32));
    let refused = JobInfo::from_infos(&nspace(), 2, &[app(), app()], "here");
    assert!(matches!(refused, Err(BadJobInfo::Anonymous { key: keys::APPNUM, .. })));
}

#[test]
fn what_the_host_says_stands() {
    let process = |infos| about(keys::PROC_INFO_ARRAY, infos);
    let writer = reader_of(
        &[
            Info::new(keys::JOB_SIZE, 2u32),
            Info::new(keys::NODE_MAP, "a,b"),
            Info::new(keys::PROC_MAP, "0;1"),
            Info::new(keys::NUM_NODES, 9u32),
            Info::new(keys::LOCAL_PEERS, "0,7"),
            process(vec![Info::new(keys::RANK, Rank(0)), Info::new(keys::LOCAL_RANK, 5u16)]),
            process(vec![
                Info::new(keys::RANK, Rank(1)),
                Info::new(keys::LOCAL_RANK, 6u32),
                Info::new(keys::HOSTNAME, "other"),
                Info::new(keys::GLOBAL_RANK, Rank(70)),
            ]),
        ],
        1,
        "a",
    );
    assert_eq!(get(&writer, None, keys::NUM_NODES), Value::from(9u32));
    assert_eq!(get(&writer, None, keys::LOCAL_PEERS), Value::from("0,7"));
    assert_eq!(get(&writer, 0, keys::LOCAL_RANK), Value::from(5u16));
    assert_eq!(get(&writer, 0, keys::NODE_RANK), Value::from(0u16));
    assert_eq!(get(&writer, 1, keys::LOCAL_RANK), Value::from(6u32), "the type is the host's, too");
    assert_eq!(get(&writer, 1, keys::HOSTNAME), Value::from("other"));
    assert_eq!(get(&writer, 1, keys::GLOBAL_RANK), Value::from(Rank(70)));
}

#[test]
fn the_number_of_an_application_is_a_processs_own_unless_the_host_says_it_of_the_job() {
    for (given, found) in [(vec![], None), (vec![Info::new(keys::APPNUM, 3u32)], Some(Value::from(3u32)))] {
        let number = given.first().map_or(0u32, |_| 3);
        let writer = reader_of(&[vec![Info::new(keys::JOB_SIZE, 2u32)], given].concat(), 2, "a");
        assert_eq!(get(&writer, 1, keys::APPNUM), Value::from(number));
        assert_eq!(writer.reader().get(&Question::new(Rank::WILDCARD, keys::APPNUM)).ok(), found);
    }
}

#[test]
fn applications_follow_one_another() {
    let app = |number: u32, size: u32| {
        about(keys::APP_INFO_ARRAY, vec![Info::new(keys::APPNUM, number), Info::new(keys::APP_SIZE, size)])
    };
    let writer = reader_of(&[Info::new(keys::JOB_SIZE, 5u32), app(1, 3), app(0, 2)], 5, "a");
    for (rank, number, in_app, size) in [(0, 0u32, 0, 2u32), (1, 0, 1, 2), (2, 1, 0, 3), (4, 1, 2, 3)] {
        assert_eq!(get(&writer, rank, keys::APPNUM), Value::from(number));
        assert_eq!(get(&writer, rank, keys::APP_RANK), Value::from(Rank(in_app)));
        assert_eq!(get(&writer, rank, keys::APP_SIZE), Value::from(size));
    }
    assert_eq!(get(&writer, None, keys::NODE_LIST), Value::from("a"));
    assert_eq!(get(&writer, 4, keys::APPLDR), Value::from(Rank(2)));
    let first = Directives::of_app(0);
    let of_app = Question::new(Rank(4), keys::APP_SIZE).with(&first);
    assert_eq!(writer.reader().get(&of_app).unwrap(), Value::from(2u32));
    assert_eq!(writer.reader().app_of(Rank(4)), Some(1));
    // A question about no rank in particular means the asker's own application.
    for level in [Directives::NONE, Directives::at(InfoLevel::App)] {
        let asks = |asker| {
            let question = Question::new(Rank::WILDCARD, keys::APP_SIZE).with(&level).asked_by(asker);
            writer.reader().get(&question).ok()
        };
        assert_eq!(asks(Rank(1)), Some(Value::from(2u32)));
        assert_eq!(asks(Rank(2)), Some(Value::from(3u32)));
        assert_eq!(asks(Rank::UNDEF), None);
    }
}

#[test]
fn placement_comes_from_whatever_names_it() {
    // By node numbers of the processes alone, as some hosts do it.
    let process = |rank: u32, node: u32| {
        about(keys::PROC_INFO_ARRAY, vec![Info::new(keys::RANK, Rank(rank)), Info::new(keys::NODEID, node)])
    };
    let writer = reader_of(&[process(0, 4), process(1, 5), process(2, 4), Info::new(keys::NODEID, 5u32)], 1, "me");
    assert_eq!(get(&writer, 1, keys::HOSTNAME), Value::from("me"));
    assert_eq!(get(&writer, 2, keys::LOCAL_RANK), Value::from(1u16));
    assert_eq!(get(&writer, 2, keys::LOCAL_PEERS), Value::from("0,2"));
    assert_eq!(writer.reader().own_node(), Some(5));
    assert!(writer.reader().is_local(Rank(1)) && !writer.reader().is_local(Rank(0)));
    let level = Directives::at(InfoLevel::Node);
    assert_eq!(
        writer.reader().get(&Question::new(Rank::WILDCARD, keys::NODEID).with(&level)).ok(),
        Some(Value::from(5u32))
    );
    assert!(
        !writer.reader().contains(&Question::new(Rank::WILDCARD, keys::NODEID)).unwrap(),
        "the job is on no node in particular"
    );
    assert!(!writer.reader().contains(&Question::new(Rank::WILDCARD, keys::NODE_LIST)).unwrap(), "not all have names");
    // By the list of local peers alone.
    let writer = reader_of(&[Info::new(keys::JOB_SIZE, 4u32), Info::new(keys::LOCAL_PEERS, "1,3")], 2, "me");
    assert!(writer.reader().is_local(Rank(3)) && !writer.reader().is_local(Rank(2)));
    assert_eq!(get(&writer, 3, keys::LOCAL_RANK), Value::from(1u16));
}

/// Job information of two nodes with two processes each, on the second of them: number of rank 0's node, of rank 2's.
fn on_second_node(first: u32, second: u32, own: u32) -> JobWriter {
    let process = |rank: u32, node: u32, name: &str| {
        about(
            keys::PROC_INFO_ARRAY,
            vec![Info::new(keys::RANK, Rank(rank)), Info::new(keys::HOSTNAME, name), Info::new(keys::NODEID, node)],
        )
    };
    let infos = [
        process(0, first, "a"),
        process(1, first, "a"),
        process(2, second, "b"),
        process(3, second, "b"),
        Info::new(keys::NODEID, own),
        Info::new(keys::NODE_MAP, "a,b"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
        Info::new(keys::LOCAL_PEERS, "2,3"),
    ];
    reader_of(&infos, 2, "head")
}

#[test]
fn names_of_nodes_count_for_more_than_numbers() {
    // A host that numbers nodes from 1, and one that gives every process the number of the server's own node.
    for (writer, known_as) in [(on_second_node(1, 2, 2), 2), (on_second_node(1, 1, 1), 1)] {
        let reader = writer.reader();
        assert!(reader.is_local(Rank(2)) && !reader.is_local(Rank(1)));
        assert_eq!(reader.own_node(), Some(known_as));
        assert_eq!(get(&writer, None, keys::NUM_NODES), Value::from(2u32));
        assert_eq!(get(&writer, 0, keys::HOSTNAME), Value::from("a"));
        assert_eq!(get(&writer, 3, keys::HOSTNAME), Value::from("b"));
        assert_eq!(get(&writer, 3, keys::LOCAL_RANK), Value::from(1u16));
        let node = Directives::of_node(known_as);
        let of_node = Question::new(Rank::WILDCARD, keys::LOCAL_PEERS).with(&node);
        assert_eq!(reader.get(&of_node).unwrap(), Value::from("2,3"));
    }
}

#[test]
fn names_that_are_given_count_whether_a_map_has_them_or_not() {
    let process = |rank: u32, name: &str| {
        about(keys::PROC_INFO_ARRAY, vec![Info::new(keys::RANK, Rank(rank)), Info::new(keys::HOSTNAME, name)])
    };
    let mut infos = vec![
        Info::new(keys::NODE_MAP, "a.org,b.org,c.org"),
        Info::new(keys::PROC_MAP, "0,1,2,3;4,5,6,7;8,9,10,11"),
        // The own node says another name of itself than its processes do.
        Info::new(keys::HOSTNAME, "c"),
        process(0, "a.org"),
        process(1, "b.org"),
        process(2, "elsewhere"),
    ];
    infos.extend((8..12).map(|rank| process(rank, "c.org")));
    let writer = reader_of(&infos, 4, "c");
    let names = ["a.org", "b.org", "elsewhere", "a.org", "b.org", "b.org", "b.org", "b.org"];
    for (rank, name) in (0u32..).zip(names.into_iter().chain(["c.org"; 4])) {
        assert_eq!(get(&writer, rank, keys::HOSTNAME), Value::from(name), "{rank}");
    }
    assert_eq!(get(&writer, None, keys::HOSTNAME), Value::from("c"));
    assert_eq!(get(&writer, 4, keys::LOCAL_RANK), Value::from(1u16));
    assert_eq!(get(&writer, 2, keys::LOCAL_PEERS), Value::from("2"));
}

#[test]
fn bad_job_information_is_named() {
    let bad = |infos: &[Info]| JobInfo::from_infos(&nspace(), 1, infos, "a").unwrap_err().to_string();
    assert!(bad(&[Info::new(keys::JOB_SIZE, "four")]).contains(keys::JOB_SIZE));
    assert!(bad(&[Info::new(keys::NODE_MAP, 4u32)]).contains(keys::NODE_MAP));
    assert!(bad(&[about(keys::PROC_INFO_ARRAY, vec![])]).contains(keys::RANK));
    assert!(bad(&[about(keys::PROC_INFO_ARRAY, vec![Info::new(keys::RANK, Rank::WILDCARD)])]).contains("rank"));
    assert!(bad(&[Info::new(keys::NODE_INFO_ARRAY, 4u32)]).contains(keys::NODE_INFO_ARRAY));
    assert!(bad(&[Info::new(keys::PROC_MAP, "0-4294967294")]).contains("rank"));
}

#[test]
fn the_server_can_know_better_than_the_host_where_a_rank_runs() {
    let mut writer = reader_of(&[Info::new(keys::JOB_SIZE, 4u32)], 2, "me");
    let local = [Posted::new(Scope::LOCAL, key("k"), Value::from(1u32))];
    assert!(matches!(writer.update(Rank(1), &local), Err(WriteError::Scope { .. })));
    writer.mark_local(Rank(1));
    writer.update(Rank(1), &local).unwrap();
    assert_eq!(get(&writer, 1, "k"), Value::from(1u32));
}

#[test]
fn a_job_that_is_all_on_another_node_has_nobody_here() {
    let info = [Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::NODE_MAP, "there"), Info::new(keys::PROC_MAP, "0,1")];
    let are_here = |local| [0, 1].map(|rank| reader_of(&info, local, "here").is_local(Rank(rank)));
    assert_eq!((are_here(0), are_here(2)), ([false; 2], [true; 2]));
}
