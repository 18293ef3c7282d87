//! A program that is killed while it saves states leaves only whole ones, within the budget.
#![allow(clippy::unwrap_used, reason = "a test may stop at any surprise")]

mod common;

use common::*;
use engine::cache::{Owner, StateFolder};
use engine::{EngineConfig, Want};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Names the folder of a child.
const CHILD: &str = "TUFF_TEST_SAVES_INTO";

/// Which text a child begins with.
const FIRST: &str = "TUFF_TEST_BEGINS_WITH";

/// Room for about four of the states.
const BUDGET: u64 = 11_000_000;

const TEXTS: u32 = 4;

const LENGTHS: [usize; 6] = [3, 64, 70, 140, 200, 270];

fn settings() -> EngineConfig {
    config(1, 64)
}

fn text(salt: u32) -> Vec<u32> {
    (0..300).map(|i| (i * i * 7 + i * 13 + salt * 29) % 250 + 1).collect()
}

/// Saves texts turn by turn until it is killed.
#[test]
#[ignore = "the child of the others"]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let mut engine = cpu_engine("quantmix", settings());
    let mut store = StateFolder::open(Path::new(&path), "k", BUDGET).unwrap();
    println!("\nready");
    let first = std::env::var(FIRST).unwrap().parse().unwrap();
    for salt in (0..TEXTS).cycle().skip(first) {
        let (text, owner) = (text(salt), Owner::named(&salt.to_string()));
        engine.reset(0).unwrap();
        if salt == 3 {
            store.forget(owner).unwrap();
        }
        for len in LENGTHS {
            let held = engine.history(0).unwrap().len();
            engine.prefill(0, &text[held..len], Want::Nothing).unwrap();
            engine.save_for(0, (&mut store, owner), &text, None).unwrap();
        }
    }
}

/// Starts a child, and kills it after a while.
fn kill(path: &Path, first: u64, after: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, path)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 && line != "ready\n" {
        line.clear();
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn total(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap();
    files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn killed(name: &str, times: u64) {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    let mut engine = cpu_engine("quantmix", settings());
    let mut cold = HashMap::new();
    for salt in 0..TEXTS {
        engine.reset(0).unwrap();
        for len in LENGTHS {
            let held = engine.history(0).unwrap().len();
            engine.prefill(0, &text(salt)[held..len], Want::Nothing).unwrap();
            cold.insert((salt, len), engine.state_hash(0).unwrap());
        }
    }
    let (mut found, mut unfinished) = ([0; TEXTS as usize], 0);
    let mut random = 1u64;
    for time in 0..times {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(time);
        kill(&path, time % u64::from(TEXTS), Duration::from_micros((random >> 33) % 250_000));
        assert!(total(&path) <= BUDGET, "{} bytes after kill {time}", total(&path));
        let names = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        unfinished += names.filter(|name| name.to_str().unwrap().ends_with(".tmp")).count();
        let mut store = StateFolder::open(&path, "k", BUDGET).unwrap();
        for salt in 0..TEXTS {
            engine.reset(0).unwrap();
            let recalled = engine.recall_saved(0, &mut store, &text(salt)).unwrap();
            assert!(recalled.ignored.is_empty(), "kill {time}: {recalled:?}");
            if recalled.tokens > 0 {
                let hash = engine.state_hash(0).unwrap();
                assert_eq!(hash, cold[&(salt, recalled.tokens)], "kill {time}");
                found[salt as usize] += 1;
            }
        }
    }
    println!(
        "{times} kills: {found:?} states of each text found whole, {unfinished} unfinished files"
    );
    assert!(found.iter().all(|&count| count > 0), "{found:?}");
}

#[test]
fn states_survive_kills() {
    killed("kills", 40);
}

#[test]
#[ignore = "takes a minute; the full number of the same"]
fn states_survive_200_kills() {
    killed("kills-200", 200);
}
