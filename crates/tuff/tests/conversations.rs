//! Conversations that have a name: they outlive the program, whatever ends it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use serde_json::Value;
use tempfile::TempDir;

const MESSAGES: [&str; 5] =
    ["Hello", "Tell me a story.", "And then?", "What is 2 + 2?", "Good night."];

/// Arguments of a talk that is the same each time.
fn args<'a>(folder: &'a Path, more: &'a str) -> Vec<&'a str> {
    let first = words("chat -c talk -t 0.8 -n 12 --think off --conversations");
    first.into_iter().chain([folder.to_str().unwrap()]).chain(words(more)).collect()
}

fn talk(folder: &Path, input: &str, more: &str) -> Run {
    tuff_with(args(folder, more), input)
}

fn file(folder: &Path) -> PathBuf {
    folder.join("talk.json")
}

/// The turns in the file, each as its text.
fn turns(folder: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(file(folder)) else { return Vec::new() };
    let (head, body) = text.split_once('\n').unwrap();
    assert!(head.starts_with("tuff conversation 1 "), "{head}");
    let record: Value = serde_json::from_str(body).unwrap();
    let turns = record["turns"].as_array().unwrap().iter();
    turns.map(|turn| turn["content"].as_str().unwrap().to_owned()).collect()
}

/// What `/stats` said of reuse.
fn reused(run: &Run) -> usize {
    let before = run.stderr.split_once(" more known already").map(|(before, _)| before);
    before.and_then(|before| before.rsplit_once('(')?.1.parse().ok()).unwrap_or(0)
}

fn states(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("states")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending != "lock")).collect()
}

#[test]
fn fault_064_a_talk_goes_on_after_a_restart_as_if_there_had_been_none() {
    for spec in ["--spec off", "--spec mtp:3", "--spec lookup", "--think on", "--kv q8_0"] {
        let (once, twice) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (once, twice) = (once.path(), twice.path());
        let whole = talk(once, "Hello\nTell me a story.\n", &format!("--seed 4 --quiet {spec}"));
        let first = talk(twice, "Hello\n", &format!("--seed 4 --quiet {spec}"));
        let second = talk(twice, "Tell me a story.\n/stats\n", spec);
        assert_eq!(format!("{}{}", first.ok(), second.ok()), whole.ok(), "{spec}");
        assert_eq!(turns(once), turns(twice));
        assert!(reused(&second) > 5, "{}", second.stderr);
        assert!(second.stderr.contains("Conversation talk goes on after 2 messages."));
        assert!(second.stderr.contains("on disk: state of "), "{}", second.stderr);
        // Without states on disk the text is the same.
        let none = TempDir::new().unwrap();
        fs::copy(file(twice), file(none.path())).unwrap();
        let again = talk(none.path(), "And then?\n/stats\n", &format!("--disk-cache 0 {spec}"));
        let third = talk(twice, "And then?\n", spec);
        assert_eq!(again.ok(), third.ok());
        assert_eq!((reused(&again), states(none.path()).len()), (0, 0));
    }
}

#[test]
fn settings_are_kept_and_the_command_line_overrides_them() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    talk(folder, "Hello\n", "--seed 4 --system Count. --quiet").ok();
    let read = || fs::read_to_string(file(folder)).unwrap();
    for part in ["\"seed\": 4", "\"system\": \"Count.\"", "\"think\": \"off\"", "sample.gguf"] {
        assert!(read().contains(part), "{part}: {}", read());
    }
    let copy = TempDir::new().unwrap();
    fs::copy(file(folder), file(copy.path())).unwrap();
    let kept = talk(folder, "And then?\n", "--quiet").ok().to_owned();
    assert_eq!(talk(copy.path(), "And then?\n", "--seed 4 --system Count. --quiet").ok(), kept);
    talk(folder, "/regen\n/system Other.\nWhy?\n", "--quiet").ok();
    for part in ["\"seed\": 5", "\"system\": \"Other.\""] {
        assert!(read().contains(part), "{part}: {}", read());
    }
    talk(folder, "Hm\n", "--seed 9 --quiet").ok();
    assert!(read().contains("\"seed\": 9"));
}

#[test]
fn fault_062_reset_forgets_on_disk() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    talk(folder, "Hello\nAnd then?\n", "--quiet").ok();
    assert!(turns(folder).len() == 4 && !states(folder).is_empty());
    talk(folder, "/reset\n", "--quiet").ok();
    assert_eq!((turns(folder).len(), states(folder).len()), (0, 0));
    let run = talk(folder, "Hello\n", "");
    assert!(run.stderr.contains("New conversation talk."), "{}", run.stderr);
}

#[test]
fn conversations_are_listed_and_deleted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    let list = |more: &str| {
        let args = words("conversations").into_iter().chain(words(more));
        tuff(args.chain(["--conversations", path]))
    };
    assert!(list("").ok().is_empty() && list("list").ok().is_empty());
    let chat = |name: &str, input: &str| {
        let args = words("chat -t 0 -n 4 --think off --quiet --conversations");
        tuff_with(args.into_iter().chain([path, "--conversation", name]), input).ok().to_owned()
    };
    chat("b", "Hello\n");
    chat("a b", "Hello\nAnd?\n");
    fs::write(folder.path().join("c.json"), "x\n").unwrap();
    let text = list("").ok().to_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("a b "), "{text}");
    assert!(lines[0].contains("4 messages") && lines[0].contains("sample.gguf"), "{text}");
    assert!(lines[1].contains("2 messages") && lines[2].contains("unusable"), "{text}");
    let before = states(folder.path()).len();
    list("delete b").ok();
    assert!(states(folder.path()).len() < before && !states(folder.path()).is_empty());
    assert!(list("delete b").fails(4).contains("no conversation"));
    list("delete c").ok();
    tuff(["conversations", "--conversations", path, "delete", "a b"]).ok();
    assert!(states(folder.path()).is_empty() && list("").ok().is_empty());
    assert_eq!(tuff(["conversations", "delete", "../x", "--conversations", path]).code, 2);
}

#[test]
fn names_that_are_no_names_are_refused() {
    for name in ["", "..", "../x", "a/b", "CON", "nul.txt", ".x", "a ", &"x".repeat(65)] {
        let run = tuff(["chat", "--conversation", name]);
        assert_eq!(run.code, 2, "{name:?} {}", run.stderr);
        assert!(run.stderr.contains("--conversation"), "{}", run.stderr);
    }
    assert_eq!(tuff(words("chat --disk-cache 1GiB")).code, 2);
    assert_eq!(tuff(words("chat -c a --disk-cache 4")).code, 2);
}

#[test]
fn a_conversation_is_open_once() {
    let folder = TempDir::new().unwrap();
    let mut child = command();
    let child = child.args(args(folder.path(), "--quiet")).stdin(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(b"Hello\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(talk(folder.path(), "Hi\n", "").fails(4).contains("another tuff"));
    let deleted = tuff(["conversations", "delete", "talk", "--conversations", path]);
    // The answer may not have been saved yet.
    deleted.fails(4);
    drop(pipe);
    child.wait().unwrap();
    assert_eq!(turns(folder.path()).len(), 2);
    talk(folder.path(), "Hi\n", "--quiet").ok();
}

#[test]
fn fault_061_a_damaged_conversation_is_kept_aside() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    talk(folder, "Hello\n", "--quiet").ok();
    let good = fs::read(file(folder)).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    for (nth, bytes) in [&good[..good.len() / 2], &bad, b"my notes"].into_iter().enumerate() {
        fs::write(file(folder), bytes).unwrap();
        let run = talk(folder, "Hello\n", "");
        run.ok();
        let lines: Vec<&str> = run.stderr.lines().filter(|line| line.contains("WARN")).collect();
        assert!(lines.len() == 1 && lines[0].contains("kept as"), "{}", run.stderr);
        assert!(lines[0].contains(file(folder).to_str().unwrap()), "{}", run.stderr);
        let aside = match nth {
            0 => "talk.json.damaged".to_owned(),
            _ => format!("talk.json.damaged-{}", nth + 1),
        };
        assert_eq!(fs::read(folder.join(aside)).unwrap(), bytes);
        assert_eq!(turns(folder).len(), 2);
    }
    let newer = String::from_utf8(good).unwrap().replacen(" 1 ", " 2 ", 1);
    fs::write(file(folder), &newer).unwrap();
    assert!(talk(folder, "Hello\n", "").fails(3).contains("newer"));
    assert_eq!(fs::read_to_string(file(folder)).unwrap(), newer);
}

#[test]
fn fault_061_damaged_states_cost_time_and_nothing_else() {
    let (good, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (good, folder) = (good.path(), folder.path());
    for path in [good, folder] {
        talk(path, "Hello\nTell me a story.\n", "--seed 4 --quiet").ok();
    }
    for path in states(folder) {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let damaged = talk(folder, "And then?\n/stats\n", "");
    assert_eq!(damaged.ok(), talk(good, "And then?\n", "").ok());
    assert_eq!(reused(&damaged), 0);
    assert!(damaged.stderr.contains("ignored: "), "{}", damaged.stderr);
    let mended = talk(folder, "Why?\n/stats\n", "");
    assert!(reused(&mended) > 5 && !mended.stderr.contains("ignored"), "{}", mended.stderr);
}

#[test]
fn another_model_has_the_text_and_not_the_states() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let copy = path.join("other.gguf");
    fs::copy(sample(), &copy).unwrap();
    talk(path, "Hello\n", "--seed 4 --quiet").ok();
    let expected = TempDir::new().unwrap();
    fs::copy(file(path), file(expected.path())).unwrap();
    let run = talk(path, "And then?\n/stats\n", &format!("-m {}", copy.display()));
    assert_eq!(run.ok(), talk(expected.path(), "And then?\n", "--quiet").ok());
    assert_eq!(reused(&run), 0);
    let lines = run.stderr.lines().filter(|line| line.contains("WARN")).count();
    assert!(lines == 1 && run.stderr.contains("was held with sample.gguf"), "{}", run.stderr);
    assert_eq!(turns(path).len(), 4);
    // Other settings of the same model.
    let run = talk(path, "Why?\n/stats\n", &format!("--kv f32 -m {}", copy.display()));
    assert!(run.stderr.contains("settings") && reused(&run) == 0, "{}", run.stderr);
    // What the first model saved is still there for it.
    let run = talk(path, "Why?\n/stats\n", "");
    assert!(reused(&run) > 5, "{}", run.stderr);
}

#[test]
fn what_cannot_be_saved_is_told_once_and_the_talk_goes_on() {
    let plain = TempDir::new().unwrap();
    let input = "Hello\nAnd then?\nWhy?\n";
    let expected = talk(plain.path(), input, "--seed 4 --quiet").ok().to_owned();
    let warnings = |run: &Run| run.stderr.lines().filter(|line| line.contains("WARN")).count();
    // No folder for states.
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("states"), b"").unwrap();
    let run = talk(folder.path(), input, "--seed 4");
    assert_eq!((run.ok(), warnings(&run)), (&expected[..], 1), "{}", run.stderr);
    assert_eq!(turns(folder.path()).len(), 6);
    // The text's file cannot be written.
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("talk.json.tmp")).unwrap();
    let run = talk(folder.path(), input, "--seed 4 --disk-cache 0");
    assert_eq!((run.ok(), warnings(&run)), (&expected[..], 1), "{}", run.stderr);
    // No folder at all.
    let path = plain.path().join("talk.json");
    let run = talk(&path, input, "--seed 4");
    assert_eq!(run.code, 1, "{}", run.stderr);
    // Too small a budget.
    let folder = TempDir::new().unwrap();
    let run = talk(folder.path(), input, "--seed 4 --disk-cache 10kB");
    assert_eq!((run.ok(), warnings(&run)), (&expected[..], 1), "{}", run.stderr);
    assert!(states(folder.path()).is_empty() && run.stderr.contains("--disk-cache"));
}

/// Runs a talk with the rest of the messages and kills it after a while; whether it came to its
/// end before that.
fn killed(folder: &Path, rest: &[&str], after: Duration) -> bool {
    let mut child = command();
    child.args(args(folder, "--quiet --seed 4")).stdin(Stdio::piped());
    let mut child = child.stdout(Stdio::null()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    rest.iter().for_each(|message| writeln!(pipe, "{message}").unwrap());
    drop(pipe);
    let end = Instant::now() + after;
    while Instant::now() < end {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

/// Kills talks, and goes on with what is left, until so many were killed.
fn survives(kills: u64) {
    let whole = TempDir::new().unwrap();
    let started = Instant::now();
    talk(whole.path(), &(MESSAGES.join("\n") + "\n"), "--seed 4 --quiet").ok();
    let all = started.elapsed();
    let expected = turns(whole.path());
    assert_eq!(expected.len(), 2 * MESSAGES.len());

    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let (mut random, mut done, mut finished) = (1u64, 0, 0);
    while done < kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(done + finished);
        let part = all.mul_f64((random >> 40) as f64 / (1u64 << 24) as f64);
        let rest = &MESSAGES[turns(folder).len() / 2..];
        if killed(folder, rest, part) {
            finished += 1;
        } else {
            done += 1;
        }
        let found = turns(folder);
        assert_eq!(found, expected[..found.len()], "after {done} kills");
        if found.len() == expected.len() {
            assert!(fs::read_dir(folder).unwrap().all(|entry| {
                !entry.unwrap().file_name().to_str().unwrap().contains("damaged")
            }));
            fs::remove_dir_all(folder).unwrap();
            fs::create_dir(folder).unwrap();
        }
    }
    println!("{kills} kills, {finished} talks came to their end before");
}

#[test]
fn a_killed_talk_goes_on_where_it_was() {
    survives(10);
}

#[test]
#[ignore = "takes minutes; the full number of the same"]
fn a_talk_killed_200_times_goes_on_where_it_was() {
    survives(200);
}
