//! `tuff bench --ab`: two settings against each other. No speed is asserted.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use common::*;

const FAST: &str = "-p 20 -n 2 --verify 2 --ab-time 0";

fn ab(a: &str, b: &str, arguments: &str) -> Run {
    tuff(["bench", "--ab", a, b].into_iter().chain(words(arguments)))
}

#[test]
fn the_json_has_the_documented_fields_and_no_others() {
    let run =
        ab("--threads 1  --chunk 16", "--isa portable --kv q8_0", &format!("{FAST} --json -"));
    run.ok();
    let json = run.json();
    assert_eq!(paths(&json), documented("docs/cli.md", "### Two settings"));
    assert_eq!(json["a"]["options"], "--threads 1 --chunk 16");
    assert_eq!((&json["a"]["threads"], &json["a"]["chunk"]), (&1.into(), &16.into()));
    assert_eq!((&json["b"]["isa"], &json["b"]["kv"]), (&"portable".into(), &"q8_0".into()));
    let tests = json["tests"].as_array().unwrap();
    let names: Vec<&str> = tests.iter().map(|test| test["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["prompt", "decode", "verify"]);
    for test in tests {
        for field in ["a_seconds", "b_seconds", "times_a"] {
            assert!(test[field].as_f64().unwrap() > 0.0, "{field}: {test}");
        }
        assert!(test["standard_error"].as_f64().unwrap() >= 0.0);
        assert!(test["pairs"].as_u64().unwrap() >= 7);
    }
}

#[test]
fn the_table_tells_the_settings_apart() {
    let run = ab("", "--backend reference", "-p 0 -n 1 --verify 0 --ab-time 0");
    let text = run.ok();
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    for part in [
        "- model: sample.gguf\n",
        "- A: as by default (cpu ",
        "- B: --backend reference (reference, ",
        "| decode 1 |",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_wrong_setting_is_a_usage_error_that_says_what_a_setting_is() {
    for wrong in ["--threds 1", "--kv q9", "--ctx 100", "nonsense"] {
        let run = ab("", wrong, FAST);
        assert_eq!(run.code, 2, "{wrong}");
        assert!(run.stderr.contains("list of engine options"), "{}", run.stderr);
    }
    let message = ab("--chunk 1", "", "-p 0 -n 0 --verify 4").fails(4).to_owned();
    assert!(message.contains("verify 4") && message.contains("--chunk"), "{message}");
    for other in ["--spec", "--sustained 1", "-r 3", "--threads 1", "--kernels all"] {
        assert_eq!(ab("", "", other).code, 2, "{other}");
    }
}
