//! The fault table of the format description, rows 22 to 41 and 45 to 48: tensors and data.

use std::fs::{self, OpenOptions};

use gguf::{Error, Fault, Gguf, ReadMode, TensorType, TypeIdError};

use crate::builder::{ARRAY, RawFile, STRING, U32, array, assert_fault, fault, string};

const F32: u32 = 0;

fn one(dims: &[u64], id: u32) -> RawFile {
    RawFile::new().tensor("w", dims, id, 0).data(4096)
}

#[test]
fn row_22_names_not_utf8_or_too_long() {
    let file = RawFile::new().tensor(b"w\x80", &[8], F32, 0).data(32);
    assert_fault!(file, Fault::NotUtf8 { .. });
    assert!(RawFile::new().f32(&"n".repeat(63), &[8], 0).data(32).open().tensors().len() == 1);
    let file = RawFile::new().f32(&"n".repeat(64), &[8], 0).data(32);
    assert_fault!(file, Fault::LongTensorName { len: 64, index: 0, .. });
}

#[test]
fn row_23_names_empty_or_with_nul() {
    assert_fault!(RawFile::new().f32("", &[8], 0).data(32), Fault::EmptyTensorName { .. });
    let file = RawFile::new().f32("a\0b", &[8], 0).data(32);
    assert_fault!(file, Fault::NulInTensorName { .. });
}

#[test]
fn row_24_duplicate_name() {
    let file = RawFile::new().f32("w", &[8], 0).f32("v", &[8], 32).f32("w", &[8], 64).data(96);
    assert_fault!(file, Fault::DuplicateTensor { first: 0, second: 2, .. });
}

#[test]
fn row_25_too_many_dimensions() {
    assert_fault!(one(&[1; 5], F32), Fault::DimensionCount { count: 5, .. });
    let raw = [&string("w")[..], &u32::MAX.to_le_bytes(), &[0; 64]].concat();
    assert_fault!(
        RawFile::new().raw_tensor(raw),
        Fault::DimensionCount { count, .. } if count == u64::from(u32::MAX)
    );
}

#[test]
fn row_26_no_dimensions_is_a_scalar() {
    let model = one(&[], F32).open();
    let tensor = &model.tensors()[0];
    assert_eq!((tensor.elements(), tensor.bytes), (1, 4));
    assert_eq!(&*model.bytes(tensor), [0, 1, 2, 3]);
}

#[test]
fn row_27_dimension_of_zero() {
    for dims in [&[0u64][..], &[8, 0], &[0, u64::MAX], &[8, 8, 0, 8]] {
        assert_fault!(one(dims, F32), Fault::ZeroDimension { .. });
    }
}

#[test]
fn row_28_element_counts_that_do_not_fit() {
    let cases: [&[u64]; 6] = [
        &[1 << 63],
        &[u64::MAX],
        &[1 << 32, 1 << 31],
        &[1 << 32, 1 << 32],
        &[1 << 33, 1 << 31, 2],
        &[(1 << 63) + 4, 2],
    ];
    for dims in cases {
        assert_fault!(one(dims, F32), Fault::ElementCount { .. });
    }
}

#[test]
fn row_29_byte_counts_that_do_not_fit() {
    assert_fault!(one(&[1 << 61, 2], F32), Fault::ByteCount { .. });
    assert_fault!(one(&[(1 << 63) - 32], TensorType::Q8_0.id()), Fault::ByteCount { .. });
}

#[test]
fn row_30_unknown_and_retired_ids() {
    for id in [43, 200, u32::MAX, 1 << 31] {
        let expected = TypeIdError::Unknown { id };
        assert_fault!(one(&[256], id), Fault::TypeId { source, .. } if source == expected);
        assert!(one(&[256], id).fault().to_string().contains(&id.to_string()));
    }
    for id in [4, 5, 31, 32, 33, 36, 37, 38] {
        let file = one(&[256], id);
        assert_fault!(file, Fault::TypeId { source: TypeIdError::Retired { .. }, .. });
    }
}

#[test]
fn row_31_activation_types() {
    for ty in [TensorType::Q8_1, TensorType::Q8_K] {
        assert_fault!(one(&[256], ty.id()), Fault::ActivationType { .. });
    }
}

#[test]
fn row_32_rows_with_part_of_a_block() {
    for &ty in TensorType::ALL.iter().filter(|ty| ty.is_quantized() && !ty.is_activation_only()) {
        let block = ty.block_elements() as u64;
        for row in [1, block - 1, block + 1] {
            let file = one(&[row, block], ty.id());
            assert_fault!(file, Fault::RowLength { row: r, .. } if r == row);
        }
        assert_eq!(one(&[2 * block, 2], ty.id()).open().tensors()[0].ty, ty);
    }
    assert_fault!(one(&[], TensorType::Q4_0.id()), Fault::RowLength { .. });
}

#[test]
fn row_33_offset_not_aligned() {
    for offset in [1, 4, 16, 31, 33] {
        let file = RawFile::new().f32("w", &[8], offset).data(4096);
        assert_fault!(file, Fault::Misaligned { offset: o, .. } if o == offset);
    }
}

#[test]
fn row_34_offsets_past_the_end_or_wrapping() {
    for offset in [64, 1 << 40, 1 << 63, u64::MAX - 31, u64::MAX - 63] {
        let file = RawFile::new().f32("w", &[8], offset).data(64);
        assert_fault!(file, Fault::PastEnd { offset: o, .. } if o == offset);
    }
    assert_fault!(RawFile::new().f32("w", &[1 << 40], 0).data(64), Fault::PastEnd { .. });
    assert_fault!(RawFile::new().f32("w", &[(1 << 61) - 1], 0).data(64), Fault::PastEnd { .. });
}

#[test]
fn row_35_last_tensor_cut() {
    for missing in 1..=32 {
        let file = RawFile::new().f32("v", &[8], 0).f32("w", &[8], 32).data(64 - missing);
        assert_fault!(file, Fault::PastEnd { .. });
    }
}

#[test]
fn row_36_file_ends_before_the_data() {
    let file = RawFile::new().f32("v", &[8], 0).f32("w", &[8], 32).data(64);
    let header = file.header();
    let after_pairs = RawFile::new().header().len();
    assert!(!header.len().is_multiple_of(32), "the case needs padding");
    for len in after_pairs..=header.len() {
        assert!(Gguf::from_bytes(&file.bytes()[..len]).is_err(), "{len}");
    }
    assert!(matches!(fault(&header), Fault::DataStart { .. }));
}

#[test]
fn row_37_overlaps() {
    let file = |second: u64| RawFile::new().f32("a", &[24], 0).f32("b", &[8], second).data(256);
    for second in [0, 32, 64] {
        assert_fault!(file(second), Fault::Overlap { .. });
    }
    assert!(Gguf::from_bytes(&file(96).bytes()).is_ok());
    let inside = RawFile::new().f32("b", &[8], 64).f32("c", &[8], 128).f32("a", &[64], 0);
    assert_fault!(inside.data(512), Fault::Overlap { .. });
}

#[test]
fn row_38_holes_and_unordered_offsets_are_accepted() {
    let model =
        RawFile::new().f32("a", &[8], 128).f32("b", &[8], 0).f32("c", &[8], 320).data(352).open();
    let first = |name| model.bytes(model.tensor(name).unwrap())[0];
    assert_eq!((first("a"), first("b"), first("c")), (128, 0, 64));
}

#[test]
fn row_39_trailing_bytes_are_accepted() {
    let model = one(&[8], F32).open();
    assert_eq!(&*model.bytes(&model.tensors()[0]), (0..32).collect::<Vec<u8>>());
}

#[test]
fn row_40_padding_need_not_be_zero() {
    let file = RawFile::new().tensor("w", &[3], 24, 0).data(3);
    let header = file.header().len();
    let mut bytes = file.bytes();
    assert!(header < bytes.len() - 3);
    let end = bytes.len() - 3;
    bytes[header..end].fill(0xff);
    bytes.extend([0xff; 29]);
    let model = Gguf::from_bytes(&bytes).unwrap();
    assert_eq!(&*model.bytes(&model.tensors()[0]), [0, 1, 2]);
}

#[test]
fn row_41_text_mode_copies() {
    // A length of 10 in a key makes a line feed that the copy expands.
    let bytes = RawFile::bare().pair("ten.bytes.", U32, &[0; 4]).bytes();
    let mut expanded = Vec::new();
    for byte in bytes {
        if byte == b'\n' {
            expanded.push(b'\r');
        }
        expanded.push(byte);
    }
    fault(&expanded);
}

#[test]
fn row_45_read_mode_outlives_a_shrinking_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, one(&[8], F32).bytes()).unwrap();
    let options = gguf::OpenOptions { read: ReadMode::Read };
    let model = Gguf::open_with(&path, options).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    let bytes = model.bytes(&model.tensors()[0]);
    assert_eq!(&*bytes, (0..32).collect::<Vec<u8>>());
}

#[test]
fn row_46_bad_scales_do_not_hinder_opening() {
    let file = RawFile::new().tensor("w", &[32], TensorType::Q8_0.id(), 0);
    let mut bytes = file.data(0).bytes();
    bytes.extend([0x00, 0x7c]); // f16 infinity
    bytes.extend([1; 32]);
    let model = Gguf::from_bytes(&bytes).unwrap();
    assert_eq!(model.bytes(&model.tensors()[0])[..2], [0x00, 0x7c]);
}

#[test]
fn row_47_values_of_the_wrong_type_are_named() {
    let file = RawFile::new().pair("test.head_count", STRING, &string("8")).pair(
        "test.block_count",
        5,
        &(-1i32).to_le_bytes(),
    );
    let model = file.open();
    let error = model.metadata().get_u32("test.head_count").unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }));
    assert!(error.to_string().contains("test.head_count"), "{error}");
    let error = model.metadata().get_u32("test.block_count").unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
}

#[test]
fn row_48_arrays_of_differing_lengths_are_kept_as_they_are() {
    let tokens = [string("a"), string("b")].concat();
    let file = RawFile::new()
        .pair("tokenizer.ggml.tokens", ARRAY, &array(STRING, 2, &tokens))
        .pair("tokenizer.ggml.token_type", ARRAY, &array(5, 1, &[1, 0, 0, 0]));
    let model = file.open();
    let metadata = model.metadata();
    assert_eq!(metadata.get_str_array("tokenizer.ggml.tokens").unwrap().unwrap().len(), 2);
    assert_eq!(metadata.get_i32_array("tokenizer.ggml.token_type").unwrap(), Some(vec![1]));
}

#[test]
fn plain_types_are_read_at_multiples_of_their_size() {
    let at = |offset| {
        let mut file = RawFile::new().pair("general.alignment", U32, &1u32.to_le_bytes());
        file.alignment = 1;
        file.f32("w", &[1], offset).data(16)
    };
    let shift = at(0).header().len().wrapping_neg() as u64 % 4;
    let model = at(shift).open();
    assert!(model.bytes(&model.tensors()[0]).as_ptr().cast::<f32>().is_aligned());
    assert_fault!(at(shift + 1), Fault::Unnatural { .. });
}
