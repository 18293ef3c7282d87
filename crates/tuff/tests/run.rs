//! `tuff run`: text in, text out.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use common::*;

const PROMPT: &str = "Once upon a time";

/// Runs quietly with a prompt and further arguments.
fn run(arguments: &str) -> Run {
    let first = ["run", "--quiet", "-p", PROMPT];
    tuff(first.into_iter().chain(words(arguments)))
}

#[test]
fn greedy_text_is_the_same_however_it_is_computed() {
    let plain = run("-n 24 -t 0");
    let text = plain.ok();
    assert!(text.ends_with('\n') && text.trim().len() > 20, "{text:?}");
    assert!(plain.stderr.is_empty(), "{}", plain.stderr);
    for other in ["", "--threads 1", "--chunk 1", "--chunk 3 --ctx 64", "--seed 5", "--top-k 1"] {
        assert_eq!(run(&format!("-n 24 -t 0 {other}")).ok(), text, "{other}");
    }
    assert_eq!(run("-n 24 -t 1 --top-k 1").ok(), text);
}

/// The backends round differently, by far less than the gaps between the best two tokens here.
#[test]
fn both_backends_tell_the_same_story() {
    let text = run("-n 8 -t 0").ok().to_owned();
    assert_eq!(run("-n 8 -t 0 --backend reference").ok(), text);
}

/// A GPU with room for a part of the experts leaves the others to the processors. On a software
/// renderer, if there is one.
#[test]
fn a_gpu_with_little_memory_tells_the_same_story() {
    let gpu = "--backend gpu --gpu llvmpipe --ctx 64 --chunk 8";
    let plan = tuff(words(&format!("plan --json --slots 1 {gpu}"))).json();
    let bytes = |path: &str| plan.pointer(path).unwrap().as_u64().unwrap();
    let vram = (bytes("/vram/smallest") + bytes("/experts/bytes") / 2) >> 20;
    let text = run("-n 6 -t 0").ok().to_owned();
    let args = ["run", "-v", "-p", PROMPT, "-n", "6", "-t", "0"];
    let found = tuff(args.into_iter().chain(words(&format!("{gpu} --vram {vram}M"))));
    if found.code != 0 && found.stderr.contains("there is no device") {
        assert!(std::env::var_os("TUFF_GPU_TESTS").is_none(), "{}", found.stderr);
        println!("skipped: {}", found.stderr);
        return;
    }
    assert_eq!(found.ok(), text);
    let (_, said) = found.stderr.split_once("experts: ").unwrap();
    let numbers: Vec<u64> = said.split_whitespace().flat_map(str::parse).collect();
    let [held, count, ..] = numbers[..] else { panic!("{said}") };
    assert!(0 < held && held < count && count == bytes("/experts/count"), "{said}");
    assert!(said.contains("on the GPU") && said.contains("beside it"), "{said}");
}

#[test]
fn fault_115_seeds_decide() {
    let first = run("-n 24 --seed 1").ok().to_owned();
    assert_eq!(run("-n 24 --seed 1").ok(), first);
    assert_ne!(run("-n 24 --seed 2").ok(), first);
    assert_ne!(run("-n 24 -t 0").ok(), first);
    let [a, b] = [run("-n 24").ok().to_owned(), run("-n 24").ok().to_owned()];
    assert_ne!(a, b, "without a seed it is random");
}

#[test]
fn the_random_seed_can_be_seen_and_used_again() {
    let first = tuff(["run", "-v", "-p", PROMPT, "-n", "12"]);
    let text = first.ok();
    let (_, rest) = first.stderr.split_once("seed ").unwrap();
    let seed = rest.split_whitespace().next().unwrap();
    assert_eq!(run(&format!("-n 12 --seed {seed}")).ok(), text);
}

#[test]
fn a_stop_text_ends_the_text_and_is_not_shown() {
    let text = run("-n 24 -t 0").ok().to_owned();
    let word = text.split_whitespace().nth(5).unwrap();
    let (before, _) = text.split_once(word).unwrap();
    let args = ["run", "--quiet", "-n", "24", "-t", "0", "-p", PROMPT, "--stop"];
    let stopped = tuff(args.into_iter().chain([word]));
    assert_eq!(stopped.ok(), format!("{before}\n"));
    let never = tuff(args.into_iter().chain(["never said"]));
    assert_eq!(never.ok(), text);
}

#[test]
fn fault_119_no_tokens_and_no_prompt() {
    assert_eq!(run("-n 0").ok(), "\n");
    let message = tuff(["run", "-p", ""]);
    assert!(message.fails(4).contains("empty"));
    assert!(tuff_with(["run"], "").fails(4).contains("empty"));
    tuff(["run", "-p", "", "-n", "0"]).fails(4);
}

#[test]
fn the_text_can_come_from_anywhere() {
    let text = run("-n 8 -t 0").ok().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompt.txt");
    fs::write(&file, PROMPT).unwrap();
    let settings = words("run --quiet -n 8 -t 0");
    let with =
        |more: &[&str]| settings.iter().chain(more).map(|&s| s.to_owned()).collect::<Vec<_>>();
    assert_eq!(tuff(with(&[PROMPT])).ok(), text);
    assert_eq!(tuff(with(&["-f", file.to_str().unwrap()])).ok(), text);
    assert_eq!(tuff_with(with(&["-f", "-"]), PROMPT).ok(), text);
    assert_eq!(tuff_with(with(&["-"]), PROMPT).ok(), text);
    assert_eq!(tuff_with(with(&["-p", "-"]), PROMPT).ok(), text);
    assert_eq!(tuff_with(with(&[]), PROMPT).ok(), text);
    assert!(tuff_with(with(&[]), b"ab\xff").fails(4).contains("byte at 2"));
    tuff(with(&["-f", "/nonexistent/prompt.txt"])).fails(1);
}

#[test]
fn statistics_are_one_line_apart_from_the_text() {
    let quiet = run("-n 8 -t 0");
    // Drafts add lines of their own: tests/drafts.rs.
    let loud = tuff(["run", "-p", PROMPT, "-n", "8", "-t", "0", "--spec", "off"]);
    assert_eq!(loud.ok(), quiet.ok());
    assert_eq!(loud.stderr.lines().count(), 1, "{}", loud.stderr);
    assert!(loud.stderr.contains("8 tokens") && loud.stderr.contains("token limit"));
    assert!(!loud.stderr.contains('\u{1b}'), "no colours into a pipe");
}

#[test]
fn fault_112_temperature_zero_is_greedy_and_below_is_refused() {
    assert_eq!(run("-n 8 -t -0.0").ok(), run("-n 8 -t 0").ok());
    assert!(run("-t -0.5").fails(4).contains("temperature"));
}

#[test]
fn fault_113_any_top_k_works() {
    for top_k in ["9999999", "0", "-1"] {
        run(&format!("-n 4 --top-k {top_k}")).ok();
    }
}

#[test]
fn bad_settings_are_refused_and_bad_command_lines_are_usage_errors() {
    let refused = [
        "-t nan",
        "--top-p 0",
        "--top-p 1.5",
        "--min-p -1",
        "--repetition-penalty 0",
        "--presence-penalty inf",
        "--logit-bias 8192=1",
        "--logit-bias 1=nan",
    ];
    for arguments in refused {
        run(arguments).fails(4);
    }
    // No machine has a GPU of this name. Drivers may have lines of their own to say.
    let nobody = run("--backend gpu --gpu nobody-s");
    assert_eq!(nobody.code, 1, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("tuff: there is no device"), "{}", nobody.stderr);
    let usage = [
        "-t warm",
        "--top-k -2",
        "--ctx 0",
        "--chunk 0",
        "--threads 0",
        "--backend gpus",
        "--logit-bias 1",
        "--no-such-option",
        "-n -1",
    ];
    for arguments in usage {
        let run = run(arguments);
        assert_eq!(run.code, 2, "{arguments}: {}", run.stderr);
    }
}

#[test]
fn a_bias_forbids_and_forces_tokens() {
    let forced = run("-n 3 -t 0 --logit-bias 20=1000").ok().to_owned();
    let piece = tuff(["detokenize", "20"]).ok().to_owned();
    assert_eq!(forced, format!("{}\n", piece.repeat(3)));
    assert_ne!(run("-n 3 -t 0 --logit-bias 20=-inf").ok(), forced);
}

#[test]
fn a_prompt_beyond_the_context_is_refused_with_both_numbers() {
    let message = run("--ctx 2").fails(4).to_owned();
    assert!(message.contains("4 tokens") && message.contains("holds 2"), "{message}");
    assert!(message.contains("--ctx"), "{message}");
}

#[test]
fn a_context_beyond_the_model_s_own_is_reached_by_scaling_alone() {
    let message = run("-n 0 --ctx 40000").fails(4).to_owned();
    assert!(message.contains("40000") && message.contains("32768"), "{message}");
    assert!(message.contains("--rope-scaling yarn"), "{message}");
    run("-n 1 --ctx 40000 --rope-scaling yarn").ok();
    run("-n 1 --ctx 40000 --rope-scaling yarn --rope-scale 1.5").ok();
    run("-n 1 --ctx 40000 --rope-scaling yarn --rope-scale 1.1").fails(4);
    for arguments in ["--rope-scale 2", "--rope-scaling yarn --rope-scale 0.5", "--kv q4_0"] {
        assert_eq!(run(arguments).code, 2, "{arguments}");
    }
}

#[test]
fn a_full_context_ends_the_text() {
    let run = tuff(["run", "-p", PROMPT, "-t", "0", "--ctx", "8"]);
    run.ok();
    assert!(run.stderr.contains("context is full"), "{}", run.stderr);
}

#[test]
fn control_tokens_in_the_text_are_parsed_unless_asked_not_to() {
    let parsed = tuff(["run", "-v", "-n", "0", "-p", "<|im_start|>"]);
    assert!(parsed.stderr.contains("the prompt has 1 tokens"), "{}", parsed.stderr);
    let text = tuff(["run", "-v", "-n", "0", "--no-special", "-p", "<|im_start|>"]);
    assert!(!text.stderr.contains("the prompt has 1 tokens"), "{}", text.stderr);
}

#[test]
fn fault_146_any_path_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("mod\u{e8}les \u{6a21}\u{578b}\u{3000}x");
    fs::create_dir(&folder).unwrap();
    let model = folder.join("\u{6a21}\u{578b} \u{e8}.gguf");
    fs::copy(sample(), &model).unwrap();
    let prompt = folder.join("\u{8bdd}.txt");
    fs::write(&prompt, PROMPT).unwrap();
    let text = run("-n 4 -t 0").ok().to_owned();
    for path in [&model, &folder] {
        let mut command = command();
        command.args(words("run --quiet -n 4 -t 0 -m")).arg(path).arg("-f").arg(&prompt);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, text.as_bytes());
    }
}

#[test]
fn the_model_can_be_named_by_a_variable() {
    let mut command = command();
    command.args(["run", "-p", "x"]).env("TUFF_MODEL", fixture("gguf-bad/version_1.gguf"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("version 1"));
}

#[test]
fn without_any_model_the_message_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tuff");
    fs::copy(env!("CARGO_BIN_EXE_tuff"), &program).unwrap();
    let mut command = Command::new(&program);
    command.current_dir(folder.path()).env_remove("TUFF_MODEL").args(["run", "-p", "x"]);
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("-m FILE") && message.contains("TUFF_MODEL"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = command();
    let mut child = command.args(["run", "--quiet", "-p", PROMPT, "-n", "40"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_text_with_its_own_exit_code() {
    let mut command = command();
    command.args(["run", "-p", PROMPT, "-n", "8000", "--logit-bias", "0=-inf"]);
    command.args(["--logit-bias", "2=-inf"]);
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    let kill = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(rest.last(), Some(&b'\n'));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
}

#[test]
fn bad_models_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("incomplete.gguf");
    let without = ["output.weight", "blk.0.ssm_a", "blk.3.attn_q.weight", "blk.1.ssm_out.weight"];
    copy_without(&sample(), &without, metadata(&sample()), &path);
    let run = tuff(["run", "-p", "x", "-m", path.to_str().unwrap()]);
    let message = run.fails(3);
    assert!(message.contains("incomplete.gguf") && message.contains("4 tensors"), "{message}");
    assert!(message.contains("output.weight") && message.contains("tuff inspect"), "{message}");

    let llama = fixture("gguf-bad/ok_control_v3.gguf");
    let run = tuff(["run", "-p", "x", "-m", llama.to_str().unwrap()]);
    run.fails(3);
    tuff(["run", "-p", "x", "-m", "/nonexistent.gguf"]).fails(1);
}

#[test]
fn standard_input_may_be_closed() {
    let mut command = command();
    let output = command.args(["run", "-q", "-n", "1", "-p", "x"]).stdin(Stdio::null()).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}
