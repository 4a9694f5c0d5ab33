//! Tests: values that are packed are unpacked again, packs of others are understood, and nothing else does harm.
use proptest::prelude::*;

use super::*;
use crate::data::{DataArray, Info, Rank, Value, arbitrary, archive::MAX_DEPTH, keys};

const FORMS: [Form; 4] = [Form::Plain, Form::Described, Form::PlainFixed, Form::DescribedFixed];

fn packed(ty: DataType, items: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes).pack(Form::Plain, ty, items).expect("can be packed");
    bytes
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// Returns the pack that comes back of a value: some members are not sent, and some texts are cut.
fn sent(value: &Value) -> Vec<u8> {
    packed(DataType::VALUE, &[Value::Value(Box::new(value.clone()))])
}

/// Values of every type that can be packed: nothing in an array of nothing can.
fn value() -> impl Strategy<Value = Value> {
    arbitrary::value()
        .prop_filter("elements without a type", |value| !format!("{value:?}").contains("PMIX_UNDEF, items: ["))
}

proptest! {
    #[test]
    fn values_come_back(value in value()) {
        for form in FORMS {
            let mut bytes = Vec::new();
            let wrapped = Value::Value(Box::new(value.clone()));
            let packed = Writer::new(&mut bytes).pack(form, DataType::VALUE, std::slice::from_ref(&wrapped));
            packed.expect("can be packed");
            let mut reader = Reader::new(&bytes);
            let got = reader.unpack(form, DataType::VALUE, 1).expect("can be unpacked");
            prop_assert_eq!(reader.rest(), b"");
            let [Value::Value(got)] = got.items.as_slice() else { return Err(TestCaseError::fail("one value")) };
            prop_assert_eq!(got.data_type(), value.data_type());
            prop_assert_eq!(sent(got), sent(&value));
        }
    }

    #[test]
    fn damaged_bytes_are_errors(value in value(), cut in any::<prop::sample::Index>(), flip in 0..8u8) {
        let good = sent(&value);
        let at = cut.index(good.len());
        // All but a shorter text that lies at the end ends too early.
        prop_assert!(Reader::new(&good[..at]).unpack(Form::Plain, DataType::VALUE, 1).is_err());
        let mut bad = good.clone();
        bad[at] ^= 1 << flip;
        let _ = Reader::new(&bad).unpack(Form::Plain, DataType::VALUE, 1);
        let _ = Reader::new(&bad).unpack(Form::Described, DataType::VALUE, 1);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64), ty in 0..80u16) {
        for form in FORMS {
            let mut reader = Reader::new(&bytes);
            if reader.unpack(form, DataType(ty), 1000).is_err() {
                prop_assert_eq!(reader.rest(), bytes.as_slice());
            }
        }
    }
}

/// Bytes that the stock library 4.2.2 has written.
#[test]
fn it_is_the_encoding_of_others() {
    let info = Info { key: keys_k(), flags: 0, value: Value::Int(7) };
    for (value, bytes) in [
        (vec![Value::Bool(true), Value::Bool(false)], "040100"),
        (vec![Value::from("hello"), Value::String(None), Value::from("")], "060c68656c6c6f00000200"),
        (vec![Value::Size(u64::MAX), Value::Size(1 << 56)], "04ffffffffffffffffff808080808080808001"),
        (vec![Value::Pid(1234), Value::Pid(-1)], "040ed209ffffffff0f"),
        (vec![Value::Int(i32::MAX), Value::Int(-65)], "04feffffff0f8101"),
        (vec![Value::Uint(1), Value::Uint(u32::MAX)], "040201"),
        (vec![Value::Uint32(63)], "023f"),
        (vec![Value::Int16(-32768), Value::Int16(127)], "04ffff03fe01"),
        (vec![Value::Float(1.5), Value::Float(0.0)], "0412312e3530303030300012302e30303030303000"),
        (vec![Value::Status(Status::ERR_NOT_FOUND)], "025b"),
        (vec![Value::Time(1_234_567)], "0287ad4b"),
        (vec![Value::Info(Box::new(info))], "02046b0000060e"),
        (vec![Value::ByteObject(b"ab\0c".to_vec()), Value::ByteObject(vec![])], "04046162006300"),
        (vec![Value::Regex(b"pmix[a]".to_vec())], "02706d69785b615d00"),
        (vec![Value::Pointer(1), Value::Pointer(2)], "0401"),
        (vec![DataArray::of([5i32, -6]).into()], "0209020a0b"),
        (vec![DataArray::new(DataType::STRING, vec![]).expect("empty").into()], "020300"),
        (vec![Value::ProcRank(Rank::WILDCARD)], "02feffffff0f"),
    ] {
        let (ty, bytes) = (value[0].data_type(), hex(bytes));
        assert_eq!(packed(ty, &value), bytes, "{ty}");
        let got = Reader::new(&bytes).unpack(Form::Plain, ty, 10).expect("can be unpacked");
        assert_eq!(packed(ty, &got.items), bytes, "{ty}");
    }
    let mut bytes = Vec::new();
    let array = DataArray::of([5i32, -6]).into();
    Writer::new(&mut bytes).pack(Form::Described, DataType::DATA_ARRAY, &[array]).expect("can be packed");
    assert_eq!(bytes, hex("09022709020a0b"));
}

fn keys_k() -> crate::data::Key {
    crate::data::Key::new("k").expect("a key")
}

#[test]
fn a_binary_map_expression_keeps_its_nuls() {
    let blob = b"blob:\0component=zlib:\0size=3:\0\x01\0\x02".to_vec();
    let bytes = packed(DataType::REGEX, &[Value::Regex(blob.clone()), Value::Regex(b"pmix[a]\0".to_vec())]);
    let got = Reader::new(&bytes).unpack(Form::Plain, DataType::REGEX, 2).expect("can be unpacked");
    assert_eq!(got.items, [Value::Regex(blob), Value::Regex(b"pmix[a]".to_vec())]);
    let claims = b"\x02blob:\0component=zlib:\0size=99999999999999999999:\0";
    assert!(Reader::new(claims).unpack(Form::Plain, DataType::REGEX, 1).is_err());
}

#[test]
fn what_does_not_fit_is_counted_and_what_is_wrong_has_its_status() {
    let bytes = packed(DataType::INT32, &[Value::Int32(1), Value::Int32(2), Value::Int32(3)]);
    let got = Reader::new(&bytes).unpack(Form::Plain, DataType::INT32, 2).expect("two of three");
    assert_eq!((got.items.len(), got.missed), (2, 1));

    let status = |bytes: &str, form, ty| match Reader::new(&hex(bytes)).unpack(form, ty, 1) {
        Ok(_) => Status::SUCCESS,
        Err(error) => error.status(),
    };
    let plain = |bytes, ty| status(bytes, Form::Plain, ty);
    assert_eq!(plain("", DataType::INT32), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    assert_eq!(plain("02ff", DataType::INT32), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    assert_eq!(plain("01020304", DataType::INT32), Status::ERR_UNPACK_FAILURE);
    assert_eq!(plain("02ffffffffff7f", DataType::INT32), Status::ERR_UNPACK_FAILURE);
    assert_eq!(plain("02feffffff0f65", DataType::STRING), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    assert_eq!(plain("020168656c", DataType::STRING), Status::ERR_UNPACK_FAILURE);
    assert_eq!(plain("02e70700", DataType::VALUE), Status::ERR_UNKNOWN_DATA_TYPE);
    assert_eq!(plain("0209ffffffffff7f05", DataType::DATA_ARRAY), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    assert_eq!(plain("02020506", DataType(999)), Status::ERR_UNKNOWN_DATA_TYPE);
    assert_eq!(plain("02ffffffff7f", DataType::BYTE_OBJECT), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
    assert_eq!(plain("0206787900", DataType::DOUBLE), Status::ERR_UNPACK_FAILURE);
    assert_eq!(status("0902090a", Form::Described, DataType::UINT), Status::ERR_PACK_MISMATCH);
    assert_eq!(status("020a", Form::Described, DataType::INT32), Status::ERR_UNPACK_FAILURE);
    assert_eq!(
        Writer::new(&mut Vec::new()).pack(Form::Plain, DataType(999), &[]),
        Err(WireError::UnknownType(DataType(999)))
    );
}

#[test]
fn nesting_has_an_end() {
    let mut value = Value::Int(1);
    for _ in 0..=MAX_DEPTH {
        value = Value::infos(vec![Info::new(keys::TIMEOUT, value)]);
    }
    let mut bytes = Vec::new();
    let packed = Writer::new(&mut bytes).pack(Form::Plain, DataType::DATA_ARRAY, &[value]);
    assert!(matches!(packed, Err(WireError::Unfit(_))));
    assert_eq!(bytes, b"");
    // An array of one array, and so on.
    let deep: Vec<u8> = std::iter::once(2).chain([39, 1].repeat(100_000)).collect();
    assert!(matches!(Reader::new(&deep).unpack(Form::Plain, DataType::DATA_ARRAY, 1), Err(WireError::Malformed(_))));
}

/// An array of so many arrays of 65,536 addresses, which take no bytes each.
fn addresses(arrays: u8) -> Vec<u8> {
    let one = [DataType::POINTER.0 as u8, 0x80, 0x80, 4, 1];
    [2, DataType::DATA_ARRAY.0 as u8, arrays].into_iter().chain(one.repeat(arrays.into())).collect()
}

#[test]
fn all_that_is_unpacked_together_is_bounded_by_the_bytes_that_are_there() {
    let unpacked = |bytes: &[u8]| Reader::new(bytes).unpack(Form::Plain, DataType::DATA_ARRAY, 1);
    assert!(unpacked(&addresses(1)).is_ok());
    assert!(matches!(unpacked(&addresses(2)), Err(WireError::Malformed(_))));
    // A reader that failed may go on.
    let bytes = addresses(2);
    let mut reader = Reader::new(&bytes);
    assert!(reader.unpack(Form::Plain, DataType::DATA_ARRAY, 1).is_err());
    assert_eq!((reader.rest(), reader.may_have(DataType::POINTER, 1 << 16)), (&bytes[..], Ok(())));
    // Elements behind the one under way keep their bytes: what is claimed inside has to fit before them.
    let half = bytes.len() / 2;
    let mut places = Vec::new();
    let claimed = reader.each(DataType::BYTE, half, |reader, at| {
        places.push(at);
        assert_eq!(reader.may_have(DataType::BYTE, bytes.len() - half + 1), Ok(()));
        assert!(reader.may_have(DataType::BYTE, bytes.len() - half + 2).is_err());
        reader.raw(1).map(|_| ())
    });
    assert_eq!((claimed, places), (Ok(()), (0..half).collect()));
    assert_eq!(reader.may_have(DataType::BYTE, reader.rest().len()), Ok(()));
    assert!(reader.may_have(DataType::NODE_STATS, reader.rest().len() / 13 + 1).is_err());
}

#[test]
fn floating_point_numbers_are_printed_as_c_does() {
    for (number, text) in [
        (f32::NAN, "nan"),
        (-f32::NAN, "-nan"),
        (f32::INFINITY, "inf"),
        (f32::NEG_INFINITY, "-inf"),
        (0.000_000_5, "0.000000"),
        (-2.25e10, "-22499999744.000000"),
    ] {
        let bytes = packed(DataType::FLOAT, &[Value::Float(number)]);
        assert_eq!(&bytes[2..bytes.len() - 1], text.as_bytes());
        let got = Reader::new(&bytes).unpack(Form::Plain, DataType::FLOAT, 1).expect("a number");
        assert_eq!(packed(DataType::FLOAT, &got.items), bytes);
    }
}

/// Packs of `v3`, written by hand from a description of it: no peer of that release was at hand.
#[test]
fn integers_of_the_older_encoding_have_the_width_of_their_type() {
    let text = |text: &str| Value::string(text);
    let proc = crate::data::Proc::new(crate::data::Nspace::new("job").unwrap(), Rank(3));
    // A count of four bytes stands in front of each.
    for (ty, value, bytes) in [
        (DataType::BOOL, Value::Bool(true), "01"),
        (DataType::STRING, text("ab"), "00000003 616200"),
        (DataType::STRING, Value::String(None), "00000000"),
        (DataType::SIZE, Value::Size(258), "000f 0000000000000102"),
        (DataType::INT, Value::Int(-2), "0009 fffffffe"),
        (DataType::UINT, Value::Uint(7), "0009 00000007"),
        (DataType::PID, Value::Pid(17), "000e 00000011"),
        (DataType::INT16, Value::Int16(-2), "fffe"),
        (DataType::UINT16, Value::Uint16(258), "0102"),
        (DataType::INT32, Value::Int32(-2), "fffffffe"),
        (DataType::UINT32, Value::Uint32(7), "00000007"),
        (DataType::INT64, Value::Int64(-2), "fffffffffffffffe"),
        (DataType::UINT64, Value::Uint64(7), "0000000000000007"),
        (DataType::STATUS, Value::Status(crate::data::Status(-46)), "ffffffd2"),
        (DataType::PROC_RANK, Value::ProcRank(Rank::WILDCARD), "fffffffe"),
        (DataType::BYTE_OBJECT, Value::ByteObject(vec![1, 2]), "000f 0000000000000002 0102"),
        (DataType::PROC, Value::Proc(proc), "00000004 6a6f6200 00000003"),
        (DataType::VALUE, Value::Value(Box::new(Value::Size(5))), "0004 000f 0000000000000005"),
        (
            DataType::INFO,
            Value::Info(Box::new(Info::new("k", Value::Int(5)))),
            "00000002 6b00 00000000 0006 0009 00000005",
        ),
        (
            DataType::DATA_ARRAY,
            Value::DataArray(DataArray::new(DataType::UINT, vec![Value::Uint(1), Value::Uint(2)]).unwrap()),
            "000b 000f 0000000000000002 0009 00000001 00000002",
        ),
    ] {
        let body = hex(&bytes.replace(' ', ""));
        let described = [&[0, 9, 0, 0, 0, 1][..], &ty.0.to_be_bytes(), &body].concat();
        for (form, expected) in
            [(Form::PlainFixed, [&[0, 0, 0, 1][..], &body].concat()), (Form::DescribedFixed, described)]
        {
            let mut packed = Vec::new();
            Writer::new(&mut packed).pack(form, ty, std::slice::from_ref(&value)).unwrap();
            assert_eq!(packed, expected, "{value:?}");
            let mut reader = Reader::new(&packed);
            assert_eq!(reader.unpack(form, ty, 1).unwrap().items, std::slice::from_ref(&value));
            assert_eq!(reader.rest(), b"");
            for len in 0..packed.len() {
                assert!(Reader::new(&packed[..len]).unpack(form, ty, 1).is_err(), "{len} bytes of {value:?}");
            }
        }
    }
    let app = crate::data::App {
        cmd: Some(crate::data::Text::new("x").unwrap()),
        argv: vec![crate::data::Text::new("x").unwrap()],
        env: Vec::new(),
        cwd: None,
        maxprocs: 2,
        info: Vec::new(),
    };
    let mut packed = Vec::new();
    Writer::new(&mut packed).pack(Form::PlainFixed, DataType::APP, &[Value::App(Box::new(app.clone()))]).unwrap();
    let expected = "00000001 00000002 7800 0009 00000001 00000002 7800 00000000 00000000 0009 00000002 \
                    000f 0000000000000000";
    assert_eq!(packed, hex(&expected.replace(' ', "")));
    let back = Reader::new(&packed).unpack(Form::PlainFixed, DataType::APP, 1).unwrap();
    assert_eq!(back.items, [Value::App(Box::new(app))]);
}

#[test]
fn a_type_in_front_of_an_integer_is_that_of_its_width() {
    let unsigned = hex("00000001 000e fffffffe".replace(' ', "").as_str());
    let read = Reader::new(&unsigned).unpack(Form::PlainFixed, DataType::UINT, 1).unwrap();
    assert_eq!(read.items, [Value::Uint(u32::MAX - 1)]);
    for ty in [DataType::INT, DataType::UINT, DataType::SIZE, DataType::PID] {
        let bytes = [&[0, 0, 0, 1, 0, 8][..], &[0; 8]].concat();
        assert!(matches!(Reader::new(&bytes).unpack(Form::PlainFixed, ty, 1), Err(WireError::Malformed(_))));
    }
}
