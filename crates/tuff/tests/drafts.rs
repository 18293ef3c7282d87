//! Drafts in `tuff run` and `tuff chat`: they change no byte, and what is refused.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use std::fs;

use common::*;

const MODES: [&str; 6] = ["mtp:1", "mtp:3", "lookup", "mtp+lookup:4", "mtp:8", "adaptive"];

/// A beginning whose words come again, for lookups.
const PROMPT: &str = "Once upon a time there was a fox. The fox said: once upon a time";

/// Runs with a prompt and further arguments.
fn run(arguments: &str) -> Run {
    let first = ["run", "-p", PROMPT];
    tuff(first.into_iter().chain(words(arguments)))
}

/// The tiny model, without a drafting block, and its block's own file.
fn tiny() -> (String, String) {
    let path = |name| fixture(name).to_str().unwrap().to_owned();
    (path("qwen4exp/tiny-f32.gguf"), path("qwen4exp/tiny-f32-mtp.gguf"))
}

#[test]
fn fault_122_text_does_not_depend_on_drafts() {
    for settings in [
        "-t 0",
        "-t 0.8 --seed 5",
        "-t 0.8 --seed 6 --presence-penalty 0.5 --repetition-penalty 1.1 --penalty-window 9",
    ] {
        let plain = run(&format!("-n 60 --quiet {settings} --spec off"));
        let text = plain.ok();
        assert!(text.len() > 60, "{text:?}");
        for mode in MODES {
            let drafted = run(&format!("-n 60 --quiet {settings} --spec {mode}"));
            assert_eq!(drafted.ok(), text, "{settings} {mode}");
        }
        assert_eq!(run(&format!("-n 60 --quiet {settings}")).ok(), text, "by default");
    }
}

#[test]
fn ends_are_the_same_with_drafts() {
    let whole = run("-n 40 -t 0 --quiet --spec off").ok().to_owned();
    let word = whole.split_whitespace().nth(9).unwrap();
    for ending in [format!("--stop {word}"), "-n 1".to_owned(), "-n 7 --ctx 30".to_owned()] {
        let plain = run(&format!("-n 40 -t 0 --quiet --spec off {ending}"));
        for mode in MODES {
            let drafted = run(&format!("-n 40 -t 0 --quiet --spec {mode} {ending}"));
            assert_eq!(drafted.ok(), plain.ok(), "{mode} {ending}");
        }
    }
    let full = |mode| run(&format!("-t 0 --ctx 40 --spec {mode}"));
    let plain = full("off");
    assert!(plain.stderr.contains("context is full"), "{}", plain.stderr);
    for mode in MODES {
        assert_eq!(full(mode).ok(), plain.ok(), "{mode}");
        assert!(full(mode).stderr.contains("context is full"), "{mode}");
    }
}

#[test]
fn a_block_in_a_file_of_its_own_drafts() {
    let (model, block) = tiny();
    let tiny = |more: &str| {
        let first = ["run", "-p", "Hello", "-m", &model];
        let settings = words("-n 40 -t 0.9 --seed 3 --top-k 4");
        tuff(first.into_iter().chain(settings).chain(words(more)))
    };
    let plain = tiny("--spec off");
    plain.ok();
    for extent in ["whole", "per-stream"] {
        let drafted = tiny(&format!("--spec mtp:3 --mtp {block} --mtp-hnorm {extent}"));
        assert_eq!(drafted.code, 0, "{}", drafted.stderr);
        assert_eq!(drafted.stdout, plain.stdout, "{extent}");
        assert!(drafted.stderr.contains("accepted"), "{}", drafted.stderr);
    }
    // Nothing is read that is not used.
    for mode in ["off", "lookup"] {
        let unread = tiny(&format!("--spec {mode} --mtp /nonexistent --draft-vocab /nonexistent"));
        assert_eq!((unread.code, &unread.stdout), (0, &plain.stdout), "{}", unread.stderr);
    }
}

#[test]
fn a_draft_vocabulary_changes_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("draft.ids");
    let list = list.to_str().unwrap();
    tuff(["draft-vocab", "build", "--scripts", "latin", "--size", "1000", "-o", list]).ok();
    let plain = run("-n 60 -t 0 --quiet --spec off").ok().to_owned();
    for mode in ["mtp:3", "adaptive"] {
        let drafted = run(&format!("-n 60 -t 0 --quiet --spec {mode} --draft-vocab {list}"));
        assert_eq!(drafted.ok(), plain, "{mode}");
    }
}

#[test]
fn statistics_tell_how_drafts_went_unless_quiet() {
    let loud = run("-n 60 -t 0 --spec mtp:2");
    let quiet = run("-n 60 -t 0 --spec mtp:2 --quiet");
    assert_eq!(loud.ok(), quiet.ok());
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
    for part in
        ["generated 60 tokens", "\ndrafts: ", " accepted (", "by depth", "a round", "verify"]
    {
        assert!(loud.stderr.contains(part), "{part}: {}", loud.stderr);
    }
    let off = run("-n 60 -t 0 --spec off");
    assert_eq!(off.stderr.lines().count(), 1, "{}", off.stderr);
    assert!(!off.stderr.contains("drafts"), "{}", off.stderr);
}

#[test]
fn what_cannot_draft_is_refused() {
    let (model, block) = tiny();
    for mode in ["on", "mtp:0", "mtp:9", "off:1", "MTP", "lookup:x", ""] {
        let run = tuff(["run", "-p", "x", "--spec", mode]);
        assert_eq!(run.code, 2, "{mode}: {}", run.stderr);
        assert!(run.stderr.contains("--spec"), "{mode}: {}", run.stderr);
    }
    assert!(run("--spec on").stderr.contains("off, mtp, lookup"), "the modes are named");

    let other = run(&format!("--mtp {block}"));
    assert!(other.fails(3).contains("does not fit this model"), "{}", other.stderr);
    assert!(other.stderr.contains("tiny-f32-mtp.gguf"), "{}", other.stderr);
    assert!(run(&format!("--mtp {model}")).fails(3).contains("without an MTP block"));
    run("--mtp /nonexistent").fails(1);

    for mode in ["mtp", "mtp+lookup:2"] {
        let none = tuff(["run", "-p", "x", "-m", &model, "--spec", mode]);
        let message = none.fails(3);
        assert!(message.contains("no drafting block") && message.contains("--mtp"), "{message}");
    }

    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("draft.ids");
    tuff(["draft-vocab", "build", "--scripts", "latin", "-o", list.to_str().unwrap()]).ok();
    let list = list.to_str().unwrap();
    let first = ["run", "-p", "x", "-m", &model, "--draft-vocab", list];
    let foreign = tuff(first.into_iter().chain(["--mtp", &block]));
    assert!(foreign.fails(4).contains("for another model"), "{}", foreign.stderr);
    tuff(first).fails(3);
    fs::write(list, "no list").unwrap();
    run(&format!("--draft-vocab {list}")).fails(4);
}

/// The second turn goes on from a state that drafts of the first one left.
#[test]
fn conversations_do_not_depend_on_drafts() {
    let input = "Tell me a story about a fox.\nAnd then?\n/regen\n";
    let chat = |settings: &str, mode: &str| {
        let settings = format!("chat -n 40 --think off --quiet --seed 4 {settings} --spec {mode}");
        tuff_with(words(&settings), input).ok().to_owned()
    };
    for settings in ["-t 0", "-t 0.8"] {
        let plain = chat(settings, "off");
        assert!(plain.lines().count() >= 3, "{plain:?}");
        for mode in ["mtp:3", "lookup", "mtp+lookup:3", "adaptive"] {
            assert_eq!(chat(settings, mode), plain, "{settings} {mode}");
        }
    }
}

#[test]
fn the_statistics_of_a_chat_tell_of_drafts() {
    let settings = words("chat -t 0 -n 40 --think off --spec mtp:2");
    let run = tuff_with(settings, "Tell me a story.\n/stats\n");
    run.ok();
    assert!(run.stderr.contains("drafts: ") && run.stderr.contains("context: "), "{}", run.stderr);
}
