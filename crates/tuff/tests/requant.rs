//! `tuff requant` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use gguf::{Gguf, TensorType};
use lab::divergence::{Divergence, Summary};
use tempfile::TempDir;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Requantises the sample model; further arguments as one line.
    fn requant(&self, output: &str, more: &str) -> Run {
        let (input, output) = (sample(), self.path(output));
        let first = ["requant", input.to_str().unwrap(), output.to_str().unwrap()];
        tuff(first.into_iter().chain(words(more)))
    }

    fn names(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// The distributions after every token of a prompt, with weights as the only thing rounded.
fn logits(model: &Path, prompt: &str) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.f32");
    let ids = id_list(&json("sample/manifest.json")["prompts"][prompt]["tokens"]);
    let (model, path) = (model.to_str().unwrap(), output.to_str().unwrap());
    let first = ["logits", "-m", model, "--tokens", &ids, "-o", path];
    tuff(first.into_iter().chain(words("--quiet --activations f32 --kv f32"))).ok();
    read_f32(&output)
}

#[test]
fn dense_weights_in_q8_0_keep_what_the_model_says() {
    let place = Place::new();
    let run = place.requant("fast.gguf", "--role dense=q8_0");
    let table = run.ok();
    let line = |name: &str| words(table.lines().find(|line| line.starts_with(name)).unwrap());
    assert_eq!(line("attn_qkv")[..5], ["attn_qkv", "6", "Q5_K", "Q8_0", "1,081,344"]);
    assert_eq!(line("ffn_up_exps")[..4], ["ffn_up_exps", "9", "IQ3_S", "IQ3_S"]);
    assert_eq!(line("all ")[1..], ["246", "23,726,976", "26,129,280", "+10.1", "%"]);
    let fast = place.path("fast.gguf");
    assert!(run.stderr.contains("fast.gguf: 26.4 MB"), "{}", run.stderr);
    assert_eq!(place.names(), ["fast.gguf"]);

    const VOCAB: usize = 8192;
    let mut all = Vec::new();
    for prompt in ["german", "chat"] {
        let (found, expected) = (logits(&fast, prompt), logits(&sample(), prompt));
        let rows = found.chunks_exact(VOCAB).zip(expected.chunks_exact(VOCAB));
        all.extend(rows.map(|(found, expected)| Divergence::of(found, expected, None)));
    }
    let summary = Summary::of(&all);
    // docs/model-tools.md names 0.0008 for these texts. The rest is for other orders of addition,
    // which turn over a choice of experts here and there.
    assert!(summary.mean < 2e-3 && summary.same_top > 0.95, "{summary:?}");
    let text = ["run", "-p", "Once upon a time", "-n", "8", "-q", "-m", fast.to_str().unwrap()];
    assert!(!tuff(text).ok().is_empty());
}

#[test]
fn a_dry_run_shows_and_writes_nothing() {
    let place = Place::new();
    let run = place.requant("x.gguf", "-r matrices=q8_0 -r inject=q4_k -r gates=q8_0 --dry-run -q");
    assert!(run.ok().contains("hc_attn_inject"), "{}", run.text());
    assert!(run.stderr.contains("injections below q8_0"), "{}", run.stderr);
    assert!(run.stderr.contains("gates drift"), "{}", run.stderr);
    assert!(run.stderr.contains("blk.0.hc_attn_inject.weight") && run.stderr.contains("more"));
    assert!(place.names().is_empty());
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let place = Place::new();
    let narrow = place.requant("x.gguf", "-r hc=q4_k");
    let message = narrow.fails(4);
    assert!(message.contains("blk.0.hc_attn_up.weight (32 x 1024) in Q4_K"), "{message}");
    assert!(message.contains("and 16 more"), "{message}");
    assert!(place.requant("x.gguf", "").fails(4).contains("no formats were named"));
    assert!(place.requant("x.gguf", "-r nextn.embed_tokens=q8_0").fails(4).contains("no tensor"));
    assert!(place.requant("", "-r dense=q8_0").fails(4).contains("is a folder"));
    assert!(place.requant("no/x.gguf", "-r dense=q8_0").fails(1).contains("cannot"));
    for (role, part) in [("densest=q8_0", "groups are"), ("dense=q9", "formats are")] {
        let run = place.requant("x.gguf", &format!("-r {role}"));
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    fs::write(place.path("im.dat"), "nothing").unwrap();
    let im = place.path("im.dat");
    let run = place.requant("x.gguf", &format!("-r dense=q4_0 --imatrix {}", im.display()));
    assert!(run.fails(3).contains("no importance matrix"), "{}", run.stderr);
    assert_eq!(place.names(), ["im.dat"]);
}

#[test]
fn files_that_are_there_are_kept_unless_told_otherwise() {
    let place = Place::new();
    fs::write(place.path("x.gguf"), "precious").unwrap();
    assert!(place.requant("x.gguf", "-r dense=q8_0").fails(4).contains("--force"));
    assert_eq!(fs::read(place.path("x.gguf")).unwrap(), b"precious");
    place.requant("x.gguf", "-r dense=q8_0 --force -q").ok();
    let input = place.path("x.gguf");
    let same = ["requant", input.to_str().unwrap(), input.to_str().unwrap(), "-r", "hc=f16"];
    let before = fs::read(&input).unwrap();
    assert!(tuff(same.into_iter().chain(["--force"])).fails(4).contains("while it is read"));
    assert!(fs::read(&input).unwrap() == before);
    fs::write(&input, &before[..before.len() - 40_000]).unwrap();
    let cut = place.path("y.gguf");
    let cut = ["requant", input.to_str().unwrap(), cut.to_str().unwrap(), "-r", "hc=f16"];
    tuff(cut).fails(3);
}

#[test]
fn a_role_can_be_left_as_it_is() {
    let place = Place::new();
    place.requant("x.gguf", "-q -r hc=q4_k -r hc_attn_up=keep -r hc_ffn_up=bf16").fails(4);
    let keep = "-r output_hc_up=keep -r nextn.hc_head_up=keep";
    place
        .requant("x.gguf", &format!("-q -r hc=q4_k -r hc_attn_up=keep -r hc_ffn_up=bf16 {keep}"))
        .ok();
    let file = Gguf::open(place.path("x.gguf")).unwrap();
    let ty = |name: &str| file.tensor(&format!("blk.2.{name}.weight")).unwrap().ty;
    assert_eq!(ty("hc_attn_down"), TensorType::Q4_K);
    assert_eq!(ty("hc_attn_up"), TensorType::Q8_0);
    assert_eq!(ty("hc_ffn_up"), TensorType::BF16);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_state_that_the_same_command_takes_up() {
    use std::process::Command;
    const ROLES: &str = "-r matrices=q4_1 -r gdn=iq4_nl --threads 1";
    let place = Place::new();
    place.requant("whole.gguf", ROLES).ok();
    let output = place.path("x.gguf");
    let args = [sample(), output.clone()];
    let mut child = command().arg("requant").args(args).args(words(ROLES)).spawn().unwrap();
    while !place.path("x.gguf.journal").exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let stopped = child.wait_with_output().unwrap();
    // It may have been done, or not have begun to listen.
    let note = String::from_utf8(stopped.stderr).unwrap();
    let finished = stopped.status.success();
    if stopped.status.code() == Some(130) {
        assert!(note.contains("the same command goes on from there"), "{note}");
        assert!(!output.exists() && place.path("x.gguf.journal").exists());
    }
    if !finished {
        place.requant("x.gguf", ROLES).ok();
    }
    assert!(fs::read(&output).unwrap() == fs::read(place.path("whole.gguf")).unwrap());
    assert_eq!(place.names().len(), 2);
}
