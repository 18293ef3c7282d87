//! `tuff audit`: its files, that what was measured is kept and used, and what it refuses. No speed
//! is asserted.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::path::Path;

use common::*;
use serde_json::Value;

/// An audit that keeps its measurements in a folder of its own.
fn audit(folder: &Path, arguments: &str) -> Run {
    let output = folder.join("report");
    let all = format!("audit --quick --contexts 4000 {arguments}");
    let mut command = command();
    command.env("TUFF_CACHE", folder).args(words(&all)).arg("-o").arg(output);
    Run::new(command.output().unwrap())
}

fn report(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("report/audit.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The file that measurements are in.
fn table(folder: &Path) -> std::path::PathBuf {
    let mut files = fs::read_dir(folder.join("tiles")).unwrap();
    files.next().unwrap().unwrap().path()
}

#[test]
fn an_audit_reports_keeps_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = audit(folder, "--rows 1,4 --prompt-rows 0 --time 1");
    assert!(first.ok().contains("not measured within --time"), "{}", first.text());
    let some = report(folder);
    let found = |report: &Value| -> Vec<Value> {
        let products = report["products"].as_array().unwrap();
        products.iter().flat_map(|product| product["found"].as_array().unwrap().clone()).collect()
    };
    let kept = found(&some);
    assert!(!kept.is_empty());

    // The next one measures what is left, and nothing twice.
    let second = audit(folder, "--rows 1,4 --prompt-rows 0 --no-search");
    assert!(!second.ok().contains("not measured"), "{}", second.text());
    let all = report(folder);
    assert_eq!(found(&all).len(), 2 * all["products"].as_array().unwrap().len());
    assert!(kept.iter().all(|one| found(&all).contains(one)));
    for part in ["device", "others", "windows"] {
        assert!(!all[part].is_null(), "{part}");
    }
    let rows: Vec<i64> =
        all["windows"].as_array().unwrap().iter().map(|w| w["rows"].as_i64().unwrap()).collect();
    assert_eq!(rows, [1, 4]);
    let markdown = fs::read_to_string(folder.join("report/audit.md")).unwrap();
    for part in ["# Audit of sample.gguf", "## Products", "## Where the time goes: a window of 4"] {
        assert!(markdown.contains(part), "{part}");
    }
    let page = fs::read_to_string(folder.join("report/audit.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));

    // Figures of other shares of experts are not taken for these.
    let third = audit(folder, "--rows 4 --prompt-rows 0 --no-search --share 1 --time 1");
    third.ok();
    let other = report(folder);
    let bytes = |report: &Value| -> Vec<u64> {
        let experts = |one: &&Value| one["shape"].as_str().unwrap().starts_with("experts/");
        let four = |one: &&Value| one["rows"] == 4;
        found(report)
            .iter()
            .filter(experts)
            .filter(four)
            .map(|one| one["bytes"].as_u64().unwrap())
            .collect()
    };
    // The products that take most of a window come first: experts are among them.
    assert!(!bytes(&other).is_empty());
    assert!(bytes(&other).iter().all(|bytes_of| !bytes(&all).contains(bytes_of)));

    // The table is used, and a damaged one is not.
    let mut stored: Value =
        serde_json::from_str(&fs::read_to_string(table(folder)).unwrap()).unwrap();
    stored["found"][0]["tile"] = serde_json::json!([["tasks", 2]]);
    stored["gains"] = serde_json::json!([1, 4]);
    fs::write(table(folder), stored.to_string()).unwrap();
    let run = |level: &str| {
        let mut command = command();
        command.env("TUFF_CACHE", folder).args(["run", level, "-p", "Once", "-n", "8", "-t", "0"]);
        Run::new(command.output().unwrap())
    };
    let tuned = run("-v");
    assert!(tuned.stderr.contains(" tiles from "), "{}", tuned.stderr);
    fs::write(table(folder), "{\"version\":").unwrap();
    let damaged = run("-v");
    assert!(damaged.stderr.contains("is not used"), "{}", damaged.stderr);
    assert_eq!(tuned.ok(), damaged.ok());
}

/// On a software renderer, if there is one.
#[test]
fn a_gpu_has_a_table_of_its_own() {
    const GPU: &str = "--backend gpu --gpu llvmpipe";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = audit(folder, &format!("{GPU} --rows 1 --prompt-rows 0 --time 1"));
    if first.code != 0 && first.stderr.contains("there is no device") {
        assert!(std::env::var_os("TUFF_GPU_TESTS").is_none(), "{}", first.stderr);
        println!("skipped: {}", first.stderr);
        return;
    }
    assert!(first.ok().contains("not measured within --time"), "{}", first.text());
    let report = report(folder);
    assert_eq!(report["backend"], "gpu");
    assert!(report["device"]["key"].as_str().unwrap().starts_with("gpu llvmpipe"), "{report:#}");
    // Streams are read by kernels without tiles.
    assert!(!report["products"].to_string().contains("hc_"), "{}", report["products"]);
    let groups = report["windows"][0]["parts"].to_string();
    assert!(["dense", "experts", "gdn", "hc"].iter().all(|group| groups.contains(group)));
    let markdown = fs::read_to_string(folder.join("report/audit.md")).unwrap();
    assert!(markdown.contains("- device: gpu llvmpipe") && markdown.contains(" on gpu\n"));

    // Its table is used on this device, and on no other.
    let mut stored: Value =
        serde_json::from_str(&fs::read_to_string(table(folder)).unwrap()).unwrap();
    assert!(stored["found"][0]["tried"].as_u64().unwrap() > 0, "{stored:#}");
    stored["found"][0]["tile"] = serde_json::json!([["rows", 2]]);
    stored["gains"] = serde_json::json!([1]);
    fs::write(table(folder), stored.to_string()).unwrap();
    let run = |more: &str| {
        let mut command = command();
        command.env("TUFF_CACHE", folder).args(["run", "-v", "-p", "Once", "-n", "6", "-t", "0"]);
        Run::new(command.args(words(more)).output().unwrap())
    };
    let tuned = run(GPU);
    assert!(tuned.stderr.contains("1 tiles from "), "{}", tuned.stderr);
    let built_in = run(&format!("{GPU} --tiles built-in"));
    let cpu = run("");
    for other in [&built_in, &cpu] {
        assert!(!other.stderr.contains("tiles from "), "{}", other.stderr);
    }
    assert_eq!(tuned.ok(), built_in.ok());
    cpu.ok();
}

#[test]
fn shapes_need_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        audit(folder.path(), "--shapes flash-next --rows 1 --prompt-rows 0 --no-search --time 1");
    assert!(run.ok().contains("not measured within --time"), "{}", run.text());
    let report = report(folder.path());
    assert_eq!(report["share"], 0.4);
    assert!(report["model"].is_null() && report["windows"].as_array().unwrap().is_empty());
}

#[test]
fn wrong_audits_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = audit(folder.path(), "--backend reference");
    assert!(refused.fails(4).contains("audit the cpu or the gpu backend"), "{}", refused.stderr);
    let no_routes = audit(folder.path(), "--share-from models/sample/README.md");
    assert!(no_routes.fails(4).contains("README.md"), "{}", no_routes.stderr);
    for usage in [
        "--share 2",
        "--share 0.1 --share-from x",
        "--rows x",
        "--shapes flash-next -m x",
        "--time 0",
    ] {
        assert_eq!(audit(folder.path(), usage).code, 2, "{usage}");
    }
}
