//! The fault table of the format description, rows 1 to 21: header and metadata.

use gguf::{Array, Fault, Gguf, Value};

use crate::builder::{
    ARRAY, BOOL, I32, RawFile, STRING, U8, U16, U32, U64, array, assert_fault, fault, string,
};

fn with_tensor() -> RawFile {
    RawFile::new().f32("w", &[8], 0).data(32)
}

#[test]
fn row_01_empty_or_fewer_than_24_bytes() {
    let bytes = RawFile::bare().bytes();
    for len in 0..24 {
        assert!(matches!(fault(&bytes[..len]), Fault::Truncated { .. }), "{len}");
    }
    assert!(Gguf::from_bytes(&bytes[..24]).is_ok());
}

#[test]
fn row_02_wrong_magic_says_what_was_found() {
    for magic in [*b"GGML", *b"GGMF", *b"GGJT", *b"lmgg", *b"gguf", *b"FUGG", *b"PK\x03\x04"] {
        let file = RawFile { magic, ..with_tensor() };
        match file.fault() {
            Fault::NotGguf { found } => {
                assert!(found.contains(&magic.escape_ascii().to_string()), "{found}");
            }
            other => panic!("{other:?}"),
        }
    }
    let pointer = b"version https://git-lfs.github.com/spec/v1\n";
    assert!(matches!(fault(pointer), Fault::NotGguf { found } if found.contains("LFS")));
    assert!(matches!(fault(b"\0\n\x1b"), Fault::NotGguf { .. }));
}

#[test]
fn row_03_versions_without_a_layout() {
    for version in [0, 4, 5, 0xffff, 0x0001_0003, u32::MAX] {
        let file = RawFile { version, ..with_tensor() };
        assert_fault!(file, Fault::UnsupportedVersion { version: v } if v == version);
    }
    for version in [2, 3] {
        assert_eq!(RawFile { version, ..with_tensor() }.open().version(), version);
    }
}

#[test]
fn row_04_version_1_is_obsolete() {
    assert_fault!(RawFile { version: 1, ..with_tensor() }, Fault::ObsoleteVersion);
}

#[test]
fn row_05_foreign_byte_order() {
    for version in [3u32.swap_bytes(), 2u32.swap_bytes(), 1u32.swap_bytes()] {
        let file = RawFile { version, ..with_tensor() };
        assert_fault!(file, Fault::ForeignByteOrder { .. });
        assert!(file.fault().to_string().contains("big-endian"));
    }
}

#[test]
fn row_06_impossible_counts() {
    for count in [u64::MAX, 1 << 63, 1 << 60, 1 << 32, 1000] {
        let tensors = RawFile { tensor_count: Some(count), ..with_tensor() };
        assert_fault!(tensors, Fault::Count { what: "tensor", count: c, .. } if c == count);
        let pairs = RawFile { pair_count: Some(count), ..with_tensor() };
        assert_fault!(pairs, Fault::Count { what: "metadata", count: c, .. } if c == count);
    }
}

#[test]
fn row_07_counts_one_too_large() {
    let file = with_tensor().data(1024);
    assert!(Gguf::from_bytes(&file.bytes()).is_ok());
    RawFile { tensor_count: Some(2), ..file.clone() }.fault();
    RawFile { pair_count: Some(2), ..file }.fault();
}

#[test]
fn row_08_key_lengths_past_the_end() {
    for len in [1 << 40, u64::MAX, u64::MAX - 31, 1 << 63, 60_000] {
        let mut pair = len.to_le_bytes().to_vec();
        pair.extend(b"key and some more bytes");
        RawFile::bare().raw_pair(pair).fault();
    }
}

#[test]
fn row_09_empty_key() {
    assert_fault!(
        RawFile::new().pair("", U32, &[0; 4]),
        Fault::EmptyKey { index: 1, at } if at == 24 + 8 + 20 + 4 + 8 + 4
    );
}

#[test]
fn row_10_key_not_utf8() {
    let file = RawFile::bare().pair(b"ab\xff", U32, &[0; 4]);
    assert_fault!(file, Fault::NotUtf8 { at: 34, .. });
}

#[test]
fn row_11_key_over_the_limit() {
    assert!(RawFile::bare().pair("k".repeat(65_535), U8, &[1]).open().metadata().len() == 1);
    let file = RawFile::bare().pair("k".repeat(65_536), U8, &[1]);
    assert_fault!(file, Fault::LongKey { len: 65_536, .. });
}

#[test]
fn row_12_duplicate_key() {
    let file = RawFile::new().pair("a", U8, &[1]).pair("b", U8, &[1]).pair("a", U16, &[1, 0]);
    assert_fault!(file, Fault::DuplicateKey { key, first: 1, second: 3 } if key == "a");
}

#[test]
fn row_13_unknown_types() {
    for tag in [13, 99, 200, u32::MAX] {
        let value = RawFile::new().pair("k", tag, &[0; 64]);
        assert_fault!(value, Fault::ValueType { tag: t, .. } if t == tag);
        let element = RawFile::new().pair("k", ARRAY, &array(tag, 1, &[0; 64]));
        assert_fault!(element, Fault::ElementType { tag: t, .. } if t == tag);
    }
}

#[test]
fn row_14_string_longer_than_the_rest() {
    for len in [1000, 1 << 30, 1 << 40, u64::MAX] {
        let file = RawFile::new().pair("k", STRING, &len.to_le_bytes());
        assert_fault!(file, Fault::Truncated { need, .. } if need == len);
    }
}

#[test]
fn row_15_string_not_utf8() {
    let single = RawFile::new().pair("k", STRING, &string(b"ab\xc3"));
    assert_fault!(single, Fault::NotUtf8 { .. });
    let strings = [string("ok"), string(b"\xed\xa0\x80")].concat();
    let file = RawFile::new().pair("k", ARRAY, &array(STRING, 2, &strings));
    assert_fault!(file, Fault::NotUtf8 { what, .. } if what.contains("string 1"));
}

#[test]
fn row_16_array_larger_than_the_rest() {
    for (tag, count) in [(U8, 1000), (U32, 1 << 62), (U64, 1 << 61), (U16, u64::MAX)] {
        let file = RawFile::new().pair("k", ARRAY, &array(tag, count, &[0; 40]));
        assert_fault!(file, Fault::ArrayCount { count: c, .. } if c == count);
    }
}

#[test]
fn row_17_huge_count_of_empty_strings() {
    let file = RawFile::new().pair("k", ARRAY, &array(STRING, 1 << 40, &[0; 99 * 8]));
    assert_fault!(file, Fault::ArrayCount { count, least: 8, .. } if count == 1 << 40);
    let file = RawFile::new().pair("k", ARRAY, &array(STRING, 100, &[0; 100 * 8]));
    let model = file.open();
    assert_eq!(model.metadata().get_str_array("k").unwrap().unwrap().len(), 100);
}

#[test]
fn row_18_arrays_of_arrays() {
    let inner = array(U8, 1, &[1]);
    let file = RawFile::new().pair("k", ARRAY, &array(ARRAY, 1, &inner));
    assert_fault!(file, Fault::NestedArray { .. });
    let deep = array(ARRAY, 1, &[]).repeat(100_000);
    assert_fault!(RawFile::new().pair("k", ARRAY, &deep), Fault::NestedArray { .. });
}

#[test]
fn row_19_bool_other_than_0_and_1() {
    let file = RawFile::new().pair("k", BOOL, &[2]);
    assert_fault!(file, Fault::Bool { value: 2, .. });
    let file = RawFile::new().pair("k", ARRAY, &array(BOOL, 3, &[0, 1, 255]));
    assert_fault!(file, Fault::Bool { value: 255, .. });
    let file = RawFile::new().pair("k", ARRAY, &array(BOOL, 2, &[0, 1]));
    assert_eq!(file.open().metadata().get_bool_array("k").unwrap(), Some(&[false, true][..]));
}

#[test]
fn row_20_alignment_not_a_power_of_two_or_not_u32() {
    for alignment in [0u32, 3, 24, 33, u32::MAX] {
        let file = with_tensor().pair("general.alignment", U32, &alignment.to_le_bytes());
        assert_fault!(file, Fault::Alignment { .. });
    }
    let file = with_tensor().pair("general.alignment", U64, &32u64.to_le_bytes());
    assert_fault!(file, Fault::Alignment { .. });
    let file = with_tensor().pair("general.alignment", I32, &32i32.to_le_bytes());
    assert_fault!(file, Fault::Alignment { .. });
    for alignment in [1u32, 8, 64, 4096] {
        let mut file = RawFile::new().pair("general.alignment", U32, &alignment.to_le_bytes());
        file.alignment = alignment as usize;
        let model = file.tensor("w", &[3], 24, 0).data(3).open();
        assert_eq!(model.alignment(), u64::from(alignment));
        assert_eq!(&*model.bytes(&model.tensors()[0]), [0, 1, 2]);
    }
}

#[test]
fn row_21_alignment_past_the_end() {
    let key = |file: RawFile| file.pair("general.alignment", U32, &(1u32 << 31).to_le_bytes());
    assert_fault!(key(with_tensor()), Fault::DataStart { data_start: 0x8000_0000, .. });
    assert!(key(RawFile::new()).open().tensors().is_empty());
}

#[test]
fn every_kind_of_value_is_read() {
    let file = RawFile::bare()
        .pair("u8", 0, &[200])
        .pair("i8", 1, &(-5i8).to_le_bytes())
        .pair("u16", 2, &60_000u16.to_le_bytes())
        .pair("i16", 3, &(-300i16).to_le_bytes())
        .pair("u32", 4, &4_000_000_000u32.to_le_bytes())
        .pair("i32", 5, &(-70_000i32).to_le_bytes())
        .pair("f32", 6, &1.5f32.to_le_bytes())
        .pair("bool", 7, &[1])
        .pair("string", 8, &string("mod\u{e8}le"))
        .pair("array", 9, &array(5, 2, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]))
        .pair("u64", 10, &u64::MAX.to_le_bytes())
        .pair("i64", 11, &i64::MIN.to_le_bytes())
        .pair("f64", 12, &0.1f64.to_le_bytes())
        .pair("none", 9, &array(5, 0, &[]));
    let expected = [
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-5)),
        ("u16", Value::U16(60_000)),
        ("i16", Value::I16(-300)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-70_000)),
        ("f32", Value::F32(1.5)),
        ("bool", Value::Bool(true)),
        ("string", Value::Str("mod\u{e8}le".to_owned())),
        ("array", Value::Array(Array::I32(vec![1, -1]))),
        ("u64", Value::U64(u64::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f64", Value::F64(0.1)),
        ("none", Value::Array(Array::I32(vec![]))),
    ];
    let model = file.open();
    let found: Vec<_> = model.metadata().iter().map(|(k, v)| (k, v.clone())).collect();
    assert_eq!(found, expected);
}
