//! Answers that must look like something.

use crate::common::*;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// An answer, which is the same whole and streamed.
fn both(body: &Value) -> Value {
    both_of(shared(), body)
}

fn both_of(server: &Server, body: &Value) -> Value {
    let whole = server.whole(CHAT, body);
    let streamed = joined_chat(&server.events(CHAT, body));
    assert_eq!(comparable(streamed), comparable(whole.clone()), "{body}");
    whole
}

fn schema(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}})
}

fn contents(answer: &Value) -> Vec<(String, String)> {
    let choices = answer["choices"].as_array().unwrap();
    let one = |choice: &Value| {
        let text = choice["message"]["content"].as_str().unwrap().to_owned();
        (text, choice["finish_reason"].as_str().unwrap().to_owned())
    };
    choices.iter().map(one).collect()
}

/// Whether a value is what a schema allows.
type Check = fn(&Value) -> bool;

/// Schemas that end soon whatever a model would like to write, and whether a value is of them.
fn schemas() -> Vec<(Value, Check)> {
    vec![
        (json!({"type": "boolean"}), |value| value.is_boolean()),
        (json!({"enum": ["red", "green", 3]}), |value| {
            [json!("red"), json!("green"), json!(3)].contains(value)
        }),
        (
            json!({"type": "object", "additionalProperties": false, "required": ["a", "b"],
                "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99},
                    "b": {"type": "string", "maxLength": 8}}}),
            |value| {
                let fields = value.as_object().unwrap();
                let keys: Vec<&String> = fields.keys().collect();
                keys == ["a", "b"]
                    && fields["a"].as_u64().is_some_and(|a| a < 100)
                    && fields["b"].as_str().is_some_and(|b| b.chars().count() <= 8)
            },
        ),
        (
            json!({"type": "array", "minItems": 2, "maxItems": 3, "items": {"$ref": "#/$defs/c"},
                "$defs": {"c": {"anyOf": [{"type": "null"}, {"const": "x"}]}}}),
            |value| {
                let items = value.as_array().unwrap();
                (2..=3).contains(&items.len())
                    && items.iter().all(|item| item.is_null() || item == "x")
            },
        ),
    ]
}

#[test]
fn fault_094_answers_are_valid_behind_thinking_and_without() {
    for (number, (wanted, is_valid)) in schemas().into_iter().enumerate() {
        for thinking in [
            json!({"reasoning_effort": "none"}),
            json!({"reasoning_effort": "low", "reasoning_budget": 6}),
        ] {
            let mut body = chat("Give me a value.", thinking.clone());
            body["response_format"] = schema(&wanted);
            body["max_tokens"] = 150.into();
            body["n"] = 3.into();
            body["seed"] = number.into();
            let answer = both(&body);
            for (text, finish) in contents(&answer) {
                let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
                assert!(is_valid(&value), "{wanted}: {text}");
                assert_eq!(finish, "stop");
            }
            let reasoning = &answer["choices"][0]["message"]["reasoning_content"];
            assert_eq!(reasoning.is_string(), thinking.get("reasoning_budget").is_some());
        }
    }
}

#[test]
fn every_way_of_asking_is_kept_to() {
    let lark = "start: \"a\"~2 \"b\" | \"xyz\"";
    let number: fn(&str) -> bool = |text| text.parse::<u8>().is_ok_and(|n| (10..100).contains(&n));
    let word: fn(&str) -> bool = |text| ["aab", "xyz"].contains(&text);
    let truth: fn(&str) -> bool = |text| ["true", "false"].contains(&text);
    let colour: fn(&str) -> bool = |text| ["red", "blue"].contains(&text);
    for (more, fits) in [
        (json!({"response_format": {"type": "regex", "regex": "[1-9][0-9]"}}), number),
        (json!({"response_format": {"type": "regex", "pattern": "[1-9][0-9]"}}), number),
        (json!({"guided_regex": "[1-9][0-9]"}), number),
        (json!({"structured_outputs": {"regex": "[1-9][0-9]"}}), number),
        (json!({"response_format": {"type": "grammar", "grammar": lark}}), word),
        (json!({"guided_grammar": lark}), word),
        (json!({"guided_json": {"type": "boolean"}}), truth),
        (json!({"guided_json": "{\"type\": \"boolean\"}"}), truth),
        (json!({"response_format": {"type": "json_object", "schema": {"type": "boolean"}}}), truth),
        (json!({"guided_choice": ["red", "blue"]}), colour),
    ] {
        let mut body = chat("Say something.", more.clone());
        body["reasoning_effort"] = "none".into();
        let answer = both(&body);
        let (text, finish) = &contents(&answer)[0];
        assert!(fits(text) && finish == "stop", "{more}: {text:?} {finish}");
        let answer = shared().whole(COMPLETIONS, &completion("Once upon a time", more.clone()));
        let text = answer["choices"][0]["text"].as_str().unwrap();
        assert!(fits(text), "{more}: {text:?}");
    }
}

#[test]
fn an_object_that_is_cut_off_is_told_as_such() {
    let more = json!({"response_format": {"type": "json_object"}, "max_tokens": 4,
        "reasoning_effort": "none", "min_tokens": 4});
    let (text, finish) = &contents(&both(&chat("Give me an object.", more)))[0];
    assert!(text.starts_with('{'), "{text}");
    assert!(finish == "length" || serde_json::from_str::<Value>(text).is_ok());
    let more = json!({"response_format": schema(&json!({"const": "a long text that is cut"})),
        "max_tokens": 2, "reasoning_effort": "none"});
    assert_eq!(contents(&both(&chat("Go.", more)))[0].1, "length");
}

#[test]
fn fault_095_formats_that_cannot_be_enforced_are_refused() {
    let cases = [
        ("response_format.type", json!({"response_format": {"type": "xml"}})),
        ("response_format.type", json!({"response_format": {}})),
        ("response_format.json_schema", json!({"response_format": {"type": "json_schema"}})),
        (
            "response_format.json_schema.schema",
            json!({"response_format": schema(&json!({"properties": {"a": {"if": {}}}}))}),
        ),
        ("response_format.json_schema.schema", json!({"response_format": schema(&json!(3))})),
        ("response_format.regex", json!({"response_format": {"type": "regex"}})),
        ("response_format.regex", json!({"response_format": {"type": "regex", "regex": "("}})),
        ("response_format.extra", json!({"response_format": {"type": "text", "extra": 1}})),
        ("guided_grammar", json!({"guided_grammar": "root ::= \"a\""})),
        ("guided_json", json!({"guided_json": "{"})),
        ("guided_choice", json!({"guided_choice": []})),
        ("guided_regex", json!({"guided_json": {}, "guided_regex": "a"})),
        ("structured_outputs.extra", json!({"structured_outputs": {"extra": 1}})),
    ];
    for (param, more) in cases {
        let error = shared().post(CHAT, &chat("Hello!", more.clone())).error(400);
        assert_eq!(error["param"], param, "{more} {error}");
        shared().post(COMPLETIONS, &completion("Once", more)).error(400);
    }
    let deep = (0..110).fold(json!({}), |inner, _| json!({"items": inner}));
    let reply = shared().post(CHAT, &chat("Hello!", json!({"guided_json": deep, "max_tokens": 1})));
    assert!([200, 400].contains(&reply.status), "{reply:?}");
}

fn tools() -> Value {
    let parameters = json!({"required": ["level", "on", "unit"], "properties": {
        "level": {"enum": [1, 22]}, "on": {"type": "boolean"}, "unit": {"enum": ["C", "F"]}}});
    json!([
        {"type": "function", "function": {"name": "set", "strict": true, "parameters": parameters}},
        {"type": "function", "function": {"name": "now"}},
    ])
}

#[test]
fn forced_calls_are_whole_and_have_typed_arguments() {
    // Tools make long prompts.
    let server = start(Setup { context: 1024, ..Setup::default() });
    let named = json!({"type": "function", "function": {"name": "set"}});
    for (choice, thinking) in [(json!("required"), 0), (json!("required"), 4), (named, 4)] {
        for seed in 0..4 {
            let effort = if thinking == 0 { "none" } else { "low" };
            let more = json!({"tools": tools(), "tool_choice": choice, "max_tokens": 120,
                "seed": seed, "reasoning_effort": effort, "reasoning_budget": thinking,
                "parallel_tool_calls": false});
            let answer = both_of(&server, &chat("It is cold.", more));
            assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
            let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
            let [call] = &calls[..] else { panic!("{answer}") };
            let text = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(text).unwrap();
            if call["function"]["name"] == "now" {
                assert_eq!(arguments, json!({}));
                continue;
            }
            assert_eq!(call["function"]["name"], "set");
            assert!([1, 22].map(Value::from).contains(&arguments["level"]), "{text}");
            assert!(arguments["on"].is_boolean(), "{text}");
            assert!(["C", "F"].map(Value::from).contains(&arguments["unit"]), "{text}");
            assert_eq!(arguments.as_object().unwrap().len(), 3);
        }
    }
}

#[test]
fn strict_functions_leave_other_answers_as_they_are() {
    let more = json!({"max_tokens": 20, "tools": tools(), "reasoning_effort": "none",
        "temperature": 0});
    let strict = both(&chat("Hello!", more.clone()));
    assert!(!contents(&strict)[0].0.is_empty());
    let mut odd = tools();
    odd[0]["function"]["parameters"]["properties"]["level"]["not"] = json!({});
    let mut body = chat("Hello!", more);
    body["tools"] = odd;
    assert_eq!(shared().post(CHAT, &body).error(400)["param"], "tools");
}

#[test]
fn crowds_with_different_formats_do_not_mix_and_cancelled_ones_leave_no_trace() {
    let bodies: Vec<(Value, Check)> = schemas()
        .into_iter()
        .map(|(wanted, is_valid)| {
            let more = json!({"response_format": schema(&wanted), "max_tokens": 120,
                "reasoning_effort": "low", "reasoning_budget": 5});
            (chat("Give me a value.", more), is_valid)
        })
        .collect();
    let alone: Vec<Value> = bodies.iter().map(|(body, _)| shared().whole(CHAT, body)).collect();
    std::thread::scope(|scope| {
        for round in 0..3 {
            for ((body, is_valid), alone) in bodies.iter().zip(&alone) {
                scope.spawn(move || {
                    let answer = shared().whole(CHAT, body);
                    assert_eq!(comparable(answer.clone()), comparable(alone.clone()));
                    assert!(is_valid(&serde_json::from_str(&contents(&answer)[0].0).unwrap()));
                });
                scope.spawn(move || {
                    let mut body = body.clone();
                    body["stream"] = true.into();
                    body["seed"] = (100 + round).into();
                    let mut stream = shared().open(CHAT, &body);
                    read_until(&mut stream, "data: ");
                    drop(stream);
                });
            }
        }
    });
}

#[test]
fn drafts_change_nothing_about_answers_with_a_format() {
    let drafts = ["off", "mtp:3", "mtp+lookup:8"].map(|mode| {
        let mut setup = Setup::default();
        setup.config.drafts = mode.parse().unwrap();
        let server = start(setup);
        let ask = |(wanted, _): (Value, Check)| {
            let more = json!({"response_format": schema(&wanted), "max_tokens": 120,
                "reasoning_effort": "low", "reasoning_budget": 8, "n": 2});
            comparable(server.whole(CHAT, &chat("Give me a value.", more)))
        };
        schemas().into_iter().map(ask).collect::<Vec<_>>()
    });
    assert_eq!(drafts[0], drafts[1]);
    assert_eq!(drafts[0], drafts[2]);
}
