//! Whole answers, cut at every place: thinking, calls and text together.

use super::*;
use crate::output::Whole;
use engine::speculation::SpecStats;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const CALL: &str =
    "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>";

fn tokenizer() -> Tokenizer {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/sample/sample.gguf");
    Tokenizer::from_metadata(gguf::Gguf::open(path).unwrap().metadata()).unwrap()
}

fn settings(thinking: Option<Thinking>, calls: bool) -> ReaderSettings {
    let schema = json!({"properties": {"a": {"type": "string"}}});
    ReaderSettings {
        tokenizer: tokenizer(),
        prompt_tokens: 3,
        thinking,
        functions: calls.then(|| Arc::new(Functions::new([("f", &schema)]))),
        calling: Calling::Free,
        one_call: false,
        call_prefix: "call_".to_owned(),
        tell_tokens: true,
        echo: String::new(),
    }
}

fn summary(finish: Finish) -> JobSummary {
    JobSummary {
        finish,
        tokens: vec![1, 2],
        reused: 1,
        prefilled: 2,
        speculation: SpecStats::default(),
        queued: Duration::ZERO,
        prompt_time: Duration::ZERO,
        generate_time: Duration::ZERO,
    }
}

fn read(settings: &ReaderSettings, pieces: &[&str], finish: Finish) -> Whole {
    let (mut reader, mut out) = (Reader::new(settings.clone()), Vec::new());
    reader.begin(&mut out);
    for piece in pieces {
        if !reader.is_complete() {
            reader.text(piece, &mut out);
        }
    }
    reader.finish(&summary(finish), &mut out);
    let mut whole = Whole::default();
    out.into_iter().for_each(|output| whole.take(output).unwrap());
    whole
}

/// What `text` comes to, however it is cut in two, and character by character.
fn all_cuts(settings: &ReaderSettings, text: &str) -> Whole {
    let end = || Finish::EndOfText(0);
    let whole = read(settings, &[text], end());
    for (at, _) in text.char_indices() {
        let cut = read(settings, &[&text[..at], &text[at..]], end());
        assert_eq!(cut, whole, "cut at {at} of {text:?}");
    }
    let chars: Vec<String> = text.chars().map(String::from).collect();
    let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
    assert_eq!(read(settings, &chars, end()), whole, "{text:?}");
    whole
}

/// Thinking, text, and the arguments of calls.
fn parts(whole: &Whole) -> (&str, &str, Vec<&str>) {
    let calls = whole.calls.iter().map(|call| call.arguments.as_str()).collect();
    (&whole.reasoning, &whole.text, calls)
}

#[test]
fn thinking_text_and_calls_come_apart_at_every_cut() {
    let open = settings(Some(Thinking::Open), true);
    let whole =
        all_cuts(&open, &format!("Let me think.\n</think>\n\nI will look.\n\n{CALL}\n{CALL}"));
    let arguments = r#"{"a":"x"}"#;
    assert_eq!(parts(&whole), ("Let me think.", "I will look.", vec![arguments, arguments]));
    assert_eq!(whole.finish, Some(FinishReason::ToolCalls));
    assert_eq!(whole.calls[1].id, "call_1");
    assert_eq!(whole.usage, Usage { prompt: 3, cached: 1, completion: 2, reasoning: 0 });

    // Calls in thinking are thoughts, and tags in arguments are text.
    let whole = all_cuts(&open, &format!("{CALL}\n</think>\n\nNo."));
    assert_eq!(parts(&whole), (CALL, "No.", vec![]));
    let closed = settings(Some(Thinking::Closed), true);
    assert_eq!(parts(&all_cuts(&closed, CALL)), ("", "", vec![arguments]));
    // Where nothing may be called, calls are text.
    let no_calls = settings(Some(Thinking::Closed), false);
    assert_eq!(parts(&all_cuts(&no_calls, CALL)), ("", CALL, vec![]));
    // Where text stands for itself, nothing is split.
    let plain = settings(None, false);
    let text = format!("a</think><think>b{CALL}");
    assert_eq!(parts(&all_cuts(&plain, &text)), ("", text.as_str(), vec![]));
}

#[test]
fn fault_079_thinking_that_is_cut_off_is_no_answer() {
    let open = settings(Some(Thinking::Open), true);
    let whole = read(&open, &["Hm, let me see </thi"], Finish::Length);
    assert_eq!(parts(&whole), ("Hm, let me see </thi", "", vec![]));
    assert_eq!(whole.finish, Some(FinishReason::Length));
}

#[test]
fn fault_080_two_thoughts_stay_thoughts() {
    let open = settings(Some(Thinking::Open), false);
    let whole = all_cuts(&open, "one\n</think>\n\nA<think>\ntwo\n</think>\n\nB</think>C");
    assert_eq!(parts(&whole), ("onetwo", "AB</think>C", vec![]));
}

#[test]
fn a_call_ends_the_answer_where_one_is_all_that_is_wanted() {
    let one = ReaderSettings { one_call: true, ..settings(Some(Thinking::Closed), true) };
    let whole = all_cuts(&one, &format!("{CALL}\n{CALL}\nmore"));
    assert_eq!(parts(&whole), ("", "", vec![r#"{"a":"x"}"#]));
    let whole = read(&one, &[CALL], Finish::Cancelled);
    assert_eq!(whole.finish, Some(FinishReason::ToolCalls));
}

#[test]
fn calls_that_break_off_do_not_count() {
    let closed = settings(Some(Thinking::Closed), true);
    let cut = &CALL[..CALL.len() - 40];
    let whole = read(&closed, &[cut], Finish::Length);
    assert_eq!((whole.finish, whole.calls.len()), (Some(FinishReason::Length), 1));
    let whole = read(&closed, &[CALL, "\n", cut], Finish::Length);
    assert_eq!((whole.finish, whole.calls.len()), (Some(FinishReason::Length), 2));
}

#[test]
fn tokens_go_with_the_text_that_they_are() {
    let mut reader = Reader::new(settings(Some(Thinking::Open), true));
    let tokenizer = tokenizer();
    let pieces =
        ["Hm", "\n", "</think>", "\n\n", "Yes", "<", "b", "\n\n", "<tool_call>", "\n<function=f>"];
    let (mut told, mut out, mut thought) = (Vec::new(), Vec::new(), 0);
    for (number, piece) in pieces.into_iter().enumerate() {
        let ids = tokenizer.encode(piece, model::tokenizer::SpecialTokens::Parse).unwrap();
        thought += if number < 3 { ids.len() } else { 0 };
        for id in &ids {
            reader.token(*id, Some(&TokenLogProbs { drawn: f32::NEG_INFINITY, top: vec![] }));
        }
        reader.text(piece, &mut out);
    }
    for output in out {
        if let Output::Text { text, tokens } = output {
            let bytes: Vec<u8> = tokens.iter().flat_map(|it| it.token.bytes.clone()).collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), text);
            // Fault 118: a number, whatever the model says.
            assert!(tokens.iter().all(|it| it.token.log_prob == IMPOSSIBLE));
            told.push(text);
        }
    }
    assert_eq!(told.concat(), "Yes<b");
    assert_eq!(reader.reasoning_tokens, thought);
}
