//! `tuff bench --spec`: what it reports, and what it refuses. No speed is asserted.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;

use common::*;
use serde_json::Value;

fn bench(arguments: &str) -> Run {
    tuff(["bench"].into_iter().chain(words(arguments)))
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap()).collect()
}

#[test]
fn a_comparison_has_a_table_for_each_text() {
    let run = bench("--spec off,mtp:2,lookup,adaptive --spec-tokens 24 -r 2");
    let text = run.ok();
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    for part in [
        "\nDrafts, easy: 24 tokens after \"Once upon a time\"\n- text: \" ",
        "\nDrafts, mixed: 24 tokens",
        "\nDrafts, hard: 24 tokens",
        "| off ",
        "| mtp:2 ",
        "| lookup:8 ",
        "| adaptive ",
        "| x off |",
        "Each text came out the same, token by token, in all of its 4 modes.",
        "Adaptive over all 3 texts: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("\nAdaptive: ").count(), 3, "{text}");
    assert!(!text.contains("- memory:") && !text.contains("decode 64"), "drafts alone: {text}");
    for table in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let mut widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        widths.dedup();
        assert_eq!(widths.len(), 1, "{table}");
    }
}

#[test]
fn the_figures_add_up() {
    let run = bench("--spec mtp:2,adaptive --spec-tokens 20 -r 2 --spec-prompt Once --json -");
    run.ok();
    let json = run.json();
    assert!(json["bandwidth"].is_null() && json["limit"].is_null() && json["sustained"].is_null());
    assert_eq!(json["tests"].as_array().unwrap().len(), 0);
    let drafts = &json["drafts"];
    assert_eq!((&drafts["tokens"], &drafts["same_text"]), (&20.into(), &true.into()));
    assert_eq!(names(&drafts["texts"], "name"), ["prompt 1"]);
    let text = &drafts["texts"][0];
    assert_eq!((&text["prompt"], &text["prompt_tokens"]), (&"Once".into(), &1.into()));
    assert_eq!(names(&text["modes"], "mode"), ["off", "mtp:2", "adaptive"], "off is always there");
    for mode in text["modes"].as_array().unwrap() {
        let number = |value: &Value| value.as_f64().unwrap();
        let speeds = &mode["tokens_per_second"];
        assert!(number(&speeds["best"]) >= number(&speeds["median"]));
        assert!(number(&mode["times_off"]) > 0.0);
        // The first token of a text comes from its beginning, the others from rounds; two runs.
        let tokens = number(&mode["tokens_per_round"]) * number(&mode["rounds"]["all"]);
        assert_eq!(tokens.round(), 2.0 * 19.0, "{mode}");
        let accepted = number(&mode["accepted"]);
        assert_eq!(accepted + number(&mode["rounds"]["all"]), 2.0 * 19.0, "{mode}");
        assert!(number(&mode["drafted"]) >= accepted);
        assert!(mode["acceptance_by_depth"].as_array().unwrap().len() <= 8);
    }
    let [off, mtp] = [&text["modes"][0], &text["modes"][1]];
    assert!(off["acceptance"].is_null() && off["seconds"]["verify"].is_null());
    assert_eq!(off["times_off"], 1.0);
    assert_eq!(mtp["acceptance_by_depth"].as_array().unwrap().len(), 2);
    assert!(mtp["seconds"]["catch_up"].as_f64().unwrap() > 0.0);
    assert_eq!(drafts["times_off"], text["adaptive"]["times_off"], "a mean over one text");
}

#[test]
fn texts_can_be_chosen_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("story.txt");
    fs::write(&file, "Once upon a time").unwrap();
    let file = file.to_str().unwrap();
    let drawn = "--spec mtp:3,lookup:2 --spec-tokens 40 --spec-temperature 0.8 -r 1";
    let run = bench(&format!("{drawn} --spec-prompt One --spec-prompt Two --spec-file {file}"));
    let text = run.ok();
    for part in ["prompt 1: 40 tokens after \"One\"", "prompt 2:", "story.txt:", "lookup:2"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("Adaptive"), "{text}");
    let usual = bench("--spec --spec-tokens 4 -r 1 --spec-prompt x");
    for mode in ["off", "mtp:1", "mtp:2", "mtp:3", "lookup:8", "adaptive"] {
        assert!(usual.ok().contains(&format!("| {mode} ")), "{mode}: {}", usual.text());
    }
}

#[test]
fn other_tests_run_if_they_are_asked_for() {
    let run = bench("-n 2 -r 1 --spec off,mtp:1 --spec-tokens 4 --spec-prompt x");
    let text = run.ok();
    assert!(text.contains("| decode 2 ") && text.contains("| mtp:1 "), "{text}");
    assert!(text.contains("- memory:") && !text.contains("| prompt "), "{text}");
}

#[test]
fn a_model_without_a_block_does_what_it_can() {
    let model = fixture("qwen4exp/tiny-f32.gguf");
    let model = model.to_str().unwrap();
    let short = format!("-m {model} --spec-tokens 8 -r 1 --spec-prompt Hello");
    let run = bench(&format!("--spec off,mtp:1,mtp+lookup,lookup,adaptive {short}"));
    let text = run.ok();
    assert!(text.contains("Left out: mtp:1, as the model has no drafting block"), "{text}");
    assert!(text.contains("Left out: mtp+lookup:2"), "{text}");
    assert!(text.contains("| lookup:8 ") && !text.contains("| mtp"), "{text}");
    let json = bench(&format!("--spec off,mtp:1 --json - {short}"));
    json.ok();
    assert_eq!(json.json()["drafts"]["skipped"], serde_json::json!(["mtp:1"]));

    let none = bench(&format!("--spec mtp:1,mtp:2 {short}"));
    assert!(none.fails(3).contains("no drafting block"), "{}", none.stderr);
    let block = fixture("qwen4exp/tiny-f32-mtp.gguf");
    let with = bench(&format!("--spec mtp:2,adaptive --mtp {} {short}", block.to_str().unwrap()));
    assert!(with.ok().contains("| mtp:2 "), "{}", with.text());
}

#[test]
fn wrong_comparisons_are_refused() {
    let refused = [
        ("--spec --spec-tokens 32768", "lower --spec-tokens"),
        ("--spec --spec-temperature -1", "temperature"),
        ("--mtp x", "add --spec"),
        ("--draft-vocab x", "add --spec"),
        ("--spec --sustained 1", "-n"),
    ];
    for (arguments, part) in refused {
        let run = bench(arguments);
        assert!(run.fails(4).contains(part), "{arguments}: {}", run.stderr);
    }
    tuff(["bench", "--spec", "--spec-prompt", ""]).fails(4);
    bench("--spec --spec-file /nonexistent/text").fails(1);
    for usage in [
        "--spec on",
        "--spec off,,mtp",
        "--spec mtp:9",
        "--spec-tokens 4",
        "--spec-prompt x",
        "--spec --spec-tokens 1",
        "--spec --kernels all",
    ] {
        assert_eq!(bench(usage).code, 2, "{usage}");
    }
}
