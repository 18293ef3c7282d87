//! `tuff bench`: what it reports, and what it refuses. No speed is asserted.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::process::Command;

use common::*;
use serde_json::Value;

const FAST: &str = "-p 40 -n 3 --verify 1,4 -r 2 --chunk 32";

fn bench(arguments: &str) -> Run {
    tuff(["bench"].into_iter().chain(words(arguments)))
}

/// A number that is there and positive.
fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap();
    assert!(number.is_finite() && number > 0.0, "{value}");
    number
}

fn fields(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_json_has_the_documented_fields_and_no_others() {
    let drafts = "--spec off,adaptive --spec-tokens 8";
    let run = bench(&format!("{FAST} --sustained 1 {drafts} --json -"));
    run.ok();
    assert_eq!(paths(&run.json()), documented("docs/cli.md", "## tuff bench"));
}

#[test]
fn the_figures_add_up() {
    let run = bench(&format!("{FAST} --threads 2 --depth 5 --json -"));
    run.ok();
    let json = run.json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["model"]["file"], "sample.gguf");
    assert_eq!((&json["backend"], &json["threads"]), (&"cpu".into(), &2.into()));
    assert!(json["isa"].is_string() && json["sustained"].is_null());
    let bandwidth = positive(&json["bandwidth"]["bytes_per_second"]);
    let formats = json["model"]["formats"].as_array().unwrap();
    let bytes: u64 = formats.iter().map(|format| format["bytes"].as_u64().unwrap()).sum();
    assert_eq!(json["model"]["weight_bytes"], bytes);

    let tests = json["tests"].as_array().unwrap();
    let of = |test: &Value| format!("{} {}", test["test"].as_str().unwrap(), test["size"]);
    let names: Vec<String> = tests.iter().map(of).collect();
    assert_eq!(names, ["prompt 40", "decode 3", "verify 1", "verify 4"]);
    let windows: Vec<u64> = tests.iter().map(|test| test["windows"].as_u64().unwrap()).collect();
    assert_eq!(windows, [2, 3, 8, 8]);
    let depths: Vec<u64> = tests.iter().map(|test| test["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [0, 5, 5, 5]);
    for test in tests {
        assert_eq!(test["seconds"].as_array().unwrap().len(), 2);
        let speeds = &test["tokens_per_second"];
        assert!(positive(&speeds["best"]) >= positive(&speeds["median"]));
        let window = positive(&test["window"]["seconds"]);
        let parts = test["parts"].as_array().unwrap();
        let sum = |key: &str| parts.iter().map(|part| part[key].as_f64().unwrap()).sum::<f64>();
        let outside = test["outside_seconds"].as_f64().unwrap();
        assert!(outside >= 0.0, "parts are within the window");
        // Sums of a few dozen doubles.
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        assert!(near(sum("seconds") + outside, window));
        assert!(near(sum("weight_bytes"), test["window"]["weight_bytes"].as_f64().unwrap()));
        assert!(near(sum("state_bytes"), test["window"]["state_bytes"].as_f64().unwrap()));
        let total = sum("weight_bytes") + sum("state_bytes");
        assert!(near(positive(&test["window"]["of_bandwidth"]), total / window / bandwidth));
        assert!(sum("share") <= 1.0);
        assert!(sum("weight_bytes") < bytes as f64);
    }
    // 4 tokens need no fewer weights than 1.
    let weights = |n: usize| tests[n]["window"]["weight_bytes"].as_f64().unwrap();
    assert!(weights(3) >= weights(2));
    assert_eq!(tests[2]["times_one_token"], 1.0);
    assert!(tests[0]["times_one_token"].is_null());
}

#[test]
fn the_report_for_people_says_what_limits() {
    let run = bench(&format!("{FAST} --parts all"));
    let text = run.ok();
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    for part in [
        "- model: sample.gguf, ",
        "| prompt 40 |",
        "| verify 4 ",
        "Where the time goes: a decoded token",
        "Where the time goes: a window of 1 token\n",
        "gate_up",
        "attn_qkv",
        "Decoding reads ",
        "% of the memory's speed. ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Every line of a table has the same width: it is aligned.
    let tables = text.split("\n\n").filter(|block| block.starts_with('|'));
    for table in tables {
        let mut widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        widths.dedup();
        assert_eq!(widths.len(), 1, "{table}");
    }
    let main = bench("-p 0 -n 0 --verify 1,2 -r 1");
    assert!(!main.ok().contains("a window of 1 token\n"));
    assert!(main.text().contains("a window of 2 tokens\n"));
    let none = bench("-p 3 -n 0 --verify 0 -r 1 --parts none --threads 1");
    assert!(!none.ok().contains("Where the time goes"));
    assert!(none.text().contains("A chunk of the prompt reads"));
}

#[test]
fn tests_can_be_left_out_and_last_longer() {
    let run = bench("-p 0 -n 2 --verify 0 -r 1 --sustained 1 --json -");
    run.ok();
    let json = run.json();
    assert_eq!(json["tests"].as_array().unwrap().len(), 1);
    let sustained = &json["sustained"];
    assert!(positive(&sustained["seconds"]) >= 1.0);
    positive(&sustained["first_tenth"]);
    positive(&sustained["last_tenth"]);
    assert!(sustained["tokens"].as_u64().unwrap() >= 2);
    assert_eq!(sustained["tenths"].as_array().unwrap().len(), 10);
    let empty = tuff(["bench", "-p", "", "-n", "1", "--verify", "", "-r", "1", "--json", "-"]);
    empty.ok();
    assert_eq!(empty.json()["tests"][0]["test"], "decode");
}

#[test]
fn the_reference_backend_is_measured_too() {
    let model = fixture("qwen4exp/quantmix.gguf");
    let model = model.to_str().unwrap();
    let run = bench(&format!("-m {model} --backend reference -p 3 -n 1 --verify 2 -r 1 --json -"));
    run.ok();
    let json = run.json();
    assert_eq!((&json["backend"], &json["threads"]), (&"reference".into(), &1.into()));
    assert!(json["isa"].is_null());
}

#[test]
fn the_json_file_appears_complete_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.json");
    let shown = file.to_str().unwrap();
    bench(&format!("-p 9999999 -n 1 --verify 0 --json {shown}")).fails(4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let run = bench(&format!("-p 2 -n 0 --verify 0 -r 1 --json {shown}"));
    assert!(run.ok().contains("| prompt 2 |"));
    let json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(fields(&json).contains(&"tests"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    bench("-p 2 -n 0 --verify 0 -r 1 --json /no/such/folder/x").fails(1);
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let context = metadata(&sample()).get_u64("qwen4exp.context_length").unwrap().unwrap();
    let message = bench(&format!("-p {} -n 0 --verify 0", context + 1)).fails(4).to_owned();
    assert!(message.contains(&context.to_string()), "{message}");
    assert!(
        bench(&format!("-p 0 -n 2 --verify 0 --depth {}", context - 1))
            .fails(4)
            .contains("decode 2")
    );
    assert!(bench("-n 1 --verify 300").fails(4).contains("256"));
    assert!(bench("-p 0 -n 0 --verify 8 --chunk 4").fails(4).contains("--chunk"));
    assert!(bench("-p 0 -n 0 --verify 0").fails(4).contains("left out"));
    assert!(bench("-p 1 -n 0 --verify 0 --sustained 1").fails(4).contains("-n"));
    for wrong in ["-p 1,,2", "-p x", "-n -1", "-r 0", "--isa z80", "--parts some", "--depth -1"] {
        assert_eq!(bench(wrong).code, 2, "{wrong}");
    }
}

#[test]
fn an_instruction_set_can_be_chosen() {
    let run = bench("-p 2 -n 0 --verify 0 -r 1 --isa portable --json -");
    run.ok();
    assert_eq!(run.json()["isa"], "portable");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it() {
    use std::io::Read;
    use std::time::Duration;
    // A file of results shows by its temporary name that the work has begun.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.json");
    let arguments = "-v -p 0 -n 2 --verify 0 -r 1 --sustained 3600 --json";
    let mut child = command().arg("bench").args(words(arguments)).arg(&file).spawn().unwrap();
    // Long enough to have begun; if not, the signal ends the program all the same.
    let mut log = child.stderr.take().unwrap();
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&text).contains("measuring") && log.read(&mut byte).unwrap() > 0
    {
        text.push(byte[0]);
    }
    std::thread::sleep(Duration::from_millis(100));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
