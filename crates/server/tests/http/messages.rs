//! `/v1/messages`, as Anthropic's API has it, and the count of its tokens.

use crate::common::*;
use serde_json::{Value, json};

const PATH: &str = "/v1/messages";

fn ask(text: &str, more: Value) -> Value {
    let mut body = chat(text, more);
    if body.get("max_tokens").is_none() {
        body["max_tokens"] = 20.into();
    }
    body
}

/// An answer, which is the same whole and streamed.
fn both(body: &Value) -> Value {
    let whole = shared().whole(PATH, body);
    let streamed = joined(&shared().named_events(PATH, body));
    let comparable = |mut answer: Value| {
        answer["id"] = Value::Null;
        answer["usage"] = Value::Null;
        for block in answer["content"].as_array_mut().unwrap() {
            if block["type"] == "tool_use" {
                block["id"] = Value::Null;
            }
        }
        answer
    };
    assert_eq!(comparable(streamed), comparable(whole.clone()), "{body}");
    whole
}

/// Puts events together as clients do; every one must come where it may.
fn joined(events: &[Value]) -> Value {
    let [first, middle @ .., delta, last] = events else { panic!("{events:?}") };
    assert_eq!(
        (&first["type"], &delta["type"], &last["type"]),
        (&json!("message_start"), &json!("message_delta"), &json!("message_stop"))
    );
    let mut message = first["message"].clone();
    assert_eq!(message["content"], json!([]));
    let (mut open, mut arguments) = (false, String::new());
    for event in middle {
        let blocks = message["content"].as_array_mut().unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(!open && event["index"] == blocks.len());
                open = true;
                arguments.clear();
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(open && event["index"] == blocks.len() - 1);
                let (block, delta) = (blocks.last_mut().unwrap(), &event["delta"]);
                let field = match delta["type"].as_str().unwrap() {
                    "text_delta" => "text",
                    "thinking_delta" => "thinking",
                    "signature_delta" => "signature",
                    "input_json_delta" => {
                        arguments.push_str(delta["partial_json"].as_str().unwrap());
                        continue;
                    }
                    other => panic!("{other}"),
                };
                let so_far = block[field].as_str().unwrap().to_owned();
                block[field] = (so_far + delta[field].as_str().unwrap()).into();
            }
            "content_block_stop" => {
                assert!(open && event["index"] == blocks.len() - 1);
                open = false;
                let block = blocks.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&arguments).unwrap_or(json!({}));
                }
            }
            other => panic!("{other}"),
        }
    }
    assert!(!open);
    for field in ["stop_reason", "stop_sequence"] {
        message[field] = delta["delta"][field].clone();
    }
    message["usage"] = delta["usage"].clone();
    message
}

fn weather() -> Value {
    json!([{"name": "weather", "description": "The weather.", "input_schema":
        {"type": "object", "properties": {"city": {"type": "string"}}}}])
}

fn kinds(answer: &Value) -> Vec<&str> {
    let blocks = answer["content"].as_array().unwrap().iter();
    blocks.map(|block| block["type"].as_str().unwrap()).collect()
}

#[test]
fn streamed_and_whole_messages_are_the_same() {
    for more in [
        json!({}),
        json!({"system": "Be brief.", "temperature": 0}),
        json!({"system": [{"type": "text", "text": "Be brief."}], "top_k": 5, "top_p": 0.9}),
        json!({"thinking": {"type": "enabled", "budget_tokens": 6}, "max_tokens": 40}),
        json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        json!({"stop_sequences": ["e", "a"], "max_tokens": 60}),
    ] {
        let answer = both(&ask("Tell me a story about a dog.", more));
        assert_eq!((&answer["type"], &answer["role"]), (&json!("message"), &json!("assistant")));
        assert_eq!(answer["model"], "sample");
        assert!(answer["id"].as_str().unwrap().starts_with("msg_"));
    }
}

#[test]
fn thinking_has_blocks_of_its_own_and_a_signature() {
    let thinking = json!({"type": "enabled", "budget_tokens": 6});
    let body = ask("Why is the sky blue?", json!({"thinking": thinking, "max_tokens": 40}));
    let answer = both(&body);
    assert_eq!(kinds(&answer), ["thinking", "text"]);
    assert!(!answer["content"][0]["signature"].as_str().unwrap().is_empty());
    for (block, field) in [(0, "thinking"), (1, "text")] {
        let text = answer["content"][block][field].as_str().unwrap();
        assert!(!text.is_empty() && !text.contains("think>"), "{answer}");
    }
    // The same without what was thought.
    let mut hidden = body.clone();
    hidden["thinking"]["display"] = "omitted".into();
    let hidden = both(&hidden);
    assert_eq!(hidden["content"][0]["thinking"], "");
    assert_eq!(hidden["content"][1], answer["content"][1]);
    // Thinking is off unless it is asked for.
    assert_eq!(kinds(&both(&ask("Why is the sky blue?", json!({})))), ["text"]);
    // An answer is taken back as part of the conversation.
    let user = |text: &str| json!({"role": "user", "content": text});
    let back = json!({"role": "assistant", "content": answer["content"]});
    let mut again = body;
    again["messages"] = json!([user("Why is the sky blue?"), back, user("And at night?")]);
    both(&again);
}

#[test]
fn why_a_message_ended_is_told() {
    let long = both(&ask("Tell me a story.", json!({"max_tokens": 9, "temperature": 0})));
    assert_eq!(
        (&long["stop_reason"], &long["usage"]["output_tokens"]),
        (&json!("max_tokens"), &json!(9))
    );
    let text = long["content"][0]["text"].as_str().unwrap();
    let stop: String = text.chars().skip(3).take(4).collect();
    let more = json!({"max_tokens": 40, "temperature": 0, "stop_sequences": [stop]});
    let stopped = both(&ask("Tell me a story.", more));
    assert_eq!(stopped["stop_reason"], "stop_sequence");
    assert_eq!(stopped["stop_sequence"], stop.as_str());
}

#[test]
fn tools_are_called_and_their_results_taken() {
    // The sample model knows nothing of tools: what it writes is pushed into the format.
    let ask_for = |choice| {
        let more = json!({"tools": weather(), "tool_choice": choice, "max_tokens": 60});
        both(&ask("What is the weather in Rome?", more))
    };
    ask_for(json!({"type": "any"}));
    let answer = ask_for(json!({"type": "tool", "name": "weather"}));
    let block = &answer["content"][0];
    assert_eq!((&block["type"], &block["name"]), (&json!("tool_use"), &json!("weather")));
    assert!(block["input"].is_object() && !block["id"].as_str().unwrap().is_empty());
    let call = json!({"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Rome"}});
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "Sunny."});
    let history = json!([
        {"role": "user", "content": "What is the weather in Rome?"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]);
    both(&ask("", json!({"messages": history, "tools": weather()})));
}

#[test]
fn fault_100_tokens_are_counted_as_the_real_call_has_them() {
    let call = json!({"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Rome"}});
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "Sunny."});
    let history = json!([
        {"role": "user", "content": "Weather, a question for the count."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hm"}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "<|im_end|> So?"}]},
    ]);
    for more in [
        json!({}),
        json!({"system": "Count these."}),
        json!({"tools": weather()}),
        json!({"tools": weather(), "tool_choice": {"type": "none"}}),
        json!({"tools": weather(), "tool_choice": {"type": "any"}}),
        json!({"messages": history, "tools": weather(), "thinking": {"type": "adaptive"}}),
        json!({"thinking": {"type": "enabled", "budget_tokens": 0}}),
    ] {
        let body = ask("A question that is counted.", more);
        let before = shared().status()["totals"]["requests_ended"].clone();
        let counted = shared().whole("/v1/messages/count_tokens", &body);
        let usage = &shared().whole(PATH, &body)["usage"];
        let sum = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
            .map(|field| usage[field].as_u64().unwrap())
            .iter()
            .sum::<u64>();
        assert_eq!(counted, json!({"input_tokens": sum}), "{body} {before}");
    }
    // What an endless answer would need is not asked for.
    let counted = ask("Hello", json!({"max_tokens": 1_000_000}));
    shared().whole("/v1/messages/count_tokens", &counted);
}

#[test]
fn counting_runs_nothing() {
    let server = start(Setup { slots: 1, ..Setup::default() });
    server.whole("/v1/messages/count_tokens", &ask("Hello", json!({})));
    let totals = server.status()["totals"].clone();
    assert_eq!((&totals["steps"], &totals["requests_ended"]), (&json!(0), &json!(0)));
}

/// A message that is to have this format.
fn formatted(format: &Value) -> Value {
    json!({"output_config": {"format": format}})
}

#[test]
fn a_message_can_be_held_to_a_schema() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["a", "b"],
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99},
            "b": {"enum": ["red", "green"]}}});
    let thinking = json!({"type": "enabled", "budget_tokens": 6});
    for (more, wanted) in [
        (json!({}), vec!["text"]),
        (json!({"thinking": thinking.clone()}), vec!["thinking", "text"]),
    ] {
        let mut body =
            ask("Give me a value.", formatted(&json!({"type": "json_schema", "schema": schema})));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body["max_tokens"] = 150.into();
        let answer = both(&body);
        assert_eq!((kinds(&answer), &answer["stop_reason"]), (wanted, &json!("end_turn")));
        let text = answer["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["a", "b"]);
        assert!(value["a"].as_u64().unwrap() < 100 && value["b"].is_string(), "{text}");
    }
    // What cannot be enforced is named, as everywhere.
    let never = formatted(&json!({"type": "json_schema", "schema": {"not": {"type": "null"}}}));
    let error = error(&shared().post(PATH, &ask("Hello", never)), 400);
    assert_eq!(error["param"], "output_config.format.schema");
}

/// The error of a reply, in Anthropic's shape.
fn error(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    let body = reply.json();
    assert_eq!(body["type"], "error");
    assert!(body["error"]["message"].is_string() && body["error"]["type"].is_string());
    body["error"].clone()
}

#[test]
fn what_is_refused_is_named() {
    let cases = [
        ("messages", json!({"messages": []})),
        ("messages", json!({"messages": [{"role": "assistant", "content": "x"}]})),
        ("thinking.type", json!({"thinking": {"type": "sometimes"}})),
        ("thinking.budget_tokens", json!({"thinking": {"type": "enabled"}})),
        ("tool_choice", json!({"tool_choice": {"type": "any"}})),
        ("stop_sequences", json!({"stop_sequences": [1]})),
        ("output_config.format.schema", formatted(&json!({"type": "json_schema"}))),
        ("output_config.format.schema", formatted(&json!({"type": "json_schema", "schema": 3}))),
        ("output_config.format.type", formatted(&json!({"type": "regex", "regex": "a"}))),
        ("output_config.format.type", formatted(&json!({}))),
        (
            "output_config.format.other",
            formatted(&json!({"type": "json_schema", "schema": {}, "other": 1})),
        ),
        ("output_config.format", formatted(&json!("json"))),
        ("temperature", json!({"temperature": -1})),
        ("container", json!({"container": "x"})),
        ("context_management", json!({"context_management": {"edits": [{"type": "clear"}]}})),
        ("made_up", json!({"made_up": 1})),
    ];
    for (param, more) in cases {
        for path in [PATH, "/v1/messages/count_tokens"] {
            let error = error(&shared().post(path, &ask("Hello", more.clone())), 400);
            assert_eq!(error["param"], param, "{more}");
            assert_eq!(error["type"], "invalid_request_error");
        }
    }
    let other = error(&shared().post(PATH, &ask("x", json!({"model": "claude"}))), 404);
    assert_eq!(other["type"], "not_found_error");
    let keep = json!({"context_management": {"edits": [{"type": "clear", "keep": "all"}]}});
    shared().whole(PATH, &ask("Hello", keep));
}

#[test]
fn every_failure_has_anthropics_shape() {
    let shared = shared();
    error(&shared.request("POST", PATH, &[], "{"), 400);
    error(&shared.get(PATH), 405);
    error(&shared.post("/v1/messages/batches", &json!({})), 404);
    error(&shared.request("GET", "/nowhere", &[("anthropic-version", "2023-06-01")], ""), 404);
    for stream in [false, true] {
        let long = ask(&"word ".repeat(CONTEXT + 10), json!({"stream": stream}));
        let error = error(&shared.post(PATH, &long), 400);
        assert!(error["message"].as_str().unwrap().starts_with("prompt is too long: "));
        assert_eq!(error["n_ctx"], CONTEXT);
    }
    let mut setup = Setup { slots: 1, queue: 0, ..Setup::default() };
    setup.config.access.keys = vec!["secret".to_owned()];
    setup.config.limits.body_bytes = 1000;
    let server = start(setup);
    let body = ask("Hello", json!({})).to_string();
    assert_eq!(
        error(&server.request("POST", PATH, &[], &body), 401)["type"],
        "authentication_error"
    );
    let key = ("x-api-key", "secret");
    let origin = ("origin", "http://evil.example");
    error(&server.request("POST", PATH, &[key, origin], &body), 403);
    let long = ask(&"x".repeat(2000), json!({})).to_string();
    assert_eq!(
        error(&server.request("POST", PATH, &[key], &long), 413)["type"],
        "request_too_large"
    );
    let version = ("anthropic-version", "2023-06-01");
    let models = server.request("GET", "/v1/models", &[key, version], "").json();
    assert_eq!((&models["data"][0]["type"], &models["has_more"]), (&json!("model"), &json!(false)));
}
