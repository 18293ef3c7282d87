//! `tuff bench --requests` and `--follow-up`: what they report, and what they refuse. No speed is
//! asserted.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use common::*;

fn bench(arguments: &str) -> Run {
    tuff(["bench"].into_iter().chain(words(arguments)))
}

#[test]
fn requests_at_once_are_a_line_each() {
    let run = bench("--requests 1,3 --spec off,mtp:2 --spec-tokens 8 -r 2");
    let text = run.ok();
    for part in ["| requests | drafts |", "|        1 | off ", "|        3 | mtp:2 ", "gets alone"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = bench("--requests 2 --spec-tokens 6 -r 1 --json -").json();
    let requests = json["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 2, "off and adaptive");
    assert_eq!(
        (&requests[0]["drafts"], &requests[1]["drafts"]),
        (&"off".into(), &"adaptive".into())
    );
    assert!(requests.iter().all(|one| one["tokens_per_second"]["median"].as_f64().unwrap() > 0.0));
    assert!(json["turns"].as_array().unwrap().is_empty());
}

#[test]
fn a_follow_up_computes_its_own_tokens() {
    let json = bench("--follow-up 150 -r 1 --json -").json();
    let turns = json["turns"].as_array().unwrap();
    let counts: Vec<(i64, i64)> = turns
        .iter()
        .map(|turn| (turn["reused"].as_i64().unwrap(), turn["computed"].as_i64().unwrap()))
        .collect();
    // An answer of 32 tokens, of which the last was not fed, and a question of 24.
    assert_eq!(counts, [(0, 150), (0, 206), (181, 25), (181, 25)]);
    let text = bench("--follow-up 150 -r 1");
    assert!(
        text.ok().contains("| question, from the cache |    181 |       25 |"),
        "{}",
        text.text()
    );
}

#[test]
fn wrong_requests_are_refused() {
    let refused = [
        ("--requests 1 --spec-tokens 32768", "lower --spec-tokens"),
        ("--requests 0", "no number of requests"),
        ("--requests 257", "at most 256"),
        ("--follow-up 32768", "take fewer"),
        ("--requests 1 --spec-temperature -1", "temperature"),
    ];
    for (arguments, part) in refused {
        let run = bench(arguments);
        assert!(run.fails(4).contains(part), "{arguments}: {}", run.stderr);
    }
    for usage in ["--requests x", "--follow-up 0", "--requests 1 --kernels all", "--spec-tokens 4"]
    {
        assert_eq!(bench(usage).code, 2, "{usage}");
    }
}
