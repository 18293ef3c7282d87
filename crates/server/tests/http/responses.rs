//! `/v1/responses`.

use crate::common::*;
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";

fn ask(input: Value, more: Value) -> Value {
    let mut body = completion("", more);
    body.as_object_mut().unwrap().shift_remove("prompt");
    if body.get("input").is_none() {
        body["input"] = input;
    }
    body
}

/// An answer, which is the same whole and streamed.
fn both(body: &Value) -> Value {
    let whole = shared().whole(PATH, body);
    let streamed = last(&shared().named_events(PATH, body));
    let comparable = |mut answer: Value| {
        for field in ["id", "created_at", "usage"] {
            answer[field] = Value::Null;
        }
        for item in answer["output"].as_array_mut().unwrap() {
            item["id"] = Value::Null;
            item["call_id"] = Value::Null;
        }
        answer
    };
    assert_eq!(comparable(streamed), comparable(whole.clone()), "{body}");
    whole
}

/// The response at the end of a stream, whose items must be what the events before say.
fn last(events: &[Value]) -> Value {
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    assert_eq!(kind(&events[0]), "response.created");
    assert_eq!(kind(&events[1]), "response.in_progress");
    let response = &events.last().unwrap()["response"];
    let end = format!("response.{}", response["status"].as_str().unwrap());
    assert_eq!(kind(events.last().unwrap()), end);
    assert_eq!(response["id"], events[0]["response"]["id"]);
    let (mut items, mut text, mut id) = (Vec::new(), String::new(), Value::Null);
    for event in &events[2..events.len() - 1] {
        assert_eq!(event["output_index"], items.len(), "{event}");
        match kind(event).as_str() {
            "response.output_item.added" => {
                assert!(id.is_null());
                id = event["item"]["id"].clone();
                text.clear();
            }
            "response.output_item.done" => {
                assert_eq!(event["item"]["id"], id);
                id = Value::Null;
                items.push(event["item"].clone());
            }
            kind => {
                assert_eq!(event["item_id"], id);
                text.push_str(event["delta"].as_str().unwrap_or_default());
                if kind.ends_with(".done") {
                    let part = &event["part"];
                    let told = [&event["text"], &event["arguments"], &part["text"]];
                    let told = told.into_iter().find_map(Value::as_str);
                    assert_eq!(told, Some(text.as_str()), "{event}");
                }
            }
        }
    }
    assert_eq!(response["output"], Value::from(items));
    response.clone()
}

fn weather() -> Value {
    json!([{"type": "function", "name": "weather", "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": false}])
}

fn kinds(answer: &Value) -> Vec<&str> {
    let items = answer["output"].as_array().unwrap().iter();
    items.map(|item| item["type"].as_str().unwrap()).collect()
}

#[test]
fn streamed_and_whole_responses_are_the_same() {
    for more in [
        json!({"max_output_tokens": 20}),
        json!({"max_output_tokens": 20, "reasoning": {"effort": "none"}}),
        json!({"max_output_tokens": 30, "reasoning_budget": 5, "instructions": "Be brief."}),
        json!({"max_output_tokens": 60, "tools": weather(), "tool_choice": "required"}),
        json!({"max_output_tokens": 60, "tools": weather(), "reasoning": {"effort": "low"},
            "tool_choice": {"type": "function", "name": "weather"}, "reasoning_budget": 3}),
        json!({"max_output_tokens": 5, "store": true, "metadata": {"a": "b"}, "truncation":
            "disabled", "text": {"format": {"type": "text"}, "verbosity": "low"},
            "include": ["reasoning.encrypted_content"]}),
    ] {
        let answer = both(&ask("Tell me a story about a dog.".into(), more));
        assert_eq!(answer["object"], "response");
        assert_eq!(answer["store"], false);
        let usage = &answer["usage"];
        let sum =
            usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
        assert_eq!(usage["total_tokens"], sum);
    }
}

#[test]
fn the_format_that_was_asked_for_is_told() {
    for format in [
        json!({"type": "text"}),
        json!({"type": "json_object"}),
        json!({"type": "json_schema", "name": "x", "schema": {"type": "object"}}),
    ] {
        let more = json!({"max_output_tokens": 3, "text": {"format": format}});
        assert_eq!(both(&ask("Hello".into(), more))["text"]["format"], format);
    }
}

#[test]
fn answers_are_items_which_are_taken_back() {
    let more = json!({"max_output_tokens": 12, "reasoning_budget": 5, "temperature": 0});
    let answer = both(&ask("Why is the sky blue?".into(), more.clone()));
    assert_eq!(kinds(&answer), ["reasoning", "message"]);
    assert!(!answer["output"][0]["content"][0]["text"].as_str().unwrap().is_empty());
    assert_eq!(answer["status"], "incomplete");
    assert_eq!(answer["incomplete_details"], json!({"reason": "max_output_tokens"}));
    let mut input = vec![json!({"role": "user", "content": "Why is the sky blue?"})];
    input.extend(answer["output"].as_array().unwrap().clone());
    input.push(json!({"role": "user", "content": [{"type": "input_text", "text": "And?"}]}));
    both(&ask(input.into(), more));
    let call = json!({"type": "function_call", "call_id": "1", "name": "weather",
        "arguments": "{\"city\": \"Rome\"}"});
    let output = json!({"type": "function_call_output", "call_id": "1", "output": "Sunny."});
    let input = json!([{"role": "user", "content": "The weather in Rome?"}, call, output]);
    both(&ask(input, json!({"max_output_tokens": 8, "tools": weather()})));
}

#[test]
fn what_is_refused_is_named() {
    let schema = json!({"format": {"type": "json_schema", "name": "x", "schema": {"not": {}}}});
    let odd = json!({"format": {"type": "regex", "regex": "a"}});
    for (param, more) in [
        ("previous_response_id", json!({"previous_response_id": "resp_1"})),
        ("conversation", json!({"conversation": "x"})),
        ("background", json!({"background": true})),
        ("truncation", json!({"truncation": "auto"})),
        ("include", json!({"include": ["message.output_text.logprobs"]})),
        ("text.format.schema", json!({"text": schema})),
        ("text.format.type", json!({"text": odd})),
        ("reasoning.effort", json!({"reasoning": {"effort": "huge"}})),
        ("tools[0].type", json!({"tools": [{"type": "web_search"}]})),
        ("tool_choice", json!({"tool_choice": "required"})),
        ("input", json!({"input": []})),
        ("messages", json!({"messages": []})),
        ("max_tokens", json!({"max_tokens": 1})),
        ("stream_options", json!({"stream_options": {}})),
    ] {
        let error = shared().post(PATH, &ask("Hello".into(), more.clone())).error(400);
        assert_eq!(error["param"], param, "{more}");
    }
    let missing = shared().post(PATH, &json!({})).error(400);
    assert_eq!(missing["param"], "input");
    let long = ask("word ".repeat(CONTEXT + 10).into(), json!({"stream": true}));
    assert_eq!(shared().post(PATH, &long).error(400)["code"], "context_length_exceeded");
}

#[test]
fn settings_are_told_as_they_were_given() {
    let more = json!({"max_output_tokens": 3, "temperature": 0.7, "top_p": 0.9});
    let answer = both(&ask(json!("Hello"), more));
    assert_eq!((&answer["temperature"], &answer["top_p"]), (&json!(0.7), &json!(0.9)));
    // The server's own, where none are given.
    let answer = both(&ask(json!("Hello"), json!({"max_output_tokens": 3})));
    assert_eq!((&answer["temperature"], &answer["top_p"]), (&json!(1.0), &json!(0.95)));
}
