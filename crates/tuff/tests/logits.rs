//! `tuff logits` against reference outputs, and its promise that chunks change nothing.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use serde_json::Value;

/// The manifest's limit for a float32 engine; the references carry about 1e-5 of rounding.
const LIMIT: f32 = 2e-3;

const MODELS: [&str; 3] = ["tiny-f32", "tiny-16bit", "quantmix"];

/// `(name, ids)` of every prompt of a model.
fn prompts(model: &str) -> Vec<(String, String)> {
    let manifest = json("qwen4exp/manifest.json");
    let models = manifest["models"].as_array().unwrap();
    let entry = models.iter().find(|m| m["file"] == format!("{model}.gguf")).unwrap();
    let prompts = entry["prompts"].as_object().unwrap();
    let ids = |prompt: &Value| id_list(&prompt["tokens"]);
    prompts.iter().map(|(name, prompt)| (name.clone(), ids(prompt))).collect()
}

fn model(name: &str) -> PathBuf {
    fixture(&format!("qwen4exp/{name}.gguf"))
}

/// Runs the program; further arguments as one line.
fn logits(model_file: &Path, tokens: &str, more: &str, output: &Path) -> Run {
    let (model_file, output) = (model_file.to_str().unwrap(), output.to_str().unwrap());
    let first = ["logits", "-m", model_file, "--tokens", tokens, "-o", output];
    tuff(first.into_iter().chain(words(more)))
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn every_prompt_of_the_fixtures_is_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.f32");
    for name in MODELS {
        for (prompt, ids) in prompts(name) {
            // The limit is that of an engine that rounds nothing.
            logits(&model(name), &ids, "--quiet --activations f32 --kv f32", &output).ok();
            let expected = read_f32(fixture(&format!("qwen4exp/{name}.{prompt}.logits.f32")));
            let worst = worst(&read_f32(&output), &expected);
            assert!(worst <= LIMIT, "{name} {prompt}: {worst}");
        }
    }
}

#[test]
fn the_reference_backend_is_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.f32");
    let (_, ids) = prompts("quantmix").into_iter().find(|(name, _)| name == "eos").unwrap();
    logits(&model("quantmix"), &ids, "--backend reference --kv f32", &output).ok();
    let expected = read_f32(fixture("qwen4exp/quantmix.eos.logits.f32"));
    assert!(worst(&read_f32(&output), &expected) <= LIMIT);
}

#[test]
fn rounded_keys_and_values_are_near_and_f16_is_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.f32");
    let (_, ids) = prompts("quantmix").into_iter().find(|(name, _)| name == "chunk").unwrap();
    let found = ["", "--kv f16", "--kv q8_0", "--kv f32"].map(|more| {
        let more = format!("--activations f32 --quiet {more}");
        logits(&model("quantmix"), &ids, &more, &output).ok();
        read_f32(&output)
    });
    let [default, f16, q8_0, f32] = &found;
    assert!(default == f16 && f16 != f32 && q8_0 != f32 && q8_0 != f16);
    let (f16, q8_0) = (worst(f16, f32), worst(q8_0, f32));
    assert!(f16 < 0.1 && q8_0 < 1.0, "{f16} {q8_0}");
}

#[test]
fn chunks_and_threads_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.f32");
    let (_, ids) = prompts("quantmix").into_iter().find(|(name, _)| name == "chunk").unwrap();
    logits(&model("quantmix"), &ids, "", &output).ok();
    let whole = fs::read(&output).unwrap();
    for more in ["--chunk 1", "--chunk 7", "--chunk 64", "--chunk 131", "--threads 1 --chunk 50"] {
        logits(&model("quantmix"), &ids, more, &output).ok();
        assert!(fs::read(&output).unwrap() == whole, "{more}");
    }
    logits(&model("quantmix"), &ids, "--rope-scaling yarn --rope-scale 1", &output).ok();
    assert!(fs::read(&output).unwrap() == whole, "stretched by one");
    logits(&model("quantmix"), &ids, "--kv q8_0", &output).ok();
    let whole = fs::read(&output).unwrap();
    logits(&model("quantmix"), &ids, "--kv q8_0 --chunk 7", &output).ok();
    assert!(fs::read(&output).unwrap() == whole);
}

#[test]
fn tokens_can_come_from_a_file_or_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let (list, output) = (folder.path().join("ids.json"), folder.path().join("out.f32"));
    logits(&model("tiny-f32"), "1,2,3", "", &output).ok();
    let expected = fs::read(&output).unwrap();
    fs::write(&list, "[1, 2, 3]\n").unwrap();
    let file = model("tiny-f32");
    let args = |from| {
        let (file, output) = (file.to_str().unwrap(), output.to_str().unwrap());
        ["logits", "-m", file, "--tokens-file", from, "-o", output].map(str::to_owned)
    };
    tuff(args(list.to_str().unwrap())).ok();
    assert!(fs::read(&output).unwrap() == expected);
    tuff_with(args("-"), "1 2 3").ok();
    assert!(fs::read(&output).unwrap() == expected);
}

#[test]
fn a_failure_leaves_no_file_and_keeps_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.f32");
    let message = logits(&model("tiny-f32"), "1,512", "", &output).fails(4).to_owned();
    assert!(message.contains("512"), "{message}");
    logits(&model("tiny-f32"), "", "", &output).fails(4);
    logits(&model("tiny-f32"), "1,x", "", &output).fails(4);
    let empty = logits(&model("tiny-f32"), "1,2,,3", "", &output).fails(4).to_owned();
    assert!(empty.contains("entry 3"), "{empty}");
    logits(&fixture("gguf-bad/version_1.gguf"), "1", "", &output).fails(3);
    logits(&model("tiny-f32"), "1", "", &folder.path().join("no/such/folder.f32")).fails(1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    fs::write(&output, "old").unwrap();
    logits(&model("tiny-f32"), "512", "", &output).fails(4);
    assert_eq!(fs::read(&output).unwrap(), b"old");
    logits(&model("tiny-f32"), "1", "", &output).ok();
    assert_eq!(read_f32(&output).len(), 512);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn links_and_devices_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target.f32"), folder.path().join("link.f32"));
    fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    logits(&model("tiny-f32"), "1", "", &link).ok();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read_f32(&target).len(), 512);
    logits(&model("tiny-f32"), "1", "", Path::new("/dev/null")).ok();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}
