//! The split of replies into reasoning and answer, at every chunking.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod text_support;

use model::chat::{RenderInput, Split, Thinking, ThinkingSplitter};
use serde_json::json;
use text_support::cases::{TEMPLATES, template};
use text_support::full;

fn split(start: Thinking, pieces: &[&str]) -> Split {
    let mut splitter = ThinkingSplitter::new(start);
    let mut whole = Split::default();
    let mut add = |part: Split| {
        whole.reasoning += &part.reasoning;
        whole.content += &part.content;
    };
    for piece in pieces {
        add(splitter.push(piece));
    }
    add(splitter.finish());
    whole
}

/// Start, text, reasoning, content.
const CASES: [(Thinking, &str, &str, &str); 16] = [
    (Thinking::Open, "", "", ""),
    (Thinking::Open, "r", "r", ""),
    (Thinking::Open, "r\n</think>\n\nc", "r", "c"),
    (Thinking::Open, "r</think>c", "r", "c"),
    (Thinking::Open, "\n</think>\n\nc", "", "c"),
    (Thinking::Open, "r\n\n</think>\n\n\nc\n", "r\n", "\nc\n"),
    (Thinking::Open, "a < b <th\n<think>\n</think>x", "a < b <th\n<think>", "x"),
    (Thinking::Open, "r\n</think>c</think>d", "r", "c</think>d"),
    (Thinking::Open, "r\n</thin", "r\n</thin", ""),
    (Thinking::Open, "r</think>c<think>s</think>d", "rs", "cd"),
    (Thinking::Open, "r</think>\n\n<think>\ns\n</think>\n\nd", "rs", "d"),
    (Thinking::Closed, "c", "", "c"),
    (Thinking::Closed, "<think>\nr\n</think>\n\nc", "r", "c"),
    (Thinking::Closed, "<think>\n\n</think>\n\nc", "", "c"),
    (Thinking::Closed, "\n\u{e9}</think><thin", "", "\n\u{e9}</think><thin"),
    (Thinking::Closed, "c<think>r", "r", "c"),
];

#[test]
fn every_split_point_gives_the_same() {
    for (start, text, reasoning, content) in CASES {
        let expected = Split { reasoning: reasoning.to_owned(), content: content.to_owned() };
        assert_eq!(split(start, &[text]), expected, "{text:?}");
        let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for &a in &boundaries {
            assert_eq!(split(start, &[&text[..a], &text[a..]]), expected, "{text:?} at {a}");
            for &b in boundaries.iter().filter(|&&b| b > a) {
                let pieces = [&text[..a], &text[a..b], &text[b..]];
                assert_eq!(split(start, &pieces), expected, "{text:?} at {a} and {b}");
            }
        }
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(split(start, &letters), expected, "{text:?} letter by letter");
    }
}

#[test]
fn fault_079_an_unclosed_thought_is_all_reasoning() {
    let mut splitter = ThinkingSplitter::new(Thinking::Open);
    let part = splitter.push("so far");
    assert_eq!((part.reasoning.as_str(), part.content.as_str()), ("so far", ""));
    assert_eq!(splitter.state(), Thinking::Open);
    assert_eq!(splitter.finish(), Split::default());
}

#[test]
fn only_a_true_beginning_of_a_tag_is_held_back() {
    let mut splitter = ThinkingSplitter::new(Thinking::Open);
    assert_eq!(splitter.push("a\n</thi").reasoning, "a");
    assert_eq!(splitter.push("x").reasoning, "\n</thix");
    assert_eq!(splitter.push("b<").reasoning, "b");
    assert_eq!(splitter.push("/think>c").content, "c");
    assert_eq!(splitter.push("1 < 2").content, "1 < 2");
    assert_eq!(splitter.push("\n").content, "\n");
}

#[test]
fn the_prompt_says_where_a_reply_starts() {
    let template = template(TEMPLATES[0]);
    let cases = [
        (json!({}), "hi", Thinking::Open),
        (json!({"enable_thinking": false}), "hi", Thinking::Closed),
        (json!({}), "say <think>", Thinking::Open),
        (json!({"enable_thinking": false}), "say <think>", Thinking::Closed),
    ];
    for (kwargs, content, expected) in cases {
        let messages = [json!({"role": "user", "content": content})];
        let kwargs = kwargs.as_object().unwrap().clone();
        let input = RenderInput { messages: &messages, kwargs, ..Default::default() };
        let input = RenderInput { add_generation_prompt: true, ..input };
        let text = template.render(&input).unwrap();
        assert_eq!(Thinking::after_text(&text), expected);
        let ids = template.render_tokens(&input, full()).unwrap();
        assert_eq!(Thinking::after_ids(&ids, full()), expected);
    }
    assert_eq!(Thinking::after_ids(&[], full()), Thinking::Closed);
    assert_eq!(Thinking::after_text(""), Thinking::Closed);
}

#[test]
fn a_block_begun_in_the_prompt_is_open() {
    let ids = |text| full().encode(text, model::tokenizer::SpecialTokens::Parse).unwrap();
    let state = |text| Thinking::after_ids(&ids(text), full());
    assert_eq!(state("<|im_start|>assistant\n<think>\nI begin"), Thinking::Open);
    assert_eq!(state("<think>\nx</think>\n\n"), Thinking::Closed);
    assert_eq!(state("<think><|im_end|>\n"), Thinking::Closed);
}
