//! `tuff kld`: its figures against dumped logits, base files, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::path::Path;

use common::*;
use serde_json::Value;

/// Two passages of the sample's text, and a part of a third.
const TEXT: &str = "Once upon a time there was a fox who lived at the edge of the wood. Every \
                    morning he looked at the fine red apples in the garden of the farmer, and \
                    every morning the dog looked at him. One day the dog was not there.";
const CUT: &str = "--ctx 20 --skip 8";

/// The text and further arguments as one line.
fn kld(more: &str) -> Run {
    let first = ["kld", "-p", TEXT].into_iter();
    tuff(first.chain(words(CUT)).chain(words(more)))
}

fn json(more: &str) -> Value {
    let run = kld(&format!("--json -q {more}"));
    run.ok();
    run.json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Natural logarithms of the softmax of each row.
fn ln_p(path: &Path, vocab: usize) -> Vec<Vec<f64>> {
    let of_row = |row: &[f32]| -> Vec<f64> {
        let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        row.iter().map(|&x| f64::from(x) - total.ln()).collect()
    };
    read_f32(path).chunks_exact(vocab).map(of_row).collect()
}

#[test]
fn figures_are_those_of_tuff_logits() {
    let folder = tempfile::tempdir().unwrap();
    let ids = tuff(["tokenize", "--json", TEXT]).json();
    let ids: Vec<usize> =
        ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as usize).collect();
    let (mut kl, mut surprise) = (Vec::new(), [0.0; 2]);
    let mut same = 0;
    for passage in ids.chunks_exact(20) {
        let list = passage.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let [p, q] = ["f32", "q8_0"].map(|kv| {
            let output = folder.path().join("out.f32");
            let to = output.to_str().unwrap();
            tuff(["logits", "--tokens", &list, "--kv", kv, "-q", "-o", to]).ok();
            ln_p(&output, 8192)
        });
        for position in 8..19 {
            let (p, q) = (&p[position], &q[position]);
            kl.push(p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>());
            let next = passage[position + 1];
            surprise[0] -= p[next];
            surprise[1] -= q[next];
            let top = |row: &[f64]| (0..row.len()).max_by(|&i, &j| row[i].total_cmp(&row[j]));
            same += usize::from(top(p) == top(q));
        }
    }
    let n = kl.len() as f64;
    let mean = kl.iter().sum::<f64>() / n;
    kl.sort_by(f64::total_cmp);

    let found = json("--kv f32 --b-kv q8_0");
    assert_eq!(found["text"]["positions"], kl.len());
    assert_eq!(found["text"]["tokens"], ids.len());
    let near = |found: &Value, expected: f64| {
        // Sums over a vocabulary in f64, in different orders.
        assert!((number(found) - expected).abs() < 1e-11, "{found} {expected}");
    };
    near(&found["kl"]["mean"], mean);
    near(&found["kl"]["max"], kl[kl.len() - 1]);
    near(&found["kl"]["median"], kl[(kl.len() - 1) / 2]);
    near(&found["same_top"]["value"], same as f64 / n);
    near(&found["perplexity_ratio"]["value"], ((surprise[1] - surprise[0]) / n).exp());
    assert!(
        (number(&found["perplexity_a"]["value"]) / (surprise[0] / n).exp() - 1.0).abs() < 1e-11
    );
    let about = found["b"].as_str().unwrap();
    assert!(about.starts_with("sample.gguf, cpu") && about.ends_with("kv q8_0"), "{about}");
    assert!(found["base"].is_null());
}

#[test]
fn a_model_is_exactly_like_itself() {
    let sample = sample();
    let found = json(&format!("--against {} --b-threads 1", sample.display()));
    assert_eq!((&found["kl"]["mean"], &found["kl"]["max"]), (&0.0.into(), &0.0.into()));
    assert_eq!(found["same_top"]["value"], 1.0);
    assert_eq!(found["perplexity_ratio"]["value"], 1.0);
    let text = kld("--b-threads 1").ok().to_owned();
    for line in ["| mean KL ", "| KL 99.9 %", "| same top token ", "| perplexity of B over A "] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_base_file_takes_the_place_of_a() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("a.kld");
    let base = base.to_str().unwrap();
    let exact = json("--kv f32 --b-kv q8_0");
    let made = kld(&format!("--kv f32 --save-base {base} --tail 1e-6"));
    assert_eq!(made.ok(), "");
    assert!(made.stderr.contains("passages"), "{}", made.stderr);

    // The text is in the file; the settings are those of B.
    let run = tuff(["kld", "--base", base, "--kv", "q8_0", "--json", "-q"]);
    run.ok();
    let found = run.json();
    assert_eq!(paths(&found), documented("docs/quality.md", "## JSON"));
    for part in ["text", "same_top", "perplexity_ratio"] {
        let tokens = |json: &Value| json[part]["positions"].clone();
        assert_eq!(tokens(&found), tokens(&exact));
    }
    let (kl, of) = (&found["kl"], |name: &str| number(&exact["kl"][name]));
    assert!(number(&kl["low"]) <= of("mean") && of("mean") <= number(&kl["high"]));
    // A millionth of the mass is left to chance.
    assert!((number(&kl["mean"]) / of("mean") - 1.0).abs() < 1e-3);
    assert_eq!(found["perplexity_b"], exact["perplexity_b"]);
    assert_eq!((&found["a"], &found["base"]["tail"]), (&exact["a"], &1e-6.into()));
    let text = tuff(["kld", "--base", base, "--kv", "q8_0"]);
    assert!(text.ok().contains("surely it is between"), "{}", text.text());

    // The same command again has nothing to do; with a B it compares.
    let again = json(&format!("--kv f32 --save-base {base} --tail 1e-6 --b-kv q8_0"));
    assert_eq!(again["kl"], found["kl"]);
    let given = kld(&format!("--kv f32 --save-base {base} --tail 1e-3"));
    assert!(given.fails(4).contains("another share"), "{}", given.stderr);
    let other = tuff(["kld", "--base", base, "-p", "Another text altogether", "--kv", "q8_0"]);
    assert!(other.fails(4).contains("another text"), "{}", other.stderr);
}

#[test]
fn base_files_that_cannot_be_used_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.kld");
    let base = path.to_str().unwrap();
    kld(&format!("--save-base {base} -q")).ok();
    let bytes = fs::read(&path).unwrap();
    let compare = || tuff(["kld", "--base", base, "--b-kv", "q8_0"]);

    fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    assert!(compare().fails(4).contains("1 of 2 passages"));
    // What is missing is made again.
    kld(&format!("--save-base {base} -q")).ok();
    assert!(fs::read(&path).unwrap() == bytes);

    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 0x10;
    fs::write(&path, &damaged).unwrap();
    compare().fails(4);
    fs::write(&path, "GGUF and so on, for some bytes").unwrap();
    assert!(compare().fails(4).contains("no file of base logits"));
    fs::remove_file(&path).unwrap();
    compare().fails(1);
    kld("--save-base no/such/folder.kld").fails(1);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    assert_eq!(kld("").code, 2);
    assert_eq!(kld("--tail 1e-3 --b-kv f32").code, 2);
    assert_eq!(kld("--b-kv f32 --save-base a --base b").code, 2);
    let short = tuff(["kld", "-p", "Too short", "--b-kv", "f32"]);
    assert!(short.fails(4).contains("--ctx"), "{}", short.stderr);
    let nothing = tuff(["kld", "-p", TEXT, "--ctx", "20", "--skip", "19", "--b-kv", "f32"]);
    assert!(nothing.fails(4).contains("nothing is left"), "{}", nothing.stderr);

    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.gguf");
    let mut metadata = metadata(&sample());
    let mut tokens = metadata.get_str_array("tokenizer.ggml.tokens").unwrap().unwrap().to_vec();
    tokens.swap(5000, 5001);
    metadata.insert("tokenizer.ggml.tokens", tokens);
    copy_without(&sample(), &[], metadata, &other);
    let other = kld(&format!("--against {}", other.display()));
    assert!(other.fails(4).contains("vocabular"), "{}", other.stderr);
}
