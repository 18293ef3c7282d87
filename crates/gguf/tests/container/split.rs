//! Split models that are well-formed, opened from every part and in every way.

use std::fs;
use std::path::{Path, PathBuf};

use gguf::{Gguf, Metadata, OpenOptions, ReadMode, SplitLimit, TensorType, Value, Writer};

use crate::builder::{RawFile, STRING, U64, string};

/// Five tensors of 40 bytes, filled with their number.
pub(crate) fn write_five(prefix: &Path, limit: SplitLimit) -> Vec<PathBuf> {
    five().write_split(prefix, limit).unwrap()
}

fn five<'a>() -> Writer<'a> {
    let metadata: Metadata = [
        ("general.architecture", Value::from("test")),
        // Left over from another split: must not survive.
        ("split.count", Value::U16(9)),
        ("split.no", Value::U16(7)),
    ]
    .into_iter()
    .collect();
    let mut writer = Writer::new(metadata);
    for i in 0..5u8 {
        writer.tensor(format!("t{i}"), &[20, 2], TensorType::I8, vec![i; 40]);
    }
    writer
}

fn check_five(model: &Gguf, parts: &[PathBuf]) {
    assert_eq!(model.parts(), parts);
    let names: Vec<_> = model.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["t0", "t1", "t2", "t3", "t4"]);
    assert_eq!(model.metadata().get_str("general.architecture").unwrap(), Some("test"));
    for i in 0..5u8 {
        let tensor = model.tensor(&format!("t{i}")).unwrap();
        assert_eq!(&*model.bytes(tensor), [i; 40]);
        let file = fs::read(&model.parts()[tensor.part]).unwrap();
        assert_eq!(file[model.file_offset(tensor) as usize], i);
    }
    let sizes = parts.iter().map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(model.file_bytes(), sizes.sum::<u64>());
}

#[test]
fn any_part_opens_the_whole_model() {
    let folder = tempfile::tempdir().unwrap();
    let parts = write_five(&folder.path().join("m"), SplitLimit::Tensors(2));
    let names: Vec<_> = parts.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    let expected = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"];
    assert_eq!(names, expected);
    for part in &parts {
        for read in [ReadMode::Map, ReadMode::Read] {
            let model = Gguf::open_with(part, OpenOptions { read }).unwrap();
            check_five(&model, &parts);
            assert_eq!(model.tensor("t4").unwrap().part, 2);
            assert_eq!(model.metadata().get_u32("split.count").unwrap(), Some(3));
            assert_eq!(model.metadata().get_u32("split.no").unwrap(), Some(0));
            assert_eq!(model.metadata().get_u32("split.tensors.count").unwrap(), Some(5));
        }
    }
}

#[test]
fn limits_decide_where_parts_begin() {
    let parts = |limit| {
        let folder = tempfile::tempdir().unwrap();
        let parts = write_five(&folder.path().join("m"), limit);
        check_five_counts(&parts)
    };
    assert_eq!(parts(SplitLimit::Tensors(0)), [1, 1, 1, 1, 1]);
    assert_eq!(parts(SplitLimit::Tensors(3)), [3, 2]);
    assert_eq!(parts(SplitLimit::Bytes(80)), [2, 2, 1]);
    assert_eq!(parts(SplitLimit::Bytes(119)), [2, 2, 1]);
    assert_eq!(parts(SplitLimit::Bytes(1)), [1, 1, 1, 1, 1]);
    // One part counts as not split.
    assert_eq!(parts(SplitLimit::Bytes(u64::MAX)), [5]);
}

fn check_five_counts(parts: &[PathBuf]) -> Vec<usize> {
    let model = Gguf::open(&parts[0]).unwrap();
    check_five(&model, parts);
    let count = |part| model.tensors().iter().filter(|tensor| tensor.part == part).count();
    (0..parts.len()).map(count).collect()
}

#[test]
fn an_empty_model_is_one_part() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::new(Metadata::new());
    let parts = writer.write_split(folder.path().join("m"), SplitLimit::Tensors(1)).unwrap();
    assert_eq!(parts.len(), 1);
    assert!(Gguf::open(&parts[0]).unwrap().tensors().is_empty());
}

#[test]
fn a_merged_file_drops_the_split_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    five().write(&path).unwrap();
    let model = Gguf::open(&path).unwrap();
    check_five(&model, &[path]);
    assert_eq!(model.metadata().get("split.count"), None);
}

#[test]
fn another_alignment_holds_in_every_part() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::new([("general.alignment", Value::U32(256))].into_iter().collect());
    for i in 0..4u8 {
        writer.tensor(format!("t{i}"), &[40], TensorType::I8, vec![i; 40]);
    }
    let parts = writer.write_split(folder.path().join("m"), SplitLimit::Tensors(2)).unwrap();
    let model = Gguf::open(&parts[1]).unwrap();
    assert_eq!(model.alignment(), 256);
    let offsets: Vec<_> = model.tensors().iter().map(|tensor| tensor.offset).collect();
    assert_eq!(offsets, [0, 256, 0, 256]);
    for tensor in model.tensors() {
        assert_eq!(model.file_offset(tensor) % 256, 0);
    }
}

/// Published sets: a first part with nothing but metadata, keys of other integer widths.
#[test]
fn a_first_part_without_tensors_and_wide_keys() {
    let folder = tempfile::tempdir().unwrap();
    let wide = |file: RawFile, no: u64| {
        file.pair("split.no", U64, &no.to_le_bytes())
            .pair("split.count", U64, &2u64.to_le_bytes())
            .pair("split.tensors.count", U64, &1u64.to_le_bytes())
    };
    let first = wide(RawFile::new().pair("general.name", STRING, &string("x")), 0);
    let second = wide(RawFile::bare(), 1).f32("w", &[8], 0).data(32);
    let path = |no| folder.path().join(format!("x-0000{no}-of-00002.gguf"));
    fs::write(path(1), first.bytes()).unwrap();
    fs::write(path(2), second.bytes()).unwrap();
    for opened in [path(1), path(2), folder.path().to_owned()] {
        let model = Gguf::open(opened).unwrap();
        assert_eq!(model.metadata().get_str("general.name").unwrap(), Some("x"));
        assert_eq!(model.tensor("w").unwrap().part, 1);
    }
}

#[test]
fn counts_of_0_and_1_mean_not_split() {
    let folder = tempfile::tempdir().unwrap();
    for count in [0u16, 1] {
        let path = folder.path().join(format!("merged-{count}.gguf"));
        let file = RawFile::new().pair("split.count", 2, &count.to_le_bytes());
        fs::write(&path, file.bytes()).unwrap();
        assert_eq!(Gguf::open(&path).unwrap().parts().len(), 1);
    }
}
