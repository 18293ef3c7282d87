//! `/v1/completions`, and the endpoints that generate nothing.

use crate::common::*;
use serde_json::{Value, json};

const PATH: &str = "/v1/completions";

/// An answer, which is the same whole and streamed.
fn both(body: &Value) -> Value {
    let whole = shared().whole(PATH, body);
    let events = shared().events(PATH, body);
    let choices = whole["choices"].as_array().unwrap();
    for (index, choice) in choices.iter().enumerate() {
        let mut joined = json!({"text": "", "finish_reason": null});
        let mut tokens =
            json!({"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []});
        for event in &events {
            assert_eq!(
                (&event["object"], &event["id"]),
                (&"text_completion".into(), &events[0]["id"])
            );
            let part = &event["choices"][0];
            if part["index"] != index {
                continue;
            }
            joined["text"] =
                format!("{}{}", joined["text"].as_str().unwrap(), part["text"].as_str().unwrap())
                    .into();
            joined["finish_reason"] = part["finish_reason"].clone();
            for (key, list) in part["logprobs"].as_object().into_iter().flatten() {
                tokens[key].as_array_mut().unwrap().extend(list.as_array().unwrap().clone());
            }
        }
        assert_eq!(
            (&joined["text"], &joined["finish_reason"]),
            (&choice["text"], &choice["finish_reason"])
        );
        if choice["logprobs"].is_object() {
            assert_eq!(tokens, choice["logprobs"]);
        }
    }
    whole
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["text"].as_str().unwrap()
}

#[test]
fn streamed_and_whole_answers_are_the_same() {
    for more in [
        json!({}),
        json!({"max_tokens": 30, "temperature": 0}),
        json!({"max_tokens": 20, "n": 2, "top_k": 5, "min_p": 0.05}),
        json!({"max_tokens": 20, "logprobs": 2}),
        json!({"max_tokens": 20, "presence_penalty": 0.5, "frequency_penalty": 0.5,
            "repetition_penalty": 1.2}),
        json!({"max_tokens": 20, "echo": true}),
        json!({"max_tokens": 30, "stop": "."}),
    ] {
        both(&completion("Once upon a time", more));
    }
}

#[test]
fn sixteen_tokens_are_drawn_where_nothing_is_said() {
    let answer = both(&completion("Once upon a time", json!({})));
    assert_eq!(answer["usage"]["completion_tokens"], 16);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn fault_112_temperature_zero_is_greedy_and_a_negative_one_is_refused() {
    let ask = |temperature: &str| {
        let body =
            format!(r#"{{"prompt": "Once", "max_tokens": 8, "temperature": {temperature}}}"#);
        shared().request("POST", PATH, &[], &body)
    };
    let (zero, minus_zero) = (ask("0").json(), ask("-0.0").json());
    assert_eq!(text(&zero), text(&minus_zero));
    for bad in ["-0.1", "1e39"] {
        let error = ask(bad).error(400);
        assert_eq!(error["param"], "temperature");
    }
}

#[test]
fn fault_113_top_k_has_no_upper_limit_and_two_ways_to_be_off() {
    let ask = |top_k: i64| {
        shared()
            .post(PATH, &completion("Once", json!({"max_tokens": 6, "top_k": top_k, "top_p": 1})))
    };
    let all = ask(0).json();
    for top_k in [-1, 9_999_999] {
        assert_eq!(text(&ask(top_k).json()), text(&all));
    }
    assert_eq!(ask(-2).error(400)["param"], "top_k");
}

#[test]
fn fault_119_no_tokens_end_at_once_and_no_prompt_is_refused() {
    let answer = both(&completion("Once", json!({"max_tokens": 0})));
    assert_eq!((text(&answer), &answer["choices"][0]["finish_reason"]), ("", &"length".into()));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    for prompt in [json!(""), json!([]), json!([""]), json!([[]])] {
        let error = shared().post(PATH, &json!({"prompt": prompt})).error(400);
        assert_eq!(error["param"], "prompt");
    }
    let error = shared().post(PATH, &json!({})).error(400);
    assert_eq!(error["param"], "prompt");
}

#[test]
fn fault_092_bytes_that_are_no_text_never_break_the_json() {
    // A lone lead byte, an overlong form, a surrogate, beyond the last character.
    let vocabulary = shared().whole("/tokenize", &json!({"content": "\u{e9}\u{4f60}\u{10ffff}"}));
    let ids: Vec<u64> =
        vocabulary["tokens"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    for id in ids {
        let bias = json!({id.to_string(): 100});
        let more = json!({"max_tokens": 6, "temperature": 0, "logit_bias": bias, "logprobs": 1});
        let answer = both(&completion("x", more));
        assert!(!text(&answer).is_empty());
    }
}

#[test]
fn token_ids_are_a_prompt_as_well() {
    let ids =
        shared().whole("/tokenize", &json!({"content": "Once upon a time"}))["tokens"].clone();
    let of_ids = both(&json!({"prompt": ids, "seed": 7}));
    assert_eq!(text(&of_ids), text(&both(&completion("Once upon a time", json!({})))));
    let error = shared().post(PATH, &json!({"prompt": [4_294_967_295u32]})).error(400);
    assert_eq!(error["param"], "prompt");
}

#[test]
fn a_stop_string_is_not_shown() {
    let free = both(&completion("Once upon a time", json!({"max_tokens": 30, "temperature": 0})));
    let stop: String = text(&free).chars().skip(12).take(5).collect();
    let more = json!({"max_tokens": 30, "temperature": 0, "stop": [stop, "never there"]});
    let cut = both(&completion("Once upon a time", more));
    assert!(text(&free).starts_with(text(&cut)) && !text(&cut).contains(&stop));
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
}

#[test]
fn echo_brings_the_prompt_first() {
    let plain = both(&completion("Once upon a time", json!({})));
    let echoed = both(&completion("Once upon a time", json!({"echo": true})));
    assert_eq!(text(&echoed), format!("Once upon a time{}", text(&plain)));
}

#[test]
fn text_becomes_tokens_and_back() {
    let given = "H\u{e9}llo <|im_end|> \u{1f642}";
    let tokens = shared().whole("/tokenize", &json!({"content": given}));
    let back = shared().whole("/detokenize", &json!({"tokens": tokens["tokens"]}));
    assert_eq!(back["content"], given);
    let pieces = shared().whole("/tokenize", &json!({"content": "a b", "with_pieces": true}));
    assert_eq!(pieces["tokens"][0]["piece"], "a");
    assert_eq!(shared().post("/tokenize", &json!({})).error(400)["param"], "content");
    let far = json!({"tokens": [4_000_000_000u32]});
    assert_eq!(shared().post("/detokenize", &far).error(400)["param"], "tokens");
}

#[test]
fn models_health_status_and_metrics_are_there() {
    let models = shared().get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "sample");
    assert_eq!(shared().get("/v1/models/sample").json()["object"], "model");
    assert_eq!(shared().get("/v1/models/org/other").json()["id"], "sample");
    assert_eq!(shared().get("/v1/models/else").error(404)["code"], "model_not_found");
    assert_eq!(shared().get("/health").json()["status"], "ok");
    shared().whole(PATH, &completion("Once", json!({})));
    let status =
        shared().wait("counts", |it| it["totals"]["tokens_generated"].as_u64() >= Some(16));
    assert_eq!(status["slots"].as_array().unwrap().len(), 4);
    let metrics = shared().get("/metrics").text;
    for name in [
        "tuff_http_requests_total{path=\"/v1/completions\",status=\"200\"}",
        "tuff_generated_tokens_total ",
        "tuff_first_event_seconds_bucket",
        "tuff_requests_live ",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} in {metrics}");
    }
    let memory = metrics.contains("\nprocess_resident_memory_bytes ");
    assert_eq!(memory, cfg!(target_os = "linux"));
    assert_eq!(shared().get("/openapi.json").json()["openapi"], "3.1.0");
}
