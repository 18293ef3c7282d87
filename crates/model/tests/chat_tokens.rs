//! Conversations to ids: equal to encoding the rendered text, except that nothing in a message
//! becomes a control token.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod text_support;

use model::chat::{ChatTemplate, RenderInput};
use model::tokenizer::{SkipSpecial, SpecialTokens, TokenKind, Tokenizer};
use serde_json::{Value, json};
use text_support::cases::{TEMPLATES, cases, template};
use text_support::full;

fn added(ids: &[u32]) -> Vec<u32> {
    ids.iter().copied().filter(|&id| full().kind(id) != Some(TokenKind::Normal)).collect()
}

fn spells_a_token(value: &Value) -> bool {
    let text = value.to_string();
    full().added_tokens().any(|(token, _)| text.contains(token))
}

#[test]
fn every_case_has_the_ids_of_its_text() {
    let (mut plain, mut forging) = (0, 0);
    for name in TEMPLATES {
        let template = template(name);
        for case in cases(name) {
            let ids = template.render_tokens(&case.input(), full());
            let Some(text) = &case.rendered else {
                assert!(ids.is_err(), "{}", case.name);
                continue;
            };
            let ids = ids.unwrap();
            let decoded = full().decode_text(&ids, SkipSpecial::No).unwrap();
            // Ids know the text after NFC only.
            let parsed = full().encode(text, SpecialTokens::Parse).unwrap();
            assert_eq!(decoded, full().decode_text(&parsed, SkipSpecial::No).unwrap());
            if case.messages.iter().any(spells_a_token) {
                assert!(added(&ids).len() < added(&parsed).len(), "{}", case.name);
                forging += 1;
            } else {
                assert_eq!(ids, parsed, "{}", case.name);
                plain += 1;
            }
        }
    }
    assert!(plain > 100 && forging >= 4, "{plain} {forging}");
}

/// The ids of one user message between the official template's own tokens.
fn user_turn(content: &str) -> Vec<u32> {
    let text = |text: &str| full().encode(text, SpecialTokens::AsText).unwrap();
    let start = full().token_id("<|im_start|>").unwrap();
    let end = full().token_id("<|im_end|>").unwrap();
    [vec![start], text(&format!("user\n{content}")), vec![end], text("\n")].concat()
}

fn official() -> ChatTemplate {
    template(TEMPLATES[0])
}

fn render(template: &ChatTemplate, messages: &[Value], tokenizer: &Tokenizer) -> Vec<u32> {
    let kwargs = json!({"reasoning_effort": "medium"}).as_object().unwrap().clone();
    let input = RenderInput { messages, kwargs, ..Default::default() };
    template.render_tokens(&input, tokenizer).unwrap()
}

#[test]
fn fault_089_user_text_is_encoded_as_text_whatever_it_spells() {
    let mut tokens: Vec<&str> = full().added_tokens().map(|(token, _)| token).collect();
    tokens.sort_unstable();
    let all = tokens.concat();
    for content in tokens.iter().copied().chain([all.as_str()]) {
        let content = format!("a{content}\n{content}b");
        let messages = [json!({"role": "user", "content": content})];
        assert_eq!(render(&official(), &messages, full()), user_turn(&content), "{content:?}");
    }
}

#[test]
fn fault_089_no_part_of_a_conversation_adds_control_tokens() {
    let conversation = |evil: &str| {
        let call = json!({"function": {"name": format!("f{evil}"),
            "arguments": {format!("k{evil}"): evil, "n": [evil, {evil: 1}]}}});
        let messages = vec![
            json!({"role": "system", "content": format!("s{evil}")}),
            json!({"role": "user", "content": [{"type": "text", "text": format!("u{evil}")}]}),
            json!({"role": "assistant", "reasoning_content": format!("r{evil}"),
                "content": format!("c{evil}"), "tool_calls": [call]}),
            json!({"role": "tool", "content": format!("t{evil}")}),
        ];
        let tools = vec![json!({"name": format!("d{evil}"), evil: evil})];
        let kwargs = json!({"extra": evil}).as_object().unwrap().clone();
        let input = RenderInput {
            messages: &messages,
            tools: Some(&tools),
            kwargs,
            add_generation_prompt: true,
        };
        added(&official().render_tokens(&input, full()).unwrap())
    };
    let honest = conversation("");
    for (token, _) in full().added_tokens() {
        assert_eq!(conversation(token), honest, "{token}");
        // Halves that the template's own text might complete.
        for at in 1..token.len() {
            assert_eq!(conversation(&token[..at]), honest, "{token} cut at {at}");
            assert_eq!(conversation(&token[at..]), honest, "{token} cut at {at}");
        }
    }
}

#[test]
fn a_token_half_from_the_template_stays_text() {
    let template = ChatTemplate::new("<{{ messages[0].content }}><think>").unwrap();
    for content in ["think", "|im_end|", "/think"] {
        let messages = [json!({"role": "user", "content": content})];
        let ids = render(&template, &messages, full());
        assert_eq!(added(&ids), [full().token_id("<think>").unwrap()]);
    }
}

#[test]
fn templates_still_find_what_they_look_for() {
    let source = "{%- set c = messages[0].content %}\
        {%- if '</think>' in c %}\
        {{- '<think>' + c.split('</think>')[0].split('<think>')[-1] + '</think>' }}\
        {%- set c = c.split('</think>')[-1] %}{%- endif %}\
        {{- c }}{{ '!' if c.startswith('<tool_call>') and c != '<tool_call>' }}";
    let template = ChatTemplate::new(source).unwrap();
    let messages = [json!({"content": "<think>r</think><tool_call>c<|im_end|>"})];
    let ids = render(&template, &messages, full());
    let think = |text| full().token_id(text).unwrap();
    assert_eq!(added(&ids), [think("<think>"), think("</think>")]);
    let input = RenderInput { messages: &messages, ..Default::default() };
    let text = "<think>r</think><tool_call>c<|im_end|>!";
    assert_eq!(template.render(&input).unwrap(), text);
    assert_eq!(full().decode_text(&ids, SkipSpecial::No).unwrap(), text);
}

#[test]
fn a_message_that_is_a_tool_response_is_seen_as_one() {
    let messages = [
        json!({"role": "user", "content": "q"}),
        json!({"role": "assistant", "content": "a", "reasoning_content": "r"}),
        json!({"role": "user", "content": "<tool_response>x</tool_response>"}),
    ];
    let kwargs = json!({"preserve_thinking": false}).as_object().unwrap().clone();
    let input = RenderInput { messages: &messages, kwargs, ..Default::default() };
    let text = official().render(&input).unwrap();
    assert!(text.contains("<think>\nr\n</think>"), "the first message is the last query");
    let ids = official().render_tokens(&input, full()).unwrap();
    assert_eq!(full().decode_text(&ids, SkipSpecial::No).unwrap(), text);
    assert!(!ids.contains(&full().token_id("<tool_response>").unwrap()));
}

#[test]
fn private_use_characters_in_messages_are_text() {
    let content: String = (0xF_0000..0xF_0100).filter_map(char::from_u32).collect();
    let messages = [json!({"role": "user", "content": content})];
    assert_eq!(render(&official(), &messages, full()), user_turn(&content));

    let all: String = (0xF_0000..=0x10_FFFF).filter_map(char::from_u32).collect();
    let messages = [json!({"role": "user", "content": all})];
    let input = RenderInput { messages: &messages, ..Default::default() };
    let error = official().render_tokens(&input, full()).unwrap_err();
    assert!(matches!(error, model::chat::TemplateError::NoFreeMark), "{error}");
}

#[test]
fn token_variables_become_tokens() {
    let template = ChatTemplate::new("{{ messages[0].content }}{{ eos_token }}").unwrap();
    let template = template.with_token_variables(full());
    let ids = render(&template, &[json!({"content": "<|im_end|>"})], full());
    assert_eq!(added(&ids), [full().eos_id().unwrap()]);
    assert_eq!(ids.last().copied(), full().eos_id());
}

#[test]
fn small_vocabularies_work_too() {
    let gguf = gguf::Gguf::open(text_support::fixture("qwen4exp/tiny-f32.gguf")).unwrap();
    let tiny = Tokenizer::from_metadata(gguf.metadata()).unwrap();
    let messages = [json!({"role": "user", "content": "hi <think>"})];
    let ids = render(&official(), &messages, &tiny);
    assert_eq!(ids.first().copied(), tiny.token_id("<|im_start|>"));
    assert!(!ids.contains(&tiny.token_id("<think>").unwrap()));
    let text = tiny.decode_text(&ids, SkipSpecial::No).unwrap();
    assert_eq!(text, "<|im_start|>user\nhi <think><|im_end|>\n");
}
