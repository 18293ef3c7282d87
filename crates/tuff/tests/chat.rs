//! `tuff chat` over a pipe: one message per line.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod common;

use common::*;

/// Talks greedily without thinking.
fn chat(input: &str, more: &str) -> Run {
    let first = words("chat -t 0 -n 16 --think off --quiet");
    tuff_with(first.into_iter().chain(words(more)), input)
}

#[test]
fn each_line_is_a_message_and_each_answer_ends_a_line() {
    let one = chat("Hello\n", "");
    let first = one.ok().to_owned();
    assert!(first.ends_with('\n') && first.len() > 1, "{first:?}");
    assert!(one.stderr.is_empty(), "{}", one.stderr);
    let two = chat("Hello\nTell me a story.\n", "");
    assert!(two.ok().starts_with(&first), "{first:?} {:?}", two.text());
    assert!(two.text().len() > first.len());
    assert_eq!(chat("Hello", "").ok(), first, "the last line may lack its end");
    assert_eq!(chat("\n\nHello\r\n\n", "").ok(), first);
    assert_eq!(chat("", "").ok(), "");
}

#[test]
fn answers_do_not_depend_on_chunks_or_on_what_was_cached() {
    let whole = chat("Hello\nAnd then?\n", "").ok().to_owned();
    assert_eq!(chat("Hello\nAnd then?\n", "--chunk 5 --threads 1").ok(), whole);
}

#[test]
fn fault_062_a_reset_conversation_is_a_new_one() {
    let once = chat("Hello\n", "").ok().to_owned();
    assert_eq!(chat("Hello\n/reset\nHello\n", "").ok(), once.repeat(2));
}

#[test]
fn the_system_message_counts() {
    let plain = chat("Hello\n", "").ok().to_owned();
    let system = tuff_with(words("chat -t 0 -n 16 --think off --quiet --system Count."), "Hello\n");
    let inside = chat("/system Count.\nHello\n", "");
    assert_eq!(inside.ok(), system.ok());
    assert_eq!(chat("/system Count.\n/system\nHello\n", "").ok(), plain);
}

#[test]
fn thinking_is_shown_hidden_or_off() {
    let think = |mode: &str| {
        let args = format!("chat -t 0 -n 200 --quiet --think {mode}");
        tuff_with(words(&args), "What is 2 + 3?\n").ok().to_owned()
    };
    let shown = think("on");
    let (thought, said) = shown.split_once("\n</think>\n\n").unwrap();
    assert!(thought.starts_with("<think>\n") && thought.len() > 10, "{shown:?}");
    assert_eq!(think("hide"), said);
    assert!(!think("off").contains("think>"));
    let inside =
        tuff_with(words("chat -t 0 -n 200 --quiet --think off"), "/think hide\nWhat is 2 + 3?\n");
    assert_eq!(inside.ok(), said);
}

#[test]
fn a_thought_cut_short_is_closed() {
    let run = tuff_with(words("chat -t 0 -n 3 --quiet"), "What is 2 + 3?\n");
    let text = run.ok();
    assert!(text.starts_with("<think>\n") && text.contains("\n</think>\n"), "{text:?}");
    assert!(text.ends_with('\n'));
}

#[test]
fn commands_do_not_reach_the_model() {
    let run = tuff_with(words("chat --think off"), "/help\n/stats\n/nonsense\n/regen\n/exit\nHi\n");
    assert_eq!(run.ok(), "");
    for word in ["/regen", "Nothing was said yet", "/nonsense", "no message"] {
        assert!(run.stderr.contains(word), "{word}: {}", run.stderr);
    }
    let hello = chat("Hello\n", "").ok().to_owned();
    assert_ne!(chat("//exit\n", "").ok(), "");
    assert_eq!(chat("Hello\n/exit\nHello\n", "").ok(), hello);
}

#[test]
fn a_regenerated_answer_replaces_the_last() {
    let run = |input: &str| {
        tuff_with(words("chat -t 1 -n 12 --seed 4 --think off --quiet"), input).ok().to_owned()
    };
    let first = run("Tell me a story.\n");
    let both = run("Tell me a story.\n/regen\n");
    let second = both.strip_prefix(&first).unwrap();
    assert_ne!(second, first);
    let seed_after =
        tuff_with(words("chat -t 1 -n 12 --seed 5 --think off --quiet"), "Tell me a story.\n");
    assert_eq!(seed_after.ok(), second);
}

#[test]
fn a_full_context_is_an_error_that_says_what_to_do() {
    let message = chat("Hello\n", "--ctx 4").fails(4).to_owned();
    assert!(message.contains("/reset") && message.contains("--ctx"), "{message}");
}

#[test]
fn unusable_settings_and_models_are_refused_before_the_first_message() {
    // Without thinking the template does not look at the effort.
    chat("", "--reasoning-effort max").ok();
    let effort = words("chat --reasoning-effort max");
    assert!(tuff_with(effort, "").fails(4).contains("effort"));
    let tiny = fixture("qwen4exp/tiny-f32.gguf");
    let message = tuff_with(["chat", "-m", tiny.to_str().unwrap()], "Hi\n");
    assert!(message.fails(3).contains("no chat template"));
    chat("", "-t -1").fails(4);
    let bytes = tuff_with(words("chat --think off"), b"\xff\n");
    assert!(bytes.fails(4).contains("UTF-8"));
}

#[test]
fn stop_texts_end_an_answer() {
    let whole = chat("Hello\n", "").ok().to_owned();
    let word = whole.split_whitespace().nth(1).unwrap();
    let (before, _) = whole.split_once(word).unwrap();
    assert_eq!(chat("Hello\n", &format!("--stop {word}")).ok().trim_end(), before.trim_end());
}

/// What `/stats` says of reuse, answer by answer.
fn reused(input: &str, more: &str) -> Vec<usize> {
    let first = words("chat -t 1 -n 12 --seed 4 --think off");
    let run = tuff_with(first.into_iter().chain(words(more)), input);
    run.ok();
    let lines = run.stderr.lines().filter(|line| line.starts_with("prompt "));
    let count = |line: &str| {
        let (before, _) = line.split_once(" more known already")?;
        before.rsplit_once('(')?.1.parse().ok()
    };
    lines.map(|line| count(line).unwrap_or(0)).collect()
}

#[test]
fn fault_064_an_answer_made_again_does_not_compute_its_prompt_again() {
    let input = "Tell me a story.\n/stats\n/regen\n/stats\n/reset\nTell me a story.\n/stats\n";
    let counts = reused(input, "--system Be-brief.");
    assert_eq!(counts.len(), 3);
    assert!(counts[0] == 0 && counts[1] > 5 && counts[2] >= counts[1], "{counts:?}");
    let without = reused(input, "--system Be-brief. --prompt-cache 0");
    assert_eq!(without, [0, 0, 0]);
}

#[test]
fn fault_062_another_message_after_the_same_system_message() {
    let input = "Tell me a story.\n/reset\nWhat is 2 + 2?\n/stats\n";
    let counts = reused(input, "--system Answer-in-one-word.");
    assert!(counts.len() == 1 && counts[0] > 3, "{counts:?}");
}

#[test]
fn the_prompt_cache_changes_no_answer() {
    let input = "Hello\nAnd then?\n/regen\n/reset\nHello\n/regen\n/think on\nWhy?\n";
    let with = |cache: &str| {
        let args = format!("chat -t 0.8 -n 20 --seed 3 --think off --quiet --prompt-cache {cache}");
        tuff_with(words(&args), input).ok().to_owned()
    };
    let none = with("0");
    assert_eq!(with("64"), none);
    assert_eq!(with("1"), none);
}
