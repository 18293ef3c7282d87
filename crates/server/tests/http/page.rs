//! The web page: what is served, with which headers, and nothing from elsewhere. How it behaves in
//! a browser is tested by `web/tests/page.py`.

use crate::common::*;
use server::Machine;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Files of the page as they are in the repository.
fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of_page = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    of_page.map(read).collect()
}

fn path_of(name: &str) -> String {
    if name == "index.html" { "/".to_owned() } else { format!("/web/{name}") }
}

#[test]
fn every_file_is_served_with_its_type_and_a_strict_policy() {
    let files = files();
    assert!(files.len() > 10);
    for (name, text) in files {
        let reply = shared().get(&path_of(&name));
        assert_eq!((reply.status, &reply.text), (200, &text), "{name}");
        let kind = match name.rsplit_once('.').unwrap().1 {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{other}"),
        };
        assert_eq!(reply.header("content-type"), Some(kind), "{name}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"));
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"));
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"));
        for (header, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(header), Some(value), "{name}");
        }
    }
}

#[test]
fn nothing_comes_from_elsewhere_or_is_made_of_markup() {
    for (name, text) in files() {
        // The name of the SVG namespace is no place.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for bad in [
            "http://",
            "https://",
            "\"//",
            "'//",
            "url(",
            "@import",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "DOMParser",
            "eval(",
            "Function(",
            "<style",
            " style=",
            " onclick=",
            " onload=",
            "\"javascript:",
            "=javascript:",
            "srcdoc",
        ] {
            assert!(!text.contains(bad), "{name} has {bad}");
        }
        let scripts = text.matches("<script").count();
        assert_eq!(scripts, usize::from(name == "index.html"), "{name}");
    }
}

#[test]
fn whatever_a_file_names_is_there() {
    let files = files();
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    for (name, text) in &files {
        for (mark, end) in [("from \"./", '"'), ("=\"/web/", '"')] {
            for found in text.split(mark).skip(1) {
                let target = found.split(end).next().unwrap();
                assert!(names.contains(target), "{name} names {target}");
            }
        }
    }
}

#[test]
fn paths_do_not_leave_the_page() {
    for path in [
        "/web",
        "/web/",
        "/web/../Cargo.toml",
        "/web/..%2fCargo.toml",
        "/web/%2e%2e/src/lib.rs",
        "/web/..%5c..%5cCargo.toml",
        "/web/tests/page.py",
        "/web/tests%2fpage.py",
        "/web/app.js/",
        "/web//app.js",
        "/web/%2fetc%2fpasswd",
        "/web/app.js%00",
        "/web/APP.JS",
        "/web/index.html",
    ] {
        shared().get(path).error(404);
    }
    shared().request("POST", "/", &[], "{}").error(405);
    shared().request("DELETE", "/web/app.js", &[], "").error(405);
}

#[test]
fn the_page_needs_no_key_but_what_it_asks_does() {
    let mut setup = Setup::default();
    setup.config.access.keys = vec!["secret".to_owned()];
    let server = start(setup);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.get("/web/app.js").status, 200);
    server.get("/web/other.js").error(401);
    server.get("/v1/status").error(401);
    // Nor does the page belong to other sites.
    let other = [("origin", "http://evil.example")];
    server.request("GET", "/web/app.js", &other, "").error(403);
}

#[test]
fn the_status_tells_what_the_monitor_shows() {
    let mut setup = Setup::default();
    let bytes = fs::metadata(&setup.file).unwrap().len();
    setup.config.machine = Machine { file_bytes: Some(bytes), read_bandwidth: Some(1e9) };
    let server = start(setup);
    server.whole("/v1/completions", &completion("Once", serde_json::json!({"max_tokens": 4})));
    server.post("/v1/completions", &serde_json::json!({"prompt": 1})).error(400);
    let status = server.status();
    let http = &status["http"];
    assert_eq!((&http["answered"], &http["refused"]), (&1.into(), &1.into()), "{http}");
    assert_eq!((&http["busy"], &http["failed"]), (&0.into(), &0.into()), "{http}");
    assert!(http["first_event_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(status["backend"], "cpu");
    if cfg!(target_os = "linux") {
        let memory = &status["memory"];
        let bytes = |name: &str| memory[name].as_u64().unwrap();
        assert!(bytes("resident_bytes") > bytes("file_bytes") && bytes("file_bytes") > 0);
    }
    let tiers = status["memory"]["tiers"].as_array().unwrap();
    let file = tiers.last().unwrap();
    assert_eq!((&file["name"], &file["used_bytes"]), (&"file".into(), &bytes.into()));
    for tier in tiers {
        let held: u64 =
            tier["holds"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(tier["used_bytes"], held, "{tier}");
    }
    let bandwidth = &status["bandwidth"];
    assert_eq!((&bandwidth["experts"], &bandwidth["share"]), (&"counted".into(), &0.0.into()));
    assert_eq!(bandwidth["weights_bytes_per_second"], 0, "nothing runs");
    if cfg!(target_os = "linux") {
        let ram = &tiers[0];
        assert_eq!(ram["name"], "ram");
        let bytes = |name: &str| ram[name].as_u64().unwrap();
        assert!(bytes("used_bytes") <= bytes("limit_bytes"), "{ram}");
        assert!(bytes("available_bytes") <= bytes("limit_bytes"), "{ram}");
        assert!(ram["holds"]["weights"].as_u64().unwrap() > 0, "{ram}");
    }
}

#[test]
fn experts_that_are_read_change_no_answer_and_are_told() {
    let more = serde_json::json!({"max_tokens": 40, "seed": 5, "logprobs": 2});
    let body = completion("Once upon a time", more);
    let want = comparable(shared().whole("/v1/completions", &body));
    assert_eq!(shared().status()["experts"], serde_json::Value::Null);
    // A third of them.
    let server = start(Setup { experts: Some(6 << 20), ..Setup::default() });
    assert_eq!(comparable(server.whole("/v1/completions", &body)), want);
    let experts = server.status()["experts"].clone();
    let of = |name: &str| experts[name].as_u64().unwrap();
    assert!(0 < of("held") && of("held") <= of("slots") && of("slots") < of("all"), "{experts}");
    let totals = &experts["totals"];
    let total = |name: &str| totals[name].as_u64().unwrap();
    assert!(total("held") < total("wanted") && total("read_bytes") > 0, "{totals}");
    let metrics = server.get("/metrics").text;
    assert!(metric(&metrics, "tuff_experts_wanted_total") >= total("wanted") as f64);
    assert_eq!(metric(&metrics, "tuff_expert_slots"), of("slots") as f64);
}

/// The value of a metric, labels included in its name.
fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

#[test]
fn what_windows_read_is_counted_and_has_a_speed_while_they_run() {
    let mut setup = Setup { slots: 1, ..Setup::default() };
    setup.config.machine = Machine { file_bytes: Some(12_345), read_bandwidth: Some(1e9) };
    let server = start(setup);
    let read = |text: &str| metric(text, "tuff_weight_bytes_read_total");
    let before = server.get("/metrics").text;
    assert_eq!(read(&before), 0.0);
    assert_eq!(metric(&before, "tuff_tier_bytes{tier=\"file\",holds=\"weights\"}"), 12_345.0);
    assert_eq!(metric(&before, "tuff_memory_bytes_per_second"), 1e9);
    let more = serde_json::json!({"repetition_stop": 0, "stream": true, "min_tokens": 400});
    let connection = server.open("/v1/completions", &completion("Once", more));
    let busy = server.wait("there is a speed", |now| {
        now["bandwidth"]["weights_bytes_per_second"].as_u64().unwrap() > 0
    });
    let (speed, share) =
        (&busy["bandwidth"]["weights_bytes_per_second"], &busy["bandwidth"]["share"]);
    let expected = speed.as_f64().unwrap() / 1e9;
    assert!((share.as_f64().unwrap() - expected).abs() <= 0.0005 + 1e-9, "rounded: {busy}");
    drop(connection);
    let idle = |now: &serde_json::Value| now["queue"]["live"] == 0;
    let after = server.wait("it is gone", idle);
    assert_eq!(after["bandwidth"]["weights_bytes_per_second"], 0);
    let text = server.get("/metrics").text;
    // A token reads most of what is in the file, and experts are what it leaves out.
    assert!(read(&text) > 1e6 && metric(&text, "tuff_pass_seconds_total") > 0.0, "{text}");
    if cfg!(target_os = "linux") {
        assert!(metric(&text, "tuff_tier_bytes{tier=\"ram\",holds=\"weights\"}") > 0.0);
        assert!(metric(&text, "tuff_tier_limit_bytes{tier=\"ram\"}") > 0.0);
        assert!(metric(&text, "tuff_storage_bytes_read_total") >= 0.0);
        // A speed lies between two looks.
        let read = |now: &serde_json::Value| now["bandwidth"]["storage_bytes_per_second"].is_u64();
        server.wait("storage has a speed", read);
    }
}
