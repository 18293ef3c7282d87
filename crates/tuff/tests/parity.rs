//! `tuff parity`: that all is right here, and what it says of that.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use common::*;

fn parity(arguments: &str) -> Run {
    tuff(["parity"].into_iter().chain(words(arguments)))
}

#[test]
fn the_table_has_every_operation_and_names_the_bounds() {
    let run = parity("--quick --rows 3 --no-tiles Q8_0 IQ3_S gdn hc qsa ple mtp argmax");
    // Without what aligns the columns.
    let text = words(run.ok()).join(" ");
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    for part in [
        "| gemv | Q8_0 | product int8 |",
        "| moe_down | Q8_0 | product f32 |",
        "| qsa_sparse | q8_0 | share codes |",
        "| argmax | | exact |",
        "- product int8: as product f32, and each activation",
        "- exact: the same result",
        "cpu portable",
        "all within their bounds.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("MISS"));
}

#[test]
fn the_json_has_the_documented_fields_and_no_others() {
    let run = parity("gemv/IQ4_NL --quick --rows 1,5 --isa portable --threads 2 --json -");
    run.ok();
    let json = run.json();
    let mut fields = documented("docs/cli.md", "## tuff parity");
    // There are none here; a test of the library holds their fields.
    fields.retain(|field| !field.starts_with("misses."));
    assert_eq!(paths(&json), fields);
    assert_eq!(json["devices"], serde_json::json!(["cpu portable"]));
    // Two lengths, two numbers of rows, two precisions.
    assert_eq!(json["cases"], 8);
    assert!(json["tiles"].as_u64().unwrap() >= 8, "tiles of every case");
    assert_eq!(json["misses"], serde_json::json!([]));
    let lines = json["lines"].as_array().unwrap();
    let bounds: Vec<&str> = lines.iter().map(|line| line["bound"].as_str().unwrap()).collect();
    assert_eq!(bounds, ["product f32", "product int8"]);
    for line in lines {
        let share = line["worst"]["share"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{line}");
        assert_eq!((&line["cases"], &line["misses"]), (&4.into(), &0.into()));
    }
}

#[test]
fn every_instruction_set_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parity.json");
    let run = parity(&format!("--quick --rows 1 gdn_conv -q --json {}", file.display()));
    assert!(run.ok().contains("| gdn_conv "));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let devices = json["devices"].as_array().unwrap();
    let lines = json["lines"].as_array().unwrap();
    assert_eq!(devices.len(), lines.len(), "a line for each");
    assert!(devices.contains(&"cpu portable".into()));
}

#[test]
fn what_fits_nothing_is_refused() {
    let message = parity("gemv/Q9_9").fails(4).to_owned();
    assert!(message.contains("Q9_9") && message.contains("gemv/F32/"), "{message}");
    assert!(parity("--rows 0").fails(4).contains("--rows"));
    assert!(parity("--rows 5000").fails(4).contains("1024"));
    parity("--quick argmax --json /no/such/folder/x").fails(1);
}
