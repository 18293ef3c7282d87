//! The fault table of the format description, rows 42 to 44: parts that do not fit together.

use std::fs;
use std::path::{Path, PathBuf};

use gguf::{Error, Gguf, SplitFault, SplitLimit};
use tempfile::TempDir;

use crate::builder::{I32, RawFile, STRING, U16, check_message, string};
use crate::split::write_five;

fn three() -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let parts = write_five(&folder.path().join("m"), SplitLimit::Tensors(2));
    (folder, parts)
}

fn split_fault(path: &Path) -> SplitFault {
    let error = Gguf::open(path).unwrap_err();
    check_message(&error);
    match error {
        Error::Split { fault, .. } => *fault,
        other => panic!("not a fault of the split: {other}"),
    }
}

/// A part with the given keys and tensors of 8 floats.
fn part(no: u16, count: u16, total: i32, tensors: &[&str]) -> RawFile {
    let mut file = RawFile::bare()
        .pair("split.no", U16, &no.to_le_bytes())
        .pair("split.count", U16, &count.to_le_bytes())
        .pair("split.tensors.count", I32, &total.to_le_bytes());
    for (i, name) in tensors.iter().enumerate() {
        file = file.f32(name, &[8], 32 * i as u64);
    }
    file.data(32 * tensors.len())
}

/// Writes the files as the parts of one model.
fn write_parts(files: &[RawFile]) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let count = files.len();
    let paths: Vec<_> =
        (1..=count).map(|n| folder.path().join(format!("m-{n:05}-of-{count:05}.gguf"))).collect();
    for (path, file) in paths.iter().zip(files) {
        fs::write(path, file.bytes()).unwrap();
    }
    (folder, paths)
}

#[test]
fn row_42_missing_parts_are_named() {
    for missing in 0..3 {
        let (_folder, parts) = three();
        fs::remove_file(&parts[missing]).unwrap();
        for part in parts.iter().filter(|part| part.exists()) {
            match split_fault(part) {
                SplitFault::MissingParts { missing: found, count: 3 } => {
                    assert_eq!(found, [parts[missing].clone()]);
                }
                other => panic!("{other:?}"),
            }
            let message = Gguf::open(part).unwrap_err().to_string();
            let name = parts[missing].file_name().unwrap().to_str().unwrap();
            assert!(message.contains(name), "{message}");
        }
    }
}

#[test]
fn row_42_wrong_number() {
    let (_folder, parts) = three();
    fs::copy(&parts[1], &parts[2]).unwrap();
    assert_eq!(split_fault(&parts[2]), SplitFault::Number { expected: 2, found: 1 });
    assert_eq!(split_fault(&parts[0]), SplitFault::Number { expected: 2, found: 1 });
}

#[test]
fn row_42_count_mismatch() {
    let (_folder, paths) = write_parts(&[part(0, 2, 2, &["a"]), part(1, 3, 2, &["b"])]);
    let expected = SplitFault::Count { expected: 2, found: 3 };
    assert_eq!(split_fault(&paths[0]), expected);
    assert_eq!(split_fault(&paths[1]), expected);
}

#[test]
fn row_42_number_not_below_the_count() {
    let (_folder, paths) = write_parts(&[part(0, 2, 2, &["a"]), part(2, 2, 2, &["b"])]);
    let expected = SplitFault::NumberBeyondCount { no: 2, count: 2 };
    assert_eq!(split_fault(&paths[0]), expected);
    assert_eq!(split_fault(&paths[1]), expected);
}

#[test]
fn row_42_wrong_types_and_ranges() {
    let keys: [(&str, u32, Vec<u8>); 5] = [
        ("split.count", STRING, string("2")),
        ("split.count", I32, (-2i32).to_le_bytes().to_vec()),
        ("split.count", I32, 70_000i32.to_le_bytes().to_vec()),
        ("split.no", 6, 0f32.to_le_bytes().to_vec()),
        ("split.tensors.count", I32, (-1i32).to_le_bytes().to_vec()),
    ];
    for (key, tag, value) in keys {
        let (_folder, paths) = write_parts(&[
            RawFile::new().pair(key, tag, &value).f32("a", &[8], 0).data(32),
            part(1, 2, 2, &["b"]),
        ]);
        let error = Gguf::open(&paths[0]).unwrap_err();
        check_message(&error);
        let typed = matches!(error, Error::WrongType { .. } | Error::OutOfRange { .. });
        assert!(typed && error.to_string().contains(key), "{error}");
        assert!(error.to_string().contains("m-00001-of-00002.gguf"), "{error}");
    }
}

#[test]
fn row_42_absent_keys() {
    let without_no = RawFile::bare().pair("split.count", U16, &[2, 0]);
    let (_folder, paths) = write_parts(&[without_no, part(1, 2, 1, &["b"])]);
    assert_eq!(split_fault(&paths[0]), SplitFault::MissingKey { key: "split.no" });

    let plain = RawFile::new().f32("b", &[8], 0).data(32);
    let (_folder, paths) = write_parts(&[part(0, 2, 2, &["a"]), plain]);
    assert_eq!(split_fault(&paths[0]), SplitFault::MissingKey { key: "split.count" });

    let without_total =
        RawFile::bare().pair("split.count", U16, &[2, 0]).pair("split.no", U16, &[0, 0]);
    let (_folder, paths) = write_parts(&[without_total, part(1, 2, 1, &["b"])]);
    assert_eq!(split_fault(&paths[0]), SplitFault::MissingKey { key: "split.tensors.count" });
}

#[test]
fn row_42_totals() {
    let (_folder, paths) = write_parts(&[part(0, 2, 3, &["a"]), part(1, 2, 3, &["b"])]);
    assert_eq!(split_fault(&paths[0]), SplitFault::Total { expected: 3, found: 2 });
    let (_folder, paths) = write_parts(&[part(0, 2, 2, &["a"]), part(1, 2, 3, &["b"])]);
    assert_eq!(split_fault(&paths[1]), SplitFault::TotalDiffers { first: 2, found: 3 });
}

#[test]
fn row_24_a_tensor_in_two_parts() {
    let (_folder, paths) = write_parts(&[part(0, 2, 3, &["a", "b"]), part(1, 2, 3, &["b"])]);
    let (tensor, other) = ("b".to_owned(), paths[0].clone());
    assert_eq!(split_fault(&paths[0]), SplitFault::DuplicateTensor { tensor, other });
}

#[test]
fn row_42_damage_in_another_part_names_that_part() {
    let (_folder, parts) = three();
    let bytes = fs::read(&parts[2]).unwrap();
    fs::write(&parts[2], &bytes[..bytes.len() - 32]).unwrap();
    let error = Gguf::open(&parts[0]).unwrap_err();
    assert!(matches!(&error, Error::Malformed { path, .. } if *path == parts[2]), "{error}");
}

#[test]
fn row_43_a_later_part_alone_names_the_first() {
    let (_folder, parts) = three();
    fs::remove_file(&parts[0]).unwrap();
    let message = Gguf::open(&parts[2]).unwrap_err().to_string();
    assert!(message.contains("m-00001-of-00003.gguf"), "{message}");
}

#[test]
fn row_43_a_renamed_part_is_told_to_be_one() {
    let (folder, parts) = three();
    let renamed = folder.path().join("model.gguf");
    fs::rename(&parts[1], &renamed).unwrap();
    assert_eq!(split_fault(&renamed), SplitFault::Name { no: 1, count: 3 });
    assert!(Gguf::open(&renamed).unwrap_err().to_string().contains("-00002-of-00003.gguf"));
}

#[test]
fn row_44_no_path_comes_from_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let outside = folder.path().join("m-00002-of-00002.gguf");
    fs::write(outside, part(1, 2, 1, &["b"]).bytes()).unwrap();
    let first = part(0, 2, 1, &[]).pair("split.prefix", STRING, &string("../m")).pair(
        "split.files",
        STRING,
        &string("../m-00002-of-00002.gguf"),
    );
    let path = inner.join("m-00001-of-00002.gguf");
    fs::write(&path, first.bytes()).unwrap();
    assert!(matches!(split_fault(&path), SplitFault::MissingParts { .. }));
}

#[test]
fn a_part_in_memory_has_no_siblings() {
    let error = Gguf::from_bytes(&part(0, 2, 1, &["a"]).bytes()).unwrap_err();
    assert!(matches!(error, Error::Split { .. }), "{error}");
}
