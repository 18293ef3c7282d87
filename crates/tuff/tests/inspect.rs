//! `tuff inspect`: reports, checks and dumps.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::path::Path;

use common::*;
use gguf::{Gguf, Metadata, TensorType};

fn inspect(file: &Path, arguments: &[&str]) -> Run {
    let first = ["inspect", file.to_str().unwrap()];
    tuff(first.into_iter().chain(arguments.iter().copied()))
}

#[test]
fn the_report_adds_up() {
    let run = inspect(&sample(), &["--json", "--check"]);
    run.ok();
    let json = run.json();
    let gguf = Gguf::open(sample()).unwrap();
    let bytes: u64 = gguf.tensors().iter().map(|info| info.bytes).sum();
    assert_eq!(json["tensors"].as_array().unwrap().len(), gguf.tensors().len());
    assert_eq!(json["weight_bytes"], bytes);
    let parts = json["parts"].as_array().unwrap();
    let sum = |key: &str| parts.iter().map(|part| part[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("bytes"), bytes);
    assert_eq!(sum("tensors"), gguf.tensors().len() as u64);
    assert_eq!(sum("weights"), json["weights"].as_u64().unwrap());
    let share: f64 = parts.iter().map(|part| part["share"].as_f64().unwrap()).sum();
    // Each share is rounded to a double once.
    assert!((share - 1.0).abs() < 1e-12);
    assert_eq!(json["metadata"]["general.architecture"], "qwen4exp");
    assert_eq!(json["metadata"]["tokenizer.ggml.tokens"]["length"], 8192);
    assert_eq!(json["hyper_parameters"]["layers"].as_array().unwrap().len(), 8);
    assert_eq!(json["hyper_parameters"]["sampling"]["top_k"], 20);
    assert_eq!(json["check"]["bad"].as_array().unwrap().len(), 0);
    assert_eq!(json["check"]["tensors"], gguf.tensors().len());
    assert_eq!(json["faults"].as_array().unwrap().len(), 0);
}

#[test]
fn the_report_for_people_names_what_matters() {
    let text = inspect(&sample(), &[]).ok().to_owned();
    for part in
        ["a complete qwen4exp model", "general.name", "blk.N.ssm_out.weight", "routed experts"]
    {
        assert!(text.contains(part), "{part}");
    }
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 240, "long values are abbreviated: {longest}");
    let every = inspect(&sample(), &["--tensors"]).ok().to_owned();
    assert!(every.contains("blk.7.indexer.k_proj.weight"));
    assert_eq!(tuff(["inspect", "-m", sample().to_str().unwrap()]).ok(), text);
}

#[test]
fn a_drafting_block_is_seen() {
    let cases = [
        (sample(), "this file has a drafting block", true),
        (fixture("qwen4exp/tiny-f32-mtp.gguf"), "this file has a drafting block", true),
        (fixture("qwen4exp/tiny-f32.gguf"), "no drafting block (MTP) in this file", false),
    ];
    for (file, words, has) in cases {
        assert!(inspect(&file, &[]).ok().contains(words), "{}", file.display());
        assert_eq!(inspect(&file, &["--json"]).json()["drafting_block"], has);
    }
}

#[test]
fn a_dump_is_what_the_format_decodes_to() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("dump.f32");
    let file = fixture("qwen4exp/quantmix.gguf");
    let gguf = Gguf::open(&file).unwrap();
    let mut seen = Vec::new();
    for info in gguf.tensors() {
        if seen.contains(&info.ty) {
            continue;
        }
        seen.push(info.ty);
        inspect(&file, &["--dump", &info.name, "-o", output.to_str().unwrap()]).ok();
        let mut expected = vec![0.0; info.elements() as usize];
        quant::decode_row(info.ty, &gguf.bytes(info), &mut expected).unwrap();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read_f32(&output)), bits(&expected), "{}", info.name);
    }
    assert!(seen.len() > 10);
}

#[test]
fn a_dump_of_what_is_not_there_or_cannot_be_decoded_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("dump.f32");
    let output = output.to_str().unwrap();
    let message = inspect(&sample(), &["--dump", "nothing", "-o", output]).fails(4).to_owned();
    assert!(message.contains("--tensors"), "{message}");
    let file = folder.path().join("integers.gguf");
    write_tensor("numbers", &[4], TensorType::I32, vec![0; 16], &file);
    inspect(&file, &["--dump", "numbers", "-o", output]).fails(4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(inspect(&sample(), &["--dump", "output.weight"]).code, 2);
}

#[test]
fn fault_131_an_incomplete_model_is_shown_with_its_faults() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("incomplete.gguf");
    let without = ["blk.0.ssm_a", "output.weight"];
    copy_without(&sample(), &without, metadata(&sample()), &file);
    let run = inspect(&file, &[]);
    assert!(run.fails(3).contains("2 faults"));
    let text = run.text();
    let faults = &text[text.find("\nFaults\n").unwrap()..];
    for name in without {
        assert!(faults.contains(&format!("{name}: missing")), "{faults}");
    }
    assert!(text.contains("general.name") && text.contains("blk.N.ssm_out.weight"));
    let json = inspect(&file, &["--json"]);
    assert_eq!(json.code, 3);
    assert_eq!(json.json()["faults"].as_array().unwrap().len(), 2);
}

#[test]
fn a_model_with_bad_numbers_is_shown_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.gguf");
    let mut changed = metadata(&sample());
    changed.insert("qwen4exp.expert_used_count", 17u32);
    copy_without(&sample(), &[], changed, &file);
    let run = inspect(&file, &[]);
    assert!(run.fails(3).contains("1 fault"));
    assert!(run.text().contains("expert_used_count"));
    assert!(run.text().contains("token_embd.weight"));
}

#[test]
fn files_that_are_no_models_of_ours_are_shown() {
    let llama = inspect(&fixture("gguf-bad/ok_control_v3.gguf"), &[]);
    assert!(llama.ok().contains("\"llama\"") && llama.text().contains("a.weight"));
    let mtp = inspect(&fixture("qwen4exp/tiny-f32-mtp.gguf"), &[]);
    assert!(mtp.ok().contains("MTP block"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metadata.gguf");
    write_metadata(metadata(&sample()), &file);
    assert!(inspect(&file, &[]).ok().contains("no tensors"));
    write_metadata(Metadata::new(), &file);
    assert!(inspect(&file, &["--check"]).ok().contains("no architecture"));
}

#[test]
fn a_check_finds_the_bad_block() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nan.gguf");
    let mut bytes = vec![0; 18 * 4 * 3];
    let bad = 18 * 4 + 18 * 2;
    bytes[bad..bad + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    write_tensor("w", &[128, 3], TensorType::Q4_0, bytes, &file);
    assert!(inspect(&file, &[]).ok().contains("; 1 tensor, "));
    let run = inspect(&file, &["--check"]);
    assert!(run.fails(3).contains("1 tensor,"));
    assert!(run.text().contains("1 tensor checked"), "{}", run.text());
    assert!(run.text().contains("w: 1 of 3 rows"), "{}", run.text());
    assert!(run.text().contains("row 1, block 2"), "{}", run.text());
    let json = inspect(&file, &["--check", "--json"]).json();
    assert_eq!(json["check"]["bad"][0]["first"]["block"], 2);
}

#[test]
fn malformed_files_get_one_line_and_exit_code_3() {
    let manifest = json("gguf-bad/manifest.json");
    for case in manifest["files"].as_array().unwrap() {
        let path = fixture("gguf-bad").join(case["file"].as_str().unwrap());
        let path = path.to_str().unwrap();
        let commands: [&[&str]; 5] = [
            &["inspect", path],
            &["run", "-p", "x", "-m", path],
            &["tokenize", "x", "-m", path],
            &["logits", "--tokens", "1", "-o", "/nonexistent/x", "-m", path],
            &["chat", "-m", path],
        ];
        for (index, command) in commands.into_iter().enumerate() {
            let run = tuff(command);
            if index == 0 && case["expected"] == "accept" {
                run.ok();
            } else {
                run.fails(3);
                assert!(run.stdout.is_empty());
            }
        }
    }
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("escape.gguf");
    let mut metadata = Metadata::new();
    metadata.insert("general.name", "\u{1b}[31mred\u{7}");
    metadata.insert("evil\u{1b}[2J", "x");
    write_metadata(metadata, &file);
    let run = inspect(&file, &[]);
    assert!(!run.ok().contains('\u{1b}') && !run.text().contains('\u{7}'), "{:?}", run.text());
    let refused = tuff(["run", "-p", "x", "-m", file.to_str().unwrap()]);
    assert!(!refused.fails(3).contains('\u{1b}'));
}
