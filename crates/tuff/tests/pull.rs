//! `tuff pull` against a server that plays the hub, and the model that it fetched.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;
#[allow(dead_code, reason = "most of it is for the tests of the crate `hub`")]
#[path = "../../hub/tests/server/mod.rs"]
mod server;

use common::{Run, command};
use server::{Fault, Hub};
use std::path::Path;

fn tuff(hub: &Hub, home: &Path, args: &[&str]) -> Run {
    let mut command = command();
    for variable in ["HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"] {
        command.env_remove(variable);
    }
    command.env("HF_ENDPOINT", hub.endpoint()).env("HF_HOME", home).args(args);
    Run::new(command.output().unwrap())
}

#[test]
fn a_model_is_fetched_and_then_known_by_its_name() {
    let sample = std::fs::read(common::root().join("models/sample/sample.gguf")).unwrap();
    let cut = Fault::Cut { after: sample.len() / 3, times: 1 };
    let hub = Hub::start().with("m-Q8_0.gguf", &sample).with("m-F16.gguf", b"x").failing(cut);
    let home = tempfile::tempdir().unwrap();
    let told = tuff(&hub, home.path(), &["pull", "org/m"]);
    assert!(told.fails(4).contains("there are: m-F16, m-Q8_0"), "{}", told.stderr);
    let absent = ["tokenize", "-m", "org/m:Q8_0", "Once"];
    let told = tuff(&hub, home.path(), &absent);
    assert!(told.fails(1).contains("tuff pull org/m:Q8_0"), "{}", told.stderr);

    let pulled = tuff(&hub, home.path(), &["pull", "org/m:q8_0"]);
    let path = pulled.ok().trim().to_owned();
    assert_eq!(std::fs::read(&path).unwrap(), sample);
    assert!(pulled.stderr.contains("org/m:q8_0"), "{}", pulled.stderr);
    let again = tuff(&hub, home.path(), &["pull", "-q", "org/m:Q8_0"]);
    assert_eq!((again.ok().trim(), again.stderr.as_str()), (path.as_str(), ""));
    let offline = tuff(&Hub::start(), home.path(), &["pull", "org/m:Q8_0", "--offline"]);
    assert_eq!(offline.ok().trim(), path);
    let by_path = tuff(&hub, home.path(), &["tokenize", "-m", &path, "Once upon a time"]);
    let by_name = tuff(&hub, home.path(), &["tokenize", "-m", "org/m", "Once upon a time"]);
    assert_eq!(by_name.ok(), by_path.ok());
}

#[test]
fn what_goes_wrong_is_one_line() {
    let home = tempfile::tempdir().unwrap();
    let hub = Hub::start().with("m.gguf", b"x").wanting("secret");
    assert!(tuff(&hub, home.path(), &["pull", "org/m"]).fails(1).contains("HF_TOKEN"));
    let hub = Hub::start().with("m.gguf", b"content").failing(Fault::Flip { times: 9 });
    assert!(tuff(&hub, home.path(), &["pull", "org/m"]).fails(1).contains("checksum"));
    let told = tuff(&hub, home.path(), &["pull", "org/m", "--offline"]);
    assert!(told.fails(1).contains("not fetched"), "{}", told.stderr);
    let bad = tuff(&hub, home.path(), &["pull", "../x"]);
    assert_eq!(bad.code, 2);
    assert!(bad.stderr.contains("OWNER/REPO"), "{}", bad.stderr);
}
