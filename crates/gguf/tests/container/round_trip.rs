//! What is written is read back, and what cannot be written leaves nothing behind.

use std::fs;
use std::io::{self, Write};

use gguf::{Array, Error, Gguf, Metadata, Source, TensorType, Value, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::builder::check_message;

#[test]
fn every_kind_of_value_and_type() {
    let metadata: Metadata = [
        ("a", Value::U8(1)),
        ("b", Value::I8(-1)),
        ("c", Value::U16(1)),
        ("d", Value::I16(-1)),
        ("e", Value::U32(1)),
        ("f", Value::I32(-1)),
        ("g", Value::F32(0.1)),
        ("h", Value::Bool(true)),
        ("i", Value::Str("x\0y".to_owned())),
        ("j", Value::U64(u64::MAX)),
        ("k", Value::I64(i64::MIN)),
        ("l", Value::F64(0.1)),
        ("m", Value::Array(Array::U8(vec![1, 2]))),
        ("n", Value::Array(Array::I8(vec![-1, 2]))),
        ("o", Value::Array(Array::U16(vec![1, 60_000]))),
        ("p", Value::Array(Array::I16(vec![-1, 2]))),
        ("q", Value::Array(Array::U32(vec![1, 2]))),
        ("r", Value::Array(Array::I32(vec![-1, 2]))),
        ("s", Value::Array(Array::F32(vec![0.5, -0.0]))),
        ("t", Value::Array(Array::Bool(vec![true, false]))),
        ("u", Value::Array(Array::Str(vec![String::new(), "b".to_owned()]))),
        ("v", Value::Array(Array::U64(vec![u64::MAX]))),
        ("w", Value::Array(Array::I64(vec![i64::MIN]))),
        ("x", Value::Array(Array::F64(vec![0.1]))),
        ("y", Value::Array(Array::F64(vec![]))),
    ]
    .into_iter()
    .collect();
    let types: Vec<_> = TensorType::ALL.iter().filter(|ty| !ty.is_activation_only()).collect();
    let data: Vec<Vec<u8>> =
        types.iter().zip(1..).map(|(ty, fill)| vec![fill; 6 * ty.block_bytes()]).collect();
    let mut writer = Writer::new(metadata.clone());
    for (ty, data) in types.iter().zip(&data) {
        let row = 2 * ty.block_elements() as u64;
        writer.tensor(ty.name(), &[row, 3], **ty, &data[..]);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    writer.write(&path).unwrap();

    let model = Gguf::open(&path).unwrap();
    assert_eq!(*model.metadata(), metadata);
    assert_eq!((model.version(), model.alignment()), (3, 32));
    assert_eq!(model.tensors().len(), types.len());
    for ((tensor, ty), data) in model.tensors().iter().zip(types).zip(data) {
        assert_eq!((tensor.name.as_str(), tensor.ty), (ty.name(), *ty));
        assert_eq!(&*model.bytes(tensor), data);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn streams_are_drawn_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let order = std::cell::RefCell::new(Vec::new());
    let mut writer = Writer::default();
    for i in 0..3u8 {
        let order = &order;
        let source = Source::stream(move |out| {
            order.borrow_mut().push(i);
            (0..1000).try_for_each(|_| out.write_all(&[i; 100]))
        });
        writer.tensor(format!("t{i}"), &[100, 1000], TensorType::I8, source);
    }
    assert!(order.borrow().is_empty());
    writer.write(&path).unwrap();
    assert_eq!(*order.borrow(), [0, 1, 2]);
    let model = Gguf::open(&path).unwrap();
    let last = model.bytes(model.tensor("t2").unwrap());
    assert!(last.len() == 100_000 && last.iter().all(|&b| b == 2));
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, "old").unwrap();
    let write = |source: Source<'static>| {
        let mut writer = Writer::default();
        writer.tensor("w", &[8], TensorType::I8, source);
        let error = writer.write(&path).unwrap_err();
        check_message(&error);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        error
    };
    let too_little = write(vec![0; 7].into());
    assert!(matches!(too_little, Error::DataLength { expected: 8, given: 7, .. }));
    let too_much = write(vec![0; 9].into());
    assert!(matches!(too_much, Error::DataLength { expected: 8, given: 9, .. }));
    let bytewise =
        Source::stream(|out: &mut dyn Write| (0..100).try_for_each(|i| out.write_all(&[i])));
    assert!(matches!(write(bytewise), Error::DataLength { expected: 8, given: 9, .. }));
    let failing = Source::stream(|_| Err(io::Error::other("source gone")));
    let error = write(failing);
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("source gone"));
}

#[test]
fn what_the_reader_refuses_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let refused = |metadata: Metadata, tensors: &[(&str, &[u64], TensorType)]| {
        let mut writer = Writer::new(metadata);
        for (name, dims, ty) in tensors {
            writer.tensor(*name, dims, *ty, vec![0; 8]);
        }
        let error = writer.write(&path).unwrap_err();
        check_message(&error);
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    };
    let keys = |key: &str, value: Value| [(key, value)].into_iter().collect::<Metadata>();
    refused(keys("", Value::U8(1)), &[]);
    refused(keys(&"k".repeat(65_536), Value::U8(1)), &[]);
    refused(keys("general.alignment", Value::U32(24)), &[]);
    refused(keys("general.alignment", Value::U64(32)), &[]);
    let none = Metadata::new;
    refused(none(), &[("", &[8], TensorType::I8)]);
    refused(none(), &[(&"n".repeat(64), &[8], TensorType::I8)]);
    refused(none(), &[("w", &[8], TensorType::I8), ("w", &[8], TensorType::I8)]);
    refused(none(), &[("w", &[0], TensorType::I8)]);
    refused(none(), &[("w", &[1, 1, 1, 1, 8], TensorType::I8)]);
    refused(none(), &[("w", &[8], TensorType::Q4_0)]);
    refused(none(), &[("w", &[32], TensorType::Q8_1)]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_model_can_be_rewritten_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let mut writer = Writer::default();
    writer.tensor("w", &[8], TensorType::I8, vec![3; 8]);
    writer.write(&path).unwrap();
    let model = Gguf::open_with(&path, gguf::OpenOptions { read: gguf::ReadMode::Read }).unwrap();
    let bytes = model.bytes(&model.tensors()[0]);
    let mut writer = Writer::new(model.metadata().clone());
    writer.tensor("v", &[8], TensorType::I8, &bytes[..]);
    writer.write(&path).unwrap();
    let rewritten = Gguf::open(&path).unwrap();
    assert_eq!(&*rewritten.bytes(rewritten.tensor("v").unwrap()), [3; 8]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any metadata and tensors come back as they were.
    #[test]
    fn arbitrary_models(
        texts in vec(("[a-z.]{1,12}", ".{0,20}"), 0..8),
        numbers in vec(any::<i64>(), 0..20),
        tensors in vec(vec(any::<u8>(), 1..200), 0..8),
        shift in 3u32..8,
    ) {
        let mut metadata: Metadata = texts.into_iter().collect();
        metadata.insert("numbers", numbers);
        metadata.insert("general.alignment", 1u32 << shift);
        let mut writer = Writer::new(metadata.clone());
        for (i, data) in tensors.iter().enumerate() {
            writer.tensor(format!("t{i}"), &[data.len() as u64], TensorType::I8, &data[..]);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        writer.write(&path).unwrap();
        let model = Gguf::open(&path).unwrap();
        prop_assert_eq!(model.metadata(), &metadata);
        prop_assert_eq!(model.tensors().len(), tensors.len());
        for (tensor, data) in model.tensors().iter().zip(&tensors) {
            let bytes = model.bytes(tensor);
            prop_assert_eq!(&bytes[..], &data[..]);
        }
    }
}
