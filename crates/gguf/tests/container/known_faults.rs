//! Faults that users of other engines met, by their number in the list of known faults.

use std::fs;

use gguf::{Fault, Gguf, TensorType, TypeIdError, Writer};

use crate::builder::{ARRAY, BOOL, RawFile, U8, U32, array, assert_fault, fault};

const Q2_0: u32 = 42;

#[test]
fn fault_001_dimension_product_wraps() {
    let file = |dims: &[u64]| RawFile::new().f32("w", dims, 0).data(64);
    assert_fault!(file(&[(1 << 42) + 1, 1 << 22]), Fault::ElementCount { .. });
    assert_fault!(file(&[1 << 32, 1 << 32, 1 << 32, 1 << 32]), Fault::ElementCount { .. });
    // A size that fits the numbers, but not the file.
    assert_fault!(file(&[(1 << 42) + 1]), Fault::PastEnd { tensor, .. } if tensor == "w");
}

#[test]
fn fault_002_shape_from_the_file_is_not_trusted() {
    let file = RawFile::new().f32("blk.0.w", &[u64::MAX, 2], 0).data(64);
    assert!(file.fault().to_string().contains("blk.0.w"));
    let file = RawFile::new().f32("blk.0.w", &[1; 9], 0).data(64);
    assert_fault!(file, Fault::DimensionCount { count: 9, .. });
}

#[test]
fn fault_004_alignment_and_truncation() {
    let aligned = |alignment: u32| {
        let file = RawFile::new().pair("general.alignment", U32, &alignment.to_le_bytes());
        file.f32("w", &[8], 0).data(64)
    };
    for alignment in [0, 3] {
        assert!(aligned(alignment).fault().to_string().contains("power of two"));
    }
    assert_fault!(aligned(1 << 31), Fault::DataStart { .. });
    let file = RawFile::new().f32("w", &[8], 0).data(32);
    let bytes = file.bytes();
    for len in 24..file.header().len() {
        match fault(&bytes[..len]) {
            Fault::Truncated { at, need, left, .. } => {
                assert!(at + left == len as u64 && need > left, "{len}: {at} {need} {left}");
            }
            // A count may already be seen to be impossible.
            Fault::Count { .. } => {}
            other => panic!("{len}: {other:?}"),
        }
    }
}

#[test]
fn fault_005_padding_of_huge_offsets_does_not_wrap() {
    for offset in [u64::MAX - 31, u64::MAX - 63, 1 << 63] {
        let file = RawFile::new().f32("w", &[8], offset).f32("v", &[8], 0).data(64);
        assert_fault!(file, Fault::PastEnd { .. });
    }
}

#[test]
fn fault_007_size_of_a_tensor_of_every_type() {
    for &ty in TensorType::ALL.iter().filter(|ty| !ty.is_activation_only()) {
        let row = 3 * ty.block_elements() as u64;
        let model = RawFile::new().tensor("w", &[row, 5], ty.id(), 0).data(16 << 10).open();
        assert_eq!(model.tensors()[0].bytes, 15 * ty.block_bytes() as u64, "{ty}");
    }
    let iq4_nl = RawFile::new().tensor("w", &[32], 20, 0).data(32).open();
    assert_eq!(iq4_nl.tensors()[0].bytes, 18);
    let q2_0 = RawFile::new().tensor("w", &[64], Q2_0, 0).data(32).open();
    assert_eq!(q2_0.tensors()[0].bytes, 18);
}

#[test]
fn fault_008_fork_layout_under_id_42() {
    // 4096 elements: 1152 bytes as Q2_0, 1088 in groups of 128.
    let dims = [256, 16];
    let packed = |bytes: usize| {
        RawFile::new()
            .tensor("a", &dims, Q2_0, 0)
            .f32("norm", &[8], 1088)
            .tensor("b", &dims, Q2_0, 1120)
            .data(bytes)
    };
    assert_fault!(packed(1120 + 1088), Fault::ForkGroup128 { count: 2, .. });
    let message = packed(1120 + 1088).fault().to_string();
    for part in ["128-element", "34 bytes", "64-element", "18 bytes", "42"] {
        assert!(message.contains(part), "{message}");
    }
    // The only tensor, where nothing but the end of the file can tell.
    let single = RawFile::new().tensor("a", &dims, Q2_0, 0);
    assert_fault!(single.clone().data(1088), Fault::ForkGroup128 { .. });
    assert_fault!(single.clone().data(1087), Fault::PastEnd { .. });
    assert_fault!(single.clone().data(1089), Fault::PastEnd { .. });
    assert_eq!(single.data(1152).open().tensors()[0].bytes, 1152);
    // One tensor stored as upstream does: a damaged file, not a fork's.
    let mixed = RawFile::new().tensor("a", &dims, Q2_0, 0).tensor("b", &dims, Q2_0, 1088);
    assert_fault!(mixed.tensor("c", &[64, 3], Q2_0, 2208).data(9000), Fault::Overlap { .. });
}

#[test]
fn fault_008_fork_id_142() {
    let file = RawFile::new().tensor("a", &[256, 16], 142, 0).data(1088);
    assert_fault!(file, Fault::TypeId { source: TypeIdError::ForkGroup128 { id: 142 }, .. });
    let message = file.fault().to_string();
    for part in ["142", "128-element", "34 bytes", "Q2_0", "64-element", "18 bytes"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn fault_010_per_layer_arrays_come_with_their_own_length() {
    // Whether 48 or 49 entries are right is the model's matter; the array must say which it has.
    for layers in [48u64, 49] {
        let elements = 2u32.to_le_bytes().repeat(layers as usize);
        let file = RawFile::new().pair("test.head_count", ARRAY, &array(U32, layers, &elements));
        let heads = file.open().metadata().get_u64_array("test.head_count").unwrap().unwrap();
        assert_eq!(heads, vec![2; layers as usize]);
    }
}

#[test]
fn fault_011_enum_values_are_checked() {
    assert_fault!(RawFile::new().pair("k", 200, &[0; 8]), Fault::ValueType { tag: 200, .. });
    assert_fault!(RawFile::new().pair("k", BOOL, &[2]), Fault::Bool { .. });
    let twice = RawFile::new().pair("k", U8, &[1]).pair("k", U8, &[1]);
    assert_fault!(twice, Fault::DuplicateKey { .. });
    assert_fault!(RawFile::new().pair("", U8, &[1]), Fault::EmptyKey { .. });
}

/// Tools write with the same checks that the reader applies.
#[test]
fn fault_013_writing_uses_the_checked_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let shapes: [&[u64]; 3] = [&[1 << 32, 1 << 32], &[u64::MAX, 2], &[1 << 61, 2]];
    for dims in shapes {
        let mut writer = Writer::default();
        writer.tensor("w", dims, TensorType::F32, Vec::new());
        writer.write(&path).unwrap_err();
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn fault_146_paths_that_are_not_ascii() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("mod\u{e8}les \u{6a21}\u{578b}\u{3000}x");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("\u{6a21}\u{578b}.gguf");
    let mut writer = Writer::default();
    writer.tensor("w", &[8], TensorType::I8, vec![1; 8]);
    writer.write(&path).unwrap();
    assert_eq!(Gguf::open(&path).unwrap().parts(), std::slice::from_ref(&path));
    assert_eq!(Gguf::open(&folder).unwrap().tensors().len(), 1);

    fs::remove_file(&path).unwrap();
    let mut writer = Writer::default();
    for name in ["a", "b", "c"] {
        writer.tensor(name, &[8], TensorType::I8, vec![1; 8]);
    }
    let prefix = folder.join("\u{6a21}\u{3000}\u{e8}");
    let parts = writer.write_split(&prefix, gguf::SplitLimit::Tensors(1)).unwrap();
    assert_eq!(Gguf::open(&parts[1]).unwrap().parts(), parts);
    assert_eq!(Gguf::open(&folder).unwrap().parts(), parts);
}

#[cfg(target_os = "linux")]
#[test]
fn fault_146_paths_that_are_not_unicode() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(OsStr::from_bytes(b"d\xff"));
    fs::create_dir(&folder).unwrap();
    let mut writer = Writer::default();
    for name in ["a", "b"] {
        writer.tensor(name, &[8], TensorType::I8, vec![1; 8]);
    }
    let prefix = folder.join(OsStr::from_bytes(b"m\xfe"));
    let parts = writer.write_split(prefix, gguf::SplitLimit::Tensors(1)).unwrap();
    assert_eq!(Gguf::open(&parts[1]).unwrap().tensors().len(), 2);
}
