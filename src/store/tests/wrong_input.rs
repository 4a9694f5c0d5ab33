//! Descriptions of jobs that cannot be: they are refused with a name, before anybody reads them.
use super::writer as writer_of;
use super::*;
use crate::data::DataType;

fn builder() -> JobInfoBuilder {
    let mut job = JobInfoBuilder::new(&Nspace::new("job").unwrap(), 1, "here");
    job.size(2).unwrap();
    job
}

/// Values that are none of their types.
const NONE: [Datum<'static>; 7] = [
    Datum::Text(Some(b"a\0b")),
    Datum::Scalar(DataType::BOOL, 7),
    Datum::Scalar(DataType::UINT8, 300),
    Datum::Scalar(DataType::FLOAT, 1 << 32),
    Datum::Scalar(DataType::STRING, 1),
    Datum::Scalar(DataType(9999), 0),
    Datum::Bytes(DataType::UINT32, b"abc"),
];

fn is_of_rank_1(error: &BadJobInfo) -> bool {
    matches!(error, BadJobInfo::Value { key, rank: 1, .. } if *key == "bad")
}

#[test]
fn what_is_no_value_of_its_type_is_no_value_of_a_process() {
    for datum in NONE {
        let mut job = builder();
        job.process(0, [(&b"bad"[..], Datum::Text(None))]).unwrap();
        let refused = job.process(1, [(&b"good"[..], Datum::Scalar(DataType::UINT8, 1)), (b"bad", datum.clone())]);
        // Numbers and texts are looked at in one pass.
        assert_eq!(refused.is_ok(), matches!(datum, Datum::Scalar(..) | Datum::Text(_)), "{datum:?}");
        assert!(is_of_rank_1(&refused.and_then(|()| job.build().map(drop)).unwrap_err()), "{datum:?}");

        let mut job = builder();
        let mut writer = job.proc_writer(1).unwrap().unwrap();
        let slot = writer.slot(b"bad").unwrap();
        if writer.datum(slot, datum.clone()).is_err() {
            continue;
        }
        let refused = job.build().unwrap_err();
        assert!(is_of_rank_1(&refused), "{datum:?}: {refused}");
        let entry = Entry { scope: Scope::GLOBAL, key: &key("bad"), value: datum };
        let posted = writer_of(&Limits::default()).post(Rank(0), &[entry]).unwrap_err();
        let (said, posted) = (refused.to_string(), posted.to_string());
        assert_eq!(said.split_once(": ").unwrap().1, posted.split_once(": ").unwrap().1, "the same words");
    }
}

#[test]
fn what_is_no_value_of_its_type_is_none_of_a_column() {
    let refused = |values: &[u64], ty| {
        let mut job = builder();
        job.column("bad", ty, values.iter().copied()).and_then(|()| job.build().map(drop))
    };
    for (ty, largest) in [(DataType::BOOL, 1), (DataType::UINT8, 255), (DataType::INT16, 0xffff)] {
        assert!(refused(&[largest, 0, largest], ty).is_ok());
        // Runs, bytes, narrow and wide numbers.
        for more in [&[][..], &[0, 1], &[0, 300, 7], &[1 << 40, 3]] {
            let values = [&[largest, largest + 1], more].concat();
            assert!(is_of_rank_1(&refused(&values, ty).unwrap_err()), "{ty} {values:?}");
        }
    }
    assert!(refused(&[u64::MAX, 0], DataType::DOUBLE).is_ok());
    for ty in [DataType::STRING, DataType(9999), DataType::BUFFER] {
        assert!(matches!(refused(&[1], ty), Err(BadJobInfo::Value { .. })));
    }
    let texts = builder().texts("bad", ["fine", "a\0b"]).unwrap_err();
    assert!(is_of_rank_1(&texts), "{texts}");
}

#[test]
fn a_column_of_more_than_a_job_has_ranks_is_refused() {
    let mut job = builder();
    let endless = job.column("bad", DataType::UINT8, std::iter::repeat(1));
    assert!(matches!(endless, Err(BadJobInfo::Values { key }) if key == "bad"));
    assert!(matches!(job.texts("bad", std::iter::repeat("x")), Err(BadJobInfo::Values { .. })));
    job.column("last", DataType::UINT8, std::iter::repeat_n(1, MAX_RANKS as usize)).unwrap();
    assert!(matches!(builder().size(MAX_RANKS + 1), Err(BadJobInfo::Size { size }) if size == MAX_RANKS + 1));
    let refused = builder().process(u32::MAX, []).unwrap_err().to_string();
    assert_eq!(refused, "rank 4294967295 is none: ranks go from 0 to 16777215");
}

#[test]
fn what_no_node_map_can_have_is_no_name_of_a_node() {
    for name in ["", "a\0b", "a,b", "pmix[x", &"n".repeat(256)] {
        let refused = builder().nodes(["fine", name]);
        assert!(matches!(refused, Err(BadJobInfo::Map { key: keys::NODE_MAP, .. })), "{name:?}");
    }
    let job = JobInfoBuilder::new(&Nspace::new("job").unwrap(), 1, "a\0b");
    assert!(matches!(job.build(), Err(BadJobInfo::Key(_))));
}

#[test]
fn a_placement_that_cannot_be_is_named() {
    let found = |placement: Placement<'_>| {
        let mut job = JobInfoBuilder::new(&Nspace::new("job").unwrap(), 2, "alpha");
        job.size(4).unwrap();
        job.nodes(["alpha", "beta"]).unwrap();
        job.place(placement);
        job.build().unwrap().contradictions().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(found(Placement::Blocks(2)), none);
    assert_eq!(found(Placement::Cyclic), none);
    assert_eq!(found(Placement::Each(&[1, 1, 0, 0])), none);
    assert_eq!(found(Placement::Each(&[0, 0])), ["rank 2 of a job of 4 processes is on no node by the process map"]);
    let hole = found(Placement::Each(&[0, u32::MAX, 0, 1]));
    assert_eq!(hole, ["rank 1 of a job of 4 processes is on no node by the process map"]);
    let beyond = found(Placement::Each(&[0, 0, 7, 1]));
    assert_eq!(beyond, ["ranks are on 8 nodes by the process map, the node map has 2"]);
    let long = found(Placement::Each(&[0, 1, 1, 1, 0]));
    assert_eq!(long, ["a job of 4 processes has ranks up to 4"]);
    let crowd = found(Placement::Blocks(0));
    assert_eq!(crowd, none, "as blocks of 1");
}

#[test]
fn what_is_nested_too_deeply_is_refused_before_it_is_copied() {
    let deep = |depth: usize| (0..depth).fold(Value::from(1u32), |value, _| DataArray::of([value]).into());
    let mut job = builder();
    job.infos(&[Info::new("fine", deep(32))]).unwrap();
    let bad = Info::new("bad", deep(100_000));
    assert!(matches!(job.infos(std::slice::from_ref(&bad)), Err(BadJobInfo::Depth { key }) if key == "bad"));
    let of_app = vec![Info::new(keys::APPNUM, 0u32), Info::new("bad", deep(100_000))];
    let of_app = about(keys::APP_INFO_ARRAY, of_app);
    assert!(matches!(job.infos(&[of_app]), Err(BadJobInfo::Depth { .. })));
    let refused = job.process(1, [(&b"bad"[..], Datum::from(&bad.value))]).unwrap_err();
    assert!(is_of_rank_1(&refused), "{refused}");
    let mut writer = writer_of(&Limits::default());
    let refused = post(&mut writer, 0, "bad", bad.value).unwrap_err();
    assert_eq!(refused.to_string(), "the value of bad: it is nested too deeply: 32 arrays in one another are allowed");
}
