//! The data model as a whole: every type, there and back; tables; hostile archives.
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::arbitrary::{self, value, value_of};
use super::archive::{self, ArchiveError, MAX_DEPTH};
use super::*;

/// Every number that a public header gives to a type of value.
fn all_types() -> impl Iterator<Item = DataType> {
    (0..=75u16).map(DataType).filter(|ty| ty.is_supported())
}

proptest! {
    #[test]
    fn every_value_survives_its_archive(value in value()) {
        let bytes = archive::to_archive(&value).unwrap();
        prop_assert_eq!(&archive::from_archive(&bytes).unwrap(), &value);
        // Wherever the bytes happen to lie.
        let shifted = [&[0u8; 3][..], &bytes].concat();
        prop_assert_eq!(&archive::from_archive(&shifted[3..]).unwrap(), &value);
    }

    #[test]
    fn a_damaged_archive_is_refused_or_is_a_value(value in value(), at: prop::sample::Index, bits in 1..=255u8) {
        let mut bytes = archive::to_archive(&value).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        if let Ok(other) = archive::from_archive(&bytes) {
            // A value that came out keeps the promises of its types.
            prop_assert_eq!(archive::from_archive(&archive::to_archive(&other).unwrap()).unwrap(), other);
        }
        prop_assert!(archive::from_archive(&bytes[..at]).map_or(true, |other| other.size() <= 64 + bytes.len() * 32));
    }

    #[test]
    fn random_bytes_are_refused_or_are_a_value(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = archive::from_archive(&bytes);
        let _ = archive::decode::<Vec<Info>>(&bytes);
        let _ = archive::decode::<App>(&bytes);
    }

    #[test]
    fn a_value_equals_itself_alone(a in value(), b in value()) {
        prop_assert_eq!(&a, &a.clone());
        prop_assert_eq!(a.compare(&a), Comparison::Equal);
        prop_assert!(a.data_type() == b.data_type() || a.compare(&b) == Comparison::TypeDifferent);
        let (there, back) = (a.compare(&b), b.compare(&a));
        match there {
            Comparison::Value1Greater => prop_assert_eq!(back, Comparison::Value2Greater),
            Comparison::Value2Greater => prop_assert_eq!(back, Comparison::Value1Greater),
            same => prop_assert_eq!(back, same),
        }
    }

    #[test]
    fn words_are_the_bytes_of_c(value in value(), word: u64) {
        let ty = value.data_type();
        if let Some(own) = value.to_word() {
            prop_assert_eq!(Value::from_word(ty, own), Some(value));
            prop_assert!(ty.c_size() == 8 || own < 1 << (8 * ty.c_size()));
        }
        if let Some(value) = Value::from_word(ty, word) {
            prop_assert_eq!((value.data_type(), value.to_word()), (ty, Some(word)));
        }
    }

    #[test]
    fn every_value_can_be_shown(value in value()) {
        let shown = format!("{value}{value:?}");
        prop_assert!(!shown.is_empty());
    }

    #[test]
    fn numbers_come_back_or_are_refused(value in value(), want in 0..76u16) {
        let (have, want) = (value.data_type(), DataType(want));
        // A value of a type with a meaning of its own becomes no other such value.
        let means_something = [DataType::PID, DataType::STATUS, DataType::PROC_RANK];
        let differ = have != want && means_something.contains(&have) && means_something.contains(&want);
        match value.to_number(want) {
            Ok(number) => {
                prop_assert!(!differ);
                prop_assert_eq!(number.data_type(), want);
                if have != DataType::FLOAT && have != DataType::DOUBLE {
                    prop_assert_eq!(number.to_number(have).unwrap(), value);
                }
            }
            Err(NumberError::NotNumeric { .. }) => {
                prop_assert!(differ || !NUMERIC.contains(&have) || !NUMERIC.contains(&want));
            }
            Err(_) => prop_assert!(NUMERIC.contains(&have) && NUMERIC.contains(&want) && have != want),
        }
    }
}

const NUMERIC: [DataType; 18] = [
    DataType::BYTE,
    DataType::SIZE,
    DataType::PID,
    DataType::INT,
    DataType::INT8,
    DataType::INT16,
    DataType::INT32,
    DataType::INT64,
    DataType::UINT,
    DataType::UINT8,
    DataType::UINT16,
    DataType::UINT32,
    DataType::UINT64,
    DataType::FLOAT,
    DataType::DOUBLE,
    DataType::TIME,
    DataType::STATUS,
    DataType::PROC_RANK,
];

#[test]
fn there_are_values_of_every_type() {
    let mut runner = TestRunner::deterministic();
    for ty in all_types() {
        let strategy = value_of(ty).unwrap_or_else(|| panic!("no values of {ty}"));
        for _ in 0..8 {
            let value = strategy.new_tree(&mut runner).unwrap().current();
            assert_eq!(value.data_type(), ty);
            let array = DataArray::new(ty, vec![value.clone(), value]).unwrap();
            let array = Value::from(array);
            assert_eq!(archive::from_archive(&archive::to_archive(&array).unwrap()).unwrap(), array);
        }
    }
    assert_eq!(all_types().count(), 72);
    for missing in [DataType::BUFFER, DataType::KVAL, DataType(29), DataType(44), DataType(500)] {
        assert!(!missing.is_supported() && value_of(missing).is_none());
    }
}

/// The format in memory: a change here is a change of the layout that peers share.
#[test]
fn archives_do_not_change() {
    let value = Value::infos(vec![Info::new("k", 7u32), Info::new("pmix.job.size", "x")]);
    let bytes = archive::to_archive(&value).unwrap();
    let shown: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(size_of::<rkyv::Archived<Value>>(), 32);
    assert_eq!(
        shown,
        concat!(
            "6b00000000000000f8ffffff0100000000000000000000000e0000000700000000000000000000000000000000000000",
            "0000000000000000706d69782e6a6f622e73697a65780000f0ffffff0d00000000000000000000000300000001000000",
            "e5ffffff0100000000000000000000000000000000000000180000008cffffff00000000000000000000000000000000",
            "000000000000000018000000acffffff0000000000000000000000000000000000000000000000002400000018000000",
            "b8ffffff0200000000000000000000000000000000000000",
        )
    );
}

#[test]
fn a_nest_too_deep_is_refused_at_both_ends() {
    let nest = |depth: usize| {
        (0..depth).fold(Value::from("bottom"), |value, _| {
            Value::from(DataArray::of_info(vec![Info { key: Key::new("k").unwrap(), flags: 0, value }]))
        })
    };
    let fits = nest(MAX_DEPTH);
    assert_eq!(archive::from_archive(&archive::to_archive(&fits).unwrap()).unwrap(), fits);
    assert!(matches!(archive::to_archive(&nest(MAX_DEPTH * 2)), Err(ArchiveError::Unfit(_))));
    // A sender that does not keep the limit: rkyv itself writes any depth.
    let deep = archive::without_limit(|| rkyv::to_bytes::<rkyv::rancor::BoxedError>(&nest(1000))).unwrap();
    assert!(matches!(archive::from_archive(&deep), Err(ArchiveError::Malformed { .. })));
}

#[test]
fn no_depth_exhausts_the_stack() {
    let nest = |depth: usize| (0..depth).fold(Value::from("bottom"), |value, _| DataArray::of([value]).into());
    assert!(!nest(MAX_DEPTH).is_too_deep());
    let in_attributes = (0..100_000).fold(Value::from(1u32), |value, _| Value::infos(vec![Info::new("k", value)]));
    for deep in [nest(100_000), in_attributes] {
        assert!(deep.is_too_deep());
        let refused = archive::to_archive(&deep).unwrap_err();
        assert_eq!(refused.to_string(), "it is nested too deeply: 32 arrays in one another are allowed");
    }
    assert!(archive::to_archive(&nest(2 * MAX_DEPTH)).is_ok_and(|bytes| archive::from_archive(&bytes).is_ok()));
    assert!(archive::to_archive(&nest(3 * MAX_DEPTH)).is_err());
}

/// A peer can archive what our types would never hold: here, bytes laid out like a name.
#[test]
fn names_and_arrays_of_a_peer_are_checked() {
    #[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
    struct Bytes(Vec<u8>);
    let archived = |bytes: &[u8]| archive::encode(&Bytes(bytes.to_vec())).unwrap();
    assert_eq!(archive::decode::<Key>(&archived(b"pmix.rank")).unwrap(), "pmix.rank");
    // An attribute may have been constructed and never named.
    assert_eq!(archive::decode::<Key>(&archived(b"")).unwrap(), "");
    assert!(archive::decode::<Key>(&archived(&[b'k'; 512])).is_err());
    assert!(archive::decode::<Nspace>(&archived(&[b'n'; 256])).is_err());
    assert!(archive::decode::<Text>(&archived(b"a\0b")).is_err());

    #[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
    struct Array(DataType, Vec<Value>);
    let mixed = archive::encode(&Array(DataType::INT, vec![Value::Int(1), Value::from("two")])).unwrap();
    assert!(archive::decode::<DataArray>(&mixed).is_err());
    let good = archive::encode(&Array(DataType::INT, vec![Value::Int(1)])).unwrap();
    assert_eq!(archive::decode::<DataArray>(&good).unwrap().items(), [Value::Int(1)]);
}

#[test]
fn floats_are_equal_bit_by_bit() {
    assert_eq!(Value::Double(f64::NAN), Value::Double(f64::NAN));
    assert_ne!(Value::Float(0.0), Value::Float(-0.0));
    assert_eq!(Value::Double(f64::NAN).compare(&Value::Double(1.0)), Comparison::NotAvailable);
    assert_ne!(Value::String(None), Value::from(""));
    assert_eq!(Value::String(None).compare(&Value::from("")), Comparison::Value2Greater);
}

#[test]
fn values_are_compared_as_their_types_demand() {
    use Comparison::*;
    let bytes = |bytes: &[u8]| Value::from(bytes);
    assert_eq!(bytes(b"b").compare(&bytes(b"aa")), Value2Greater);
    assert_eq!(bytes(b"ab").compare(&bytes(b"aa")), Value1Greater);
    let coord = |view, coord: &[u32]| Value::from(Coord { view, coord: coord.to_vec() });
    assert_eq!(coord(1, &[1, 2]).compare(&coord(1, &[1, 3])), Value2Greater);
    assert_eq!(coord(1, &[1]).compare(&coord(2, &[1])), IncompatibleObjects);
    let array = |items: Vec<u32>| Value::from(DataArray::of(items));
    assert_eq!(array(vec![1, 2]).compare(&array(vec![1, 1])), Value1Greater);
    assert_eq!(array(vec![9]).compare(&array(vec![1, 1])), Value2Greater);
    assert_eq!(array(vec![1]).compare(&Value::from(DataArray::of([1i32]))), TypeDifferent);
    let app = |maxprocs| Value::from(App { cmd: None, argv: vec![], env: vec![], cwd: None, maxprocs, info: vec![] });
    assert_eq!(app(1).compare(&app(2)), NotAvailable);
    assert_eq!((Equal.text(), IncompatibleObjects as i32), (c"EQUAL", 4));
}

#[test]
fn sizes_are_those_of_c() {
    assert_eq!(Value::Undef.size(), 32);
    assert_eq!(Value::from(vec![0u8; 100]).size(), 32 + 16 + 100);
    assert_eq!(Value::infos(vec![Info::new("k", "value")]).size(), 32 + 24 + 552 + 6);
    assert_eq!(Value::from(DataArray::of(["a", "bc"])).size(), 32 + 24 + 2 * 8 + 2 + 3);
    assert!(all_types().skip(1).all(|ty| ty.c_size() > 0));
}

#[test]
fn numbers_say_why_they_cannot_be_had() {
    let status = |value: Value, want| value.to_number(want).unwrap_err().status();
    assert_eq!(status(Value::Int(-1), DataType::UINT32), Status(-401));
    assert_eq!(status(Value::Double(-1234.567), DataType::UINT32), Status(-401));
    assert_eq!(status(Value::Uint64(1 << 40), DataType::UINT32), Status(-400));
    assert_eq!(status(Value::Uint32(u32::MAX), DataType::INT32), Status(-400));
    assert_eq!(status(Value::Double(1e300), DataType::INT64), Status(-400));
    assert_eq!(status(Value::Double(f64::NAN), DataType::INT), Status(-400));
    assert_eq!(status(Value::Double(1e300), DataType::FLOAT), Status(-400));
    assert_eq!(status(Value::Uint32(16_777_217), DataType::FLOAT), Status(-400));
    assert_eq!(status(Value::from("7"), DataType::INT), Status::ERR_BAD_PARAM);
    assert_eq!(status(Value::Int(7), DataType::STRING), Status::ERR_BAD_PARAM);
    assert_eq!(status(Value::Pid(7), DataType::PROC_RANK), Status::ERR_BAD_PARAM);
    assert_eq!(Value::Double(-1234.567).to_number(DataType::INT32), Ok(Value::Int32(-1234)));
    assert_eq!(Value::Uint32(3).to_number(DataType::PROC_RANK), Ok(Value::ProcRank(Rank(3))));
    assert_eq!(Value::Double(2.5).as_u32(), None);
    assert_eq!((Value::Double(2.0).as_u32(), Value::Int(2).as_f64()), (Some(2), Some(2.0)));
}

#[test]
fn truth_has_many_words() {
    for (text, truth) in [
        ("", Some(true)),
        (" \t", Some(true)),
        ("yes", Some(true)),
        ("T", Some(true)),
        ("enable", Some(true)),
        ("007x", Some(true)),
        ("-1", Some(true)),
        ("0", Some(false)),
        ("No", Some(false)),
        ("FALSE", Some(false)),
        ("truely", Some(true)),
        ("None", Some(false)),
        ("maybe", None),
        ("-", None),
    ] {
        assert_eq!(Value::from(text).truth(), truth, "{text:?}");
    }
    assert_eq!((Value::String(None).truth(), Value::Int(1).truth()), (Some(true), None));
    assert!(Info::new("k", Value::Undef).is_true() && !Info::new("k", false).is_true());
}

#[test]
fn status_codes_have_names_and_names_have_codes() {
    for (number, name, alias) in status::names() {
        assert_eq!(Status::from_name(name.to_bytes()), Some(Status(number)));
        assert!(alias || Status(number).text() == name);
    }
    assert_eq!(Status::from_name("pmix_exists"), Some(Status::ERR_EXISTS));
    assert_eq!(Status(-11).text(), c"PMIX_ERR_EXISTS");
    assert_eq!((Status::SUCCESS.text(), Status(-4711).text()), (c"PMIX_SUCCESS", c"ERROR STRING NOT FOUND"));
    assert_eq!(Status::from_name("PMIX_NO_SUCH_THING"), None);
    for ty in all_types().skip(1) {
        assert_eq!(DataType::from_name(ty.name().unwrap()), Some(ty));
        assert_eq!(ty.text().to_str().ok(), ty.name());
    }
    assert_eq!((DataType::UNDEF.text(), DataType(29).text()), (c"NOT INITIALIZED", c"NOT INITIALIZED"));
}

#[test]
fn attributes_are_found_by_name_and_by_key() {
    for (name, key, _) in keys::all() {
        assert_eq!(keys::key_of(name.as_bytes()).unwrap().to_str(), Ok(key));
        let found = keys::name_of(key.as_bytes()).unwrap().to_bytes();
        assert_eq!(keys::key_of(found).unwrap().to_str(), Ok(key));
        assert!(Key::new(key).is_ok());
    }
    assert_eq!(keys::name_of(b"pmix.pdata"), Some(c"PMIX_PROC_INFO_ARRAY"));
    assert_eq!(keys::name_of(b"pmix.alloc.net"), Some(c"PMIX_ALLOC_FABRIC"));
    assert_eq!(keys::name_of(b"pmix.jctrl.ckpttime"), Some(c"PMIX_JOB_CTRL_CHECKPOINT_SIGNAL"));
    assert_eq!((keys::name_of(b"pmix.nothing"), keys::key_of(b"PMIX_NOTHING")), (None, None));
    assert_eq!(keys::name_of(b"\xff"), None);
    assert_eq!(keys::type_of(keys::LOCAL_RANK), Some(DataType::UINT16));
    assert_eq!(Key::new("pmix.fab.coords").unwrap().canonical(), keys::FABRIC_COORDINATES);
    assert!([Info::new("pmix.qry.supqual", true)].is_set(keys::QUERY_SUPPORTED_QUALIFIERS));
}

#[test]
fn numbers_have_the_texts_that_programs_know() {
    use constants::*;
    assert_eq!(names::PROC_STATE.of(proc_state::PROC_STATE_CALLED_ABORT), c"PROC CALLED PMIx_Abort");
    assert_eq!(names::PROC_STATE.of(200u8), c"UNKNOWN STATE");
    assert_eq!(names::JOB_STATE.of(1u8), c"PREPPED FOR LAUNCH");
    assert_eq!(names::SCOPE.of(scope::DEL_GLOBAL), c"DELETE FROM ALL SCOPES");
    assert_eq!(names::DATA_RANGE.of(data_range::RANGE_SESSION), c"AVAIL TO PROCESSES IN SAME ALLOCATION ONLY");
    assert_eq!(names::PERSISTENCE.of(9u8), c"UNKNOWN PERSISTENCE");
    assert_eq!(names::LINK_STATE.of(link_state::LINK_DOWN), c"INACTIVE");
    assert_eq!(names::ALLOC_DIRECTIVE.of(5u8), c"CANCEL REQUEST");
    assert_eq!(names::iof_channel(Channels(6)), c"STDOUT STDERR ");
    assert_eq!(
        (names::iof_channel(Channels::NONE), names::iof_channel(Channels::ALL)),
        (c"NONE", c"STDIN STDOUT STDERR STDDIAG ")
    );
    assert_eq!(names::info_directives(0), "OPTIONAL");
    assert_eq!(names::info_directives(1 | 2 | 16), "REQUIRED:END:PERSISTENT");
    assert_eq!(names::STORAGE_MEDIUM.flags(0x8_0000_0008u64), "SSD|0x800000000");
    assert_eq!(names::STORAGE_MEDIUM.flags(0u64), "NONE");
}

#[test]
fn values_read_well() {
    for (value, text) in [
        (Value::Undef, "undefined"),
        (Value::String(None), "NULL"),
        (Value::from("a\"b"), "\"a\\\"b\""),
        (Value::from(Status::ERR_TIMEOUT), "PMIX_ERR_TIMEOUT"),
        (Value::from(vec![0u8, 255]), "2 bytes 00ff"),
        (Value::Regex(b"pmix[a]\0".to_vec()), "\"pmix[a]\\x00\""),
        (Value::infos(vec![Info::new("k", 1u32)]), "1 INFO [k=1]"),
        (
            Value::from(DataArray::of(0..70u32)),
            "70 UINT32 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, and 6 more]",
        ),
        (Value::from(Timeval { sec: 1, usec: 5 }), "1.000005 s"),
        (Value::IofChannel(Channels::STDOUT), "STDOUT"),
        (Value::Loctype(3), "HWTHREAD|CORE"),
    ] {
        assert_eq!(value.to_string(), text);
    }
}

#[test]
fn arbitrary_names_are_legal() {
    proptest!(|(key in arbitrary::key(), nspace in arbitrary::nspace(), info in arbitrary::info())| {
        prop_assert!(Key::new(&key).is_ok() && Nspace::new(&nspace).is_ok());
        prop_assert_eq!(archive::decode::<Info>(&archive::encode(&info).unwrap()).unwrap(), info);
    });
}
