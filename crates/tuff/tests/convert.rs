//! `tuff convert` as a user runs it, against the logits that the folder's makers computed.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;

use common::*;
use gguf::{Gguf, TensorType};

/// The limit of a float32 engine, as for the fixtures in `qwen4exp`; the README beside them says
/// how it was found.
const LIMIT: f32 = 2e-3;

fn folder() -> String {
    fixture("hf-tiny").to_str().unwrap().to_owned()
}

/// Converts the small folder; further arguments as one line.
fn convert(output: &str, more: &str) -> Run {
    let folder = folder();
    tuff(["convert", &folder, output].into_iter().chain(words(more)))
}

#[test]
fn logits_are_those_of_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let run = convert(&path("own.gguf"), "--no-tokenizer");
    assert!(run.ok().contains("attn_qkv"), "{}", run.text());
    convert(&path("f32.gguf"), "--no-tokenizer --type f32 -q").ok();
    let expected = json("hf-tiny/expected.json");
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let ids = id_list(&case["tokens"]);
        let logits = read_f32(fixture(&format!("hf-tiny/{}", case["logits"].as_str().unwrap())));
        let mut all = Vec::new();
        for model in ["own.gguf", "f32.gguf"] {
            for more in ["--activations f32", "--backend reference"] {
                let (model, out) = (path(model), path("out.f32"));
                let first =
                    ["logits", "-q", "--kv", "f32", "-m", &model, "--tokens", &ids, "-o", &out];
                tuff(first.into_iter().chain(words(more))).ok();
                all.push(read_f32(&out));
            }
        }
        for found in &all {
            assert_eq!(found.len(), logits.len());
            let differences = found.iter().zip(&logits).map(|(a, b)| (a - b).abs());
            let worst = differences.fold(0.0, f32::max);
            assert!(worst <= LIMIT, "{worst}");
        }
        // BF16 weights are the same numbers in F32.
        assert!(all[1] == all[3]);
    }
}

#[test]
fn formats_are_chosen_by_type_and_role() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("x.gguf");
    let path = output.to_str().unwrap();
    let message = convert(path, "--no-tokenizer -t q8_0");
    // The mixers have rank 16, the rows of the table 16 values.
    assert!(message.fails(4).contains("hc_attn_up.weight (16 x 256)"), "{}", message.stderr);
    let roles =
        "-r hc_attn_up=bf16 -r hc_ffn_up=bf16 -r output_hc_up=bf16 -r table=f16 -r attn_k=keep";
    convert(path, &format!("--no-tokenizer -q -t q8_0 {roles}")).ok();
    let file = Gguf::open(&output).unwrap();
    let ty = |name: &str| file.tensor(name).unwrap().ty;
    assert_eq!(ty("blk.0.attn_qkv.weight"), TensorType::Q8_0);
    assert_eq!(ty("blk.0.hc_attn_up.weight"), TensorType::BF16);
    assert_eq!(ty("per_layer_token_embd.weight"), TensorType::F16);
    assert_eq!(ty("blk.3.attn_k.weight"), TensorType::BF16);
    assert_eq!(ty("blk.0.hc_attn_inject.weight"), TensorType::F32);
    let out = place.path().join("out.f32");
    let out = out.to_str().unwrap();
    tuff(["logits", "-m", path, "--tokens", "1,2,3", "-q", "-o", out]).ok();
    assert!(read_f32(out).iter().all(|logit| logit.is_finite()));
}

#[test]
fn what_is_missing_is_said() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("x.gguf");
    let path = output.to_str().unwrap();
    let missing = convert(path, "");
    assert!(missing.fails(3).contains("--no-tokenizer"), "{}", missing.stderr);
    tuff(["convert", "/nonexistent", path]).fails(1);
    convert(path, "--no-tokenizer --dry-run").ok();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    let bad = convert(path, "--type q9");
    assert!(bad.code == 2 && bad.stderr.contains("formats are"), "{}", bad.stderr);
}

#[test]
fn metadata_alone_makes_a_vocabulary() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("x.gguf");
    let (path, folder) = (output.to_str().unwrap(), fixture("hf-small"));
    tuff(["convert", folder.to_str().unwrap(), path, "--metadata-only", "-q"]).ok();
    let text = "Once upon a time, <think>";
    let ids = |model: &str| tuff(["tokenize", "--ids", "-m", model, text]).ok().to_owned();
    assert_eq!(ids(path), ids(sample().to_str().unwrap()));
}
