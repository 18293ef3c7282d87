//! The malformed files of the fixture set, each by its manifest entry.

use std::path::PathBuf;

use gguf::{Error, Gguf, OpenOptions, ReadMode};
use serde_json::Value;

use crate::builder::check_message;

fn fixtures() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "fixtures"].iter().collect()
}

#[test]
fn every_malformed_file_meets_its_expectation() {
    let folder = fixtures().join("gguf-bad");
    let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let files = manifest["files"].as_array().unwrap();
    assert!(!files.is_empty());
    for file in files {
        let name = file["file"].as_str().unwrap();
        for read in [ReadMode::Map, ReadMode::Read] {
            let result = Gguf::open_with(folder.join(name), OpenOptions { read });
            match (file["expected"].as_str().unwrap(), &result) {
                ("accept", Ok(_)) | ("error", Err(_)) | ("either", _) => {}
                _ => panic!("{name} ({}): {result:?}", file["why"]),
            }
            if let Err(error) = result {
                check_message(&error);
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}

#[test]
fn every_file_of_the_folder_is_in_the_manifest() {
    let folder = fixtures().join("gguf-bad");
    let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.ends_with(".gguf") || text.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn the_small_models_open() {
    for name in ["tiny-f32", "tiny-16bit", "tiny-f32-mtp", "quantmix"] {
        let model = Gguf::open(fixtures().join(format!("qwen4exp/{name}.gguf"))).unwrap();
        let architecture = model.metadata().get_str("general.architecture").unwrap();
        assert_eq!(architecture, Some("qwen4exp"), "{name}");
        assert!(!model.tensors().is_empty());
        for tensor in model.tensors() {
            let found = model.tensor(&tensor.name).unwrap();
            assert_eq!(found, tensor);
            assert_eq!(model.bytes(tensor).len() as u64, tensor.rows() * tensor.row_bytes());
        }
    }
}

#[test]
fn a_folder_of_several_models_lists_them() {
    let error = Gguf::open(fixtures().join("qwen4exp")).unwrap_err();
    assert!(matches!(error, Error::ManyModels { .. }), "{error}");
    assert!(error.to_string().contains("quantmix.gguf"), "{error}");
}
