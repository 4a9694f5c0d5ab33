//! Values written to a store are read back exactly, types included, in the writer's process and through mapped
//! descriptors.
use instanton::data::{DataArray, DataType, Info, Proc};
use instanton::data::{Key, Nspace, Posted, Rank, Scope, Text, Value, keys};
use instanton::store::{
    Directives, InfoLevel, JobInfo, JobReader, JobWriter, Limits, MappedSegment, Miss, Question, Want,
};

fn nspace() -> Nspace {
    Nspace::try_from("job@1").unwrap()
}

fn key(name: &str) -> Key {
    Key::try_from(name).unwrap()
}

fn infos() -> Vec<Info> {
    vec![
        Info::new(keys::JOB_SIZE, 4u32),
        Info::new(keys::UNIV_SIZE, 16u32),
        Info::new(keys::NODE_MAP, "alpha,beta"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
        Info::new(keys::TMPDIR, "/tmp/x"),
        Info::new(
            keys::PROC_INFO_ARRAY,
            DataArray::of_info(vec![
                Info::new(keys::RANK, Rank(1)),
                Info::new(keys::LOCAL_RANK, 1u16),
                Info::new(keys::CPUSET, "0-3"),
            ]),
        ),
    ]
}

fn writer() -> JobWriter {
    let info = JobInfo::from_infos(&nspace(), 2, &infos(), "alpha").unwrap();
    JobWriter::create(&nspace(), info, &Limits::default()).unwrap()
}

fn attach(writer: &JobWriter) -> JobReader {
    let parts = writer.segments(&Default::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd).unwrap());
    JobReader::attach(parts.collect(), None).unwrap()
}

#[test]
fn job_information_is_found_at_its_levels() {
    let writer = writer();
    for reader in [&attach(&writer), writer.reader()] {
        let get = |rank, key: &str| reader.get(&Question::new(rank, key));
        let job = |key: &str| get(Rank::WILDCARD, key).unwrap();
        assert_eq!(job(keys::JOB_SIZE), Value::Uint32(4));
        assert_eq!(get(Rank::UNDEF, keys::JOB_SIZE).unwrap(), Value::Uint32(4));
        assert_eq!(job(keys::UNIV_SIZE), Value::Uint32(16));
        assert_eq!(job(keys::NUM_NODES), Value::Uint32(2));
        assert_eq!(job(keys::LOCAL_PEERS), Value::from("0,1"));
        assert_eq!(job(keys::TMPDIR), Value::from("/tmp/x"));
        for (rank, node, host, local) in [(0, 0u32, "alpha", 0u16), (1, 0, "alpha", 1), (3, 1, "beta", 1)] {
            let get = |key: &str| get(Rank(rank), key).unwrap();
            assert_eq!(get(keys::RANK), Value::ProcRank(Rank(rank)));
            assert_eq!(get(keys::NODEID), Value::Uint32(node));
            assert_eq!(get(keys::HOSTNAME), Value::from(host));
            assert_eq!(get(keys::LOCAL_RANK), Value::Uint16(local));
            assert_eq!(get(keys::NODE_RANK), Value::Uint16(local));
            assert_eq!(get(keys::APPNUM), Value::Uint32(0));
            assert_eq!(get(keys::APP_RANK), Value::ProcRank(Rank(rank)));
            assert_eq!(get(keys::GLOBAL_RANK), Value::ProcRank(Rank(rank)));
            assert_eq!(get(keys::JOB_SIZE), Value::Uint32(4));
            assert_eq!(get(keys::APP_SIZE), Value::Uint32(4));
            assert_eq!(get(keys::LOCAL_SIZE), Value::Uint32(2));
        }
        assert_eq!(get(Rank(3), keys::LOCAL_PEERS).unwrap(), Value::from("2,3"));
        assert_eq!(get(Rank(1), keys::CPUSET).unwrap(), Value::from("0-3"));
        assert!(matches!(get(Rank(0), keys::CPUSET), Err(Miss::NotFound)));
        assert!(matches!(get(Rank(4), keys::RANK), Err(Miss::NotFound)));
        let named = Directives::of_host(Text::new("beta").unwrap());
        let own = Directives::at(InfoLevel::Node);
        for (node, host) in [(Directives::of_node(1), "beta"), (named, "beta"), (own, "alpha")] {
            let question = Question::new(Rank::WILDCARD, keys::HOSTNAME).with(&node);
            assert_eq!(reader.get(&question).unwrap(), Value::from(host));
        }
        let nowhere = Directives::of_node(7);
        let question = Question::new(Rank(0), keys::HOSTNAME).with(&nowhere);
        assert!(matches!(reader.get(&question), Err(Miss::NotFound)));
        assert_eq!((reader.job_size(), reader.own_node()), (4, Some(0)));
        assert!(reader.is_local(Rank(1)) && !reader.is_local(Rank(2)));
    }
}

#[test]
fn posted_data_is_seen_where_its_scope_says() {
    let mut writer = writer();
    let early = attach(&writer);
    let entries = [
        Posted::new(Scope::GLOBAL, key("both"), Value::from("g")),
        Posted::new(Scope::LOCAL, key("here"), Value::from(7u64)),
        Posted::new(Scope::REMOTE, key("there"), Value::from(vec![1u8, 2, 3])),
    ];
    writer.update(Rank(0), &entries).unwrap();
    let question = Question::new(Rank(0), "both");
    assert!(matches!(early.get(&question), Err(Miss::Unmapped(Want::Modex(1)))), "a new segment has to be asked for");
    let late = attach(&writer);
    for reader in [&late, writer.reader()] {
        assert_eq!(reader.get(&question).unwrap(), Value::from("g"));
        assert_eq!(reader.get(&Question::new(Rank(0), "here")).unwrap(), Value::from(7u64));
        assert!(matches!(reader.get(&Question::new(Rank(0), "there")), Err(Miss::NotFound)));
        assert!(matches!(
            reader.get(&Question::new(Rank(0), "here").with(&Directives::of_scope(Scope::GLOBAL))),
            Err(Miss::NotFound)
        ));
        assert!(reader.contains(&question.with(&Directives::of_scope(Scope::REMOTE))).unwrap());
        assert!(!reader.contains(&question.of_rank(Rank::UNDEF)).unwrap(), "somebody's, but whose?");
    }
    let outbound = writer.take_outbound_new(Rank(0)).unwrap();
    assert_eq!(outbound.len(), 2);
    assert!(outbound.contains(&Posted::new(Scope::GLOBAL, key("both"), Value::from("g"))));
    assert!(outbound.contains(&Posted::new(Scope::REMOTE, key("there"), Value::from(vec![1u8, 2, 3]))));
    assert_eq!(writer.take_outbound_new(Rank(0)).unwrap(), []);

    // A LOCAL value takes the place of a GLOBAL one here, not elsewhere.
    writer.update(Rank(0), &[Posted::new(Scope::LOCAL, key("both"), Value::from("l"))]).unwrap();
    assert_eq!(late.get(&question).unwrap(), Value::from("l"));
    assert!(writer.outbound_all(Rank(0)).unwrap().contains(&Posted::new(Scope::REMOTE, key("both"), Value::from("g"))));
    assert_eq!(late.get(&Question::new(Rank(0), "here")).unwrap(), Value::from(7u64), "earlier entries stay");
    assert!(
        writer.update(Rank(2), &[Posted::new(Scope::LOCAL, key("k"), Value::Undef)]).is_err(),
        "LOCAL data of another node"
    );
    writer.update(Rank(2), &[Posted::new(Scope::REMOTE, key("k"), Value::from(1i32))]).unwrap();
    assert_eq!(late.get(&Question::new(Rank(2), "k")).unwrap(), Value::Int32(1));
    let all = late.all(Rank(0)).unwrap();
    assert!(all.iter().any(|(k, s, v, _)| k == "here" && *s == Scope::LOCAL && *v == Value::from(7u64)));
    assert!(all.iter().any(|(k, ..)| k == keys::RANK));
}

#[test]
fn the_job_information_is_replaced_as_a_whole() {
    let mut writer = writer();
    let reader = attach(&writer);
    let mut infos = infos();
    infos[4] = Info::new(keys::TMPDIR, "/tmp/y");
    infos.push(Info::new("vendor.key", Proc::new(nspace(), Rank(2))));
    writer.replace_info(JobInfo::from_infos(&nspace(), 2, &infos, "alpha").unwrap()).unwrap();
    let question = Question::new(Rank::WILDCARD, keys::TMPDIR);
    assert_eq!(reader.stale(), Some(Want::Info(2)));
    assert_eq!(
        reader.get(&question).unwrap(),
        Value::from("/tmp/x"),
        "the old one answers until the new one is mapped"
    );
    assert!(matches!(reader.get(&Question::new(Rank::WILDCARD, "vendor.key")), Err(Miss::Unmapped(Want::Info(2)))));
    let have = instanton::store::Have { job: true, info: reader.generation(), modex: 0 };
    for (_, fd) in writer.segments(&have) {
        reader.add(MappedSegment::map(fd).unwrap()).unwrap();
    }
    assert_eq!(reader.get(&question).unwrap(), Value::from("/tmp/y"));
    let value = reader.get(&Question::new(Rank::WILDCARD, "vendor.key")).unwrap();
    assert_eq!(value.data_type(), DataType::PROC);
}
