//! `tuff routes`: recording, the file, and its reports.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;

use common::*;

const TEXT: &str = "Once upon a time there was a fox who lived at the edge of the wood.";

#[test]
fn a_file_tells_what_the_run_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.routes");
    let path = path.to_str().unwrap();
    let run = tuff(["routes", "-p", TEXT, "-o", path]);
    let text = run.ok();
    for part in
        ["4 of 16 experts", "Reuse", "Forecasts", "hottest 25 %", "entropy if uniform: 4.00"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(run.stderr.contains("text.routes: "), "{}", run.stderr);
    assert_eq!(tuff(["routes", "--from", path]).ok(), text);

    let json = tuff(["routes", "--from", path, "--json"]).json();
    assert_eq!(tuff(["routes", "-p", TEXT, "--json", "-q"]).json(), json);
    assert_eq!(paths(&json), documented("docs/routes.md", "## JSON"));
    assert_eq!(json["layers"].as_array().unwrap().len(), 8);
    assert_eq!(json["windows"][0]["uniform"], 16.0 * (1.0 - 0.75 * 0.75));
    let tokens = json["tokens"].as_u64().unwrap();
    let again = tuff(["routes", "-p", TEXT, "--ctx", "8", "--json", "-n", "11", "-q"]).json();
    assert_eq!((&again["tokens"], &again["passages"]), (&11.into(), &2.into()));
    assert!(tokens > 11);
}

#[test]
fn caches_are_told_if_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.routes");
    let path = path.to_str().unwrap();
    let plain = tuff(["routes", "-p", TEXT, "-o", path, "-q"]).ok().to_owned();
    let text = tuff(["routes", "--from", path, "--caches"]).ok().to_owned();
    let caches = text.strip_prefix(&plain).unwrap();
    for part in ["12.5 % (16)", "75.0 % (96)", "windows of 64 tokens", "optimal", "empty cache"] {
        assert!(caches.contains(part), "{part}: {caches}");
    }

    let json = tuff(["routes", "--from", path, "--caches", "--json"]).json();
    assert_eq!(paths(&json["caches"]), documented("docs/routes.md", "## Caches in the JSON"));
    let single = &json["caches"]["windows"][0];
    // 8 layers, 4 experts.
    assert_eq!(single["wanted"], 32.0);
    let policies = single["policies"].as_array().unwrap();
    for policy in policies {
        let numbers = |field: &str| -> Vec<f64> {
            policy[field]
                .as_array()
                .unwrap()
                .iter()
                .map(|number| number.as_f64().unwrap())
                .collect()
        };
        for (missed, read) in numbers("missed").into_iter().zip(numbers("read")) {
            assert!(missed <= 32.0 && missed <= read, "{policy}");
        }
    }
    // Six policies, three forecasts of 1, 2 and 4 experts.
    assert_eq!(policies.len(), 6 + 3 * 3);
    assert_eq!(policies[14]["forecast"], "late");
}

#[test]
fn files_that_hold_no_routes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.routes");
    let name = path.to_str().unwrap();
    tuff(["routes", "-p", TEXT, "-o", name, "-q"]).ok();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(tuff(["routes", "--from", name]).fails(4).contains("ends at byte"));
    fs::write(&path, "some other file").unwrap();
    assert!(tuff(["routes", "--from", name]).fails(4).contains("no file of routes"));
    fs::remove_file(&path).unwrap();
    tuff(["routes", "--from", name]).fails(1);
    assert_eq!(tuff(["routes", "--from", name, "-p", TEXT]).code, 2);
    tuff(["routes", "-p", ""]).fails(4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
