//! What is refused, how, and before anything is sent.

use crate::common::*;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

#[test]
fn fault_106_fault_107_a_prompt_that_is_too_long_is_told_before_the_first_event() {
    let long = "word ".repeat(CONTEXT + 10);
    for (path, body) in [
        (CHAT, chat(&long, json!({}))),
        (CHAT, chat(&long, json!({"stream": true}))),
        (COMPLETIONS, completion(&long, json!({"stream": true}))),
    ] {
        let reply = shared().post(path, &body);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let error = reply.error(400);
        // Fault 107: numbers for programs.
        assert_eq!(error["type"], "exceed_context_size_error");
        assert_eq!(error["code"], "context_length_exceeded");
        assert_eq!(error["n_ctx"], CONTEXT);
        assert!(error["n_prompt_tokens"].as_u64().unwrap() > CONTEXT as u64);
    }
}

#[test]
fn fields_that_would_change_the_answer_are_named() {
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}});
    let cases = [
        ("response_format.json_schema.schema", json!({"response_format": format})),
        ("response_format.type", json!({"response_format": {"type": "made_up"}})),
        ("functions", json!({"functions": []})),
        ("audio", json!({"audio": {}})),
        ("web_search_options", json!({"web_search_options": {}})),
        ("made_up", json!({"made_up": 1})),
        ("n", json!({"n": 0})),
        ("n", json!({"n": 1000})),
        ("top_logprobs", json!({"top_logprobs": 2})),
        ("top_logprobs", json!({"logprobs": true, "top_logprobs": 21})),
        ("top_p", json!({"top_p": 1.5})),
        ("min_p", json!({"min_p": -1})),
        ("presence_penalty", json!({"presence_penalty": "x"})),
        ("logit_bias", json!({"logit_bias": {"x": 1}})),
        ("logit_bias", json!({"logit_bias": {"1": 101}})),
        ("logit_bias", json!({"logit_bias": {"4000000": 1}})),
        ("stop", json!({"stop": [1]})),
        ("stop", json!({"stop": vec!["x"; 17]})),
        ("stop", json!({"stop": "x".repeat(2000)})),
        ("max_tokens", json!({"max_tokens": -1})),
        ("seed", json!({"seed": "x"})),
        ("stream", json!({"stream": "yes"})),
        ("tools", json!({"tools": {}})),
        ("tool_choice", json!({"tool_choice": "required"})),
        ("model", json!({"model": "gpt-4"})),
        ("modalities", json!({"modalities": ["text", "audio"]})),
        ("chat_template_kwargs.messages", json!({"chat_template_kwargs": {"messages": []}})),
        ("messages", json!({"messages": []})),
        ("messages", json!({"messages": "x"})),
        ("messages", json!({"messages": [{"role": "assistant", "content": "x"}]})),
        (
            "messages[0].content[0].type",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        ),
    ];
    for (param, more) in cases {
        for stream in [false, true] {
            let mut body = chat("Hello!", more.clone());
            if body.get("stream").is_none() {
                body["stream"] = stream.into();
            }
            let reply = shared().post(CHAT, &body);
            let wanted = if param == "model" { 404 } else { 400 };
            assert_eq!(reply.error(wanted)["param"], param, "{body}");
        }
    }
    let harmless = json!({"max_tokens": 1, "user": "me", "metadata": {"a": "b"}, "store": false,
        "service_tier": "auto", "model": "sample", "top_logprobs": null,
        "parallel_tool_calls": true});
    shared().whole(CHAT, &chat("Hello!", harmless));
    let other = json!({"max_tokens": 1, "model": "org/other"});
    assert_eq!(shared().whole(CHAT, &chat("Hello!", other))["model"], "sample");
}

#[test]
fn bad_bodies_are_told_where() {
    for (body, place) in [
        ("{\"messages\": [}", Some("line 1 column 15")),
        ("{\n \"prompt\" 1}", Some("line 2 column 11")),
        ("nothing", Some("column")),
        ("[1]", None),
        ("\"x\"", None),
        ("{\"prompt\": \"\\ud800\"}", Some("column")),
    ] {
        let reply = shared().request("POST", COMPLETIONS, &[], body);
        let error = reply.error(400);
        let message = error["message"].as_str().unwrap();
        assert!(place.is_none_or(|place| message.contains(place)), "{body}: {message}");
    }
    let deep = format!("{{\"prompt\": {}", "[".repeat(100_000));
    shared().request("POST", COMPLETIONS, &[], &deep).error(400);
}

#[test]
fn a_body_whose_parts_are_malformed_is_no_large_one() {
    let mut stream = TcpStream::connect(shared().address).unwrap();
    let head =
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}nonsense\r\n").as_bytes()).unwrap();
    let answer = read_until(&mut stream, "cannot be read");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[test]
fn large_bodies_and_texts_are_taken_up_to_their_limits() {
    let large = |bytes: usize| json!({"content": "word ".repeat(bytes / 5)});
    let found = shared().whole("/tokenize", &large(2 << 20));
    assert_eq!(found["count"], found["tokens"].as_array().unwrap().len());
    assert_eq!(shared().post("/tokenize", &large(5 << 20)).error(400)["param"], "content");
    let many = json!({"tokens": vec![1; (1 << 20) + 1]});
    assert_eq!(shared().post("/detokenize", &many).error(400)["param"], "tokens");
    let few = shared().whole("/tokenize", &json!({"content": "a \"b\"", "with_pieces": true}));
    let pieces = few["tokens"].as_array().unwrap();
    let text: String = pieces.iter().map(|token| token["piece"].as_str().unwrap()).collect();
    assert_eq!(text, "a \"b\"");
    let ids: Vec<&Value> = pieces.iter().map(|token| &token["id"]).collect();
    assert_eq!(shared().whole("/detokenize", &json!({"tokens": ids}))["content"], text);
}

#[test]
fn paths_and_methods_that_are_not_there_answer_in_json() {
    for path in [
        "/index.html",
        "/v1",
        "/v1/chat",
        "/v1/chat/completions/",
        "/../etc/passwd",
        "/v1/models/../x",
        "/web/%ff",
    ] {
        let reply = shared().get(path);
        assert!([404, 405].contains(&reply.status), "{path}: {reply:?}");
        reply.error(reply.status);
    }
    assert_eq!(shared().get("/v1/models/%ff").error(400)["param"], "model");
    let wrong_method = shared().get(CHAT);
    wrong_method.error(405);
    assert_eq!(wrong_method.header("allow"), Some("POST"));
    shared().request("DELETE", "/v1/models", &[], "").error(405);
    shared().post("/health", &json!({})).error(405);
    // Without an origin that is allowed there is nothing to ask before a request.
    let ask = [("origin", "http://a.example"), ("access-control-request-method", "POST")];
    shared().request("OPTIONS", CHAT, &ask, "").error(403);
}

#[test]
fn pages_of_other_sites_get_nothing() {
    let body = completion("Once", json!({"max_tokens": 1})).to_string();
    let ask = |origin: &str| shared().request("POST", COMPLETIONS, &[("origin", origin)], &body);
    ask("http://evil.example").error(403);
    ask("null").error(403);
    let own = ask(&format!("http://{}", shared().address));
    assert_eq!(own.status, 200);
    assert_eq!(own.header("access-control-allow-origin"), None);
}

#[test]
fn names_that_others_gave_this_machine_get_nothing() {
    for path in ["/v1/status", "/metrics", "/v1/models", "/"] {
        let ask = |host: &str| shared().request("GET", path, &[("host", host)], "");
        ask("evil.example").error(403);
        assert_eq!(ask("localhost:1").status, 200, "{path}");
    }
}

#[test]
fn keys_and_origins_are_kept_to() {
    let mut setup = Setup::default();
    setup.config.access.keys = vec!["secret".to_owned()];
    setup.config.access.origins = vec!["http://a.example".to_owned()];
    setup.config.limits.body_bytes = 2000;
    let server = start(setup);
    let refused = server.get("/v1/models");
    assert_eq!(refused.error(401)["type"], "authentication_error");
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    server.post(CHAT, &chat("Hello!", json!({}))).error(401);
    server.get("/no/such/path").error(401);
    assert_eq!(server.get("/health").status, 200);
    let with = |headers: &[(&str, &str)]| server.request("GET", "/v1/models", headers, "");
    assert_eq!(with(&[("authorization", "Bearer secret")]).status, 200);
    assert_eq!(with(&[("x-api-key", "secret")]).status, 200);
    with(&[("authorization", "Bearer wrong")]).error(401);
    let page = with(&[("x-api-key", "secret"), ("origin", "http://a.example")]);
    assert_eq!(page.header("access-control-allow-origin"), Some("http://a.example"));
    with(&[("x-api-key", "secret"), ("origin", "http://b.example")]).error(403);
    let ask = [("origin", "http://a.example"), ("access-control-request-method", "POST")];
    let preflight = server.request("OPTIONS", CHAT, &ask, "");
    assert_eq!(
        (preflight.status, preflight.header("access-control-allow-origin")),
        (200, Some("http://a.example"))
    );
    // A body over the limit, told by its length and without one.
    let long = completion(&"x".repeat(3000), json!({})).to_string();
    let key = ("x-api-key", "secret");
    let error = server.request("POST", COMPLETIONS, &[key], &long).error(413);
    assert_eq!(error["code"], "body_too_large");
}

#[test]
fn fault_092_errors_are_valid_json_whatever_was_sent() {
    for name in ["\u{0}", "\"", "\\", "\u{1f642}", "<script>"] {
        let mut body = chat("Hello!", json!({}));
        body[name] = 1.into();
        let error = shared().post(CHAT, &body).error(400);
        assert_eq!(error["param"], Value::from(name));
    }
    let body = b"{\"prompt\": \"\xc0\x80\"}";
    let text = String::from_utf8_lossy(body);
    assert_eq!(shared().request("POST", COMPLETIONS, &[], &text).status, 200);
}
