//! A writer that the system refuses memory. Alone in its process, whose address space is limited.
use instanton::data::{Info, Key, Nspace, Posted, Rank, Scope, Value, keys};
use instanton::store::{JobInfo, JobWriter, Limits, Question};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Bytes of the address space in use.
fn address_space() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// More than the first segments hold, and less than the allocator asks the system for at once.
fn much(byte: u8) -> Value {
    Value::from(vec![byte; 90 << 10])
}

#[test]
fn a_commit_that_fails_changes_nothing() {
    let nspace = Nspace::new("job").unwrap();
    let infos = [Info::new(keys::JOB_SIZE, 1u32), Info::new(keys::LOCAL_PEERS, "0")];
    let info = JobInfo::from_infos(&nspace, 1, &infos, "here").unwrap();
    let mut writer = JobWriter::create(&nspace, info, &Limits::default()).unwrap();
    let (near, far) = (Key::new("near").unwrap(), Key::new("far").unwrap());
    let posts = |value: Value| {
        [Posted::new(Scope::LOCAL, near.clone(), value.clone()), Posted::new(Scope::REMOTE, far.clone(), value)]
    };
    writer.update(Rank(0), &posts(Value::from(1u32))).unwrap();
    let has = |writer: &JobWriter, value: &Value| {
        let near = writer.reader().get(&Question::new(Rank(0), "near")).unwrap();
        let far = writer.outbound_all(Rank(0)).unwrap().remove(0).value;
        near == *value && far == *value
    };
    let (next, before) = (posts(much(7)), writer.stats().live);
    let (soft, hard) = getrlimit(Resource::RLIMIT_AS).unwrap();
    let mut refused = 0;
    loop {
        setrlimit(Resource::RLIMIT_AS, address_space() + refused * 4096, hard).unwrap();
        let result = writer.update(Rank(0), &next);
        setrlimit(Resource::RLIMIT_AS, soft, hard).unwrap();
        if result.is_ok() {
            break;
        }
        refused += 1;
        assert!(has(&writer, &Value::from(1u32)), "after {refused}");
        assert_eq!(writer.stats().live, before, "after {refused}");
    }
    assert!(refused > 1 && has(&writer, &much(7)));
}
