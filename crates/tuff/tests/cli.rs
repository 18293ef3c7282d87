//! Help, version, exit codes of wrong command lines, and that the manual knows every option.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use common::*;

const COMMANDS: [&str; 17] = [
    "run",
    "chat",
    "conversations",
    "inspect",
    "plan",
    "tokenize",
    "detokenize",
    "render",
    "logits",
    "draft-vocab build",
    "convert",
    "requant",
    "bench",
    "audit",
    "parity",
    "kld",
    "routes",
];

fn help(command: &str) -> String {
    tuff(["help"].into_iter().chain(words(command))).ok().to_owned()
}

#[test]
fn help_teaches() {
    let top = tuff(["--help"]).ok().to_owned();
    let first_words = COMMANDS.map(|command| words(command)[0]);
    for word in first_words.into_iter().chain(["First steps", "Exit codes", "TUFF_MODEL"]) {
        assert!(top.contains(word), "{word}");
    }
    for command in COMMANDS.into_iter().chain(["draft-vocab"]) {
        let help = help(command);
        let (_, examples) = help.split_once("Examples:").unwrap();
        let count = examples.matches(&format!("tuff {command}")).count();
        assert!((2..=4).contains(&count), "{command}: {count} examples");
        let by_option = words(command).into_iter().chain(["--help"]);
        assert_eq!(tuff(by_option).ok(), help);
    }
    assert!(tuff(["--version"]).ok().starts_with("tuff "));
}

#[test]
fn wrong_command_lines_are_usage_errors() {
    let wrong: [&[&str]; 15] = [
        &[],
        &["jump"],
        &["run", "-p", "a", "-f", "b"],
        &["logits", "--tokens", "1"],
        &["logits", "-o", "x"],
        &["inspect", "a", "-m", "b"],
        &["inspect", "--text", "a"],
        &["inspect", "--draft-vocab", "a", "--json"],
        &["parity", "--quick", "--full"],
        &["parity", "--isa", "z80"],
        &["bench", "--ab", "--threads 1"],
        &["bench", "--ab", "--threads 1", "--threads 2", "--kv", "q8_0"],
        &["draft-vocab"],
        &["draft-vocab", "build", "--scripts", "latin"],
        &["draft-vocab", "build", "--scripts", "klingon", "-o", "x"],
    ];
    for args in wrong {
        assert_eq!(tuff(args).code, 2, "{args:?}");
    }
}

#[test]
fn the_manual_has_every_command_and_option() {
    let read = |name: &str| std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let manual = read("cli.md") + &read("model-tools.md");
    for command in COMMANDS {
        assert!(manual.contains(&format!("## tuff {command}\n")), "{command}");
        let help = help(command);
        let (options, _) = help.split_once("Examples:").unwrap();
        for word in options.split_whitespace().filter(|word| word.starts_with("--")) {
            let option = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            assert!(manual.contains(&format!("`{option}")), "{command} {option}");
        }
    }
}
