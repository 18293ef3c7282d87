//! Opening a folder: exactly one model must be in it.

use std::fs;

use gguf::{Error, Gguf, SplitFault, SplitLimit};

use crate::builder::{RawFile, check_message};
use crate::split::write_five;

fn model() -> Vec<u8> {
    RawFile::new().f32("w", &[8], 0).data(32).bytes()
}

#[test]
fn one_file_beside_other_things() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for name in ["Model.GGUF", "mtp-model.gguf", "mmproj-f16.gguf", "._Model.gguf"] {
        fs::write(file(name), model()).unwrap();
    }
    fs::write(file("README.md"), "x").unwrap();
    fs::create_dir(file("folder.gguf")).unwrap();
    assert_eq!(Gguf::open(folder.path()).unwrap().parts(), [file("Model.GGUF")]);
}

#[test]
fn a_split_set_is_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let parts = write_five(&folder.path().join("m"), SplitLimit::Tensors(2));
    fs::write(folder.path().join("mtp-m.gguf"), model()).unwrap();
    assert_eq!(Gguf::open(folder.path()).unwrap().parts(), parts);
    // Without its first part it is still one model, and what is missing is said.
    fs::remove_file(&parts[0]).unwrap();
    match Gguf::open(folder.path()).unwrap_err() {
        Error::Split { fault, .. } => match *fault {
            SplitFault::MissingParts { missing, .. } => assert_eq!(missing, parts[..1]),
            other => panic!("{other}"),
        },
        other => panic!("{other}"),
    }
}

#[test]
fn several_models_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.gguf"), model()).unwrap();
    write_five(&folder.path().join("m"), SplitLimit::Tensors(2));
    write_five(&folder.path().join("m"), SplitLimit::Tensors(1));
    let error = Gguf::open(folder.path()).unwrap_err();
    check_message(&error);
    match &error {
        Error::ManyModels { candidates, .. } => assert_eq!(candidates.len(), 3),
        other => panic!("{other}"),
    }
    let message = error.to_string();
    for name in ["b.gguf", "m-00001-of-00003.gguf", "m-00001-of-00005.gguf"] {
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn a_folder_without_a_model_says_what_was_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Gguf::open(folder.path()), Err(Error::NoModel { .. })));
    fs::write(folder.path().join("mtp-m.gguf"), model()).unwrap();
    let error = Gguf::open(folder.path()).unwrap_err();
    check_message(&error);
    assert!(error.to_string().contains("mtp-m.gguf"), "{error}");
    // Named outright, the addition opens.
    assert!(Gguf::open(folder.path().join("mtp-m.gguf")).is_ok());
}
