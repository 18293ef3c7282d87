//! Too many requests, a server that is asked to stop, and an engine that fails.

use crate::common::*;
use serde_json::json;
use server::{Public, ServerConfig, check};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

fn long(more: &serde_json::Value) -> serde_json::Value {
    let mut body = chat("Go on.", json!({"logit_bias": {"300": 100}, "temperature": 0}));
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn fault_109_a_full_queue_is_told_with_a_time_to_try_again() {
    let server = start(Setup { slots: 1, queue: 1, ..Setup::default() });
    let active = server.open(CHAT, &long(&json!({})));
    server.wait("one is live", |now| now["queue"]["live"] == 1);
    let waiting = server.open(CHAT, &long(&json!({})));
    server.wait("one waits", |now| now["queue"]["waiting"] == 1);
    for stream in [true, false] {
        let reply = server.post(CHAT, &long(&json!({"stream": stream})));
        assert_eq!(reply.header("retry-after"), Some("1"));
        let error = reply.error(429);
        assert_eq!(
            (&error["type"], &error["code"]),
            (&"rate_limit_error".into(), &"queue_full".into())
        );
    }
    // Several answers are taken on together or not at all.
    drop(waiting);
    server.wait("none waits", |now| now["queue"]["waiting"] == 0);
    server.post(CHAT, &long(&json!({"n": 2}))).error(429);
    server.wait("none of them waits", |now| now["queue"]["waiting"] == 0);
    // What could never be taken on is no matter of time.
    assert_eq!(server.post(CHAT, &long(&json!({"n": 3}))).error(400)["param"], "n");
    drop(active);
}

#[test]
fn fault_110_a_server_that_is_asked_to_stop_ends_what_it_does() {
    let server = start(Setup { slots: 1, ..Setup::default() });
    let mut connection = server.open(CHAT, &long(&json!({"stream": true, "max_tokens": 150})));
    read_until(&mut connection, "reasoning_content");
    server.stopper.ask();
    let rest = read_until(&mut connection, "[DONE]");
    assert!(rest.contains("\"finish_reason\":\"length\""));
    assert!(refuses(&server), "it takes nothing new");
}

#[test]
fn fault_110_asked_twice_it_stops_at_once() {
    let mut setup = Setup { slots: 1, ..Setup::default() };
    setup.config.drain = Duration::from_secs(600);
    let server = start(setup);
    let mut connection = server.open(CHAT, &long(&json!({"stream": true})));
    read_until(&mut connection, "reasoning_content");
    // Asks twice and waits for the end.
    drop(server);
}

#[test]
fn fault_110_requests_that_do_not_end_are_broken_off_with_a_word() {
    let input = json!({"input": "Go on.", "messages": null});
    for (path, more, word) in [
        (CHAT, json!({}), "data: {\"error\""),
        ("/v1/messages", json!({}), "event: error"),
        ("/v1/responses", input, "event: response.failed"),
    ] {
        let mut setup = Setup { slots: 1, ..Setup::default() };
        setup.config.drain = Duration::from_millis(1);
        let server = start(setup);
        let mut body = long(&json!({"stream": true}));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut connection = server.open(path, &body);
        read_until(&mut connection, "delta");
        server.stopper.ask();
        let rest = read_until(&mut connection, "shutting down");
        assert!(rest.contains(word), "{rest}");
    }
}

fn refuses(server: &Server) -> bool {
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(server.address).is_err()
    })
}

#[test]
fn one_who_never_ends_its_headers_is_cut_off() {
    let mut setup = Setup::default();
    setup.config.limits.header_time = Duration::from_millis(200);
    let server = start(setup);
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
}

#[test]
fn one_who_does_not_read_is_cut_off() {
    let mut setup = Setup::default();
    setup.config.limits.write_time = Duration::from_millis(300);
    setup.config.limits.connections = 1;
    let server = start(setup);
    let mut deaf = TcpStream::connect(server.address).unwrap();
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    // More than the system keeps for one who does not read.
    let requests = request.repeat((64 << 20) / include_str!("../../src/openapi.json").len());
    deaf.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let _ = deaf.write_all(requests.as_bytes());
    // There is one place only, so this is answered once the other is gone.
    assert_eq!(server.get("/health").status, 200);
    drop(deaf);
}

#[test]
fn connections_over_the_limit_wait_for_a_place() {
    let mut setup = Setup::default();
    setup.config.limits.connections = 2;
    let server = start(setup);
    let first = TcpStream::connect(server.address).unwrap();
    let second = TcpStream::connect(server.address).unwrap();
    std::thread::scope(|scope| {
        let third = scope.spawn(|| server.get("/health").status);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!third.is_finished());
        drop((first, second));
        assert_eq!(third.join().unwrap(), 200);
    });
}

#[test]
fn a_public_address_needs_a_key() {
    let mut config = ServerConfig { address: ([0, 0, 0, 0], 0).into(), ..ServerConfig::local(0) };
    let error = check(&config).unwrap_err().to_string();
    assert!(error.contains("0.0.0.0:0") && error.contains("--api-key-file"), "{error}");
    config.public = Public::Insecure;
    check(&config).unwrap();
    config.public = Public::WithKey;
    config.access.keys.push("key".to_owned());
    check(&config).unwrap();
    check(&ServerConfig::local(0)).unwrap();
}
