//! Opening files: what is not a file, handles, large headers.

use std::fs;
use std::sync::Arc;

use gguf::{Error, Gguf, Metadata, OpenOptions, ReadMode, TensorType, Writer};

use crate::builder::{RawFile, check_message};

#[test]
fn a_file_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let error = Gguf::open(folder.path().join("none.gguf")).unwrap_err();
    check_message(&error);
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("none.gguf"));
}

#[cfg(unix)]
#[test]
fn devices_are_not_models() {
    let error = Gguf::open("/dev/null").unwrap_err();
    assert!(matches!(error, Error::NotAFile { .. }), "{error}");
}

#[test]
fn an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, []).unwrap();
    for read in [ReadMode::Map, ReadMode::Read] {
        let error = Gguf::open_with(&path, OpenOptions { read }).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }
}

#[test]
fn a_file_of_metadata_only() {
    let model = RawFile::new().open();
    assert!(model.tensors().is_empty());
    assert_eq!(model.metadata().get_str("general.architecture").unwrap(), Some("test"));
    // The data section, padding included, may be absent.
    let header = RawFile::new().header();
    assert!(!header.len().is_multiple_of(32));
    assert!(Gguf::from_bytes(&header).is_ok());
}

#[test]
fn bytes_outlive_the_model_and_cross_threads() {
    let model = RawFile::new().f32("w", &[8], 0).data(32).open();
    let bytes = model.bytes(model.tensor("w").unwrap());
    drop(model);
    let shared = Arc::new(bytes.clone());
    let sum = std::thread::spawn(move || shared.iter().map(|&b| u32::from(b)).sum::<u32>());
    assert_eq!(sum.join().unwrap(), (0..32u32).sum::<u32>());
    assert_eq!(&*bytes.slice(4..8), [4, 5, 6, 7]);
}

#[test]
fn the_origin_of_metadata_is_named_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, RawFile::new().bytes()).unwrap();
    let model = Gguf::open(&path).unwrap();
    assert_eq!(model.metadata().origin().path(), Some(&*path));
    let message = model.metadata().get_u32("general.architecture").unwrap_err().to_string();
    assert!(message.contains("m.gguf") && message.contains("general.architecture"), "{message}");
}

/// As large as the headers of real models get: a vocabulary of 248,320 and its merges, and more
/// tensors than any model has.
#[test]
fn large_headers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let tokens: Vec<String> = (0..248_320).map(|i| format!("token{i}")).collect();
    let mut metadata = Metadata::new();
    metadata.insert("tokenizer.ggml.tokens", tokens.clone());
    metadata.insert("tokenizer.ggml.merges", tokens.clone());
    metadata.insert("tokenizer.ggml.token_type", vec![1i32; tokens.len()]);
    let mut writer = Writer::new(metadata);
    for i in 0..50_000u32 {
        writer.tensor(format!("t{i}"), &[1], TensorType::I32, i.to_le_bytes().to_vec());
    }
    writer.write(&path).unwrap();
    let model = Gguf::open(&path).unwrap();
    let found = model.metadata().get_str_array("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!(found, tokens);
    for i in [0, 49_999u32] {
        let tensor = model.tensor(&format!("t{i}")).unwrap();
        assert_eq!(&*model.bytes(tensor), i.to_le_bytes());
    }
}

#[test]
#[cfg(unix)]
fn tensors_can_be_kept_in_memory_where_the_system_allows() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/qwen4exp/tiny-f32.gguf");
    let file = Gguf::open(path).unwrap();
    let some: Vec<_> = file.tensors().iter().step_by(3).take(4).collect();
    let bytes: u64 = some.iter().map(|tensor| tensor.bytes).sum();
    match file.lock(some) {
        Ok(locked) => assert_eq!(locked.bytes(), bytes),
        // A limit for locked memory of next to nothing is usual in containers.
        Err(error) => assert!(error.to_string().contains("keep in memory"), "{error}"),
    }
    assert_eq!(file.lock([]).unwrap().bytes(), 0);
    // Neighbours make one range, padding and all.
    let all: u64 = file.tensors().iter().map(|tensor| tensor.bytes).sum();
    match file.lock(file.tensors()) {
        Ok(locked) => assert!(locked.bytes() >= all && locked.bytes() <= file.file_bytes()),
        Err(error) => assert!(error.to_string().contains("keep in memory"), "{error}"),
    }
}
